"""Coarsening: codes of a column that no measurement of several columns tells apart are one code while a model is found.

A table of few rows cannot fill the cells of two columns of a hundred codes each. So a mechanism measures every column
at its full codes, and merges neighbouring codes before columns are measured together: into as many groups as the noise
of a pair allows (`groups_for`). Within a group, codes keep the shares that the column by itself was measured to have.
That loses nothing of what was measured: given the group, the maximum-entropy model holds a code independent of all
other columns. See docs/proofs/coarsening.md. Post-processing of noisy numbers.

>>> schema = Schema("ages", (Column("AGE", values=tuple(range(100))), Column("SEX", values=(1, 2))))
>>> alone = Measurement(("AGE",), np.linspace(80.0, 10.0, 100), 1.0)
>>> Coarsening.chosen(schema, [alone], most=4).schema.sizes, Coarsening.of(schema, [alone]).schema.sizes
((4, 2), (1, 2))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.data.columns.column import Column
from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.stats.wavelets import denoised
from equistrata.synth.measurements import Columns, Measurement, Merging, Prediction, Summed, sum_groups
from equistrata.synth.models.base import Model, Tilting
from equistrata.synth.models.columns.alone import Alone, is_of_tree
from equistrata.synth.models.columns.merging import merge_bins, merge_codes, projected_shares
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.expanded import ExpandedModel, merged_schema
from equistrata.synth.models.possible import zero_classes

WIDE = 16  # codes: columns of no more, unless they are numbers without edges, are left alone
WEIGHT_GROUPS = 8  # of the survey weight, at most
FINE_GROUPS = 64  # at most, of a numeric column without declared edges


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Which codes of a schema's columns are merged.

    Attributes:
        fine: the schema with all codes.
        groups: for each column with merged codes, the group of each code; groups are numbered 0, 1, … without a gap.
    """

    fine: Schema
    groups: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, schema: Schema, measurements: Iterable[Measurement], kept: Columns = ()) -> Coarsening:
        """The coarsest of wide columns, and of those with fine bins, that loses nothing of these measurements and of
        the structural zeros.

        Args:
            kept: columns that keep all their codes, such as those that define strata.
        """
        distinctions: dict[str, list[Sequence[int] | Indices]] = {
            name: [[0] * schema[name].size] for name in schema.names
        }
        for measurement in measurements:
            if is_of_tree(schema, measurement):
                continue
            for name, groups in zip(measurement.columns, measurement.groups, strict=True):
                if groups is not None or len(measurement.columns) > 1:
                    distinctions[name].append(range(schema[name].size) if groups is None else groups)
        for name in kept:
            distinctions[name].append(range(schema[name].size))
        for name, classes in _classes(schema).items():
            distinctions[name].append(classes)
        merged = {}
        for name, kinds in distinctions.items():
            _, codes = np.unique(np.stack([np.asarray(kind) for kind in kinds]), axis=1, return_inverse=True)
            if codes.max() + 1 < schema[name].size and (schema[name].size > WIDE or schema[name].fine):
                merged[name] = _numbered(codes.ravel())
        return cls(schema, merged)

    @classmethod
    def chosen(cls, schema: Schema, measurements: Iterable[Measurement], most: float, kept: Columns = ()) -> Coarsening:
        """Columns of more than `most` and WIDE codes, and those with fine bins, merged by what was measured of each
        alone: see `merge_codes` and `merge_bins`."""
        classes, groups, measurements = _classes(schema), {}, list(measurements)
        for measurement in measurements:
            if len(measurement.columns) != 1 or measurement.groups != (None,) or measurement.columns[0] in kept:
                continue
            column = schema[measurement.columns[0]]
            if column.fine:
                limit, alone = min(most, FINE_GROUPS), Alone.of(column, measurements)
                mass = alone.smooth
                if column.weight:
                    limit, mass = min(most, WEIGHT_GROUPS), _of_sums(column, mass)
                elif column.size <= max(limit, WIDE):
                    limit = FINE_GROUPS  # rare codes alone: their noise would be rows far out
                kinds = _with_bounds_apart(classes[column.name], column, alone)
                groups[column.name] = merge_bins(column, mass, limit, kinds)
            elif column.size > max(most, WIDE):
                counts = denoised(measurement.values, measurement.sigma)
                groups[column.name] = merge_codes(column, counts, most, classes[column.name])
        return cls(schema, {name: merged for name, merged in groups.items() if max(merged) + 1 < len(merged)})

    def as_before(self, former: Sequence[Measurement]) -> Coarsening:
        """This coarsening with the groups in which former measurements, if any, held columns together."""
        groups = dict(self.groups)
        for name in self.fine.names:
            kinds = {
                dict(zip(each.columns, each.groups, strict=True))[name]
                for each in former
                if name in each.columns and len(each.columns) > 1
            }
            if not kinds:
                continue
            groups.pop(name, None)
            merged = [kind for kind in kinds if kind]
            if merged and None not in kinds:
                groups[name] = max(merged, key=max)
        return replace(self, groups=groups)

    @cached_property
    def schema(self) -> Schema:
        """The schema of merged codes."""
        return merged_schema(self.fine, self.groups)

    def merged(self, table: CodedTable) -> CodedTable:
        """The rows with merged codes. Row by row, so neighbouring tables stay neighbours."""
        if not self.groups:
            return table
        codes = np.empty(table.codes.shape, dtype=code_dtype(self.schema), order="F")
        for place, name in enumerate(self.fine.names):
            codes[:, place] = table.column(name)
            if name in self.groups:
                codes[:, place] = np.asarray(self.groups[name])[table.column(name)]
        return CodedTable(codes, self.schema)

    def measured(self, measurement: Measurement) -> Measurement:
        """What was measured of the table of merged codes, as a measurement of the table with all codes."""
        groups = tuple(
            tuple(further[code] for code in own) if further is not None and own is not None else own or further
            for own, further in zip(map(self.groups.get, measurement.columns), measurement.groups, strict=True)
        )
        return replace(measurement, groups=groups) if any(groups) else measurement

    def coarse(self, measurement: Measurement) -> Measurement:
        """A measurement of the table with all codes as one of merged codes: counts add up, and so do their variances.

        What `of` was made from, or was measured on the table of merged codes, loses nothing. Of groups on either side,
        those of one have to be unions of the other's.
        """
        values, variance, sums = measurement.values, measurement.cell_sigma**2, False
        rest: list[Merging] = []
        for axis, (name, found) in enumerate(zip(measurement.columns, measurement.groups, strict=True)):
            own = self.groups.get(name)
            seen = found if found is not None else range(len(own or ()))
            finer = own is not None and (found is None or max(found) > max(own))
            if own is None or found is None:
                rest.append(found)
            elif finer:  # `found` tells apart what `own` does, and more
                rest.append(None)
            else:  # `own` tells apart what `found` does, and maybe more
                coarser = np.zeros(max(own) + 1, dtype=np.intp)
                coarser[list(own)] = found
                rest.append(None if len(coarser) == values.shape[axis] else tuple(coarser.tolist()))
            if own is not None and finer:
                groups = dict(zip(seen, own, strict=True))
                parts = tuple(groups[part] for part in range(len(groups)))
                values, variance = (sum_groups(part, axis, parts) for part in (values, variance))
                sums = True
        if not sums:
            return measurement if tuple(rest) == measurement.groups else replace(measurement, groups=tuple(rest))
        kind = type(measurement) if isinstance(measurement, Summed) else Summed
        sigmas = np.sqrt(variance)
        typical = float(sigmas.min()) if kind is Prediction else sqrt(float(variance.mean()))
        return kind(measurement.columns, values, typical, tuple(rest), measurement.where, sigmas=sigmas)

    def coarse_all(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Each as `coarse`; those of a tree of bins as one, by least squares."""
        measurements, found = list(measurements), list[Measurement]()
        for name in self.fine.names:
            if any(each.columns == (name,) and is_of_tree(self.fine, each) for each in measurements):
                alone = Alone.of(self.fine[name], measurements)
                if alone.tree is not None:
                    found.append(alone.sums(self.fine[name], self.groups.get(name)))
        return [*(self.coarse(each) for each in measurements if not is_of_tree(self.fine, each)), *found]

    def expanded(
        self,
        model: Tilting,
        measurements: Sequence[Measurement],
        schema: Schema | None = None,
        shares: Mapping[str, Floats] | None = None,
        priors: Mapping[str, Floats] | None = None,
    ) -> Model:
        """A model of merged codes as one of all codes, with shares within groups as columns alone were measured.

        Args:
            schema: of the result: `fine`, or the columns of it that the model has.
            shares: of the columns in which they are known, others as `shares`.
            priors: of columns with fine bins, see `shares`.
        """
        names = [name for name in model.schema.names if name in self.groups]
        if not names:
            return model
        known, prior = shares or {}, priors or {}
        found = {name: self.shares(name, measurements, prior.get(name)) for name in names if name not in known}
        groups = {name: self.groups[name] for name in names}
        return ExpandedModel(schema or self.fine, model, groups, {name: {**known, **found}[name] for name in names})

    def shares(self, name: str, measurements: Sequence[Measurement], prior: Floats | None = None) -> Floats:
        """P(code | group) of one column, shape (codes,), by what it alone was measured to hold, denoised.

        Args:
            prior: of fine bins: their proportions in a table of which this is a part.
        """
        counts = Alone.of(self.fine[name], measurements, prior).smooth
        groups, shares = np.asarray(self.groups[name]), np.zeros(len(counts))
        for group in range(int(groups.max()) + 1):
            codes = np.flatnonzero(groups == group)
            shares[codes] = projected_shares(counts[codes])
        return shares


def modelled(
    schema: Schema,
    measurements: Sequence[Measurement],
    engine: Estimator,
    priors: Mapping[str, Floats] | None = None,
) -> Model:
    """What the engine makes of measurements, found on merged codes (`Coarsening.of`) and expanded to all.

    Args:
        priors: of columns with fine bins, see `Coarsening.shares`.
    """
    coarsening = Coarsening.of(schema, measurements)
    model = engine.estimate(coarsening.schema, coarsening.coarse_all(measurements))
    return coarsening.expanded(model, measurements, priors=priors)


def merged_sizes(schema: Schema, kept: Columns = ()) -> tuple[int, ...]:
    """The most codes that each column has in a model: bins are merged (`merge_bins`), where structural zeros do not
    tell them apart.

    Each full group, and each bin that is one, holds a FINE_GROUPSth of the rows, and before each such bin there may be
    a rest. So may there be beside a bound that is a group by itself.

    Args:
        kept: columns that keep all their codes, such as those that define strata.

    >>> schema = Schema("s", (Column("PAY", lower=0, upper=1e6), Column("SEX", values=(1, 2))))
    >>> merged_sizes(schema), merged_sizes(schema, ("PAY",)) == schema.sizes
    ((131, 2), True)
    """
    classes, sizes = _classes(schema), []
    for column in schema.columns:
        kinds = classes[column.name]
        runs = 1 + int(np.count_nonzero(np.diff(kinds[: column.bins]))) + 2 * column.bounds_apart
        merged = 2 * FINE_GROUPS + runs + column.size - column.bins
        sizes.append(min(column.size, merged) if column.fine and column.name not in kept else column.size)
    return tuple(sizes)


def _classes(schema: Schema) -> dict[str, Indices]:
    return dict(zip(schema.names, zero_classes(schema.sizes, schema.names, schema.impossible), strict=True))


def _with_bounds_apart(classes: Indices, column: Column, alone: Alone) -> Indices:
    """Classes of codes in which a bound that clearly holds rows (`Tree.ends`) is a class of its own."""
    found = classes.copy()
    clear = list(alone.tree.ends) if column.bounds_apart and alone.tree else []
    found[clear] = classes.max() + 1 + np.arange(len(clear))
    return found


def _of_sums(column: Column, counts: Floats) -> Floats:
    """What groups of the survey weight are to have equal parts of: rows times the root of the weight.

    This lies between equal parts of the rows, which leave all large weights in one group, and equal parts of the sum,
    where the few largest weights multiply the noise.
    """
    return np.asarray(np.maximum(counts, 0.0) * np.sqrt(drawn_numbers(column)))


def _numbered(groups: Indices) -> tuple[int, ...]:
    """Groups numbered in the order in which codes meet them."""
    places: dict[int, int] = {}
    return tuple(places.setdefault(group, len(places)) for group in groups.tolist())
