"""Tests of Excel workbooks: sheets, title rows, merged cells and the types of cells."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from workbooks import saved

from equistrata.data.columns.cells import numbers
from equistrata.data.columns.column import Column
from equistrata.data.files import excel, formats
from equistrata.data.files.dialect import Dialect
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table_check import check_table
from equistrata.errors import InputError

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return a function that makes a workbook from sheets. The function `change` can edit the workbook."""

    def make(sheets: dict[str, list[list[Any]]], change: Callable[[Any], None] = lambda book: None) -> Path:
        return saved(tmp_path / "people.xlsx", sheets, change)

    return make


def cells(path: Path, *names: str, declared: tuple[Column, ...] = (), **how: Any) -> list[list[Any]]:
    source = FileSource(str(path), declared=declared, **how)
    frame = source.read(names or source.header())
    return [[None if pd.isna(cell) else cell for cell in row] for row in frame.to_numpy().tolist()]


def rewritten(path: Path, pattern: bytes, by: bytes) -> None:
    """Replace the only match of a pattern in the first sheet of a workbook."""
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name], times = re.subn(pattern, lambda _: by, parts[name], flags=re.DOTALL)
    assert times == 1
    with zipfile.ZipFile(path, "w") as packed:
        for each, content in parts.items():
            packed.writestr(each, content)


def test_cells_are_what_a_sheet_holds(made: Made) -> None:
    """Codes that are shown with leading zeros are read as they are shown, and NA is a missing value."""

    def zeros(book: Any) -> None:
        book["People"]["D2"].number_format = "00000"

    row = [datetime(1999, 12, 31), time(8, 30), "12,5", 7011, True, "NA", None, datetime(2020, 1, 1, 8, 30), 0.1, "01"]
    path = made({"People": [list("abcdefghij"), row]}, zeros)
    assert cells(path) == [[*row[:3], "07011", True, None, *row[6:]]]


def test_true_dates_are_days_whatever_layout_a_schema_declares(made: Made) -> None:
    schema = Schema.from_dict(
        {"columns": {"BORN": {"type": "date", "format": "%d.%m.%Y", "lower": "1900-01-01", "upper": "2025-12-31"}}}
    )
    path = made({"People": [["BORN"], [datetime(1999, 12, 31)], ["31.12.1999"], [date(1999, 12, 31)]]})
    frame = FileSource.of(str(path), schema).read(["BORN"])
    assert numbers(frame["BORN"], schema["BORN"])[0].tolist() == [10_956] * 3
    assert check_table(path, schema, ["BORN"]).fits


def test_a_row_of_names_may_be_declared(made: Made) -> None:
    path = made({"People": [["a", "b", "c"], ["SEX", "AGE", "JOB"], [1, 20, "x"]]})
    assert cells(path, "SEX", dialect=Dialect(header=2)) == [[1]]
    schema = Schema.from_dict({"file": {"header": 2, "sheet": "People"}, "columns": {"AGE": {"lower": 0, "upper": 99}}})
    assert schema.file == Dialect(header=2, sheet="People")
    path = made({"People": [*([["remark", "of", "many", "words"]] * 30), ["SEX"], [1]]})
    assert cells(path, "SEX", dialect=Dialect(header=31)) == [[1]]
    with pytest.raises(InputError, match="'header' of 'file' to be the number of a row"):
        Schema.from_dict({"file": {"header": "2"}, "columns": {"AGE": {"lower": 0, "upper": 99}}})


def test_texts_among_numbers_are_read_as_the_schema_says(made: Made) -> None:
    schema = Schema.from_dict({"file": {"decimal": ","}, "columns": {"PAY": {"lower": 0, "upper": 99}}})
    path = made({"People": [["PAY"], ["12,5"], [7.25], ["3"]]})
    frame = FileSource.of(str(path), schema).read(["PAY"])
    assert pd.to_numeric(frame["PAY"]).dropna().tolist() == [12.5, 7.25, 3.0]


def test_a_formula_without_a_value_is_no_absent_cell(made: Made) -> None:
    """Other programs write formulas without values, so all cells of the column would be missing."""
    path = made({"People": [["SEX", "AGE"], [1, "=20+3"]]})
    with pytest.raises(InputError, match=r"sheet 'People' of file 'people\.xlsx' has formulas without stored values"):
        cells(path)


@pytest.mark.parametrize("inside", ['t="str"><f>IF(1,"","")</f><v></v>', "><f>20+3</f><v>23</v>"])
def test_a_formula_with_a_value_is_one(made: Made, inside: str) -> None:
    path = made({"People": [["SEX", "AGE"], [1, "=20+3"]]})
    rewritten(path, rb'<c r="B2">.*?(?=</c>)', f'<c r="B2" {inside}'.encode())
    assert cells(path) == [[1, 23 if "23" in inside else None]]


def test_a_wrong_size_of_a_sheet_loses_no_cell(made: Made) -> None:
    path = made({"People": [["SEX", "AGE"], [1, 20], [2, 30]]})
    rewritten(path, rb'<dimension ref="[^"]*"', b'<dimension ref="A1:A2"')
    assert cells(path) == [[1, 20], [2, 30]]


def test_one_sheet_is_shown_or_named(made: Made) -> None:
    def hide(book: Any) -> None:
        book["Lists"].sheet_state = "hidden"

    sheets = {"Lists": [["f"]], "Old": [["SEX"], [1]], "People": [["SEX", "AGE"], [2, 30]], "Empty": []}
    path = made(sheets, hide)
    with pytest.raises(
        InputError,
        match=r"has no sheet or several sheets with a table .visible sheets: 'Old', 'People'.; name the sheet",
    ):
        cells(path, "SEX")
    assert cells(path, dialect=Dialect(sheet="People")) == [[2, 30]]
    with pytest.raises(InputError, match="has no visible sheet 'Lists'"):
        cells(path, dialect=Dialect(sheet="Lists"))


@pytest.mark.parametrize(
    "rows",
    [
        [["All people"], ["SEX", "AGE"], [1, 20]],
        [["SEX", "AGE"], [1, 20], [], ["AREA", "ROWS"], ["a", 5]],
        [["SEX", None, "AREA"], [1, None, "a"]],
        [["SEX"], [1, "a remark"]],
        [["SEX"], [None], [1]],
    ],
)
def test_titles_remarks_and_second_tables_are_refused(made: Made, rows: list[list[Any]]) -> None:
    with pytest.raises(InputError, match=r"sheet 'People' of file 'people.xlsx' is not one table: row 1 names") as told:
        cells(made({"People": rows}))
    assert "remark'" not in str(told.value)


@pytest.mark.parametrize("area", ["A2:A3", "A3:XFD1048576", "A1:B1"])
def test_merged_cells_are_refused_at_once(made: Made, area: str) -> None:
    path = made({"People": [["SEX", "AGE"], [1, 20], [2, 30]]}, lambda book: book["People"].merged_cells.add(area))
    with pytest.raises(InputError, match=rf"has merged cells \({area}\); unmerge them, and fill in each cell"):
        cells(path)


def test_merged_titles_stand_above_a_row_of_names_that_is_declared(made: Made) -> None:
    path = made({"P": [["All", None], ["SEX", "AGE"], [1, 20]]}, lambda book: book["P"].merge_cells("A1:B1"))
    assert cells(path, dialect=Dialect(header=2)) == [[1, 20]]


def test_sheets_of_a_book_are_texts(made: Made) -> None:
    path = made({"Book": [["All", None, "x"], ["SEX", 1, None], [], [None, 2.5, True]]})
    assert excel.sheets(path, 3) == {"Book": [["All", "", "x"], ["SEX", "1"], ["", "2.5", "TRUE"]]}
    with pytest.raises(InputError, match=r"sheet 'Book' of file 'people\.xlsx' has more than 2 rows"):
        excel.sheets(path, 2)


def test_a_workbook_that_would_fill_the_memory_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_MOST_UNPACKED", 1 << 10)
    with pytest.raises(InputError, match="unpacks to more than"):
        FileSource(str(made({"People": [["SEX"], [1]]}))).header()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 and nothing more", "cannot be read as an Excel workbook"),
        (b"SEX,AGE\n1,2\n", "cannot be read as an Excel workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "cannot be read as an Excel workbook"),
        (b"", "cannot be read as an Excel workbook"),
    ],
)
def test_what_is_no_workbook(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "people.xlsx").write_bytes(content)
    with pytest.raises(InputError, match=said):
        FileSource(str(tmp_path / "people.xlsx")).header()


def test_an_empty_workbook(made: Made) -> None:
    with pytest.raises(InputError, match="has no sheet or several sheets with a table"):
        FileSource(str(made({"People": []}))).header()
    path = made({"People": [["SEX", "AGE"]]})
    with pytest.raises(InputError, match="holds no rows"):
        FileSource(str(path)).read(["SEX"])
    assert read_frame(path).columns.tolist() == ["SEX", "AGE"]


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (
            lambda sheet: setattr(sheet.row_dimensions[3], "hidden", True),
            "has hidden rows, starting with row 3; unhide",
        ),
        (lambda sheet: sheet.row_dimensions.group(2, 4, hidden=True), "has hidden rows, starting with row 2; unhide"),
        (lambda sheet: setattr(sheet.sheet_format, "zeroHeight", True), "has hidden rows; unhide"),
        (lambda sheet: setattr(sheet.row_dimensions[1], "hidden", True), ""),
        (lambda sheet: setattr(sheet.row_dimensions[3], "height", 20), ""),
    ],
)
def test_hidden_rows_are_refused(made: Made, hide: Callable[[Any], None], told: str) -> None:
    """The hidden rows may be rows that are removed by a filter."""
    path = made({"People": [["SEX"], [1], [2], [1]]}, lambda book: hide(book["People"]))
    if not told:
        assert cells(path, "SEX") == [[1], [2], [1]]
        return
    with pytest.raises(InputError, match=f"sheet 'People' of file 'people.xlsx' {told}"):
        cells(path, "SEX")


def test_a_row_without_a_height_is_hidden(made: Made) -> None:
    path = made({"People": [["SEX"], [1], [2]]})
    rewritten(path, rb'<row r="3"', b'<row ht="0" customHeight="1" r="3"')
    with pytest.raises(InputError, match="has hidden rows, starting with row 3"):
        cells(path, "SEX")


def test_without_openpyxl_the_extra_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made({"People": [["SEX"], [1]]})
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"openpyxl; run pip install \"equistrata\[excel\]\", or save it as CSV"):
        FileSource(str(path)).header()
