"""Tests of the files of control totals and of their errors."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.schema import Schema
from equistrata.data.survey.control_columns import codes_in
from equistrata.data.survey.controls import Controls
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

DECLARED = {
    "columns": {
        "AGE": {"lower": 0, "upper": 99, "integer": True, "codes": {-1: "refused"}, "missing": "own"},
        "BIN": {"lower": 0, "upper": 9, "edges": [0, 4, 9], "integer": True, "release": "index"},
        "SEX": {"values": [1, 2], "labels": {1: "Male", 2: "Female"}},
        "JOB": {"values": ["no", "yes", "-"], "labels": {"yes": "working", "-": "working"}},
        "PUMA": {"within": "ST", "values": {36: [100, 200], 50: [100]}},
        "BORN": {"type": "date", "format": "%Y-%m-%d", "lower": "2000-01-01", "upper": "2009-12-31"},
        "OPEN": {"values": "open", "others": "other"},
        "GROWN": {"from": "AGE", "bins": [0, 17, 99], "labels": ["child", "adult"]},
        "WORKS": {"from": "JOB", "groups": {"some": ["yes", "-"], "none": ["no"]}},
        "DECADE": {"from": "BORN", "bins": ["2000-01-01", "2004-12-31", "2009-12-31"]},
    },
    "survey_weight": {"column": "W", "upper": 100},
    "impossible": [{"AGE": ["<18"], "JOB": ["yes"]}, {"AGE": ["<18"], "JOB": ["-"]}],
}
SCHEMA = Schema.from_dict(DECLARED)
AGES = ["0 to 17", "18-64", "65 and over", "-1", ""]


def read(tmp_path, lines, schema=SCHEMA):
    (tmp_path / "totals.csv").write_text("\n".join(lines) + "\n")
    return Controls.from_file(tmp_path / "totals.csv", schema)


@pytest.mark.parametrize(
    ("cell", "codes"),
    [
        ("0 to 4", range(5)), ("0–4", range(5)), ("7", [7]), (7.0, [7]), ("85+", range(85, 100)),
        ("85 or more", range(85, 100)), ("under 5", range(5)), ("<5", range(5)), (">=98", [98, 99]),
        ("-1", [100]), ("refused", [100]), (None, [101]), ("missing", [101]),
    ],
)  # fmt: skip
def test_numbers_are_values_ranges_or_words(cell, codes):
    assert codes_in(SCHEMA["AGE"], cell) == (*codes,)


def test_values_and_derived_groups_are_read_in_any_order_and_by_their_labels(tmp_path):
    lines = ["GROWN,pop,SEX", "adult,3,Female", "child,2,2", "refused,0,1", "missing,0,1", "refused,1,2", "missing,1,2"]
    found = read(tmp_path, [*lines, "child,4,Male", "adult,5,1"])
    assert found.columns == ("AGE", "SEX")
    assert found.groups == ((*[0] * 18, *[1] * 82, 2, 3), None)
    assert found.totals.tolist() == [[4, 2], [5, 3], [0, 1], [0, 1]]
    assert found.source == "file 'totals.csv'"
    rows = pd.DataFrame({"AGE": [17, 18, None, -1], "SEX": [2, 1, 1, 2]})
    cells = found.cells_of(CodedTable.encode(rows, SCHEMA.select(["AGE", "SEX"])))
    assert found.totals.ravel()[cells].tolist() == [2, 5, 0, 1]
    assert found.codes_of(1) == {"AGE": (*range(18),), "SEX": (1,)}


def test_a_column_within_another_has_columns_of_its_own_and_parquet_is_read(tmp_path):
    pd.DataFrame({"ST": [50, 36, 36], "PUMA": [100, 200, 100], "n": [3, 2, 1]}).to_parquet(tmp_path / "totals.parquet")
    assert Controls.from_file(tmp_path / "totals.parquet", SCHEMA).totals.tolist() == [1, 2, 3]


def test_an_impossible_cell_may_be_left_out_or_be_empty(tmp_path):
    lines = ["GROWN,WORKS,population", "adult,some,1", "adult,none,2", "child,none,3"]
    rest = [f"{age},{job},0" for age in ("missing", "refused") for job in ("some", "none")]
    for more in ([], ["child,some,0"]):
        assert read(tmp_path, [*lines, *rest, *more]).people == 6
    with pytest.raises(InputError, match="people in the cell AGE=0 … 17, JOB=working, which schema 'schema' decl"):
        read(tmp_path, [*lines, *rest, "child,some,1"])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["SEX,n", "1,5"], "leaves out 'Female'; list every declared value"),
        (["SEX,n", "1,5", "1,6", "2,3"], "list the cell SEX=1 more than once"),
        (["SEX,n", "1,5", "3,6"], "row 2: the value is not one that schema"),
        (["SEX,n", "1,5", "2,-1"], "needs a non-negative number in each row, but row 2 has none"),
        (["SEX,n", "1,5", "2,"], "needs a non-negative number in each row, but row 2 has none"),
        (["SEX,n", "1,0", "2,0"], "sum to zero"),
        (["SEX,n", "1,1e308", "2,1e308"], "sum to more than a number can hold"),
        (["SEX,n,RACE", "1,5,1", "2,3,1"], "have a column 'RACE', which schema"),
        (["SEX,count,n", "1,5,1", "2,3,1"], "several can be the totals"),
        (["SEX", "1", "2"], "none can be the totals"),
        (["n", "7"], "have no column of the schema"),
        (["SEX,W", "1,5", "2,3"], "none can be the totals"),
        (["SEX,W,n", "1,5,1", "2,3,1"], "'W' of the control totals in file 'totals.csv' is the survey weight"),
        (["OPEN,n", "other,5"], "is declared as 'values: open', so its values are unknown"),
        (["BORN,n", "2000-01-01,5"], "holds dates; derive groups of dates"),
        (["JOB,n", "no,5", "working,5"], "'working' is the label of several values"),
        (["BIN,n", "0 to 3,5", "4 to 9,1"], "row 1: '0 to 3' ends inside the bin"),
        (["BIN,n", "0,5", "2,1"], "row 2: '2' is not the number of a bin, which are 0 to 1"),
        (["BIN,n", "0,5", "old,1"], "row 2: 'old' is not a range"),
        (["AGE,n", "0 to 17,5", "17 and over,1", "-1,0", ",0"], "has '17' in two ranges"),
        (["AGE,n", "0 to 17,5", "19 and over,1", "-1,0", ",0"], "leaves out '18'"),
        (["AGE,GROWN,n", "1,child,5"], "'GROWN', which are the same column"),
        (["SEX,BIN,n", "1,0,5", "1,1,5", "2,0,5"], "lack the cell SEX=Female, BIN=over 4 to 9"),
    ],
)
def test_what_is_refused_says_what_and_where(tmp_path, lines, says):
    if says.endswith("same column"):
        ages = [f"{age},{grown},1" for age in AGES for grown in ("child", "adult", "missing", "refused")]
        lines = [lines[0], *ages]
    with pytest.raises(InputError, match=re.escape(says)):
        read(tmp_path, lines)


@given(st.data())
def test_what_is_written_is_read_again(tmp_path_factory, data):
    names = data.draw(st.permutations(["AGE", "BIN", "SEX", "PUMA"]))[: data.draw(st.integers(1, 3))]
    groups, shape = [], []
    for name in names:
        column = SCHEMA[name]
        cuts = data.draw(st.sets(st.integers(1, column.bins - 1))) if column.bins > 1 else set()
        ends = np.isin(np.arange(column.size), [*cuts, *range(column.bins, column.size)]).cumsum()
        plain = not column.numeric or len({*ends}) == column.size
        groups.append(None if plain else (*ends.tolist(),))
        shape.append(column.size if plain else int(ends[-1]) + 1)
    totals = np.random.default_rng(1).gamma(0.2, 1e4, shape)
    path = tmp_path_factory.mktemp("controls") / "controls.csv"
    written = Controls((*names,), (*groups,), totals, "these").frame(SCHEMA)
    written.to_csv(path, index=False)
    found = Controls.from_file(path, SCHEMA)
    assert (found.columns, found.groups) == ((*names,), (*groups,))
    assert np.array_equal(found.totals, totals)
