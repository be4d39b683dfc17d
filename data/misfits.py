"""All cells of a table that do not fit its schema, and how to correct them.

The results are exact, so they are as private as the rows. The advice only depends on the declaration and on the form of
the cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.data.columns import dates
from equistrata.data.columns.cells import (
    WEIGHT_REMEDY,
    cells_of,
    counted_numbers,
    outside_bounds,
    read_numbers,
    value_codes,
)
from equistrata.data.columns.column import Value, plain_text
from equistrata.data.columns.raw import missing_cells
from equistrata.data.files.opening import alike
from equistrata.data.rules.ordered import Ordered
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.data.texts.documents import flow

Mask = npt.NDArray[np.bool_]
Fault = Literal[
    "no such column",
    "undeclared values",
    "not numbers",
    "not dates",
    "not whole numbers",
    "out of bounds",
    "missing cells",
    "impossible",
]

MOST_DISTINCT = 100_000  # the maximum number of distinct values of a column that are counted, which bounds the memory
_MOSTLY = 0.5  # the share of misfits that a different format must explain


@dataclass(frozen=True)
class Misfit:
    """A kind of cells in a table that do not fit the schema.

    The attributes are exact, so they are as private as the rows.

    Attributes
    ----------
    columns : tuple of str
        The column, or the columns of a rule that rows violate.
    fault : str
        The kind of the fault.
    cells : int
        The number of cells, or the number of rows that violate the rule. It is 0 if the column is not in the table.
    distinct : int or None
        The number of distinct values in these cells, up to MOST_DISTINCT. It is None for missing columns and missing
        cells.
    values : tuple of str
        Some of the values as texts. Their number is limited by the caller.
    near : bool
        If True, one of the values only differs from a declared value in blanks, line breaks, case or leading zeros.
    layouts : tuple of str
        The formats of the dates in these cells.
    rest : bool
        If True, some of the cells do not have any of these formats.
    times : bool
        If True, most of the cells are times of day.
    """

    columns: tuple[str, ...]
    fault: Fault
    cells: int = 0
    distinct: int | None = None
    values: tuple[str, ...] = ()
    near: bool = False
    layouts: tuple[str, ...] = ()
    rest: bool = False
    times: bool = False


def remedy(misfit: Misfit, schema: Schema, header: Collection[str] = ()) -> str:
    """Return how to correct a misfit in the schema or in the table.

    The advice only depends on the declaration and on the form of the cells.

    Parameters
    ----------
    misfit : Misfit
        The misfit.
    schema : Schema
        The schema.
    header : collection of str
        The names of the columns of the table. A name is only quoted if it differs from a declared name in case or
        blanks.

    Returns
    -------
    str
        The advice.
    """
    column = schema[misfit.columns[0]]
    if misfit.fault == "no such column":
        near = alike(column.name, header)
        if near is not None:
            return f"the header line has {near!r} instead of {column.name!r}; use the same spelling in both"
        return "add it to the table, use its name in the header line, or remove it from 'columns' and 'default'"
    if column.weight and misfit.fault in ("missing cells", "out of bounds"):
        return WEIGHT_REMEDY
    if misfit.fault == "missing cells":
        new = unused_value(column.values or ("",))
        quoted = f'"{new}"' if isinstance(new, str) else str(new)
        added = f", and add {quoted} to 'values'" if column.values else ""
        return "declare missing: own" if column.numeric else f"declare missing: {quoted}{added}"
    if misfit.near:
        return (
            "some differ from declared values only in blanks, line breaks, case or leading zeros; correct the cells, "
            "or list them under recode: {RAW: VALUE}"
        )
    if misfit.times:
        return f"each is {dates.TIME_OF_DAY}"
    if misfit.layouts:
        listed = ", and list other texts under 'codes'" * misfit.rest
        several = len(misfit.layouts) > 1
        given = flow([*misfit.layouts] if several else misfit.layouts[0])
        first = "; dates are released in the first format" * several
        return f"declare the format of the file with format: {given} (now {column.layout}){first}{listed}"
    other = "," if schema.file.decimal == "." else "."
    said: dict[Fault, str] = {
        "undeclared values": "list them under 'values', or map them to declared values: some with 'recode', all others "
        "with 'others'",
        "not numbers": 'list texts such as N under codes: {N: "not asked"}; if the file uses another decimal sign, '
        f'declare file: {{decimal: "{other}"}}, and also thousands if it separates them',
        "not dates": f'declare the format of the file, such as format: "%d.%m.%Y" (now {column.layout}), and list '
        "other texts under 'codes'",
        "not whole numbers": "remove 'integer: true'",
        "out of bounds": "widen 'lower' and 'upper' to bounds that are public, or list codes such as 999 under "
        'codes: {999: "refused"}',
        "impossible": "correct those rows, or remove the rule from 'impossible' or 'rules'",
    }
    return said[misfit.fault]


def unused_value(values: Sequence[Value]) -> Value:
    """Return a value of the same type that is not in a list of values, for example as the value of absent cells.

    >>> unused_value(["yes", "missing"]), unused_value([0, 1])
    ('missing 2', -1)
    """
    if isinstance(values[0], str):
        texts = ("missing", *map("missing {}".format, range(2, len(values) + 3)))
        return next(text for text in texts if text not in values)
    unused: int = next(number for number in (0, *range(-1, -len(values) - 2, -1)) if number not in values)
    return unused


@dataclass
class _MisfitCells:
    cells: int = 0
    values: dict[str, None] = field(default_factory=dict)  # in the order of their first appearance

    def add(self, cells: int, values: Iterable[str]) -> None:
        self.cells += cells
        for value in values:
            if len(self.values) >= MOST_DISTINCT:
                return
            self.values[value] = None


def misfits(
    frames: Iterable[pd.DataFrame], schema: Schema, shown: int = 0, averaged: Collection[str] = ()
) -> tuple[int, list[Misfit]]:
    """Find all cells of a table that do not fit the schema.

    Parameters
    ----------
    frames : iterable of DataFrame
        The rows in batches.
    schema : Schema
        The schema. A column that is missing in the first batch is a misfit, and it is not checked in the other batches.
    shown : int
        The maximum number of distinct values that are kept for each misfit.
    averaged : collection of str
        The columns that are not released. If they are columns of numbers, their cells can be missing because means
        leave these rows out.

    Returns
    -------
    rows : int
        The number of rows.
    found : list of Misfit
        The misfits.

    Privacy
    -------
    The results are exact, so they are as private as the rows. They must only be shown to the owner of the table.
    """
    rows, absent, found = 0, set[str](), dict[tuple[tuple[str, ...], Fault], _MisfitCells]()
    dated = set[str]()  # columns in which at least one cell is a date in the declared format
    for number, frame in enumerate(frames):
        rows += len(frame)
        if number == 0:
            absent = {column.name for column in schema.columns if not {*column.cells} <= {*frame.columns}}
        fits = {}
        for column in (column for column in schema.columns if column.name not in absent):
            cells = cells_of(frame, column)
            faults = _faults(cells, column, column.fine and column.name in averaged)
            fits[column.name] = ~np.any(list(faults.values()), axis=0)
            if column.layout and column.name not in dated and cells[fits[column.name]].notna().any():
                dated.add(column.name)
            for fault, wrong in faults.items():
                if wrong.any():
                    values: Iterable[str] = [] if fault == "missing cells" else cells[wrong].map(plain_text).unique()
                    found.setdefault(((column.name,), fault), _MisfitCells()).add(int(wrong.sum()), values)
        rules: list[Impossible | Ordered] = [*schema.impossible, *schema.ordered]
        for rule in rules:
            columns = rule.columns if isinstance(rule, Impossible) else (rule.lower, rule.upper)
            if fits.keys() >= set(rule.columns) and len(places := _ruled_out(frame, rule, schema, fits)):
                texts = [cells_of(frame, schema[name]).iloc[places].map(plain_text) for name in columns]
                values = [", ".join(map("{}={}".format, columns, row)) for row in zip(*texts, strict=True)]
                found.setdefault((columns, "impossible"), _MisfitCells()).add(len(places), values)
    gone = [Misfit((name,), "no such column") for name in schema.names if name in absent]
    return rows, gone + [
        Misfit(
            columns,
            fault,
            each.cells,
            None if fault == "missing cells" else len(each.values),
            tuple(each.values)[:shown],
            fault == "undeclared values" and _near(each.values, schema[columns[0]]),
            **_form(fault, [*each.values], schema[columns[0]], columns[0] in dated),
        )
        for (columns, fault), each in found.items()
    ]


def _form(fault: Fault, texts: Sequence[str], column: Column, dated: bool) -> dict[str, Any]:
    """Return the formats of the cells that do not fit (see `Misfit`).

    The argument `dated` is True if other cells of the column are dates in the declared format.
    """
    if fault in ("not numbers", "not dates") and sum(map(dates.is_time_of_day, texts)) > _MOSTLY * len(texts):
        return {"times": True}
    if fault == "not dates":
        now = (column.layout, *column.also)
        read = {layout: {text for text in texts if dates.day_in(text, layout) is not None}
                for layout in dates.LAYOUTS if layout not in now}  # fmt: skip
        found, left = list[str](), {*texts}
        while most := max(map(len, read.values()), default=0):  # the layout that reads most of the remaining cells
            found.append(next(layout for layout, each in read.items() if len(each) == most))
            left -= read[found[-1]]
            read = {layout: each & left for layout, each in read.items()}
        if len(left) < (1 - _MOSTLY) * len(texts):
            # A schema cannot declare two layouts that confuse days and months, so fewer layouts are tried in turn.
            own = now * dated
            tried = ((*own, *found), (*own, found[0]), found, found[:1])
            several = next(each for each in tried if dates.told_apart(each, *column.bounds))
            return {"layouts": tuple(several), "rest": bool(left) or not {*found} <= {*several}}
    return {}


def _near(texts: Iterable[str], column: Column) -> bool:
    declared = {_plainly(plain_text(value)) for value in (*column.values, *dict(column.recode))}
    return any(_plainly(text) in declared for text in texts)


def _plainly(text: str) -> str:
    return " ".join(text.split()).casefold().lstrip("0") or "0"


def _faults(series: pd.Series, column: Column, may_lack: bool) -> dict[Fault, Mask]:
    """Return a mask of the cells for each fault. A cell has at most one fault."""
    if column.open:
        return {"missing cells": missing_cells(series) & (column.missing is None)}
    if column.values:
        codes, absent = value_codes(series, column)
        faults: dict[Fault, Mask] = {"undeclared values": ~absent & (codes < 0)}
    else:
        values, absent, own = read_numbers(series, column)
        number = np.isfinite(values)
        other: Fault = "not dates" if column.layout else "not numbers"
        outside = number & outside_bounds(values, column)
        faults = {other: ~absent & ~number, "out of bounds": outside}
        if column.whole:
            faults["not whole numbers"] = number & ~outside & (np.where(number, values, 0) % 1 != 0)
        absent &= own < 0
    return faults | {"missing cells": absent & (column.missing is None and not may_lack)}


def _ruled_out(
    frame: pd.DataFrame, rule: Impossible | Ordered, schema: Schema, fits: Mapping[str, Mask]
) -> npt.NDArray[np.intp]:
    """Return the indices of the rows that violate a rule, among the rows that have no other fault."""
    names = [name for name in schema.names if name in rule.columns]
    places = np.flatnonzero(np.all([fits[name] for name in names], axis=0))
    inner = replace(schema.select(names), impossible=(), ordered=())
    part = frame[list(inner.cells)].iloc[places]
    table = CodedTable.encode(part, inner)
    if isinstance(rule, Impossible):
        return places[table.holds(rule)]
    numbers = {name: counted_numbers(part[name], schema[name]) for name in (rule.lower, rule.upper)}
    return places[rule.broken(numbers, {name: table.column(name) for name in names}, schema)]
