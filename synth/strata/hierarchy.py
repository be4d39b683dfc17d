"""Estimation of the sizes of nested strata, in which each level is shrunk toward the levels above it.

A level is a set of stratum columns. A nested column can be included with its own values (for example PUMA), or with the
values of a column that contains it (for example the state). Sums over a level are estimated from all measurements of
this level and of finer levels, by inverse variance. The expected counts of a level are the table of maximum entropy
that has the sums of the levels above. A count differs from its expected value because of chance and because of
differences between places. Its prior variance is a·expected + b·expected², where a and b are estimated by the method of
moments. The resulting counts have the sums of the levels above, so that the sizes are consistent.

The estimation is post-processing and has no privacy cost. The model is that of Fay and Herriot [1]_, with known noise
and estimated variance, which is applied level by level.

References
----------
.. [1] Fay and Herriot, JASA 1979.

Examples
--------
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
from equistrata.synth.measurements import FormerEstimate, Measurement, Prediction, sum_groups, summed

_EXPECTATIONS, _RAKINGS = 15, 5  # the iterations of proportional fitting for expected counts and for estimates
_LEAST = 0.1  # the minimum size in posterior standard deviations, which is at most the expected size
_EXACT = 0.1  # the standard deviation of a public number, in rows

Node = tuple[int, ...]  # the degree of fineness of each stratum column, which is 0 if its codes are not distinguished
Groups = tuple[int, ...]


def nested_sizes(strata: Strata, measurements: Iterable[Measurement], shrinkage: bool = True) -> Floats:
    """Estimate the sizes of nested strata.

    Parameters
    ----------
    strata : Strata
        The strata. At least one of their columns is nested within another column.
    measurements : iterable of Measurement
        The measurements of all rows. A measurement is ignored if its groups of codes are not a level of the strata.
    shrinkage : bool, default=True
        If True, counts are shrunk toward the values that the levels above predict. If False, the measured counts are
        only made positive and consistent.

    Returns
    -------
    ndarray
        The sizes, with one axis per stratum column. They are positive for possible strata and 0 otherwise.
    """
    lattice = _Lattice(strata)
    seen = [
        (node, *lattice.folded(each, node))
        for each in measurements
        if not isinstance(each, FormerEstimate | Prediction) and (node := lattice.node(each)) is not None
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
    """Shrink counts toward their expected values by empirical Bayes.

    The prior variance is a·expected + b·expected². Without shrinkage, the prior is flat and only the minimum size is
    enforced.
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
    """The levels of the strata, and the sums from one level to another."""

    strata: Strata

    @cached_property
    def axes(self) -> list[list[Groups]]:
        """For each stratum column, the group of each code at each degree of fineness.

        The degrees are one group, the groups of each column that contains it, and all codes.
        """
        columns = [self.strata.schema[name] for name in self.strata.columns]
        return [[(0,) * column.size, *column.levels, tuple(range(column.size))] for column in columns]

    @cached_property
    def nodes(self) -> list[Node]:
        """All levels in an order such that each level is after the levels above it."""
        return sorted(product(*(range(len(levels)) for levels in self.axes)), key=lambda node: (sum(node), node))

    def shape(self, node: Node) -> tuple[int, ...]:
        """Return the shape of the table of a level, which has one axis per stratum column."""
        return tuple(max(levels[fineness]) + 1 for levels, fineness in zip(self.axes, node, strict=True))

    def parents(self, node: Node) -> Iterator[Node]:
        """Return the levels directly above a level. One of the columns is less fine in each of them."""
        for axis, fineness in enumerate(node):
            if fineness:
                yield (*node[:axis], fineness - 1, *node[axis + 1 :])

    def node(self, measurement: Measurement) -> Node | None:
        """Return the level of a measurement that is summed over all other columns.

        The result is None if the groups of its codes are not a level.
        """
        groups = dict(zip(measurement.columns, measurement.groups, strict=True))
        found = []
        for name, levels in zip(self.strata.columns, self.axes, strict=True):
            own = groups.get(name) or (levels[-1] if name in groups else levels[0])
            if own not in levels:
                return None
            found.append(len(levels) - 1 - levels[::-1].index(own))  # the finest of several equal levels
        return tuple(found)

    def folded(self, measurement: Measurement, node: Node) -> tuple[Floats, Floats]:
        """Return the counts and the variances of a measurement by stratum columns, in the shape of a level."""
        only = summed(measurement, self.strata.columns)
        order = [only.columns.index(name) for name in self.strata.columns if name in only.columns]
        values, sigmas = (np.transpose(each, order) for each in (only.values, np.maximum(only.cell_sigma, _EXACT)))
        return values.reshape(self.shape(node)), (sigmas**2).reshape(self.shape(node))

    def summed(self, table: Floats, source: Node, node: Node) -> Floats:
        """Sum a table of one level over the finer groups of another level."""
        for axis, (fine, coarse) in enumerate(zip(source, node, strict=True)):
            if fine != coarse:
                table = (
                    table.sum(axis, keepdims=True)
                    if not coarse
                    else sum_groups(table, axis, self._up(axis, fine, coarse))
                )
        return table

    def raked(self, table: Floats, node: Node, margins: dict[Node, Floats], times: int) -> Floats:
        """Adjust a table to the sums of the levels above it, by iterative proportional fitting."""
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
        """Return 1 for each cell of a level that contains a possible stratum, and 0 for any other cell."""
        found = np.zeros(self.strata.sizes)
        found[tuple(self._codes.T)] = 1.0
        return np.minimum(self.summed(found, self.nodes[-1], node), 1.0)

    @cached_property
    def _codes(self) -> npt.NDArray[np.intp]:
        return np.array([tuple(self.strata.codes_of(key).values()) for key in self.strata.keys], dtype=np.intp)

    def _up(self, axis: int, fine: int, coarse: int) -> Sequence[int]:
        """Return the coarse group of each finer group."""
        outer = dict(zip(self.axes[axis][fine], self.axes[axis][coarse], strict=True))
        return [outer[group] for group in range(len(outer))]
