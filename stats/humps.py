"""Curves that are nearest to noisy counts of a tree: of a tail, and beside a heavy bin where noise hides each node.

Where nearly all rows are in one bin, as zero, the others may be fewer than noise is in a node. Then the largest node
says little, and a tail that falls as slowly as noise allows reaches as far as the declared bounds. So on either side of
the heavy bin one curve of a family is taken: normal ones of any place and width, and exponentials that fall from the
bin. Of two that are as near, the one that is narrower and closer to the bin is likelier, by a power of how far it
reaches. Post-processing of noisy counts: no cost. See docs/experiments/numbers.md.

>>> rows = np.zeros(64)
>>> rows[[0, 9, 10, 11, 12]] = 5000.0, 40, 80, 80, 40
>>> sums, variances = [rows + np.random.default_rng(1).normal(0, 25, 64)], [np.full(64, 625.0)]
>>> while len(sums[-1]) > 1:
...     sums.append(sums[-1][::2] + sums[-1][1::2])
...     variances.append(variances[-1][::2] + variances[-1][1::2])
>>> found = nearest_curves(known_beyond(sums, variances), 64, 0)
>>> round(found[1:].sum()), int(found[1:].argmax()) + 1, round(found[20:].sum())
(294, 10, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from equistrata.arrays import Floats

_NARROWEST = 1.5  # nodes: standard deviation of a normal curve
_FALLS = 2.0 ** np.arange(8)  # nodes: in which exponentials fall by a factor of e
_REACH = 1.5  # power by which a curve that reaches further is less likely (docs/experiments/numbers.md)
_ROUNDS = 3  # each side is fitted given the other
_TAILS = np.linspace(0.2, 0.9, 29)  # of the density from node to node further out
# Of that of the nearest exponential, since tails may be longer; where a node is a bin or two, as of small counts, less.
_TAIL_POWER, _COUNT_TAIL_POWER = 0.35, 0.5  # docs/experiments/numbers.md

# Of the nodes of a level: the precision with which their sums are known beyond those of the level below, and that times
# what they are known to be.
Known = tuple[Floats, Floats]


def known_beyond(sums: Sequence[Floats], variances: Sequence[Floats], level: int = 0) -> list[Known]:
    """What each level of a tree says beyond the one below, from `level` on: of that one, what all below it say, too, if
    a node's rows are spread evenly.

    Args:
        sums, variances: as of `Tree`.
    """
    found = list[Known]()
    for place, (total, variance) in enumerate(zip(sums, variances, strict=True)):
        there = (variance > 0) & np.isfinite(variance)
        precision = np.divide(1.0, variance, out=np.zeros(len(total)), where=there)
        weighed = total * precision
        if place:
            halves, spread = (each[place - 1].reshape(-1, 2).sum(1) for each in (sums, variances))
            below = np.divide(1.0, spread, out=np.zeros(len(total)), where=there & (spread > 0) & np.isfinite(spread))
            precision, weighed = np.maximum(precision - below, 0.0), weighed - halves * below
        if found and place <= level:
            inner, seen = found.pop()
            precision, weighed = precision + inner.reshape(-1, 2).sum(1) / 4, weighed + seen.reshape(-1, 2).sum(1) / 2
        found.append((precision, weighed))
    return found


def nearest_curves(levels: Sequence[Known], nodes: int, heavy: int) -> Floats:
    """The counts of the nodes by the likeliest curves, shape (nodes,), not negative.

    Args:
        levels: of the nodes first, then of pairs of them, up to the root or as far as anything is known.
        nodes: how many of the first level exist; the others hold nothing.
        heavy: the node of the heavy bin, which is on both sides.
    """
    sides = [_Family.of(nodes, heavy, way) for way in (-1, 1)]
    found = np.zeros((2, nodes))
    for _ in range(_ROUNDS):
        for side, family in enumerate(sides):
            found[side] = _nearest(levels, family, found[1 - side])
    return np.asarray(found.sum(0))


def _nearest(levels: Sequence[Known], family: _Family, others: Floats) -> Floats:
    """The likeliest curve times its rows, given those of the other side, of curves that reach no further than half of
    all that is likely: noise far out may be nearer than any, by chance."""
    curves = np.zeros((len(family.reach) + 1, len(levels[0][0])))
    curves[:-1, : len(others)], curves[-1, : len(others)] = family.curves, others
    linear, square = np.zeros(len(family.reach)), np.zeros(len(family.reach))
    for place, (precision, weighed) in enumerate(levels):
        curves = curves[:, ::2] + curves[:, 1::2] if place else curves
        linear += curves[:-1] @ (weighed - precision * curves[-1])
        square += curves[:-1] ** 2 @ precision
    linear, square = np.maximum(linear, 0.0), np.maximum(square, 1e-300)
    score = linear**2 / square / 2 - _REACH * np.log(family.reach)
    weights = np.cumsum(np.exp(score - score.max()))  # curves that reach less far come first
    last = np.searchsorted(weights, weights[-1] / 2)
    best = int(np.argmax(np.where(family.reach <= family.reach[last], score, -np.inf)))
    return np.asarray(family.curves[best] * (linear[best] / square[best]))


@dataclass(frozen=True, eq=False)
class _Family:
    """Curves of one row each, shape (curves, nodes), and how far from the heavy node they reach, ascending."""

    curves: Floats
    reach: Floats

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, nodes: int, heavy: int, way: int) -> _Family:
        """Those in a node and on one side of it (`way` is -1 or 1)."""
        places = np.arange(nodes)
        side = (places - heavy) * way >= 0
        apart = np.abs(places - heavy).astype(np.float64)
        shapes, reach = list[Floats](), list[float]()
        width, last = _NARROWEST, float(apart[side].max())
        while width <= max(last / 2, _NARROWEST):
            for middle in np.arange(0.0, last + 1, width / 2).tolist():
                shapes.append(np.exp(-(((apart - middle) / width) ** 2) / 2) * side)
                reach.append(max(middle, width))
            width *= 2
        for fall in _FALLS[max(last, 1.0) >= _FALLS].tolist():
            shapes.append(np.exp(-apart / fall) * side)
            reach.append(fall)
        order = np.argsort(reach, kind="stable")
        found = np.array(shapes)[order]
        return cls(found / found.sum(1, keepdims=True), np.array(reach)[order])


def fall_from_half(density: Floats, sizes: Floats, variances: Floats, smooth: Floats) -> float:
    """By how much a density falls from node to node, the mode first: a power of the fall of the exponential that is
    nearest to the noisy counts, empty nodes too, from where the smooth density is half of that at the mode."""
    low = np.flatnonzero(smooth <= smooth[0] / 2)
    if len(low) == 0 or low[0] == len(smooth) - 1:
        return float(_TAILS[-1])
    return nearest_fall(*(each[low[0] :] for each in (density, sizes, variances)))


def nearest_fall(density: Floats, sizes: Floats, variances: Floats) -> float:
    """A power of the fall of the exponential that is nearest to these nodes' noisy densities."""
    shapes = sizes * _TAILS[:, None] ** np.arange(len(sizes))
    fitted = np.maximum((shapes * density * sizes / variances).sum(1), 0.0) / np.sqrt((shapes**2 / variances).sum(1))
    power = _TAIL_POWER if sizes.max() > 2 else _COUNT_TAIL_POWER
    return float(min(_TAILS[np.argmax(fitted)] ** power, _TAILS[-1]))
