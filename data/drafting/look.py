"""What the rows of a table hold, for a draft of its schema: exact, so as private as the rows.

>>> import pandas as pd
>>> found, marks = look(pd.DataFrame({"BORN": ["31.12.1999", "01.02.1950"] * 20, "PAY": ["12,5", "-9"] * 20}), ",")
>>> found["BORN"].layout, found["BORN"].lower, found["BORN"].upper, marks["BORN"]
('%d.%m.%Y', '1950-01-01', '1999-12-31', ['type', 'bounds'])
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime
from math import ceil, floor, log10
from pathlib import Path

import pandas as pd

from equistrata.data.dialect import DELIMITERS, LATIN1, PARQUET, UTF8, Dialect
from equistrata.data.drafting.entries import Entry
from equistrata.data.sources import FileSource, read_texts
from equistrata.errors import InputError

FEW_NUMBERS, FEW_TEXTS = 20, 200  # distinct ones that are values rather than numbers, or free text
_OTHERS = 5  # texts that may stand among numbers
_MOST_FAILED = 0.02  # of the cells, that are neither numbers nor dates among such
_LAYOUTS = (
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M",
)  # fmt: skip
_SENTINEL = re.compile(r"-(?:[1-9]|9+|8+|7+)|(?:9{2,}|8{3,}|7{3,})")
_COMMA = re.compile(r"[-+]?\d+,\d+|[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_POINT = re.compile(r"[-+]?\d+\.\d+")


def header_of(path: str | Path, wanted: set[str]) -> tuple[list[str], dict[str, str]]:
    """The columns that a table's header line names, and what a schema's `file` must declare to read it.

    Args:
        wanted: columns that are known; the delimiter is the one by which most of them are there, else most cells.

    Raises InputError if it cannot be read.
    """
    path = Path(path)
    if path.suffix in PARQUET:
        return FileSource(str(path)).header(), {}
    try:
        with path.open("rb") as file:
            start = next((each for each in file if each.strip()), b"")
    except OSError:
        raise InputError(f"file {str(path)!r} cannot be read; check the path") from None
    if not start:
        raise InputError(f"file {str(path)!r} is empty; it needs a header line")
    line = start.removeprefix(codecs.BOM_UTF8)
    try:  # a line in ASCII says nothing of the rows, which may be in Latin-1
        text, encoding = line.decode(UTF8), LATIN1 if start.isascii() else UTF8
    except UnicodeDecodeError:
        text, encoding = line.decode(LATIN1), LATIN1
    cells = {mark: next(csv.reader([text.strip()], delimiter=mark), []) for mark in DELIMITERS}
    mark = max(cells, key=lambda mark: (len(wanted & {*cells[mark]}), len(cells[mark])))
    names = FileSource(str(path), "csv", dialect=Dialect(delimiter=mark, encoding=encoding)).header(
        [*wanted, *cells[mark]]
    )
    if twice := [name for name, times in Counter(names).items() if times > 1 or not name.strip()]:
        which = "two columns of one name" if twice[0].strip() else "a column without a name"
        raise InputError(f"file {path.name!r} has {which} in its header line; name each by itself")
    return names, {} if mark == DELIMITERS[0] else {"delimiter": mark}


def rows_of(path: str | Path, columns: list[str], file: dict[str, str]) -> tuple[pd.DataFrame, dict[str, str]]:
    """The cells of a table as text, absent ones as null, and what `file` must declare besides.

    Raises InputError if it cannot be read.
    """
    encoding = UTF8
    if Path(path).suffix not in PARQUET:
        try:
            with Path(path).open(encoding=UTF8) as text:
                while text.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            encoding = LATIN1
    frame = read_texts(path, columns, file.get("delimiter", DELIMITERS[0]), encoding)
    found = dict(file) | ({"encoding": encoding} if encoding != UTF8 else {})
    counts = Counter[str]()
    for name in frame.columns:
        cells = frame[name].dropna()
        for form, pattern in (("comma", _COMMA), ("point", _POINT)):
            share = float(cells.str.strip().str.fullmatch(pattern).mean()) if len(cells) else 0.0
            counts[form] += share > 0.5
            if form == "comma" and share > 0.5 and cells.str.contains(r"\d\.\d{3}", regex=True).any():
                counts["thousands"] += 1
    if counts["comma"] > counts["point"]:
        found |= {"decimal": ","} | ({"thousands": "."} if counts["thousands"] else {})
    return frame, found


def look(frame: pd.DataFrame, decimal: str = ".", thousands: str = "") -> tuple[dict[str, Entry], dict[str, list[str]]]:
    """Column → what its cells hold, as a code book would say it, and what of that only the rows say."""
    found, marks = {}, {}
    for name in frame.columns:
        cells = frame[name].dropna().str.strip()
        entry, said = _looked(str(name), cells, decimal, thousands)
        if len(cells) < len(frame) and entry.type:
            entry, said = _lacking(entry), [*said, "missing"]
        found[entry.name], marks[entry.name] = entry, said
    return found, marks


def lacking(entry: Entry, frame: pd.DataFrame) -> Entry | None:
    """An entry of a code book that says nothing of missing cells, of a column that has some; None for any other."""
    lacks = entry.name in frame.columns and bool(frame[entry.name].isna().any())
    return _lacking(entry) if lacks and not entry.missing and entry.type else None


def _lacking(entry: Entry) -> Entry:
    return replace(entry, missing=True)


def _looked(name: str, cells: pd.Series, decimal: str, thousands: str) -> tuple[Entry, list[str]]:
    times = cells.value_counts()
    if not len(times):
        return Entry(name, "all its cells are empty"), []
    plain = {text: text.replace(thousands, "").replace(decimal, ".") if thousands else text.replace(decimal, ".")
             for text in times.index}  # fmt: skip
    numbers = {text: number for text, read in plain.items() if (number := _read(read)) is not None}
    most = (1 - _MOST_FAILED) * len(cells)
    for layout in _LAYOUTS:
        dates = {text: day for text in times.index if (day := _day(text, layout)) is not None}
        rest = [text for text in times.index if text not in dates]
        if dates and len(rest) <= _OTHERS and sum(times[text] for text in dates) >= most:
            years = [day.year for day in dates.values()]
            codes = tuple((text, text) for text in rest)
            lower, upper = f"{min(years):04}-01-01", f"{max(years):04}-12-31"
            return Entry(name, "", "date", codes, lower, upper, layout=layout), ["type", "bounds"]
    rest = [text for text in times.index if text not in numbers]
    if numbers and len(rest) <= _OTHERS and (len(numbers) > FEW_NUMBERS):
        beside = [(text, text) for text in (*rest, *_sentinels(numbers))]
        inside = [number for text, number in numbers.items() if (text, text) not in beside]
        bounds = _outwards(min(inside), up=False), _outwards(max(inside), up=True)
        whole = all(number.is_integer() for number in inside)
        said = ["type", "bounds", *(["codes"] if beside else [])]
        return Entry(name, "", "number", tuple(beside), *bounds, integer=whole), said
    if len(times) <= FEW_TEXTS and len(times) <= len(cells) / 2:
        ordered = sorted(times.index, key=lambda text: (text not in numbers, numbers.get(text, 0.0), text))
        values = [
            (str(int(numbers[text])) if text in numbers and numbers[text].is_integer() else text, "")
            for text in ordered
        ]
        return Entry.of(name, codes=dict(values).items()), ["values"]
    kind = "nearly all cells differ: an identifier, or free text" if len(times) > len(cells) / 2 else "many texts"
    return Entry(name, kind), []


def _sentinels(numbers: dict[str, float]) -> list[str]:
    """Numbers such as -9 or 999 that are far from all others."""
    like = {text for text in numbers if _SENTINEL.fullmatch(text)}
    rest = [number for text, number in numbers.items() if text not in like]
    if not rest:
        return []
    low, high = min(rest), max(rest)
    far = (high - low) / 4
    return sorted(
        t for t in like if numbers[t] > high + far or (numbers[t] < low and (low >= 0 or numbers[t] < low - far))
    )


def _read(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e300 and "_" not in text else None


def _day(text: str, layout: str) -> datetime | None:
    try:
        day = datetime.strptime(text, layout)
    except ValueError:
        return None
    return day if 1700 <= day.year <= 2200 else None


def _outwards(number: float, up: bool) -> float:
    """A number of two digits that is no nearer to zero's other side: bounds are no row's value."""
    if number == 0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(number))) - 1)
    return float(f"{(ceil if up else floor)(number / unit) * unit:.12g}")
