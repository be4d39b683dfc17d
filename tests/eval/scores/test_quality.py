"""Tests of the report for notebooks, which has the same numbers as `score` and is marked as internal."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from equistrata.errors import InputError
from equistrata.eval.scores.quality import quality_report
from equistrata.eval.scores.scores import score

REAL = pd.DataFrame({"S": [1, 1, 2, 2], "A": [0, 1, 0, 1], "B": [0, 1, 0, 1]})
MADE = REAL.assign(B=[1, 0, 0, 1])


def test_its_numbers(tmp_path):
    report = quality_report(REAL, MADE, ["S"])
    assert report.scores == score(REAL, MADE, ["S"])
    expected = pd.DataFrame(0.0, index=["S", "A", "B"], columns=["S", "A", "B"])
    expected.loc["A", "B"] = expected.loc["B", "A"] = 0.5  # half of the rows are in another cell
    assert np.array_equal(report.pairs, expected.loc[list(report.columns), list(report.columns)])
    report.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "internal, not to be published" in page
    assert page.count("data:image/png;base64,") == 1
    assert f"<td>{report.scores.workload3:.4f}</td>" in page
    with pytest.raises(InputError, match="exists already"):
        report.save(tmp_path / "page.html")
    with pytest.raises(InputError, match="cannot be written"):
        report.save(tmp_path / "nowhere" / "page.html")


def test_it_draws():
    report = quality_report(REAL.assign(W=1.0), MADE.assign(W=2.0), ["S"], survey_weight="W")
    first, second, third, _ = report.plot().axes
    assert [bar.get_width() for bar in first.patches] == sorted(report.scores.distance_by_column.values())
    assert [bar.get_width() for bar in second.patches] == sorted(report.scores.distance_by_stratum.values())
    assert third.get_images()[0].get_array().shape == (3, 3)
    axes = Figure().subplots()
    assert report.scores.plot(axes) is axes
    assert len(axes.patches) == 2
