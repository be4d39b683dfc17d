"""Sums over a hierarchy (state → nation): made to add up before any interval is made, by weighted least squares.

Sums of disjoint groups add up, and so do their noise's covariances; a nation that was not measured is the sum of its
states (`RatioSums.__add__`). Where the nation was measured as well, the two answers differ by noise. Here every node
gets the best linear unbiased answer from all measurements, and the answers add up exactly.

>>> import numpy as np
>>> from equistrata.inference.ratios.ratio import ratio_from_sums
>>> from equistrata.inference.ratios.design import PricedDesign
>>> from equistrata.inference.ratios.sums import measure_sums
>>> from equistrata.privacy.noise import SeededNoise
>>> noise, price = SeededNoise(1), PricedDesign.of_rho(0.001, weighted=False, binary=True)
>>> label = {"east": np.arange(3000) % 2, "west": np.arange(9000) % 3 == 0}
>>> rows = label | {"nation": np.concatenate([label["east"], label["west"]])}
>>> measured = {place: measure_sums(np.full(len(y), 0.4), y, price, noise=noise) for place, y in rows.items()}
>>> sums = consistent_sums(measured, {"nation": ["east", "west"]})
>>> bool(np.allclose(sums["nation"].vector, sums["east"].vector + sums["west"].vector))
True
>>> alone, together = (ratio_from_sums(table["east"]).variance for table in (measured, sums))
>>> together < alone
True
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.ratios.sums import RatioSums
from equistrata.privacy.budget import Rho

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class _Belief:
    """A vector of sums and the covariance of its noise."""

    vector: Floats
    covariance: Floats


def consistent_sums(measured: Mapping[K, RatioSums], children: Mapping[K, Sequence[K]]) -> dict[K, RatioSums]:
    """Weighted least squares over one or more trees: every node's sums, equal to the sum of its children's.

    Args:
        measured: node → noisy sums, with independent noise. Every node without children must be there; inner nodes may be.
        children: inner node → its children, whose rows are disjoint and together the node's own.

    Returns:
        Node → sums, for every node. The covariance is that of the answer's noise; answers of different nodes are
        correlated, so intervals of sums of nodes want the node above them.

    Raises:
        InputError: a leaf that was not measured, nodes that form no forest (a node with two parents, or a cycle), an inner
            node without children, or sums of different kinds.

    Privacy: post-processing. Each node's `rho` is stated as the most that a path from a root to a leaf costs: nodes of one
    level are disjoint groups (parallel composition), levels add up.

    Method: least squares on a tree in two passes (Hay et al., arXiv:0904.0942, section 4, here with any covariances): upward,
    each inner node's own measurement is averaged with the sum of its children's, weighted by precision; downward, what a
    node differs from the sum of its children is shared among them in proportion to their covariances.
    """
    order = _top_down(measured, children)
    names = {sums.names for sums in measured.values()}
    if len(names) > 1:
        raise InputError("the groups have different sums (weighted or not, binary or not); measure all alike")
    upward: dict[K, _Belief] = {}
    below: dict[K, _Belief] = {}  # the sum of the children's upward beliefs
    for node in reversed(order):
        own = _Belief(measured[node].vector, measured[node].covariance) if node in measured else None
        if node in children:
            parts = [upward[child] for child in children[node]]
            below[node] = _Belief(
                reduce(add, (part.vector for part in parts)), reduce(add, (part.covariance for part in parts))
            )
            upward[node] = below[node] if own is None else _pooled(own, below[node])
        else:
            assert own is not None  # leaves are measured
            upward[node] = own
    final: dict[K, _Belief] = {}
    for node in order:
        final.setdefault(node, upward[node])  # roots
        for child in children.get(node, ()):
            final[child] = _informed(upward[child], below[node], final[node])
    rho = _dearest_path(order, measured, children)
    example = next(iter(measured.values()))
    private = all(sums.private for sums in measured.values())
    return {
        node: replace(
            example,
            vector=belief.vector,
            covariance=belief.covariance,
            rho=rho,
            epsilon=None,
            delta=None,
            laplace=None,
            private=private,
        )
        for node, belief in final.items()
    }


def _pooled(first: _Belief, second: _Belief) -> _Belief:
    """The average weighted by precision: covariance (A⁻¹ + B⁻¹)⁻¹ = A(A + B)⁻¹B."""
    gain = first.covariance @ np.linalg.inv(first.covariance + second.covariance)
    return _Belief(first.vector + gain @ (second.vector - first.vector), _symmetric(gain @ second.covariance))


def _informed(child: _Belief, siblings: _Belief, parent: _Belief) -> _Belief:
    """A child after its parent's last word: it takes its share C·S⁻¹ of parent − Σ children."""
    gain = child.covariance @ np.linalg.inv(siblings.covariance)
    vector = child.vector + gain @ (parent.vector - siblings.vector)
    return _Belief(vector, _symmetric(child.covariance - gain @ (siblings.covariance - parent.covariance) @ gain.T))


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2


def _top_down(measured: Mapping[K, RatioSums], children: Mapping[K, Sequence[K]]) -> list[K]:
    """All nodes, parents before children."""
    parents: dict[K, K] = {}
    for node, below in children.items():
        if not below:
            raise InputError(f"node {node!r} of the hierarchy has an empty list of children; leave it out or name them")
        for child in below:
            if child in parents or child == node:
                raise InputError(f"node {child!r} has two parents in the hierarchy; a group belongs to one")
            parents[child] = node
    nodes = dict.fromkeys([*children, *parents, *measured])
    order = [node for node in nodes if node not in parents]
    for node in order:  # grows as it goes
        order += children.get(node, ())
    if len(order) < len(nodes):
        raise InputError("the hierarchy runs in a circle; a group must not contain itself")
    for node in order:
        if node not in children and node not in measured:
            raise InputError(f"group {node!r} has no children and was not measured; measure it")
    return order


def _dearest_path(order: Sequence[K], measured: Mapping[K, RatioSums], children: Mapping[K, Sequence[K]]) -> Rho:
    cost: dict[K, Rho] = {}
    for node in reversed(order):
        own = measured[node].rho if node in measured else Rho(0)
        cost[node] = own + max((cost[child] for child in children.get(node, ())), default=Rho(0))
    return max(cost.values())
