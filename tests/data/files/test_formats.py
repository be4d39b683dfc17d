"""Tests of the registry of file formats, with the example in docs/extending.md and with SAS files."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.look import look
from equistrata.data.files import formats
from equistrata.data.files.formats import FORMATS, TableFormat, kind_of
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "SEX": {"values": [1, 2, 9], "missing": 9},
            "AREA": {"values": ["NA", "01", "none"], "missing": "none"},
            "BORN": {"type": "date", "lower": "1900-01-01", "upper": "2025-12-31", "missing": "own"},
        }
    }
)


def test_the_example_of_a_new_format_is_read(repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (repo_root / "docs" / "extending.md").read_text("utf-8").partition("## Add a file format")[2]
    module = section.partition("```python\n")[2].partition("```")[0]
    line = section.partition("\n+    TableFormat")[2].partition("\n")[0]
    (tmp_path / "json_lines.py").write_text(module, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    added = eval(f"TableFormat{line.removesuffix(',')}", {"TableFormat": TableFormat, "_HERE": "equistrata.data.files"})
    assert added.module == "equistrata.data.files.json_lines"
    added = TableFormat(added.name, added.title, added.suffixes, "json_lines")
    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, added))
    rows = [{"SEX": 1, "AREA": "NA", "BORN": "1999-12-31"}, {"SEX": None, "AREA": "01", "ID": 2**60 + 1}]
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = FileSource.of(str(path), SCHEMA)
    assert source.header() == ["SEX", "AREA", "BORN"]
    assert CodedTable.encode(source.read(SCHEMA.names), SCHEMA).codes[:, :2].tolist() == [[0, 0], [2, 1]]
    path.write_text('{"SEX": 1}\nsecret-8675309\n')
    with pytest.raises(InputError, match=r"cannot be read as a file of JSON lines; it may be damaged") as told:
        FileSource(str(path)).read(["SEX"])
    assert "8675309" not in str(told.value)


def test_sas_transport_files(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'labelled' is not installed")
    rows = pd.DataFrame({"SEX": [1.0, np.nan, 2.0], "AREA": ["NA", "", "01"], "BORN": [date(1999, 12, 31), None, None]})
    pyreadstat.write_xport(rows, str(tmp_path / "people.xpt"), column_labels=["Sex", "Area", "Day of birth"])
    source = FileSource.of(str(tmp_path / "people.xpt"), SCHEMA)
    table = CodedTable.encode(source.read(SCHEMA.names), SCHEMA)
    assert table.codes[:, :2].tolist() == [[0, 0], [2, 2], [1, 1]]
    assert table.column("BORN").tolist()[1:] == [SCHEMA["BORN"].bins] * 2
    assert read_frame(tmp_path / "people.xpt")["BORN"].fillna("").tolist() == ["1999-12-31", "", ""]
    assert read_book(tmp_path / "people.xpt").columns["SEX"].label == "Sex"


@pytest.mark.parametrize(("ending", "form"), [("xpt", "YYMMDD10"), ("xpt", "E8601DA10"), ("dta", "%tdNN/DD/CCYY")])
def test_days_are_read_whatever_their_display_format(tmp_path: Path, ending: str, form: str) -> None:
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'labelled' is not installed")
    write = {"xpt": pyreadstat.write_xport, "dta": pyreadstat.write_dta}[ending]
    path = tmp_path / f"people.{ending}"
    write(pd.DataFrame({"BORN": [14609.0, 0.0]}), str(path), variable_format={"BORN": form})
    assert read_frame(path)["BORN"].tolist() == ["1999-12-31", "1960-01-01"]
    assert read_book(path).columns["BORN"].kind == "date"


def test_months_of_stata_are_no_numbers_of_a_draft(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'labelled' is not installed")
    path, rows = tmp_path / "people.dta", pd.DataFrame({"SINCE": [*range(600, 700)] * 3})
    pyreadstat.write_dta(rows, str(path), variable_format={"SINCE": "%tm"})
    assert look(path, ["SINCE"], {}, read_book(path).columns)[0]["SINCE"].spec is None


def test_formats_are_known_by_their_suffix() -> None:
    endings = ("dta", "DTA", "parquet", "pq", "csv", "txt", "csv.gz", "zsav", "sas7bdat", "xlsm")
    kinds = ["stata", "stata", "parquet", "parquet", "csv", "csv", "csv", "spss", "sas", "excel"]
    assert [kind_of(f"a.{end}") for end in endings] == kinds
