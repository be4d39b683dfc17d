"""Tests of the bars at the top of a page, and of long names on a phone."""

import json
import re
from dataclasses import replace

import pytest
from report_fixtures import public_report

from equistrata.eval.report.bars import ALL, NOT_KNOWN, Bar, bars
from equistrata.eval.report.charts import log_ticks
from equistrata.eval.report.expected import ExpectedReport, write_expected


def of(number, unknown=0):
    order = [f"group {place}" for place in range(number)]
    off = {group: 0.5 / (place + 1) for place, group in enumerate(order)}
    hidden = [f"hidden {place}" for place in range(unknown)]
    return hidden, order, off, dict.fromkeys([*hidden, *order], "9 to 20")


def test_few_groups_are_all_shown_against_the_longest():
    found = bars(*of(ALL))
    assert [bar.group for bar in found] == of(ALL)[1]
    assert found[0] == Bar("group 0", "9 to 20", "50\u00a0%", 100.0)
    assert found[1].width == 50.0


@pytest.mark.parametrize(
    ("number", "unknown", "expected"),
    [
        (20, 0, ["group 0", "group 1", "group 2", "group 3", "14 in between", "group 18", "group 19"]),
        (2, 2, ["hidden 0", "hidden 1", "group 0", "group 1"]),
        (20, 90, ["90 groups", "group 0", "group 1", "group 2", "15 in between", "group 18", "group 19"]),
        (0, 2, ["hidden 0", "hidden 1"]),
    ],
)
def test_groups_that_are_not_known_come_first_and_of_many_some_are_counted(number, unknown, expected):
    found = bars(*of(number, unknown))
    assert [bar.group for bar in found] == expected
    assert all((bar.off == NOT_KNOWN) == (bar.width == 0) for bar in found if bar.off)


def test_groups_that_are_not_off_have_no_bar():
    assert bars((), ["one"], {"one": 0.0}, {"one": "3"})[0].width == 0.0


@pytest.mark.parametrize(("low", "high"), [(1440, 1790), (0.0055, 0.0068), (0.0091, 0.0111), (9e4, 2e7), (2e5, 2.5e5)])
def test_an_axis_has_a_scale(low, high):
    """Regression test: there were no numbers on the axis if the values of the groups are similar or if the groups have
    more than 8,000 rows.
    """
    found = log_ticks(low, high)
    assert 2 <= len(found) <= 8
    assert low <= min(found) < max(found) <= high


@pytest.fixture
def expected():
    """Return the report of a free audit with 360 groups, of which two are shown."""
    groups = {"A 1": 17.0, "A 2": 18.0}
    return ExpectedReport(
        title="A title", agency="", contact="", release=public_report().releases[0], unit="one row", grouping="A",
        sizes=groups, limits={"A 1": (9.2, 25.1), "A 2": (0.0, 40.3)}, distances={"Z": {"A 1": 0.2, "A 2": 0.1}},
        parity_distance=13.0, counted=190.0,
        covered=frozenset(groups), called={"Z": "Zeal"}, not_measured=(), replicates=2, made="", software="",
    )  # fmt: skip


def test_the_largest_expected_error_is_named_with_the_interval_of_the_group_s_rows(expected):
    assert expected.opening == [
        "The largest expected error is that of A 1 (10 to 25 rows): its released distributions are expected to be off "
        "by 20\u00a0%, averaged over columns, and by 20\u00a0% in Zeal."
    ]
    assert not any("best" in each or "worst" in each for each in expected.sentences)


@pytest.mark.parametrize("covered", [{"A 2"}, set()])
def test_groups_that_may_be_noise_come_first_as_not_known_everywhere(expected, covered, tmp_path):
    """Regression test for groups that were at the end of the page, so that the worst group was not correct."""
    report = replace(expected, covered=frozenset(covered))
    first, *others = report.opening
    named = "A 1 (10 to 25 rows)" + ("" if covered else "; A 2 (fewer than 41 rows)")
    assert first.startswith(f"The error is not known for {2 - len(covered)} of 2 groups, because")
    assert first.endswith(f"{named}.")
    assert [each.startswith("Only A 2 (fewer than 41 rows) can be judged: ") for each in others] == [True] * len(
        covered
    )
    assert report.order[0] == report.bars[0].group == "A 1"
    assert report.bars[0].off == NOT_KNOWN
    page = write_expected(report, tmp_path).read_text("utf-8")
    for row in re.findall(r"<tr><th scope=.row.>A 1</th>.*?</tr>", page):
        assert "not known" in row
        assert "20\u00a0%" not in row
    document = json.loads((tmp_path / "expected.json").read_text("utf-8"))
    assert document["unknown"] == [name for name in ("A 1", "A 2") if name not in covered]
    assert (tmp_path / "expected.csv").read_text("utf-8").splitlines()[1].startswith("A 1,17,9,25,no,Z,0.2")


@pytest.mark.parametrize("private", [True, False])
def test_a_release_with_seeded_noise_is_called_not_private_and_caveats_stand_by_the_price(expected, tmp_path, private):
    """Such a page had promised its ε."""
    release = replace(expected.release, private=private, caveats=("The price is a claim.",))
    page = write_expected(replace(expected, release=release), tmp_path).read_text("utf-8")
    assert ("Not private:" in page) == (not private)
    assert "δ = 1e-9. The price is a claim.</dd>" in page


def test_a_sum_over_many_groups_has_no_exponent(expected):
    assert "the maximum is 190." in expected.details[0]
