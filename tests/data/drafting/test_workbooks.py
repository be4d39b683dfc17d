"""Excel workbooks as code books, and as tables to be drafted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from drafted_people import COLUMNS, check_drafted
from in_process import command
from workbooks import saved

from equistrata.data.drafting.books import read_codebook
from equistrata.errors import InputError

BY_COLUMN = [
    ["Code book of people, 2025"], [], ["Variable", "Label", "Type", "Min", "Max"],
    ["CASE", "Case number", "text"], ["SEX", "Sex", "code"], ["AGE", "Age", "integer", 0, 99],
    ["JOB", "Job", "code"], ["PAY", "Pay", "number", 0, 900],
]  # fmt: skip
BY_CODE = [
    ["Item", "Code", "Description"], ["SEX", 1, "Male"], [None, 2, "Female"], ["JOB", "01", "Farm, forest"],
    [None, "02", "Other"], [None, "Blank", "not asked"], ["PAY", -9, "refused"],
]  # fmt: skip
ALL_IN_ONE = [
    ["Variable", "Label", "Values"], ["CASE", "Case number"], ["SEX", "Sex", "1 = Male\n2 = Female"],
    ["AGE", "Age", "0-99"], ["JOB", "Job", "01 = Farm, forest\n02 = Other\nblank = not asked"],
    ["PAY", "Pay", "0-900; -9 = refused"],
]  # fmt: skip
MERGED = [
    ["Variable", None, "Categories", None], ["Name", "Label", "Code", "Meaning"], ["CASE", "Case number"],
    ["SEX", "Sex", 1, "Male"], [None, None, 2, "Female"], ["AGE", "Age", "0-99"], ["JOB", "Job", 1, "Farm, forest"],
    [None, None, 2, "Other"], [None, None, "Blank", "not asked"], ["PAY", "Pay", "0-900"], [None, None, -9, "refused"],
]  # fmt: skip


def merged(book: Any) -> None:
    sheet = book["Codes"]
    for area in ("A1:B1", "C1:D1", "A4:A5", "B4:B5", "A7:A9", "B7:B9", "A10:A11", "B10:B11"):
        sheet.merge_cells(area)
    sheet["C7"].number_format = sheet["C8"].number_format = "00"


BOOKS: dict[str, tuple[dict[str, list[list[Any]]], Callable[[Any], None]]] = {
    "columns and codes": ({"Variables": BY_COLUMN, "Codes": BY_CODE}, lambda book: None),
    "codes first": ({"Codes": BY_CODE, "About": [["Made in 2025"]], "Variables": BY_COLUMN}, lambda book: None),
    "all in one": ({"Dictionary": ALL_IN_ONE}, lambda book: None),
    "merged": ({"Codes": MERGED}, merged),
    "with another table's": (
        {"Homes": [["Variable", "Label", "Values"], ["SEX", "of the owner", "1=M"], ["ROOMS", "Rooms", "1-9"]],
         "People": ALL_IN_ONE},
        lambda book: None,
    ),
    "with the table itself": (
        {"Data": [COLUMNS, ["c1", 1, 20, "01", 5]], "Variables": BY_COLUMN, "Codes": BY_CODE}, lambda book: None
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOOKS)
def test_one_table_in_many_workbooks(tmp_path: Path, name: str) -> None:
    sheets, change = BOOKS[name]
    path = saved(tmp_path / "book.xlsx", sheets, change)
    check_drafted(path)


def test_the_table_is_no_book_of_itself(tmp_path: Path) -> None:
    """Its columns may be called as those of a dictionary are: its rows would be declared as public."""
    rows = [["name", "code", "label", "value"], ["SEX", "1", "astronaut", "2"], ["AGE", "2", "nurse", "3"]]
    path = saved(tmp_path / "people.xlsx", {"Data": rows})
    with pytest.raises(
        InputError, match="names no columns in a form that is known: a sheet needs a row for each column"
    ):
        read_codebook(path, ["name", "code", "label", "value"])


def test_a_workbook_is_drafted_checked_and_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Titles, two sheets that may be meant, true dates beside texts, decimal commas in texts beside numbers."""
    monkeypatch.chdir(tmp_path)
    head = ["CASE", "SEX", "BORN", "PAY"]
    rows = [[f"c{n}", 1 + n % 2, datetime(1950 + n % 50, 1, 1), 12.5] for n in range(40)]
    rows += [["c40", "2", "31.12.1999", "17,25"], ["c41", 1, None, "-9"]]
    book = [["Name", "Label", "Type", "Format", "Values"], ["SEX", "Sex", "", "", "1=Male; 2=Female"],
            ["BORN", "Birth", "date", "dd.mm.yyyy", "1900-01-01 to 2025-12-31"],
            ["PAY", "Pay", "number", "", "0-900; -9=refused"]]  # fmt: skip
    sheets = {"Old": [["CASE", "WORK"], ["c1", 5]], "People": [["All people of 2025"], [], head, *rows], "Book": book}
    saved(Path("people.xlsx"), sheets)
    given = ("schema", "draft", "people.xlsx", "--output", "people.yaml", "--force")
    code, _, told = command(monkeypatch, capsys, *given)
    assert code == 2
    assert "has several sheets that may be meant, 'Old', 'People', 'Book'" in " ".join(told.split())
    for more in ((), ("--sheet", "People")):
        code, _, told = command(monkeypatch, capsys, *given, "--codebook", "people.xlsx", *more)
        assert code == 0, told
        text = Path("people.yaml").read_text()
        assert 'file: {sheet: "People", decimal: ","}' in text
        assert 'format: "%d.%m.%Y", lower: "1900-01-01", upper: "2025-12-31", missing: own' in text
        code, out, told = command(monkeypatch, capsys, "schema", "check", "people.yaml", "--input", "people.xlsx")
        assert code == 0, out + told
    code, out, told = command(monkeypatch, capsys, *given, "--look", "--sheet", "People")
    assert code == 0, told
    assert "3 of 4 columns declared" in out


def test_a_table_that_is_no_workbook_has_no_sheets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("SEX,AGE\n1,2\n")
    code, _, told = command(monkeypatch, capsys, "schema", "draft", "people.csv", "--sheet", "a", "--output", "a.yaml")
    assert (code, "no Excel workbook, so it has no sheets" in " ".join(told.split())) == (2, True)
