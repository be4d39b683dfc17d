"""A federated A/B test: the private difference between two arms, from secure sums alone.

Each person reports two numbers, of their value and of its square (`equistrata.inference.federated.poisson_binomial`).
An aggregator adds the reports of each arm without seeing one. Accounting: `equistrata.inference.federated.renyi`;
intervals: `equistrata.inference.federated.arms`, and `finite_sample_interval` for any n.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> treated, control = rng.normal(0.3, 0.2, 4000).clip(-1, 1), rng.normal(0.1, 0.2, 3000).clip(-1, 1)
>>> design = ArmDesign(radius=1, target=ThetaTarget(epsilon=1, delta=1e-6))
>>> found = private_difference(treated, control, design, SeededNoise(1))
>>> round(found.value, 3), round(found.lower, 3), round(found.upper, 3), found.private
(0.19, 0.181, 0.199, False)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.inference.federated.aggregation import add_modulo
from equistrata.inference.federated.arms import Arm, Target, added, check_interval, check_rows, interval_of
from equistrata.inference.federated.poisson_binomial import PoissonBinomial, check_values
from equistrata.inference.federated.renyi import ThetaTarget, epsilon_spent, solve_theta, solve_thetas
from equistrata.inference.means.estimate import Interval
from equistrata.privacy.budget import REPLACE_ONE, Relation
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.checks import share

TRIALS = 1024
MEAN_SHARE = 0.99  # of the divergence, at most, for the mean
BOUND_SHARE = 0.95  # of the failure probability of a finite-sample interval; bounds on the variances share the rest
WANTED_OMEGA = 0.5  # standard deviation of ŝ²/n over the noise variance of the mean; see `default_mean_share`


@dataclass(frozen=True)
class ArmSettings:
    """How n ≥ 2 people of one arm report, all of it public: the randomizers of the value and of its square."""

    rows: int
    mean: PoissonBinomial
    squares: PoissonBinomial

    @property
    def moduli(self) -> tuple[int, int]:
        """nm + 1 for the two sums."""
        return self.mean.modulus(self.rows), self.squares.modulus(self.rows)

    def reports(self, values: npt.ArrayLike, noise: NoiseSource) -> Counts:
        """The two sums of these people's reports, of their values and of their squares. Shape (2,)."""
        return np.array([each.reports(values, noise).sum() for each in (self.mean, self.squares)], dtype=np.int64)

    def epsilon(self, delta: float) -> float:
        """The ε that both sums cost together at δ. Replace-one within the arm."""
        sums = [(self.rows, each.trials, each.theta) for each in (self.mean, self.squares)]
        return epsilon_spent(sums, delta)


@dataclass(frozen=True)
class ArmDesign:
    """What two arms agree on before their sizes are known, all of it public.

    Attributes:
        radius: R > 0, declared; values lie in [−R, R].
        target: the guarantee of both sums of an arm together.
        trials: m, for both sums.
        mean_share: the mean's part of the divergence, in (0, 1); None for `default_mean_share`. The paper's is 0.99.
    """

    radius: float
    target: ThetaTarget
    trials: int = TRIALS
    mean_share: float | None = None

    def __post_init__(self) -> None:
        PoissonBinomial(self.trials, self.target.maximum, self.radius)  # checks trials and radius
        if self.mean_share is not None:
            share("the mean's share of the budget", self.mean_share)

    def settings(self, rows: int) -> ArmSettings:
        """Settings at which the two sums of an arm of `rows` ≥ 2 people meet the target. Raises InputError on fewer.

        Cost: replace-one within the arm. See docs/proofs/federated.md.
        """
        rows = check_rows(rows)
        if self.target.unit_rows > 1 and rows < 2 * self.target.unit_rows:
            raise InputError(
                f"an arm of {rows} rows is too small for units of {self.target.unit_rows}: it needs twice as many"
            )
        of_mean = self.mean_share
        if of_mean is None and self.target.unit_rows == 1:
            of_mean = default_mean_share(rows, self.trials, self.target.epsilon, self.target.delta)
        elif of_mean is None:
            of_mean = share_for(1 / (math.sqrt(self.trials / rows) * solve_theta(rows, self.trials, self.target)))
        thetas = solve_thetas(rows, (self.trials, self.trials), self.target, of_mean)
        mean = PoissonBinomial(self.trials, thetas[0], self.radius)
        return ArmSettings(rows, mean, replace(mean, theta=thetas[1], squares=True))


@dataclass(frozen=True)
class Difference(Interval):
    """The private difference of two arms' means, treated less control; all of its fields may be published.

    Attributes:
        level, target: the asymptotic coverage, and "pate" or "sate".
        treated, control, settings: the arms, and theirs in the same order.
        epsilon, delta, relation: the guarantee, for one person's value within an arm of public size.
        private: whether the coins came from a source fit for real releases.
    """

    level: float
    target: Target
    treated: Arm
    control: Arm
    settings: tuple[ArmSettings, ArmSettings]
    epsilon: float
    delta: float
    relation: Relation = REPLACE_ONE
    private: bool = False


def default_mean_share(rows: int, trials: int, epsilon: float, delta: float) -> float:
    """0.99, or less where the remaining budget could not estimate the variance.

    √(m/n)·θ·f/√(1 − f) = ½, with θ for the whole budget (θ² is about proportional to the share f); then the standard
    deviation of ŝ²/n is half of the noise variance of the mean.

    >>> round(default_mean_share(500, 1024, 0.5, 1e-6), 3), round(default_mean_share(500, 1024, 3, 1e-6), 3)
    (0.99, 0.924)
    """
    return share_for(1 / (math.sqrt(trials / rows) * solve_theta(rows, trials, ThetaTarget(epsilon, delta))))


def share_for(signal: float) -> float:
    """The largest share f ≤ 0.99 with f/√(1 − f)/signal, the noise of ŝ²/n relative to that of the mean, at most ½."""
    wished = WANTED_OMEGA * signal
    # f = (−w² + w√(w² + 4))/2, without the cancellation for large w.
    return min(MEAN_SHARE, 2 * wished / (math.sqrt(wished**2 + 4) + wished))


def private_arm(totals: npt.ArrayLike, settings: ArmSettings, *, rows: int | None = None, alike: int = 1) -> Arm:
    """The arm from its two sums of reports. Post-processing.

    Args:
        totals: the sums of the values' and the squares' reports, first axis of length 2; arrays for many runs.
        rows: how many people did report, if not `settings.rows`.
        alike: as of `Arm`.

    Returns:
        The arm, with the exact variance of the coins, R²/(4nmθ²) − μ²/(nm) + s²(1 − 1/m)/n for mean μ and variance s²
        among people. ŝ² is the noisy second moment less the squared mean, corrected for the noise in that.
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
    # [()] makes numbers of arrays without dimensions.
    return Arm(n, mean[()], variance, moment[()], noise, 1 / trials, variance_noise, radius, alike)


def private_difference(
    treated: npt.ArrayLike,
    control: npt.ArrayLike,
    design: ArmDesign,
    noise: NoiseSource,
    *,
    target: Target = "pate",
    level: float = 0.9,
) -> Difference:
    """The average treatment effect from two arms' values, as if each person had reported through secure sums.

    Args:
        treated, control: values in [−R, R], shape (n_t,) and (n_c,), at least two each; sizes are public.
        target, level: as `equistrata.inference.federated.arms.combine`.

    Raises InputError, before any noise, on a value outside [−R, R] or an arm of one row.

    Cost: (ε, δ)-DP; replace one person's value within an arm. The sums are added here in the clear, modulo nm + 1: a
    simulation of secure aggregation. `equistrata federate` has a real one.
    Source: the federated-experiments paper, Algorithm 1.
    """
    values = [check_values(arm, design.radius) for arm in (treated, control)]
    settings = [design.settings(len(x)) for x in values]
    check_interval(level, target)
    sums = [
        add_modulo([chosen.reports(x, noise.spawn(stream))], chosen.moduli)
        for stream, (x, chosen) in enumerate(zip(values, settings, strict=True))
    ]
    arms = [private_arm(pair, chosen) for pair, chosen in zip(sums, settings, strict=True)]
    found = interval_of(arms, [1, -1], level, target=target)
    return Difference(
        **vars(found),
        level=level,
        target=target,
        treated=arms[0],
        control=arms[1],
        settings=(settings[0], settings[1]),
        epsilon=design.target.epsilon,
        delta=design.target.delta,
        private=noise.private,
    )


def finite_sample_interval(
    arms: tuple[Arm, Arm], settings: tuple[ArmSettings, ArmSettings], level: float = 0.9, *, target: Target = "pate"
) -> tuple[Floats, Floats]:
    """The difference of two private arms, and the half-width of an interval that covers with at least `level` at any n.

    Bernstein's inequality for people, their variance bounded from the private second moments, and Hoeffding's lemma for
    their coins. Narrower than the paper's Theorem C.1, with its term for the coins corrected. See
    docs/proofs/federated.md.

    Args:
        arms, settings: treated and control, as `equistrata.inference.federated.ab_test.private_arm` makes them.
        target: "pate": people are drawn from each arm's population. "sate": the effect is that among these people,
            whose arm is drawn without replacement.

    Returns:
        The estimate and the half-width, in the unit of the values; arrays if the arms hold arrays.

    Cost: none (post-processing). Source: the federated-experiments paper, Theorem 4.3.

    >>> settings = ArmDesign(1, ThetaTarget(epsilon=1, delta=1e-6)).settings(20_000)
    >>> arm = private_arm([int(20_000 * (1024 - 1) / 2)] * 2, settings)
    >>> value, half_width = finite_sample_interval((arm, arm), (settings, settings), level=0.9)
    >>> round(float(half_width), 3)
    0.019
    """
    check_interval(level, target)
    beta = 1 - level
    small = math.log(8 / (beta * (1 - BOUND_SHARE)))
    log = math.log(2 / (beta * BOUND_SHARE))
    radius = settings[0].mean.radius
    deviations = [_largest_deviation(arm, chosen, small, target) for arm, chosen in zip(arms, settings, strict=True)]
    sizes = [arm.rows for arm in arms]
    if target == "pate":
        people = added(s**2 / n for s, n in zip(deviations, sizes, strict=True))
        step = 2 * radius / min(sizes)
    else:
        people = min(sizes) * added(s / n for s, n in zip(deviations, sizes, strict=True)) ** 2
        step = 2 * radius * sum(1 / n for n in sizes)
    coins = sum(chosen.mean.noise(n) for chosen, n in zip(settings, sizes, strict=True))
    half = np.sqrt(2 * (people + coins) * log) + step * log / 3
    return np.asarray(arms[0].mean) - np.asarray(arms[1].mean), np.asarray(half)


def _largest_deviation(arm: Arm, settings: ArmSettings, log: float, target: Target) -> Floats:
    """A bound on the standard deviation of an arm's values; fails with probability at most 4·e^(−log)."""
    n, radius = arm.rows, settings.mean.radius
    both_sides = log + math.log(2)
    mean_slack = math.sqrt(2 * settings.mean.noise(n) * both_sides)  # Hoeffding: a variance proxy is all it needs
    moment_slack = math.sqrt(2 * settings.squares.noise(n) * log)
    if target == "sate":
        mean_slack += radius * math.sqrt(2 * both_sides / n)  # range 2R
        moment_slack += radius**2 * math.sqrt(log / (2 * n))  # range R²
    largest_moment = np.clip(np.asarray(arm.moment) + moment_slack, 0, radius**2)
    least_mean = np.maximum(np.abs(arm.mean) - mean_slack, 0)
    variance = np.maximum(largest_moment - least_mean**2, 0)
    if target == "sate":
        return np.asarray(np.minimum(np.sqrt(variance), radius))
    sample = np.sqrt(variance * n / (n - 1))
    return np.asarray(np.minimum(sample + 2 * radius * math.sqrt(2 * log / (n - 1)), radius))
