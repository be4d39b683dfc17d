"""Tests of the released files. The values must not be changed if they are read from either of the two files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from equistrata.data.columns.raw import ABSENT
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.data.table_check import check_table
from equistrata.flows.release.writer import row_files

LOOKS = [
    *filter(None, ABSENT), "01", "1", "1.0", "1e0", "1_0", "True", "TRUE", "no", "a,b", 'say "x"', "a\nb", " a ",
    "=1+1", "٣", "ü", "2024-01-01", "'", "\\N", ".", "-", "None ", "a\0b", "\ufeffa", '"', "#a",
]  # fmt: skip
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1).filter(str.strip)
TEXTS = st.lists(st.sampled_from(LOOKS) | ANY, min_size=1, max_size=8, unique=True)
WHOLE = st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=6, unique=True)
REAL = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6, unique=True).map(lambda x: [*{each + 0.0 for each in x}])


def numbers(sentinel: Any) -> dict[str, Any]:
    return {"lower": 0, "upper": 99, "edges": [0, 30, 99], "codes": {sentinel: "no answer"}, "missing": "own"}


COLUMNS = st.one_of(
    st.one_of(TEXTS, WHOLE, REAL).map(lambda values: {"values": values}),
    TEXTS.map(lambda values: {"values": [*values, "no cell"], "missing": "no cell"}),
    st.sampled_from(["NA", "null", "None", "N", -9, 999]).map(numbers),
    st.sampled_from(["NA", "", "nan"]).map(
        lambda raw: {"type": "date", "lower": "2000-01-01", "upper": "2020-12-31", "every": "year", "missing": "own"}
        | ({"codes": {raw: "unknown"}} if raw else {})
    ),
)  # fmt: skip


def read_back(schema: Schema, seed: int, rows: int = 40) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, schema.sizes, (rows, len(schema.names))).astype(np.uint8)
    table = CodedTable(codes, schema)
    with TemporaryDirectory() as folder:
        with row_files(Path(folder)) as write:
            write(table.decode(rng))
        for name in ("synthetic.parquet", "synthetic.csv"):
            path = Path(folder) / name
            frames = FileSource.of(str(path), schema.coded()).batches(schema.names)
            again = CodedTable.concatenate([CodedTable.encode(frame, schema.coded()) for frame in frames])
            assert again.codes.tolist() == table.codes.tolist(), name
            assert check_table(path, schema.coded(), schema.names).fits


@settings(max_examples=40, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=3), st.integers(0, 9))
def test_what_is_released_reads_back(columns: list[dict[str, Any]], seed: int) -> None:
    read_back(Schema.from_dict({"columns": {f"c{place}": column for place, column in enumerate(columns)}}), seed)


@pytest.mark.parametrize("missing", ["", ", missing: none"])
def test_declared_marks_of_missing_cells_are_values(missing: str) -> None:
    """Regression test: a third of the rows were read back as missing."""
    listed = ["NA", "None", "null", "ZA", *(["none"] if missing else [])]
    text = f"columns: {{C: {{values: {listed}{missing}}}, D: {{values: ['NA', 'x']}}, JOB: {{values: [0, 1]}}}}"
    read_back(Schema.from_dict(yaml.safe_load(text)), 1)


def test_a_mark_is_a_value_of_the_column_that_declares_it_alone(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("C,AGE,B\nNA,NA,NA\nZA,5,x\n")
    schema = Schema.from_dict(
        {
            "columns": {
                "C": {"values": ["NA", "ZA"]},
                "AGE": {"lower": 0, "upper": 9, "integer": True, "missing": "own"},
                "B": {"values": ["x", "y"], "missing": "y"},
            }
        }
    )
    frame = FileSource.of(str(tmp_path / "people.csv"), schema).read(schema.names)
    assert CodedTable.encode(frame, schema).codes.tolist() == [[0, schema["AGE"].bins, 1], [1, 5, 0]]
