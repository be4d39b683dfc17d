"""Stratified models, which consist of one model per stratum and the weights of the strata.

The use of a model is post-processing and has no privacy cost.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column, Value
from equistrata.data.columns.drawn import drawn_numbers
from equistrata.data.columns.naming import CodeNames, codes_by_label
from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.stats.checks import whole
from equistrata.stats.relative_sizes import LEAST_SIZE
from equistrata.synth.measurements import Measurement, cells_where, total_estimate
from equistrata.synth.models.archive import Archive, Head, read_archive, write_archive
from equistrata.synth.models.base import Model, Tilting, check_possible
from equistrata.synth.models.storage import load_model, save_model
from equistrata.synth.strata.exchange import RuleChanges, enforce_rules

NOISY_SOURCE = "noisy counts (charged)"
STRATIFIED_FORMAT = "equistrata stratified model 1"
SAMPLE_BATCH = 1 << 20  # rows drawn at a time

Where = Mapping[str, Value | Sequence[Value]]


@dataclass(frozen=True, eq=False)
class StratifiedModel:
    """A model of each stratum, and the weights of the strata.

    Parameters
    ----------
    strata : Strata
        The strata. If the population is not stratified, there is one stratum with the key `()`.
    models : mapping of tuple to Model
        The model of each stratum, over the columns that do not define the strata.
    weights : PublicWeights
        The share of each stratum.
    total : float
        The number of rows that the model represents.
    """

    strata: Strata
    models: Mapping[Key, Model]
    weights: PublicWeights
    total: float

    def __repr__(self) -> str:
        return f"<StratifiedModel of {self.total:,.0f} rows in {len(self.models)} strata: {self.strata!r}>"

    @classmethod
    def of(cls, strata: Strata, models: Mapping[Key, Model], sizes: Mapping[Key, float]) -> StratifiedModel:
        """Create a stratified model in which the weights and the total are computed from noisy sizes.

        Parameters
        ----------
        strata : Strata
            The strata.
        models : mapping of tuple to Model
            The model of each stratum.
        sizes : mapping of tuple to float
            The noisy number of rows of each stratum.

        Returns
        -------
        StratifiedModel
            The stratified model.
        """
        weights = PublicWeights.from_counts(sizes, strata, NOISY_SOURCE)
        return cls(strata, models, weights, weights.total or 0.0)

    def sample(self, rows: int | None, rng: np.random.Generator, where: Where | None = None) -> CodedTable:
        """Draw synthetic rows in random order.

        The number of rows of each stratum is a whole number, which is determined by the largest remainder method.

        Parameters
        ----------
        rows : int or None
            The exact number of rows. If None, it is `total`, rounded.
        rng : numpy.random.Generator
            The random number generator. Releases use fresh entropy of the operating system.
        where : mapping or None, default=None
            The released values or labels that columns must have, for example {"SEX": 1} or {"SEX": "Female"}. Bins are
            specified by their index.

        Returns
        -------
        CodedTable
            The synthetic rows.

        Raises
        ------
        InputError
            If the number of rows is negative, if a column or a value is unknown, or if the condition has probability 0.
        """
        return CodedTable.concatenate(list(self.batches(rows, rng, where)))

    def batches(
        self,
        rows: int | None,
        rng: np.random.Generator,
        where: Where | None = None,
        size: int | None = None,
        changed: list[RuleChanges] | None = None,
    ) -> Iterator[CodedTable]:
        """Draw synthetic rows in batches, so that the memory is limited.

        The rows are drawn as in `sample`. There is at least one batch. Each batch contains every stratum in proportion,
        in random order. The total number of rows of each stratum is the same as in a single batch. The number of rows
        of a cell differs from its expected value by less than two per column and batch. All rows satisfy the
        comparisons of columns in the schema.

        Parameters
        ----------
        rows : int or None
            The exact number of rows. If None, it is `total`, rounded.
        rng : numpy.random.Generator
            The random number generator.
        where : mapping or None, default=None
            The released values or labels that columns must have.
        size : int or None, default=None
            The maximum number of rows of a batch. If None, it is about a million.
        changed : list of Changed or None, default=None
            A list to which the numbers of rows that were changed by comparisons are appended, for each stratum and
            batch.

        Yields
        ------
        CodedTable
            The rows of a batch.

        Raises
        ------
        InputError
            If the number of rows is negative, if a column or a value is unknown, or if the condition has probability 0.
        """
        rows = round(self.total) if rows is None else rows
        rows = whole("rows", rows, 0)
        if not (where is None or isinstance(where, Mapping)):
            raise InputError(f"'where' is {where!r}, but must be a mapping; give {{column: value or values}}")
        allowed = {name: _codes(self.strata.schema, name, value) for name, value in (where or {}).items()}
        models, shares = dict(self.models), dict(self.weights.shares)
        if allowed:
            models, shares = self._restricted(allowed)
        left = PublicWeights(shares, self.weights.source).allocate(rows)

        def drawn_of(key: Key, model: Model, count: int) -> CodedTable:
            if not count:
                return CodedTable(np.empty((0, len(model.schema.names)), code_dtype(model.schema)), model.schema)
            drawn = model.sample(count, rng)
            if not self.strata.schema.ordered:
                return drawn
            whole = partial(self.strata.with_own, key)
            found, times = enforce_rules(drawn, rng, partial(model.sample, rng=rng), whole)
            if changed is not None:
                changed.append(times)
            return found

        while True:
            drawn = min(rows, size or SAMPLE_BATCH)
            part = left
            if drawn < rows:
                part = PublicWeights.from_counts(left, self.strata, self.weights.source).allocate(drawn)
            table = self.strata.assemble({key: drawn_of(key, models[key], count) for key, count in part.items()})
            yield table.take(rng.permutation(drawn))
            left = {key: count - part[key] for key, count in left.items()}
            rows -= drawn
            if not rows:
                return

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Compute the expected counts over some columns, which may include columns that define the strata.

        Parameters
        ----------
        columns : sequence of str
            The columns of the marginal.

        Returns
        -------
        ndarray
            The expected counts, with one axis per column. Their sum is `total`.
        """
        schema = self.strata.schema
        result = np.zeros([schema[name].size for name in columns])
        for key, model in self.models.items():
            fixed = self.strata.codes_of(key)
            inside = [name for name in columns if name not in fixed]
            counts = model.marginal(inside) / max(model.total, 1e-12) * self.weights.shares[key] * self.total
            result[cells_where(columns, fixed)] += counts
        return result

    def weighted(self, column: str, weights: Floats) -> StratifiedModel:
        """Weight each row by its code in a column.

        The result is post-processing.

        Parameters
        ----------
        column : str
            The column.
        weights : ndarray
            The non-negative weight of each code. At least one must be positive. A stratum in which all rows have weight
            0 gets weight 0.

        Returns
        -------
        StratifiedModel
            The weighted model.
        """
        most, models, shares = float(weights.max()), dict(self.models), dict(self.weights.shares)
        for key, model in self.models.items():
            try:
                models[key], mass = cast(Tilting, model).tilted({column: weights / most})
            except InputError:
                mass = 0.0
            shares[key] *= mass
        mass = sum(shares.values())
        kept = PublicWeights({key: share / mass for key, share in shares.items()}, self.weights.source)
        return StratifiedModel(self.strata, models, kept, self.total * mass * most)

    def save(self, path: Path | BinaryIO) -> None:
        """Write all models and the weights to one file, a NumPy archive without pickle."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for place, key in enumerate(self.strata.keys):
            inner = io.BytesIO()
            save_model(self.models[key], inner)
            arrays[f"model{place}"] = np.frombuffer(inner.getvalue(), dtype=np.uint8)
        arrays["shares"] = np.array([self.weights.shares[key] for key in self.strata.keys])
        more = {"strata": self.strata.columns, "source": self.weights.source}
        write_archive(path, STRATIFIED_FORMAT, self.strata.schema, self.total, arrays, more)

    @classmethod
    def load(cls, path: Path | BinaryIO, schema: Schema) -> StratifiedModel:
        """Read a file that `save` wrote. Raises InputError if it does not hold a stratified model of this schema."""
        return read_archive(path, schema, {STRATIFIED_FORMAT: cls._read})

    @classmethod
    def _read(cls, head: Head, archive: Archive, schema: Schema) -> StratifiedModel:
        strata = Strata.over(schema, head["strata"])
        shares = [float(share) for share in archive["shares"]]
        weights = PublicWeights(dict(zip(strata.keys, shares, strict=True)), str(head["source"]))
        models = {
            key: load_model(io.BytesIO(archive[f"model{place}"].tobytes()), strata.rest(key))
            for place, key in enumerate(strata.keys)
        }
        return cls(strata, models, weights, float(head["total"]))

    def _restricted(self, allowed: Mapping[str, Sequence[int]]) -> tuple[dict[Key, Model], dict[Key, float]]:
        models, shares = dict(self.models), dict.fromkeys(self.strata.keys, 0.0)
        for key, model in self.models.items():
            fixed = self.strata.codes_of(key)
            if any(fixed[name] not in codes for name, codes in allowed.items() if name in fixed):
                continue
            inside = {name: codes for name, codes in allowed.items() if name not in fixed}
            try:
                models[key], mass = model.where(inside)
            except InputError:
                continue
            shares[key] = self.weights.shares[key] * mass
        total = sum(shares.values())
        check_possible(total, allowed)
        return models, {key: share / total for key, share in shares.items()}


def rows_of_units(model: StratifiedModel, weights: PublicWeights | None = None) -> StratifiedModel:
    """Return a model of rows.

    If every unit counts as one in the model, each row is weighted by the number of rows of its unit. Otherwise, the
    model is returned unchanged. The result is post-processing.

    Parameters
    ----------
    model : StratifiedModel
        The model.
    weights : PublicWeights or None, default=None
        Public shares of rows, which replace the weights of the result if every unit counts as one.

    Returns
    -------
    StratifiedModel
        The model of rows.
    """
    schema = model.strata.schema
    if not schema.weighed:
        return model
    found = model.weighted(UNIT_ROWS, np.array(schema[UNIT_ROWS].values, dtype=np.float64))
    return found if weights is None else replace(found, weights=weights)


def people_of_rows(model: StratifiedModel) -> StratifiedModel:
    """Return a model of people.

    If the rows have a survey weight, each row is weighted by it. Otherwise, the model is returned unchanged. The result
    is post-processing.

    Parameters
    ----------
    model : StratifiedModel
        The model of rows.

    Returns
    -------
    StratifiedModel
        The model of people.
    """
    weight = model.strata.schema.expanded_by
    return model if weight is None else model.weighted(weight.name, drawn_numbers(weight))


def estimated_sizes(measured: Mapping[Key, Sequence[Measurement]]) -> dict[Key, float]:
    """Estimate the number of rows of each stratum from its measurements.

    No stratum is dropped because of noise, because each size is at least `LEAST_SIZE` standard deviations. If no
    estimate is positive, all sizes are 1. The estimation is post-processing.

    Parameters
    ----------
    measured : mapping of tuple to sequence of Measurement
        The measurements of each stratum.

    Returns
    -------
    dict of tuple to float
        The number of rows of each stratum.
    """
    estimates = {key: total_estimate(measurements) for key, measurements in measured.items()}
    sizes = {key: max(rows, LEAST_SIZE * sd) if np.isfinite(sd) else rows for key, (rows, sd) in estimates.items()}
    return sizes if any(size > 0 for size in sizes.values()) else dict.fromkeys(sizes, 1.0)


def noisy_weights(strata: Strata, measured: Mapping[Key, Sequence[Measurement]]) -> PublicWeights:
    """Compute weights from noisy measurements (see `estimated_sizes`).

    Parameters
    ----------
    strata : Strata
        The strata.
    measured : mapping of tuple to sequence of Measurement
        The measurements of each stratum.

    Returns
    -------
    PublicWeights
        The weights.
    """
    return PublicWeights.from_counts(estimated_sizes(measured), strata, NOISY_SOURCE)


def _codes(schema: Schema, name: str, value: Value | Sequence[Value]) -> list[int]:
    """Return the codes of released values or of their labels."""
    column = schema[name]
    keys, names = list(column.keys), _names(column)
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    unknown = [v for v in values if not names.codes(v)]
    if unknown or not values:
        known = [repr(key) if column.words(key) == str(key) else f"{key!r} ({column.words(key)})" for key in keys]
        given = ", ".join(map(repr, unknown)) or "(none given)"
        options = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        raise InputError(f"column {name!r} has no value {given}; choose among {options}")
    return [code for v in values for code in names.codes(v)]


def _names(column: Column) -> CodeNames:
    """Return the names of the codes of a column. A bin has its index and its label as names."""
    if not column.numeric:
        return CodeNames.of(column)
    labels = codes_by_label((column.words(key), code) for code, key in enumerate(column.keys))
    return CodeNames(column.name, {key: code for code, key in enumerate(column.keys)}, labels)
