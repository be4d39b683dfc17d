"""Private means by clipping and Laplace noise, of one group or of strata: the paper's baseline, with pure ε.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> scores = np.random.default_rng(0).normal(0.3, 1, 2000)
>>> estimate = laplace_mean(scores, radius=1, epsilon=0.5, noise=SeededNoise(1))
>>> round(float(scores.mean()), 4), round(estimate.value, 4), estimate.epsilon, float(estimate.rho)
(0.272, 0.2722, 0.5, 0.125)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.groups import Groups, Weights, read_groups, read_values
from equistrata.inference.means.lattice import HALF, lattice_sum, lattice_unit
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource

__all__ = ["laplace_mean", "stratified_laplace_mean"]

EXACT_ROWS = 2**53 // HALF  # beyond this many rows a sum of lattice units is no longer exact as a float


@dataclass(frozen=True)
class _Settings:
    radius: float
    epsilon: float
    gamma: float
    sigma: float

    def __post_init__(self) -> None:
        for name, number in (("radius", self.radius), ("epsilon", self.epsilon), ("sigma", self.sigma)):
            if not (math.isfinite(number) and number > 0):
                raise ValueError(f"{name} must be a positive number, not {number}")
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must lie strictly between 0 and 1, not {self.gamma}")

    @property
    def rho(self) -> Rho:
        """Pure ε-DP is ε²/2-zCDP."""
        return Rho.of_pure(self.epsilon)

    def clip(self, rows: int) -> float:
        """R + σ√(ln(n/γ)), half the width of the clip interval."""
        return self.radius + self.sigma * math.sqrt(math.log(rows / self.gamma))

    def scale(self, rows: int) -> float:
        """(2R + 2σ√(ln(n/γ)))/(nε), the scale of the Laplace noise on the mean."""
        return 2 * self.clip(rows) / (rows * self.epsilon)


def laplace_mean(
    values: npt.ArrayLike,
    *,
    radius: float,
    epsilon: float,
    gamma: float = 0.05,
    sigma: float = 1.0,
    noise: NoiseSource,
) -> Estimate:
    """The clipped mean of `values` with Laplace noise.

    Args:
        values: shape (n,), n ≥ 0 and less than 2²⁴, in any unit; n is declared public; never written to.
        radius: R, a declared bound on the absolute value of the *mean*, positive, in the unit of the values.
        epsilon: ε > 0.
        gamma: γ in (0, 1): sets the clip interval ±(R + σ√(ln(n/γ))), and is the interval's failure probability.
        sigma: a declared bound on the standard deviation, positive; the paper scales the data so that it is 1.
        noise: where the noise comes from.

    Returns:
        The estimate. Its interval, ± (σ√(2 ln(4/γ)/n) + b ln(2/γ)) with b the scale of the noise, covers the population
        mean of Gaussian rows with probability 1 − γ, but for what clipping takes away: the paper's √(ln(n/γ)), which
        lacks a factor √2, cuts the tails of a mean near ±R. With n = 0: value 0 and interval [−R, R].

    Raises:
        ValueError: a setting out of its range, values that are not one-dimensional, NaN among them, or too many rows.

    Privacy: ε-DP, hence ε²/2-zCDP; replace-one. Proof: replacing one row moves the sum of clipped rows by at most
    2(R + σ√(ln(n/γ))), and Laplace noise of scale Δ/ε on a sum of sensitivity Δ is ε-DP. The sum is one of whole lattice
    units, and exact; n is public, so division is post-processing.

    Source: the stratification paper, the clip and estimator before eq. 2 (the printed clip interval lacks a sign).

    >>> from equistrata.privacy.noise import SeededNoise
    >>> laplace_mean([], radius=2, epsilon=1, noise=SeededNoise(1)).upper
    2.0
    """
    settings = _Settings(float(radius), float(epsilon), float(gamma), float(sigma))
    return _estimate(read_values(values), Budget(settings.rho), settings, noise)


def stratified_laplace_mean(
    groups: Groups,
    weights: Weights | None = None,
    *,
    radius: float,
    epsilon: float,
    gamma: float = 0.05,
    sigma: float = 1.0,
    noise: NoiseSource,
) -> StratifiedEstimate:
    """The clipped Laplace mean of each of disjoint groups, and Σ ωᵢ p̂ᵢ for the population.

    Args:
        groups: stratum key → its values, shape (nᵢ,); or a sequence of such arrays. The sizes are declared public.
        weights: the share of each group; None means |Gᵢ|/n (eq. 4). Else as for `stratified_coinpress`.
        radius, epsilon, gamma, sigma, noise: as for `laplace_mean`, and hold for every stratum.

    Returns:
        The population estimate and the strata's own, each with an interval of its own that fails with probability γ.
        The population interval combines variances: ± (√(2 ln(4/γ) Σ ωᵢ²σ²/nᵢ) + t), with t a tail bound for the
        sum of Laplace variables: P(|Σ ωᵢLᵢ| > t) ≤ 2 exp(2s²Σωᵢ²bᵢ² − st) for s ≤ 1/(√2 max ωᵢbᵢ). An empty stratum
        has value 0 and adds ωᵢR to the half-width.

    Raises:
        ValueError: as `laplace_mean`; a group without a weight, a negative weight, or weights that do not sum to 1.

    Privacy: ε-DP (ε²/2-zCDP) for all outputs together, replace-one within a stratum: the groups are disjoint, so a
    replaced row changes one of them (parallel composition). A row that may change its stratum costs up to 2ε.

    Source: the stratification paper, eq. 3 (strata) and eq. 4 (recombination).

    >>> import numpy as np
    >>> from equistrata.privacy.noise import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> groups = {"a": rng.normal(0.5, 1, 3000), "b": rng.normal(-0.5, 1, 1000)}
    >>> whole = stratified_laplace_mean(groups, radius=1, epsilon=1, noise=SeededNoise(1))
    >>> round(whole.value, 3), whole.weights, whole.epsilon
    (0.236, {'a': 0.75, 'b': 0.25}, 1.0)
    """
    settings = _Settings(float(radius), float(epsilon), float(gamma), float(sigma))
    read = read_groups(groups, weights)
    budgets = Budget(settings.rho).parallel(settings.rho, read.values, "strata")
    strata = {
        key: _estimate(values, budgets[key], settings, noise.spawn(read.streams[key]))
        for key, values in read.values.items()
    }
    shares = [(share, len(read.values[key])) for key, share in read.weights.items()]
    filled = [(share, rows) for share, rows in shares if rows and share > 0]
    sampling = math.fsum(share**2 * settings.sigma**2 / rows for share, rows in filled)
    scales = [share * settings.scale(rows) for share, rows in filled]
    bias = settings.radius * math.fsum(share for share, rows in shares if not rows)
    value = math.fsum(share * strata[key].value for key, share in read.weights.items())
    half = math.sqrt(2 * sampling * math.log(4 / settings.gamma)) + _laplace_tail(scales, settings.gamma / 2) + bias
    return StratifiedEstimate(
        value=value,
        lower=value - half,
        upper=value + half,
        rho=settings.rho,
        relation=REPLACE_ONE,
        strata=strata,
        weights=read.weights,
        variance=sampling + 2 * math.fsum(scale**2 for scale in scales),
        bias=bias,
        epsilon=settings.epsilon,
        private=noise.private,
    )


def _estimate(values: Floats, budget: Budget, settings: _Settings, noise: NoiseSource) -> Estimate:
    rows = len(values)
    if rows >= EXACT_ROWS:
        raise ValueError(f"a Laplace mean takes fewer than {EXACT_ROWS} rows in a group; use coinpress_mean for more")
    value, half, variance, raw = 0.0, settings.radius, math.inf, None
    if not rows:
        budget.spend(budget.remaining, "no rows")
    else:
        clip = settings.clip(rows)
        noisy, _ = noise.laplace(
            lambda: np.array([lattice_sum(values, -clip, clip)[0]], dtype=np.float64),
            2.0 * HALF, settings.epsilon, budget, "clipped mean",
        )  # fmt: skip
        raw = value = float(noisy[0]) * lattice_unit(-clip, clip) / rows
        scale = settings.scale(rows)
        sampling = settings.sigma**2 / rows
        half = math.sqrt(2 * sampling * math.log(4 / settings.gamma)) + scale * math.log(2 / settings.gamma)
        variance = sampling + 2 * scale**2
    return Estimate(
        value=value,
        lower=value - half,
        upper=value + half,
        rho=budget.total,
        relation=REPLACE_ONE,
        variance=variance,
        rows=float(rows),
        raw=raw,
        epsilon=settings.epsilon,
        entries=budget.entries,
        private=noise.private,
    )


def _laplace_tail(scales: Iterable[float], failure: float) -> float:
    """A t such that a sum of independent Laplace variables of these scales leaves ±t with at most this probability.

    From E exp(sL) = 1/(1 − s²b²) ≤ exp(2s²b²) for s²b² ≤ ½, at the best s.

    >>> round(_laplace_tail([1.0], 0.05), 2), round(_laplace_tail([0.1] * 100, 0.05), 2)
    (6.63, 5.43)
    """
    scales = list(scales)
    squares = math.fsum(scale**2 for scale in scales)
    if not squares:
        return 0.0
    log = math.log(2 / failure)
    s = min(math.sqrt(log / (2 * squares)), 1 / (math.sqrt(2) * max(scales)))
    return (2 * squares * s**2 + log) / s
