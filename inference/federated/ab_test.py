"""An arm of a federated A/B test: how its people report, and what the sums of their reports say.

Each person reports two numbers, of their value and of its square (`equistrata.inference.federated.poisson_binomial`).
An aggregator adds the reports of each arm without seeing one. Accounting: `equistrata.inference.federated.renyi`;
intervals: `equistrata.inference.federated.arms`.

>>> import numpy as np
>>> from equistrata.inference.federated.arms import interval_of
>>> from equistrata.privacy.noise import SeededNoise
>>> rng, design = np.random.default_rng(0), ArmDesign(radius=1, target=ThetaTarget(epsilon=1, delta=1e-6))
>>> people = [rng.normal(mean, 0.2, rows).clip(-1, 1) for mean, rows in ((0.3, 4000), (0.1, 3000))]
>>> arms = []
>>> for values in people:
...     settings = design.settings(len(values))
...     arms.append(private_arm(settings.reports(values, SeededNoise(1)), settings))
>>> found = interval_of(arms, [1, -1], level=0.9)
>>> round(found.value, 3), round(found.half_width, 3)
(0.189, 0.009)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts
from equistrata.errors import InputError
from equistrata.inference.federated.arms import Arm, check_rows
from equistrata.inference.federated.poisson_binomial import PoissonBinomial
from equistrata.inference.federated.renyi import ThetaTarget, epsilon_spent, solve_theta, solve_thetas
from equistrata.privacy.noise import NoiseSource
from equistrata.stats.checks import share

TRIALS = 1024
MEAN_SHARE = 0.99  # of the divergence, at most, for the mean
WANTED_OMEGA = 0.5  # standard deviation of ŝ²/n over the noise variance of the mean; see `share_for`


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
        mean_share: the mean's part of the divergence, in (0, 1); None for `share_for`. The paper's is 0.99.
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
        if of_mean is None:
            # √(m/n)·θ·f/√(1 − f) = ½, with θ for the whole budget: θ² is about proportional to the share f.
            whole = ThetaTarget(self.target.epsilon, self.target.delta, unit_rows=self.target.unit_rows)
            of_mean = share_for(1 / (math.sqrt(self.trials / rows) * solve_theta(rows, self.trials, whole)))
        thetas = solve_thetas(rows, (self.trials, self.trials), self.target, of_mean)
        mean = PoissonBinomial(self.trials, thetas[0], self.radius)
        return ArmSettings(rows, mean, replace(mean, theta=thetas[1], squares=True))


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
    return Arm(n, mean[()], variance, noise, 1 / trials, variance_noise, radius, alike)
