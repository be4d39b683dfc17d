"""The cells of a table's columns, counted, and how its file writes its numbers by them: for a draft from rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.data.columns.column import plain_text
from equistrata.data.columns.dates import ISO
from equistrata.data.files.dialect import DELIMITERS, UTF8, Dialect, encoding_of
from equistrata.data.files.kinds import UNREADABLE, kind_of
from equistrata.data.files.spelling import by_commas, share_read, spelled, to_declare
from equistrata.data.sources import FileSource
from equistrata.errors import InputError

Tally = Counter[str | None]  # how often each cell is there; None for absent ones

FEW_NUMBERS = 20  # distinct ones that are values rather than numbers
MOST_FAILED = 0.02  # of the cells, that are neither numbers nor dates among such
ZEROS = re.compile(r"[-+]?0\d")  # 01 is a code, which is not 1
_COMMA = re.compile(r"[-+]?\d+,\d+|[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_POINT = re.compile(r"[-+]?\d+\.\d+")
_GROUPED = re.compile(r"\d\.\d{3}")


def tallies_of(path: str | Path, columns: list[str], file: dict[str, Any]) -> tuple[dict[str, Tally], dict[str, Any]]:
    """Column → its cells, counted, and what `file` must declare besides.

    Rows are read a batch at a time; only the distinct cells of each column are in memory. Raises InputError if the
    table cannot be read.
    """
    kind = kind_of(path)
    if kind not in ("csv", "excel"):
        return tally(FileSource(str(path)).batches(columns)), file
    try:
        encoding = encoding_of(Path(path)) if kind == "csv" else UTF8
    except UNREADABLE:
        raise InputError(f"file {str(path)!r} cannot be read; check the path, or write it again") from None
    absent = tuple(file.get("absent", ()))
    delimiter = file.get("delimiter", DELIMITERS[0])
    dialect = Dialect(delimiter=delimiter, encoding=encoding, absent=absent, sheet=file.get("sheet", ""))
    source = FileSource(str(path), dialect=dialect)
    tallies = tally(source.batches(columns))
    found = dict(file) | ({"encoding": encoding} if encoding != UTF8 else {})
    forms = Counter[str]()
    for times in tallies.values():
        cells = {text.strip(): often for text, often in times.items() if text is not None}
        commas = not by_commas(cells)
        for form, pattern in (("comma", _COMMA), ("point", _POINT)):
            found_in = sum(often for text, often in cells.items() if pattern.fullmatch(text))
            most = found_in * 2 > sum(cells.values()) and (commas or form == "point")
            forms[form] += most
            forms["thousands"] += form == "comma" and most and any(map(_GROUPED.search, cells))
    if forms["comma"] > forms["point"]:
        found |= {"decimal": ","} | ({"thousands": "."} if forms["thousands"] else {})
    return tallies, found | _as_written(tallies, found, pointed=forms["point"] > 0)


def _as_written(tallies: Mapping[str, Tally], file: Mapping[str, Any], pointed: bool) -> dict[str, Any]:
    """What `file` must declare besides, so that columns are numbers of which nearly no cell is one otherwise: thousands
    separators, signs, negative numbers in parentheses. Nothing that would read other columns otherwise.

    Args:
        pointed: a column has decimal points.
    """
    now = Dialect(decimal=file.get("decimal", "."), thousands=file.get("thousands", ""))
    columns = {}
    for name, times in tallies.items():
        texts = [text for text in times if text is not None]
        if len(texts) > FEW_NUMBERS and share_read(texts, now) < 1 - MOST_FAILED:
            alone = spelled({name: texts}, now)
            coded = alone is not None and any(ZEROS.match(alone.number(text.strip())) for text in texts)
            if alone is not None and not coded and share_read(texts, alone) >= 1 - MOST_FAILED:
                columns[name] = texts
    return to_declare(spelled(columns, now) if columns else None, file, pointed)


def tally(frames: Iterable[pd.DataFrame]) -> dict[str, Tally]:
    """Column → how often it has each cell, as text."""
    found: dict[str, Tally] = {}
    for frame in frames:
        for name in frame.columns:
            raw = frame[name]
            if pd.api.types.is_datetime64_any_dtype(raw.dtype):  # of which the days are released
                raw = raw.dt.tz_localize(None).dt.strftime(ISO)
            cells = raw.map(plain_text, na_action="ignore")
            times = found.setdefault(str(name), Counter())
            times.update({str(text): int(often) for text, often in cells.value_counts().items() if often})
            if absent := int(cells.isna().sum()):
                times[None] += absent
    return found
