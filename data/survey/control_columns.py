"""A column of a file of control totals: which codes of the schema each of its cells stands for.

Values are given as they are released, or by their labels. Numbers are given as released, by the words of their bin, or
as ranges, which end where bins end.

>>> ages = Column("AGE", lower=0, upper=99, integer=True, release="draw")
>>> [len(codes_in(ages, cell)) for cell in ("0 to 4", "5-17", "18", "19 and over", "85+", "under 18")]
[5, 13, 1, 81, 15, 18]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from equistrata.arrays import Indices
from equistrata.data.columns.column import OWN_CATEGORY, Column
from equistrata.data.columns.drawn import released_ends
from equistrata.data.columns.naming import CodeNames, by_label
from equistrata.data.columns.raw import Values, number_in, plain_text, read_cell
from equistrata.data.derived import Derived
from equistrata.data.rules.ranges import Bins
from equistrata.data.schema import Schema
from equistrata.data.weights import released_cells
from equistrata.errors import InputError

Groups = tuple[int, ...] | None

_NUMBER = r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
_WORDED = (
    (re.compile(rf"{_NUMBER} *(?:\+|(?:and|or) (?:over|older|above|more))", re.I), r">=\1"),
    (re.compile(rf"(?:under|below|less than) +{_NUMBER}", re.I), r"<\1"),
    (re.compile(rf"{_NUMBER} *(?:to|–) *{_NUMBER}", re.I), r"\1-\2"),
)
_MISSING = "missing"


@dataclass(frozen=True)
class ControlColumn:
    """A column of a file of totals.

    Attributes:
        name: in the file.
        source: the column of the schema that it is, or follows from.
        groups: the group of each of its codes, numbered without a gap; None where codes are not grouped.
        places: the group (or code) of each line of the file.
    """

    name: str
    source: str
    groups: Groups
    places: Indices

    @classmethod
    def read(cls, frame: pd.DataFrame, name: str, schema: Schema, file: str) -> ControlColumn:
        """A column of `frame`, by the schema. Raises InputError; `file`: what the table is called there."""
        derived = next((each for each in schema.derived if each.name == name), None)
        column = schema[name if derived is None else derived.source]
        _refuse_kind(column, name, file, derived is not None)
        cells = frame[name] if derived else released_cells(frame, column)
        if derived is not None:
            codes = [_named(derived, cell) for cell in cells]
        elif column.numeric:
            here = f"column {name!r} of {file}"
            codes = [_listed(column, cell, f"{here}, row {row:,}") for row, cell in enumerate(cells, 1)]
        else:
            codes = [_value(column, cell) for cell in cells]
        for row, found in enumerate(codes, 1):
            if not found:
                raise InputError(
                    f"column {name!r} of {file}, row {row:,}: the value is not one that schema {schema.name!r} "
                    "declares; write a declared value or its label"
                )
        return cls(name, column.name, *_grouped(codes, column, f"column {name!r} of {file}"))


def _refuse_kind(column: Column, name: str, file: str, grouped: bool) -> None:
    """Raise InputError for a column by which no totals are known."""
    why = ""
    if column.weight:
        why = "is the survey weight, which the totals correct; call the column of totals 'population'"
    elif column.open:
        why = "is open, and only a release finds its values; list its values in the schema, or leave it out"
    elif column.layout and not grouped:
        why = "holds dates; derive a column of groups from it in the schema ('from', 'bins'), and give totals by that"
    if why:
        raise InputError(f"column {name!r} of {file} {why}")


def _named(derived: Derived, cell: Any) -> tuple[int, ...]:
    """The codes of the source for which a value of a derived column stands."""
    value = read_cell(cell)
    places = () if value is None else derived.known.codes(plain_text(value))
    return tuple(code for code, group in enumerate(derived.groups) if group in places)


def _value(column: Column, cell: Any) -> tuple[int, ...]:
    """The code of a value or of its label. Raises InputError for a label of several values, or of another's text."""
    value = read_cell(cell)
    code = Values((key, place) for place, key in enumerate(column.keys)).find(value)
    called = CodeNames.of(column).codes(value.strip()) if isinstance(value, str) else ()
    if code is None and len(called) > 1:
        raise InputError(f"column {column.name!r}: {value!r} is the label of several values; write the value")
    return called if code is None else (code,)


def codes_in(column: Column, cell: Any) -> tuple[int, ...]:
    """The codes of a numeric column for which a cell stands. Raises InputError with the end of a sentence on it."""
    value, beside = read_cell(cell), [*(raw for raw, _ in column.codes), None]
    if value is None and column.missing != OWN_CATEGORY:
        raise InputError("is empty; write a number or a range")
    code = len(beside) - 1 if value is None else Values((raw, at) for at, raw in enumerate(beside[:-1])).find(value)
    if code is not None:
        return (column.bins + code,)
    text, number = plain_text(value).strip(), number_in(value)
    if column.release == "index" and number is not None:
        if number not in range(column.bins):
            raise InputError(f"is the number of no bin, from 0 to {column.bins - 1}; write it, or a range")
        return (int(number),)
    named = by_label((column.words(key), place) for place, key in enumerate(column.keys))
    if number is None and text in named:
        return named[text]
    for pattern, form in _WORDED:
        text = pattern.sub(form, text) if pattern.fullmatch(text) else text
    low, high = Bins(column.cuts, *column.bounds, column.integer).read(text)
    least, most = released_ends(column)
    inside, touched = (low <= least) & (most <= high), (most >= low) & (least <= high)
    if (torn := np.flatnonzero(touched & ~inside)).size:
        raise InputError(f"ends inside the bin {column.words(int(torn[0]))}; end ranges where bins of the schema end")
    return tuple(np.flatnonzero(inside).tolist())


def _listed(column: Column, cell: Any, here: str) -> tuple[int, ...]:
    try:
        return codes_in(column, cell)
    except InputError as error:
        raise InputError(f"{here}: {plain_text(cell)!r} {error}") from None


def _grouped(codes: Sequence[tuple[int, ...]], column: Column, here: str) -> tuple[Groups, Indices]:
    """The groups that the file's cells are of a column's codes, and each cell's. Raises InputError unless they are all
    of them, each in one group."""
    sets = sorted({*codes})
    groups = np.full(column.size, -1, dtype=np.intp)
    for group, found in enumerate(sets):
        twice = next((code for code in found if groups[code] >= 0), None)
        if twice is not None:
            raise InputError(f"{here} has {column.words(column.keys[twice])!r} in two ranges; make them disjoint")
        groups[list(found)] = group
    if (groups < 0).any():
        left = column.words(column.keys[int(np.argmin(groups))])
        raise InputError(f"{here} leaves out {left!r}; list every declared value, with 0 where nobody is expected")
    place = {found: group for group, found in enumerate(sets)}
    places = np.array([place[found] for found in codes], dtype=np.intp)
    plain = len(sets) == column.size  # then groups are the codes, in order
    return None if plain else tuple(groups.tolist()), places


def group_texts(column: Column, groups: Groups, derived: Sequence[Derived]) -> tuple[str, list[Any]]:
    """The name of a column of totals, and what its groups are called there, as `ControlColumn.read` reads them."""
    for each in derived:
        own = [*dict.fromkeys(each.groups)]
        if each.source == column.name and groups == tuple(own.index(group) for group in each.groups):
            return each.name, [each.keys[group] for group in own]
    if not column.numeric:
        return column.name, [*column.keys]
    codes = np.arange(column.size) if groups is None else np.array(groups)
    members = [np.flatnonzero(codes == group) for group in range(int(codes.max()) + 1)]
    return column.name, [_range_text(column, found) for found in members]


def _range_text(column: Column, codes: Indices) -> Any:
    if codes[0] >= column.bins:
        return [*(raw for raw, _ in column.codes), ""][codes[0] - column.bins]
    if len(codes) == 1 and column.release == "index":
        return int(codes[0])
    least, most = (ends[codes[place]] for ends, place in zip(released_ends(column), (0, -1), strict=True))
    return plain_text(float(least)) if least == most else f"{plain_text(float(least))} to {plain_text(float(most))}"
