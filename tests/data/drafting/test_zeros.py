"""Codes with zeros in front in the book, or in the file, and not in the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from in_process import command
from workbooks import saved

from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.structure import settled, structure_of
from equistrata.data.drafting.zeros import widths_in


def written(path: Path, cells: list[str], codes: list[str]) -> tuple[tuple[str, ...], bool]:
    """The codes that are drafted of a file with these cells, and whether they are said to be the file's."""
    path.write_text("\n".join(["STATE,AGE", *(f"{cell},1" for cell in cells)]) + "\n")
    book = {
        "STATE": Entry.of("STATE", "", [(raw, f"no. {raw}") for raw in codes]),
        "AGE": Entry.of("AGE", "", (), 0, 9),
    }
    entry = settled(book, structure_of(path, ["STATE", "AGE"], book, {}))["STATE"]
    return tuple(raw for raw, _ in entry.codes), entry.respelled


@pytest.mark.parametrize(
    ("cells", "codes", "drafted"),
    [
        (["1", "10", "2"], ["01", "02", "10"], ("1", "2", "10")),
        (["01", "02", "10"], ["1", "2", "10"], ("01", "02", "10")),
        (["001", "010"], ["01", "02", "10", "-9"], ("001", "002", "010", "-9")),
        (["0", "1"], ["00", "01", "x"], ("0", "1", "x")),
        (["10", "11"], ["01", "10", "11"], None),  # none shows it
        (["1", "02"], ["01", "02"], None),  # both
        (["01", "02"], ["01", "02"], None),
        (["7", "77"], ["01", "02"], None),  # no codes of the book
        (["1", "2"], ["1", "01", "2"], None),  # two codes would be one
        (["1", "a"], ["01", "a"], ("1", "a")),
    ],
)
def test_codes_are_as_the_file_writes_them(
    tmp_path: Path, cells: list[str], codes: list[str], drafted: tuple[str, ...] | None
) -> None:
    found = written(tmp_path / "people.csv", cells * 20, codes)
    assert found == ((*codes,), False) if drafted is None else found == (drafted, True)


def test_truth_values_stay_as_they_are() -> None:
    """Other spellings are recoded to them."""
    entry = replace(Entry.of("A", "", [("1", "true"), ("0", "false")]), recode=(("yes", "1"),))
    assert widths_in(["01", "00"], entry) == set()


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("zeros", [True, False])
def test_such_a_draft_fits_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: str, zeros: bool
) -> None:
    """Numbers of a Parquet file or a workbook have no zeros either."""
    monkeypatch.chdir(tmp_path)
    codes = ["1", "2", "10"] if zeros else ["01", "02", "10"]
    Path("book.csv").write_text("name,code,words\n" + "".join(f"STATE,{raw},state {raw}\n" for raw in codes))
    rows = ["01", "02", "10"] if zeros else [1, 2, 10]
    table = pd.DataFrame({"STATE": rows * 10, "AGE": range(30)})
    if ending == "csv":
        table.to_csv("people.csv", index=False)
    elif ending == "parquet":
        table.to_parquet("people.parquet")
    else:
        saved(Path("people.xlsx"), {"Data": [[*table.columns], *table.values.tolist()]})
    name = f"people.{ending}"
    code, _, told = command(
        monkeypatch, capsys, "schema", "draft", name, "--codebook", "book.csv", "--output", "people.yaml"
    )
    assert (code, "words for codes): STATE" in " ".join(told.split())) == (0, True), told
    assert "it writes these values otherwise than the book" in Path("people.yaml").read_text()
    code, out, told = command(monkeypatch, capsys, "schema", "check", "people.yaml", "--input", name)
    assert code == 0, out + told


SEX = [("1", "Male"), ("2", "Female")]


@pytest.mark.parametrize(
    ("cells", "codes", "drafted"),
    [
        (["male", "female"], SEX, ("male", "female")),
        (["Female"], SEX, ("Male", "Female")),  # all of them, whichever rows hold
        (["male"], [("Male", ""), ("Female", "")], ("male", "female")),
        (["NORTH"], [("North", ""), ("South", "")], ("NORTH", "SOUTH")),
        (["Small", "Large"], [("Small (<50)", ""), ("Large (50+)", "")], ("Small", "Large")),
        (["1", "female"], SEX, None),  # both
        (["0 - bad", "1", "2"], [("1", "0 - bad"), ("2", "1"), ("3", "2")], ("0 - bad", "1", "2")),
        (["1", "2"], [("1", "0 - bad"), ("2", "1"), ("3", "2")], None),
        (["m", "f", "Male"], SEX, None),  # most are none of the book's
        (["yes"], [("1", "Yes"), ("2", "Yes"), ("3", "No")], None),  # two would be one
        (["3"], SEX, None),
    ],
)
def test_values_are_spelled_in_the_way_of_the_file(
    tmp_path: Path, cells: list[str], codes: list[tuple[str, str]], drafted: tuple[str, ...] | None
) -> None:
    path, book = tmp_path / "people.csv", {"SEX": Entry.of("SEX", "", codes)}
    path.write_text("SEX\n" + "\n".join(cells * 20) + "\n")
    entry = settled(book, structure_of(path, ["SEX"], book, {}))["SEX"]
    expected = tuple(raw for raw, _ in codes) if drafted is None else drafted
    assert (tuple(raw for raw, _ in entry.codes), entry.respelled) == (expected, drafted is not None)


def test_truth_values_are_not_spelled_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("SEX\nTrue\n")
    book = {"SEX": replace(Entry.of("SEX", "", [("true", ""), ("false", "")]), recode=(("True", "true"),))}
    assert not settled(book, structure_of(path, ["SEX"], book, {}))["SEX"].respelled
