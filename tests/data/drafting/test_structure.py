"""What a draft reads of a file's rows: how they are written, and of each column of numbers whether it has decimals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.structure import Structure, header_of, settled, structure_of
from equistrata.data.files import documents
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

AGE = Entry.of("AGE", "Age", [("-9", "refused"), ("99.9", "unknown")], 0, 90)


def of_cells(folder: Path, cells: list[str], entry: Entry = AGE, **file: str) -> Structure:
    path = folder / "people.csv"
    path.write_bytes(("AGE\n" + "".join(f'"{cell}"\n' for cell in cells)).encode(file.pop("encoding", "utf-8")))
    return structure_of(path, ["AGE"], {"AGE": entry}, file)


def test_three_header_lines_of_qualtrics(tmp_path: Path) -> None:
    """They would be rows that fit no column. A question may have several lines."""
    path = tmp_path / "survey.csv"
    marks = '"{""ImportId"":""QID1""}","{""ImportId"":""QID2""}"'
    path.write_text(f'Q1,Q2\n"What is\nyour sex?",Age\n{marks}\n1,30\n')
    with pytest.raises(InputError, match="has three header lines, as Qualtrics exports them; delete the second and"):
        header_of(path, {"Q1", "Q2"})
    path.write_text("Q1,Q2\n1,30\n2,40\n")
    assert header_of(path, {"Q1", "Q2"})[0] == ["Q1", "Q2"]


@pytest.mark.parametrize(
    ("cells", "decimals"),
    [
        (["41", "7", "-9"], False),
        (["41.0", "7.0", "", "-9.0"], False),  # as pandas writes whole numbers beside absent cells
        (["41.", "7.000", "NA", "n.a.", "1e1"], False),
        (["41", "99.9", "99.90"], False),  # a code, which is no number
        ([*["41"] * 500, "7.5"], True),
        (["41", ".5"], True),
        (["41.0", "1e-1"], True),
    ],
)
def test_whether_cells_have_decimals(tmp_path: Path, cells: list[str], decimals: bool) -> None:
    found = of_cells(tmp_path, cells)
    assert (found.file, found.decimals, found.unread) == ({}, {"AGE": decimals}, "")


@pytest.mark.parametrize(
    ("cells", "file", "decimals"),
    [
        (["41,5", "7,25", "3"], {"decimal": ","}, True),
        (["41,0", "7,00", "3"], {"decimal": ","}, False),
        (["1.234,5", "2.000,0"], {"decimal": ",", "thousands": "."}, True),
        (["11,234", "0,500"], {"decimal": ","}, True),
        (["11,234", "22,500"], {"decimal": ","}, True),  # as thousands they are out of bounds
        (["12,5 %", "3,0 %", "refused"], {}, False),  # nearly all must be numbers
        (["12,5 %", "3,0 %"], {"decimal": ",", "signs": ["%"]}, True),
        (["41,5", "41.5"], {}, True),  # written in two ways: a check says so
        (["x", "y"], {}, False),
        (["1,234", "0,500"], {"decimal": ","}, True),
    ],
)
def test_how_numbers_are_written(tmp_path: Path, cells: list[str], file: dict[str, object], decimals: bool) -> None:
    assert of_cells(tmp_path, cells) == Structure(file, {"AGE": decimals})


def test_points_that_may_be_between_thousands(tmp_path: Path) -> None:
    pay = Entry.of("AGE", "", (), 0, 90_000)
    assert of_cells(tmp_path, ["1,234", "2,000", "12,345", "999"], pay) == Structure({"thousands": ","}, {"AGE": False})
    assert of_cells(tmp_path, ["1.234", "2.500", "7"], pay) == Structure()  # a release refuses them, and says how
    assert of_cells(tmp_path, ["1.234", "2.5"], pay) == Structure({}, {"AGE": True})
    assert of_cells(tmp_path, ["1.234", "0.500"], pay) == Structure({}, {"AGE": True})


def test_numbers_are_read_as_the_book_has_them_written(tmp_path: Path) -> None:
    assert of_cells(tmp_path, ["1.234", "2.500"], decimal=",", thousands=".") == Structure({}, {"AGE": False})
    assert of_cells(tmp_path, ["1.234", "2.500"]) == Structure({}, {"AGE": True})


def test_an_encoding_that_the_header_line_does_not_show(tmp_path: Path) -> None:
    assert of_cells(tmp_path, ["41", "né"], encoding="latin-1") == Structure({"encoding": "latin-1"}, {"AGE": False})
    assert of_cells(tmp_path, ["41", "5 €"], encoding="cp1252").file == {"encoding": "cp1252", "signs": ["€"]}
    words = Entry.of("AGE", "", [("é", ""), ("e", "")])
    assert of_cells(tmp_path, ["é"], words, encoding="latin-1") == Structure({"encoding": "latin-1"})


def test_a_table_without_rows_is_drafted_from_its_book_alone(tmp_path: Path) -> None:
    found = of_cells(tmp_path, [])
    assert (found.file, found.decimals) == ({}, {})
    assert "holds no rows" in found.unread
    broken = tmp_path / "people.csv.gz"
    broken.write_bytes(b"\x1f\x8b\x08\x00")
    assert "cannot be read" in structure_of(broken, ["AGE"], {"AGE": AGE}, {}).unread


def test_rows_that_are_not_as_long_as_the_header_are_left_to_the_check(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("AGE,B\n1,2\n3\n4.5,6,7\n")
    assert structure_of(path, ["AGE", "B"], {"AGE": AGE}, {}) == Structure({}, {"AGE": False})


def test_other_kinds_of_files(tmp_path: Path) -> None:
    rows = pd.DataFrame({"A": [1.0, np.nan, 3], "B": [1.5, 2, 3], "C": [1, 2, 3], "D": ["1.0", "2", "3.5"]})
    entries = {name: Entry.of(name, "", (), 0, 9) for name in rows}
    expected = {"A": False, "B": True, "C": False, "D": True}
    rows.to_parquet(tmp_path / "people.parquet")
    assert structure_of(tmp_path / "people.parquet", [*rows], entries, {}).decimals == expected
    rows.assign(D=[1.0, 2.0, 3.5]).to_stata(tmp_path / "people.dta", write_index=False)
    assert structure_of(tmp_path / "people.dta", [*rows], entries, {}).decimals == expected


def test_names_of_the_book_may_differ_in_case() -> None:
    (entry,) = settled({"age ": AGE}, Structure({}, {"AGE": True}, frozenset({"AGE"}))).values()
    assert (entry.fractions, entry.absent) == (True, True)


def test_what_the_file_settles_and_what_it_does_not(tmp_path: Path) -> None:
    entries = {
        "AGE": Entry.of("AGE", "", (), 0, 99),
        "PAY": Entry.of("PAY", "", (), 0, 99),
        "BMI": Entry.of("BMI", "", (), 0, 99, allows_decimals=True),
        "FTE": Entry.of("FTE", "", (), 0, 99, allows_decimals=True, decimals=2),
        "SURE": Entry.of("SURE", "", (), 0, 99, whole=True),
        "ODD": Entry.of("ODD", "", (), 0, 99, whole=True),
        "HALF": Entry.of("HALF", "", (), 0, 99.5),
    }
    bits = dict.fromkeys(entries, False) | {"PAY": True, "FTE": True, "ODD": True}
    made = draft([*entries], settled(entries, Structure({}, bits)), "people")
    schema = Schema.from_dict(documents.parse(made.text, "draft"), "draft")
    whole = {name: schema[name].integer for name in schema.names}
    assert whole == {"AGE": True, "PAY": False, "BMI": True, "FTE": False, "SURE": True, "ODD": True, "HALF": False}
    assert schema["FTE"].decimals == 2
    assert (made.by_file, made.contrary) == ({"AGE": False, "PAY": True, "BMI": False}, ["ODD"])
    lines = [line for line in made.text.splitlines() if line[:1] == "#"]
    assert [line.rpartition(": ")[2] for line in lines if line.startswith("# CHECK")] == ["ODD"]
    assert [line.rpartition(": ")[2] for line in lines if "Read of the file" in line] == ["PAY", "AGE, BMI"]


def test_whole_numbers_with_a_point_are_drafted_and_coded_as_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pd.DataFrame({"AGE": [41, np.nan, 7, 41] * 9, "SEX": [1, 2, np.nan, 2] * 9}).to_csv(path, index=False)
    entries = {
        "AGE": Entry.of("AGE", "", (), 0, 99, missing=True),
        "SEX": Entry.of("SEX", "", [("1", "m"), ("2", "f")], missing=True),
    }
    found = structure_of(path, ["AGE", "SEX"], entries, {})
    made = draft(["AGE", "SEX"], settled(entries, found), "people")
    schema = Schema.from_dict(documents.parse(made.text, "draft"), "draft")
    assert schema["AGE"].integer
    coded = CodedTable.encode(FileSource.of(str(path), schema).read(schema.names), schema)
    assert len(coded) == 36


def test_absent_cells_of_which_the_book_does_not_speak_are_declared(tmp_path: Path) -> None:
    """A release had refused them, and each column took an edit by hand."""
    path = tmp_path / "people.csv"
    path.write_text("AGE,SEX,JOB,LAND,NOTE\n" + "41,1,a,NA,\n,2,NA,de,\n7,,b,fr,x\n" * 9)
    entries = {
        "AGE": Entry.of("AGE", "", (), 0, 99),
        "SEX": Entry.of("SEX", "", [("1", "m"), ("2", "f")]),
        "JOB": Entry.of("JOB", "", [("a", ""), ("b", "")], missing=True),  # the book speaks of it
        "LAND": Entry.of("LAND", "", [("NA", "Namibia"), ("de", ""), ("fr", "")]),  # a value, not for a draft to judge
        "NOTE": Entry("NOTE", "free text"),
    }
    found = structure_of(path, [*entries], entries, {})
    assert found.absent == {"AGE", "SEX", "JOB"}
    made = draft([*entries], settled(entries, found), "people")
    assert made.absent == ["AGE", "SEX"]
    assert any(line.startswith("# Read of the file") and line.endswith(": AGE, SEX") for line in made.text.splitlines())
    schema = Schema.from_dict(documents.parse(made.text, "draft"), "draft").select(["AGE", "SEX", "JOB"])
    coded = CodedTable.encode(FileSource.of(str(path), schema).read(schema.names), schema)
    assert [int((codes == size - 1).sum()) for codes, size in zip(coded.codes.T, schema.sizes, strict=True)] == [9] * 3


@pytest.mark.parametrize(
    ("entry", "cells", "file"),
    [
        (AGE, ["41", ".", "7"], {"absent": ["."]}),
        (AGE, ["41,5", ".", "7,25"], {"decimal": ",", "absent": ["."]}),
        (Entry.of("AGE", "", [("a", "one"), ("b", "two")]), ["a", ".", "b"], {"absent": ["."]}),
        (Entry.of("AGE", "", [("a", "one"), ("", "none")]), ["a", "."], {"absent": ["."]}),  # ". = none", in the book
        (Entry.of("AGE", "", [("a", "one"), ("b", "two"), (".", "a value")]), ["a", "."], {}),
    ],
)
def test_a_point_alone_is_an_absent_cell(
    tmp_path: Path, entry: Entry, cells: list[str], file: dict[str, object]
) -> None:
    """As SAS and Stata write it: such a table was refused, also where the book has it."""
    found = of_cells(tmp_path, cells, entry)
    assert (found.file, found.absent) == (file, frozenset({"AGE"} if file else ()))
    made = draft(["AGE"], settled({"AGE": entry}, found), "people", found.file)
    (tmp_path / "people.yaml").write_text(made.text)
    schema = Schema.load(tmp_path / "people.yaml")
    source = FileSource.of(str(tmp_path / "people.csv"), schema)
    for frame in (source.read(["AGE"]), *source.batches(["AGE"])):
        assert len(CodedTable.encode(frame, schema)) == len(cells)
        assert frame["AGE"].isna().sum() == len(file and [each for each in cells if each == "."])


def test_blanks_alone_are_absent_cells_of_numbers(tmp_path: Path) -> None:
    """And say nothing of how numbers are written."""
    found = of_cells(tmp_path, ["41", " ", "7"])
    assert (found.file, found.decimals, found.absent) == ({}, {"AGE": False}, frozenset({"AGE"}))
