"""Noise sources, which draw every noisy number of a release.

Each method takes the values, their sensitivity, the price and a budget. It charges the budget, checks the privacy map
of OpenDP against the price and then draws the noise. Samplers that only take a scale are private to this module, so
that noise cannot be drawn without a charge (see `tests/privacy/test_one_way_to_noise.py`). The proofs are given in
docs/proofs/noise.md.

Releases use `SecureNoise`, which is based on OpenDP and uses cryptographic randomness and exact arithmetic. Tests and
benchmarks use `SeededNoise`. Its outputs are marked as not private.

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
    """Return the standard deviation of Gaussian noise that costs ρ.

    Parameters
    ----------
    rho : Rho or float
        Privacy cost in zCDP, ρ > 0.
    sensitivity : float, default=1.0
        The L2 sensitivity Δ of the values.

    Returns
    -------
    float
        The standard deviation σ = Δ/√(2ρ).

    Raises
    ------
    InputError
        If `rho` is not positive.

    References
    ----------
    Bun and Steinke (2016), arXiv:1605.02065, Proposition 1.6.

    Examples
    --------
    >>> gaussian_sigma(0.5)
    1.0
    """
    return sensitivity / math.sqrt(2 * _amount(rho, "noise"))


def selection_epsilon(rho: Rho | float) -> float:
    """Return the parameter ε of the exponential mechanism that costs ρ = ε²/8.

    Parameters
    ----------
    rho : Rho or float
        Privacy cost in zCDP, ρ > 0.

    Returns
    -------
    float
        The parameter of the exponential mechanism.

    Raises
    ------
    InputError
        If `rho` is not positive.

    References
    ----------
    Cesar and Rogers (2020), arXiv:2004.07223, Lemma 3.4.
    """
    return math.sqrt(8 * _amount(rho, "a private selection"))


class NoiseSource(ABC):
    """Base class of the noise sources.

    The arguments `values` and `scores` can be arrays or functions that compute arrays. A function is called after the
    budget is charged, so that a refused step has not read any row. An invalid price is refused before anything is
    charged.

    Attributes
    ----------
    private : bool
        True if the noise is unpredictable and safe in floating-point arithmetic, so that the outputs are private.
    name : str
        The name of the noise source on the release card.
    """

    private: bool
    name: str

    def gaussian(
        self, values: Counts | Callable[[], Counts], sensitivity: float, rho: Rho, budget: Budget, what: str
    ) -> tuple[Counts, float]:
        """Add discrete Gaussian noise to whole numbers.

        Parameters
        ----------
        values : ndarray of int, or callable
            Values of an integer type, of any shape.
        sensitivity : float
            The L2 sensitivity Δ > 0, which is the largest L2 distance between the values of two neighbouring tables.
        rho : Rho
            Privacy cost in zCDP, ρ > 0.
        budget : Budget
            Budget to which `rho` is charged.
        what : str
            Name of the charge.

        Returns
        -------
        noisy : ndarray of int
            The noisy values, with the same shape as `values`.
        sigma : float
            The standard deviation σ = Δ/√(2ρ) of the noise.

        Raises
        ------
        InputError
            If the price or the sensitivity is not positive, in which case nothing is charged, or if the values are not
            whole numbers.
        BudgetExceeded
            If the price is larger than the remaining budget. In this case nothing is charged.
        RuntimeError
            If the privacy map of OpenDP is larger than `rho`. In this case no noise is drawn.

        Privacy
        -------
        The cost is ρ-zCDP under the neighbouring relation to which the sensitivity refers. The proof is given in
        docs/proofs/noise.md.

        References
        ----------
        Canonne, Kamath and Steinke (2020), arXiv:2004.00010, Theorem 4.
        """
        sensitivity = _positive(sensitivity)
        sigma = _positive(gaussian_sigma(rho, sensitivity))
        budget.spend(rho, what)
        whole = _whole(_made(values))
        return (self._gaussian(whole, sigma, sensitivity, rho) if whole.size else whole), sigma

    def laplace(
        self, values: Floats | Callable[[], Floats], sensitivity: float, epsilon: float, budget: Budget, what: str
    ) -> tuple[Floats, float]:
        """Add independent Laplace noise to real numbers.

        Parameters
        ----------
        values : ndarray of float, or callable
            Finite values, of any shape. Use whole numbers if rounding errors must not increase the sensitivity.
        sensitivity : float
            The L1 sensitivity Δ > 0, which is the largest L1 distance between the values of two neighbouring tables.
        epsilon : float
            Privacy cost in pure differential privacy, ε > 0.
        budget : Budget
            Budget to which ε²/2 is charged.
        what : str
            Name of the charge.

        Returns
        -------
        noisy : ndarray of float
            The noisy values, with the same shape as `values`.
        scale : float
            The scale b = Δ/ε of the noise.

        Raises
        ------
        InputError
            If the price or the sensitivity is not positive, in which case nothing is charged, or if a value is not
            finite.
        BudgetExceeded
            If the price is larger than the remaining budget. In this case nothing is charged.
        RuntimeError
            If the privacy map of OpenDP is larger than `epsilon`. In this case no noise is drawn.

        Privacy
        -------
        The cost is ε-DP and therefore ε²/2-zCDP (see `Rho.of_pure`), under the neighbouring relation to which the
        sensitivity refers. The proof is given in docs/proofs/noise.md.
        """
        sensitivity, epsilon = _positive(sensitivity), _positive(epsilon)
        scale = _positive(sensitivity / epsilon)
        budget.spend(Rho.of_pure(epsilon), what)
        real = np.asarray(_made(values), dtype=np.float64)
        if not np.isfinite(real).all():
            raise InputError("noise can only be added to finite values")
        return (self._laplace(real, scale, sensitivity, epsilon) if real.size else real), scale

    def select(
        self, scores: Floats | Callable[[], Floats], sensitivity: float, rho: Rho, budget: Budget, what: str
    ) -> int:
        """Select the index of a high score with the exponential mechanism.

        The mechanism uses ε = √(8ρ), divided by twice the sensitivity.

        Parameters
        ----------
        scores : ndarray of float, or callable
            At least one score, in one dimension. All scores must be finite.
        sensitivity : float
            The sensitivity Δ > 0, which is the largest difference of any score between two neighbouring tables. The
            difference can have either sign.
        rho : Rho
            Privacy cost in zCDP, ρ > 0.
        budget : Budget
            Budget to which `rho` is charged.
        what : str
            Name of the charge.

        Returns
        -------
        int
            The index of the selected score.

        Raises
        ------
        InputError
            If the price or the sensitivity is not positive, in which case nothing is charged, or if the scores are
            invalid.
        BudgetExceeded
            If the price is larger than the remaining budget. In this case nothing is charged.
        RuntimeError
            If the privacy map of OpenDP is larger than `rho`. In this case nothing is drawn.

        Privacy
        -------
        The cost is ρ-zCDP under the neighbouring relation to which the sensitivity refers. The proof is given in
        docs/proofs/selection.md.

        References
        ----------
        Cesar and Rogers (2020), arXiv:2004.07223, Lemma 3.4.
        """
        sensitivity = _positive(sensitivity)
        scale = _positive(2 * sensitivity / selection_epsilon(rho))
        budget.spend(rho, what)
        real = np.asarray(_made(scores), dtype=np.float64)
        if real.ndim != 1 or not len(real) or not np.isfinite(real).all():
            raise InputError("selection needs a one-dimensional array of finite scores, with at least one score")
        return self._select(real, scale, sensitivity, rho)

    @abstractmethod
    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """Draw one value from Binomial(trials, p) for each probability.

        These are the coins that each person tosses in local privacy, so no budget is charged. The module
        `equistrata.inference.federated.renyi` computes their (ε, δ). Only
        `equistrata.inference.federated.poisson_binomial` may call this method.

        Parameters
        ----------
        trials : int
            The number of trials of each draw, from 1 to 2³¹ − 1.
        probabilities : ndarray of float
            Probabilities in [0, 1], of any shape.

        Returns
        -------
        ndarray of int
            The numbers of successes, with the same shape as `probabilities`.

        Raises
        ------
        InputError
            If a parameter is out of its range.
        """

    @abstractmethod
    def spawn(self, stream: int) -> NoiseSource:
        """Return an independent noise source for one part of the work.

        Parameters
        ----------
        stream : int
            The number of the part. The result depends on this number only, and not on the order of the calls.

        Returns
        -------
        NoiseSource
            A noise source of the same class.
        """

    # Samplers. Each one receives the sensitivity and the cost as well, so that it can check its own guarantee.

    @abstractmethod
    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts: ...

    @abstractmethod
    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats: ...

    @abstractmethod
    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        """Return the index of the largest score after adding Gumbel noise. This is the exponential mechanism."""


class SecureNoise(NoiseSource):
    """Noise from the samplers of OpenDP.

    The samplers draw discrete Gaussian noise, Laplace noise and noisy maxima. They use exact arithmetic and
    cryptographic randomness. Before each draw, the privacy map of the same OpenDP mechanism is compared with the price
    that was charged. An error is raised if the map is larger, up to a relative tolerance of 10⁻⁹ for floats.
    """

    private = True
    name = f"OpenDP {version('opendp')} (cryptographically seeded, exact arithmetic)"

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        return exact_binomial(*checked_trials(trials, probabilities))

    def spawn(self, stream: int) -> SecureNoise:
        """Return this noise source, because the randomness of the operating system does not have separate streams."""
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
    """Reproducible noise for tests and benchmarks, which is not private.

    The distributions are correct, but the noise can be predicted from the seed. Integers get Gaussian noise that
    is rounded, which is post-processing.

    Parameters
    ----------
    seed : int or numpy.random.SeedSequence
        Seed of the random number generator.
    """

    private = False
    name = "seeded (NOT PRIVATE: for tests and benchmarks only)"

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._rng = np.random.default_rng(self._sequence)

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        return np.asarray(self._rng.binomial(*checked_trials(trials, probabilities)), dtype=np.int64)

    def spawn(self, stream: int) -> SeededNoise:
        """Return a noise source that depends only on the seed and on `stream`, and not on previous draws."""
        key = (*self._sequence.spawn_key, stream)
        return SeededNoise(np.random.SeedSequence(self._sequence.entropy, spawn_key=key))

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        return counts + np.rint(self._rng.normal(0.0, sigma, counts.shape)).astype(np.int64)

    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats:
        return values + self._rng.laplace(0.0, scale, values.shape)

    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, len(scores))))


def noise_source(seed: int | None) -> NoiseSource:
    """Create a noise source.

    Parameters
    ----------
    seed : int or None
        If None, the noise is secure. Otherwise it is seeded and not private.

    Returns
    -------
    NoiseSource
        The new noise source.
    """
    return SecureNoise() if seed is None else SeededNoise(seed)


def source_of(noise: Any) -> NoiseSource:
    """Check that an object is a noise source before a budget is charged.

    Parameters
    ----------
    noise : object
        The object to check.

    Returns
    -------
    NoiseSource
        The same object.

    Raises
    ------
    InputError
        If the object is not an instance of NoiseSource.
    """
    if not isinstance(noise, NoiseSource):
        what = f"the class {noise.__name__}" if isinstance(noise, type) else f"of type {type(noise).__name__}"
        raise InputError(
            f"noise is {what}, but must be a source of noise; give SecureNoise(), or SeededNoise(seed) in tests"
        )
    return noise


def _made(values: A | Callable[[], A]) -> A:
    return values() if callable(values) else values


def _whole(counts: Counts) -> Counts:
    array = np.asarray(counts)
    if array.size and array.dtype.kind not in "iub":  # rounding would change the sensitivity
        raise InputError("counts must be whole numbers of an integer type")
    if array.size and array.dtype == np.uint64 and int(array.max()) >= 2**63:  # a conversion would change the sign
        raise InputError("counts must be less than 2⁶³")
    return array.astype(np.int64)


def _amount(rho: Any, what: str) -> float:
    found = float(Rho.of(rho))
    if not found > 0:
        raise InputError(f"{what} needs a positive zCDP amount; raise rho")
    return found


def _positive(scale: Any) -> float:
    number = isinstance(scale, Real) and not isinstance(scale, bool)
    if not number or not 1e-100 < float(scale) < 1e100:  # a 32-bit float could overflow in the next steps
        raise InputError(f"a noise scale or sensitivity must be a positive finite number, not {scale!r}")
    return float(scale)


def _checked(mechanism: Any, sensitivity: float, claimed: float) -> Any:
    """Check that the privacy map of an OpenDP mechanism is not larger than `claimed`, or raise a RuntimeError."""
    charged = mechanism.map(sensitivity)
    if not charged <= claimed * (1 + 1e-9):  # this is also true if `charged` is NaN
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
