"""Tests of sources: CSV and Parquet files, ACS data from folktables, and errors that contain no cells."""

import io
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.data.files import csv_files
from equistrata.data.files.dialect import Dialect
from equistrata.data.schema import Column, Schema
from equistrata.data.sources import FileSource, FolktablesSource, SampleSource, read_frame
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

ROWS = pd.DataFrame({"sex": [1, 2, 2], "area": ["a", "ü", None], "age": [5.0, np.nan, 70.0]})


@pytest.fixture(params=["people.csv", "people.parquet", "people.pq"])
def people(request, tmp_path):
    path = tmp_path / request.param
    ROWS.to_csv(path, index=False) if path.suffix == ".csv" else ROWS.to_parquet(path)
    return path


def test_files_give_the_columns_asked_for_in_that_order(people):
    source = FileSource(str(people))
    frame = source.read(["age", "sex"])
    assert list(frame.columns) == ["age", "sex"]
    assert frame["sex"].tolist() == (["1", "2", "2"] if people.suffix == ".csv" else [1, 2, 2])
    assert frame["age"].isna().tolist() == [False, True, False]
    assert source.read(["area"])["area"].tolist()[:2] == ["a", "ü"]
    assert list(source.read(["sex", "sex"]).columns) == ["sex"]
    assert source.describe() == f"file {people.name!r}"
    assert list(read_frame(people).columns) == ["sex", "area", "age"]


def test_check_tells_what_read_would(people):
    FileSource(str(people)).check(["age", "sex"])
    with pytest.raises(InputError, match="has no column 'race'"):
        FileSource(str(people)).check(["race"])


def test_kind_overrules_the_ending(tmp_path):
    path = tmp_path / "people.dat"
    ROWS.to_parquet(path)
    assert FileSource(str(path), kind="parquet").read(["sex"])["sex"].tolist() == [1, 2, 2]


def test_byte_order_mark_and_spaces_between_lines(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufeffsex,age\r\n1,5\r\n\r\n2,6\r\n".encode())
    assert FileSource(str(path)).read(["sex", "age"]).to_numpy().tolist() == [["1", "5"], ["2", "6"]]


def coded_in_batches(path, schema, rows=2):
    return np.concatenate(
        [CodedTable.encode(f, schema).codes for f in FileSource(str(path), batch_rows=rows).batches(schema.names)]
    )


PEOPLE = Schema(
    "people",
    (
        Column("sex", values=(1, 2)),
        Column("area", values=("a", "ü", "none"), missing="none"),
        Column("age", lower=0, upper=99, edges=(0, 50, 99), missing="own"),
    ),
)


def test_batches_are_coded_as_the_whole_table(people):
    frames = list(FileSource(str(people), batch_rows=2).batches(["age", "sex", "age"]))
    assert [list(frame.columns) for frame in frames] == [["age", "sex"]] * len(frames)
    assert len(frames) == (1 if people.suffix == ".csv" else 2)  # a CSV file is read in blocks of bytes
    whole = CodedTable.encode(FileSource(str(people)).read(PEOPLE.names), PEOPLE).codes
    assert coded_in_batches(people, PEOPLE).tolist() == whole.tolist() == [[0, 0, 0], [1, 1, 2], [1, 2, 1]]


def test_the_blocks_of_a_csv_file_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 100)
    path = tmp_path / "people.csv"
    many = pd.concat([ROWS] * 50, ignore_index=True)
    many.loc[120, "area"] = "two\nlines, and a comma"
    many.to_csv(path, index=False)
    frames = list(FileSource(str(path)).batches(["sex", "area", "age"]))
    assert len(frames) > 10
    assert sum(len(frame) for frame in frames) == 150
    together = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    assert together["area"][120] == "two\nlines, and a comma"
    assert together["age"].isna().tolist() == many["age"].isna().tolist()


CELLS = st.sampled_from(
    [
        "1",
        "2",
        "1.0",
        "2.00",
        "01",
        " 1",
        "1e0",
        "a",
        "ü",
        "True",
        "FALSE",
        "true",
        "nan",
        "NA",
        "None",
        "",
        "x,y",
        '"',
        "-1",
    ]
)
NUMBERS = Column("cell", values=(0, 1, 2, -1), others=0, missing=0)
TEXTS = Column("cell", values=("1", "01", "a", "ü", "True", "x,y", '"', "rest"), others="rest", missing="rest")


@settings(max_examples=30)
@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from([NUMBERS, TEXTS]))
def test_what_a_csv_cell_means_does_not_depend_on_other_cells(tmp_path_factory, cells, column):
    """If a cell depends on the other cells, neighbouring tables are not coded as neighbouring tables."""
    schema = Schema("one", (column,))

    def codes(cells):
        path = tmp_path_factory.mktemp("cells") / "cells.csv"
        pd.DataFrame({"cell": cells, "beside": 1}).to_csv(path, index=False)
        return coded_in_batches(path, schema)[:, 0].tolist()

    assert codes(cells) == [codes([cell])[0] for cell in cells]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2", "2"], (1, 2)),
        (["1", "", "2"], ("1", "2", "none")),
        (["1.5", "1.50", "2"], ("1.5", "2", "none")),
        (["True", "False", "True"], ("True", "False")),
        (["TRUE", "FALSE", "TRUE"], ("TRUE", "FALSE")),
        (["x", "y", "NA"], ("x", "y", "none")),
    ],
)
def test_csv_batches_are_coded_as_a_file_that_is_read_whole(tmp_path, cells, values):
    path = tmp_path / "cells.csv"
    pd.DataFrame({"cell": cells, "beside": 1}).to_csv(path, index=False)
    schema = Schema("one", (Column("cell", values=values, missing="none" if "none" in values else None),))
    whole = CodedTable.encode(FileSource(str(path)).read(["cell"]), schema)
    assert coded_in_batches(path, schema).tolist() == whole.codes.tolist()


def test_texts_that_only_differ_as_texts_are_told_apart(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("zip\n01\n1\n")
    schema = Schema("one", (Column("zip", values=("01", "1")),))
    assert coded_in_batches(path, schema)[:, 0].tolist() == [0, 1]
    assert CodedTable.encode(FileSource(str(path)).read(["zip"]), schema).codes[:, 0].tolist() == [0, 1]


def test_sources_that_are_read_whole_give_one_batch():
    frames = list(SampleSource().batches(["SEX", "ESR"]))
    assert len(frames) == 1
    pd.testing.assert_frame_equal(frames[0], SampleSource().read(["SEX", "ESR"]))


def test_an_absent_column(people):
    with pytest.raises(InputError, match=f"{people.name}' has no column 'race'"):
        FileSource(str(people)).read(["sex", "race"])


BROKEN = {
    "empty.csv": (b"", "is empty; it needs a header"),
    "empty.parquet": (b"", "as a Parquet file"),
    "blank.csv": (b"\n\n", "is empty; it needs a header"),
    "header.csv": (b"sex,age\n", "holds no rows"),
    "latin.csv": ("sex,age\nhäßlich-8675309,1\n".encode("latin-1"), "not UTF-8"),
    "latin_header.csv": ("säx,age\n8675309,1\n".encode("latin-1"), "not UTF-8"),
    "utf16.csv": ("sex,age\n8675309,1\n".encode("utf-16"), "zero bytes"),
    "binary.csv": (bytes(range(128, 256)) * 4, "not UTF-8"),
    "text.parquet": (b"sex,age\n8675309,1\n", "as a Parquet file"),
    "headless.csv": (b"8675309,canary\n8675309,canary\n", "has no column 'sex' in its header line"),
    "wide_rows.csv": (
        b"sex,age\n8675309,1,2\n8675309,1,2\n",
        "not well-formed CSV: line 2 has 3 cells, but the header has 2",
    ),
    "narrow_row.csv": (
        b"\r\nsex,age\r\n1,2\r\n\r\n8675309\r\n",
        "not well-formed CSV: line 5 has 1 cell, but the header has 2",
    ),
    "long_row.csv": (
        b'sex,age\n1,"2\n3"\n8675309,"\n\n",1\n',
        "not well-formed CSV: the row from line 4 to 6 has 3 cells",
    ),
    "quote.csv": (
        b'sex,age\n"8675309,1\n2,3\n',
        "CSV: the row from line 2 to 3 has 1 cell, .* a quotation mark is not closed",
    ),
    "last_quote.csv": (b'sex,age\n8675309,"1\n2,3\n', "the row from line 2 to 3 has no end; perhaps a quotation mark"),
    "one_cell.csv": (b'sex,age\n8675309,"' + b"1\n" * 200_000, "a cell in the row that starts at line 2 is too long"),
}


def whole_rows(source, columns):
    return source.read(columns)


def batched(source, columns):
    return list(source.batches(columns))


@pytest.mark.parametrize("read", [whole_rows, batched])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_told_in_a_sentence_that_holds_no_cell(name, read, tmp_path):
    content, told = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        read(FileSource(str(path)), ["sex", "age"])
    assert "8675309" not in str(caught.value)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_row_that_is_too_wide_is_refused_when_all_columns_are_read(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_bytes(b"sex,age\n1,2\n8675309,1,2\n")
    with pytest.raises(InputError, match="not well-formed CSV") as caught:
        read_frame(path)
    assert "8675309" not in str(caught.value)


def test_a_table_of_other_columns_is_not_called_ragged(tmp_path):
    """Regression test for an error about the number of cells in a line, which was due to the decimal separator."""
    path = tmp_path / "pay.csv"
    path.write_text("name;gross;net\nA;1,5;1,2\n")
    with pytest.raises(InputError, match=r"'pay.csv' has no column 'sex' in its header line; .* declare the delimiter"):
        FileSource(str(path)).check(["sex", "age"])
    read = FileSource(str(path), dialect=Dialect(delimiter=";")).read(["gross"])
    assert read["gross"].tolist() == ["1,5"]


@pytest.mark.parametrize("line", ["8675309", "8675309,1,2", '"8675309,1', "8675309,\xff"])
def test_a_broken_line_far_down_is_told_when_it_is_reached(tmp_path, line, monkeypatch):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 1000)
    path = tmp_path / "long.csv"
    path.write_bytes(b"sex,age\n" + b"1,2\n" * 5000 + line.encode("latin-1") + b"\n")
    batches = FileSource(str(path)).batches(["sex", "age"])
    assert len(next(batches)) > 1
    with pytest.raises(InputError, match="not UTF-8" if "\xff" in line else "not well-formed CSV") as caught:
        list(batches)
    assert "8675309" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_cut_off_parquet_file(tmp_path):
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    ROWS.to_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-20])
    for read in (whole_rows, batched):
        with pytest.raises(InputError, match="as a Parquet file"):
            read(FileSource(str(cut)), ["sex"])


def test_a_column_of_lists_or_records_is_refused_by_its_name(tmp_path):
    for nested in ([[1, 2]] * len(ROWS), [{"first": 1}] * len(ROWS)):
        ROWS.assign(home=nested).to_parquet(tmp_path / "nested.parquet")
        source = FileSource(str(tmp_path / "nested.parquet"))
        with pytest.raises(
            InputError, match=r"column 'home' of file 'nested.parquet' holds lists or records; write a column"
        ):
            source.read(["sex", "home"])
        source.read(["sex"])


def test_a_parquet_file_with_a_column_twice(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["sex", "sex"]), path)
    with pytest.raises(InputError, match="two columns named 'sex'"):
        FileSource(str(path)).read(["sex"])


@pytest.mark.parametrize(
    "header", ["sex,age,sex", "sex,age, sex", "\ufeffsex,sex ,age", '"sex",age,"sex"', "sex,sex.1,sex,age"]
)
def test_a_csv_file_with_a_column_twice(header, tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text(f"{header}\n{','.join('1' * (header.count(',') + 1))}\n", "utf-8")
    source = FileSource(str(path))
    for read in (whole_rows, batched):
        with pytest.raises(InputError, match="two columns named 'sex'"):
            read(source, ["sex", "age"])
    with pytest.raises(InputError, match="two columns named 'sex'"):
        source.check(["sex", "age"])
    source.check(["age"])  # a column that is not read can have any name
    with pytest.raises(InputError, match=r"columns 1 and \d with the same name"):
        read_frame(path)


def test_unnamed_columns_are_no_column_twice(tmp_path):
    path = tmp_path / "export.csv"
    path.write_text("sex,,age,\n1,,2,\n")
    assert read_frame(path)[["sex", "age"]].to_numpy().tolist() == [["1", "2"]]


@pytest.mark.parametrize("line", ["8675309", "1,2,8675309"])
def test_a_ragged_line_far_down_is_refused_when_a_file_is_read_whole(line, tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("sex,age\n" + "1,2\n" * 50 + f"{line}\n")
    for columns in (None, ["sex"]):
        with pytest.raises(InputError, match="not well-formed CSV") as caught:
            read_frame(path, columns)
        assert "8675309" not in str(caught.value)


@pytest.mark.parametrize("name", ["nope.csv", "nope.parquet", "nowhere/nope.csv"])
def test_a_file_that_is_not_there(name, tmp_path):
    with pytest.raises(InputError, match="does not exist; check the path"):
        FileSource(str(tmp_path / name)).read(["sex"])
    with pytest.raises(InputError, match="does not exist; check the path"):
        FileSource(str(tmp_path / name)).check(["sex"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read any file")
def test_a_file_without_permission(people):
    people.chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        FileSource(str(people)).read(["sex"])


def test_a_parquet_table_without_rows(tmp_path):
    path = tmp_path / "none.parquet"
    ROWS.iloc[:0].to_parquet(path)
    with pytest.raises(InputError, match="holds no rows"):
        FileSource(str(path)).read(["sex"])


@pytest.mark.parametrize("states", [("XX",), ("NY", "ny"), ()])
def test_unknown_states(states, tmp_path):
    with pytest.raises(InputError, match="unknown state"):
        FolktablesSource(states, root_dir=str(tmp_path)).read(["SEX"])
    with pytest.raises(InputError, match="unknown state"):
        FolktablesSource(states, root_dir=str(tmp_path)).check(["SEX"])
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_does_not_exist_is_not_made(tmp_path):
    root = tmp_path / "mistyped"
    with pytest.raises(InputError, match="no ACS files in"):
        FolktablesSource(("VT",), root_dir=str(root)).read(["SEX"])
    with pytest.raises(InputError, match="no ACS files in"):
        FolktablesSource(("VT",), root_dir=str(root)).check(["SEX"])
    assert not root.exists()


ACS_HEADER = b"RT,SERIALNO,ST,SEX,AGEP\n"


def acs_file(root, content):
    folder = root / "2018" / "1-Year"
    folder.mkdir(parents=True)
    (folder / "psam_p50.csv").write_bytes(content)
    return FolktablesSource(("VT",), root_dir=str(root))


def test_a_small_acs_file(tmp_path):
    source = acs_file(tmp_path, ACS_HEADER + b"P,1,50,1,40\nP,2,50,2,\n")
    frame = source.read(["SEX", "AGEP"])
    assert frame["SEX"].tolist() == [1, 2]
    assert frame["AGEP"].isna().tolist() == [False, True]
    assert source.describe() == "ACS 2018 1-Year person records of VT (folktables)"
    with pytest.raises(InputError, match="no column 'RAC1P'"):
        source.read(["SEX", "RAC1P"])
    source.check(["SEX", "AGEP"])
    # The error is raised before a row is read.
    with pytest.raises(InputError, match="no column 'RAC1P' in its header line"):
        source.check(["SEX", "RAC1P", "ESR"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "psam_p50.csv' is empty"),
        (ACS_HEADER + b"P,1,50,\xff8675309,4\n", "psam_p50.csv' is not UTF-8 text"),
        (b"RT,SEX\nP,8675309\nP,1,2,8675309\n", "line 3 has 4 cells, but the header has 2"),
        (ACS_HEADER + b"P,1,50,1,40\nP,2,50", "line 3 has 3 cells, but the header has 5"),
        (ACS_HEADER + b"P,1,50,1,40\nP,2,50,2,5", "ACS file .* is cut off: its last line has no line break"),
    ],
)
def test_broken_acs_files(content, told, tmp_path):
    """Regression test for a file that is cut off. It was read as a complete file in which the last age is 5 instead of
    52.
    """
    with pytest.raises(InputError, match=told) as caught:
        acs_file(tmp_path, content).read(["SEX"])
    assert "8675309" not in str(caught.value)


@pytest.mark.parametrize("states", [("VT", "VT"), ("VT", "NY", "VT")])
def test_a_state_that_is_named_twice_is_refused(states, tmp_path):
    acs_file(tmp_path, ACS_HEADER + b"P,1,50,1,40\n")
    with pytest.raises(InputError, match="state 'VT' is given twice, so it would count twice"):
        FolktablesSource(states, root_dir=str(tmp_path)).read(["SEX"])


def test_an_acs_file_is_held_against_its_archive(tmp_path):
    source = acs_file(tmp_path, ACS_HEADER + b"P,1,50,1,40\nP,2,50,2,52\n")
    folder = tmp_path / "2018" / "1-Year"
    with zipfile.ZipFile(folder / "csv_pvt.zip", "w") as archive:
        archive.write(folder / "psam_p50.csv", "psam_p50.csv")
    assert len(source.read(["SEX"])) == 2
    (folder / "psam_p50.csv").write_bytes(ACS_HEADER + b"P,1,50,1,40\n")
    with pytest.raises(
        InputError, match=r"differs from the file in csv_pvt.zip in the same folder; delete it, and download it"
    ):
        source.read(["SEX"])


@pytest.mark.parametrize("fault", ["", "another checksum", "a page that says sorry", "no network"])
@pytest.mark.parametrize(("year", "name"), [(2018, "psam_p50.csv"), (2016, "ss16pvt.csv")])
def test_only_a_whole_download_is_kept(tmp_path, monkeypatch, fault, year, name):
    import folktables.load_acs

    asked = []

    def get(url):
        asked.append(url)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(name, ACS_HEADER + b"P,1,50,1,40\n" * 1000)
        content = packed.getvalue()
        if fault == "no network":
            raise OSError(fault)
        sent = {"": content, "another checksum": content.replace(b"40", b"41", 1)}
        return SimpleNamespace(content=sent.get(fault, b"<html>"))

    module = sys.modules[folktables.load_acs.__module__]
    monkeypatch.setattr(module, "requests", SimpleNamespace(get=get))
    source = FolktablesSource(("VT",), year, root_dir=str(tmp_path), download=True)
    for _ in range(2):
        if fault:
            with pytest.raises(InputError, match="could not be downloaded completely"):
                source.read(["SEX"])
        else:
            assert len(source.read(["SEX"])) == 1000
    assert [path.name for path in (tmp_path / str(year) / "1-Year").iterdir()] == [name] * (not fault)
    assert [url.rpartition("pums/")[2] for url in asked] == [f"{year}/1-Year/csv_pvt.zip"] * (2 if fault else 1)


def test_zeros_in_front_fill_codes_of_acs_files_up(tmp_path):
    source = acs_file(tmp_path, ACS_HEADER + b"P,1,050,01,00\nP,2,50,2, 7\n")
    assert source.read(["ST", "SEX", "AGEP"]).to_numpy().tolist() == [[50, 1, 0], [50, 2, 7]]
    told = (Column("ST", values=("050", "50")), Column("SEX", values=(1, 2)))
    found = replace(source, declared=told).read(["ST", "SEX", "AGEP"])
    assert found.to_numpy().tolist() == [["050", "1", "00"], ["50", "2", "7"]]


def test_an_acs_file_that_may_be_downloaded_is_not_looked_into(tmp_path):
    acs_file(tmp_path, ACS_HEADER)
    FolktablesSource(("NY",), root_dir=str(tmp_path), download=True).check(["RAC1P"])


def test_an_absent_acs_state_in_a_folder_that_exists(tmp_path):
    source = acs_file(tmp_path, ACS_HEADER)
    with pytest.raises(InputError, match="has no ACS person file for NY"):
        FolktablesSource(("NY",), root_dir=source.root_dir).read(["SEX"])
    with pytest.raises(InputError, match="no ACS files in"):
        FolktablesSource(("VT",), year=2019, root_dir=source.root_dir).read(["SEX"])


@pytest.mark.parametrize(("state", "year"), [("VT", 2018), ("VT", 2024)])
def test_acs_cells_are_those_that_folktables_reads(acs_root, state, year):
    """Numbers are compared by value and texts are compared exactly. All of the columns are compared for 2018."""
    from folktables import ACSDataSource

    theirs = ACSDataSource(str(year), "1-Year", "person", root_dir=acs_root).get_data(states=[state])
    ours = FolktablesSource((state,), year, root_dir=acs_root).read(list(theirs.columns))
    for name, cells in theirs.items():
        if pd.api.types.is_numeric_dtype(cells):
            found = pd.to_numeric(ours[name])
            assert ((found == cells) | (found.isna() & cells.isna())).all(), name
        else:
            assert (ours[name].fillna("") == cells.astype(object).fillna("")).all(), name


def test_real_acs_rows_are_coded(acs_root):
    source = FolktablesSource(("VT",), year=2024, root_dir=acs_root)
    schema = Schema.load("acs_employment").select(
        ["AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "MIL", "DREM", "SEX", "RAC1P", "ESR"]
    )
    table = CodedTable.encode(source.read(schema.names), schema)
    assert len(table) == 6938
    again = CodedTable.encode(table.decode(np.random.default_rng(0)), schema.coded())
    assert np.array_equal(again.codes, table.codes)
    with pytest.raises(InputError, match="'ESP'"):
        source.read(["ESP"])


def test_the_embedded_sample_is_coded_by_its_schema(repo_root):
    if not list((repo_root / "data" / "sample").glob("*.parquet")):
        pytest.skip("the embedded sample is not made yet")
    source = SampleSource()
    schema = Schema.load("acs_employment")
    columns = ["SEX", "RAC1P", "ESR"]
    source.check(columns)
    assert len(CodedTable.encode(source.read(columns), schema.select(columns))) > 1000
    assert source.describe() == "embedded simulated sample"


def test_no_file_holds_a_path_of_somebodys_machine(repo_root):
    """The repository must not contain absolute paths of home folders, of this checkout or of the shared test data."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=repo_root, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = [name for name in listed.stdout.decode().split("\0") if name]
    checkout = [f"{repo_root}/", f"{repo_root.parent}/shared"] if len(repo_root.parts) > 2 else []
    forbidden = re.compile(
        b"|".join(
            [rb"/(home|Users)/[a-z]", rb"file:/{3}", rb"[A-Z]:\\Users", *(re.escape(p.encode()) for p in checkout)]
        )
    )
    here = "tests/data/test_sources.py"
    found = [
        n for n in names if n != here and (repo_root / n).is_file() and forbidden.search((repo_root / n).read_bytes())
    ]
    assert found == []


@pytest.mark.parametrize("name", ["folder", "pipe"])
def test_what_is_there_and_no_file_is_called_that(name, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for look in (lambda source: source.check(["A"]), lambda source: source.files()):
        with pytest.raises(InputError, match="is a folder, a pipe or a device; give a regular file"):
            look(FileSource(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["sex ", " SEX", "Sex"])
def test_a_name_that_differs_by_case_or_blanks_is_said(tmp_path, name):
    path = tmp_path / "people.csv"
    path.write_text(f"{name},canary\n1,2\n")
    said = f"file 'people.csv' has {name!r} in its header line instead of 'sex'; use the same spelling"
    with pytest.raises(InputError, match=said) as refused:
        FileSource(str(path)).check(["sex"])
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("columns", [["sex"], ["sex", "age"]])
def test_a_quote_that_is_not_closed_does_not_swallow_rows(tmp_path, columns):
    path = tmp_path / "people.csv"
    path.write_text('sex,age\n1,2\n8675309,"3\n1,2\n1,2\n')
    said = "the row from line 3 to 5 has no end; perhaps a quotation mark is not closed"
    for read in (whole_rows, batched):
        with pytest.raises(InputError, match=said):
            read(FileSource(str(path)), columns)
    path.write_text('sex,age\n1,2\n1,"3')
    with pytest.raises(InputError, match="line 3 has no end; perhaps a quotation mark is not closed"):
        whole_rows(FileSource(str(path)), columns)


@pytest.mark.parametrize("cell", ['5" pipe', '"5"" pipe"', '"a\n""\nb"', '"a"" "'])
def test_quotes_that_are_closed_or_within_a_cell_are_read(tmp_path, cell):
    path = tmp_path / "people.csv"
    path.write_text(f"sex,age\n1,2\n1,{cell}\n1,2")
    assert len(FileSource(str(path)).read(["sex"])) == 3
