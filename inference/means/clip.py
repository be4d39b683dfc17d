"""The clipping threshold of a column that may have a heavy tail.

The threshold is chosen from noisy counts of the rows in the tails. A Gaussian clipping threshold loses about 3 % of the
mean of incomes. Therefore a small part of ρ is spent on a noisy histogram of the rows beyond that threshold. The bins
of the histogram are shells. The distance of a shell from the interval of the mean increases geometrically. The clip
minimises bias² + noise² of the mean, where the bias is the posterior expectation given the noisy counts.

The prior is a power law. With probability ½, a side has no tail. Otherwise, the tail contains a share τ of the rows.
The logarithm of τ is uniform between the share of one row and `MOST_BEYOND`. The number of rows in each shell is
exponential, and its mean is the number that a tail with the index `TAIL_INDEX` has in that shell. A wrong prior reduces
the accuracy but not the privacy. See docs/experiments/means.md for measurements.

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

# The variance of the noise of the mean as a function of the ends of the clip. The arrays are broadcast.
Variance = Callable[[Floats, Floats], Floats]

# The ratio of the distances of successive edges from the interval of the mean. Five shells reach 98 times as far as the
# usual clip.
GROWTH = 2.5
# The index of a Pareto tail. It is the smallest whole number for which the variance is finite. The declared σ requires
# a finite variance.
TAIL_INDEX = 3
MOST_BEYOND = 0.05  # the largest possible share of the rows in a tail, if the declared σ is correct


@dataclass(frozen=True)
class Clip:
    """A clip interval and its expected effect on the mean, in the unit of the data.

    Attributes
    ----------
    lower, upper : float
        The ends of the interval.
    expected : float, default=0.0
        The expected loss of the mean, given a histogram of the tails. It is negative if the mean becomes larger.
    deviation : float, default=0.0
        The standard deviation of that loss.
    beyond : float, default=0.0
        The expected share of the rows beyond the usual clip. If it is large, the declared σ is too small. It is 0 if
        there is no histogram.
    """

    lower: float
    upper: float
    expected: float = 0.0
    deviation: float = 0.0
    beyond: float = 0.0

    @property
    def bias(self) -> float:
        """Return the root mean square of the change of the mean."""
        return math.hypot(self.expected, self.deviation)


def gaussian_reach(rows: npt.ArrayLike) -> Floats:
    """Return Φ⁻¹(1 − 1/(2n)), or 1 if that is less than 1.

    This clipping threshold, in units of σ, cuts off about one of n Gaussian rows. The array has the shape of `rows`.

    >>> gaussian_reach([1, 100, 200_000]).round(2).tolist()
    [1.0, 2.58, 4.56]
    """
    return np.maximum(1.0, -scipy.special.ndtri(1 / (2 * np.maximum(rows, 1.0))))


def shell_edges(base: float, reach: float, bound: float) -> list[float]:
    """Return the distances of the edges of the shells from the midpoint, in increasing order from `base`.

    No distance is larger than `bound`. If the bound is inside the shells, it is included twice. Then the last shell
    contains the rows that are equal to the bound, such as top-coded values.

    >>> [round(edge, 1) for edge in shell_edges(10.0, 5.0, 20.0)]
    [10.0, 17.5, 20.0, 20.0]
    """
    edges = [base + reach * (GROWTH**step - 1) for step in range(6)]
    inside = [edge for edge in edges if edge < bound]
    return inside if len(inside) == len(edges) else [*inside, bound, bound] if inside else [bound]


@dataclass(frozen=True)
class Shells:
    """The shells beyond a base clip.

    Attributes
    ----------
    middle : float
        The midpoint of the base clip.
    below, above : sequence of float
        The distances of the edges from the midpoint on each side, in increasing order from the end of the base clip.
    """

    middle: float
    below: Sequence[float]
    above: Sequence[float]

    @classmethod
    def around(cls, base: Clip, reach: float, bounds: tuple[float, float]) -> Shells:
        """Return the shells around the clip `base` and inside of `bounds`.

        The parameter `reach` is the distance between the ends of the base clip and the interval of the mean.
        """
        middle = (base.lower + base.upper) / 2
        below = shell_edges(middle - base.lower, reach, middle - bounds[0])
        return cls(middle, below, shell_edges(base.upper - middle, reach, bounds[1] - middle))

    @property
    def edges(self) -> list[float]:
        """Return the edges of all bins of the histogram, including the base clip. The outermost bins are unbounded."""

        def ascending(distances: Sequence[float], sign: int) -> list[float]:
            edges = [self.middle + sign * each for each in distances[:-1]]
            if len(distances) > 1 and distances[-1] == distances[-2]:  # rows at the bound belong to the last cell
                edges[-1] = float(np.nextafter(edges[-1], self.middle))
            return edges

        return [-math.inf, *reversed(ascending(self.below, -1)), *ascending(self.above, 1), math.inf]

    def sides(self, counts: Floats | Counts) -> tuple[Floats | Counts, Floats | Counts]:
        """Return views of the numbers of rows in the bins below and above the base clip, from the clip outwards."""
        below = len(self.below) - 1
        return counts[:below][::-1], counts[below + 1 :]

    def expected(self, rows: float, share: float) -> Floats:
        """Return the expected number of rows in each bin.

        A tail on each side contains the given share of the rows.
        """
        below, above = (share * _falling(len(edges) - 1) for edges in (self.below, self.above))
        return rows * np.concatenate([below[::-1], [1 - below.sum() - above.sum()], above])

    def best_clip(self, counts: Floats | Counts, sigma: float, rows: float, variance: Variance) -> Clip:
        """Return the clip with the smallest expected bias² + noise². It is not narrower than the base clip.

        Parameters
        ----------
        counts : ndarray
            The noisy number of rows in each bin between the `edges`.
        sigma : float
            The standard deviation of the noise in each count.
        rows : float
            The number of rows, which is public or was paid for.
        variance : callable
            The variance of the noise of the mean as a function of the ends of the clip, in squared units of the data.

        Returns
        -------
        Clip
            The clip and its expected effect. It is post-processing of the counts.
        """
        (below, lost_below), (above, lost_above) = (_candidates(edges) for edges in (self.below, self.above))
        seen_below, seen_above = self.sides(counts)
        mean_below, square_below = expected_loss(seen_below, sigma, rows, lost_below)
        mean_above, square_above = expected_loss(seen_above, sigma, rows, lost_above)
        square = np.add.outer(square_below, square_above) / rows**2
        both = np.outer(mean_below, mean_above) / rows**2  # the losses are added, because they may not cancel
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
    """Return the posterior mean of the loss of each clip, and of the square of the loss.

    The loss is the amount that a clip on one side cuts off from the sum of all rows.

    Parameters
    ----------
    counts : ndarray of shape (s,)
        The noisy number of rows in each shell.
    sigma : float
        The standard deviation of the noise in each count.
    rows : float
        The number of all rows.
    lost : ndarray of shape (n_clips, s)
        The average loss of a row in each shell for each clip, in the unit of the data.

    Returns
    -------
    tuple of two ndarray of shape (n_clips,)
        The posterior means, in the unit of the data and in squared units.
    """
    shares = np.geomspace(min(1 / max(rows, 1.0), MOST_BEYOND), MOST_BEYOND, 16)
    prior = rows * np.outer(shares, _falling(len(counts)))  # the means of the exponential distributions
    place = (counts - sigma**2 / prior) / sigma  # the posterior is a Gaussian truncated at 0, in units of sigma
    with np.errstate(over="ignore"):
        scaled = scipy.special.erfcx(-place / math.sqrt(2)) / 2  # Φ(place)·exp(place²/2)
    hazard = math.sqrt(0.5 / math.pi) / scaled
    far = np.minimum(place, -20.0)  # below −20, the first two terms of the expansions have an accuracy of 10⁻⁴
    first = np.where(place < -20, -1 / far + 2 / far**3, place + hazard)
    second = np.where(place < -20, 2 / far**2, 1 + place * (place + hazard))
    log = (np.where(place < 20, np.log(scaled), place**2 / 2) - np.log(prior)).sum(1)
    none = math.log(len(shares)) - len(counts) * math.log(math.sqrt(2 * math.pi) * sigma)  # no tail has the odds 1:1
    weights = np.exp(log - np.logaddexp(none, np.logaddexp.reduce(log)))
    expected = sigma * first @ lost.T
    squares = expected**2 + sigma**2 * (second - first**2) @ (lost**2).T
    return weights @ expected, weights @ squares


def _falling(shells: int) -> Floats:
    """Return the shares of the rows of a tail in its shells.

    The share beyond a distance d decreases as d^−`TAIL_INDEX`.
    """
    return np.asarray(-np.diff(GROWTH ** (-TAIL_INDEX * np.arange(shells)), append=0.0))


def _candidates(edges: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the candidate clips and the average loss of a row in each shell for each clip.

    The arrays have the shapes (c,) and (c, s) for c clips and s shells.
    """
    inner, outer = np.array(edges[:-1]), np.array(edges[1:])
    within = np.arange(8) / 8
    clips = np.unique(np.append((inner[:, None] + (outer - inner)[:, None] * within).ravel(), edges[-1]))
    low, high = (np.maximum(edge - clips[:, None], 0) for edge in (inner, outer))
    width = outer - inner
    evenly = np.divide(high**2 - low**2, 2 * width, out=np.zeros_like(high), where=width > 0)
    return clips, np.where(width > 0, evenly, high)
