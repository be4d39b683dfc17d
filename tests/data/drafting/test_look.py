"""Tests of the suggestions that are made from the rows of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.column import BookColumn
from equistrata.data.drafting.doubt import Decision
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.look import look, look_at

ROWS = 600


def looked(cells: object, name: str = "X", **book: object) -> Decision:
    return look_at(BookColumn(name, **book), pd.Series(cells).astype(str).value_counts().to_dict())


def spec(found: Decision) -> dict[str, object]:
    assert found.spec is not None, found.why
    return found.spec


def test_numbers_have_bounds_that_are_no_row_s() -> None:
    rng = np.random.default_rng(0)
    found = spec(looked(rng.integers(1234, 8765, ROWS)))
    assert (found["lower"], found["upper"], found["integer"]) == (1200, 8800, True)
    found = spec(looked((rng.integers(101, 9876, ROWS) / 100).tolist()))
    assert found["decimals"] == 2
    found = spec(looked([*range(1963, 2015)] * 5))
    assert (found["lower"], found["upper"]) == (1960, 2020)
    assert spec(looked([f".{number}" for number in range(10, 90)] * 5))["type"] == "number"


@pytest.mark.parametrize("far", [-9, -99, 999, 9999])
def test_numbers_far_from_the_others_are_asked(far: int) -> None:
    found = looked([*range(20, 90)] * 8 + [far] * 20)
    assert f"{far} is far from the other numbers" in found.why
    codes, numbers = (each for _, each in found.readings)
    assert (codes["codes"], codes["upper"]) == ({far: str(far)}, 89)
    assert "codes" not in numbers


@pytest.mark.parametrize("form", ["{}{:02}", "{}-{:02}"])
def test_months_are_no_numbers(form: str) -> None:
    months = [form.format(year, month) for year in range(2000, 2025) for month in range(1, 13)]
    assert looked(months * 10).spec is None or looked(months * 10).spec["type"] != "number"
    found = spec(looked([form.format(2020, month) for month in range(1, 13)] * 10))
    assert (found["type"], len(found["values"])) == ("nominal", 12)


def test_last_names_are_no_categories() -> None:
    names = ["Smith", "Jones", "Ng", "Okafor", "Meier", "Silva"]
    assert looked(names * 100, "LAST_NAME").personal
    assert looked(names * 100, "X", label="Surname").personal
    for name in ("borrower_last", "Nachname", "prénom"):
        assert looked(names * 100, name).personal
    assert looked([f"{name}{ending}" for name in names for ending in ("", "son")] * 50, "KUNDE").spec is None
    many = looked([f"{name}{ending}" for name in names for ending in ("", "son", "ez", "ova", "ini", "sen", "e")] * 20)
    assert (many.spec, many.readings) == (None, ())


def test_values_stay_values() -> None:
    assert spec(looked(["NA?", "x", "."] * 50))["values"] == [".", "NA?", "x"]
    assert spec(looked([1, 2, 9] * 50))["values"] == [1, 2, 9]
    assert spec(looked(["01", "02"] * 50))["values"] == ["01", "02"]
    assert spec(looked([1] * 50))["values"] == [0, 1]
    assert spec(looked(["a", "b", ""] * 50))["values"] == ["a", "b", "missing"]


def test_marks_of_missing_cells_are_asked_beside_texts_and_absent_beside_numbers(tmp_path: Path) -> None:
    rows = pd.DataFrame({"INS": ["None", "Private", "Public"] * 50, "KIDS": ["1", "2", "NA"] * 50, "PAY": 0.0})
    rows["PAY"] = [*map(str, range(100, 249)), "NULL"]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    found, _ = look(tmp_path / "rows.csv", [*rows.columns], {}, {})
    assert found["INS"].why == "None can be a value, or stand for an empty cell"
    assert [each["values"] for _, each in found["INS"].readings] == [
        ["Private", "Public", "None"], ["Private", "Public", "missing"],
    ]  # fmt: skip
    assert spec(found["KIDS"])["values"] == [1, 2, 0]
    assert spec(look_at(BookColumn("PAY"), {str(pay): 9 for pay in range(99)} | {"NULL": 9}, marks=("NULL",)))[
        "missing"] == "own"  # fmt: skip


def test_ids_free_text_and_times_are_left_out() -> None:
    for cells in (range(1000, 1600), [f"note {i}" for i in range(ROWS)], ["08:30", "09:15"] * 9, [""] * 9):
        found = looked(cells)
        assert (found.spec, found.readings) == (None, ()), cells
    assert looked([1, 2] * 50, "PATIENT_ID").personal


def test_dates_in_one_layout_are_declared_and_in_several_asked() -> None:
    found = spec(looked([f"{day:02}.03.2020" for day in range(1, 30)] * 9))
    assert (found["format"], found["lower"], found["upper"]) == ("%d.%m.%Y", "2020-01-01", "2020-12-31")
    both = looked([f"{day:02}/{month:02}/2020" for day in range(1, 13) for month in range(1, 13)])
    assert [each["format"] for _, each in both.readings] == ["%d/%m/%Y", "%m/%d/%Y"]
    ends = spec(looked(["2019-01-01", "2022-01-01"] * 9))
    assert (ends["lower"], ends["upper"]) == ("2019-01-01", "2022-12-31")
    assert looked([f"{day:02}.03.1980" for day in range(1, 30)] * 9, "BORN").personal
    assert looked([f"{day:02}.03.1980" for day in range(1, 30)] * 9, "gebdat").personal


def test_what_the_book_says_comes_first_and_its_codes_are_no_numbers(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {
            "AREA": [100, 200, 70301] * 200,
            "AGE": [*range(20, 80)] * 9 + [-9] * 60,
            "NP": [1, 2] * 300,
            "R": [0.5, 1] * 300,
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    book = {
        "AREA": BookColumn("AREA", "Area", "text", (), "00100", "70301"),
        "AGE": BookColumn("AGE", "Age", "number", missing=(("-9", "refused"),)),
        "NP": BookColumn("NP", "", "integer", (("0", "Vacant"),), 1, 20),
        "R": BookColumn("R", "", "", (), 0.5, 1.5, remarks=("its bounds have commas",)),
    }
    found, file = look(tmp_path / "rows.csv", [*rows.columns], {}, book)
    made = draft([*rows.columns], book, "people", file, found)
    assert made.taken == {"AREA": ["rows"], "AGE": ["rows"]}
    assert found["AREA"].spec == {"label": "Area", "type": "nominal", "values": ["100", "200", "70301"]}
    assert spec(found["AGE"])["codes"] == {-9: "refused"}
    assert [*made.asked] == ["NP", "R"]


@pytest.mark.parametrize(("cells", "file"), [(["12,5", "7,25"], {"decimal": ","}), (["1,234", "2,500"], {})])
def test_decimal_commas_are_read_but_not_where_they_may_be_thousands(
    tmp_path: Path, cells: list[str], file: dict
) -> None:
    rng = np.random.default_rng(0)
    pays = [cells[0].replace(cells[0].partition(",")[0], str(i), 1) for i in rng.integers(10, 90, ROWS)]
    pd.DataFrame({"PAY": pays, "NAME_": "é"}).to_csv(tmp_path / "p.csv", sep=";", index=False, encoding="latin-1")
    found, made = look(tmp_path / "p.csv", ["PAY", "NAME_"], {"delimiter": ";"}, {})
    assert made == {"delimiter": ";", "encoding": "cp1252", **file}
    assert (found["PAY"].spec is None) == (file == {})
