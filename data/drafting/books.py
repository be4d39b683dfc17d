"""The formats of code books that can be read.

A format is recognized by the content of the file, or by the suffix of a binary file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from pathlib import Path

from equistrata.data.drafting.acs import read_acs
from equistrata.data.drafting.column import CodeBook
from equistrata.data.drafting.ddi import read_ddi
from equistrata.data.drafting.dictionary import is_dictionary, read_dictionary
from equistrata.data.drafting.json_schemas import read_json_schema
from equistrata.data.drafting.labelled import read_labelled
from equistrata.data.drafting.redcap import NAME, read_redcap
from equistrata.data.files import excel
from equistrata.data.files.dialect import DELIMITERS, WINDOWS
from equistrata.data.files.formats import format_of, other_format
from equistrata.data.files.opening import file_and_format, readable
from equistrata.data.texts.documents import read_bytes
from equistrata.errors import InputError

FORMATS = (
    "Frictionless Table Schema, JSON Schema, a CSV or Excel dictionary with the headings of the guide, REDCap's data "
    "dictionary, DDI-Codebook, the Census Bureau's PUMS dictionary as CSV, Stata, SPSS and SAS files"
)
MOST_BYTES = 1 << 24
MOST_ROWS = 200_000  # the maximum number of rows of a sheet


def read_book(path: str | Path, columns: Collection[str] = ()) -> CodeBook:
    """Return the descriptions of the columns in a code book.

    Parameters
    ----------
    path : str or Path
        The path of the code book.
    columns : collection of str
        The columns of the table. If a document describes several tables, the table that shares the largest number of
        these columns is used.

    Returns
    -------
    Book
        The code book.

    Raises
    ------
    InputError
        If the file does not exist, or if its format is not supported.
    """
    path = Path(path)
    where, form = f"code book {path.name!r}", format_of(path)
    if form.labels:
        return read_labelled(file_and_format(path, None)[0], form)
    if form.name == "excel":
        form.reader(where)
        with readable(path, form):
            sheets = [rows for rows in excel.sheets(path, MOST_ROWS).values() if is_dictionary(rows)]
        if len(sheets) > 1:
            raise InputError(f"{where} has several sheets that are dictionaries; keep only one of these sheets")
        found = read_dictionary(sheets[0], where) if sheets else None
    else:
        found = _of_text(_text(path, where), where, columns)
    if found is None or not found.columns:
        raise InputError(
            f"{where} is in none of the supported formats, which are {FORMATS}; to start a new one, equistrata schema "
            "draft FILE --template book.csv writes a dictionary with the names of FILE's columns"
        )
    return found


def _of_text(text: str, where: str, columns: Collection[str]) -> CodeBook | None:
    start = text.lstrip()[:1]
    if start in ("{", "["):
        return read_json_schema(text, where, columns)
    if start == "<":
        return read_ddi(text, where) if "codeBook" in text or "Instance" in text else None
    mark = max(DELIMITERS, key=text.lstrip().partition("\n")[0].count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=mark, strict=True) if any(map(str.strip, row))]
    except csv.Error:
        return None
    if rows and rows[0][0].strip() == "NAME" and rows[0][2:3] in (["C"], ["N"]):
        return read_acs(rows, where)
    if rows and NAME in map(str.strip, rows[0]):
        return read_redcap(rows, where)
    return read_dictionary(rows, where) if is_dictionary(rows) else None


def _text(path: Path, where: str) -> str:
    content = read_bytes(path, where, MOST_BYTES)
    if what := other_format(content[: 1 << 16]):
        raise InputError(f"{where} is {what}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode(WINDOWS, errors="replace")
