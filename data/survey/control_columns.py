"""The columns of a file of control totals, and the codes of the schema that each of their cells stands for.

A value is given as it is released, or by its label. A number is given as it is released, by the label of its bin, or as
a range that ends at the edges of bins.

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
from equistrata.data.columns.naming import CodeNames, codes_by_label
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
    """A column of a file of control totals.

    Attributes
    ----------
    name : str
        The name of the column in the file.
    source : str
        The column of the schema that it is equal to, or from which it is derived.
    groups : tuple of int or None
        The group of each code of the column, numbered from 0 without gaps. If None, the codes are not grouped.
    places : ndarray of int
        The group or the code of each line of the file.
    """

    name: str
    source: str
    groups: Groups
    places: Indices

    @classmethod
    def read(cls, frame: pd.DataFrame, name: str, schema: Schema, file: str) -> ControlColumn:
        """Read a column of a file of control totals.

        Parameters
        ----------
        frame : DataFrame
            The file.
        name : str
            The name of the column.
        schema : Schema
            The schema of the released rows.
        file : str
            The name of the file in error messages.

        Returns
        -------
        ControlColumn
            The column.

        Raises
        ------
        InputError
            If a value is not declared, or if the column cannot be used for control totals.
        """
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
    """Raise an InputError if a column cannot be used for control totals."""
    why = ""
    if column.weight:
        why = "is the survey weight, which the totals are used to correct; name the column of totals 'population'"
    elif column.open:
        why = (
            "is declared as 'values: open', so its values are unknown; list them in the schema, or leave the column out"
        )
    elif column.layout and not grouped:
        why = "holds dates; derive groups of dates in the schema ('from', 'bins'), and give totals for these groups"
    if why:
        raise InputError(f"column {name!r} of {file} {why}")


def _named(derived: Derived, cell: Any) -> tuple[int, ...]:
    """Return the codes of the source column that a value of a derived column stands for."""
    value = read_cell(cell)
    places = () if value is None else derived.known.codes(plain_text(value))
    return tuple(code for code, group in enumerate(derived.groups) if group in places)


def _value(column: Column, cell: Any) -> tuple[int, ...]:
    """Return the code of a value or a label.

    An InputError is raised if several values have this label, or if the text is the label of one value and the text of
    another value.
    """
    value = read_cell(cell)
    code = Values((key, place) for place, key in enumerate(column.keys)).find(value)
    called = CodeNames.of(column).codes(value.strip()) if isinstance(value, str) else ()
    if code is None and len(called) > 1:
        raise InputError(f"column {column.name!r}: {value!r} is the label of several values; write the value instead")
    return called if code is None else (code,)


def codes_in(column: Column, cell: Any) -> tuple[int, ...]:
    """Return the codes of a numeric column that a cell stands for.

    Parameters
    ----------
    column : Column
        The numeric column.
    cell : object
        A number, a range, the label of a bin, or a code.

    Returns
    -------
    tuple of int
        The codes in ascending order.

    Raises
    ------
    InputError
        If the cell is not valid, or if a range ends inside a bin. The message is the end of a sentence.
    """
    value, beside = read_cell(cell), [*(raw for raw, _ in column.codes), None]
    if value is None and column.missing != OWN_CATEGORY:
        raise InputError("is empty; write a number or a range")
    code = len(beside) - 1 if value is None else Values((raw, at) for at, raw in enumerate(beside[:-1])).find(value)
    if code is not None:
        return (column.bins + code,)
    text, number = plain_text(value).strip(), number_in(value)
    if column.release == "index" and number is not None:
        if number not in range(column.bins):
            raise InputError(
                f"is not the number of a bin, which are 0 to {column.bins - 1}; write such a number, or a range"
            )
        return (int(number),)
    named = codes_by_label((column.words(key), place) for place, key in enumerate(column.keys))
    if number is None and text in named:
        return named[text]
    for pattern, form in _WORDED:
        text = pattern.sub(form, text) if pattern.fullmatch(text) else text
    low, high = Bins(column.cuts, *column.bounds, column.integer).read(text)
    least, most = released_ends(column)
    inside, touched = (low <= least) & (most <= high), (most >= low) & (least <= high)
    if (torn := np.flatnonzero(touched & ~inside)).size:
        raise InputError(
            f"ends inside the bin {column.words(int(torn[0]))}; use ranges that end where bins of the schema end"
        )
    return tuple(np.flatnonzero(inside).tolist())


def _listed(column: Column, cell: Any, here: str) -> tuple[int, ...]:
    try:
        return codes_in(column, cell)
    except InputError as error:
        raise InputError(f"{here}: {plain_text(cell)!r} {error}") from None


def _grouped(codes: Sequence[tuple[int, ...]], column: Column, here: str) -> tuple[Groups, Indices]:
    """Return the groups of the codes of a column, and the group of each cell of the file.

    An InputError is raised if a code is in no group or in several groups.
    """
    sets = sorted({*codes})
    groups = np.full(column.size, -1, dtype=np.intp)
    for group, found in enumerate(sets):
        twice = next((code for code in found if groups[code] >= 0), None)
        if twice is not None:
            raise InputError(f"{here} has {column.words(column.keys[twice])!r} in two ranges; make the ranges disjoint")
        groups[list(found)] = group
    if (groups < 0).any():
        left = column.words(column.keys[int(np.argmin(groups))])
        raise InputError(f"{here} leaves out {left!r}; list every declared value, with 0 for empty ones")
    place = {found: group for group, found in enumerate(sets)}
    places = np.array([place[found] for found in codes], dtype=np.intp)
    plain = len(sets) == column.size  # the groups are then equal to the codes, in order
    return None if plain else tuple(groups.tolist()), places


def group_texts(column: Column, groups: Groups, derived: Sequence[Derived]) -> tuple[str, list[Any]]:
    """Return the name of a column of control totals and the texts of its groups.

    The texts have the format that `ControlColumn.read` expects.
    """
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
