"""Tests of answers from the model: Student's quantile with few replicates, and columns that were measured in groups of
bins.
"""

import numpy as np
import pandas as pd
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases.implied import ModelErrors
from equistrata.analysis.bases.misfits import misfit_parts
from equistrata.analysis.questions import question
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import misfit_variance
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SCHEMA = Schema("ages", (Column("AGE", lower=0, upper=99, integer=True, release="draw"), Column("S", values=(1, 2, 3))))
DECADES = tuple(np.minimum(np.arange(SCHEMA["AGE"].size) // 10, 10).tolist())


def aged(seed):
    """Return 4,000 people of three groups. The second group is older and the third group is children."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, 4000, p=[0.5, 0.4, 0.1])
    ages = rng.normal(np.array([35.0, 50.0, 9.0])[group], np.array([15.0, 15.0, 4.0])[group]).round().clip(0, 99)
    return ages, group, CodedTable.encode(pd.DataFrame({"AGE": ages, "S": group + 1}), SCHEMA)


def answers_of(table, sigma, seed, count=4):
    """Measure the ages, and the decades of age by S."""
    rng, both = np.random.default_rng(seed), table.marginal(("AGE", "S")).astype(float)
    decades = np.zeros((max(DECADES) + 1, 3))
    np.add.at(decades, np.array(DECADES), both)
    counts = [
        (("AGE",), both.sum(1), (None,)),
        (("S",), both.sum(0), (None,)),
        (("AGE", "S"), decades, (DECADES, None)),
    ]
    found = [Measurement(name, of + rng.normal(0, sigma, of.shape), sigma, kind) for name, of, kind in counts]
    return Answers(Evidence.of(Strata.over(SCHEMA, ("S",)), {(): found}, mechanism("mst")), count=count)


@pytest.mark.parametrize(("noise", "known"), [(1.0, 0.0), (1.0, 3.0), (4.0, 1.0)])
def test_an_interval_has_students_quantile_for_as_much_as_few_replicates_say(noise, known):
    """The interval of Satterthwaite (1946) is used. The tolerance for the coverage is .004. The test uses 200,000
    draws.
    """
    rng, draws = np.random.default_rng(0), 200_000
    off = rng.normal(0, np.sqrt(noise + known), draws)
    moved, none = rng.normal(0, np.sqrt(noise), (10, draws)), np.zeros((draws, 0))
    nothing = np.zeros(draws)
    errors = ModelErrors(nothing, moved, none, np.full(draws, known), nothing > 0, nothing, none)
    assert np.mean(np.abs(off) <= errors.reach(0.95)) == pytest.approx(0.95, abs=0.004)


def test_means_of_groups_follow_from_measured_groups_of_bins():
    inside = []
    for seed in range(20):
        ages, group, table = aged(seed)
        found = answers_of(table, 5.0, seed).estimate("mean", "AGE", ["S"])
        assert found["basis"].eq("implied").all()
        real = [ages[group == code].mean() for code in range(3)]
        inside += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
        assert (found["upper"] - found["lower"] < 12).all()
    assert np.mean(inside) >= 0.9


def test_the_misfit_of_single_ages_is_that_of_cells_with_the_sums_of_decades_known():
    """The covariance is compared with the conditional covariance of normal variables.

    The known sums are the counts of each decade by group and the counts of each age.
    """
    _, _, table = aged(0)
    answers = answers_of(table, 5.0, 0)
    asked = question(SCHEMA, "count", "AGE", ["S"])
    model = answers.evidence.model.marginal(("AGE", "S"))
    found = misfit_parts(answers, asked, model, asked.top)
    size = len(DECADES)
    sigma = np.diag(misfit_variance(np.maximum(model, 0.0), answers.misfit.share * model.sum()).ravel())
    cells = np.arange(3 * size).reshape(size, 3)
    sums = [
        np.isin(cells, cells[np.array(DECADES) == decade][:, [code]]).ravel()
        for decade in range(11)
        for code in range(3)
    ]
    sums = np.array([*sums, *(np.isin(cells, cells[age]).ravel() for age in range(size))], dtype=float)
    given = sigma - sigma @ sums.T @ np.linalg.pinv(sums @ sigma @ sums.T) @ sums @ sigma
    assert found @ found.T == pytest.approx(asked.top @ given @ asked.top.T, rel=1e-3, abs=0.5)


def test_columns_that_were_measured_together_code_by_code_have_no_misfit():
    _, _, table = aged(0)
    whole = [Measurement(each, table.marginal(each).astype(float), 3.0) for each in (("AGE",), ("S",), ("AGE", "S"))]
    answers = Answers(Evidence.of(Strata.over(SCHEMA, ("S",)), {(): whole}, mechanism("mst")), count=4)
    asked = question(SCHEMA, "mean", "AGE", ["S"])
    model = answers.evidence.model.marginal(("AGE", "S"))
    assert misfit_parts(answers, asked, model, asked.top).shape == (3, 0)
