"""Experiments under distributed differential privacy: the difference between two arms, from secure sums alone.

Everybody reports two numbers, of their value and of its square (`equistrata.inference.federated.poisson_binomial`); an aggregator adds the
reports of each arm without seeing one; the sums give a difference of means with an interval. The accounting is
`equistrata.inference.federated.renyi`, the intervals `equistrata.inference.federated.arms`, and intervals that hold at any n `equistrata.inference.federated.finite_sample`.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> treated, control = rng.normal(0.3, 0.2, 4000).clip(-1, 1), rng.normal(0.1, 0.2, 3000).clip(-1, 1)
>>> found = private_difference(treated, control, radius=1, epsilon=1, delta=1e-6, noise=SeededNoise(1))
>>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3), found.private
(0.19, 0.181, 0.199, False)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts
from equistrata.errors import InputError
from equistrata.inference.federated.aggregation import add_modulo
from equistrata.inference.federated.arms import Arm, Target, check_interval, combine, exact_arm
from equistrata.inference.federated.poisson_binomial import PoissonBinomial, SquareReports, check_values
from equistrata.inference.federated.renyi import (
    MAX_THETA,
    epsilon_spent,
    renyi_exact,
    renyi_fast,
    solve_theta,
    solve_thetas,
)
from equistrata.privacy.budget import REPLACE_ONE, Relation
from equistrata.privacy.noise import NoiseSource

__all__ = [
    "MAX_THETA",
    "Arm",
    "ArmSettings",
    "Difference",
    "PoissonBinomial",
    "combine",
    "epsilon_spent",
    "exact_arm",
    "private_arm",
    "private_difference",
    "renyi_exact",
    "renyi_fast",
    "settle",
    "solve_theta",
    "solve_thetas",
]

TRIALS = 1024
MEAN_SHARE = 0.99
LARGEST_OMEGA_WISHED = 0.5  # how well an arm's variance should be known, beside its noise; see `default_mean_share`


@dataclass(frozen=True)
class ArmSettings:
    """What everybody in an arm must know before reporting, all of it public.

    Attributes:
        rows: n, at least 2; the others' coins hide each person's, so n sets θ.
        mean, squares: the randomizers of the value and of its square.
    """

    rows: int
    mean: PoissonBinomial
    squares: SquareReports

    @property
    def moduli(self) -> tuple[int, int]:
        """nm + 1 for the two sums."""
        return self.mean.modulus(self.rows), self.squares.unit.modulus(self.rows)

    def reports(self, values: npt.ArrayLike, noise: NoiseSource) -> Counts:
        """The two sums of these people's reports, of their values and of their squares. Shape (2,)."""
        x = check_values(values, self.mean.radius)
        return np.array([self.mean.reports(x, noise).sum(), self.squares.reports(x, noise).sum()], dtype=np.int64)

    def epsilon(self, delta: float, orders: Sequence[float] | None = None) -> float:
        """The ε that both sums cost together at δ. Replace-one within the arm."""
        unit = self.squares.unit
        return epsilon_spent(
            [(self.rows, self.mean.trials, self.mean.theta), (self.rows, unit.trials, unit.theta)], delta, orders
        )


@dataclass(frozen=True)
class Difference:
    """The private difference of two arms' means; all of its fields may be published.

    Attributes:
        value, lower, upper: the estimate, treated less control, and its interval, in the unit of the values.
        level: what the interval covers as n grows.
        target: "pate" or "sate".
        treated, control: the arms it was made from.
        settings: theirs, in the same order.
        epsilon, delta: the guarantee. A person is in one arm, so the arms cost no more together than each.
        relation: neighbours replace one person's value; the person stays in the arm, and the arms' sizes are public.
        private: whether the coins came from a source fit for real releases.
    """

    value: float
    lower: float
    upper: float
    level: float
    target: Target
    treated: Arm
    control: Arm
    settings: tuple[ArmSettings, ArmSettings]
    epsilon: float
    delta: float
    relation: Relation = REPLACE_ONE
    private: bool = False


def settle(
    rows: int,
    *,
    radius: float,
    epsilon: float,
    delta: float,
    trials: int = TRIALS,
    mean_share: float | None = None,
    orders: Sequence[float] | None = None,
    maximum: float = MAX_THETA,
) -> ArmSettings:
    """Settings at which the two sums of an arm of `rows` people are (ε, δ)-DP.

    Args:
        rows: n ≥ 2, public.
        radius: R > 0, declared; values lie in [−R, R].
        epsilon, delta: ε > 0 and 0 < δ < 1.
        trials: m, for both sums.
        mean_share: the part of the divergence that the mean gets, in (0, 1); None for `default_mean_share`. The paper's
            is 0.99.
        orders, maximum: as `equistrata.inference.federated.renyi.solve_theta`.

    Raises:
        InputError: a setting out of its range, an arm of one row among them.

    Privacy: replace-one within the arm. Proof: each sum costs its Rényi divergence (`renyi_exact`), the fast bound is
    never below it, divergences of a composition add at every order, and θ and θ₂ were solved for their sum.
    """
    _check_rows(rows)
    PoissonBinomial(trials, maximum, radius)
    share = default_mean_share(rows, trials, epsilon, delta) if mean_share is None else mean_share
    thetas = _thetas(
        index(rows),
        index(trials),
        float(epsilon),
        float(delta),
        share,
        None if orders is None else tuple(orders),
        maximum,
    )
    mean = PoissonBinomial(trials, thetas[0], radius)
    return ArmSettings(rows, mean, mean.of_squares(trials, thetas[1]))


def default_mean_share(rows: int, trials: int, epsilon: float, delta: float) -> float:
    """0.99, or less where the remaining part could not tell the variance from the noise.

    Where ε is large, an arm's noise is small, and 1 % of the budget reads the variance with an error of the size of all
    there is to read. The share f is the largest for which the standard deviation of ŝ²/n is at most half of the noise's
    variance: √(m/n)·θ·f/√(1 − f) = ½, θ being what the whole budget would allow and θ² in proportion to the share. Depends
    on public settings only.

    >>> round(default_mean_share(500, 1024, 0.5, 1e-6), 3), round(default_mean_share(500, 1024, 3, 1e-6), 3)
    (0.99, 0.924)
    """
    return share_for(1 / (math.sqrt(trials / rows) * solve_theta(rows, trials, epsilon, delta)))


def share_for(signal: float) -> float:
    """The largest share f ≤ 0.99 at which f/√(1 − f)/signal, the noise in ŝ²/n beside that in the mean, is at most ½."""
    wished = LARGEST_OMEGA_WISHED * signal
    # f = (−w² + w√(w² + 4))/2, without the cancellation for large w.
    return min(MEAN_SHARE, 2 * wished / (math.sqrt(wished**2 + 4) + wished))


def private_arm(totals: npt.ArrayLike, settings: ArmSettings, *, rows: int | None = None) -> Arm:
    """The arm that the two sums of reports tell of.

    Args:
        totals: the sums of the values' and the squares' reports, first axis of length 2; arrays for many runs.
        settings: what the people reported by.
        rows: how many did report, if not `settings.rows`.

    Returns:
        The arm. With μ the mean among people and s² their variance, the mean's estimate has variance
        R²/(4nmθ²) − μ²/(nm) + s²(1 − 1/m)/n: the coins' exact variance, not the bound ¼ of p(1 − p). ŝ² is the noisy second
        moment, less the squared mean, corrected for the noise in that.

    Privacy: post-processing.
    """
    n = settings.rows if rows is None else rows
    sums = np.asarray(totals)
    mean, moment = settings.mean.mean(sums[0], n), settings.squares.mean(sums[1], n)
    bound, moment_noise = settings.mean.noise(n), settings.squares.noise(n)
    trials, radius = settings.mean.trials, settings.mean.radius
    squared = np.clip(mean**2 - bound, 0, radius**2)  # μ², of which `bound` is noise
    noise = bound - squared / (n * trials)
    kept = 1 - (1 - 1 / trials) / n
    variance = (moment - mean**2 + noise) / kept
    variance_noise = (moment_noise + 4 * squared * bound + 2 * bound**2) / kept**2
    single = mean.ndim == 0
    return Arm(
        rows=n,
        mean=float(mean) if single else mean,
        variance=float(variance) if single else variance,
        moment=float(moment) if single else moment,
        noise=float(noise) if single else noise,
        overlap=1 / trials,
        variance_noise=float(variance_noise) if single else variance_noise,
        radius=radius,
    )


def private_difference(
    treated: npt.ArrayLike,
    control: npt.ArrayLike,
    *,
    radius: float,
    epsilon: float,
    delta: float,
    noise: NoiseSource,
    trials: int = TRIALS,
    mean_share: float | None = None,
    target: Target = "pate",
    level: float = 0.9,
) -> Difference:
    """The average treatment effect from two arms' values, as if each person had reported through secure sums.

    Args:
        treated, control: values in [−R, R], shape (n_t,) and (n_c,), at least two each; sizes are public.
        radius, epsilon, delta, trials, mean_share: as `settle`, for each arm.
        noise: where the coins come from.
        target, level: as `equistrata.inference.federated.arms.combine`.

    Returns:
        The difference with its interval and its price.

    Raises:
        InputError: a value outside [−R, R], an arm of one row, fewer than one trial, or any other setting out of its range,
            before any noise is drawn.

    Privacy: (ε, δ)-DP; neighbours replace one person's value within an arm. The sums are added here in the clear, modulo
    nm + 1: a simulation of secure aggregation. `equistrata federate` has a real one.
    Source: the federated-experiments paper, Algorithm 1.
    """
    values = [check_values(arm, radius) for arm in (treated, control)]
    settings = [
        settle(len(x), radius=radius, epsilon=epsilon, delta=delta, trials=trials, mean_share=mean_share)
        for x in values
    ]
    check_interval(level, target)
    sums = [
        add_modulo([chosen.reports(x, noise.spawn(stream))], chosen.moduli)
        for stream, (x, chosen) in enumerate(zip(values, settings, strict=True))
    ]
    arms = [private_arm(pair, chosen) for pair, chosen in zip(sums, settings, strict=True)]
    value, half = (float(number) for number in combine(arms, [1, -1], level, target=target))
    return Difference(
        value=value,
        lower=value - half,
        upper=value + half,
        level=level,
        target=target,
        treated=arms[0],
        control=arms[1],
        settings=(settings[0], settings[1]),
        epsilon=epsilon,
        delta=delta,
        private=noise.private,
    )


@lru_cache(maxsize=1024)
def _thetas(
    rows: int, trials: int, epsilon: float, delta: float, share: float, orders: tuple[float, ...] | None, maximum: float
) -> tuple[float, float]:
    return solve_thetas(rows, (trials, trials), epsilon, delta, mean_share=share, orders=orders, maximum=maximum)


def _check_rows(rows: int) -> None:
    if isinstance(rows, bool) or not hasattr(rows, "__index__") or index(rows) < 2:
        raise InputError(f"an arm needs at least two rows for a variance, and one has {rows!r}")
