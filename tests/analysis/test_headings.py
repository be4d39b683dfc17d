"""Tests of columns with the same name as a column of the answers, names that contain "=", and values that look like
markup.
"""

import json

import numpy as np
import pandas as pd
import pytest
from in_process import command
from plain_release import release

from equistrata.analysis.derived import ANSWER
from equistrata.analysis.headings import IN_ANSWERS, IN_CELLS, IN_MONTHS, IN_REVISED, column_of, heading
from equistrata.analysis.release import Release
from equistrata.analysis.series.releases import SeriesOfReleases

SCHEMA = """
columns:
  estimate: {values: [a, b]}
  basis: {values: ["yes", "[/no]"]}
  upper: {lower: 0, upper: 9, integer: true}
  month: {values: [1, 2]}
  "=x=y": {values: ["=1+1", "[red]=[/]"]}
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Return the folder of a release of 2,000 rows with these columns."""
    place, rng = tmp_path_factory.mktemp("odd"), np.random.default_rng(1)
    (place / "odd.yaml").write_text(SCHEMA)
    rows = {
        "estimate": rng.choice(["a", "b"], 2000),
        "basis": rng.choice(["yes", "[/no]"], 2000),
        "upper": rng.integers(0, 10, 2000),
        "month": rng.choice([1, 2], 2000),
        "=x=y": rng.choice(["=1+1", "[red]=[/]"], 2000),
    }
    pd.DataFrame(rows).to_csv(place / "odd.csv", index=False)
    how = {"source": "csv", "input": str(place / "odd.csv"), "schema": str(place / "odd.yaml"), "seed": 1}
    release(how | {"strata": "estimate", "epsilon": 5, "output": str(place / "out"), "evaluate": "none"}, served=False)
    return place / "out"


def test_answers_name_such_columns_apart(odd):
    opened = Release.open(odd)
    found = opened.estimate("proportion", {"basis": "yes"}, "estimate")
    assert list(found) == ["estimate (column)", *ANSWER, "basis"]
    assert found["estimate (column)"].tolist() == ["a", "b"]
    apart = opened.estimate("difference", {"basis": "yes"}, "estimate")
    assert apart["estimate (column)"].tolist() == ["b"]
    assert apart["against"].tolist() == ["a"]
    shares = opened.estimate("proportion", "basis", "estimate")
    assert shares["basis (column)"].tolist() == ["yes", "yes", "[/no]", "[/no]"]
    middle = opened.estimate("quantile", "upper", "estimate")
    assert middle["estimate (column)"].tolist() == ["a", "b"]
    assert opened.estimate("independence", "basis", "estimate")["column"].tolist() == ["basis"]


def test_cells_have_each_heading_once(odd):
    cells = Release.open(odd).cells()
    assert len(set(cells.columns)) == len(cells.columns)
    assert cells["estimate"].dtype == float
    alone = cells[cells["columns"] == "estimate"]
    assert alone["estimate (column)"].tolist() == ["a", "b"]
    assert list(pd.read_csv(odd / "cells.csv")) == list(cells.columns)


def test_a_column_of_months_has_a_course(odd):
    opened = Release.open(odd)
    course = SeriesOfReleases("year", 12, {1: opened}).course("count", None, ["month"])
    assert course["month"].tolist() == [1, 1]
    assert course["month (column)"].tolist() == [1, 2]


def test_the_command_asks_for_names_with_equals_and_prints_values_as_they_are(odd, monkeypatch, capsys):
    asked = ("proportion", "=x=y=[red]=[/]", "--by", "basis", "--where", "month=1")
    code, printed, _ = command(monkeypatch, capsys, "estimate", odd, *asked[:4], "--json")
    assert code == 0
    assert [line["basis (column)"] for line in json.loads(printed)] == ["yes", "[/no]"]
    code, printed, _ = command(monkeypatch, capsys, "estimate", odd, *asked[:4])
    assert code == 0
    assert "│ [/no] " in printed
    code, printed, _ = command(monkeypatch, capsys, "estimate", odd, "proportion", "=x=y", "--where", "=x=y==1+1")
    assert code == 0
    assert "│ [red]=[/] " in printed


def test_a_column_keeps_its_name_in_a_table_that_has_no_such_column(odd):
    """Regression test: the column was renamed to `month (column)` in the answers of a single release."""
    opened = Release.open(odd)
    assert next(iter(opened.estimate("count", None, ["month"]))) == "month"
    assert "month" in opened.cells().columns


@pytest.mark.parametrize("own", [IN_ANSWERS, IN_CELLS, IN_MONTHS, IN_REVISED, IN_ANSWERS | IN_MONTHS])
def test_headings_come_back(own):
    for name in (*own, "SEX", "estimate (column)", "SEX (column)"):
        assert column_of(heading(name, own), own) == name
    assert len({heading(name, own) for name in (*own, "SEX", "SEX (column)")}) == len(own) + 2
