"""The clipping threshold of a column that may have a heavy tail, chosen by a noisy histogram of its tails.

A Gaussian clip loses about 3 % of the mean of incomes. A small part of ρ buys noisy counts of rows in shells beyond it;
the two clips minimise the expected bias² + noise², given these counts and a prior.

The prior of each side is a mixture: no tail; a tail of one of `TAIL_SHARES` of the rows; or, rarely, rows in any shell.
Counts are Gaussian about that. A wrong prior costs accuracy, never privacy. Intervals allow for a tail that falls
slowly, which no histogram of few rows shows; the choice of the clip does not. Tuned: docs/experiments/means.md.

>>> one = np.ones((1, 1))  # one clip, and one shell in which a row loses 1: this counts rows
>>> [round(expected_loss(np.array([count]), 10.0, 3_000, one)[0].item()) for count in (0, 10, 40)]
[3, 7, 37]
>>> [round(expected_loss(np.array([count]), 10.0, 100_000, one)[0].item()) for count in (0, 10, 40)]
[0, 0, 38]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from equistrata.arrays import Counts, Floats

Variance = Callable[[Floats, Floats], Floats]  # of the noise of the mean, by the ends of its clip; arrays broadcast

SHELLS = 5  # on each side
GROWTH = 2.5  # ratio of the edges' distances from the mean's interval: 98 times the usual clip after five shells
PLACES = 8  # candidate clips in each shell
NO_TAIL = 1 / 3  # prior probability of no tail
TAIL_SHARES = np.geomspace(0.002, 0.03, 9)  # of the rows: candidate sizes of a tail
FALL = 0.02  # the share of the rows that reach a shell and reach the next
SLOW_FALL = 0.3  # the same for a tail that falls slowly, as incomes of rich places do
SLOW = 0.03  # the prior probability that a tail falls slowly, for the interval of one mean
DEVIATIONS = 0.3, *[1.0] * (SHELLS - 1)  # prior standard deviation of a shell's count over its mean
HEAVY_SHARES = 0.06, 0.12  # of the rows: tails of columns whose σ is declared far too small
HEAVY = 2e-3  # prior probability of each of them
ANYWHERE = 1e-5  # prior probability of rows in any shell
ANY_SHARE = 0.01  # of the rows: the prior standard deviation of a shell's count in that case


@dataclass(frozen=True)
class Clip:
    """A clip interval and what it is thought to do to the mean, in the unit of the data.

    `expected` is how far it is thought to lower the mean (a negative number: to raise it), and `deviation` the standard
    deviation of that, both given a histogram of the tails. `doubt` is the root of the expected square of what is off
    `expected`, if the tail may fall slowly: for the interval of one mean. `beyond` is the share of rows that the
    histogram shows beyond the usual clip: σ is declared too small where that is large. 0 without a histogram.
    """

    lower: float
    upper: float
    expected: float = 0.0
    deviation: float = 0.0
    beyond: float = 0.0
    doubt: float = 0.0

    @property
    def bias(self) -> float:
        """The root of the expected square of the change of the mean."""
        return math.hypot(self.expected, self.deviation)


def gaussian_reach(rows: npt.ArrayLike) -> Floats:
    """Φ⁻¹(1 − 1/(2n)), at least 1: the clip in units of σ that cuts about one of n Gaussian rows. Any shape.

    >>> gaussian_reach([1, 100, 200_000]).round(2).tolist()
    [1.0, 2.58, 4.56]
    """
    return np.maximum(1.0, -ndtri(1 / (2 * np.maximum(rows, 1.0))))


def shell_edges(base: float, reach: float, bound: float) -> list[float]:
    """Distances of the shells' edges from the middle, ascending from `base`; none is beyond `bound`.

    >>> [round(edge, 1) for edge in shell_edges(10.0, 5.0, 20.0)]
    [10.0, 17.5, 20.0]
    """
    edges = [base + reach * (GROWTH**step - 1) for step in range(SHELLS + 1)]
    return [edge for edge in edges if edge < bound] + ([bound] if bound < edges[-1] else [])


@dataclass(frozen=True)
class Shells:
    """The shells beyond a base clip: distances of their edges from its middle, ascending from the base clip's."""

    middle: float
    below: Sequence[float]
    above: Sequence[float]

    @classmethod
    def around(cls, base: Clip, reach: float, bounds: tuple[float, float]) -> Shells:
        """Shells around `base`, inside `bounds`; `reach` is the base clip's distance from the mean's interval."""
        middle = (base.lower + base.upper) / 2
        return cls(
            middle,
            shell_edges(middle - base.lower, reach, middle - bounds[0]),
            shell_edges(base.upper - middle, reach, bounds[1] - middle),
        )

    @property
    def edges(self) -> list[float]:
        """The edges of all shells and of the base clip between them; the outermost shells are unbounded."""
        edges = [self.middle - edge for edge in reversed(self.below)] + [self.middle + edge for edge in self.above]
        return [-math.inf, *edges[1:-1], math.inf]

    def expected(self, rows: float, share: float, second: float = FALL) -> Floats:
        """The numbers of rows between the `edges` if this share of them is in a tail on each side.

        `second` is the share of a tail's rows that reach the second shell; from there on it falls as always.
        """

        def tail(shells: int) -> Floats:
            return share * (np.append(1 - second, second * _falling(shells - 1)) if shells > 1 else _falling(shells))

        below, above = tail(len(self.below) - 1), tail(len(self.above) - 1)
        return rows * np.concatenate([below[::-1], [1 - below.sum() - above.sum()], above])

    def unseen(self, base: Clip, rows: float) -> Clip:
        """The base clip, and what it is thought to cut off where no histogram was bought: by the prior alone."""
        lost = _candidates(self.below)[1][0], _candidates(self.above)[1][0]
        nothing = np.zeros(len(self.below) - 1), np.zeros(len(self.above) - 1)
        return self._thought(base, nothing, rows / ANYWHERE, rows, lost)

    def _thought(
        self, clip: Clip, sides: Sequence[Floats | Counts], sigma: float, rows: float, lost: Sequence[Floats]
    ) -> Clip:
        """A clip with what it is thought to do, given counts and losses in the shells below and above."""

        def moments(slow: float) -> tuple[float, float]:
            parts = [expected_loss(each, sigma, rows, loss[None], slow) for each, loss in zip(sides, lost, strict=True)]
            (below, of_below), (above, of_above) = ((float(mean[0]), float(square[0])) for mean, square in parts)
            variance = of_above - above**2 + of_below - below**2
            return (above - below) / rows, max(variance, 0.0) / rows**2

        expected, variance = moments(0.0)
        slowly, of_slowly = moments(SLOW)
        doubt = math.sqrt(of_slowly + (slowly - expected) ** 2)
        return replace(clip, expected=expected, deviation=math.sqrt(variance), doubt=doubt)

    def best_clip(self, counts: Floats | Counts, sigma: float, rows: float, variance: Variance) -> Clip:
        """The clip with the least expected bias² + noise², never narrower than the base clip. Post-processing.

        Args:
            counts, sigma: noisy numbers of rows between the `edges`, and the standard deviation of their noise.
            rows: the number of rows, public or paid for.
            variance: of the noise of the mean, in squared units of the data.
        """
        below, above = self.below, self.above
        clips_above, lost_above = _candidates(above)
        clips_below, lost_below = _candidates(below)
        sides = counts[: len(below) - 1][::-1], counts[len(below) :]
        mean_below, square_below = expected_loss(sides[0], sigma, rows, lost_below)
        mean_above, square_above = expected_loss(sides[1], sigma, rows, lost_above)
        square = np.add.outer(square_below, square_above) / rows**2
        both = np.outer(mean_below, mean_above) / rows**2  # both sides added up: their losses need not cancel
        cost = square + 2 * both + variance(self.middle - clips_below[:, None], self.middle + clips_above)
        down, up = np.unravel_index(int(np.argmin(cost)), cost.shape)
        beyond = sum(expected_loss(side, sigma, rows, np.ones((1, len(side))))[0].item() for side in sides)
        clip = Clip(self.middle - float(clips_below[down]), self.middle + float(clips_above[up]), beyond=beyond / rows)
        return self._thought(clip, sides, sigma, rows, (lost_below[down], lost_above[up]))


def expected_loss(
    counts: Floats | Counts, sigma: float, rows: float, lost: Floats, slow: float = 0.0
) -> tuple[Floats, Floats]:
    """The posterior means of what clips on one side cut from the sum of all rows, and of its square.

    Args:
        counts: noisy numbers in the shells of all `rows`, shape (s,), with noise of standard deviation `sigma`.
        lost: the average loss of a row in each shell by each clip, shape (clips, s), in the unit of the data.
        slow: the prior probability that a tail, if there is one, falls slowly (`SLOW_FALL`).

    Returns:
        Two arrays of shape (clips,), in the unit of the data and its square.
    """
    fast, slowly = (_falling(len(counts), fall) for fall in (FALL, SLOW_FALL))
    kinds = [np.outer([0.0, 0.0, *HEAVY_SHARES, *TAIL_SHARES], fast), np.outer(TAIL_SHARES, slowly)]
    prior = rows * np.vstack(kinds if slow else kinds[:1])
    spread = (np.array(DEVIATIONS[: len(counts)]) * prior) ** 2
    spread[0] = (ANY_SHARE * rows) ** 2
    seen = spread + sigma**2
    special = [ANYWHERE, NO_TAIL, *[HEAVY] * len(HEAVY_SHARES)]
    tail = (1 - sum(special)) / len(TAIL_SHARES)
    chances = [*special, *[tail * (1 - slow)] * len(TAIL_SHARES), *([tail * slow] * len(TAIL_SHARES) if slow else [])]
    log = np.log(chances) - (np.log(seen) + (counts - prior) ** 2 / seen).sum(1) / 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    expected = np.maximum(prior + spread / seen * (counts - prior), 0.0) @ lost.T
    squares = expected**2 + (spread * sigma**2 / seen) @ (lost**2).T
    return weights @ expected, weights @ squares


@lru_cache(maxsize=32)
def _falling(shells: int, fall: float = FALL) -> Floats:
    """The shares of a tail's rows in its shells, shape (shells,), if the share `fall` of a shell's reach the next."""
    shares = -np.diff(fall ** np.arange(shells), append=0.0)
    shares.setflags(write=False)
    return shares


def _candidates(edges: Sequence[float]) -> tuple[Floats, Floats]:
    """Candidate clips, shape (c,), and the average loss of a row in each shell by each, shape (c, s)."""
    inner, outer = np.array(edges[:-1]), np.array(edges[1:])
    within = np.arange(PLACES) / PLACES
    clips = np.append((inner[:, None] + (outer - inner)[:, None] * within).ravel(), edges[-1])
    from_inner, from_outer = (np.maximum(edge - clips[:, None], 0) for edge in (inner, outer))
    return clips, (from_outer**2 - from_inner**2) / (2 * (outer - inner))
