"""Noise sources: every private number in a release comes out of one of these.

A draw is paid for by the call that makes it: the call takes values, their sensitivity, the price and a budget; it
charges the budget, checks OpenDP's privacy map of the noise against the price, and draws. Samplers that take a bare
scale are private to this module (`tests/privacy/test_one_way_to_noise.py`). See docs/proofs/noise.md.

Releases use `SecureNoise` (OpenDP: cryptographic randomness, exact arithmetic). Tests and benchmarks use
`SeededNoise`, whose outputs are marked as not private.

>>> import numpy as np
>>> from equistrata.privacy.budget import Budget
>>> noise, budget = SeededNoise(1), Budget(Rho(0.5))
>>> noise.private
False
>>> counts, sigma = noise.gaussian(np.array([100, 200]), 1.0, Rho(0.125), budget, "a histogram")
>>> counts.shape, sigma, float(budget.remaining)
((2,), 2.0, 0.375)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.coins import checked_trials, exact_binomial

A = TypeVar("A")


def gaussian_sigma(rho: Rho | float, sensitivity: float = 1.0) -> float:
    """The standard deviation σ = Δ/√(2ρ) that makes Gaussian noise on L2 sensitivity Δ cost ρ (Bun-Steinke, Prop. 1.6).

    Raises InputError for a ρ that is not positive.

    >>> gaussian_sigma(0.5)
    1.0
    """
    return sensitivity / math.sqrt(2 * _amount(rho, "noise"))


def selection_epsilon(rho: Rho | float) -> float:
    """The ε of the exponential mechanism that costs ρ = ε²/8 (Cesar and Rogers, arXiv:2004.07223, Lemma 3.4).

    Raises InputError for a ρ that is not positive.
    """
    return math.sqrt(8 * _amount(rho, "a private selection"))


class NoiseSource(ABC):
    """Randomness that protects rows, paid for as it is drawn.

    `values` and `scores` may be arrays, or functions that compute them: these are called after the charge, so that
    nothing refused has read a row. An unusable price is refused before anything is charged.

    Attributes:
        private: whether what it makes is private in the real sense (safe floats, unpredictable).
        name: what the release card calls it.
    """

    private: bool
    name: str

    def gaussian(
        self, values: Counts | Callable[[], Counts], sensitivity: float, rho: Rho, budget: Budget, what: str
    ) -> tuple[Counts, float]:
        """Whole numbers plus discrete Gaussian noise, and its σ = Δ/√(2ρ).

        Args:
            values: of an integer type, any shape, shape kept.
            sensitivity: Δ > 0, the most that neighbours differ by in L2 norm.
            rho: ρ > 0, charged to `budget`, which notes it as `what`.

        Raises InputError for a price or sensitivity that is not positive (nothing is charged), or fractions among the
        values; BudgetExceeded (nothing is charged); RuntimeError where OpenDP's map is above ρ (nothing is drawn).

        Cost: ρ-zCDP. Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Theorem 4. See docs/proofs/noise.md.
        """
        sensitivity = _positive(sensitivity)
        sigma = _positive(gaussian_sigma(rho, sensitivity))
        budget.spend(rho, what)
        whole = _whole(_made(values))
        return (self._gaussian(whole, sigma, sensitivity, rho) if whole.size else whole), sigma

    def laplace(
        self, values: Floats | Callable[[], Floats], sensitivity: float, epsilon: float, budget: Budget, what: str
    ) -> tuple[Floats, float]:
        """Real numbers plus independent Laplace noise, and its scale b = Δ/ε.

        Args:
            values: finite, any shape, shape kept; whole numbers if no rounding error is to add to Δ.
            sensitivity: Δ > 0, the most that neighbours differ by in L1 norm.
            epsilon: ε > 0; `budget` is charged ε²/2.

        Raises as `gaussian`, and InputError for values that are not finite.
        Cost: ε-DP, hence ε²/2-zCDP (`Rho.of_pure`). See docs/proofs/noise.md.
        """
        sensitivity, epsilon = _positive(sensitivity), _positive(epsilon)
        scale = _positive(sensitivity / epsilon)
        budget.spend(Rho.of_pure(epsilon), what)
        real = np.asarray(_made(values), dtype=np.float64)
        if not np.isfinite(real).all():
            raise InputError("noise needs finite values to be added to")
        return (self._laplace(real, scale, sensitivity, epsilon) if real.size else real), scale

    def select(
        self, scores: Floats | Callable[[], Floats], sensitivity: float, rho: Rho, budget: Budget, what: str
    ) -> int:
        """The index of a high score by the exponential mechanism at ε = √(8ρ), ε over twice the sensitivity.

        Args:
            scores: at least one, all finite.
            sensitivity: Δ > 0, the most that neighbours differ by in any score; they may differ either way.
            rho: ρ > 0, charged to `budget`.

        Raises as `gaussian`, and InputError for unusable scores.
        Cost: ρ-zCDP. Source: Cesar and Rogers, arXiv:2004.07223, Lemma 3.4. See docs/proofs/selection.md.
        """
        sensitivity = _positive(sensitivity)
        scale = _positive(2 * sensitivity / selection_epsilon(rho))
        budget.spend(rho, what)
        real = np.asarray(_made(scores), dtype=np.float64)
        if real.ndim != 1 or not len(real) or not np.isfinite(real).all():
            raise InputError("selection needs at least one score, in one dimension, and every score finite")
        return self._select(real, scale, sensitivity, rho)

    @abstractmethod
    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """One draw of Binomial(trials, p) for each p in `probabilities`, all in [0, 1]. Any shape, shape kept.

        A person's own coin, in local privacy, which no budget pays: `equistrata.inference.federated.renyi` accounts for
        it, in (ε, δ), and only `equistrata.inference.federated.poisson_binomial` may call it.
        """

    @abstractmethod
    def spawn(self, stream: int) -> NoiseSource:
        """An independent source for part number `stream`, the same whatever order parts are made in."""

    # The samplers. Each also takes the sensitivity and price that its noise must keep.

    @abstractmethod
    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts: ...

    @abstractmethod
    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats: ...

    @abstractmethod
    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        """The largest of the scores with Gumbel noise of this scale, which is the exponential mechanism."""


class SecureNoise(NoiseSource):
    """OpenDP's samplers: discrete Gaussian and Laplace in exact arithmetic, noisy max, cryptographic randomness.

    Each draw checks OpenDP's privacy map of the very mechanism that draws, at the stated sensitivity, against the price
    that was charged, and raises if the map is larger (beyond 10⁻⁹ relative float slack).
    """

    private = True
    name = f"OpenDP {version('opendp')} (cryptographically seeded, exact arithmetic)"

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        return exact_binomial(*checked_trials(trials, probabilities))

    def spawn(self, stream: int) -> SecureNoise:
        """Itself: the operating system's randomness has no streams to keep apart."""
        return self

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        draw = _checked(_discrete_gaussian(sigma), sensitivity, float(rho))
        return np.array(draw(counts.ravel().tolist()), dtype=np.int64).reshape(counts.shape)

    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats:
        draw = _checked(_laplace_vector(scale), sensitivity, epsilon)
        return np.array(draw(values.ravel().tolist()), dtype=np.float64).reshape(values.shape)

    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        return int(_checked(_noisy_max(scale), sensitivity, float(rho))(scores.tolist()))


class SeededNoise(NoiseSource):
    """Reproducible noise for tests and benchmarks: the right distributions, from a seed that anyone may know.

    Integers get rounded Gaussian noise: rounding is post-processing, but the noise is predictable.
    """

    private = False
    name = "seeded (NOT PRIVATE: for tests and benchmarks only)"

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._rng = np.random.default_rng(self._sequence)

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        return np.asarray(self._rng.binomial(*checked_trials(trials, probabilities)), dtype=np.int64)

    def spawn(self, stream: int) -> SeededNoise:
        """A source seeded by this one's seed and `stream` alone, not by what has been drawn."""
        key = (*self._sequence.spawn_key, stream)
        return SeededNoise(np.random.SeedSequence(self._sequence.entropy, spawn_key=key))

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        return counts + np.rint(self._rng.normal(0.0, sigma, counts.shape)).astype(np.int64)

    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats:
        return values + self._rng.laplace(0.0, scale, values.shape)

    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, len(scores))))


def noise_source(seed: int | None) -> NoiseSource:
    """Secure noise, or seeded noise (not private) if a seed is given."""
    return SecureNoise() if seed is None else SeededNoise(seed)


def source_of(noise: Any) -> NoiseSource:
    """The noise source itself. Raises InputError for what is none: checked before a budget is charged."""
    if not isinstance(noise, NoiseSource):
        what = f"the class {noise.__name__}" if isinstance(noise, type) else f"of type {type(noise).__name__}"
        raise InputError(f"noise is {what}, and no source of noise; give SecureNoise(), or SeededNoise(seed) in tests")
    return noise


def _made(values: A | Callable[[], A]) -> A:
    return values() if callable(values) else values


def _whole(counts: Counts) -> Counts:
    array = np.asarray(counts)
    if array.size and array.dtype.kind not in "iub":  # cutting off fractions would change the sensitivity
        raise InputError("counts must be whole numbers of an integer type")
    if array.size and array.dtype == np.uint64 and int(array.max()) >= 2**63:  # the sign would change
        raise InputError("counts must be less than 2⁶³")
    return array.astype(np.int64)


def _amount(rho: Any, what: str) -> float:
    found = float(Rho.of(rho))
    if not found > 0:
        raise InputError(f"{what} needs a positive zCDP amount; raise rho")
    return found


def _positive(scale: Any) -> float:
    number = isinstance(scale, Real) and not isinstance(scale, bool)
    if not number or not 1e-100 < float(scale) < 1e100:  # a small float type would overflow in what follows
        raise InputError(f"a noise scale or sensitivity must be a positive finite number, not {scale!r}")
    return float(scale)


def _checked(mechanism: Any, sensitivity: float, claimed: float) -> Any:
    """OpenDP's mechanism, if its privacy map keeps the claim. Raises RuntimeError."""
    charged = mechanism.map(sensitivity)
    if not charged <= claimed * (1 + 1e-9):  # also when it is not a number
        raise RuntimeError(f"OpenDP charges {charged} for a step that claims {claimed}")
    return mechanism


@lru_cache(maxsize=256)
def _discrete_gaussian(sigma: float) -> Any:
    from equistrata.privacy import opendp_parts as dp

    return dp.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=sigma)


@lru_cache(maxsize=256)
def _laplace_vector(scale: float) -> Any:
    from equistrata.privacy import opendp_parts as dp

    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return dp.make_laplace(*space, scale=scale)


@lru_cache(maxsize=256)
def _noisy_max(scale: float) -> Any:
    from equistrata.privacy import opendp_parts as dp

    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return dp.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
