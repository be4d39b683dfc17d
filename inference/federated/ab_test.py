"""An arm of a federated A/B test: the reports of its people, and the estimates from the sums of these reports.

Each person reports two numbers, which depend on the value and on its square (see
`equistrata.inference.federated.poisson_binomial`). An aggregator adds the reports of each arm and does not see a single
report. The privacy accounting is in `equistrata.inference.federated.renyi`, and the intervals are in
`equistrata.inference.federated.arms`.

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
MEAN_SHARE = 0.99  # the largest share of the divergence for the mean
WANTED_OMEGA = 0.5  # the standard deviation of ŝ²/n divided by the noise variance of the mean; see `share_for`


@dataclass(frozen=True)
class ArmSettings:
    """The public settings by which the people of one arm report.

    Attributes
    ----------
    rows : int
        The number n of people, at least 2.
    mean : PoissonBinomial
        The randomizer of the value.
    squares : PoissonBinomial
        The randomizer of the square of the value.
    """

    rows: int
    mean: PoissonBinomial
    squares: PoissonBinomial

    @property
    def moduli(self) -> tuple[int, int]:
        """Return the modulus nm + 1 for each of the two sums."""
        return self.mean.modulus(self.rows), self.squares.modulus(self.rows)

    def reports(self, values: npt.ArrayLike, noise: NoiseSource) -> Counts:
        """Return the sums of the reports of these people, for the values and for their squares.

        The shape of the array is (2,).
        """
        return np.array([each.reports(values, noise).sum() for each in (self.mean, self.squares)], dtype=np.int64)

    def epsilon(self, delta: float) -> float:
        """Return the ε of both sums together at the given δ, under replacing one row within the arm."""
        sums = [(self.rows, each.trials, each.theta) for each in (self.mean, self.squares)]
        return epsilon_spent(sums, delta)


@dataclass(frozen=True)
class ArmDesign:
    """The public design on which the arms agree before their sizes are known.

    Parameters
    ----------
    radius : float
        The declared radius R, positive. The values are in [−R, R].
    target : ThetaTarget
        The privacy guarantee of both sums of an arm together.
    trials : int, default=1024
        The number m of trials of both sums.
    mean_share : float, optional
        The share of the divergence for the mean, in (0, 1). By default, it is computed by `share_for`. The paper uses
        0.99.
    """

    radius: float
    target: ThetaTarget
    trials: int = TRIALS
    mean_share: float | None = None

    def __post_init__(self) -> None:
        PoissonBinomial(self.trials, self.target.maximum, self.radius)  # this checks the trials and the radius
        if self.mean_share is not None:
            share("the mean's share of the budget", self.mean_share)

    def settings(self, rows: int) -> ArmSettings:
        """Return the settings at which the two sums of an arm meet the privacy target.

        Parameters
        ----------
        rows : int
            The number of people in the arm, at least 2.

        Returns
        -------
        ArmSettings
            The settings of the arm.

        Raises
        ------
        InputError
            If there are too few rows.

        Privacy
        -------
        The target holds under replacing one row (or the rows of one unit) within the arm. See docs/proofs/federated.md.
        """
        rows = check_rows(rows)
        if self.target.unit_rows > 1 and rows < 2 * self.target.unit_rows:
            raise InputError(
                f"an arm has {rows} rows, but for units of up to {self.target.unit_rows} rows it needs at least twice "
                "that number; join arms, or use fewer rows of each unit"
            )
        of_mean = self.mean_share
        if of_mean is None:
            # The share f solves √(m/n)·θ·f/√(1 − f) = ½, where θ is for the whole budget. The square θ² is about
            # proportional to f.
            whole = ThetaTarget(self.target.epsilon, self.target.delta, unit_rows=self.target.unit_rows)
            of_mean = share_for(1 / (math.sqrt(self.trials / rows) * solve_theta(rows, self.trials, whole)))
        thetas = solve_thetas(rows, (self.trials, self.trials), self.target, of_mean)
        mean = PoissonBinomial(self.trials, thetas[0], self.radius)
        return ArmSettings(rows, mean, replace(mean, theta=thetas[1], squares=True))


def share_for(signal: float) -> float:
    """Return the largest share f ≤ 0.99 for which f/√(1 − f)/signal is at most ½.

    This expression is the noise of ŝ²/n relative to that of the mean.
    """
    wished = WANTED_OMEGA * signal
    # f = (−w² + w√(w² + 4))/2, without the cancellation for large w.
    return min(MEAN_SHARE, 2 * wished / (math.sqrt(wished**2 + 4) + wished))


def private_arm(totals: npt.ArrayLike, settings: ArmSettings, *, rows: int | None = None, alike: int = 1) -> Arm:
    """Estimate the mean and the variance of an arm from its two sums of reports.

    Parameters
    ----------
    totals : array-like
        The sums of the reports of the values and of the squares. The length of the first axis is 2, and the other axes
        are for simulated runs.
    settings : ArmSettings
        The settings of the arm.
    rows : int, optional
        The number of people who reported. By default, it is `settings.rows`.
    alike : int, default=1
        The largest number of rows of a unit, as in `Arm`.

    Returns
    -------
    Arm
        The arm. The variance of its mean is R²/(4nmθ²) − μ²/(nm) + s²(1 − 1/m)/n, where μ is the mean and s² is the
        variance among people. This is exact for the random numbers of the reports. The estimate of s² is the noisy
        second moment minus the squared mean, with a correction for the noise of the squared mean. It is post-processing
        of the sums.
    """
    n = settings.rows if rows is None else rows
    sums = np.asarray(totals)
    mean, moment = settings.mean.mean(sums[0], n), settings.squares.mean(sums[1], n)
    bound, moment_noise = settings.mean.noise(n), settings.squares.noise(n)
    trials, radius = settings.mean.trials, settings.mean.radius
    squared = np.clip(mean**2 - bound, 0, radius**2)  # an estimate of μ²; the noise adds `bound` to mean²
    noise = bound - squared / (n * trials)
    kept = 1 - (1 - 1 / trials) / n
    variance = (moment - mean**2 + noise) / kept
    variance_noise = (moment_noise + 4 * squared * bound + 2 * bound**2) / kept**2
    # The index [()] converts arrays without dimensions to numbers.
    return Arm(n, mean[()], variance, noise, 1 / trials, variance_noise, radius, alike)
