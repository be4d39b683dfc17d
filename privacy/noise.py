"""Noise sources: every private number in a release comes out of one of these.

Real releases use `SecureNoise` (OpenDP: cryptographic randomness, exact arithmetic). Tests and benchmarks use
`SeededNoise`, whose outputs are marked as not private.

>>> import numpy as np
>>> noise = SeededNoise(1)
>>> noise.private
False
>>> noise.gaussian(np.array([100, 200]), sigma=2.0).shape
(2,)
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from privacy.budget import Rho

dp.enable_features("contrib")

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROWS_AT_ONCE = 1 << 16  # binomial draws are made in blocks of this many, to bound memory


def gaussian_sigma(rho: Rho | float, sensitivity: float = 1.0) -> float:
    """The standard deviation σ = Δ/√(2ρ) that makes Gaussian noise on L2 sensitivity Δ cost ρ (Bun-Steinke, Prop. 1.6).

    >>> gaussian_sigma(0.5)
    1.0
    """
    amount = float(rho)
    if not amount > 0:
        raise ValueError("noise needs a positive zCDP amount")
    return sensitivity / math.sqrt(2 * amount)


def selection_epsilon(rho: Rho | float) -> float:
    """The ε of the exponential mechanism that costs ρ = ε²/8 (Cesar and Rogers, arXiv:2004.07223, Lemma 3.4)."""
    amount = float(rho)
    if not amount > 0:
        raise ValueError("a private selection needs a positive zCDP amount")
    return math.sqrt(8 * amount)


class NoiseSource(Protocol):
    """Where randomness that protects rows comes from.

    Attributes:
        private: whether what it makes is private in the real sense (safe floats, unpredictable).
        name: what the release card calls it.
    """

    @property
    def private(self) -> bool: ...

    @property
    def name(self) -> str: ...

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """Integer counts plus discrete Gaussian noise: ρ = Δ²/(2σ²) for L2 sensitivity Δ. Any shape, shape kept."""
        ...

    def gaussian_real(self, value: float, sigma: float) -> float:
        """A real number plus Gaussian noise: ρ = Δ²/(2σ²) for sensitivity Δ."""
        ...

    def laplace_real(self, value: float, scale: float) -> float:
        """A real number plus Laplace noise: (Δ/scale)-DP for sensitivity Δ."""
        ...

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """One draw of Binomial(trials, p) for each p in `probabilities`, all in [0, 1]. Any shape, shape kept."""
        ...

    def select(self, scores: Floats, sensitivity: float, rho: Rho) -> int:
        """The index of a high score by the exponential mechanism at ρ = ε²/8 (ε over twice the sensitivity)."""
        ...

    def spawn(self, stream: int) -> NoiseSource:
        """An independent source for part number `stream`, the same whatever order parts are made in."""
        ...


class SecureNoise:
    """OpenDP's samplers: discrete Gaussian and Laplace in exact arithmetic, noisy max, cryptographic randomness.

    Privacy maps are checked at each use: if OpenDP would charge more than we claim (beyond 10⁻⁹ relative float slack)
    the call raises instead of releasing.
    """

    private = True

    @property
    def name(self) -> str:
        """The library and its version."""
        return f"OpenDP {dp.__version__} (cryptographically seeded, exact arithmetic)"

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """See `NoiseSource.gaussian`."""
        whole, sigma = _whole(counts), _positive(sigma)
        if not whole.size:
            return whole
        return np.array(_discrete_gaussian(sigma)(whole.ravel().tolist()), dtype=np.int64).reshape(whole.shape)

    def gaussian_real(self, value: float, sigma: float) -> float:
        """See `NoiseSource.gaussian_real`."""
        return float(_gaussian_real(_positive(sigma))(_finite(value)))

    def laplace_real(self, value: float, scale: float) -> float:
        """See `NoiseSource.laplace_real`."""
        return float(_laplace_real(_positive(scale))(_finite(value)))

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """See `NoiseSource.binomial`. Exact: a trial succeeds if a uniform number from the operating system lies below p.

        A float p of at least 2⁻¹¹ has at most 64 binary places, so that comparing 64 random bits with them is no
        approximation; a smaller p is cut off after 64 places.
        """
        trials, p = _trials(trials, probabilities)
        flat = p.ravel()
        drawn = np.empty(flat.shape, dtype=np.int64)
        for start in range(0, len(flat), ROWS_AT_ONCE):
            drawn[start : start + ROWS_AT_ONCE] = _exact_binomial(trials, flat[start : start + ROWS_AT_ONCE])
        return drawn.reshape(p.shape)

    def select(self, scores: Floats, sensitivity: float, rho: Rho) -> int:
        """See `NoiseSource.select`. Raises ValueError on a score that is not a number."""
        _check_scores(scores)
        mechanism = _noisy_max(2 * _positive(sensitivity) / selection_epsilon(rho))
        _check_claim(mechanism.map(float(sensitivity)), float(rho))
        return int(mechanism(np.asarray(scores, dtype=float).tolist()))

    def spawn(self, stream: int) -> SecureNoise:
        """Itself: the operating system's randomness has no streams to keep apart."""
        return self


class SeededNoise:
    """Reproducible noise for tests and benchmarks: the right distributions, from a seed that anyone may know.

    Integers get rounded Gaussian noise (rounding is post-processing, so the zCDP argument holds; predictability is
    what makes it not private).
    """

    private = False

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._rng = np.random.default_rng(self._sequence)

    @property
    def name(self) -> str:
        """Says that it is not private."""
        return "seeded (NOT PRIVATE: for tests and benchmarks only)"

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """See `NoiseSource.gaussian`."""
        whole = _whole(counts)
        return whole + np.rint(self._rng.normal(0.0, _positive(sigma), whole.shape)).astype(np.int64)

    def gaussian_real(self, value: float, sigma: float) -> float:
        """See `NoiseSource.gaussian_real`."""
        return float(_finite(value) + self._rng.normal(0.0, _positive(sigma)))

    def laplace_real(self, value: float, scale: float) -> float:
        """See `NoiseSource.laplace_real`."""
        return float(_finite(value) + self._rng.laplace(0.0, _positive(scale)))

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """See `NoiseSource.binomial`."""
        trials, p = _trials(trials, probabilities)
        return np.asarray(self._rng.binomial(trials, p), dtype=np.int64)

    def select(self, scores: Floats, sensitivity: float, rho: Rho) -> int:
        """See `NoiseSource.select`: Gumbel noise on the scores is the exponential mechanism."""
        _check_scores(scores)
        scale = 2 * _positive(sensitivity) / selection_epsilon(rho)
        return int(np.argmax(np.asarray(scores) + self._rng.gumbel(0.0, scale, len(scores))))

    def spawn(self, stream: int) -> SeededNoise:
        """A source seeded by this one's seed and `stream` alone, not by what has been drawn."""
        key = (*self._sequence.spawn_key, stream)
        return SeededNoise(np.random.SeedSequence(self._sequence.entropy, spawn_key=key))


def _whole(counts: Counts) -> Counts:
    array = np.asarray(counts)
    if array.size and array.dtype.kind not in "iub":  # cutting off fractions would change the sensitivity
        raise ValueError("counts must be whole numbers of an integer type")
    return array.astype(np.int64)


def _trials(trials: int, probabilities: Floats) -> tuple[int, Floats]:
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("the probabilities of a binomial draw must lie in [0, 1]")
    if not 1 <= trials < 2**31:
        raise ValueError(f"a binomial draw needs a whole number of trials, 1 to 2³¹ − 1, not {trials}")
    return int(trials), p


def _exact_binomial(trials: int, p: Floats) -> Counts:
    """Compare all trials' uniform numbers with p at once, binary place by binary place, from the first one down.

    Of the trials that agree with p so far, a fair half has 0 in the next place. Where p has 1 there, those lie below p
    and succeed; where p has 0, the others lie above and fail; the rest go on. Two random bits a trial are used on average.
    """
    certain = p >= 1
    places = (np.where(certain, 0.0, p) * 2.0**64).astype(np.uint64)
    undecided = np.where(certain, 0, trials).astype(np.int64)
    successes = np.where(certain, trials, 0).astype(np.int64)
    for place in range(63, -1, -1):
        rows = np.flatnonzero(undecided)
        if not len(rows):
            break
        zeros = _fair_coins(undecided[rows])
        one = (places[rows] >> np.uint64(place)) & np.uint64(1) == 1
        successes[rows] += np.where(one, zeros, 0)
        undecided[rows] = np.where(one, undecided[rows] - zeros, zeros)
    return successes


def _fair_coins(tosses: Counts) -> Counts:
    """Binomial(tosses, ½) for each entry (all positive): the number of ones among that many random bits."""
    words = (tosses + 63) // 64
    ends = np.cumsum(words)
    bits = np.frombuffer(os.urandom(8 * int(ends[-1])), dtype=np.uint64).copy()
    unused = (64 * words - tosses).astype(np.uint64)  # 0 to 63 bits of each entry's last word
    bits[ends - 1] >>= unused
    return np.add.reduceat(np.bitwise_count(bits).astype(np.int64), ends - words)


def _positive(scale: float) -> float:
    if not 1e-100 < scale < 1e100:
        raise ValueError(f"a noise scale or sensitivity must be a positive finite number, not {scale}")
    return float(scale)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("noise needs a finite value to be added to")
    return float(value)


def _check_scores(scores: Floats) -> None:
    if not len(scores) or not np.isfinite(scores).all():
        raise ValueError("selection needs at least one score, and every score finite")


def _check_claim(charged: float, claimed: float) -> None:
    if not charged <= claimed * (1 + 1e-9):  # also when it is not a number
        raise RuntimeError(f"OpenDP charges ρ = {charged} for a step that claims {claimed}")


@lru_cache(maxsize=256)
def _discrete_gaussian(sigma: float) -> Any:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    _check_claim(mechanism.map(1.0), 1 / (2 * sigma**2))
    return mechanism


@lru_cache(maxsize=256)
def _gaussian_real(sigma: float) -> Any:
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    _check_claim(mechanism.map(1.0), 1 / (2 * sigma**2))
    return mechanism


@lru_cache(maxsize=256)
def _laplace_real(scale: float) -> Any:
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    mechanism = dp.m.make_laplace(*space, scale=scale)
    _check_claim(mechanism.map(1.0), 1 / scale)
    return mechanism


@lru_cache(maxsize=256)
def _noisy_max(scale: float) -> Any:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)
