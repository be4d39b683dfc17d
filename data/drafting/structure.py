"""What a draft reads of a table's file besides its code book: how it is written, and no value of a row.

That is its header line and delimiter, its encoding, how it writes numbers, and of a column whether numbers have
decimals, whether cells are absent, and whether codes have zeros in front. A schema declares all of it in the open, and
each may be written by hand instead.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import ABSENT, number_in, plain_text
from equistrata.data.drafting.entries import Entry, matched
from equistrata.data.drafting.spelling import MOST_OTHERS, is_listed, way_of
from equistrata.data.drafting.spelling import respelled as spelled_as
from equistrata.data.drafting.zeros import differs, respelled, widths_in
from equistrata.data.files.dialect import DELIMITERS, LATIN1, UTF8, Dialect, encoding_of, latin_of
from equistrata.data.files.excel import located
from equistrata.data.files.kinds import UNREADABLE, WITH_TEXTS, kind_of, unpacked
from equistrata.data.files.opening import file_and_kind, first_line
from equistrata.data.files.spelling import grouped, share_read, spelled, to_declare
from equistrata.data.sources import FileSource
from equistrata.errors import InputError

_MOST_ODD = 2_000  # distinct cells of a column that are no numbers and are kept while the file is read
_MOST_HEADER = 1 << 18  # bytes in which header lines are looked for
_THOUSAND = 1_000  # bounds below it leave no doubt of what 1.234 is
_ALONE = (".", "?")  # an absent cell, as SAS and Stata write it, and as C4.5 and the UCI repository do
_MOST_FAILED = 0.02  # of these, that may be none however numbers are written


@dataclass(frozen=True)
class Structure:
    """How a table's file is written.

    Attributes:
        file: what a schema's `file` must declare, besides what was known.
        decimals: column of numbers → whether any of its cells has decimals other than zeros; nothing of columns
            that were not read.
        absent: columns with absent cells.
        widths: columns of which codes have zeros in front, or none, unlike the book's → how wide they are, or 0
            (`zeros.widths_in`).
        ways: columns of which values are written in another way than the book's → which (`spelling.way_of`).
        unread: why no cell was read; empty where they were.
    """

    file: dict[str, Any] = field(default_factory=dict)
    decimals: dict[str, bool] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    widths: dict[str, int] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    unread: str = ""


def header_of(path: str | Path, wanted: set[str], sheet: str = "") -> tuple[list[str], dict[str, Any]]:
    """The columns that a table's header line names, and what a schema's `file` must declare to read it.

    Args:
        wanted: columns that are known; the delimiter is the one by which most of them are there, else most cells.
        sheet: of a workbook, its name; if empty, the one that has most of them.

    Raises InputError if it cannot be read.
    """
    path = Path(path)
    if sheet and kind_of(path) != "excel":
        raise InputError(f"file {str(path)!r} is no Excel workbook, so it has no sheets; leave --sheet out")
    if kind_of(path) == "excel":
        return _of_workbook(path, wanted, sheet)
    if kind_of(path) != "csv":
        return FileSource(str(path)).header(), {}
    try:
        start = first_line(path)
    except UNREADABLE:
        raise InputError(f"file {str(path)!r} cannot be read; check the path, or write it again") from None
    if not start:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line")
    line = start.removeprefix(codecs.BOM_UTF8)
    try:  # a line in ASCII says nothing of the rows, which may be in Latin-1
        text, encoding = line.decode(UTF8), LATIN1 if start.isascii() else UTF8
    except UnicodeDecodeError:
        encoding = latin_of(line)
        text = line.decode(encoding)
    cells = {mark: next(csv.reader([text.strip()], delimiter=mark), []) for mark in DELIMITERS}
    mark = max(cells, key=lambda mark: (len(wanted & {*cells[mark]}), len(cells[mark])))
    names = FileSource(str(path), "csv", dialect=Dialect(delimiter=mark, encoding=encoding)).header(
        [*wanted, *cells[mark]]
    )
    _refuse_twice(names, path)
    if _qualtrics(path):
        raise InputError(
            f"file {path.name!r} has three header lines, as Qualtrics exports them; delete the second and the third "
            "(questions and ImportId)"
        )
    return names, {} if mark == DELIMITERS[0] else {"delimiter": mark}


def _qualtrics(path: Path) -> bool:
    """Whether the third record of a CSV file has Qualtrics' own names; a question may have several lines."""
    with unpacked(path) as file:
        start = file.read(_MOST_HEADER).decode("utf-8", errors="replace")
    try:
        third = next(islice(csv.reader(io.StringIO(start)), 2, None), [])
    except csv.Error:
        return False
    return any(cell.startswith('{"ImportId":') for cell in third)


def _of_workbook(path: Path, wanted: set[str], sheet: str) -> tuple[list[str], dict[str, Any]]:
    """As `header_of`; a sheet is declared where others may be meant."""
    path = file_and_kind(path, None)[0]
    found = located(path, f"file {path.name!r}", wanted, sheet)
    names = [name for _, name in found.names]
    _refuse_twice(names, path)
    return names, {} if found.alone and not sheet else {"sheet": found.sheet}


def _refuse_twice(names: Sequence[str], path: Path) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1 or not name.strip()]:
        # Their places, not their names: without a header line, these would be somebody's.
        which = "; ".join(_of_one_name(names, name) for name in twice)
        raise InputError(f"file {path.name!r} has {which} in its header line; name each by itself")


def names_in(path: str | Path, sheet: str = "") -> list[str]:
    """The columns of a table as far as its header line alone shows; none where it cannot be read (`header_of` says
    why)."""
    try:
        return header_of(path, set(), sheet)[0]
    except InputError:
        return []


def _of_one_name(names: Sequence[str], name: str) -> str:
    places = " and ".join(str(place) for place, each in enumerate(names, start=1) if each == name)
    return f"columns {places} of one name" if name.strip() else f"no name for column {places}"


def structure_of(
    path: str | Path, columns: Sequence[str], entries: Mapping[str, Entry], file: Mapping[str, Any]
) -> Structure:
    """How the cells of a table's columns of numbers are written, and where cells are absent.

    Reads the file once, or twice where numbers or absent cells are not written as Python writes them; batch by batch,
    so memory does not grow with the rows. What is wrong with the file is no error here: `unread` says it, and the draft
    is the code book's alone.

    Args:
        columns: of the table, by its header.
        entries: what a code book says of them; columns of numbers are those that it calls so.
        file: what a schema's `file` must declare so far.
    """
    path = Path(path)
    of_book = matched(columns, entries)
    known = {name: entry for name, entry in of_book.items() if entry.type is not None and not entry.identifier}
    numbers = {name: entry for name, entry in known.items() if entry.type == "number"}
    found = dict[str, Any]()
    try:
        if kind_of(path) == "csv" and (encoding := encoding_of(path)) != UTF8:
            found["encoding"] = encoding
        if not known:
            return Structure(found)
        seen = _seen(path, known, numbers, {**file, **found})
        texts = kind_of(path) in WITH_TEXTS
        written = seen.written({**file, **found}, numbers) if texts else {}
        coded = {raw for entry in known.values() for raw, _ in entry.codes}
        if texts and (marks := [mark for mark in _ALONE if mark in seen.marks and mark not in coded]):
            written |= {"absent": marks}
        if written:
            found |= written
            seen = _seen(path, known, numbers, {**file, **found})
    except UNREADABLE:
        return Structure(unread=f"file {path.name!r} cannot be read")
    except InputError as error:
        return Structure(found, unread=str(error))
    unclear = {name for name in seen.unclear if isinstance(most := numbers[name].upper, float) and most >= _THOUSAND}
    pointed = "decimal" not in {**file, **found}
    told = (name for name in numbers if not (pointed and name in unclear))
    absent = frozenset(name for name in seen.absent if not {raw for raw, _ in known[name].codes} & {*ABSENT})
    widths = {name: min(each) for name, each in seen.widths.items() if differs(each, known[name])}
    ways = {
        name: way for name, cells in seen.listed.items() if name not in widths and (way := way_of(cells, known[name]))
    }
    return Structure(found, {name: name in seen.fractions for name in told}, absent, widths, ways)


def settled(entries: Mapping[str, Entry], structure: Structure) -> dict[str, Entry]:
    """The entries, with what a file says of decimals, absent cells and codes; names may differ in case and blanks."""
    decimals = matched(entries, structure.decimals)
    absent = matched(entries, dict.fromkeys(structure.absent, True))
    widths = matched(entries, structure.widths)
    ways = matched(entries, structure.ways)
    spelled = {name: respelled(each, widths[name]) if name in widths else each for name, each in entries.items()}
    spelled |= {name: spelled_as(each, ways[name]) for name, each in entries.items() if name in ways}
    return {
        name: replace(entry, fractions=decimals.get(name), absent=not entry.missing and name in absent)
        for name, entry in spelled.items()
    }


@dataclass
class _Seen:
    """What one reading of a file has seen.

    Attributes:
        fractions: columns with decimals.
        absent: columns with absent cells.
        unclear: those in which each of these has three digits after points, and may be 1.234 for 1234.
        odd: column → cells that are no numbers now, and no codes.
        pointed: a cell is a number with a decimal point that is none between thousands.
        marks: those of _ALONE that cells hold.
        widths: column of codes → how they are written (`zeros.widths_in`).
        listed: column of values → distinct cells, at most MOST_OTHERS.
    """

    fractions: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    odd: dict[str, set[str]] = field(default_factory=dict)
    pointed: bool = False
    marks: set[str] = field(default_factory=set)
    widths: dict[str, set[int]] = field(default_factory=dict)
    listed: dict[str, set[str]] = field(default_factory=dict)

    def written(self, file: Mapping[str, Any], numbers: Mapping[str, Entry]) -> dict[str, Any]:
        """What `file` must declare besides, so that nearly all odd cells of a column are numbers; nothing that would
        read other numbers otherwise."""
        now = _dialect(file)
        columns = {}
        for name, texts in self.odd.items():
            alone = spelled({name: texts}, now)
            if alone is not None and share_read(texts, alone) >= 1 - _MOST_FAILED:
                columns[name] = texts
        made = spelled(columns, now) if columns else None
        if made is not None and (made.decimal, made.thousands) == (".", ","):
            comma = replace(made, decimal=",", thousands="")
            if sum(_outside(columns, made, numbers)) > sum(_outside(columns, comma, numbers)):
                made = comma
        return to_declare(made, file, self.pointed)


def _outside(columns: Mapping[str, set[str]], dialect: Dialect, numbers: Mapping[str, Entry]) -> Iterator[bool]:
    """Of each cell that is a number in a dialect, whether it is out of its column's bounds."""
    for name, texts in columns.items():
        low, high = numbers[name].lower, numbers[name].upper
        for number in filter(None, (number_in(dialect.number(text)) for text in texts)):
            yield isinstance(low, float) and isinstance(high, float) and not low <= number <= high


def _dialect(file: Mapping[str, Any]) -> Dialect:
    return Dialect.read({"delimiter": DELIMITERS[0], **file}, "the draft")


def _seen(path: Path, columns: Mapping[str, Entry], numbers: Mapping[str, Entry], file: Mapping[str, Any]) -> _Seen:
    """What is seen of these columns, all rows that are as long as the header read once."""
    source = FileSource(str(path), dialect=_dialect(file), numbers=tuple(numbers), lenient=True)
    codes = {name: _codes(entry) for name, entry in numbers.items()}
    seen = _Seen()
    for frame in source.batches([*columns]):
        seen.absent.update(str(name) for name, some in frame.isna().any().items() if some)
        for name, cells in _distinct(frame):
            seen.marks.update(cells[cells.isin(_ALONE)])
            if columns[name].type in ("number", "date"):  # blanks alone are no number, and may be a value
                blank = np.array([isinstance(cell, str) and not cell.strip() for cell in cells], dtype=np.bool_)
                seen.absent.update([name] * bool(blank.any()))
                cells = cells[~blank]
            if name not in numbers:
                seen.widths.setdefault(name, set()).update(widths_in(cells, columns[name]))
                if is_listed(columns[name]):
                    some = seen.listed.setdefault(name, set())
                    some.update(islice(map(plain_text, cells), max(MOST_OTHERS - len(some), 0)))
                continue
            raw, coded = codes[name]
            values = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
            number = np.isfinite(values)
            parts = number & (values % 1 != 0) & ~np.isin(values, coded)
            if name in {*seen.fractions} - seen.unclear and seen.pointed:
                parts[:] = False  # nothing more can be learned of it
            if parts.any():
                texts = [text for text in cells[parts] if isinstance(text, str)]  # a number of a workbook has no point
                pointed = not all(grouped([text]) for text in texts)
                alike = len(texts) == parts.sum() and not pointed
                (seen.unclear.add if alike and name not in seen.fractions else seen.unclear.discard)(name)
                seen.fractions.add(name)
                seen.pointed = seen.pointed or pointed
            if len(kept := seen.odd.setdefault(name, set())) < _MOST_ODD and not number.all():
                others = (text for text in map(str, cells[~number]) if text.strip() not in raw)
                kept.update(text for text, _ in zip(others, range(_MOST_ODD), strict=False))
    seen.odd = {name: texts for name, texts in seen.odd.items() if texts}
    return seen


def _distinct(frame: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Each column with its distinct cells that are there."""
    for name in frame.columns:
        raw = frame[name]
        cells = raw.cat.categories.to_series() if isinstance(raw.dtype, pd.CategoricalDtype) else raw
        yield str(name), pd.Series(cells.dropna().unique())


def _codes(entry: Entry) -> tuple[set[str], list[float]]:
    """Cells of a column of numbers that are none, as texts, and those of them that are written as numbers."""
    texts = {raw for raw, _ in entry.codes}
    return texts | {*ABSENT, *_ALONE}, [number for raw in texts if (number := number_in(raw)) is not None]
