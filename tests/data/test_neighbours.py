"""Tests that the code of a cell depends only on the cell and the schema, for all formats and for small batches.

The privacy cost would be wrong if an added row could change the codes of the other rows.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.data.columns.raw import exact_number, plain_text
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, FolktablesSource
from equistrata.data.table import CodedTable
from equistrata.data.vocabulary import Vocabulary
from equistrata.errors import InputError

LONG = [1234567890123456, 1234567890123457, 9007199254740992, 9007199254740993, 1000000000000000001,
        1000000000000000002, 9223372036854775806, 9223372036854775807, 0, 7]  # fmt: skip
SHORT = [each for each in LONG if each < 2**53]  # these numbers are exact as a float, which Stata and SPSS use
BERLIN = ZoneInfo("Europe/Berlin")
NOONS = [datetime(2024, 3, 31, 0, 30), datetime(2024, 3, 30, 23, 59, 59), datetime(1969, 12, 31, 23), date(1970, 1, 1)]
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "ID": {"values": LONG, "missing": 7},
            "BIG": {"lower": 0, "upper": 1e19, "missing": "own"},
            "FLAG": {"values": ["True", "False", "none"], "missing": "none"},
            "PAY": {"lower": 0, "upper": 1000, "missing": "own", "codes": {-9: "refused"}},
            "KIND": {"values": ["a", "NA", "01", "1", "1.0", "none"], "missing": "none"},
            "DAY": {
                "type": "date", "lower": "1960-01-01", "upper": "2030-12-31", "missing": "own",
                "format": ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d"],
            },
            "RATE": {"values": [0.1, 0.3, 1e-05, 2.5, 3], "missing": 3},
        }
    }
)  # fmt: skip


def cells(*values: Any) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(values)


ROW: dict[str, st.SearchStrategy[Any]] = {
    "ID": cells(*LONG),
    "BIG": cells(*LONG),
    "FLAG": cells(True, False),
    "PAY": cells(Decimal("12.50"), Decimal("-9.00"), Decimal("0.10"), Decimal("999.99")),
    "KIND": cells("a", "NA", "01", "1", "1.0"),
    "DAY": cells(*NOONS),
    "RATE": cells(0.1, 0.3, 1e-05, 2.5),
}
TABLES = st.lists(st.fixed_dictionaries(ROW), min_size=2, max_size=7)


def times(day: Any, zone: Any) -> Any:
    return day if day is None else datetime(*day.timetuple()[:6], tzinfo=zone)


def as_csv(rows: list[dict[str, Any]], path: Path) -> None:
    texts = {
        name: ["" if row[name] is None else str(times(row[name], None) if name == "DAY" else row[name]) for row in rows]
        for name in ROW
    }
    pd.DataFrame(texts).to_csv(path, index=False)


def as_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    types = {
        "ID": pa.int64(), "BIG": pa.uint64(), "FLAG": pa.bool_(), "PAY": pa.decimal128(8, 2),
        "KIND": pa.dictionary(pa.int8(), pa.string()), "DAY": pa.timestamp("us", "Europe/Berlin"), "RATE": pa.float32(),
    }  # fmt: skip
    columns = {
        name: pa.array([times(row[name], BERLIN) if name == "DAY" else row[name] for row in rows], kind)
        for name, kind in types.items()
    }
    pq.write_table(pa.table(columns), path)


def as_stata(rows: list[dict[str, Any]], path: Path) -> None:
    named = packaged(rows)
    named["DAY"] = pd.Series([times(row["DAY"], None) for row in rows], dtype="datetime64[ns]")
    frame = pd.DataFrame(named)
    frame["KIND"] = frame["KIND"].fillna("").astype(object)
    frame["FLAG"] = frame["FLAG"].fillna("").astype(object)
    frame.to_stata(path, write_index=False, version=118, convert_dates={"DAY": "tc"})


def as_spss(rows: list[dict[str, Any]], path: Path) -> None:
    import pyreadstat

    named = packaged(rows)
    named["DAY"] = pd.Series([times(row["DAY"], None) for row in rows], dtype="datetime64[us]")
    pyreadstat.write_sav(pd.DataFrame(named), str(path))


def packaged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return columns in the form of statistical packages, in which all numbers are floats."""
    number = {"ID": SHORT, "BIG": SHORT, "PAY": None, "RATE": None}
    found: dict[str, Any] = {}
    for name in ROW:
        values = [row[name] for row in rows]
        if name in number:
            kept = [None if each is None or (number[name] and each not in number[name]) else each for each in values]
            found[name] = pd.Series([np.nan if each is None else float(each) for each in kept], dtype="float64")
        elif name != "DAY":
            found[name] = pd.Series([None if each is None else str(each) for each in values], dtype=object)
    return found


def as_excel(rows: list[dict[str, Any]], path: Path) -> None:
    from workbooks import saved

    def cell(name: str, value: Any) -> Any:
        """A number with more digits than Excel can store is written as text."""
        return times(value, None) if name == "DAY" else str(value) if name == "ID" and value is not None else value

    table = [[cell(name, row[name]) for name in ROW] for row in rows]
    saved(path, {"People": [[*ROW], *table]})


FILES = {
    "csv": ("people.csv", as_csv), "parquet": ("people.parquet", as_parquet), "stata": ("people.dta", as_stata),
    "spss": ("people.sav", as_spss), "excel": ("people.xlsx", as_excel),
}  # fmt: skip
NEEDED = {"spss": "pyreadstat", "excel": "openpyxl"}


def codes_of(rows: list[dict[str, Any]], kind: str) -> list[list[int]] | None:
    """Return the codes of the rows in a format, or None if an error is raised."""
    try:
        if kind == "frame":
            whole = {name: pd.Series([row[name] for row in rows], dtype=object) for name in ROW}
            return CodedTable.encode(pd.DataFrame(whole), SCHEMA).codes.tolist()
        if kind == "inferred frame":  # pandas has already converted integers to floats if there are missing cells
            return CodedTable.encode(pd.DataFrame(rows), SCHEMA).codes.tolist()
        name, write = FILES[kind]
        with TemporaryDirectory() as folder:
            write(rows, Path(folder) / name)
            source = FileSource.of(str(Path(folder) / name), SCHEMA)
            frames = FileSource(source.path, None, 3, source.dialect, source.numbers, False, source.declared)
            found = [CodedTable.encode(frame, SCHEMA).codes for frame in frames.batches(SCHEMA.cells)]
            return np.concatenate(found).tolist()
    except InputError:
        return None


def check(kind: str, rows: list[dict[str, Any]], place: int) -> None:
    place %= len(rows)
    if kind == "excel":  # Excel ignores rows with empty cells
        rows = [row if any(each is not None for each in row.values()) else row | {"KIND": "a"} for row in rows]
    whole, without = codes_of(rows, kind), codes_of(rows[:place] + rows[place + 1 :], kind)
    if kind != "inferred frame":
        assert whole is not None
        assert without is not None
    if whole is not None and without is not None:
        assert whole[:place] + whole[place + 1 :] == without


KINDS = [
    pytest.param(kind, marks=pytest.mark.skipif(find_spec(NEEDED.get(kind, "sys")) is None, reason="an extra"))
    for kind in (*FILES, "frame", "inferred frame")
]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(rows=TABLES, place=st.integers(0, 6))
def test_a_row_more_changes_no_other_code(kind: str, rows: list[dict[str, Any]], place: int) -> None:
    check(kind, rows, place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=400, deadline=None)
@given(rows=TABLES, place=st.integers(0, 6))
def test_a_row_more_changes_no_other_code_in_many_tables(kind: str, rows: list[dict[str, Any]], place: int) -> None:
    check(kind, rows, place)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_coded_as_declared(kind: str) -> None:
    """The codes must be equal to the expected codes, and not only independent of the other rows."""
    rows = [{"ID": 7, "BIG": 7, "FLAG": True, "PAY": Decimal("12.50"), "KIND": "a", "DAY": NOONS[0], "RATE": 0.1},
            {"ID": SHORT[0], "BIG": 0, "FLAG": False, "PAY": Decimal("-9.00"), "KIND": "NA", "DAY": NOONS[1],
             "RATE": 2.5},
            dict.fromkeys(ROW) | {"KIND": "1.0"}]  # fmt: skip
    found = codes_of(rows, kind)
    assert found is not None
    at = {name: [row[place] for row in found] for place, name in enumerate(SCHEMA.names)}
    day = SCHEMA["DAY"]
    assert at["ID"] == [LONG.index(7), 0, LONG.index(7)]
    assert at["FLAG"] == [0, 1, 2]
    assert at["KIND"] == [0, 1, 4]
    assert at["RATE"] == [0, 3, 4]
    assert at["PAY"][1:] == [SCHEMA["PAY"].bins, SCHEMA["PAY"].bins + 1]
    march = {at["DAY"][0], at["DAY"][1]}
    assert [day.words(code) for code in march] == ["2024-03"]
    assert at["DAY"][2] == day.bins


# Values of an object column. Some of them are equal in Python but are different cells.
MIXED = [1, True, 1.0, np.int8(1), np.float32(0.1), 0.1, Decimal("0.1"), Decimal("sNaN"), "1", "01", " 1 ", 2.0**60,
         2**60, pd.Timestamp("2024-01-01T00:00Z"), pd.Timestamp("2023-12-31T19:00-05:00"), date(2024, 1, 1), np.nan,
         None, pd.NaT, pd.NA, [1], {"a": 1}, np.timedelta64(1, "ns"), b"1", 1 + 0j, "", "NA"]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(len(MIXED))), st.integers(1, len(MIXED)))
def test_a_cell_of_a_mixed_column_is_coded_alone(order: list[int], length: int) -> None:
    columns = Schema.from_dict(
        {
            "columns": {
                "w": {"values": [1, 2**60, 5], "others": 5, "missing": 5},
                "x": {"values": [1, 0.1, 5], "others": 5, "missing": 5},
                "y": {"values": ["True", "1", "2024-01-01", "rest"], "others": "rest", "missing": "rest"},
                "z": {"values": "open", "missing": "none"},
            }
        }
    )
    from equistrata.data.columns.cells import read_numbers, value_codes

    dated = Schema.from_dict({"columns": {"d": {"type": "date", "lower": "2000-01-01", "upper": "2030-01-01"}}})["d"]
    chosen = [MIXED[place] for place in order[:length]]
    series = pd.Series(chosen, dtype=object)

    def coded(cells: pd.Series) -> list[list[Any]]:
        numbers = read_numbers(cells, Schema.from_dict({"columns": {"n": {"lower": 0, "upper": 1}}})["n"])
        days = read_numbers(cells, dated)
        jobs = Vocabulary()
        places = jobs.code(cells)
        texts = [str(each) if each < 2 else jobs.texts[each - 2] for each in places.tolist()]
        listed = [each for name in "wxy" for each in value_codes(cells, columns[name])]
        found = [*listed, *numbers, *days, np.array(texts)]
        return [[str(cell) for cell in each] for each in found]

    alone = [coded(pd.Series([cell], dtype=object)) for cell in chosen]
    assert coded(series) == [[row[0] for row in column] for column in zip(*alone, strict=True)]


@pytest.mark.parametrize("added", [b"P,9,50,1,,,x\n", b"P,9,50,1,1.5,9007199254740993,1\n"])
def test_a_row_of_an_acs_file_changes_no_other(tmp_path: Path, added: bytes) -> None:
    columns = {"SEX": {"values": [1, 2]}, "AGEP": {"lower": 0, "upper": 99, "missing": "own"},
               "LONG": {"values": [9007199254740992, 9007199254740993, 0], "missing": 0},
               "PUMA": {"values": ["01", "1", "x"]}}  # fmt: skip
    schema = Schema.from_dict({"columns": columns})
    folder = tmp_path / "2018" / "1-Year"
    folder.mkdir(parents=True)
    head = b"RT,SERIALNO,ST,SEX,AGEP,LONG,PUMA\nP,1,50,01,05,9007199254740993,01\nP,2,50,2,40,9007199254740992,1\n"
    found = []
    for content in (head, head + added):
        (folder / "psam_p50.csv").write_bytes(content)
        source = FolktablesSource(("VT",), root_dir=str(tmp_path), declared=schema.columns)
        found.append(CodedTable.encode(source.read(schema.names), schema).codes[:2].tolist())
    assert found[0] == found[1]
    assert [row[2:] for row in found[0]] == [[1, 0], [0, 1]]


def test_exact_numbers_and_plain_texts_agree() -> None:
    for value in (1, 1.0, 2.5, 1e-05, Decimal("2.50"), 2**62 + 1, np.float32(0.1)):
        assert exact_number(plain_text(value)) in (
            None,
            exact_number(value if not isinstance(value, np.generic) else 0.1),
        )
