"""Tests of regressions in which some of the sums have a large noise scale or are not measured in all of the strata."""

import numpy as np
import pytest
from known_relations import SCHEMA, people

from equistrata.analysis.answers import Answers
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def test_a_measured_sum_that_is_mostly_noise_is_hardly_believed():
    """The pair of X and Y is measured with a noise of 1,000 rows in a table of 4,000 rows.

    The log odds for X are then close to the model and the log odds for Z are close to the rows. A fit to the measured
    sums alone gives no finite coefficients for X.
    """
    table, rng = people(4000), np.random.default_rng(0)
    sets = dict.fromkeys([*((name,) for name in SCHEMA.names), ("Y", "Z")], 1.0)
    found = [Measurement(s, table.marginal(s).astype(float), sigma) for s, sigma in sets.items()]
    found.append(Measurement(("X", "Y"), table.marginal(("X", "Y")) + rng.normal(0, 1e3, (4, 2)), 1e3))
    answers = Answers(Evidence(Strata.over(SCHEMA, ()), {(): found}, mechanism("mst")), count=4)
    lines = answers.estimate("logit", {"Y": 1}, ["X", "Z"]).set_index("term")
    assert lines["basis"].eq("implied").all()
    assert lines.filter(like="X=", axis=0)["estimate"].abs().max() < 1  # the coefficients are 0 in the model
    alone = Regression.of(SCHEMA, "logit", {"Y": 1}, ["Z"])
    real = dict(zip(alone.terms, alone.coefficients(table.marginal(("Y", "Z")).astype(float).ravel()), strict=True))
    assert lines.loc["Z=1", "estimate"] == pytest.approx(real["Z=1"], abs=0.3)


def test_a_coefficient_of_a_pair_that_some_strata_lack_is_refused():
    table, found = people(3000), []
    for code in range(3):
        part = table.take(np.flatnonzero(table.codes[:, SCHEMA.names.index("R")] == code))
        sets = [(name,) for name in "GXYZW"] + [("X", "Z")] + [("X", "Y")] * (code < 2)
        found += [Measurement(s, part.marginal(s).astype(float), 1.0, where=(("R", code),)) for s in sets]
    answers = Answers(Evidence(Strata.over(SCHEMA, ("R",)), {(): found}, mechanism("mst")), count=4)
    lines = answers.estimate("ols", "X", ["Y", "Z"]).set_index("term")["basis"]
    assert lines["Y=1"] == "refused"
    assert lines["Z=1"] == "implied"
    with pytest.raises(InputError, match="did not measure X with Y for all rows"):
        answers.estimate("logit", {"X": 1}, ["Y", "Z"])
