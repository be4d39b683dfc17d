"""A histogram from noisy counts of a tree of its bins: least squares, and the posterior mean of a Pólya tree.

Counts of every node of some levels are known with independent Gaussian noise. Least squares follows Hay, Rastogi,
Miklau and Suciu, "Boosting the Accuracy of Differentially Private Histograms Through Consistency" (2010). The posterior
splits each node's rows between its halves: a priori as a unimodal density would, plus an effect from a mixture of
normals (`equistrata.stats.splits`). So levels at which the halves differ by noise alone are smooth. Bins that hold most
rows of the node around them keep their least squares: zeros and round numbers are no part of a density.

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

# log₂ of how many nodes one of the next level has; of a few bins fewer (docs/experiments/numbers.md).
BRANCHES, FEW_BRANCHES, FEW_BINS = 3, 2, 128
_FEWEST = 2  # nodes of a level that is not worth its price
_CLEAR = 5.0  # standard deviations of a count
# How often noise alone is treated as rows somewhere among the nodes. Of the sum of all rows further out it means 3
# standard deviations for a dozen nodes, 3.6 for a hundred.
_FALSE_ALARM = 1 / 64
_TAILS = np.linspace(0.2, 0.9, 29)  # of the density from node to node further out
# Of that of the nearest exponential, since tails may be longer; where a node is a bin or two, as of small counts, less.
_TAIL_POWER, _COUNT_TAIL_POWER = 0.35, 0.5  # docs/experiments/numbers.md
_MODE_LEVELS = 2  # at the top of a tree: their nodes are too large for a mode
_LEAST_DENSITY = 1e-4  # of the prior, times the mean density


def levels_of(bins: int) -> tuple[int, ...]:
    """The levels that are measured: log₂ of how many bins a node has.

    >>> levels_of(3), levels_of(100), levels_of(1000)
    ((0,), (0, 2, 4), (0, 3, 6))
    """
    step = BRANCHES if bins > FEW_BINS else FEW_BRANCHES
    return tuple(level for level in range(0, 64, step) if level == 0 or bins > _FEWEST << level)


@dataclass(frozen=True, eq=False)
class Tree:
    """What is known of each node from itself and its descendants, by inverse variance; nodes of a level are disjoint.

    Attributes:
        bins: how many.
        sums, variances: of each level from the bins up to one node, halves of a level above it; zero beyond the bins.
        peak: the bin of most of the rows that are not in the sums (`without`); None if they have all.
    """

    bins: int
    sums: Sequence[Floats]
    variances: Sequence[Floats]
    peak: int | None = None

    @classmethod
    def of(cls, bins: int, measured: Mapping[int, tuple[Floats, float | Floats]]) -> Tree:
        """From the counts of a level's nodes and the standard deviation of their noise, alike or of each; level 0 is
        needed."""
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
        """The bins' counts that fit all levels best, shape (bins,)."""
        counts = self.sums[-1]
        for total, variance in zip(self.sums[-2::-1], self.variances[-2::-1], strict=True):
            halves, spread = total.reshape(-1, 2), variance.reshape(-1, 2)
            part = spread / np.maximum(spread.sum(1, keepdims=True), 1e-300)
            counts = (halves + (counts - halves.sum(1))[:, None] * part).ravel()
        return np.asarray(counts[: self.bins])

    def variance(self, first: int, last: int) -> float:
        """At most the variance of the least squares of a sum of bins, from `first` up to, not including, `last`: that
        by the nodes within it."""
        found, level = 0.0, 0
        last = len(self.sums[0]) if last == self.bins else last  # beyond the bins is nothing
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
        """The nodes' counts as a density that rises to a mode and falls from it, linear between the nodes' middles,
        shape (bins,). Where all rows further out together are less than noise alone may be, it falls from node to node
        as the exponential that fits best from half the mode on, by a power of it.

        The largest noise is no mode: that is a node of which rows are seen, if there is any. Beside a `peak`, nodes are
        as large as it takes to see one, and if it takes half of the bins, the density falls from the peak.
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
        """From which bin on, and up to before which, there are rows for certain: further out, all together are less
        than noise alone may be. No bins, if nothing is seen."""
        ends = [*range(0, self.bins, 1 << self._node), self.bins]
        first, last = self._seen(ends)
        return (ends[first], ends[last + 1]) if first <= last < len(ends) - 1 else (0, 0)

    def _seen(self, ends: Sequence[int]) -> tuple[int, int]:
        """The first and the last node between these ends with enough rows up to it, and from it on."""
        up_to, seen = np.append(0.0, np.cumsum(self.least_squares)), _seen_from(len(ends) - 1)
        low = [up_to[last] >= seen * self.variance(0, last) ** 0.5 for last in ends[1:]]
        high = [up_to[-1] - up_to[first] >= seen * self.variance(first, self.bins) ** 0.5 for first in ends[:-1]]
        return (low.index(True) if any(low) else 0), (
            len(high) - 1 - high[::-1].index(True) if any(high) else len(high)
        )

    @property
    def _node(self) -> int:
        """log₂ of how many bins a node of the prior density has."""
        return min(BRANCHES, max(len(self.sums) - 5, 0))

    @cached_property
    def peaks(self) -> Floats:
        """The counts of bins that clearly hold most rows of the node around them, zero for others, shape (bins,)."""
        rows, nodes = self.least_squares, np.arange(self.bins) >> min(BRANCHES, len(self.sums) - 1)
        clear = rows >= _CLEAR * np.sqrt(self.variances[0][: self.bins])
        most = rows >= np.bincount(nodes, np.maximum(rows, 0.0))[nodes] / 2
        return np.where(clear & most, rows, 0.0)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The first and the last bin, if they are `peaks`, or clearly hold more rows than the bin beside them."""
        rows, variances, last = self.least_squares, self.variances[0], self.bins - 1
        pairs = ((0, 1), (last, last - 1)) if last else ()
        more = {end: rows[end] - rows[x] >= _CLEAR * np.sqrt(variances[end] + variances[x]) for end, x in pairs}
        return tuple(end for end, found in more.items() if found or self.peaks[end] > 0)

    def without(self, counts: Floats) -> Tree:
        """What is known of all other rows than so many in each bin, shape (bins,)."""
        rest = [np.zeros(len(self.sums[0]))]
        rest[0][: self.bins] = counts
        while len(rest) < len(self.sums):
            rest.append(rest[-1][::2] + rest[-1][1::2])
        sums = [total - each for total, each in zip(self.sums, rest, strict=True)]
        peak = int(np.argmax(counts)) if np.any(counts > 0) else None
        return replace(self, sums=sums, peak=peak)

    def posterior(self, prior: Floats | None = None) -> Floats:
        """The posterior mean counts: `peaks` as measured, the other rows by `split`; shape (bins,).

        Args:
            prior: their prior density; `unimodal` if not given.
        """
        rest = self.without(self.peaks)
        density = rest.unimodal if prior is None else prior
        return self.peaks + split_by(rest.sums, rest.variances, np.where(self.peaks > 0, 0.0, density))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes of a level: their density (rows in a bin), its variance, how many bins each has, shape (nodes,), and where
    each begins and the last one ends."""

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
        """The rows of each in standard deviations of their noise, shape (nodes,)."""
        return np.asarray(self.density * self.sizes / np.sqrt(self.variances))

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Which of them have more rows than noise alone may be, shape (nodes,)."""
        return np.asarray(self.deviations >= _seen_from(len(self.sizes)))

    def between(self, values: Floats) -> Floats:
        """Values of the nodes' middles as those of bins, linear between them, shape (bins,)."""
        bins = np.arange(self.ends[-1])
        return np.asarray(np.interp(bins, np.add.reduceat(bins, self.ends[:-1]) / self.sizes, values))

    def from_peak(self, place: int) -> Floats:
        """A density that falls from this node on both sides, as the exponentials that fit best, shape (nodes,)."""
        steps, found = np.arange(len(self.sizes)), np.ones(len(self.sizes))
        own = int(self.sizes[place] == 1)  # all rows of a bin are the peak's
        for way in (steps[: place + 1 - own][::-1], steps[place + own :]):
            if len(way) > 1 - own:
                fall = _nearest_fall(self.density[way], self.sizes[way], self.variances[way])
                found[way] = fall ** np.abs(way - place)
        return found


def _seen_from(nodes: int) -> float:
    """From how many standard deviations of its noise on a count is one of rows: see _FALSE_ALARM."""
    return float(-scipy.special.ndtri(_FALSE_ALARM / nodes))


def _fall_from_half(density: Floats, sizes: Floats, variances: Floats, smooth: Floats) -> float:
    """By how much a density falls from node to node, the mode first: a power of the fall of the exponential that is
    nearest to the noisy counts, empty nodes too, from where the smooth density is half of that at the mode."""
    low = np.flatnonzero(smooth <= smooth[0] / 2)
    if len(low) == 0 or low[0] == len(smooth) - 1:
        return float(_TAILS[-1])
    return _nearest_fall(*(each[low[0] :] for each in (density, sizes, variances)))


def _nearest_fall(density: Floats, sizes: Floats, variances: Floats) -> float:
    """A power of the fall of the exponential that is nearest to these nodes' noisy densities."""
    shapes = sizes * _TAILS[:, None] ** np.arange(len(sizes))
    fitted = np.maximum((shapes * density * sizes / variances).sum(1), 0.0) / np.sqrt((shapes**2 / variances).sum(1))
    power = _TAIL_POWER if sizes.max() > 2 else _COUNT_TAIL_POWER
    return float(min(_TAILS[np.argmax(fitted)] ** power, _TAILS[-1]))
