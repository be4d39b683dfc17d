"""Tests of correlations and of regressions with interactions. An error must be raised if the columns are not measured
together.
"""

import numpy as np
import pytest
from known_relations import SCHEMA, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.regression.design import Regression, interactions
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

ALONE = [(name,) for name in "GRXYZW"]


def answers_of(table, sets, strata=(), sigma=1e-3):
    found = [Measurement(s, table.marginal(s).astype(float), sigma) for s in [*ALONE, *sets]]
    return Answers(Evidence(Strata.over(SCHEMA, strata), {(): found}, mechanism("mst")), count=4)


def crossed(rows=6000):
    """Return rows in which the effect of X on Y has the opposite sign in the two groups of G."""
    rng = np.random.default_rng(3)
    table = people(rows)
    codes = table.codes.copy()
    g, x = (codes[:, SCHEMA.names.index(name)] for name in "GX")
    codes[:, SCHEMA.names.index("Y")] = rng.random(rows) < np.where(g == 0, 0.2 + 0.2 * (x > 1), 0.7 - 0.3 * (x > 1))
    return CodedTable(codes, SCHEMA)


@pytest.mark.parametrize(("kind", "of"), [("logit", {"Y": 1}), ("ols", "X")])
@pytest.mark.parametrize("strata", [(), ("G",)])
def test_coefficients_of_a_measured_interaction_are_those_of_the_rows(kind, of, strata):
    table = crossed()
    explaining = ["G*X"] if kind == "logit" else ["G*Y"]
    columns = ("G", "X", "Y")
    found = answers_of(table, [columns], strata).estimate(kind, of, explaining).set_index("term")
    asked = Regression.of(SCHEMA, kind, of, explaining)
    exact = dict(zip(asked.terms, asked.coefficients(table.marginal(columns).astype(float).ravel()), strict=True))
    assert len(found) == (8 if kind == "logit" else 4)
    assert any(":" in term for term in found.index)
    for term, value in exact.items():
        line = found.loc[term]
        assert line["estimate"] == pytest.approx(value, abs=0.05), term
        assert line["lower"] <= value <= line["upper"], term


def test_an_interaction_covers_the_rows_as_often_as_it_says():
    table, rng, inside, asked = crossed(), np.random.default_rng(0), 0, Regression.of(SCHEMA, "ols", "X", ["G*Y"])
    exact = asked.coefficients(table.marginal(("G", "X", "Y")).astype(float).ravel())
    for _ in range(60):
        sets = [*ALONE, ("G", "X", "Y")]
        noisy = [Measurement(s, table.marginal(s) + rng.normal(0, 20.0, table.marginal(s).shape), 20.0) for s in sets]
        answers = Answers(Evidence(Strata.over(SCHEMA, ()), {(): noisy}, mechanism("mst")), count=4)
        found = answers.estimate("ols", "X", ["G*Y"])
        assert found["basis"].eq("measured").all()
        inside += found["lower"].iloc[-1] <= exact[-1] <= found["upper"].iloc[-1]
    assert inside >= 53


def test_an_interaction_that_was_not_measured_with_the_outcome_is_refused():
    answers = answers_of(crossed(), [("G", "X"), ("X", "Y"), ("G", "Y")])
    with pytest.raises(InputError, match="did not measure G, X, Y all together, so its model has no interaction"):
        answers.estimate("logit", {"Y": 1}, ["G*X"])


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (["G*G"], "is not an interaction"),
        (["G*X*Z"], "is not an interaction"),
        (["G", "G"], "given twice"),
        (["G*nothing"], "no column 'nothing'"),
        (["G*Y"], "needs one outcome"),
    ],
)
def test_what_is_no_interaction_is_refused(by, says):
    with pytest.raises(InputError, match=says):
        Regression.of(SCHEMA, "logit", {"Y": 1}, by)


def test_main_effects_come_with_their_interaction_once():
    assert interactions(SCHEMA, ["X*G", "G", "Z"]) == (("X", "G", "Z"), (("G", "X"),))


def test_correlations_are_of_measured_pairs():
    table = people(3000)
    answers = answers_of(table, [("X", "Y")])
    line = answers.estimate("correlation", "X", ["Y"]).iloc[0]
    rows = [table.codes[:, SCHEMA.names.index(name)].astype(float) for name in "XY"]
    assert line["estimate"] == pytest.approx(np.corrcoef(*rows)[0, 1], abs=1e-4)
    assert line["basis"] == "measured"
    among = answers_of(table, [("G", "X", "Y")]).estimate("correlation", "X", ["Y"], where={"G": "two"}).iloc[0]
    kept = table.codes[:, SCHEMA.names.index("G")] == 1
    assert among["estimate"] == pytest.approx(np.corrcoef(rows[0][kept], rows[1][kept])[0, 1], abs=1e-4)
    with pytest.raises(InputError, match="did not measure X and W together"):
        answers.estimate("correlation", "X", ["W"])
    with pytest.raises(InputError, match="a correlation needs one column in 'of' and another column in 'by'"):
        answers.estimate("correlation", "X", ["X"])
    with pytest.raises(InputError, match="column 'R' has names instead of numbers"):
        answers.estimate("correlation", "R", ["X"])
