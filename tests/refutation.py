"""Tests that try to refute a privacy claim with a lower bound on ε from many runs on two neighbouring tables.

A test that passes is no proof, but a test that fails refutes the claim. Each privacy claim has two tests. The first
test checks the claim, and the second test checks that an implementation with a known fault is refuted. The fault can be
`HalvedNoise` or a fault of the mechanism.

    a = np.array([mechanism(table, noise.spawn(i)) for i in range(20_000)])
    b = np.array([mechanism(neighbour, noise.spawn(i + 20_000)) for i in range(20_000)])
    assert empirical_epsilon(a, b, delta) <= rho.epsilon(delta)

If δ is large (0.01 to 0.1), the test of a zCDP claim is sharp, because `rho.epsilon(delta)` is then an exact
consequence of the claim for events that are common enough to be counted.

If the noise is too small by less than a third, use `tradeoff`, which gives a bound on μ instead of ε.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from equistrata.arrays import Counts, Floats
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource

CANDIDATES = 1000


def empirical_epsilon(a: npt.ArrayLike, b: npt.ArrayLike, delta: float, *, false_alarm: float = 1e-3) -> float:
    """Compute a lower confidence bound on the ε of a mechanism at δ from one statistic of its output.

    Parameters
    ----------
    a, b : array_like of shape (runs,)
        The statistic T of independent runs on a table and on its neighbour. Both must be finite and have at least two
        runs. For an event, use its indicator (0 or 1).
    delta : float
        The δ of the claim, 0 ≤ δ < 1.
    false_alarm : float
        The probability that a mechanism is refuted although the claim is true.

    Returns
    -------
    float
        The bound max(0, log((p_low − δ) / q_high)). If it is larger than the claimed ε, the claim is refuted.

    Notes
    -----
    If the mechanism is (ε, δ)-DP, then P_a(E) ≤ e^ε·P_b(E) + δ for every event E, and the same is true if a and b are
    exchanged. The event E is one of {T > t} and {T < t}, in one of the two directions. It is the event with the largest
    bound on the first half of the runs. The second half is independent of this choice, so the counts of E are binomial
    given E. Here p_low is the lower Clopper-Pearson bound for the side on which E is more likely, and q_high is the
    upper bound for the other side, each at the level false_alarm / 2. By the union bound, both are valid with
    probability at least 1 − false_alarm, and then ε ≥ log((p − δ)/q) ≥ log((p_low − δ)/q_high).

    The error rate is for one call. A suite of m tests of true claims fails with probability at most m·false_alarm. If
    the seeds are fixed, the result of a test is always the same.
    """
    first, second = _runs(a), _runs(b)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and less than 1, not {delta}")
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must lie strictly between 0 and 1, not {false_alarm}")
    sides = [(np.sort(x[: len(x) // 2]), x[len(x) // 2 :]) for x in (first, second)]
    pooled = np.unique(np.concatenate([choose for choose, _ in sides]))
    if len(pooled) > CANDIDATES:
        pooled = pooled[np.linspace(0, len(pooled) - 1, CANDIDATES).astype(int)]

    best, bound = -np.inf, 0.0
    for (choose_p, test_p), (choose_q, test_q) in (sides, sides[::-1]):
        for above in (True, False):
            p, q = (_count(choose, pooled, above) for choose in (choose_p, choose_q))
            scores = _log_ratio(p, len(choose_p), q, len(choose_q), delta, false_alarm)
            place = int(np.argmax(scores))
            if scores[place] > best:
                best, threshold = scores[place], pooled[place]
                hits_p, hits_q = (
                    np.array([(x > threshold).sum() if above else (x < threshold).sum()]) for x in (test_p, test_q)
                )
                bound = float(_log_ratio(hits_p, len(test_p), hits_q, len(test_q), delta, false_alarm)[0])
    return max(0.0, bound)


def measured_epsilon(statistics: npt.ArrayLike, claim: float, delta: float) -> float:
    """Compute the `empirical_epsilon` of statistics of shape (2, runs), with one row per table, and print it with the
    claimed ε.
    """
    found = empirical_epsilon(*np.asarray(statistics), delta)
    print(f"empirical ε ≥ {found:.3f}, claimed {claim:.3f} at δ = {delta}, {np.shape(statistics)[1]} runs a side")
    return found


class LessNoise(NoiseSource):
    """A noise source with a known fault, which draws `factor` times the requested noise. The true cost is ρ/factor²
    (ε/factor for Laplace noise).

    It can be used with any noise source. A refutation test must fail with this source, otherwise the test is useless.
    """

    private = False

    def __init__(self, inner: NoiseSource, factor: float) -> None:
        self.inner, self.factor = inner, factor

    @property
    def name(self) -> str:
        return f"{self.factor:g} of {self.inner.name}"

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        """Draw a binomial sample in which each probability is further from 1/2 by the factor 1/factor."""
        away = (np.asarray(probabilities) - 0.5) / self.factor
        return self.inner.binomial(trials, np.clip(0.5 + away, 0, 1))

    def spawn(self, stream: int) -> LessNoise:
        return LessNoise(self.inner.spawn(stream), self.factor)

    # The price of the smaller noise is passed to the source as well, because OpenDP would otherwise raise an error.

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        return self.inner._gaussian(counts, sigma * self.factor, sensitivity, rho * self.factor**-2)

    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats:
        return self.inner._laplace(values, scale * self.factor, sensitivity, epsilon / self.factor)

    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        return self.inner._select(scores, scale * self.factor, sensitivity, rho * self.factor**-2)


class HalvedNoise(LessNoise):
    """A noise source with half of the requested noise, so that the true cost is four times the ρ (or twice the ε of
    Laplace noise).
    """

    def __init__(self, inner: NoiseSource) -> None:
        super().__init__(inner, 0.5)


def _runs(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    runs = np.asarray(values, dtype=float)
    if runs.ndim != 1 or len(runs) < 2 or not np.isfinite(runs).all():
        raise ValueError("the runs need shape (runs,), at least two of them, all finite")
    return runs


def _count(ordered: npt.NDArray[np.float64], thresholds: npt.NDArray[np.float64], above: bool) -> npt.NDArray[np.int64]:
    if above:
        return len(ordered) - np.searchsorted(ordered, thresholds, side="right")
    return np.searchsorted(ordered, thresholds, side="left")


def _log_ratio(
    p: npt.NDArray[np.int64], p_runs: int, q: npt.NDArray[np.int64], q_runs: int, delta: float, false_alarm: float
) -> npt.NDArray[np.float64]:
    """Compute log((p_low − δ) / q_high) from counts with Clopper-Pearson bounds. The result is −∞ if p_low ≤ δ."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p_low = np.where(p > 0, beta.ppf(false_alarm / 2, p, p_runs - p + 1), 0.0)
        q_high = np.where(q < q_runs, beta.ppf(1 - false_alarm / 2, q + 1, q_runs - q), 1.0)
        return np.where(p_low > delta, np.log((p_low - delta) / q_high), -np.inf)
