"""Tests that the rows of an SPSS file are the same as the rows of other formats, for each batch."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.look import look
from equistrata.data.files import formats
from equistrata.data.files.labelled import described
from equistrata.data.header import header_of
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

SECRET = "canary-8841"
ROWS = 61
LABELS = {"SEX": {1: "Male", 2: "Female"}, "AGE": {-9: "Refused", -8: "Not asked"}, "JOB": {"y": "yes", "n": "no"}}
MISSING = {"AGE": [-9, {"lo": 98, "hi": 99}], "JOB": ["?"]}
FORMATS = {"SEX": "F1.0", "AGE": "F3.0", "PAY": "F8.2", "JOB": "A8", "DAY": "EDATE10", "HOUR": "TIME8"}
reads = pytest.mark.skipif(find_spec("pyreadstat") is None, reason="pyreadstat is not installed")


def people():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"SEX": rng.integers(1, 3, ROWS), "AGE": rng.integers(0, 90, ROWS)})
    rows.loc[rng.random(ROWS) < 0.2, "AGE"] = -9
    rows.loc[5, "AGE"] = 99
    rows["PAY"] = rng.integers(0, 500, ROWS) / 10
    rows.loc[rng.random(ROWS) < 0.2, "PAY"] = np.nan
    rows["JOB"] = rng.choice(["y", "n", "?", ""], ROWS)
    rows["DAY"] = pd.Timestamp("1801-01-01").as_unit("s") + pd.to_timedelta(rng.integers(0, 80_000, ROWS), unit="D")
    rows.loc[rng.random(ROWS) < 0.2, "DAY"] = pd.NaT
    rows["HOUR"] = rng.integers(0, 86_400, ROWS)
    return rows


def saved(rows, path, compress=False):
    import pyreadstat

    days = [day.date() if pd.notna(day) else None for day in rows["DAY"]]
    pyreadstat.write_sav(
        rows.assign(DAY=days),
        str(path),
        column_labels={"AGE": "Age in years"},
        variable_value_labels=LABELS,
        missing_ranges=MISSING,
        variable_format=FORMATS,
        variable_measure={"SEX": "nominal"},
        compress=compress,
    )
    return path


def schema(**more):
    columns = {
        "SEX": {"values": [1, 2]},
        "AGE": {"lower": 0, "upper": 120, "integer": True, "missing": "own"},
        "PAY": {"lower": 0, "upper": 49.9, "missing": "own"},
        "JOB": {"values": ["n", "y", "none"], "missing": "none"},
        "DAY": {"type": "date", "format": "%d.%m.%Y", "lower": "1801-01-01", "upper": "2021-12-31", "missing": "own"},
        "HOUR": {"lower": 0, "upper": 86_400, "integer": True},
    }
    return Schema.from_dict({"columns": columns | more}, "people")


def codes(path, declared, batch=1000):
    source = FileSource(str(path), batch_rows=batch, declared=declared.columns)
    frames = [CodedTable.encode(each, declared).codes for each in source.batches(declared.names)]
    whole = CodedTable.encode(source.read(declared.names), declared).codes
    assert np.array_equal(np.concatenate(frames), whole)
    return whole


@reads
@pytest.mark.parametrize(("name", "batch"), [("p.sav", 7), ("p.sav", 1000), ("p.zsav", 61)])
def test_an_spss_file_is_coded_as_the_same_rows_in_a_csv_file(name, batch, tmp_path):
    rows, declared = people(), schema()
    path = saved(rows, tmp_path / name, compress=name == "p.zsav")
    written = rows.assign(
        DAY=[day.strftime("%d.%m.%Y") if pd.notna(day) else "" for day in rows["DAY"]],
        # 98 and 99 are missing values, but they are within the bounds of the schema.
        AGE=rows["AGE"].where(rows["AGE"].between(0, 97)).astype("Int64"),
        JOB=rows["JOB"].where(rows["JOB"].isin(["y", "n"]), ""),
    )
    written.to_csv(tmp_path / "p.csv", index=False)
    same = FileSource.of(str(tmp_path / "p.csv"), declared).read(declared.names)
    assert np.array_equal(codes(path, declared, batch), CodedTable.encode(same, declared).codes)


@reads
def test_missing_values_that_are_declared_stay_and_labels_are_read_where_they_are_declared(tmp_path):
    rows, path = people(), saved(people(), tmp_path / "p.sav")
    said = {"SEX": ["Female", "Male"], "JOB": ["no", "yes", "?", "none"]}
    more = {name: {"values": values} for name, values in said.items()}
    more["JOB"]["missing"] = "none"
    more["AGE"] = {"lower": 0, "upper": 97, "integer": True, "codes": {-9: "refused", 99: "old"}, "missing": "own"}
    declared = schema(**more)
    table = CodedTable(codes(path, declared), declared)
    found = {name: [declared[name].keys[code] for code in table.column(name)] for name in ("SEX", "JOB")}
    assert found["SEX"] == [LABELS["SEX"][sex] for sex in rows["SEX"]]
    assert found["JOB"] == [LABELS["JOB"].get(job, job) or "none" for job in rows["JOB"]]
    assert np.array_equal(table.column("AGE") == declared["AGE"].bins, rows["AGE"] == -9)
    assert np.array_equal(table.column("AGE") == declared["AGE"].bins + 1, rows["AGE"] == 99)


@reads
def test_an_spss_file_is_its_own_code_book_and_a_look_keeps_its_missing_codes(tmp_path):
    path = saved(people(), tmp_path / "p.sav")
    book = read_book(path).columns
    columns, file = header_of(path)
    assert (columns, file) == (["SEX", "AGE", "PAY", "JOB", "DAY", "HOUR"], {})
    made = draft(columns, book, "people")
    assert 'SEX: {type: nominal, values: [1, 2], labels: {1: "Male", 2: "Female"}}' in made.text
    assert made.left_out["AGE"] == "numbers, but the book has no bounds"
    assert made.left_out["DAY"] == "dates, but the book has no bounds"
    assert described(path)["HOUR"].unit == ""
    looked, _ = look(path, columns, file, book)
    age = looked["AGE"].spec
    assert (age["lower"], age["upper"]) == (5, 84)
    assert {-9: "Refused", 99: "missing"}.items() <= age["codes"].items()
    assert looked["DAY"].spec["format"] == "%Y-%m-%d"


@reads
def test_without_a_schema_cells_are_codes_and_days_are_iso_texts(tmp_path):
    rows, found = people(), read_frame(saved(people(), tmp_path / "p.sav"))
    assert found["SEX"].tolist() == rows["SEX"].tolist()
    assert found["AGE"].tolist() == rows["AGE"].tolist()
    assert found["DAY"].fillna("").tolist() == [f"{day:%Y-%m-%d}" if pd.notna(day) else "" for day in rows["DAY"]]


@reads
def test_what_is_wrong_is_one_sentence_without_a_cell(tmp_path):
    path = saved(people(), tmp_path / "p.sav")
    with pytest.raises(InputError, match="has no column 'WAGE'"):
        FileSource(str(path)).check(["WAGE"])
    whole = path.read_bytes()
    for name, content in (("text", f"SEX\n{SECRET}\n".encode()), ("cut", whole[: len(whole) - 300]), ("empty", b"")):
        (tmp_path / f"{name}.sav").write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as an SPSS file") as caught:
            FileSource(str(tmp_path / f"{name}.sav")).read(["SEX"])
        assert SECRET not in str(caught.value)
    saved(people().iloc[:0], path)
    with pytest.raises(InputError, match="holds no rows"):
        FileSource(str(path)).read(["SEX"])


def test_without_pyreadstat_the_sentence_says_how_to_have_it_or_do_without(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    (tmp_path / "p.sav").write_bytes(b"$FL2")
    with pytest.raises(InputError, match=r"pip install \"equistrata\[labelled\]\", or save it as CSV"):
        header_of(tmp_path / "p.sav")
