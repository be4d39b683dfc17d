"""Tests of questions about a parent column, for example ST if the strata are ST/PUMA."""

from contextlib import nullcontext
from math import sqrt

import numpy as np
import pandas as pd
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.axes import Axis
from equistrata.analysis.changes import check_same_values
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.model import _codes as codes_of_condition

PLACES = {36: [100, 200, 300], 50: [100], 9: [1, 2]}
STATES = (0, 0, 0, 1, 2, 2)
COLUMNS = {"PUMA": {"within": "ST", "values": PLACES}, "SEX": {"values": [1, 2]}, "JOB": {"values": [0, 1]}}
SCHEMA = Schema.from_dict({"name": "places", "columns": COLUMNS})
STRATA = Strata.over(SCHEMA, ["ST/PUMA", "SEX"])


@pytest.fixture(scope="module")
def people():
    """Return 6,000 people. The share of people with a job depends on the state and on the place."""
    rng = np.random.default_rng(0)
    place = rng.choice(6, 6000, p=[0.3, 0.2, 0.1, 0.15, 0.2, 0.05])
    job = rng.random(6000) < np.array([0.5, 0.3, 0.4, 0.6, 0.15, 0.25])[place]
    return CodedTable(np.column_stack([place, rng.integers(0, 2, 6000), job]).astype(np.uint8), SCHEMA)


def told(table, sets, strata=STRATA, seed=None, **where):
    """Return answers from measurements of a table.

    Each set contains the columns, the noise scale, and True if the places are measured by state. If there is no seed,
    the measurements have no noise.
    """
    rng, found = np.random.default_rng(seed), []
    for columns, sigma, by_state in sets:
        groups = tuple(STATES if by_state and name == "PUMA" else None for name in columns)
        blank = Measurement(columns, np.zeros((1,) * len(columns)), sigma, groups)
        values = blank.merged(table.marginal(columns)).astype(float)
        noise = 0.0 if seed is None else rng.normal(0, sigma, values.shape)
        found.append(Measurement(columns, values + noise, sigma, groups))
    return Answers(Evidence(strata, {(): found}, mechanism("mst")), count=3)


def frame_of(table):
    found = pd.DataFrame(np.array(table.codes), columns=["PUMA", "SEX", "JOB"])
    return found.assign(ST=np.array([36, 50, 9])[np.array(STATES)[found["PUMA"]]], SEX=found["SEX"] + 1)


def test_sizes_by_state_are_measured_with_the_noise_of_their_places(people):
    """If only the places are measured, the variance of a state is the sum of the variances of its places."""
    answers, rows = told(people, [(("PUMA", "SEX"), 10.0, False)]), frame_of(people)
    found = answers.estimate("count", by=["ST"]).set_index("ST")
    assert found["basis"].eq("measured").all()
    assert found["estimate"].to_dict() == pytest.approx(rows["ST"].value_counts().to_dict())
    assert found["standard_error"].to_dict() == pytest.approx({36: sqrt(600), 50: sqrt(200), 9: sqrt(400)})
    both = told(people, [(("PUMA", "SEX"), 10.0, False), (("PUMA", "SEX"), 5.0, True)])
    found = both.estimate("count", by=["ST", "SEX"]).set_index(["ST", "SEX"])
    assert found["estimate"].to_dict() == pytest.approx(rows.groupby(["ST", "SEX"]).size().to_dict())
    assert found.loc[(36, 2), "standard_error"] == pytest.approx((1 / 300 + 1 / 25) ** -0.5)
    assert found.loc[(50, 1), "standard_error"] == pytest.approx((1 / 100 + 1 / 25) ** -0.5)


def test_intervals_by_state_cover_as_they_say(people):
    """The test uses 60 draws of eight numbers. The expected coverage is .95, with a standard deviation of .014.

    If the coverage must be at least .90, the probability of a false alarm is 0.001.
    """
    rows, inside = frame_of(people), []
    real = rows.groupby("ST")["JOB"].mean()
    apart = (real - real[36]).to_dict()
    for seed in range(60):
        sets = [(("PUMA", "SEX"), 12.0, False), (("PUMA", "JOB"), 20.0, True), (("JOB",), 15.0, False)]
        answers = told(people, sets, seed=seed)
        asked = (("count", None, rows["ST"].value_counts()), ("proportion", {"JOB": 1}, real))
        for statistic, of, truth in asked:
            found = answers.estimate(statistic, of, ["ST"])
            assert found["basis"].eq("measured").all()
            wanted = found["ST"].map(truth)
            inside += ((found["lower"] <= wanted) & (found["upper"] >= wanted)).tolist()
        found = answers.estimate("difference", {"JOB": 1}, ["ST"])
        wanted = found["ST"].map(apart)
        inside += ((found["lower"] <= wanted) & (found["upper"] >= wanted)).tolist()
    assert 0.90 <= np.mean(inside) <= 0.99


def test_a_state_is_a_condition_a_value_and_a_group(people):
    answers, rows = told(people, [(("PUMA", "SEX"), 10.0, False), (("PUMA", "JOB"), 5.0, True)]), frame_of(people)
    within = answers.estimate("count", by=["PUMA"], where={"ST": 36})
    assert within["PUMA"].tolist() == ["36/100", "36/200", "36/300"]
    assert within["estimate"].tolist() == pytest.approx(rows.loc[rows["ST"] == 36, "PUMA"].value_counts().sort_index())
    both = answers.estimate("count", {"SEX": 2}, where={"ST": [36, "9"]})["estimate"][0]
    assert both == pytest.approx(((rows["SEX"] == 2) & (rows["ST"] != 50)).sum())
    assert answers.estimate("count", "ST")["ST"].tolist() == [36, 50, 9]
    share = answers.estimate("proportion", "ST", ["SEX"]).set_index(["SEX", "ST"])["estimate"]
    assert share[1, 50] == pytest.approx((rows.loc[rows["SEX"] == 1, "ST"] == 50).mean())
    assert answers.estimate("independence", "JOB", ["ST"])["p_value"][0] < 0.01


def test_what_was_measured_by_state_is_not_measured_by_place(people):
    """Regression test: the pair was treated as measured, so the intervals did not contain the error of the model."""
    answers, rows = told(people, [(("PUMA", "SEX"), 10.0, False), (("PUMA", "JOB"), 5.0, True)]), frame_of(people)
    assert ("PUMA", "JOB") in answers.misfit.unmeasured
    found = answers.estimate("proportion", {"JOB": 1}, ["PUMA"])
    assert found.loc[found["PUMA"] != "50/100", "basis"].eq("implied").all()  # this place is the only one of its state
    real = rows.groupby("PUMA")["JOB"].mean()
    assert ((found["lower"] <= real) & (found["upper"] >= real)).all()
    assert answers.estimate("proportion", {"JOB": 1}, ["ST"])["basis"].eq("measured").all()


def test_a_pair_that_was_measured_at_no_level_is_implied_by_state(people):
    found = told(people, [(("PUMA", "SEX"), 10.0, False), (("JOB",), 5.0, False)]).estimate("mean", "JOB", ["ST"])
    assert found["basis"].eq("implied").all()
    assert (found["upper"] - found["lower"] > 0.1).all()


def test_strata_that_were_measured_one_by_one_add_up_to_states(people):
    found, rows = {}, frame_of(people)
    for key, part in STRATA.partition(people).items():
        found[key] = [Measurement(("JOB",), part.marginal(("JOB",)).astype(float), 4.0)]
    answers = Answers(Evidence(STRATA, found, mechanism("mst")), count=3)
    table = answers.estimate("count", {"JOB": 1}, ["ST"]).set_index("ST")
    assert table["basis"].eq("measured").all()
    assert table["estimate"].to_dict() == pytest.approx(rows[rows["JOB"] == 1].groupby("ST").size().to_dict())
    assert table["standard_error"].to_dict() == pytest.approx({36: 4 * sqrt(6), 50: 4 * sqrt(2), 9: 8.0})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            ("count", None, ["ST", "PUMA"]),
            "ST and PUMA are levels of 'PUMA', and the finest level determines the others; only give the finest level",
        ),
        (("count", None, [], {"ST": 99}), r"column 'ST' has no value \[99\]; choose among 36, 50, 9"),
        (("logit", {"JOB": 1}, ["ST"]), "a regression cannot use 'ST', because a column within it determines it"),
        (("proportion", {"JOB": 1}, ["ST", "SEX"]), "the release did not measure ST, SEX, JOB all together"),
    ],
)
def test_what_cannot_be_asked_is_said_by_its_own_name(people, asked, message):
    answers = told(people, [(("PUMA", "SEX"), 10.0, False), (("PUMA", "JOB"), 5.0, True)])
    with pytest.raises(InputError, match=message):
        answers.estimate(*asked)


def test_changes_by_state_need_the_same_states():
    """Regression test: the values of a parent column were not compared."""
    others = Schema.from_dict({"columns": COLUMNS | {"PUMA": {"within": "ST", "values": {36: [100], 25: [7]}}}})
    check_same_values(SCHEMA, SCHEMA, "ST")
    with pytest.raises(InputError, match="column 'ST' has different values in the two releases"):
        check_same_values(SCHEMA, others, "ST")


DATED = Schema.from_dict(
    {
        "name": "dated",
        "columns": {
            "SINCE": {"type": "date", "lower": "2019-03-01", "upper": "2021-12-31", "every": "month"},
            "SEX": {"values": [1, 2]},
        },
    }
)


def dated(seed=None):
    """Return 9,000 people by month and sex, measured with σ = 12, with the month of each person."""
    rng = np.random.default_rng(0)
    month = np.minimum(rng.geometric(0.06, 9000) - 1, DATED["SINCE"].size - 1)
    sex = rng.random(9000) < 0.3 + 0.01 * month
    table = CodedTable(np.column_stack([month, sex]).astype(np.uint8), DATED)
    strata = Strata.over(DATED, ["SEX"])
    return told(table, [(("SEX", "SINCE"), 12.0, False)], strata, seed), month + 2, sex


def test_years_and_quarters_of_months_are_answered():
    """Regression test: the year was refused if the bins of the column are months."""
    answers, month, sex = dated()
    year, quarter = month // 12, month // 3
    found = answers.estimate("proportion", {"SINCE": "2020"}, ["SEX"])
    assert found["basis"].eq("measured").all()
    assert found["estimate"].tolist() == pytest.approx([(year[sex == s] == 1).mean() for s in (0, 1)])
    for of in ({"SINCE": ["2020-Q1", "2020-Q3"]}, {"SINCE": ["2020-01 to 2020-03", "2020Q3"]}):
        share = answers.estimate("proportion", of)["estimate"][0]
        assert share == pytest.approx(np.isin(quarter, [4, 6]).mean())
    by_year = answers.estimate("proportion", {"SEX": 2}, ["SINCE:year"])
    assert by_year["SINCE:year"].tolist() == ["2019", "2020", "2021"]
    assert by_year["estimate"].tolist() == pytest.approx([sex[year == y].mean() for y in range(3)])
    counts = answers.estimate("count", "SINCE:quarter", where={"SINCE:year": "2021"})
    second = counts.set_index("SINCE:quarter").loc["2021-Q2", "estimate"]
    assert second == pytest.approx((quarter == 9).sum())
    by_month = answers.estimate("count", by=["SINCE"], where={"SINCE:quarter": "2019-Q2"})
    assert by_month["SINCE"].tolist() == ["2019-04", "2019-05", "2019-06"]
    assert by_month["estimate"].sum() == pytest.approx((quarter == 1).sum())
    of_2020 = answers.estimate("proportion", {"SEX": 2}, ["SINCE:quarter"], where={"SINCE": "2020"})
    assert of_2020["SINCE:quarter"].tolist() == ["2020-Q1", "2020-Q2", "2020-Q3", "2020-Q4"]
    check_same_values(DATED, DATED, "SINCE:year")


def test_intervals_by_year_cover_as_they_say():
    """The test uses 60 draws of six shares. The expected coverage is .95, with a standard deviation of .015.

    The errors of the years are not independent because of the noise. The coverage must be at least .89.
    """
    inside = []
    for seed in range(60):
        answers, month, sex = dated(seed)
        found = answers.estimate("proportion", {"SEX": 2}, ["SINCE:year"])
        real = [sex[month // 12 == y].mean() for y in range(3)]
        inside += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
        found = answers.estimate("proportion", "SINCE:year")
        real = [(month // 12 == y).mean() for y in range(3)]
        inside += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
    assert 0.89 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize(
    ("of", "by", "match"),
    [
        ({"SINCE": "2022"}, [], "'SINCE' has dates from 2019-03-01 to 2021-12-31, so none are in 2022"),
        ({"SINCE": "2020-02-15 to 2020-04"}, [], "the bin 2020-02 is only partly in 2020-02-15 to 2020-04"),
        ({"SINCE": "spring"}, [], "'SINCE' has no value .'spring'."),
        ({"SINCE": 2020}, [], "'SINCE' has no value .2020."),
        ({"SEX": 2}, ["SINCE:week"], "dates of 'SINCE' can be grouped by month, quarter, year, not by 'week'"),
        ({"SEX": 2}, ["SEX:year"], "no column 'SEX:year'"),
        ({"SEX": 2}, ["SINCE", "SINCE:year"], "are levels of 'SINCE'"),
    ],
)
def test_periods_that_bins_do_not_make_up_are_refused(of, by, match):
    with pytest.raises(InputError, match=match):
        dated()[0].estimate("proportion", of, by)


def scale(**more):
    spec = {"lower": 1, "upper": 5, "integer": True, "codes": {-9: "refused"}, "missing": "own"}
    return Axis.of(Schema.from_dict({"columns": {"Q": spec | more}}), "Q")


def test_a_number_is_the_one_that_is_released_and_not_the_place_of_its_bin():
    """Regression test: the number 5 was used as the index of a bin. This is the index of the value -9."""
    for one, five, refused in ((1, 5, -9), ("1", "5", "-9"), (1.0, np.int64(5), "refused"), (np.float64(1), "5", -9.0)):
        assert [scale().codes_of(each) for each in (one, five, refused)] == [[0], [4], [5]]
    for no in (0, "0", 6, "six", 1.5, True):
        with pytest.raises(
            InputError, match=r"has no value .*; choose among 1, 2, 3, 4, 5, refused, missing, or give a"
        ):
            scale().codes_of(no)
    assert scale(release="index", edges=[0.5, 2.5, 5.5]).codes_of([0, "1", -9]) == [0, 1, 2]
    assert scale(release="midpoint", edges=[0.5, 2.5, 5.5], integer=False).codes_of([1.75]) == [0]


def test_ranges_are_asked_for_where_bins_lie_within_them():
    assert [scale().codes_of(each) for each in ("4-5", ">=4", "<2", ["1", ">4"])] == [[3, 4], [3, 4], [0], [0, 4]]
    weights = {"lower": 35, "upper": 42, "decimals": 1, "integer": False}
    first = scale(**weights).codes_of("36.8")
    assert scale(**weights).codes_of("36.8-36.9") == [*first, first[0] + 1]
    assert scale(**weights).codes_of(36.8) == first
    wide = scale(upper=99, edges=[0, 17, 39, 64, 99])
    assert wide.codes_of(">39") == [2, 3]
    assert wide.codes_of("over 39 to 64") == [2]
    for part in (">50", 40, "18-30"):
        with pytest.raises(InputError, match=r"column 'Q': the bin .* is only partly in .*; ask for a range"):
            wide.codes_of(part)


LABELLED = Schema.from_dict({"columns": {
    "RACE": {"values": [1, 2, 3], "labels": {1: "Other", 2: "White", 3: "Other"}},
    "KIDS": {"values": [1, 2, 3, 4], "labels": {1: "0", 2: "1", 3: "2", 4: "3 or more"}},
    "PLACE": {"values": ["a", "b", "c"], "labels": {"a": "b", "c": "c"}},
    "PAY": {"lower": 0, "upper": 5, "integer": True, "codes": {-8: "refused", -9: "refused", -7: "2"}},
}})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "asked", "codes"),
    [
        ("RACE", "Other", [0, 2]),  # a regression test: only the last code was used
        ("RACE", ["Other", 3, "1"], [0, 2]),
        ("RACE", "3", [2]),
        ("KIDS", 1, [0]),
        ("KIDS", "3 or more", [3]),
        ("KIDS", "4", [3]),
        ("KIDS", "1", None),
        ("KIDS", "0", None),
        ("PLACE", "c", [2]),
        ("PLACE", "a", [0]),
        ("PLACE", "b", None),
        ("PAY", "refused", [6, 7]),
        ("PAY", "3", [3]),
        ("PAY", "2", None),
        ("PAY", 2, [2]),
    ],
)
def test_a_label_is_all_of_its_codes_and_what_may_be_a_value_is_refused(name, asked, codes):
    """Estimates and conditions for sampling must use the same codes."""
    if codes is None:
        with pytest.raises(
            InputError, match=f"column '{name}': '.' is ambiguous, because it is a value and also the label of value"
        ):
            Axis.of(LABELLED, name).codes_of(asked)
        with pytest.raises(InputError, match="label of value") if name != "PAY" else nullcontext():
            codes_of_condition(LABELLED, name, asked)
        return
    assert Axis.of(LABELLED, name).codes_of(asked) == codes
    if name != "PAY":  # a condition on PAY uses the index of the bin
        assert sorted(set(codes_of_condition(LABELLED, name, asked))) == codes
