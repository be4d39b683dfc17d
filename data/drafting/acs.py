"""The data dictionary of ACS PUMS files from the Census Bureau, as a code book.

The dictionary is read by `equistrata.data.census.dictionary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from equistrata.data.census.dictionary import Entry, read_entries
from equistrata.data.columns.column import number_in, plain_text
from equistrata.data.drafting.column import BookColumn, CodeBook


def read_acs(rows: Iterable[Sequence[str]], where: str) -> CodeBook:
    """Return the columns of a dictionary. Raises an InputError if a line is neither a NAME line nor a VAL line."""
    return CodeBook({name: _column(entry) for name, entry in read_entries(rows, where).items()})


def _column(entry: Entry) -> BookColumn:
    ends = [end for low, high, _ in entry.values if low != high for end in (low, high)]
    column = BookColumn(
        entry.name, entry.label, "text" if entry.kind == "C" else "integer", entry.codes,
        absent=entry.blank is not None, absence=entry.blank or "",
    )  # fmt: skip
    if column.kind == "text":
        return replace(column, lower=min(ends), upper=max(ends)) if ends else column
    numbers = [number for end in ends if (number := number_in(end)) is not None]
    plain = [(raw if (number := number_in(raw)) is None else plain_text(number), words) for raw, words in entry.codes]
    column = replace(column, values=tuple(plain))
    if not numbers:
        return replace(column, kind="number", decimals=0)
    unread = ("its range does not consist of numbers",) if len(numbers) < len(ends) else ()
    return replace(column, lower=min(numbers), upper=max(numbers), remarks=unread)
