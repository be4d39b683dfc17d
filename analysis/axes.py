"""Axes of a question: the columns that a name refers to.

A name is either the name of a column or the name of an outer column that contains it. For example, each PUMA is nested
in a state.

>>> places = {"within": "ST", "values": {36: [100, 200], 50: [100]}}
>>> schema = Schema.from_dict({"columns": {"PUMA": places, "ESR": {"values": [0, 1]}}})
>>> state = Axis.of(schema, "ST")
>>> state.column, state.groups, state.keys, state.codes_of(50)
('PUMA', (0, 0, 1), [36, 50], [1])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from equistrata.data.columns.calendar import UNITS, codes_within, is_period, units
from equistrata.data.columns.column import Value, plain_text
from equistrata.data.columns.dates import Every
from equistrata.data.columns.drawn import drawn_ends, drawn_numbers
from equistrata.data.columns.naming import CodeNames, codes_by_label
from equistrata.data.columns.nesting import BETWEEN
from equistrata.data.rules.ranges import Bins
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns, Measurement, Merging

BY_UNIT = ":"  # SINCE:year
Merged = tuple[tuple[str, tuple[int, ...]], ...]  # grouped columns, and the group of each of their codes


@dataclass(frozen=True, eq=False)
class Axis:
    """The column, or groups of its codes, that a name in a question refers to.

    Attributes
    ----------
    name : str
        The name that is used in the question.
    column : str
        The column of the schema that is read.
    groups : tuple of int or None
        For each code of the column, the index of the outer column's value. None if the name is the name of the column
        itself.
    keys : sequence
        The value that an answer shows for each code or group.
    known : CodeNames
        The values and labels that can be used to select each code or group.
    own : Column or None
        The column itself, if the name is its own name. In this case, ranges of numbers and periods of dates can be
        selected as well.
    apart : bool
        If True, the groups are not the values of an outer column. They are periods of the calendar, as in SINCE:year
        (see `equistrata.data.columns.calendar`), or the values of a derived column.
    """

    name: str
    column: str
    groups: tuple[int, ...] | None
    keys: Sequence[Value]
    known: CodeNames
    own: Column | None = None
    apart: bool = False

    @classmethod
    def of(cls, schema: Schema, name: str) -> Axis:
        """Return the axis of a column, of an outer column, of a derived column, or of dates by a unit of time.

        Raises InputError for any other name.
        """
        if name in schema.names:
            column = schema[name]
            return cls(name, name, None, named(column), _known(column), column)
        if (by_unit := column_by_unit(schema, name)) is not None:
            groups, keys = units(*by_unit)
            known = CodeNames(name, {key: place for place, key in enumerate(keys)})
            return cls(name, by_unit[0].name, groups, keys, known, apart=True)
        for derived in schema.derived:
            if name == derived.name:
                return cls(name, derived.source, derived.groups, derived.keys, derived.known, apart=True)
        for column in schema.columns:
            if name in column.within:
                depth = column.within.index(name)
                groups = column.levels[depth]
                parts = [column.parts[groups.index(group)][: depth + 1] for group in range(max(groups) + 1)]
                keys = [part[0] if depth == 0 else BETWEEN.join(map(str, part)) for part in parts]
                texts: dict[Value, int] = {str(key): place for place, key in enumerate(keys)}
                known = CodeNames(name, texts | {key: place for place, key in enumerate(keys)})
                return cls(name, column.name, groups, keys, known)
        raise InputError(f"the release has no column {name!r}; it has {', '.join(schema.names)}")

    @property
    def size(self) -> int:
        return len(self.keys)

    def codes_of(self, values: Any) -> list[int]:
        """Return the codes, or groups, of the given values or labels.

        Raises InputError if a value does not exist.
        """
        return _found(self.known, values, self.name, self.keys, self.own)


def has_names_and_values(schema: Schema, names: Iterable[str], values: Mapping[str, Any]) -> bool:
    """Return True if the schema has the given names and, for each column in `values`, the given values.

    >>> schema = Schema.from_dict({"columns": {"ESR": {"values": [0, 1]}}})
    >>> has_names_and_values(schema, ["ESR"], {"ESR": 1}), has_names_and_values(schema, ["SEX"], {})
    (True, False)
    >>> has_names_and_values(schema, [], {"ESR": 2})
    False
    """
    try:
        for name in names:
            Axis.of(schema, name)
        for name, asked in values.items():
            Axis.of(schema, name).codes_of(asked)
    except InputError:
        return False
    return True


def question_names(schema: Schema, columns: Columns, merged: Merged) -> Columns:
    """Return the names of columns as they were used in the question.

    A column that the question reads in groups is replaced by the name of its outer column.
    """
    groups = dict(merged)
    return tuple(
        schema[name].within[schema[name].levels.index(groups[name])] if name in groups else name for name in columns
    )


def column_by_unit(schema: Schema, name: str) -> tuple[Column, Every] | None:
    """Return the column of dates and the unit for a name such as SINCE:year, or None for other names.

    Raises InputError if the unit is unknown.
    """
    column, colon, unit = name.rpartition(BY_UNIT)
    if not colon or name in schema.names or column not in schema.names or not schema[column].layout:
        return None
    found = [each for each in UNITS if each == unit]
    if not found:
        raise InputError(
            f"dates of {column!r} can be grouped by {', '.join(UNITS)}, not by {unit!r}; write {column}:year"
        )
    return schema[column], found[0]


def outer_column_names(schema: Schema) -> list[str]:
    """Return the names of all outer columns in which other columns are nested."""
    return list(dict.fromkeys(name for column in schema.columns for name in column.within))


def named(column: Column) -> Sequence[Value]:
    """Return the name that an answer shows for each code: the released value, or the words of a bin."""
    return [column.words(key) for key in column.keys] if column.numeric else column.keys


def codes_of(column: Column, values: Any) -> list[int]:
    """Return the codes of the given released values or labels.

    Raises InputError if the column does not have one of the values.
    """
    return _found(_known(column), values, column.name, named(column), column)


def _known(column: Column) -> CodeNames:
    """Return the values and labels of a column's codes, except for ranges and periods, which `_several` reads.

    The index of a bin is only accepted as a value if indices are released. Otherwise, it could be mistaken for a
    number. For example, if ages start at 18, then 40 is not bin number 40.
    """
    if not column.numeric:
        return CodeNames.of(column)
    own: dict[Value, int] = {raw: column.bins + place for place, (raw, _) in enumerate(column.codes)}
    bins = [(column.words(key), place) for place, key in enumerate(column.keys)]
    if column.release == "index":
        own |= dict(zip(column.keys, range(column.size), strict=True))
        labels, texts = codes_by_label(bins), dict[Value, int]()
    else:  # the words of a bin are the numbers in it
        labels, texts = codes_by_label(bins[column.bins :]), dict[Value, int](bins[: column.bins])
    if column.release == "midpoint":
        own |= {float(middle): place for place, middle in enumerate(drawn_numbers(column))}
    return CodeNames(column.name, {plain_text(each): code for each, code in own.items()} | texts | own, labels, True)


def _found(known: CodeNames, values: Any, name: str, keys: Sequence[Value], own: Column | None) -> list[int]:
    wanted = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    found = {value: known.codes(value) or _several(own, value) for value in wanted}
    unknown = [value for value in wanted if not found[value]]
    if unknown or not wanted:
        shown = ", ".join(str(each) for each in keys[:20]) + ", …" * (len(keys) > 20)
        ranges = ", or give a range, such as '15-24' or '>64'" * (own is not None and _has_ranges(own))
        raise InputError(f"column {name!r} has no value {unknown[:1]}; choose among {shown}{ranges}")
    return list(dict.fromkeys(code for value in wanted for code in found[value]))


def _several(column: Column | None, value: Any) -> list[int]:
    """Return the bins in a period of dates or a range of numbers, or an empty list if the value is neither."""
    if column is None or isinstance(value, bool):
        return []
    if is_period(column, value):
        return codes_within(column, value)
    if not _has_ranges(column) or not isinstance(value, str | Real):
        return []
    try:
        low, high = Bins(column.cuts, *column.bounds, column.integer).read(
            value if isinstance(value, str) else f"{float(value):.17g}"
        )
    except InputError:
        return []
    first, last = drawn_ends(column)
    for place in np.flatnonzero((first <= high) & (low <= last) & ~((low <= first) & (last <= high))):
        raise InputError(
            f"column {column.name!r}: the bin {column.words(int(place))} is only partly in {value}, so the number of "
            "its rows in that range is unknown; ask for a range that contains whole bins"
        )
    return [int(place) for place in np.flatnonzero((low <= first) & (last <= high))]


def _has_ranges(column: Column) -> bool:
    """Return True if the column releases numbers, so that ranges of numbers can be selected."""
    return column.numeric and not column.layout and column.release != "index"


def holds(measurement: Measurement, columns: Columns, schema: Schema, merged: Merged = ()) -> bool:
    """Return True if a measurement contains the given columns together.

    A column in `merged` must be measured at least as finely as its groups. Any other nested column must be measured
    with all of its codes. For example, counts by state are not sufficient for a question about PUMAs.
    """
    if not measurement.involved.issuperset(columns):
        return False
    found, wanted = dict(zip(measurement.columns, measurement.groups, strict=True)), dict(merged)
    return all(_finer(found.get(name), wanted.get(name)) for name in columns if name in wanted or schema[name].within)


def _finer(groups: Merging, wanted: Merging) -> bool:
    """Return True if the first groups refine the second ones. None means that each code is its own group."""
    if groups is None or wanted is None:
        return groups is None
    return len(set(zip(groups, wanted, strict=True))) == len(set(groups))


def has_nested_groups(measurement: Measurement, merged: Merged) -> bool:
    """Return True if, for each column in `merged`, one of the two groupings refines the other one."""
    found = dict(zip(measurement.columns, measurement.groups, strict=True))
    own = [(found.get(name), groups) for name, groups in merged]
    return all(_finer(one, other) or _finer(other, one) for one, other in own)
