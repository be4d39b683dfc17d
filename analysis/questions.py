"""Statistics as ratios of sums of counts.

A question lists the cells of a table that are counted in the numerator and in the denominator of each statistic.

>>> from equistrata.data.schema import Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> asked = question(schema, "proportion", {"ESR": 1}, by=["SEX"])
>>> asked.columns, asked.labels["SEX"].tolist(), asked.top.shape
(('SEX', 'ESR'), [1, 2], (2, 4))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from equistrata.analysis.axes import Axis, Merged
from equistrata.analysis.headings import heading
from equistrata.analysis.people import PostStrata, SurveyWeight
from equistrata.arrays import Floats
from equistrata.data.columns.drawn import drawn_ends, drawn_numbers
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns

MOST_CELLS = 5_000_000  # the maximum size of the table from which a statistic is computed
MOST_SUMS = 25_000_000  # the maximum number of answers times cells, which is 200 MB for each of a few arrays
Of = str | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Question:
    """Ratios of sums of the counts over some columns.

    Attributes
    ----------
    columns : tuple of str
        The columns of the table, one per axis. The axis contains the codes of the column, or groups of them if the
        column is in `merged`. The cells are in row-major order.
    labels : DataFrame
        One row per ratio. It contains the released values of the groups and the value that is counted.
    top : ndarray of shape (n, cells)
        The numerators.
    bottom : ndarray of shape (n, cells) or None
        The denominators. None if sums of counts are requested.
    squares : ndarray of shape (n, cells)
        The sums of the squares of the values that are added in `top`. The sampling variance is computed from them.
    assumed : ndarray of shape (n, cells) or None
        The standard deviation of the assumed values within bins, in the unit of the answer. It is used like `top`. None
        if the codes determine the values.
    merged : tuple
        The columns that are read in groups of codes, and the group of each code. These are the survey weight and the
        columns of which only an outer column is needed.
    weight : SurveyWeight or None
        The weight of the rows if people are counted. In this case, `top`, `bottom` and `squares` include it.
    strata : PostStrata or None
        The totals of people to which the weights are adjusted.
    added : tuple of str
        The columns that are not part of the question: the survey weight and the columns of the totals.
    """

    columns: Columns
    labels: pd.DataFrame
    top: Floats
    bottom: Floats | None
    squares: Floats
    assumed: Floats | None = None
    merged: Merged = ()
    weight: SurveyWeight | None = None
    strata: PostStrata | None = None
    added: Columns = ()

    @property
    def asked(self) -> Columns:
        """The columns that are part of the question."""
        return tuple(name for name in self.columns if name not in self.added)

    @property
    def nested(self) -> Merged:
        """The elements of `merged` that are part of the question."""
        return tuple(each for each in self.merged if each[0] in self.asked)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """Return the shape of the table."""
        sizes = {name: max(groups) + 1 for name, groups in self.merged}
        return tuple(sizes.get(name, schema[name].size) for name in self.columns)

    def by_group(self, schema: Schema, numbers: Floats) -> Floats:
        """Expand values for the groups of the survey weight to values for the cells of the table."""
        assert self.weight is not None
        return np.asarray(
            broadcast_functionals(numbers[None], (self.weight.column,), self.columns, self.shape(schema))[0]
        )

    def sampling_times(self, schema: Schema) -> Floats:
        """Return the ratio of each row's sampling variance to its part in the sums of squares, shape (cells,)."""
        return np.ones(self.top.shape[1]) if self.weight is None else self.by_group(schema, self.weight.spread)

    @property
    def of_rows(self) -> bool:
        """True if the question counts rows and does not add up numbers."""
        return np.array_equal(self.squares, self.top)


def question(
    schema: Schema,
    statistic: str,
    of: Of = None,
    by: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    merge: bool = True,
) -> Question:
    """Create the question for a count, proportion or mean of each group.

    A name can be a column of the schema or an outer column, such as the state of a PUMA.

    Parameters
    ----------
    schema : Schema
        The schema of the release.
    statistic : str
        "count", "proportion" or "mean".
    of : str or mapping, optional
        For a mean, the name of a column of numbers. Otherwise, either {column: value or values} to count the rows with
        these values, or the name of a column to count each of its values. If None, all rows are counted.
    by : sequence of str
        The columns that define groups.
    where : mapping, optional
        The condition {column: value or values}. Only rows with these values are used.
    merge : bool
        If True, a column is read in groups of codes if only its outer column is needed.

    Returns
    -------
    Question
        The question.

    Raises
    ------
    InputError
        If the schema cannot answer the question.
    """
    check_words(of, by, where)
    where, names = dict(where or {}), ([] if of is None else [of] if isinstance(of, str) else list(of))
    axes = _axes(schema, (*names, *by, *where))
    if len(set(by)) < len(by) or set(by) & set(where):
        raise InputError("a column is given twice, for example as a group and as a condition; give each column once")
    merged = _merged(axes, by)
    merged = merged if merge else ()
    columns = tuple(name for name in schema.names if name in {axis.column for axis in axes.values()})
    sizes = {name: max(groups) + 1 for name, groups in merged}
    shape = tuple(sizes.get(name, schema[name].size) for name in columns)
    if prod(shape) > MOST_CELLS:
        raise InputError(
            f"a table of {', '.join(columns)} has {prod(shape):,} cells, but the maximum is {MOST_CELLS:,}; ask "
            "for fewer columns"
        )
    answers = prod(axes[name].size for name in {*by, *([of] if isinstance(of, str) and statistic != "mean" else [])})
    if answers * prod(shape) > MOST_SUMS:
        raise InputError(
            f"{answers:,} answers from a table of {', '.join(columns)} are too many; ask only for some values of a "
            "column, with 'where' or {column: value}, or give fewer groups"
        )
    cells = dict(zip(columns, np.indices(shape).reshape(len(shape), prod(shape)), strict=True))
    grid = {}  # the code of each name in each cell
    for name, axis in axes.items():
        own = cells[axis.column]
        grid[name] = own if axis.groups is None or axis.column in sizes else np.array(axis.groups, dtype=np.intp)[own]
    kept = np.ones(prod(shape), dtype=bool)
    for name, values in where.items():
        kept &= np.isin(grid[name], axes[name].codes_of(values))
    groups = list(np.ndindex(*(axes[name].size for name in by)))
    inside = [
        kept & np.logical_and.reduce([grid[n] == c for n, c in zip(by, g, strict=True)] or [kept]) for g in groups
    ]
    # Remove groups that the condition excludes, such as the places in other states or the quarters of other years.
    if any(axis.groups is not None and (name in where or axis.column in where) for name, axis in axes.items()):
        groups = [group for group, some in zip(groups, inside, strict=True) if some.any()]
        inside = [some for some in inside if some.any()]
    called = {name: axes[name].keys for name in {*by, *names}}
    labels = pd.DataFrame(
        [[called[n][c] for n, c in zip(by, group, strict=True)] for group in groups],
        columns=[heading(name) for name in by],
    )
    bottom = np.array(inside, dtype=np.float64)
    if statistic == "mean":
        if not isinstance(of, str):
            raise InputError("a mean needs one numeric column; give its name in 'of'")
        values, spread = averaged(schema[of])
        present = ~np.isnan(values)[grid[of]]
        number = np.where(present, values[grid[of]], 0.0)
        off = np.where(present, spread[grid[of]], 0.0)
        bottom = bottom * present
        return Question(
            columns, labels, bottom * number, bottom, bottom * (number**2 + off**2),
            bottom * off if (off > 0).any() else None, merged,
        )  # fmt: skip
    if isinstance(of, str):
        size = axes[of].size
        top = np.concatenate([bottom * (grid[of] == code) for code in range(size)])
        labels = pd.concat([labels.assign(**{heading(of): key}) for key in called[of]], ignore_index=True)
        bottom = np.tile(bottom, (size, 1))
    else:
        chosen = np.ones(prod(shape), dtype=bool)
        for name, wanted in (of or {}).items():
            chosen &= np.isin(grid[name], axes[name].codes_of(wanted))
        top = bottom * chosen
    if statistic == "count":
        return Question(columns, labels, top, None, top, merged=merged)
    if of is None:
        raise InputError("a proportion needs a column or a value; give a column, or {column: value}, in 'of'")
    return Question(columns, labels, top, bottom, top, merged=merged)


def _axes(schema: Schema, names: Sequence[str]) -> dict[str, Axis]:
    """Return the axis of each name. Raises InputError if a name is unknown."""
    for each in names:
        name, equals, value = each.partition("=")
        if equals and each not in schema.names and name in schema.names:  # the syntax of the command line
            raise InputError(f"{each!r} is not a column; for rows with this value, write {{{name!r}: {value!r}}}")
    return {name: Axis.of(schema, name) for name in names}


def _merged(axes: Mapping[str, Axis], by: Sequence[str]) -> Merged:
    """Return the columns that are only read through an outer column, and the group of each code.

    Raises InputError if two levels of the same column define groups, because the finer level includes the other one.
    """
    read: dict[str, list[str]] = {}
    for name, axis in axes.items():
        read.setdefault(axis.column, []).append(name)
    for column, names in read.items():
        twice = [name for name in names if name in by]
        if len(twice) > 1:
            raise InputError(
                f"{' and '.join(twice)} are levels of {column!r}, and the finest level determines the others; only "
                "give the finest level"
            )
    alone = [
        (column, axes[names[0]].groups)
        for column, names in read.items()
        if len(names) == 1 and not axes[names[0]].apart
    ]
    return tuple((column, groups) for column, groups in alone if groups is not None)


def read_group_names(by: Any) -> tuple[Any, ...]:
    """Return the columns that define groups as a tuple.

    Raises InputError if `by` is neither a name nor a collection of names.
    """
    if isinstance(by, str):
        return (by,)
    if not (by is None or isinstance(by, Collection)):
        raise InputError(f"'by' is {by!r}; give names of columns")
    return tuple(by or ())


def check_words(of: Any, by: Any, where: Any) -> None:
    """Raise InputError unless the arguments have the types that `Release.estimate` accepts."""
    if not (of is None or isinstance(of, str | Mapping)):
        raise InputError(f"'of' is {of!r}; give a column name, or {{column: value}}")
    if not (isinstance(by, Sequence) and all(isinstance(name, str) for name in by)):
        raise InputError(f"'by' is {by!r}; give names of columns")
    if not (where is None or isinstance(where, Mapping)):
        raise InputError(f"'where' is {where!r}; give {{column: value or values}}")


def code_numbers(column: Column) -> tuple[Floats, Floats]:
    """Return the number for each code of a column, and the standard deviation of the number within its bin.

    The number is NaN if the code does not stand for a number. A bin is represented by its midpoint. If values are drawn
    from the bin, then the mean of its rows may differ from the midpoint. Its standard deviation is assumed to be a
    sixth of the width of the bin. Raises InputError if the column has names or dates.
    """
    if not column.numeric:
        if any(isinstance(value, str) for value in column.values):
            raise InputError(f"column {column.name!r} has names instead of numbers; ask for proportions")
        return np.array(column.values, dtype=np.float64), np.zeros(column.size)
    if column.layout:
        raise InputError(f"column {column.name!r} has dates; ask for the proportion of each of its periods")
    values, spread = np.full(column.size, np.nan), np.zeros(column.size)
    if column.release == "index":
        values[: column.bins] = np.arange(column.bins)
        return values, spread
    low, high = drawn_ends(column)
    values[: column.bins] = drawn_numbers(column)
    if column.release == "draw":
        spread[: column.bins] = (high - low) / 6
    return values, spread


def averaged(column: Column) -> tuple[Floats, Floats]:
    """Return the result of `code_numbers` for a column of which the mean is requested.

    A column with two values such as 0 and 1 is allowed because its mean is a share. Raises InputError if the numbers
    are only names.
    """
    found = code_numbers(column)
    if not column.numeric and not column.ordered and column.size > 2:
        raise InputError(
            f"column {column.name!r} is nominal, so its numbers are only names; ask for proportions. If the numbers "
            "are amounts, declare bounds and 'codes', or 'type: ordinal', in the schema of the next release"
        )
    return found


def column_of_numbers(schema: Schema, name: str) -> Column:
    """Return a column of the release that can have numbers.

    Raises
    ------
    InputError
        If there is no such column, or if it has dates or times.
    """
    if name not in schema.names:
        raise InputError(f"{name!r} is not a column of the release; it has {', '.join(schema.names)}")
    if schema[name].layout:
        raise InputError(
            f"column {name!r} holds dates, for which correlations are not supported; ask for another column"
        )
    return schema[name]


def has_numbers(column: Column) -> bool:
    """Check whether a column has a mean.

    Parameters
    ----------
    column : Column
        The column.

    Returns
    -------
    bool
        True for numeric columns except dates, and for ordinal columns that have only numbers as values.
    """
    if column.numeric:
        return not column.layout
    return column.ordered and not any(isinstance(value, str) for value in column.values)


def cumulative(
    schema: Schema, of: Of, by: Sequence[str], where: Mapping[str, Any] | None, merge: bool = True
) -> tuple[Question, Floats]:
    """Create the question for the cumulative shares of a column's numbers up to each bin.

    Absent cells are ignored. The ends of the bins are returned as well, with shape (bins, 2). Raises InputError if the
    column has no bins.
    """
    if isinstance(of, str) and schema[of].layout:
        raise InputError(f"column {of!r} has dates; ask for the proportion of each of its periods")
    if not isinstance(of, str) or not schema[of].numeric:
        raise InputError("a quantile needs one numeric column; give its name in 'of'")
    column = schema[of]
    single = question(schema, "proportion", of, by, where, merge)
    groups = len(single.labels) // column.size
    parts = single.top.reshape(column.size, groups, -1)[: column.bins]
    top = np.cumsum(parts, axis=0)
    labels = single.labels.iloc[: groups * column.bins].copy()
    labels[heading(of)] = np.repeat(np.arange(column.bins), groups)
    order = np.arange(column.bins * groups).reshape(column.bins, groups).T.ravel()  # one group after the other
    bottom = np.tile(top[-1], (column.bins, 1))
    flat = top.reshape(column.bins * groups, -1)
    low, high = np.clip(np.array(column.cuts[:-1]), *column.bounds), np.clip(np.array(column.cuts[1:]), *column.bounds)
    ends = np.column_stack([np.arange(column.bins)] * 2) if column.release == "index" else np.column_stack([low, high])
    labels, flat = labels.iloc[order].reset_index(drop=True), flat[order]
    asked = Question(single.columns, labels, flat, bottom[order], flat, merged=single.merged)
    return asked, ends.astype(np.float64)


def broadcast_functionals(part: Floats, columns: Columns, more: Columns, shape: tuple[int, ...]) -> Floats:
    """Convert functionals of a table over some columns into functionals of a table over more columns.

    `part` has shape (n, cells), and `shape` is the shape of the larger table.
    """
    if columns == more:
        return part
    narrow = part.reshape(len(part), *(n if name in columns else 1 for name, n in zip(more, shape, strict=True)))
    return np.broadcast_to(narrow, (len(part), *shape)).reshape(len(part), -1)
