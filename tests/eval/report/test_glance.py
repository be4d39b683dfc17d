"""The bars of a page's first screen, and names on a phone."""

from dataclasses import replace

import pytest
from report_fixtures import public_report

from equistrata.eval.report.expected import ExpectedReport, write_expected
from equistrata.eval.report.glance import ALL, Bar, bars
from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.plots import DotPlot, Dots, log_ticks


def of(number):
    order = [f"group {place}" for place in range(number)]
    return order, {group: 0.5 / (place + 1) for place, group in enumerate(order)}, dict.fromkeys(order, 1234.4)


def test_few_groups_are_all_shown_against_the_longest():
    found = bars(*of(ALL))
    assert [bar.group for bar in found] == of(ALL)[0]
    assert found[0] == Bar("group 0", "1,234", "50\u00a0%", 100.0)
    assert found[1].width == 50.0


def test_of_many_groups_the_worst_and_the_best_are_shown_and_the_others_counted():
    found = bars(*of(20))
    assert [bar.group for bar in found] == [
        "group 0", "group 1", "group 2", "group 3", "14 in between", "group 18", "group 19",
    ]  # fmt: skip
    assert found[4] == Bar("14 in between")


def test_groups_that_are_not_off_have_no_bar():
    assert bars(["one"], {"one": 0.0}, {"one": 3.0})[0].width == 0.0


def test_no_line_runs_through_a_name_on_a_phone():
    numbers = {"one": {"a": Shown(0.9), "b": Shown(1.1)}}
    dots = Dots(numbers, "ratio", reference=1.0)
    picture = DotPlot("ratios", "Ratios", "", "", (dots,), {"a": "The first", "b": "The second"})
    names = {text.get_text(): text for axes in picture.draw(narrow=True).axes for text in axes.texts}
    assert names.keys() == {"The first", "The second"}
    assert all(name.get_bbox_patch() is not None for name in names.values())


@pytest.mark.parametrize(("low", "high"), [(1440, 1790), (0.0055, 0.0068), (0.0091, 0.0111), (9e4, 2e7), (2e5, 2.5e5)])
def test_an_axis_has_a_scale(low, high):
    """Of two groups that are served alike it had no number, nor of groups of more than 8,000 rows."""
    found = log_ticks(low, high)
    assert 2 <= len(found) <= 8
    assert low <= min(found) < max(found) <= high


@pytest.fixture
def expected():
    """A free audit's page of 360 groups, of which two are told."""
    groups = {"A 1": 17.0, "A 2": 18.0}
    return ExpectedReport(
        title="A title", agency="", contact="", release=public_report().releases[0], unit="one row", grouping="A",
        sizes=groups, distances={"Z": {"A 1": 0.2, "A 2": 0.1}}, parity_distance=13.0, counted=190.0,
        covered=frozenset(groups), called={"Z": "Zeal"}, not_measured=(), replicates=2, made="", software="",
    )  # fmt: skip


def test_where_every_group_may_be_empty_none_is_called_best_or_worst(expected):
    """The page had named one, and said below that those that may be empty, all of them, are not called so."""
    first, *others = replace(expected, covered=frozenset()).sentences
    assert first.startswith("Who is served worst is not known")
    assert not any("best or worst" in each or "Served best" in each for each in others)
    assert expected.sentences[0].startswith("Expected to be served worst: A 1 ")
    assert "Served best: A 2" in expected.sentences[1]


def test_a_sum_over_many_groups_has_no_exponent(expected):
    assert "190 the most" in expected.sentences[2]


def test_a_group_of_one_row_has_no_rows(expected, tmp_path):
    made = write_expected(replace(expected, sizes={"A 1": 1.2, "A 2": 18.0}), tmp_path)
    page = made.read_text("utf-8")
    assert "<td>1<span> row</span></td>" in page
    assert "<td>18<span> rows</span></td>" in page
