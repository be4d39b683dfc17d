"""Tests of the released files.

The CSV file is identical to that of pandas, and the Parquet file has the same values for all batch sizes.
"""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.flows.release.writer import row_files

SCHEMA = Schema(
    "all kinds",
    (
        Column("code", values=(1, 2, 30)),
        Column("word", values=("a", "ü", "two words", "-")),
        Column("half", values=(0.5, 1, 1e-7, 1e22)),
        Column("age", lower=0, upper=99, edges=(0, 50, 99), release="index", missing="own"),
        Column("pay", lower=0, upper=1e6, edges=(0, 10, 1e6), release="draw", missing="own"),
        Column("whole", lower=0, upper=99, edges=(0, 50, 99), release="draw", integer=True),
        Column("middle", lower=0, upper=99, edges=(0, 50, 99), release="midpoint", missing="own"),
    ),
)
QUOTED = Schema("quoted", (Column("a", values=("x,y", 'say "so"', "line\nbreak", "plain")), Column("b", values=(1, 2))))
LONE = Schema("one column", (Column("age", lower=0, upper=9, edges=(0, 5, 9), release="index", missing="own"),))


def drawn(schema, rows, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, schema.sizes, (rows, len(schema.sizes))).astype(code_dtype(schema))
    return CodedTable(codes, schema).decode(rng)


def written(folder, frames):
    with row_files(folder) as write:
        for frame in frames:
            write(frame)
    return (folder / "synthetic.csv").read_bytes(), pd.read_parquet(folder / "synthetic.parquet")


@pytest.mark.parametrize("schema", [SCHEMA, QUOTED, LONE])
@pytest.mark.parametrize("cuts", [(), (0,), (1, 30), (100,)])
def test_both_files_are_as_pandas_writes_the_whole_table(tmp_path, schema, cuts):
    whole = drawn(schema, 100)
    bounds = [0, *cuts, 100]
    csv, parquet = written(tmp_path, [whole[a:b] for a, b in pairwise(bounds)])
    assert csv == whole.to_csv(index=False, lineterminator="\n").encode()
    assert_frame_equal(parquet, whole, check_dtype=not cuts)


@given(st.lists(st.floats(allow_infinity=False), min_size=1), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_numbers_are_written_as_pandas_writes_them(tmp_path_factory, reals, wholes):
    count = min(len(reals), len(wholes))
    frame = pd.DataFrame({"real": reals[:count], "whole": wholes[:count]})
    csv, _ = written(tmp_path_factory.mktemp("numbers"), [frame])
    assert csv == frame.to_csv(index=False, lineterminator="\n").encode()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), min_size=1))
def test_texts_are_written_as_pandas_writes_them(tmp_path_factory, texts):
    frame = pd.DataFrame({"text": texts, "beside": 1})
    csv, _ = written(tmp_path_factory.mktemp("texts"), [frame])
    assert csv == frame.to_csv(index=False, lineterminator="\n").encode()


def test_a_column_that_is_empty_only_in_a_later_batch(tmp_path):
    first, second = drawn(SCHEMA, 50), drawn(SCHEMA, 50, seed=1)
    first = first[first.notna().all(axis=1)].convert_dtypes(dtype_backend="numpy_nullable")
    first["age"] = first["age"].astype("int64")
    csv, parquet = written(tmp_path, [first, second])
    assert parquet["age"].isna().sum() == second["age"].isna().sum() > 0
    assert csv.count(b"\n") == 1 + len(first) + len(second)


def test_a_release_without_rows_has_a_header(tmp_path):
    csv, parquet = written(tmp_path, [drawn(SCHEMA, 0)])
    assert csv.decode().strip() == ",".join(SCHEMA.names)
    assert list(parquet.columns) == list(SCHEMA.names)
    assert len(parquet) == 0


def test_a_frame_of_other_columns_is_not_passed_over(tmp_path):
    with row_files(tmp_path) as write:
        write(pd.DataFrame({"a": [1], "b": [1]}))
        with pytest.raises(ValueError, match="names"):
            write(pd.DataFrame({"a": [1], "c": [1]}))
