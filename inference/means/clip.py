"""The clipping threshold of a column that may have a heavy tail, read from noisy counts of the rows in its tails.

A Gaussian clip loses about 3 % of the mean of incomes. So a small part of ρ buys a noisy histogram of the rows beyond
that clip, in shells whose distance grows geometrically. The clip minimises bias² + noise² of the mean, where the bias
is its posterior expectation given the noisy counts. The prior is a power law: with even odds a side has no tail, or its
tail holds a share τ of the rows. The logarithm of τ is uniform from one row to `MOST_BEYOND` of them, and the number of
rows in each shell is exponential about what a tail with the index `TAIL_INDEX` has there. A wrong prior costs accuracy,
never privacy. Measured: docs/experiments/means.md.

>>> one = np.ones((1, 1))  # one clip, and one shell in which a row loses 1: this counts rows
>>> [round(expected_loss(np.array([count]), 10.0, 3_000, one)[0].item()) for count in (0, 10, 40)]
[1, 3, 36]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Counts, Floats

Variance = Callable[[Floats, Floats], Floats]  # of the noise of the mean, by the ends of its clip; arrays broadcast

GROWTH = 2.5  # ratio of the shells' distances from the mean's interval: five reach 98 times the usual clip
TAIL_INDEX = 3  # of a Pareto tail: the smallest whole number at which it has a variance, which σ is declared to bound
MOST_BEYOND = 0.05  # of the rows on a side: the largest tail that is thought possible if σ is declared well


@dataclass(frozen=True)
class Clip:
    """A clip interval and its expected effect on the mean, in the unit of the data.

    `expected` is the expected loss of the mean (a gain is negative) and `deviation` its standard deviation, both given
    a histogram of the tails. `beyond` is the expected share of rows beyond the usual clip: σ is declared too small
    where that is large. 0 without a histogram.
    """

    lower: float
    upper: float
    expected: float = 0.0
    deviation: float = 0.0
    beyond: float = 0.0

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

    A bound inside the shells is an edge twice: rows at the bound itself, a top code, are the last shell.

    >>> [round(edge, 1) for edge in shell_edges(10.0, 5.0, 20.0)]
    [10.0, 17.5, 20.0, 20.0]
    """
    edges = [base + reach * (GROWTH**step - 1) for step in range(6)]
    inside = [edge for edge in edges if edge < bound]
    return inside if len(inside) == len(edges) else [*inside, bound, bound] if inside else [bound]


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
        below = shell_edges(middle - base.lower, reach, middle - bounds[0])
        return cls(middle, below, shell_edges(base.upper - middle, reach, bounds[1] - middle))

    @property
    def edges(self) -> list[float]:
        """The edges of all cells of the histogram, the base clip's included; the outermost cells are unbounded."""

        def ascending(distances: Sequence[float], sign: int) -> list[float]:
            edges = [self.middle + sign * each for each in distances[:-1]]
            if len(distances) > 1 and distances[-1] == distances[-2]:  # the bound itself belongs to the last cell
                edges[-1] = float(np.nextafter(edges[-1], self.middle))
            return edges

        return [-math.inf, *reversed(ascending(self.below, -1)), *ascending(self.above, 1), math.inf]

    def sides(self, counts: Floats | Counts) -> tuple[Floats | Counts, Floats | Counts]:
        """Views of the numbers of rows in the cells below and above the base clip, from there outwards."""
        below = len(self.below) - 1
        return counts[:below][::-1], counts[below + 1 :]

    def expected(self, rows: float, share: float) -> Floats:
        """The numbers of rows between the `edges` if a tail on each side holds this share of them."""
        below, above = (share * _falling(len(edges) - 1) for edges in (self.below, self.above))
        return rows * np.concatenate([below[::-1], [1 - below.sum() - above.sum()], above])

    def best_clip(self, counts: Floats | Counts, sigma: float, rows: float, variance: Variance) -> Clip:
        """The clip with the least expected bias² + noise², never narrower than the base clip. Post-processing.

        Args:
            counts, sigma: noisy numbers of rows between the `edges`, and the standard deviation of their noise.
            rows: the number of rows, public or paid for.
            variance: of the noise of the mean, in squared units of the data.
        """
        (below, lost_below), (above, lost_above) = (_candidates(edges) for edges in (self.below, self.above))
        seen_below, seen_above = self.sides(counts)
        mean_below, square_below = expected_loss(seen_below, sigma, rows, lost_below)
        mean_above, square_above = expected_loss(seen_above, sigma, rows, lost_above)
        square = np.add.outer(square_below, square_above) / rows**2
        both = np.outer(mean_below, mean_above) / rows**2  # both sides added up: their losses need not cancel
        cost = square + 2 * both + variance(self.middle - below[:, None], self.middle + above)
        down, up = np.unravel_index(int(np.argmin(cost)), cost.shape)
        scatter = square_below[down] - mean_below[down] ** 2 + square_above[up] - mean_above[up] ** 2
        beyond = sum(
            expected_loss(side, sigma, rows, np.ones((1, len(side))))[0].item() for side in (seen_below, seen_above)
        )
        return Clip(
            self.middle - float(below[down]),
            self.middle + float(above[up]),
            float(mean_above[up] - mean_below[down]) / rows,
            math.sqrt(max(float(scatter), 0.0)) / rows,
            beyond / rows,
        )


def expected_loss(counts: Floats | Counts, sigma: float, rows: float, lost: Floats) -> tuple[Floats, Floats]:
    """The posterior means of what clips on one side cut from the sum of all rows, and of its square.

    Args:
        counts: noisy numbers in the shells of all `rows`, shape (s,), with noise of standard deviation `sigma`.
        lost: the average loss of a row in each shell by each clip, shape (clips, s), in the unit of the data.

    Returns:
        Two arrays of shape (clips,), in the unit of the data and its square.
    """
    shares = np.geomspace(min(1 / max(rows, 1.0), MOST_BEYOND), MOST_BEYOND, 16)
    prior = rows * np.outer(shares, _falling(len(counts)))  # means of exponential numbers of rows
    place = (counts - sigma**2 / prior) / sigma  # the posterior is a Gaussian cut at 0, in units of sigma
    with np.errstate(over="ignore"):
        scaled = scipy.special.erfcx(-place / math.sqrt(2)) / 2  # Φ(place)·exp(place²/2)
    hazard = math.sqrt(0.5 / math.pi) / scaled
    far = np.minimum(place, -20.0)  # there the first two terms of the moments' expansions are exact to 10⁻⁴
    first = np.where(place < -20, -1 / far + 2 / far**3, place + hazard)
    second = np.where(place < -20, 2 / far**2, 1 + place * (place + hazard))
    log = (np.where(place < 20, np.log(scaled), place**2 / 2) - np.log(prior)).sum(1)
    none = math.log(len(shares)) - len(counts) * math.log(math.sqrt(2 * math.pi) * sigma)  # even odds of no tail
    weights = np.exp(log - np.logaddexp(none, np.logaddexp.reduce(log)))
    expected = sigma * first @ lost.T
    squares = expected**2 + sigma**2 * (second - first**2) @ (lost**2).T
    return weights @ expected, weights @ squares


def _falling(shells: int) -> Floats:
    """The shares of a tail's rows in its shells, shape (shells,): beyond d it falls as d^−`TAIL_INDEX`."""
    return np.asarray(-np.diff(GROWTH ** (-TAIL_INDEX * np.arange(shells)), append=0.0))


def _candidates(edges: Sequence[float]) -> tuple[Floats, Floats]:
    """Candidate clips, shape (c,), and the average loss of a row in each shell by each, shape (c, s)."""
    inner, outer = np.array(edges[:-1]), np.array(edges[1:])
    within = np.arange(8) / 8
    clips = np.unique(np.append((inner[:, None] + (outer - inner)[:, None] * within).ravel(), edges[-1]))
    low, high = (np.maximum(edge - clips[:, None], 0) for edge in (inner, outer))
    width = outer - inner
    evenly = np.divide(high**2 - low**2, 2 * width, out=np.zeros_like(high), where=width > 0)
    return clips, np.where(width > 0, evenly, high)
