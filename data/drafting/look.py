"""Drafts of columns from the rows of a table, for columns that no code book describes.

These drafts are exact, so they are as private as the rows. They must be confirmed before they are used. No value is
declared as missing, and only simple declarations are drafted. If a column can be declared in two ways, the draft
contains a question.

>>> look_at(BookColumn("AREA"), {"01": 40, "02": 60}).spec
{'type': 'nominal', 'values': ['01', '02']}
>>> months = {f"{year}{month:02}": 9 for year in (2019, 2020) for month in range(1, 13)}
>>> look_at(BookColumn("MONTH"), months).spec["type"]
'nominal'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.data.columns.column import ABSENT, number_in, plain_text
from equistrata.data.columns.dates import ISO, LAYOUTS, TIME_OF_DAY, day_in, is_time_of_day, iso
from equistrata.data.drafting.column import BookColumn, Code, Kind
from equistrata.data.drafting.doubt import PERSONAL, Decision, is_personal, of_dates, spec_of_numbers, spec_of_values
from equistrata.data.files.csv_files import encoding_of
from equistrata.data.files.dialect import PLAIN, UTF8, Dialect
from equistrata.data.files.formats import Reading, format_of
from equistrata.data.files.opening import readable, rows_in
from equistrata.data.sources import FileSource
from equistrata.errors import InputError

# The maximum number of distinct numbers, texts and short codes that are drafted as a list of values.
FEW_NUMBERS, FEW_TEXTS, FEW_CODES = 20, 30, 100
_FEW_WORDS = 10  # up to this number of distinct texts are unlikely to be names of people
_ROWS_EACH = 5  # the minimum number of rows per value, on average
_MOST_DECIMALS = 6
_MONTH = re.compile(r"(?:1[6-9]|2[01])\d\d[-/.]?(?:0[1-9]|1[0-2])")
_COMMA = re.compile(r"[-+]?\d+(?:,(\d+))?")
_MARKED = re.compile(r"[-+]?\d+(?:[.,' ]\d+)*")
_FAR = re.compile(r"-(?:9+|8+|7+|1)|9{2,}|8{2,}|7{2,}")  # numbers that often stand for a missing value
_ZEROS, _CODE = re.compile(r"[-+]?0\d"), re.compile(r".{1,3}|.*\d.*")


def look(
    path: Path, columns: Sequence[str], file: Mapping[str, Any], book: Mapping[str, BookColumn]
) -> tuple[dict[str, Decision], dict[str, Any]]:
    """Draft the declarations of columns from the rows of a table.

    Parameters
    ----------
    path : Path
        The path of the table.
    columns : sequence of str
        The names of the columns.
    file : mapping
        The declaration of the file in the schema, as far as it is known.
    book : mapping of str to BookColumn
        The descriptions from a code book. Codes that the book declares as missing, and columns that the book declares
        as text, are not read as numbers.

    Returns
    -------
    decisions : dict of str to Decision
        The decision for each column.
    file : dict
        The declaration of the file that is required to read the rows.

    Raises
    ------
    InputError
        If the table cannot be read or has no rows.

    Privacy
    -------
    The decisions are exact, so they are as private as the rows.
    """
    found, form = dict(file), format_of(path)
    with readable(path, form):
        encoding = encoding_of(path) if form.name == "csv" else UTF8
    found |= {"encoding": encoding} if encoding != UTF8 else {}
    dialect = Dialect.read(found, "the draft")
    source = FileSource(str(path), dialect=dialect)
    source.check(columns)
    # The cells of text files are read unchanged, because NA can be a value or an empty cell.
    marks = ABSENT if form.texts else ()
    tallies = _tallies(rows_in(path, form, columns, Reading(dialect)) if form.texts else source.batches(columns))
    if not any(tallies.values()):
        raise InputError(f"file {path.name!r} holds no rows; give a table with at least one row")
    found |= {"decimal": ","} if "decimal" not in found and any(map(_has_commas, tallies.values())) else {}
    dialect = Dialect.read(found, "the draft")
    known = {name: book.get(name, BookColumn(name)) for name in tallies}
    return {name: look_at(known[name], times, dialect, marks) for name, times in tallies.items()}, found


def _tallies(frames: Iterable[pd.DataFrame]) -> dict[str, Counter[str]]:
    """Return the number of rows of each cell of each column, where absent cells are empty texts."""
    found: dict[str, Counter[str]] = {}
    for frame in frames:
        for name, raw in frame.items():
            days = raw.dt.tz_localize(None).dt.strftime(ISO) if pd.api.types.is_datetime64_any_dtype(raw.dtype) else raw
            cells = days.map(lambda cell: plain_text(cell).strip(), na_action="ignore").astype(object).fillna("")
            found.setdefault(str(name), Counter()).update(Counter(cells.tolist()))
    return found


def _has_commas(texts: Collection[str]) -> bool:
    """Return True if the numbers of a column have decimal commas.

    A comma that is followed by three digits in all cells can be a thousands separator, so the result is then False.
    """
    parts = [_COMMA.fullmatch(text) for text in texts if text]
    return all(parts) and any(part and part[1] and len(part[1]) != 3 for part in parts)


def look_at(
    entry: BookColumn, tally: Mapping[str, int], dialect: Dialect = PLAIN, marks: Collection[str] = ()
) -> Decision:
    """Draft the declaration of a column from its cells.

    Parameters
    ----------
    entry : BookColumn
        The description of the column from a code book.
    tally : mapping of str to int
        The number of rows of each cell, where absent cells are empty texts.
    dialect : Dialect
        The format of the cells.
    marks : collection of str
        Texts of absent cells, such as NA. In a column of numbers, dates or free texts, they are absent. In a list of
        texts, they can also be values, which is a question.

    Returns
    -------
    Decision
        The declaration or the question.
    """
    if marked := sorted({*marks, *dialect.absent}.intersection(tally) - {"", *dict(entry.missing)}):
        there = {text: often for text, often in tally.items() if text not in marked}
        found = look_at(entry, {**there, "": sum(tally.values()) - sum(there.values()) + there.get("", 0)}, dialect)
        usual = [text for text in marked if text not in dialect.absent]
        values = [value for value in (found.spec or {}).get("values", ()) if value != (found.spec or {})["missing"]]
        if not (usual and values and all(isinstance(value, str) for value in values)):
            return found
        spec = spec_of_values(replace(entry, absent="" in tally), [(value, "") for value in (*values, *usual)])
        why = f"{', '.join(usual)} can be a value, or stand for an empty cell"
        return Decision(None, why, [("all of them are values", spec), ("empty cells", found.spec or {})])
    times = {text: often for text, often in tally.items() if text}
    kind: Kind = "text" if entry.kind == "text" else ""
    column = replace(entry, kind=kind, absent=entry.absent or bool(tally.get("")), remarks=())
    if is_personal(entry.name, entry.label):
        return PERSONAL
    if not times or all(map(is_time_of_day, times)):
        return Decision(None, TIME_OF_DAY if times else "all its cells are empty")
    if layouts := [layout for layout in LAYOUTS if all(_year(text, layout) for text in times)]:
        years = sorted(_year(text, layout) for text in times for layout in layouts)
        found = of_dates(replace(column, lower=f"{years[0]}-01-01", upper=f"{years[-1]}-12-31"), layouts)
        return replace(found, shape="") if found.personal else found
    if entry.kind == "date":
        return Decision(None, "dates or periods in a format that is not supported")
    read = dialect.number if dialect.local else str
    numbers = {text: number for text in times if (number := number_in(read(text))) is not None}
    if all(map(_MARKED.fullmatch, times)) and len(numbers) < len(times):
        why = "numbers with other commas or points than in 'file'; declare decimal and thousands there"
        return Decision(None, why, shape="{lower: ..., upper: ...}")
    codes = [(raw, words) for raw, words in entry.missing if raw in times]
    inside = [number for text, number in numbers.items() if text not in dict(codes)]
    as_texts = kind == "text" or any(map(_ZEROS.match, numbers)) or all(map(_MONTH.fullmatch, times))
    rows = sum(times.values())
    if len({*inside}) > FEW_NUMBERS and not as_texts and len(numbers) + len(codes) >= len(times):
        return _numbers(column, inside, codes, rows)
    listed = kind == "text" and entry.lower is not None  # they are codes according to the book
    coded = listed or all(map(_CODE.fullmatch, times))
    most = len(times) if listed else FEW_CODES if coded else FEW_TEXTS
    if len(times) > most or (rows < _ROWS_EACH * len(times) and not listed):
        return Decision(None, "many different texts, which can be names, free text, or numbers with units")
    ordered = sorted(times, key=lambda text: (text not in numbers, numbers.get(text, 0.0), text))
    plain = as_texts or len(numbers) < len(times) or dialect.local
    texts = [*dict.fromkeys(text if plain else plain_text(numbers[text]) for text in ordered)]
    ticks = ["0", "1"] if {*texts} <= {"0", "1"} else texts
    spec = spec_of_values(column, [(raw, dict(entry.missing).get(raw, "")) for raw in ticks])
    if len(times) > _FEW_WORDS and not numbers and not coded:
        return Decision(None, f"{len(times)} texts, which can name people", [("categories of a public list", spec)])
    return Decision(spec)


def _numbers(column: BookColumn, numbers: Sequence[float], codes: Sequence[Code], rows: int) -> Decision:
    whole = all(map(float.is_integer, numbers))
    if whole and len({*numbers}) > rows * 0.9 and max(numbers) - min(numbers) < 3 * len(numbers):
        return Decision(None, "whole numbers that are nearly all unique, such as numbers of persons or records")
    places = max((len(repr(number).partition(".")[2]) for number in numbers if "e" not in repr(number)), default=1)
    column = replace(column, kind="integer" if whole else "number", decimals=min(places, _MOST_DECIMALS) * (not whole))

    def spec(apart: Collection[float]) -> dict[str, Any]:
        kept = {*numbers}.difference(apart)
        low, high = (_outwards(end(kept), max(kept) - min(kept), away) for end, away in ((min, floor), (max, ceil)))
        return spec_of_numbers(column, low, high, [*codes, *((plain_text(n), plain_text(n)) for n in sorted(apart))])

    rest = {number for number in numbers if not _FAR.fullmatch(plain_text(number))}
    low, high = min(rest, default=0.0), max(rest, default=0.0)
    above, below = high + (high - low) / 4, low - (high - low) * (low < 0) / 4
    far = {number for number in numbers if number > above or number < below} - rest
    if not (rest and far):
        return Decision(spec(()))
    named = ", ".join(map(plain_text, sorted(far)))
    why = f"{named} is far from the other numbers, like a code for no answer"
    return Decision(None, why, [(f"{named}: codes, not numbers", spec(far)), ("all are numbers", spec(()))])


def _year(text: str, layout: str) -> int:
    """Return the year of a date in a layout if it is from 1700 to 2200, or 0."""
    day = day_in(text, layout)
    year = 0 if day is None else int(iso(day)[:4])
    return year if 1700 <= year <= 2200 else 0


def _outwards(number: float, width: float, away: Any) -> float:
    """Round a number away from the other numbers, so that a bound is not the value of a row.

    The result has two significant digits, or it is a multiple of the power of ten in the width.
    """
    unit = 10.0 ** min(floor(log10(abs(number))) - 1, floor(log10(width))) if number and width else 1.0
    return float(f"{away(number / unit) * unit:.12g}")
