"""Sources: files of both kinds, ACS through folktables, and messages that hold no cell."""

import os
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

from data.errors import InputError
from data.schema import Schema
from data.sources import FileSource, FolktablesSource, SampleSource, read_frame
from data.table import CodedTable

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
    assert frame["sex"].tolist() == [1, 2, 2]
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
    assert FileSource(str(path)).read(["sex", "age"]).to_numpy().tolist() == [[1, 5], [2, 6]]


def test_an_absent_column(people):
    with pytest.raises(InputError, match=f"{people.name}' has no column 'race'"):
        FileSource(str(people)).read(["sex", "race"])


BROKEN = {
    "empty.csv": (b"", "is empty; it needs a header"),
    "empty.parquet": (b"", "not a Parquet file"),
    "blank.csv": (b"\n\n", "is empty; it needs a header"),
    "header.csv": (b"sex,age\n", "holds no rows"),
    "latin.csv": ("sex,age\nhäßlich-8675309,1\n".encode("latin-1"), "not UTF-8"),
    "latin_header.csv": ("säx,age\n8675309,1\n".encode("latin-1"), "not UTF-8"),
    "utf16.csv": ("sex,age\n8675309,1\n".encode("utf-16"), "not UTF-8"),
    "binary.csv": (bytes(range(128, 256)) * 4, "not UTF-8"),
    "text.parquet": (b"sex,age\n8675309,1\n", "not a Parquet file"),
    "headless.csv": (b"8675309,canary\n8675309,canary\n", "has no column 'sex' in its header line"),
    "wide_rows.csv": (b"sex,age\n8675309,1,2\n8675309,1,2\n", "not well-formed CSV"),
    "quote.csv": (b'sex,age\n"8675309,1\n2,3\n', "not well-formed CSV"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_told_in_a_sentence_that_holds_no_cell(name, tmp_path):
    content, told = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        FileSource(str(path)).read(["sex", "age"])
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


def test_a_cut_off_parquet_file(tmp_path):
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    ROWS.to_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a Parquet file"):
        FileSource(str(cut)).read(["sex"])


def test_a_parquet_file_with_a_column_twice(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["sex", "sex"]), path)
    with pytest.raises(InputError, match="two columns named 'sex'"):
        FileSource(str(path)).read(["sex"])


@pytest.mark.parametrize("name", ["nope.csv", "nope.parquet", "nowhere/nope.csv", "."])
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


@pytest.mark.parametrize(
    "content", [b"", ACS_HEADER + b"P,1,50,\xff8675309,4\n", b"RT,SEX\nP,8675309\nP,1,2,8675309\n"]
)
def test_broken_acs_files(content, tmp_path):
    with pytest.raises(InputError, match="ACS") as caught:
        acs_file(tmp_path, content).read(["SEX"])
    assert "8675309" not in str(caught.value)


def test_an_absent_acs_state_in_a_folder_that_exists(tmp_path):
    source = acs_file(tmp_path, ACS_HEADER)
    with pytest.raises(InputError, match="no ACS person file for NY"):
        FolktablesSource(("NY",), root_dir=source.root_dir).read(["SEX"])
    with pytest.raises(InputError, match="no ACS files in"):
        FolktablesSource(("VT",), year=2019, root_dir=source.root_dir).read(["SEX"])


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
    """Absolute paths of home folders, this checkout or the shared test rows have no place in the repository."""
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
