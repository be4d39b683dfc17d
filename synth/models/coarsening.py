"""Merging of codes for models of several columns.

If no measurement of several columns distinguishes some codes of a column, these codes are merged into one code while a
model is estimated.

A table with few rows cannot fill the cells of a pair of columns with a hundred codes each. Therefore, a mechanism
measures every column at its full codes and merges neighbouring codes before columns are measured together. The number
of groups is the number that the noise of a pair allows (`groups_for`). Within a group, the shares of the codes are
those that were measured for the column alone. No measured information is lost, because in the maximum-entropy model a
code is independent of all other columns given its group. See docs/proofs/coarsening.md. Merging is post-processing of
noisy numbers.

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
from equistrata.synth.measurements import Columns, Measurement, Merging, Prediction, SummedMeasurement, sum_groups
from equistrata.synth.models.base import Model, Tilting
from equistrata.synth.models.columns.alone import Alone, is_of_tree
from equistrata.synth.models.columns.merging import merge_bins, merge_codes, projected_shares
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.expanded import ExpandedModel, merged_schema
from equistrata.synth.models.possible import zero_classes

WIDE = 16  # columns with at most this many codes are not merged, unless they are numeric without declared edges
WEIGHT_GROUPS = 8  # the maximum number of groups of the survey weight
FINE_GROUPS = 64  # the maximum number of groups of a numeric column without declared edges


@dataclass(frozen=True, eq=False)
class Coarsening:
    """The codes of a schema that are merged.

    Parameters
    ----------
    fine : Schema
        The schema with all codes.
    groups : mapping of str to tuple of int
        For each column with merged codes, the group of each code. Groups are numbered 0, 1, … without gaps.
    """

    fine: Schema
    groups: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, schema: Schema, measurements: Iterable[Measurement], kept: Columns = ()) -> Coarsening:
        """Return the coarsest merging that loses no information in the measurements and in the structural zeros.

        Only wide columns and columns with fine bins are merged.

        Parameters
        ----------
        schema : Schema
            The schema with all codes.
        measurements : iterable of Measurement
            The measurements.
        kept : tuple of str, default=()
            The columns with codes that are not merged, for example the columns that define strata.

        Returns
        -------
        Coarsening
            The merged codes.
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
        """Merge columns according to the measurements of single columns.

        A column is merged if it has more than `most` codes and more than `WIDE` codes, or if it has fine bins. See
        `merge_codes` and `merge_bins`.

        Parameters
        ----------
        schema : Schema
            The schema with all codes.
        measurements : iterable of Measurement
            The measurements.
        most : float
            The target number of groups of a column. A full group has at least 1/most of the rows.
        kept : tuple of str, default=()
            The columns with codes that are not merged.

        Returns
        -------
        Coarsening
            The merged codes.
        """
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
                    limit = FINE_GROUPS  # only rare codes are merged, because their noise would become outliers
                kinds = _with_bounds_apart(classes[column.name], column, alone)
                groups[column.name] = merge_bins(column, mass, limit, kinds)
            elif column.size > max(most, WIDE):
                counts = denoised(measurement.values, measurement.sigma)
                groups[column.name] = merge_codes(column, counts, most, classes[column.name])
        return cls(schema, {name: merged for name, merged in groups.items() if max(merged) + 1 < len(merged)})

    def with_former_groups(self, former: Sequence[Measurement]) -> Coarsening:
        """Return this coarsening with the groups that former measurements of several columns used, if there are any."""
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
        """The schema of the merged codes."""
        return merged_schema(self.fine, self.groups)

    def merged(self, table: CodedTable) -> CodedTable:
        """Merge the codes of a table.

        Codes are merged row by row, so neighbouring tables remain neighbouring.

        Parameters
        ----------
        table : CodedTable
            The rows with all codes.

        Returns
        -------
        CodedTable
            The rows with merged codes.
        """
        if not self.groups:
            return table
        codes = np.empty(table.codes.shape, dtype=code_dtype(self.schema), order="F")
        for place, name in enumerate(self.fine.names):
            codes[:, place] = table.column(name)
            if name in self.groups:
                codes[:, place] = np.asarray(self.groups[name])[table.column(name)]
        return CodedTable(codes, self.schema)

    def measured(self, measurement: Measurement) -> Measurement:
        """Convert a measurement of the table with merged codes into a measurement of the table with all codes."""
        groups = tuple(
            tuple(further[code] for code in own) if further is not None and own is not None else own or further
            for own, further in zip(map(self.groups.get, measurement.columns), measurement.groups, strict=True)
        )
        return replace(measurement, groups=groups) if any(groups) else measurement

    def coarse(self, measurement: Measurement) -> Measurement:
        """Convert a measurement of the table with all codes into a measurement of merged codes.

        Counts and their variances are summed. No information is lost if the measurement was passed to `of`, or if it
        was made on the table with merged codes. The groups of the measurement must be unions of the groups of this
        coarsening, or vice versa.

        Parameters
        ----------
        measurement : Measurement
            The measurement of the table with all codes.

        Returns
        -------
        Measurement
            The measurement of merged codes.
        """
        values, variance, sums = measurement.values, measurement.cell_sigma**2, False
        rest: list[Merging] = []
        for axis, (name, found) in enumerate(zip(measurement.columns, measurement.groups, strict=True)):
            own = self.groups.get(name)
            seen = found if found is not None else range(len(own or ()))
            finer = own is not None and (found is None or max(found) > max(own))
            if own is None or found is None:
                rest.append(found)
            elif finer:  # `found` distinguishes more codes than `own`
                rest.append(None)
            else:  # `own` distinguishes at least the codes that `found` distinguishes
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
        kind = type(measurement) if isinstance(measurement, SummedMeasurement) else SummedMeasurement
        sigmas = np.sqrt(variance)
        typical = float(sigmas.min()) if kind is Prediction else sqrt(float(variance.mean()))
        return kind(measurement.columns, values, typical, tuple(rest), measurement.where, sigmas=sigmas)

    def coarse_all(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Convert each measurement as in `coarse`.

        The measurements of a tree of bins are combined into one measurement by least squares.
        """
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
        """Convert a model of merged codes into a model of all codes.

        The shares of codes within groups are those of the measurements of single columns.

        Parameters
        ----------
        model : Tilting
            The model of merged codes.
        measurements : sequence of Measurement
            The measurements of the table with all codes.
        schema : Schema or None, default=None
            The schema of the result, with the columns of the model. If None, it is `fine`.
        shares : mapping of str to ndarray or None, default=None
            The shares of the columns for which they are already known. Other shares are computed by the method
            `shares`.
        priors : mapping of str to ndarray or None, default=None
            The priors of columns with fine bins (see `shares`).

        Returns
        -------
        Model
            The model of all codes.
        """
        names = [name for name in model.schema.names if name in self.groups]
        if not names:
            return model
        known, prior = shares or {}, priors or {}
        found = {name: self.shares(name, measurements, prior.get(name)) for name in names if name not in known}
        groups = {name: self.groups[name] for name in names}
        return ExpandedModel(schema or self.fine, model, groups, {name: {**known, **found}[name] for name in names})

    def shares(self, name: str, measurements: Sequence[Measurement], prior: Floats | None = None) -> Floats:
        """Estimate the probability of each code given its group.

        The estimate is based on the measurements of the column alone, which are denoised.

        Parameters
        ----------
        name : str
            The column.
        measurements : sequence of Measurement
            The measurements of the table with all codes.
        prior : ndarray or None, default=None
            For a column with fine bins, the proportions of the bins in a larger table that contains this table.

        Returns
        -------
        ndarray of shape (codes,)
            The probabilities.
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
    """Estimate a model on merged codes and expand it to all codes.

    Parameters
    ----------
    schema : Schema
        The schema with all codes.
    measurements : sequence of Measurement
        The measurements.
    engine : Estimator
        The engine that estimates the model on merged codes (`Coarsening.of`).
    priors : mapping of str to ndarray or None, default=None
        The priors of columns with fine bins (see `Coarsening.shares`).

    Returns
    -------
    Model
        The model of all codes.
    """
    coarsening = Coarsening.of(schema, measurements)
    model = engine.estimate(coarsening.schema, coarsening.coarse_all(measurements))
    return coarsening.expanded(model, measurements, priors=priors)


def merged_sizes(schema: Schema, kept: Columns = ()) -> tuple[int, ...]:
    """Return the maximum number of codes of each column in a model.

    Bins are merged (`merge_bins`) unless structural zeros distinguish them. A full group has at least 1/FINE_GROUPS of
    the rows, and so does a bin that is a group of its own. There can be a partial group before each such bin, and also
    next to a bound that is a group of its own.

    Parameters
    ----------
    schema : Schema
        The schema with all codes.
    kept : tuple of str, default=()
        The columns with codes that are not merged, for example the columns that define strata.

    Returns
    -------
    tuple of int
        The maximum number of codes of each column.

    Examples
    --------
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
    """Return classes of codes in which a bound is a separate class if it clearly contains rows (`Tree.ends`)."""
    found = classes.copy()
    clear = list(alone.tree.ends) if column.bounds_apart and alone.tree else []
    found[clear] = classes.max() + 1 + np.arange(len(clear))
    return found


def _of_sums(column: Column, counts: Floats) -> Floats:
    """Multiply the counts of a survey weight by the square root of the weight.

    The groups of the survey weight get equal parts of this product. Equal parts of the rows would put all large weights
    into one group. Equal parts of the weighted sum would multiply the noise by the few largest weights. The square root
    is a compromise.
    """
    return np.asarray(np.maximum(counts, 0.0) * np.sqrt(drawn_numbers(column)))


def _numbered(groups: Indices) -> tuple[int, ...]:
    """Renumber groups in the order of their first codes."""
    places: dict[int, int] = {}
    return tuple(places.setdefault(group, len(places)) for group in groups.tolist())
