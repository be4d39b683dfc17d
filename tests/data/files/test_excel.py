"""Excel workbooks as tables: sheets, titles above the names of columns, merged cells, and what cells are."""

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
from equistrata.data.files import excel
from equistrata.data.files.dialect import Dialect
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table_check import check_table
from equistrata.errors import InputError

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A workbook of sheets by their names; `change` may merge cells and the like."""

    def make(sheets: dict[str, list[list[Any]]], change: Callable[[Any], None] = lambda book: None) -> Path:
        return saved(tmp_path / "people.xlsx", sheets, change)

    return make


def cells(path: Path, *names: str, declared: tuple[Column, ...] = (), **how: Any) -> list[list[Any]]:
    source = FileSource(str(path), declared=declared, **how)
    frame = source.read(names or source.header())
    return [[None if pd.isna(cell) else cell for cell in row] for row in frame.to_numpy().tolist()]


def rewritten(path: Path, pattern: bytes, by: bytes) -> None:
    """Replace what is there once in a workbook's first sheet."""
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name], times = re.subn(pattern, lambda _: by, parts[name], flags=re.DOTALL)
    assert times == 1
    with zipfile.ZipFile(path, "w") as packed:
        for each, content in parts.items():
            packed.writestr(each, content)


def test_cells_are_what_a_sheet_holds(made: Made) -> None:
    """Dates, times, numbers and truth values as such, codes that are shown with zeros as shown; NA is absent."""

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


def test_titles_and_groups_stand_above_the_names(made: Made) -> None:
    def merge(book: Any) -> None:
        book["People"].merge_cells("A3:B3")
        book["People"].merge_cells("C3:D3")
        book["People"].merge_cells("A1:D1")

    rows = [
        ["All people"],
        [],
        ["Person", None, "Work"],
        ["SEX", "AGE", "JOB", "PAY"],
        [1, 20, "a", 5],
        [],
        [2, 3, "b", 1],
    ]
    path = made({"People": rows}, merge)
    assert FileSource(str(path)).header() == ["SEX", "AGE", "JOB", "PAY"]
    assert cells(path, "AGE", "SEX") == [[20, 1], [3, 2]]


@pytest.mark.parametrize("wanted", [[], ["AGE"], ["SEX", "AGE", "JOB"]])
def test_a_name_in_a_group_of_columns_is_not_taken_for_theirs(made: Made, wanted: list[str]) -> None:
    rows = [["AGE", None, "JOB"], ["AGE", "SEX", "JOB", "PAY"], [1, 2, "a", 3]]
    path = made({"People": rows}, lambda book: book["People"].merge_cells("A1:B1"))
    assert FileSource(str(path)).header(wanted) == ["AGE", "SEX", "JOB", "PAY"]


def test_a_heading_that_is_merged_with_the_row_below_it_is_one(made: Made) -> None:
    rows = [["SEX", "AGE"], [None, None], [1, 20], [2, 30]]
    path = made({"People": rows}, lambda book: book["People"].merge_cells("A1:A2"))
    assert FileSource(str(path)).header() == ["SEX", "AGE"]


def test_of_two_rows_of_the_same_names_the_first_is_meant(made: Made) -> None:
    path = made({"People": [["SEX", "AGE"], ["sex", "age"], [1, 20]]})
    assert FileSource(str(path)).header(["sex", "age"]) == ["SEX", "AGE"]


def test_merged_cells_hold_what_the_first_of_them_does(made: Made) -> None:
    rows = [["HOME", "SEX", "AGE"], ["h1", 1, 30], [None, 2, 31], ["h2", "not asked", None]]

    def merge(book: Any) -> None:
        book["People"].merge_cells("A2:A3")
        book["People"].merge_cells("B4:C4")

    assert cells(made({"People": rows}, merge)) == [["h1", 1, 30], ["h1", 2, 31], ["h2", "not asked", "not asked"]]


def test_the_sheet_is_the_one_that_has_the_columns(made: Made) -> None:
    sheets = {"About": [["Made in 2025"]], "Old": [["SEX", "WORK"], [1, 2]], "People": [["SEX", "AGE"], [2, 30]]}
    path = made(sheets)
    assert cells(path, "SEX", "AGE") == [[2, 30]]
    with pytest.raises(InputError, match=r"several sheets that may be meant, 'Old', 'People'; name one, as file"):
        cells(path, "SEX")
    assert cells(path, "SEX", dialect=Dialect(sheet="Old")) == [[1]]
    with pytest.raises(InputError, match="has no sheet 'New'; it has 'About', 'Old', 'People'"):
        cells(path, "SEX", dialect=Dialect(sheet="New"))
    with pytest.raises(InputError, match="has no column 'JOB' in its header line"):
        cells(path, "JOB", dialect=Dialect(sheet="Old"))


def test_names_that_are_looked_for_may_differ_in_case_and_blanks(made: Made) -> None:
    path = made({"Old": [["NO", "WORK"], [1, 2]], "People": [[" Sex ", "Age"], [2, 30]]})
    assert excel.located(path, "file 'people.xlsx'", ["SEX", "AGE"]).sheet == "People"


def test_sheets_as_texts(made: Made) -> None:
    """Hidden ones are left out. A merged cell stands for those below it, and not for those beside it."""

    def change(book: Any) -> None:
        book["Old"].sheet_state = "hidden"
        book["Book"].merge_cells("A1:B1")
        book["Book"].merge_cells("A2:A3")

    path = made({"Old": [["SEX", 9]], "Book": [["All", None, "x"], ["SEX", 1], [None, 2], []]}, change)
    assert excel.sheets(path, "book", 3) == {"Book": [["All", "", "x"], ["SEX", "1"], ["SEX", "2"]]}
    with pytest.raises(InputError, match="sheet 'Book' of book has more than 2 rows: too many for a book"):
        excel.sheets(path, "book", 2)


def test_hidden_sheets_and_columns_without_a_name_are_left_out(made: Made) -> None:
    def hide(book: Any) -> None:
        book["Lists"].sheet_state = "hidden"

    path = made({"Lists": [["SEX"], ["f"]], "People": [["SEX", None, "AGE"], [1, "a remark", 20]]}, hide)
    assert cells(path) == [[1, 20]]


def test_a_row_of_names_may_be_declared(made: Made) -> None:
    path = made({"People": [["a", "b", "c"], ["SEX", "AGE", "JOB"], [1, 20, "x"]]})
    assert cells(path, "SEX", dialect=Dialect(header=2)) == [[1]]
    schema = Schema.from_dict({"file": {"header": 2, "sheet": "People"}, "columns": {"AGE": {"lower": 0, "upper": 99}}})
    assert schema.file == Dialect(header=2, sheet="People")
    path = made({"People": [*([["remark", "of", "many", "words"]] * 30), ["SEX"], [1]]})
    assert cells(path, "SEX", dialect=Dialect(header=31)) == [[1]]
    with pytest.raises(InputError, match="'header' of 'file' to be the number of a sheet's row"):
        Schema.from_dict({"file": {"header": "2"}, "columns": {"AGE": {"lower": 0, "upper": 99}}})


def test_texts_among_numbers_are_read_as_the_schema_says(made: Made) -> None:
    schema = Schema.from_dict({"file": {"decimal": ","}, "columns": {"PAY": {"lower": 0, "upper": 99}}})
    path = made({"People": [["PAY"], ["12,5"], [7.25], [None], ["3"]]})
    frame = FileSource.of(str(path), schema).read(["PAY"])
    assert pd.to_numeric(frame["PAY"]).dropna().tolist() == [12.5, 7.25, 3.0]


def test_a_formula_without_a_value_is_no_absent_cell(made: Made) -> None:
    """As programs write workbooks: every cell of the column would be absent, and nobody told."""
    path = made({"People": [["SEX", "AGE"], [1, "=20+3"]]})
    with pytest.raises(InputError, match=r"sheet 'People' of file 'people\.xlsx' has formulas without values"):
        cells(path)


@pytest.mark.parametrize("inside", ['t="str"><f>IF(1,"","")</f><v></v>', "><f>20+3</f><v>23</v>"])
def test_a_formula_with_a_value_is_one(made: Made, inside: str) -> None:
    path = made({"People": [["SEX", "AGE"], [1, "=20+3"]]})
    rewritten(path, rb'<c r="B2">.*?(?=</c>)', f'<c r="B2" {inside}'.encode())
    assert cells(path) == [[1, 23 if "23" in inside else None]]


def test_a_formula_across_two_blocks_of_a_file_is_seen(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_BLOCK", 64)
    path = made({"People": [["SEX", "AGE"], [1, "=20+3"]]})
    with pytest.raises(InputError, match="has formulas without values"):
        cells(path)


def test_a_wrong_size_of_a_sheet_loses_no_cell(made: Made) -> None:
    """As some programs write it."""
    path = made({"People": [["SEX", "AGE"], [1, 20], [2, 30]]})
    rewritten(path, rb'<dimension ref="[^"]*"', b'<dimension ref="A1:A2"')
    assert cells(path) == [[1, 20], [2, 30]]


def test_rows_come_in_batches(made: Made) -> None:
    path = made({"People": [["N"], *([number] for number in range(25))]})
    frames = [*excel.batches(path, ["N"], Dialect(sheet="People", header=1), rows=10)]
    assert [len(frame) for frame in frames] == [10, 10, 5]
    assert [cell for frame in frames for cell in frame["N"]] == [*range(25)]


def test_a_wide_merged_area_takes_no_time(made: Made) -> None:
    path = made({"People": [["SEX"], [1], [2]]}, lambda book: book["People"].merged_cells.add("A3:XFD1048576"))
    assert cells(path) == [[1], [2]]
    path = made({"People": [["SEX"], [1]]}, lambda book: book["People"].merged_cells.add("A1:XFD1"))
    assert len(excel.located(path, "file 'people.xlsx'", ["SEX"]).names) <= 1_001


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 and nothing more", "not an Excel workbook that can be read"),
        (b"SEX,AGE\n1,2\n", "not an Excel workbook that can be read"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "not an Excel workbook that can be read"),
        (b"", "not an Excel workbook that can be read"),
    ],
)
def test_what_is_no_workbook(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "people.xlsx").write_bytes(content)
    with pytest.raises(InputError, match=said):
        FileSource(str(tmp_path / "people.xlsx")).header()


def test_an_empty_workbook(made: Made) -> None:
    with pytest.raises(InputError, match="is empty; it needs a sheet"):
        FileSource(str(made({"People": []}))).header()
    path = made({"People": [["SEX", "AGE"]]})
    with pytest.raises(InputError, match="holds no rows"):
        FileSource(str(path)).read(["SEX"])
    assert read_frame(path).columns.tolist() == ["SEX", "AGE"]


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (lambda sheet: setattr(sheet.row_dimensions[3], "hidden", True), "has 1 hidden row, first row 3; unhide"),
        (lambda sheet: sheet.row_dimensions.group(2, 4, hidden=True), "has 3 hidden rows, first row 2; unhide"),
        (lambda sheet: setattr(sheet.sheet_format, "zeroHeight", True), "has rows that are hidden by default; unhide"),
        (lambda sheet: setattr(sheet.row_dimensions[1], "hidden", True), ""),
        (lambda sheet: setattr(sheet.row_dimensions[3], "height", 20), ""),
    ],
)
def test_hidden_rows_are_refused(made: Made, hide: Callable[[Any], None], told: str) -> None:
    """Nothing says whether they are meant: they may be those that a filter leaves out."""
    path = made({"People": [["SEX"], [1], [2], [1]]}, lambda book: hide(book["People"]))
    if not told:
        assert cells(path, "SEX") == [[1], [2], [1]]
        return
    with pytest.raises(InputError, match=f"sheet 'People' of file 'people.xlsx' {told}"):
        cells(path, "SEX")


def test_a_row_without_a_height_is_hidden(made: Made) -> None:
    path = made({"People": [["SEX"], [1], [2]]})
    rewritten(path, rb'<row r="3"', b'<row ht="0" customHeight="1" r="3"')
    with pytest.raises(InputError, match="has 1 hidden row, first row 3"):
        cells(path, "SEX")


def test_without_openpyxl_the_extra_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made({"People": [["SEX"], [1]]})
    monkeypatch.setattr(excel, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"openpyxl reads: pip install \"equistrata\[excel\]\"; or save its sheet as CSV"
    ):
        FileSource(str(path)).header()


def test_a_workbook_that_would_fill_the_memory_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had taken minutes: a part that unpacks to many times its size, and entities that stand for others."""
    path = made({"Data": [["SEX", "NOTE"], ["1", "x" * 30_000]]})
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content.replace(b"x" * 30_000, b"x" * 3_000_000))
    assert FileSource(str(path)).header() == ["SEX", "NOTE"]
    monkeypatch.setattr(excel, "_MOST_UNPACKED", 1 << 20)
    with pytest.raises(InputError, match=r"unpacks to 2 MiB, over 200 times its size.*save it again"):
        FileSource(str(path)).header()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_workbook_with_entities_is_refused(made: Made, encoding: str) -> None:
    path = made({"Data": [["SEX"], ["1"]]})
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = (
        parts["xl/worksheets/sheet1.xml"].decode().replace("<worksheet", '<!DOCTYPE a [<!ENTITY b "1">]><worksheet', 1)
    )
    parts["xl/worksheets/sheet1.xml"] = sheet.replace("utf-8", encoding).encode(encoding)
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    with pytest.raises(InputError, match="has a document type in its XML"):
        FileSource(str(path)).header()
