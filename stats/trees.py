"""Estimation of a histogram from noisy counts of a tree of its bins.

The counts of all nodes in some levels of the tree have independent Gaussian noise. There are two estimates: least
squares [1]_ and the posterior mean of a Pólya tree. The posterior splits the rows of each node between its halves. The
prior for the split follows a unimodal density, with an additional effect from a mixture of normal distributions
(`equistrata.stats.splits`). As a result, levels in which the halves differ by noise alone are smooth. If a bin has most
of the rows of the surrounding node, then its least squares estimate is kept, because zeros and round numbers are not
part of a smooth density.

References
----------
.. [1] Hay, Rastogi, Miklau and Suciu (2010), Boosting the Accuracy of Differentially Private Histograms Through
Consistency.

>>> rows, rng = np.repeat([40.0, 300.0], 32), np.random.default_rng(0)
>>> noisy = {level: (rows.reshape(-1, 2**level).sum(1) + rng.normal(0, 30, 64 >> level), 30.0) for level in (0, 3)}
>>> tree = Tree.of(64, noisy)
>>> [round(float(np.abs(x - rows).mean())) for x in (noisy[0][0], tree.least_squares, tree.posterior())]
[22, 19, 10]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.stats.splits import split_by

# log₂ of the number of nodes per node of the next level. It is smaller for few bins, which reduces the Wasserstein
# distance by 10 to 16 % for ages and hours.
BRANCHES, FEW_BRANCHES, FEW_BINS = 3, 2, 128
_FEWEST = 2  # a level with at most this many nodes is not worth its cost
_CLEAR = 5.0  # the number of standard deviations for a clear difference of counts
# The probability that noise is mistaken for rows in at least one node. For the sum of all rows in a tail, this is a
# threshold of 3 standard deviations for a dozen nodes and 3.6 for a hundred.
_FALSE_ALARM = 1 / 64
_TAILS = np.linspace(0.2, 0.9, 29)  # possible ratios between the densities of consecutive nodes in a tail
# Powers of the ratio of the best exponential fit, because tails may be longer than exponential. The second power is
# used if a node has one or two bins, as for small counts.
_TAIL_POWER, _COUNT_TAIL_POWER = 0.35, 0.5
_MODE_LEVELS = 2  # the number of top levels with nodes that are too large for a mode
_LEAST_DENSITY = 1e-4  # the smallest prior density relative to the mean density


def levels_of(bins: int) -> tuple[int, ...]:
    """Return the levels of the tree that are measured.

    Parameters
    ----------
    bins : int
        The number of bins.

    Returns
    -------
    tuple of int
        The levels, as log₂ of the number of bins per node.

    Examples
    --------
    >>> levels_of(3), levels_of(100), levels_of(1000)
    ((0,), (0, 2, 4), (0, 3, 6))
    """
    step = BRANCHES if bins > FEW_BINS else FEW_BRANCHES
    return tuple(level for level in range(0, 64, step) if level == 0 or bins > _FEWEST << level)


@dataclass(frozen=True, eq=False)
class Tree:
    """The information about each node from the node itself and its descendants, combined by inverse variance.

    The nodes of a level are disjoint.

    Attributes
    ----------
    bins : int
        The number of bins.
    sums, variances : sequence of ndarray
        The sums and variances for each level, from the bins up to a single node. Each node has two halves in the level
        below. The values are zero for nodes after the last bin.
    peak : int or None
        The bin with most of the rows that were removed from the sums (see `without`). None if no rows were removed.
    """

    bins: int
    sums: Sequence[Floats]
    variances: Sequence[Floats]
    peak: int | None = None

    @classmethod
    def of(cls, bins: int, measured: Mapping[int, tuple[Floats, float | Floats]]) -> Tree:
        """Create a tree from measured levels.

        Parameters
        ----------
        bins : int
            The number of bins.
        measured : mapping
            The counts of a level's nodes and the standard deviation of their noise, by level. The standard deviation is
            a number, or an array with one value per node. Level 0 is required.

        Returns
        -------
        Tree
            The tree.
        """
        depth, sums, variances = max(bins - 1, 1).bit_length(), list[Floats](), list[Floats]()
        for level in range(depth + 1):
            nodes, real = 1 << (depth - level), -(-bins >> level)
            if level:
                total, variance = sums[-1][::2] + sums[-1][1::2], variances[-1][::2] + variances[-1][1::2]
            else:
                total, variance = np.zeros(nodes), np.full(nodes, np.inf)
            if level in measured:
                values, sigma = measured[level]
                seen, precision = np.zeros(nodes), np.ones(nodes)
                seen[:real], precision[:real] = values, np.maximum(sigma, 1e-3) ** -2.0
                known = np.where(variance > 0, 1 / np.where(variance > 0, variance, 1.0), 0.0)
                total = (total * known + seen * precision) / (known + precision)
                variance = 1 / (known + precision)
            there = np.arange(nodes) < real
            sums.append(np.where(there, total, 0.0))
            variances.append(np.where(there, variance, 0.0))
        return cls(bins, sums, variances)

    @cached_property
    def least_squares(self) -> Floats:
        """The least squares estimate of the bins' counts from all levels, shape (bins,)."""
        counts = self.sums[-1]
        for total, variance in zip(self.sums[-2::-1], self.variances[-2::-1], strict=True):
            halves, spread = total.reshape(-1, 2), variance.reshape(-1, 2)
            part = spread / np.maximum(spread.sum(1, keepdims=True), 1e-300)
            counts = (halves + (counts - halves.sum(1))[:, None] * part).ravel()
        return np.asarray(counts[: self.bins])

    def variance(self, first: int, last: int) -> float:
        """Return an upper bound of the variance of the least squares estimate for a sum of bins.

        Parameters
        ----------
        first, last : int
            The first bin, and the end of the range, which is not included.

        Returns
        -------
        float
            The variance of the sum of the nodes that make up the range.
        """
        found, level = 0.0, 0
        last = len(self.sums[0]) if last == self.bins else last  # there are no rows after the last bin
        while first < last:
            if first & 1:
                found, first = found + float(self.variances[level][first]), first + 1
            if last & 1:
                last -= 1
                found += float(self.variances[level][last])
            first, last, level = first >> 1, last >> 1, level + 1
        return found

    @cached_property
    def unimodal(self) -> Floats:
        """The counts of the nodes as a density with a single mode, shape (bins,).

        The density is linear between the midpoints of the nodes. In a tail, where the sum of all remaining rows is less
        than noise alone may be, the density decreases exponentially. Its rate is a power of the rate of the best
        exponential fit to the nodes from half of the mode on.

        The mode is a node with more rows than noise alone may be, if there is one, so that the largest noise is not
        mistaken for a mode. If there is a `peak`, then larger nodes are used until such a node is found. If this would
        require nodes with half of the bins, then the density decreases from the peak.
        """
        levels = range(self._node, max(len(self.sums) - _MODE_LEVELS, self._node + 1))
        every = [_Nodes.of(self, level) for level in levels]
        nodes = next((each for each in every if self.peak is None or each.seen.any()), None)
        if nodes is None:
            return every[0].between(every[0].from_peak(int(self.peak or 0) >> self._node))
        density, sizes, steps = nodes.density, nodes.sizes, np.arange(len(nodes.sizes))
        peak = int(np.argmax(np.where(nodes.seen, density, -np.inf) if nodes.seen.any() else density)) + 1
        rising = scipy.optimize.isotonic_regression(density[:peak], weights=sizes[:peak]).x
        falling = scipy.optimize.isotonic_regression(density[peak - 1 :], weights=sizes[peak - 1 :], increasing=False).x
        first, last = self._seen(nodes.ends)
        found = np.append(rising, falling[1:])
        found = np.maximum(found, _LEAST_DENSITY * max(float(self.least_squares.sum()), 1.0) / self.bins)
        tails = (np.arange(peak - 1, -1, -1), first - steps), (np.arange(peak - 1, len(steps)), steps - last)
        falls = [_fall_from_half(density[way], sizes[way], nodes.variances[way], found[way]) for way, _ in tails]
        for fall, (_, beyond) in zip(falls, tails, strict=True):
            found = found * fall ** np.maximum(beyond, 0)
        return nodes.between(found)

    @cached_property
    def seen(self) -> tuple[int, int]:
        """The range of bins that contains rows with certainty, as the first bin and the end of the range.

        Outside the range, the sum of all rows is less than noise alone may be. The range is empty if there is no such
        bin.
        """
        ends = [*range(0, self.bins, 1 << self._node), self.bins]
        first, last = self._seen(ends)
        return (ends[first], ends[last + 1]) if first <= last < len(ends) - 1 else (0, 0)

    def _seen(self, ends: Sequence[int]) -> tuple[int, int]:
        """Return the first and the last node for which the sum of the tail is larger than noise alone may be."""
        up_to, seen = np.append(0.0, np.cumsum(self.least_squares)), _seen_from(len(ends) - 1)
        low = [up_to[last] >= seen * self.variance(0, last) ** 0.5 for last in ends[1:]]
        high = [up_to[-1] - up_to[first] >= seen * self.variance(first, self.bins) ** 0.5 for first in ends[:-1]]
        return (low.index(True) if any(low) else 0), (
            len(high) - 1 - high[::-1].index(True) if any(high) else len(high)
        )

    @property
    def _node(self) -> int:
        """log₂ of the number of bins per node in the prior density."""
        return min(BRANCHES, max(len(self.sums) - 5, 0))

    @cached_property
    def peaks(self) -> Floats:
        """The counts of bins that clearly have most of the rows of the surrounding node, shape (bins,).

        The count is zero for all other bins.
        """
        rows, nodes = self.least_squares, np.arange(self.bins) >> min(BRANCHES, len(self.sums) - 1)
        clear = rows >= _CLEAR * np.sqrt(self.variances[0][: self.bins])
        most = rows >= np.bincount(nodes, np.maximum(rows, 0.0))[nodes] / 2
        return np.where(clear & most, rows, 0.0)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The first and the last bin, if they are in `peaks` or clearly have more rows than the adjacent bin."""
        rows, variances, last = self.least_squares, self.variances[0], self.bins - 1
        pairs = ((0, 1), (last, last - 1)) if last else ()
        more = {end: rows[end] - rows[x] >= _CLEAR * np.sqrt(variances[end] + variances[x]) for end, x in pairs}
        return tuple(end for end, found in more.items() if found or self.peaks[end] > 0)

    def without(self, counts: Floats) -> Tree:
        """Return the tree without some of the rows. `counts` is the number of these rows in each bin, shape (bins,)."""
        rest = [np.zeros(len(self.sums[0]))]
        rest[0][: self.bins] = counts
        while len(rest) < len(self.sums):
            rest.append(rest[-1][::2] + rest[-1][1::2])
        sums = [total - each for total, each in zip(self.sums, rest, strict=True)]
        peak = int(np.argmax(counts)) if np.any(counts > 0) else None
        return replace(self, sums=sums, peak=peak)

    def posterior(self, prior: Floats | None = None) -> Floats:
        """Return the posterior mean counts, shape (bins,).

        The `peaks` keep their measured counts, and the other rows are split by `split_by`.

        Parameters
        ----------
        prior : ndarray of shape (bins,), optional
            The prior density of the other rows. The default is `unimodal`.

        Returns
        -------
        ndarray of shape (bins,)
            The counts.
        """
        rest = self.without(self.peaks)
        density = rest.unimodal if prior is None else prior
        return self.peaks + split_by(rest.sums, rest.variances, np.where(self.peaks > 0, 0.0, density))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of a level.

    Attributes
    ----------
    density : ndarray of shape (nodes,)
        The number of rows per bin.
    variances : ndarray of shape (nodes,)
        The variance of the number of rows.
    sizes : ndarray of shape (nodes,)
        The number of bins.
    ends : sequence of int
        The first bin of each node, and the end of the last node.
    """

    density: Floats
    variances: Floats
    sizes: Floats
    ends: Sequence[int]

    @classmethod
    def of(cls, tree: Tree, level: int) -> _Nodes:
        ends = [*range(0, tree.bins, 1 << level), tree.bins]
        sizes = np.diff(ends).astype(np.float64)
        variances = np.array([tree.variance(first, last) for first, last in pairwise(ends)])
        return cls(np.add.reduceat(tree.least_squares, ends[:-1]) / sizes, variances, sizes, ends)

    @property
    def deviations(self) -> Floats:
        """The number of rows in each node in standard deviations of the noise, shape (nodes,)."""
        return np.asarray(self.density * self.sizes / np.sqrt(self.variances))

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """True for each node with more rows than noise alone may be, shape (nodes,)."""
        return np.asarray(self.deviations >= _seen_from(len(self.sizes)))

    def between(self, values: Floats) -> Floats:
        """Interpolate linearly between values at the midpoints of the nodes, shape (bins,)."""
        bins = np.arange(self.ends[-1])
        return np.asarray(np.interp(bins, np.add.reduceat(bins, self.ends[:-1]) / self.sizes, values))

    def from_peak(self, place: int) -> Floats:
        """Return a density that decreases exponentially on both sides of a node, shape (nodes,)."""
        steps, found = np.arange(len(self.sizes)), np.ones(len(self.sizes))
        own = int(self.sizes[place] == 1)  # if the node is a single bin, all of its rows belong to the peak
        for way in (steps[: place + 1 - own][::-1], steps[place + own :]):
            if len(way) > 1 - own:
                fall = _nearest_fall(self.density[way], self.sizes[way], self.variances[way])
                found[way] = fall ** np.abs(way - place)
        return found


def _seen_from(nodes: int) -> float:
    """Return the number of standard deviations from which a count is not attributed to noise. See _FALSE_ALARM."""
    return float(-scipy.special.ndtri(_FALSE_ALARM / nodes))


def _fall_from_half(density: Floats, sizes: Floats, variances: Floats, smooth: Floats) -> float:
    """Return the ratio between the densities of consecutive nodes, in a tail that starts with the mode.

    It is a power of the ratio of the best exponential fit to the noisy counts. The fit includes empty nodes, and starts
    where the smooth density is half of its value at the mode.
    """
    low = np.flatnonzero(smooth <= smooth[0] / 2)
    if len(low) == 0 or low[0] == len(smooth) - 1:
        return float(_TAILS[-1])
    return _nearest_fall(*(each[low[0] :] for each in (density, sizes, variances)))


def _nearest_fall(density: Floats, sizes: Floats, variances: Floats) -> float:
    """Return a power of the ratio of the best exponential fit to the noisy densities of some nodes."""
    shapes = sizes * _TAILS[:, None] ** np.arange(len(sizes))
    fitted = np.maximum((shapes * density * sizes / variances).sum(1), 0.0) / np.sqrt((shapes**2 / variances).sum(1))
    power = _TAIL_POWER if sizes.max() > 2 else _COUNT_TAIL_POWER
    return float(min(_TAILS[np.argmax(fitted)] ** power, _TAILS[-1]))
