"""Tests that the plots for notebooks show the answers of the release."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from equistrata.analysis.expected import Expected
from equistrata.analysis.release import Release


@pytest.fixture(autouse=True)
def no_screen():
    mpl.use("Agg")


@pytest.fixture
def opened(folder):
    return Release.open(folder)


def test_groups_are_sorted_by_what_is_expected_of_them(opened):
    axes = opened.plot_groups()
    worst = opened.expected_distances().groupby("SEX")["distance"].mean()
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(sorted(worst))
    assert {label.get_text() for label in axes.get_yticklabels()} == {"Male", "Female"}


def test_groups_that_may_be_noise_are_first_and_have_no_bar(opened, monkeypatch):
    monkeypatch.setattr(Expected, "covered", np.array([False, True]))
    axes = opened.plot_groups()
    assert len(axes.patches) == 1
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Female", "Male"]
    (note,) = axes.texts
    assert (note.get_text().strip(), note.xy) == ("not known", (0, 1))


@pytest.mark.parametrize("by", [(), "SEX", ["SEX", "DIS"]])
def test_a_marginal_has_the_shares_and_their_intervals(opened, by):
    found = opened.estimate("proportion", "MAR", by=by)
    axes = Figure().subplots()
    assert opened.plot_marginal("MAR", by, axes) is axes
    bars = [patch.get_width() for patch in axes.patches]
    assert sorted(bars) == pytest.approx(sorted(found["estimate"]))
    ends = np.concatenate([line.vertices[:, 0] for each in axes.collections for line in each.get_paths()])
    assert sorted(ends) == pytest.approx(sorted([*found["lower"], *found["upper"]]))
    assert "Married" in [label.get_text() for label in axes.get_yticklabels()]


def test_a_pair_is_drawn_as_shares_within_the_other(opened):
    axes = opened.plot_pair("MAR", "ESR")
    drawn = axes.get_images()[0].get_array()
    assert drawn.shape == (5, 2)
    assert np.asarray(drawn.sum(axis=0)) == pytest.approx(np.ones(2), abs=0.02)
