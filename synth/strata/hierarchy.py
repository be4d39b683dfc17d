"""Sizes of strata that nest, from the nation down: each level is shrunk towards what the levels above expect of it.

A level is a set of stratum columns, a nested one of them by its own values (PUMA) or by an outer column's (state). Sums
over a level are known from all that was measured of it or of finer ones, by inverse variance. What the levels above
expect is the table of most entropy with their sums. Around it a count varies by chance and by what makes places unlike:
its prior variance is a·expected + b·expected², by the method of moments. Sums over the result are those of the levels
above, so sizes are consistent. Post-processing, no cost.

Source: Fay and Herriot, JASA 1979 (known noise, estimated variance), applied level by level.

>>> from equistrata.data.schema import Schema
>>> places = {"within": "ST", "values": {36: [100, 200], 50: [100]}}
>>> schema = Schema.from_dict({"columns": {"PUMA": places, "SEX": {"values": [1, 2]}, "ESR": {"values": [0, 1]}}})
>>> strata = Strata.over(schema, ["ST/PUMA", "SEX"])
>>> fine = Measurement(("PUMA", "SEX"), np.array([[90.0, 130.0], [60.0, 45.0], [-20.0, 30.0]]), 20.0)
>>> states = Measurement(("PUMA", "SEX"), np.array([[150.0, 150.0], [10.0, 10.0]]), 1.0, ((0, 0, 1), None))
>>> sizes = nested_sizes(strata, [fine, states])
>>> sizes.round().tolist(), sizes[:2].sum(0).round().tolist()
([[94.0, 97.0], [56.0, 53.0], [10.0, 10.0]], [150.0, 150.0])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Former, Measurement, Prediction, sum_groups, summed

_EXPECTATIONS, _RAKINGS = 15, 5  # iterative proportional fitting, of what is expected and of what is found
_LEAST = 0.1  # posterior standard deviations that a size has at least, but no more than is expected
_EXACT = 0.1  # the standard deviation, in rows, of a public number

Node = tuple[int, ...]  # of each stratum column, how finely its codes are distinguished: 0 for not at all
Groups = tuple[int, ...]


def nested_sizes(strata: Strata, measurements: Iterable[Measurement], shrinkage: bool = True) -> Floats:
    """The strata's sizes, shape by stratum column; above zero where a stratum is possible, and zero elsewhere.

    Args:
        strata: some columns of which lie within others.
        measurements: of all rows; those that say nothing of strata or sums over them are passed over.
        shrinkage: whether counts are moved towards what the levels above expect. Without, they are what was measured
            of them, made positive, and then consistent.
    """
    lattice = _Lattice(strata)
    seen = [
        (node, *lattice.folded(each, node))
        for each in measurements
        if not isinstance(each, Former | Prediction) and (node := lattice.node(each)) is not None
    ]
    tables: dict[Node, Floats] = {}
    for node in lattice.nodes:
        sums, precision = np.zeros(lattice.shape(node)), np.zeros(lattice.shape(node))
        for source, values, variances in seen:
            if all(fine >= coarse for fine, coarse in zip(source, node, strict=True)):
                weight = 1 / lattice.summed(variances, source, node)
                sums = sums + weight * lattice.summed(values, source, node)
                precision = precision + weight
        margins = {parent: tables[parent] for parent in lattice.parents(node)}
        expected = lattice.raked(lattice.possible(node), node, margins, _EXPECTATIONS)
        if not margins:
            expected = expected * max(float(np.sum(sums / precision)) if precision.any() else 0.0, 1.0)
        elif precision.any():
            found = _shrunk(sums / precision, 1 / precision, expected, shrinkage)
            expected = lattice.raked(found, node, margins, _RAKINGS)
        tables[node] = expected
    return tables[lattice.nodes[-1]]


def _shrunk(noisy: Floats, variance: Floats, expected: Floats, shrinkage: bool) -> Floats:
    """Counts shrunk towards what is expected, by empirical Bayes; the prior variance is a·expected + b·expected².

    Without shrinkage the prior is flat, and only the least size is kept.
    """
    if not shrinkage:
        return np.maximum(noisy, np.minimum(expected, _LEAST * np.sqrt(variance)))
    weight = 1 / (variance + expected)
    kinds = np.stack([(expected * weight).ravel(), (expected**2 * weight).ravel()], axis=1)
    (chance, spread), _ = scipy.optimize.nnls(kinds, ((((noisy - expected) ** 2 - variance) * weight).ravel()))
    prior = chance * expected + spread * expected**2
    kept = prior / (prior + variance)
    least = np.minimum(expected, _LEAST * np.sqrt(kept * variance))
    return np.asarray(np.maximum(expected + kept * (noisy - expected), least))


@dataclass(frozen=True)
class _Lattice:
    """The levels of strata, and how tables of one are summed into those of another."""

    strata: Strata

    @cached_property
    def axes(self) -> list[list[Groups]]:
        """Of each stratum column, the group of each code at each fineness: one group, then outer columns', then all."""
        columns = [self.strata.schema[name] for name in self.strata.columns]
        return [[(0,) * column.size, *column.levels, tuple(range(column.size))] for column in columns]

    @cached_property
    def nodes(self) -> list[Node]:
        """All levels, each after those above it."""
        return sorted(product(*(range(len(levels)) for levels in self.axes)), key=lambda node: (sum(node), node))

    def shape(self, node: Node) -> tuple[int, ...]:
        """Of the table of a level: an axis for each stratum column."""
        return tuple(max(levels[fineness]) + 1 for levels, fineness in zip(self.axes, node, strict=True))

    def parents(self, node: Node) -> Iterator[Node]:
        """The levels next above: one column distinguished less finely."""
        for axis, fineness in enumerate(node):
            if fineness:
                yield (*node[:axis], fineness - 1, *node[axis + 1 :])

    def node(self, measurement: Measurement) -> Node | None:
        """The level that a measurement is of, once it is summed over other columns; None for other groups of codes."""
        groups = dict(zip(measurement.columns, measurement.groups, strict=True))
        found = []
        for name, levels in zip(self.strata.columns, self.axes, strict=True):
            own = groups.get(name) or (levels[-1] if name in groups else levels[0])
            if own not in levels:
                return None
            found.append(len(levels) - 1 - levels[::-1].index(own))  # of equal levels the finest
        return tuple(found)

    def folded(self, measurement: Measurement, node: Node) -> tuple[Floats, Floats]:
        """A measurement's counts by stratum columns, and their variances, of a level's shape."""
        only = summed(measurement, self.strata.columns)
        order = [only.columns.index(name) for name in self.strata.columns if name in only.columns]
        values, sigmas = (np.transpose(each, order) for each in (only.values, np.maximum(only.cell_sigma, _EXACT)))
        return values.reshape(self.shape(node)), (sigmas**2).reshape(self.shape(node))

    def summed(self, table: Floats, source: Node, node: Node) -> Floats:
        """A table of one level as one of a level above it."""
        for axis, (fine, coarse) in enumerate(zip(source, node, strict=True)):
            if fine != coarse:
                table = (
                    table.sum(axis, keepdims=True)
                    if not coarse
                    else sum_groups(table, axis, self._up(axis, fine, coarse))
                )
        return table

    def raked(self, table: Floats, node: Node, margins: dict[Node, Floats], times: int) -> Floats:
        """A table with the sums of levels above it, by iterative proportional fitting."""
        for _ in range(times if len(margins) > 1 else 1):
            for parent, wanted in margins.items():
                ratio = wanted / np.maximum(self.summed(table, node, parent), 1e-12)
                axis = next(a for a, (fine, coarse) in enumerate(zip(node, parent, strict=True)) if fine != coarse)
                up = np.zeros(table.shape[axis], dtype=np.intp)
                if parent[axis]:
                    up = np.asarray(self._up(axis, node[axis], parent[axis]))
                table = table * np.take(ratio, up, axis)
        return table

    def possible(self, node: Node) -> Floats:
        """1 where a level holds a possible stratum, and 0 elsewhere."""
        found = np.zeros(self.strata.sizes)
        found[tuple(self._codes.T)] = 1.0
        return np.minimum(self.summed(found, self.nodes[-1], node), 1.0)

    @cached_property
    def _codes(self) -> npt.NDArray[np.intp]:
        return np.array([tuple(self.strata.codes_of(key).values()) for key in self.strata.keys], dtype=np.intp)

    def _up(self, axis: int, fine: int, coarse: int) -> Sequence[int]:
        """The group of each finer group."""
        outer = dict(zip(self.axes[axis][fine], self.axes[axis][coarse], strict=True))
        return [outer[group] for group in range(len(outer))]
