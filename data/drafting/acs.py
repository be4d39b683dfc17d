"""The Census Bureau's data dictionary of ACS PUMS files, as CSV: lines NAME and VAL.

    NAME,AGEP,N,2,"Age"
    VAL,AGEP,N,2,1,99,"1 to 99 years (Top-coded)"

Cells of type C are texts, whatever their digits; N are whole numbers. A value of b's alone is an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from equistrata.data.columns.column import number_in, plain_text
from equistrata.data.drafting.column import Book, BookColumn
from equistrata.errors import InputError


def read_acs(rows: Iterable[Sequence[str]], where: str) -> Book:
    """The columns of a dictionary. Raises InputError for a line that is neither NAME nor VAL."""
    found, values = dict[str, BookColumn](), dict[str, list[Sequence[str]]]()
    for number, cells in enumerate(rows, start=1):
        line = [cell.strip() for cell in cells]
        if line[0] == "NAME" and len(line) >= 5 and line[2] in ("C", "N"):
            found.setdefault(line[1], BookColumn(line[1], line[4], "text" if line[2] == "C" else "integer"))
        elif line[0] == "VAL" and len(line) >= 7 and line[1] in found:
            values.setdefault(line[1], []).append(line[4:7])
        else:
            raise InputError(f"{where}, line {number} is no NAME or VAL line of the Census Bureau's; mend it")
    return Book({name: _with_values(column, values.get(name, [])) for name, column in found.items()})


def _with_values(column: BookColumn, lines: Sequence[Sequence[str]]) -> BookColumn:
    blank = [words or "N/A" for low, _, words in lines if {*low} <= {"b"}]
    ends = [end for low, high, _ in lines if low != high for end in (low, high)]
    listed = [(low, words) for low, high, words in lines if low == high and not {*low} <= {"b"}]
    column = replace(column, absent=bool(blank), absence="; ".join(blank), values=tuple(listed))
    if column.kind == "text":
        return replace(column, lower=min(ends), upper=max(ends)) if ends else column
    numbers = [number for end in ends if (number := number_in(end)) is not None]
    plain = tuple((raw if (number := number_in(raw)) is None else plain_text(number), words) for raw, words in listed)
    if not numbers:
        return replace(column, kind="number", decimals=0, values=plain)
    unread = ("its range is not of numbers",) if len(numbers) < len(ends) else ()
    return replace(column, values=plain, lower=min(numbers), upper=max(numbers), remarks=unread)
