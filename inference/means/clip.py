"""The clipping threshold of a column that may have a heavy tail, chosen by a noisy histogram of its tails.

A Gaussian clip loses about 3 % of the mean of incomes. A small part of ρ buys noisy counts of rows in shells beyond it;
the two clips minimise the expected bias² + noise², given these counts and a prior.

The prior of each side is a mixture: no tail; a tail of one of `TAIL_SHARES` of the rows; or, rarely, rows in any shell.
Counts are Gaussian about that. A wrong prior costs accuracy, never privacy. Intervals allow for a tail that falls
slowly, which no histogram of few rows shows; the choice of the clip does not. Where a bound cuts the first shell, rows
at that bound, a top code, have a cell and a prior of their own. Tuned: docs/experiments/means.md.

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
import scipy

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
TOP_CODED = 0.02  # prior probability of a cluster of rows at a bound (a top code) that cuts the first shell
TOP_SHARES = np.geomspace(0.002, 0.12, 13)  # of the rows: candidate sizes of it, with a deviation of `DEVIATIONS[0]`
AT_BOUND = 0.01  # of the way from the usual clip to the bound: rows so near to it are counted by themselves
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
    return np.maximum(1.0, -scipy.special.ndtri(1 / (2 * np.maximum(rows, 1.0))))


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
    at_bound: tuple[bool, bool] = (False, False)  # whether rows at the bound are counted by themselves, on each side

    @classmethod
    def around(cls, base: Clip, reach: float, bounds: tuple[float, float]) -> Shells:
        """Shells around `base`, inside `bounds`; `reach` is the base clip's distance from the mean's interval."""
        middle = (base.lower + base.upper) / 2
        below = shell_edges(middle - base.lower, reach, middle - bounds[0])
        above = shell_edges(base.upper - middle, reach, bounds[1] - middle)
        ends = zip((below, above), (middle - bounds[0], bounds[1] - middle), strict=True)
        near = [edges[-1] == bound and len(edges) == 2 for edges, bound in ends]
        return cls(middle, below, above, (near[0], near[1]))

    @property
    def edges(self) -> list[float]:
        """The edges of all shells and of the base clip between them; the outermost cells are unbounded."""
        below, above = (
            [*edges[:-1], edges[-1] - AT_BOUND * (edges[-1] - edges[0]), edges[-1]] if cut else list(edges)
            for edges, cut in zip((self.below, self.above), self.at_bound, strict=True)
        )
        edges = [self.middle - edge for edge in reversed(below)] + [self.middle + edge for edge in above]
        return [-math.inf, *edges[1:-1], math.inf]

    def sides(self, counts: Floats | Counts) -> tuple[Floats | Counts, Floats | Counts]:
        """Views of the numbers of rows in the cells below and above the base clip, from there outwards."""
        below = len(self.below) - 1 + self.at_bound[0]
        return counts[:below][::-1], counts[below + 1 :]

    def expected(self, rows: float, share: float, second: float = FALL) -> Floats:
        """The numbers of rows between the `edges` if this share of them is in a tail on each side, none at a bound.

        `second` is the share of a tail's rows that reach the second shell; from there on it falls as always.
        """

        def tail(shells: int, cut: bool) -> Floats:
            falls = np.append(1 - second, second * _falling(shells - 1)) if shells > 1 else _falling(shells)
            return np.append(share * falls, [0.0] * cut)

        below, above = (
            tail(len(edges) - 1, cut) for edges, cut in zip((self.below, self.above), self.at_bound, strict=True)
        )
        return rows * np.concatenate([below[::-1], [1 - below.sum() - above.sum()], above])

    def unseen(self, base: Clip, rows: float) -> Clip:
        """The base clip, and what it is thought to cut off where no histogram was bought: by the prior alone."""
        tails = Shells(self.middle, self.below, self.above)
        (_, below), (_, above) = tails._choices()
        nothing = np.zeros(below.shape[1]), np.zeros(above.shape[1])
        return tails._thought(base, nothing, rows / ANYWHERE, rows, (below[0], above[0]))

    def _choices(self) -> list[tuple[Floats, Floats]]:
        """For each side candidate clips, shape (c,), and what each cuts from a row in each cell, shape (c, cells)."""
        found = []
        for edges, cut in zip((self.below, self.above), self.at_bound, strict=True):
            clips, lost = _candidates(edges)
            found.append((clips, np.column_stack([lost, edges[-1] - clips]) if cut else lost))
        return found

    def _losses(
        self, sides: Sequence[Floats | Counts], sigma: float, rows: float, lost: Sequence[Floats], slow: float = 0.0
    ) -> list[tuple[Floats, Floats]]:
        """`expected_loss` of each side, with rows at its bound."""
        found = []
        for counts, loss, cut in zip(sides, lost, self.at_bound, strict=True):
            shells = len(counts) - cut
            mean, square = expected_loss(counts[:shells], sigma, rows, loss[:, :shells], slow)
            if cut:
                top, of_top = _top_coded(float(counts[-1]), sigma, rows)
                each = loss[:, -1]
                mean, square = mean + top * each, square + 2 * mean * top * each + of_top * each**2
            found.append((mean, square))
        return found

    def _thought(
        self, clip: Clip, sides: Sequence[Floats | Counts], sigma: float, rows: float, lost: Sequence[Floats]
    ) -> Clip:
        """A clip with what it is thought to do, given counts and losses in the cells below and above."""

        def moments(slow: float) -> tuple[float, float]:
            parts = self._losses(sides, sigma, rows, [loss[None] for loss in lost], slow)
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
        (clips_below, lost_below), (clips_above, lost_above) = self._choices()
        sides = self.sides(counts)
        (mean_below, square_below), (mean_above, square_above) = self._losses(
            sides, sigma, rows, (lost_below, lost_above)
        )
        square = np.add.outer(square_below, square_above) / rows**2
        both = np.outer(mean_below, mean_above) / rows**2  # both sides added up: their losses need not cancel
        cost = square + 2 * both + variance(self.middle - clips_below[:, None], self.middle + clips_above)
        down, up = np.unravel_index(int(np.argmin(cost)), cost.shape)
        everyone = [np.ones((1, len(side))) for side in sides]
        beyond = sum(mean.item() for mean, _ in self._losses(sides, sigma, rows, everyone))
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
    prior = rows * _tails(len(counts), slow > 0)
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


@lru_cache(maxsize=64)
def _tails(shells: int, slow: bool) -> Floats:
    """The shares of all rows in the shells, shape (tails, shells), by the tails that a prior thinks possible."""
    fast, slowly = (_falling(shells, fall) for fall in (FALL, SLOW_FALL))
    kinds = [np.outer([0.0, 0.0, *HEAVY_SHARES, *TAIL_SHARES], fast), np.outer(TAIL_SHARES, slowly)]
    shares = np.vstack(kinds if slow else kinds[:1])
    shares.setflags(write=False)
    return shares


def _top_coded(count: float, sigma: float, rows: float) -> tuple[float, float]:
    """The posterior means of the number of rows at a bound, and of its square, given its noisy count."""
    prior = rows * np.append(0.0, TOP_SHARES)
    spread = (DEVIATIONS[0] * prior) ** 2
    seen = spread + sigma**2
    chances = np.append(1 - TOP_CODED, np.full(len(TOP_SHARES), TOP_CODED / len(TOP_SHARES)))
    log = np.log(chances) - (np.log(seen) + (count - prior) ** 2 / seen) / 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    expected = np.maximum(prior + spread / seen * (count - prior), 0.0)
    return float(weights @ expected), float(weights @ (expected**2 + spread * sigma**2 / seen))


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
