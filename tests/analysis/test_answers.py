import math
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from known_relations import SCHEMA, evidence_of, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.questions import question, read_group_names
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.regression.score import score_interval
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def exactly(table, sets, sigma=1e-3):
    """Return measurements of a table with negligible noise."""
    found = [Measurement(s, table.marginal(s).astype(float), sigma) for s in sets]
    return Evidence(Strata.over(table.schema, ()), {(): found}, mechanism("mst"))


ALL = [("G",), ("R",), ("X",), ("Y",), ("Z",), ("W",), ("G", "X"), ("X", "Y"), ("Y", "Z"), ("R", "Z"), ("G", "R", "Y")]


def test_what_was_measured_is_answered_as_it_was():
    table = people(3000)
    answers, rows = Answers(exactly(table, ALL)), table.decode(np.random.default_rng(0))
    found = answers.estimate("proportion", {"Y": 1}, ["G"])
    assert found["estimate"].to_numpy() == pytest.approx(rows.groupby("G")["Y"].mean(), abs=1e-4)
    assert found["basis"].eq("measured").all()
    mean = answers.estimate("mean", "X", where={"G": "two"})
    assert mean["estimate"][0] == pytest.approx(rows.loc[rows["G"] == 2, "X"].mean(), abs=1e-4)
    count = answers.estimate("count", "R", ["G"]).set_index(["G", "R"])["estimate"]
    assert count[1, "b"] == pytest.approx(((rows["G"] == 1) & (rows["R"] == "b")).sum(), abs=0.1)
    assert answers.estimate("count")["estimate"][0] == pytest.approx(3000, abs=0.1)
    apart = answers.estimate("difference", {"Y": 1}, ["G"]).iloc[0]
    shares = rows.groupby("G")["Y"].mean()
    assert apart["estimate"] == pytest.approx(shares[2] - shares[1], abs=1e-4)
    assert apart["p_value"] < 1e-6
    assert answers.estimate("ratio", {"Y": 1}, ["G"])["estimate"][0] == pytest.approx(shares[2] / shares[1], abs=1e-3)


def test_a_ratio_to_what_may_be_nothing_has_no_upper_end():
    table, rng = people(300), np.random.default_rng(0)
    noisy = [Measurement(s, table.marginal(s) + rng.normal(0, 90.0, table.marginal(s).shape), 90.0) for s in ALL]
    found = Answers(Evidence(Strata.over(SCHEMA, ["G"]), {(): noisy}, mechanism("mst"))).estimate(
        "ratio", {"Y": 1}, ["G"]
    )
    assert (found["lower"] >= 0).all()
    assert np.isinf(found["upper"]).all()


def test_a_sample_of_a_population_has_the_usual_standard_error():
    answers = Answers(exactly(people(3000), ALL))
    found = answers.estimate("proportion", {"Y": 1}, population=True).iloc[0]
    usual = math.sqrt(found["estimate"] * (1 - found["estimate"]) / 3000)
    assert found["standard_error"] == pytest.approx(usual, rel=0.02)
    twice = answers.estimate("proportion", {"Y": 1}, population=True, design_effect=4.0).iloc[0]
    assert twice["standard_error"] == pytest.approx(2 * usual, rel=0.03)
    mean = answers.estimate("mean", "X", population=True).iloc[0]
    x = people(3000).column("X")
    assert mean["standard_error"] == pytest.approx(x.std() / math.sqrt(3000), rel=0.02)


def test_rows_of_a_unit_are_sampled_and_held_out_together():
    table = people(3000)
    homes = CodedTable(table.codes, replace(table.schema, unit=Unit("HOME", 4)))
    for of, by in (("proportion", {"Y": 1}), ("mean", "X")):
        each, unit, told = (
            Answers(exactly(rows, ALL)).estimate(of, by, population=True, design_effect=effect).iloc[0]
            for rows, effect in ((table, None), (homes, None), (homes, 1.0))
        )
        assert unit["standard_error"] == pytest.approx(2 * each["standard_error"], rel=0.03)
        assert told["standard_error"] == pytest.approx(each["standard_error"])
    held = (exactly(rows, ALL) for rows in (table, homes))
    held = [Evidence(each.strata, each.measured, each.mechanism, held_out=0.25) for each in held]
    one, two = (Answers(each).estimate("count", {"Y": 1}).iloc[0] for each in held)
    assert two["standard_error"] == pytest.approx(2 * one["standard_error"], rel=0.03)


def test_rows_held_out_are_part_of_the_answer_and_of_its_error():
    table = people(3000)
    held = exactly(table, ALL)
    held = Evidence(held.strata, held.measured, held.mechanism, held_out=0.25)
    found = Answers(held).estimate("count", {"Y": 1}).iloc[0]
    assert found["estimate"] == pytest.approx(int(table.column("Y").sum()) / 0.75, abs=0.1)
    assert found["standard_error"] == pytest.approx(math.sqrt(0.25 * table.column("Y").sum()) / 0.75, rel=0.01)


def test_three_columns_that_were_never_together_are_refused_and_two_are_implied():
    answers = Answers(exactly(people(3000), ALL), count=4)
    assert answers.estimate("proportion", {"Z": 1}, ["X"])["basis"].eq("implied").all()
    with pytest.raises(
        InputError, match=r"the release did not measure X, Y, Z all together, and smaller sets.*ask about two of them"
    ):
        answers.estimate("proportion", {"Z": 1}, ["X", "Y"])


@pytest.mark.parametrize(
    ("sets", "strata", "asked", "known"),
    [
        (ALL, (), ("X", "Y"), "measured"),
        (ALL, (), ("X", "Z"), "implied"),
        ([*ALL, ("G", "R")], ("G", "R"), ("G", "Z"), "implied"),
        ([*ALL, ("G", "R"), ("G", "Z")], ("G", "R"), ("G", "Z"), "measured"),
    ],
)
def test_groups_of_a_pair_that_was_not_measured_are_compared_without_a_p_value(sets, strata, asked, known):
    """The pair is not measured, so the p-value would only be a test of the model."""
    table = people(3000)
    found = [Measurement(s, table.marginal(s).astype(float), 1.0) for s in sets]
    answers = Answers(Evidence(Strata.over(SCHEMA, strata), {(): found}, mechanism("mst")), count=4)
    by, of = asked
    found = answers.estimate("difference", {of: 1}, [by])
    assert found["basis"].eq(known).all()
    assert np.isfinite(found[["estimate", "lower", "upper"]].to_numpy()).all()
    assert found["p_value"].isna().all() == (known == "implied")


@pytest.mark.parametrize(("codes", "basis"), [((0, 1), "measured"), ((1, 2), "implied")])
def test_groups_of_which_some_were_measured_are_compared_by_the_weaker_basis(codes, basis):
    table = people(3000)
    sets = [s for s in ALL if "Y" not in s]  # otherwise, Y of the third group is the difference from the total
    rows = table.marginal(("R", "Y")).astype(float)
    found = [Measurement(s, table.marginal(s).astype(float), 1.0) for s in sets]
    found += [Measurement(("Y",), rows[code], 1.0, where=(("R", code),)) for code in codes]
    answers = Answers(Evidence(Strata.over(SCHEMA, ["R"]), {(): found}, mechanism("mst")), count=4)
    apart = answers.estimate("difference", {"Y": 1}, ["R"]).set_index("R").loc["b"]
    assert apart["basis"] == basis
    shares = rows[:, 1] / rows.sum(1)
    if basis == "measured":
        assert apart["estimate"] == pytest.approx(shares[1] - shares[0], abs=0.02)
    else:
        assert apart["lower"] <= shares[1] - shares[0] <= apart["upper"]


def test_four_columns_that_were_never_together_are_refused_though_each_three_were():
    columns = ("X", "Y", "Z", "W")
    answers = Answers(exactly(people(3000), [*ALL, *combinations(columns, 3)]), count=4)
    assert answers.estimate("proportion", {"Z": 1}, ["X", "Y"])["basis"].eq("measured").all()
    with pytest.raises(
        InputError, match=r"the release did not measure X, Y, Z, W all together, and smaller sets.*ask about fewer"
    ):
        answers.estimate("proportion", {"Z": 1}, ["X", "Y", "W"])
    together = Answers(exactly(people(3000), [*ALL, columns]), count=4)
    assert together.estimate("proportion", {"Z": 1}, ["X", "Y", "W"])["basis"].eq("measured").all()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("mode", "X"), "statistic"),
        (("mean", "R"), "column 'R' has names instead of numbers; ask for proportions"),
        (("mean", {"X": 1}), "a mean needs one numeric column"),
        (("proportion", "Q"), "the release has no column 'Q'; it has G, R, X"),
        (("proportion", {"R": "d"}), "column 'R' has no value .*; choose among a, b, c"),
        (("proportion",), "a proportion needs a column or a value"),
        (("difference", {"Y": 1}), "a comparison needs groups"),
        (("quantile", "X"), "a quantile needs one numeric column"),
        (("logit", "Y", ("X",)), "a logistic regression needs an outcome of 0 or 1"),
        (("ols", "X"), "a regression needs one outcome in 'of', and other columns in 'by'"),
        (("count", None, ("G", "G")), "a column is given twice"),
        (("count", 5), "'of' is 5; give a column name"),
        (("ols", ["X"], ("G",)), "'of' is .'X'.; give a column name"),
        (("proportion", {"Y": 1}, (["G"],)), "'by' is .*; give names of columns"),
        (("proportion", {"Y": 1}, (), "G=1"), "'where' is 'G=1'; give"),
        (("count", None, (), None, 0.95, True, "much"), "design_effect is 'much', but must be a finite number"),
    ],
)
def test_a_question_that_makes_no_sense_gets_a_sentence(asked, sentence):
    answers = Answers(exactly(people(300), ALL))
    with pytest.raises(InputError, match=sentence):
        answers.estimate(*asked)


def test_groups_are_named_by_one_name_several_or_none():
    assert [read_group_names(by) for by in (None, (), "G", ["G", "R"])] == [(), (), ("G",), ("G", "R")]
    with pytest.raises(InputError, match="'by' is 3; give names of columns"):
        read_group_names(3)


def test_more_answers_or_coefficients_than_memory_holds_are_refused(monkeypatch):
    """Regression test: a question about 1,500 months and 1,000 bins used to need an array of 2 × 10¹² numbers."""
    answers = Answers(exactly(people(300), ALL))
    monkeypatch.setattr("equistrata.analysis.questions.MOST_SUMS", 20)
    with pytest.raises(InputError, match="24 answers from a table of R, X, Y are too many; ask only for some values"):
        answers.estimate("proportion", "X", ["R", "Y"])
    monkeypatch.setattr("equistrata.analysis.regression.design.MOST_TERMS", 4)
    with pytest.raises(
        InputError, match="a regression on X, R has 6 coefficients, but the maximum is 4; leave out columns"
    ):
        answers.estimate("logit", {"Y": 1}, ["X", "R"])


@pytest.mark.parametrize(("releases", "within"), [(15, 0.025), pytest.param(40, 0.015, marks=pytest.mark.slow)])
def test_measured_intervals_cover_what_the_rows_hold(releases, within):
    """Check that 95 % intervals cover 95 % of the measured cells with at least 200 rows.

    There are 2 × 3 strata and ε is 1. The cells of a release share noise. For forty releases and a tolerance of 1.5 %,
    the probability of a false alarm is less than 0.001.
    """
    inside, total = 0, 0
    for seed in range(releases):
        table = people(6000, seed)
        answers = Answers(evidence_of(table, 1.0, ["G", "R"], seed=seed))
        for of in ("X", "Y", "Z", "W"):
            asked = question(SCHEMA, "proportion", of, ["G", "R"])
            counts = table.marginal(asked.columns).ravel()
            rows = asked.bottom @ counts
            found = answers.estimate("proportion", of, ["G", "R"])
            real = asked.top @ counts / np.maximum(rows, 1)
            large = (rows >= 200) & (found["basis"] == "measured").to_numpy()
            inside += int(((found["lower"] <= real) & (real <= found["upper"]))[large].sum())
            total += int(large.sum())
    assert total > 37 * releases
    assert inside / total == pytest.approx(0.95, abs=within)


@pytest.mark.parametrize(("releases", "within"), [(20, 0.075), pytest.param(60, 0.045, marks=pytest.mark.slow)])
def test_linear_coefficients_cover_those_of_the_rows(releases, within):
    """Check that 95 % intervals cover 95 % of the coefficients.

    Sixty releases have about 250 coefficients. The other coefficients are refused because their columns were not
    measured with the outcome. A false alarm occurs in fewer than 1 in 500 runs.
    """
    asked = Regression.of(SCHEMA, "ols", "X", ["G", "R", "Y"])
    hits = []
    for seed in range(releases):
        table = people(6000, seed)
        found = Answers(evidence_of(table, 2.0, seed=seed), count=6).estimate("ols", "X", ["G", "R", "Y"])
        real = asked.coefficients(table.marginal(asked.columns).astype(float).ravel())
        hits += ((found["lower"] <= real) & (real <= found["upper"]))[found["basis"] != "refused"].tolist()
    assert len(hits) > 0.6 * 6 * releases
    assert np.mean(hits) == pytest.approx(0.95, abs=within)


def test_coefficients_of_what_was_not_measured_with_the_outcome_are_refused():
    """If a pair is not measured, the coefficient in the model is always 0."""
    table = people(3000)
    answers = Answers(exactly(table, [s for s in ALL if s != ("X", "Y")]), count=4)
    found = answers.estimate("ols", "X", ["G", "Y"]).set_index("term")
    assert found.index[found["basis"] == "implied"].tolist() == ["G=2"]
    assert found.index[found["basis"] == "refused"].tolist() == ["(intercept)", "Y=1"]
    assert (found["estimate"].isna() == (found["basis"] == "refused")).all()
    with pytest.raises(
        InputError, match=r"did not measure Y with X for all rows, which would affect the odds .* leave it out of 'by'"
    ):
        answers.estimate("logit", {"Y": 1}, ["G", "X"])  # log odds are not collapsible, so the odds for G depend on X
    with pytest.raises(
        InputError, match=r"did not measure W with any of the columns in 'by'.*measured pairs, which are in"
    ):
        answers.estimate("logit", {"W": 1}, ["G", "X"])


def test_a_coefficient_without_a_finite_maximum_is_refused():
    """There is no row with Z = 1 and Y = 1, so the log odds are −∞. The other coefficients are returned."""
    table = people(3000)
    y, z = (table.schema.names.index(name) for name in "YZ")
    codes = table.codes.copy()
    codes[codes[:, z] == 1, y] = 0
    table = CodedTable(codes, table.schema)
    found = Answers(exactly(table, ALL), count=4).estimate("logit", {"Y": 1}, ["X", "Z"]).set_index("term")
    assert found.index[found["basis"] == "refused"].tolist() == ["Z=1"]
    real = Regression.of(SCHEMA, "logit", {"Y": 1}, ["X", "Z"])
    settled = real.settled(table.marginal(real.columns).astype(float).ravel())
    assert [term for term, fine in zip(real.terms, settled, strict=True) if not fine] == ["Z=1"]


def test_a_group_that_may_be_empty_has_no_linear_coefficient():
    """The group has three rows and the noise has a standard deviation of 2, so its counts are mostly noise."""
    table = people(3000)
    r = table.schema.names.index("R")
    rest = np.flatnonzero(table.codes[:, r] != 2)
    table = table.take(np.sort(np.concatenate([rest, np.flatnonzero(table.codes[:, r] == 2)[:3]])))
    sets = [("R", "X"), ("R", "Y"), ("X", "Y"), ("G",), ("Z",), ("W",)]
    found = Answers(exactly(table, sets, sigma=2.0), count=4).estimate("ols", "X", ["R", "Y"]).set_index("term")
    assert found.index[found["basis"] == "refused"].tolist() == ["R=c"]
    assert np.isfinite(found.loc[["(intercept)", "R=b", "Y=1"], ["lower", "upper"]].to_numpy()).all()


@pytest.mark.parametrize(("releases", "most"), [(20, 4), pytest.param(60, 8, marks=pytest.mark.slow)])
def test_a_permuted_column_is_found_different_as_often_as_stated(releases, most):
    """W is independent of the groups, so each test rejects with probability 0.05.

    The probability of a false alarm is less than 1 in 100 for 60 tests and 1 in 300 for 20 tests.
    """
    rejected = 0
    for seed in range(releases):
        answers = Answers(evidence_of(people(4000, seed), 2.0, ["G"], seed=seed), count=6)
        rejected += answers.estimate("difference", {"W": 1}, ["G"], population=True)["p_value"][0] < 0.05
    assert rejected <= most


def test_a_planted_relation_of_three_columns_is_not_answered_with_a_narrow_wrong_interval():
    """Y is the parity of X xor Z, so no measured pair contains the relation."""
    table = people(4000)
    codes = np.array(table.codes)
    codes[:, 3] = (codes[:, 2] % 2) ^ (codes[:, 4] % 2)
    answers = Answers(exactly(type(table)(codes, SCHEMA), [s for s in ALL if len(s) < 3]), count=4)
    with pytest.raises(InputError, match="all together, and smaller sets"):
        answers.estimate("proportion", {"Y": 1}, ["X", "Z"])


def test_coefficients_do_not_rest_on_how_the_model_joins_columns_that_were_not_measured_together():
    """X and Z are independent in the data, but they are dependent in a model of the pairs (X, Y) and (Y, Z).

    At least 54 of the 60 intervals must cover the coefficient. The number was 2 when the intervals contained only the
    misfit.
    """
    asked, inside = Regression.of(SCHEMA, "logit", {"Y": 1}, ["X", "Z"]), []
    sets = [("G",), ("R",), ("X",), ("Y",), ("Z",), ("W",), ("X", "Y"), ("Y", "Z"), ("G", "X"), ("R", "Z")]
    for seed in range(10):
        table, rng = people(4000, seed), np.random.default_rng(seed)
        x, y, z = (table.schema.names.index(name) for name in "XYZ")
        codes = np.array(table.codes)
        codes[:, z] = rng.integers(0, 3, 4000)
        codes[:, y] = rng.random(4000) < 1 / (1 + np.exp(4.5 - 1.5 * codes[:, x] - 1.5 * codes[:, z]))
        table = CodedTable(codes, SCHEMA)
        found = Answers(exactly(table, sets), count=4).estimate("logit", {"Y": 1}, ["X", "Z"])
        assert found["basis"].eq("implied").all()
        real = asked.coefficients(table.marginal(asked.columns).astype(float).ravel())
        inside += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
    assert len(inside) == 60
    assert np.mean(inside) >= 0.9


def test_a_numeric_column_has_means_and_quantiles_of_its_numbers(folder):
    from equistrata.data.schema import Column, Schema
    from equistrata.data.table import CodedTable

    schema = Schema(
        "ages", (Column("AGE", lower=0, upper=39, integer=True, release="draw"), Column("S", values=(1, 2)))
    )
    rng = np.random.default_rng(0)
    ages = np.clip(rng.normal(20, 7, 4000).round(), 0, 39)
    table = CodedTable.encode(pd.DataFrame({"AGE": ages, "S": rng.integers(1, 3, 4000)}), schema)
    answers = Answers(exactly(table, [("AGE",), ("S",), ("AGE", "S")], sigma=0.5), count=4)
    mean = answers.estimate("mean", "AGE").iloc[0]
    assert mean["lower"] <= ages.mean() <= mean["upper"]
    assert mean["basis"] == "measured"
    assert answers.estimate("proportion", "AGE")["AGE"].tolist()[:3] == ["0", "1", "2"]
    for q in (0.1, 0.5, 0.9):
        found = answers.estimate("quantile", "AGE", q=q).iloc[0]
        assert found["lower"] <= np.quantile(ages, q) <= found["upper"]
        assert found["upper"] - found["lower"] <= 2


def test_independence_is_tested_on_measured_pairs_only():
    answers = Answers(evidence_of(people(6000), 2.0), count=4)
    related = answers.estimate("independence", "X", ["Y"]).iloc[0]
    assert related["p_value"] < 0.01
    assert 0 < related["lower"] < related["estimate"] < related["upper"]
    measured = [pair for pair in (("Y", "W"), ("X", "W"), ("Z", "W")) if pair not in answers.misfit.unmeasured]
    for one, other in measured:
        assert answers.estimate("independence", one, [other]).iloc[0]["p_value"] > 0.001
    few = Answers(evidence_of(people(300), 0.1), count=4)
    with pytest.raises(InputError, match="did not measure"):
        few.estimate("independence", *next((one, [other]) for one, other in few.misfit.unmeasured))
    with pytest.raises(InputError, match="give both"):
        answers.estimate("independence", "X", ["Y", "Z"])


@pytest.mark.parametrize("strata", [(), ("G",)])
def test_a_regression_with_more_cells_than_a_covariance_is_worked_out_for(monkeypatch, strata):
    monkeypatch.setattr("equistrata.analysis.uncertainty.least_squares.MOST_CELLS", 6)
    found = Answers(evidence_of(people(3000), 4.0, strata), count=4).estimate("logit", {"Y": 1}, ["X", "Z"])
    assert np.isfinite(found[["estimate", "lower", "upper"]]).all(axis=None)
    assert (found["lower"] < found["upper"]).all()


@pytest.mark.parametrize(("of", "statistic"), [("X", "difference"), ({"Y": 1}, "ratio")])
def test_differences_know_that_groups_share_noise(of, statistic):
    """The total is measured well and the groups are measured badly, so the errors of two groups are negatively
    correlated.

    The test uses 200 draws of the noise. The probability of a false alarm is less than 1 in 50. If the errors were
    independent, the coverage would be much lower.
    """
    table, rng = people(4000), np.random.default_rng(5)
    exact = Answers(exactly(table, [("G", "X"), ("G", "Y")])).estimate(statistic, of, ["G"])["estimate"][0]
    inside = []
    for _ in range(200):
        sets = {("G",): 1.0, ("X",): 1.0, ("Y",): 1.0, ("G", "X"): 60.0, ("G", "Y"): 60.0}
        found = [
            Measurement(columns, table.marginal(columns) + rng.normal(0, sigma, table.marginal(columns).shape), sigma)
            for columns, sigma in sets.items()
        ]
        answers = Answers(Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst")))
        line = answers.estimate(statistic, of, ["G"]).iloc[0]
        inside.append(line["lower"] <= exact <= line["upper"])
    assert np.mean(inside) == pytest.approx(0.95, abs=0.04)


def test_sums_over_strata_that_were_measured_one_by_one_are_as_good_as_their_parts():
    """The noise scale is 90 for all rows and 10 for each of the two strata. The standard deviation of a count over all
    rows is therefore 14.
    """
    table = people(3000)
    sets = [Measurement(s, table.marginal(s).astype(float), 90.0) for s in (("G",), ("Y",))]
    parts = table.marginal(("G", "Y")).astype(float)
    sets += [Measurement(("Y",), parts[code], 10.0, where=(("G", code),)) for code in (0, 1)]
    answers = Answers(Evidence(Strata.over(SCHEMA, ("G",)), {(): sets}, mechanism("mst")))
    found = answers.estimate("count", {"Y": 1})
    assert found["standard_error"][0] == pytest.approx((1 / 90**2 + 1 / 200) ** -0.5, rel=0.01)
    assert found["basis"][0] == "measured"


@pytest.mark.parametrize(("rows", "sigma", "ends"), [(400, 4.0, (False, False)), (25, 9.0, (True, False))])
def test_a_group_that_may_be_all_noise_has_a_logistic_coefficient_without_an_end(rows, sigma, ends):
    """The score interval has a lower end only if the group is large enough.

    For a group of 400 rows, the interval is close to a normal interval. For a group of 25 rows with a noise of nine
    rows in each count, the interval has an upper end but no lower end.
    """
    asked = Regression.of(SCHEMA, "logit", {"Y": 1}, ["R"])
    counts = np.array([[1500.0, 1500.0], [1000.0, 500.0], [rows * 2 / 3, rows / 3]]).ravel()
    rng, value = np.random.default_rng(0), asked.coefficients(counts)
    tables = [counts + rng.normal(0, sigma, 6) for _ in range(200)]
    draws = [(np.maximum(table, 0.0), asked.products(table)) for table in tables]
    known = counts, asked.products(counts)
    lower, upper = score_interval(asked, known, 2, draws, [], 0.0, 1.96)
    assert (np.isinf(lower), np.isinf(upper)) == ends
    assert lower < value[2] < upper
    if not any(ends):
        spread = np.sqrt(np.mean([(asked.coefficients(*each)[2] - value[2]) ** 2 for each in draws]))
        assert (lower, upper) == pytest.approx((value[2] - 1.96 * spread, value[2] + 1.96 * spread), rel=0.05)
    else:
        assert 0 < upper < 4
    alike = score_interval(asked, known, 2, [known], [], 0.0, 1.96)
    assert alike == (value[2], value[2])


def test_the_intercept_has_a_score_interval_as_the_other_coefficients():
    """Regression test: the search is scaled by the range of a column, and the range of the intercept's column is 0."""
    schema = people(10).schema.select(["R", "Y"])
    asked = Regression.of(schema, "logit", {"Y": 1}, ["R"])
    counts, sigma = np.array([[700.0, 300.0], [150.0, 50.0], [30.0, 20.0]]).ravel(), 4.0
    rng = np.random.default_rng(0)
    tables = [counts + rng.normal(0, sigma, 6) for _ in range(200)]
    draws = [(np.maximum(table, 0.0), asked.products(table)) for table in tables]
    value = asked.coefficients(counts)[0]
    spread = np.sqrt(np.mean([(asked.coefficients(*each)[0] - value) ** 2 for each in draws]))
    found = score_interval(asked, (counts, asked.products(counts)), 0, draws, [], 0.0, 1.96)
    assert found == pytest.approx((value - 1.96 * spread, value + 1.96 * spread), abs=0.1 * spread)


def test_a_notebook_shows_how_many_replicates_are_done(monkeypatch, capsys):
    table = people(2000)
    answers = Answers(exactly(table, ALL), count=3)
    answers.estimate("proportion", {"Y": 1}, ["W"])
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    Answers(exactly(table, ALL), count=3).estimate("proportion", {"Y": 1}, ["W"])
    assert capsys.readouterr().err == "\rreplicate 1 of 3\rreplicate 2 of 3\rreplicate 3 of 3\n"
