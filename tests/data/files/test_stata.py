"""Tests that the rows of a Stata file are the same as the rows of other formats, for each batch."""

import struct
import warnings

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.draft import draft
from equistrata.data.drafting.look import look
from equistrata.data.files.labelled import described
from equistrata.data.header import header_of
from equistrata.data.misfits import misfits
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, ahead, read_frame
from equistrata.data.table import CodedTable
from equistrata.data.units.hashes import unit_ids
from equistrata.errors import InputError

SECRET = "canary-8841"
LABELS = {"SEX": {1: "Male", 2: "Female"}, "AGE": {-9: "Refused"}}
REFUSED, UNKNOWN = 2_147_483_622, 2_147_483_623  # the values .a and .b
ROWS = 61


def people():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"SEX": rng.integers(1, 3, ROWS).astype(np.int8), "AGE": rng.integers(0, 90, ROWS)})
    rows.loc[rng.random(ROWS) < 0.2, "AGE"] = -9
    rows["PAY"] = (rng.integers(0, 500, ROWS) / 10).astype(np.float32)
    rows.loc[rng.random(ROWS) < 0.2, "PAY"] = np.nan
    rows.loc[0, "PAY"] = 49.9  # the upper bound, which is slightly larger as a float in Stata
    rows["JOB"] = rng.choice(["no", "yes", ""], ROWS)
    rows["DAY"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, ROWS), unit="D")
    rows.loc[rng.random(ROWS) < 0.2, "DAY"] = pd.NaT
    return rows


def schema(sex, **more):
    columns = {
        "SEX": {"values": sex},
        "AGE": {"lower": 0, "upper": 90, "integer": True, "codes": {-9: "refused"}},
        "PAY": {"lower": 0, "upper": 49.9, "missing": "own"},
        "JOB": {"values": ["no", "yes", "?"], "missing": "?"},
        "DAY": {"type": "date", "format": "%d.%m.%Y", "lower": "2020-01-01", "upper": "2021-12-31", "missing": "own"},
    }
    return Schema.from_dict({"columns": columns | more}, "people")


def saved(rows, path, version=118):
    rows.to_stata(path, write_index=False, value_labels=LABELS, convert_dates={"DAY": "td"}, version=version)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.dta"
    saved(people(), path)
    return path


def codes(source, declared):
    frames = [CodedTable.encode(batch, declared).codes for batch in source.batches(declared.names)]
    whole = CodedTable.encode(source.read(declared.names), declared).codes
    assert np.array_equal(np.concatenate(frames), whole)
    return whole


@pytest.mark.parametrize("version", [114, 117, 118])
@pytest.mark.parametrize("batch", [7, 1000])
def test_a_stata_file_is_coded_as_the_same_rows_in_a_csv_file(version, batch, tmp_path):
    rows = people()
    saved(rows, tmp_path / "p.dta", version=version)
    written = rows.assign(DAY=rows["DAY"].dt.strftime("%d.%m.%Y"), PAY=[str(pay) for pay in rows["PAY"].to_numpy()])
    written.to_csv(tmp_path / "p.csv", index=False)
    declared = schema([1, 2])
    found = codes(FileSource(str(tmp_path / "p.dta"), batch_rows=batch, declared=declared.columns), declared)
    assert np.array_equal(found, codes(FileSource.of(str(tmp_path / "p.csv"), declared), declared))
    assert len(np.unique(found[:, 2])) > 20


def test_labels_are_read_where_a_schema_declares_them(file):
    found = []
    for sex in ([1, 2], ["Male", "Female"], ["1", "2"]):  # codes can also be declared as text
        declared = schema(sex)
        found.append(codes(FileSource.of(str(file), declared), declared))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert {*FileSource.of(str(file), schema(["Male", "Female"])).read(["SEX"])["SEX"]} == {"Male", "Female"}


def test_a_code_without_a_label_is_no_label(file):
    rows = people()
    rows.loc[3, "SEX"] = 7
    saved(rows, file)
    declared = schema(["Male", "Female"])
    with pytest.raises(InputError, match="'SEX' holds a value that the schema does not declare"):
        codes(FileSource.of(str(file), declared), declared)


def stata_with_named_missing(path):
    """Write a file with the missing values .a, .b and `.`, which pandas does not write."""
    values = np.array([1, 2, 7001, 7002, 7003, 3, 7001], dtype=np.int32)
    labels = {"K": {REFUSED: "Refused", 1: "one", 2: "two", 3: "three"}}
    pd.DataFrame({"K": values}).to_stata(path, write_index=False, value_labels=labels, version=118)
    content = path.read_bytes()
    for stand_in, place in ((7001, 1), (7002, 2), (7003, 0)):
        content = content.replace(struct.pack("<i", stand_in), struct.pack("<i", 2_147_483_621 + place))
    path.write_bytes(content)
    return path


def test_named_missing_values_are_absent_unless_they_are_declared(tmp_path):
    path = stata_with_named_missing(tmp_path / "k.dta")
    assert described(path)["K"].tagged

    def found(spec):
        declared = Schema.from_dict({"columns": {"K": spec}}, "k")
        source = FileSource(str(path), batch_rows=3, declared=declared.columns)
        keys = declared["K"].keys
        return [keys[code] for code in codes(source, declared)[:, 0]]

    assert found({"values": [1, 2, 3, 9], "missing": 9}) == [1, 2, 9, 9, 9, 3, 9]
    assert found({"values": [*range(100)], "missing": 99}) == [1, 2, 99, 99, 99, 3, 99]
    assert found({"values": [1, 2, 3, 8, 9], "missing": 9, "recode": {".a": 8}}) == [1, 2, 8, 9, 9, 3, 8]
    named = {"values": ["one", "two", "three", "Refused", "?"], "missing": "?"}
    assert found(named) == ["one", "two", "Refused", "?", "?", "three", "Refused"]
    numbers = {"lower": 0, "upper": 4, "edges": [0, 2, 4], "missing": "own"}
    assert found(numbers | {"codes": {".a": "refused", ".b": "none"}}) == [0, 0, 2, 3, 4, 1, 2]
    with pytest.raises(InputError, match="'K' has missing cells, but the schema does not say what they mean"):
        found({"values": [1, 2, 3]})


def test_days_are_read_and_other_dates_refused(tmp_path):
    day = pd.Timestamp("2021-07-01")
    for form in ("td", "tc", "tw"):
        path = tmp_path / f"{form}.dta"
        pd.DataFrame({"DAY": [day, day]}).to_stata(path, write_index=False, convert_dates={"DAY": form})
        spec = {"type": "date", "format": "%Y-%m-%d", "lower": "2021-01-01", "upper": "2021-12-31"}
        declared = Schema.from_dict({"columns": {"DAY": spec}}, "days")
        if form == "tw":  # the same is true for leap seconds (%tC), months and quarters
            with pytest.raises(InputError, match="has the format %tw, which is not for days"):
                FileSource.of(str(path), declared).read(["DAY"])
            continue
        decoded = CodedTable.encode(FileSource.of(str(path), declared).read(["DAY"]), declared)
        found = decoded.decode(np.random.default_rng(0))["DAY"][0]
        assert abs(pd.Timestamp(found) - day) <= pd.Timedelta("7D"), form


def test_without_a_schema_cells_are_codes_and_days_are_iso_texts(file):
    rows, found = people(), read_frame(file)
    assert found["SEX"].tolist() == rows["SEX"].tolist()
    assert found["DAY"].fillna("").tolist() == rows["DAY"].dt.strftime("%Y-%m-%d").fillna("").tolist()
    assert read_frame(file, ["AGE"]).columns.tolist() == ["AGE"]


def test_units_that_a_float_cannot_tell_apart_are_refused(tmp_path):
    ids = np.array([2**24, 2**24 + 2], dtype=np.float32)
    pd.DataFrame({"SEX": [1, 2], "ID": ids}).to_stata(tmp_path / "p.dta", write_index=False)
    declared = Schema.from_dict({"columns": {"SEX": {"values": [1, 2]}}}, "people")
    read = FileSource.of(str(tmp_path / "p.dta"), declared).read(["SEX", "ID"])
    with pytest.raises(InputError, match="too large to distinguish ids"):
        unit_ids(next(FileSource.of(str(tmp_path / "p.dta"), declared).batches(["ID"]))["ID"], "ID", b"k" * 32)
    assert read["SEX"].tolist() == [1, 2]


def test_what_is_wrong_is_one_sentence_without_a_cell(file, tmp_path):
    declared = schema([1, 2])
    source = FileSource.of(str(file), declared)
    source.check(["SEX"])
    assert source.header() == ["SEX", "AGE", "PAY", "JOB", "DAY"]
    assert source.ragged() == []
    with pytest.raises(InputError, match="has no column 'WAGE'"):
        source.check(["WAGE"])
    with pytest.raises(InputError, match="has 'SEX' in its header line instead of 'sex'"):
        source.check(["sex"])
    (tmp_path / "text.dta").write_text(f"SEX,AGE\n{SECRET},1\n")
    whole = file.read_bytes()
    (tmp_path / "cut.dta").write_bytes(whole[: whole.index(b"<data>") + 100])
    (tmp_path / "empty.dta").write_bytes(b"")
    for name in ("text.dta", "cut.dta", "empty.dta"):
        with pytest.raises(InputError, match="cannot be read as a Stata file") as caught:
            FileSource.of(str(tmp_path / name), declared).read(["SEX"])
        assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match="does not exist"):
        FileSource.of(str(tmp_path / "none.dta"), declared).read(["SEX"])
    saved(people().iloc[:0], tmp_path / "none.dta")
    with pytest.raises(InputError, match="holds no rows"):
        FileSource.of(str(tmp_path / "none.dta"), declared).read(["SEX"])


def test_batches_may_be_read_ahead_and_leave_no_filter_of_warnings(file):
    before = list(warnings.filters)
    batches = FileSource(str(file), batch_rows=10, declared=schema([1, 2]).columns).batches(["SEX"])
    assert len(next(batches)) == 10
    assert warnings.filters == before  # the filters are unchanged while the iterator is waiting
    assert sum(len(batch) for batch in ahead(batches)) == ROWS - 10


def test_a_stata_file_is_its_own_code_book_and_a_look_finds_dates_numbers_and_texts(file):
    columns, spelled = header_of(file)
    assert (columns, spelled) == (["SEX", "AGE", "PAY", "JOB", "DAY"], {})
    book = read_book(file).columns
    made = draft(columns, book, "people")
    assert 'SEX: {type: nominal, values: [1, 2], labels: {1: "Male", 2: "Female"}}' in made.text
    assert made.declared == ["SEX"]  # only the labels are used and no row is read
    looked, spelled = look(file, columns, {}, book)
    assert spelled == {}
    day, job = looked["DAY"].spec, looked["JOB"].spec
    assert (day["format"], day["lower"], day["missing"]) == ("%Y-%m-%d", "2020-01-01", "own")
    assert job == {"type": "nominal", "values": ["no", "yes", "missing"], "missing": "missing"}
    assert looked["PAY"].spec["decimals"] == 1
    assert draft(columns, book, "people", {}, looked).taken.keys() == {"AGE", "PAY", "JOB", "DAY"}


def test_all_that_does_not_fit_is_told_of_a_stata_file(file):
    declared = schema([1], AGE={"lower": 0, "upper": 50, "integer": True})
    rows, found = misfits(FileSource.of(str(file), declared).batches(declared.cells), declared, 0, set())
    assert rows == ROWS
    assert {(each.columns, each.fault) for each in found} >= {
        (("SEX",), "undeclared values"),
        (("AGE",), "out of bounds"),
    }
