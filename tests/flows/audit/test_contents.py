"""Tests of the numbers on a page. Missing values are shown as empty cells."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.flows.audit.contents import ROWS, contents_of, means_in

SCHEMA = """
columns:
  SEX: {values: [1, 2]}
  PAY: {lower: 0, upper: 90000, integer: true, codes: {-9: refused}, missing: own}
  AGE: {lower: 0, upper: 90, edges: [0, 45, 90], release: index, missing: own}
  RENT: {lower: 0, upper: 100, edges: [0, 50, 100], missing: own}
"""


def test_absent_whole_numbers_and_absent_bins_are_empty(tmp_path):
    (tmp_path / "people.yaml").write_text(SCHEMA)
    rows = pd.DataFrame({"SEX": np.arange(400) % 2 + 1, "PAY": np.nan, "AGE": np.nan, "RENT": np.nan})
    rows.to_csv(tmp_path / "people.csv", index=False)
    source = {"source": "csv", "input": str(tmp_path / "people.csv"), "schema": str(tmp_path / "people.yaml")}
    release(
        {"evaluate": "none", "output": str(tmp_path / "out"), "epsilon": 50.0, "seed": 1, "strata": ("SEX",), **source}
    )
    table = contents_of(Release.open(tmp_path / "out")).rows
    assert len(table.rows) == ROWS
    for line in table.rows:
        assert line[0] in ("1", "2")
        assert line[1:] == ("", "", "")


def test_means_are_listed_by_what_their_columns_are_called():
    found = {"WKHP": {"coinpress": {"value": 38.0891, "lower": 37.9, "upper": 38.25, "level": 0.99}}}
    table = means_in(SimpleNamespace(private_means={"outcomes": found}, card={"called": {"WKHP": "Hours"}}))
    assert table.rows == (("Hours", "38.089", "37.9 to 38.25 (99\u00a0%)"),)
