"""Regressions where strata were measured one by one, and some lack a pair: measured sums of those that have it."""

from itertools import combinations

import numpy as np
import pytest
from known_relations import SCHEMA, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.regression.moments import Moments
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

PLACE = SCHEMA.names.index("R")
BY_R = Strata.over(SCHEMA, ("R",))


def by_stratum(table, having, sigma=1.0):
    """Answers of strata by R, each measured by itself: all pairs in these, and columns alone in the others."""
    singles, pairs = [(name,) for name in "GXYZW"], list(combinations("GXYZW", 2))
    found = [Measurement(("R",), table.marginal(("R",)).astype(float), sigma)]
    for code in range(3):
        part = table.take(np.flatnonzero(table.codes[:, PLACE] == code))
        sets = singles + pairs * (code in having)
        found += [Measurement(s, part.marginal(s).astype(float), sigma, where=(("R", code),)) for s in sets]
    return Answers(Evidence(BY_R, {(): found}, mechanism("mst")), count=4)


def test_sums_are_the_measured_ones_of_strata_that_have_the_pair_and_the_models_of_others():
    """Against a loop over rows: strata a and b as measured, c as in a made-up table of the model's."""
    table, answers = people(3000), by_stratum(people(3000), {0, 1}, sigma=1e-3)
    asked = Regression.of(SCHEMA, "ols", "X", ["Y", "Z"])
    products = Moments.partly(BY_R, answers.tables, asked.parts[:-1], asked.parts[-1:])
    columns = ("R", "X", "Y", "Z")
    modelled = np.random.default_rng(0).random([SCHEMA[name].size for name in columns])
    found = products.sums(answers.values) + products.modelled(columns, modelled)
    r, x, y, z = (table.codes[:, SCHEMA.names.index(name)].astype(float) for name in columns)
    terms = np.stack([np.ones(len(r)), y == 1, z == 1, z == 2]).astype(float)
    real = (terms * x * (r < 2)).sum(1)
    real[0] += x[r == 2].sum()  # X alone was measured in c, too
    for b, c, d in np.ndindex(modelled.shape[1:]):
        real[1:] += modelled[2, b, c, d] * b * np.array([c == 1, d == 1, d == 2])
    assert found[:, 0] == pytest.approx(real, abs=0.05)


def test_the_variance_of_sums_is_that_of_drawn_noise():
    """1,000 draws: each within 20 % (a false alarm is rarer than 1 in 10,000)."""
    answers, rng = by_stratum(people(3000), {0, 1}, sigma=3.0), np.random.default_rng(0)
    asked = Regression.of(SCHEMA, "logit", {"Y": 1}, ["X", "Z"])
    products = Moments.partly(BY_R, answers.tables, asked.parts[:-1], asked.parts[-1:])
    drawn = [
        products.sums([rng.normal(0.0, m.sigma, m.values.shape) for m in answers.evidence.all]) for _ in range(1000)
    ]
    assert np.var(drawn, axis=0) == pytest.approx(products.variance, rel=0.2)


def test_a_measured_sum_that_is_mostly_noise_is_hardly_believed():
    """X with Y was measured with noise of 1,000 rows of 4,000: log odds by X come out near the model's, and those by Z,
    which was measured well, near the rows'. By the measured sums alone none had been finite, Z's off by 1."""
    table, rng = people(4000), np.random.default_rng(0)
    sets = dict.fromkeys([*((name,) for name in SCHEMA.names), ("Y", "Z")], 1.0)
    found = [Measurement(s, table.marginal(s).astype(float), sigma) for s, sigma in sets.items()]
    found.append(Measurement(("X", "Y"), table.marginal(("X", "Y")) + rng.normal(0, 1e3, (4, 2)), 1e3))
    answers = Answers(Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst")), count=4)
    lines = answers.estimate("logit", {"Y": 1}, ["X", "Z"]).set_index("term")
    assert lines["basis"].eq("implied").all()
    assert lines.filter(like="X=", axis=0)["estimate"].abs().max() < 1  # 0 in the model
    alone = Regression.of(SCHEMA, "logit", {"Y": 1}, ["Z"])
    real = dict(zip(alone.terms, alone.coefficients(table.marginal(("Y", "Z")).astype(float).ravel()), strict=True))
    assert lines.loc["Z=1", "estimate"] == pytest.approx(real["Z=1"], abs=0.3)
