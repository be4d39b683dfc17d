"""Means over strata of which the small ones did not measure the pair."""

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SCHEMA = Schema(
    "ages",
    (
        Column("S", values=(0, 1)),
        Column("AGE", values=tuple(range(6)), type="ordinal"),
        Column("JOB", values=("no", "yes")),
    ),
)
ROWS = (6_000, 4_000)


@pytest.fixture(scope="module")
def known():
    """Two strata in which the old have no job; the first measured it, the second ages and jobs alone. And the real
    mean age without and with a job."""
    age = np.exp(-0.1 * np.arange(6))
    works = 1 / (1 + np.exp(np.arange(6) - 2.5))
    table = np.stack([age * (1 - works), age * works], axis=1) / age.sum()
    rng, measured = np.random.default_rng(0), {}
    strata = Strata.over(SCHEMA, ("S",))
    for key, rows in zip(strata.keys, ROWS, strict=True):
        sums = {("AGE",): rows * table.sum(1), ("JOB",): rows * table.sum(0)}
        if rows == max(ROWS):
            sums["AGE", "JOB"] = rows * table
        measured[key] = [Measurement(names, of + rng.normal(0, 5, of.shape), 5.0) for names, of in sums.items()]
    evidence = Evidence(strata, measured, mechanism("mst"), shrinkage=False)
    return Answers(evidence, count=10), np.arange(6) @ table / table.sum(0)


def test_a_mean_may_be_as_far_off_as_the_relation_of_the_others_says(known):
    """The model has the second stratum's ages alike with and without a job: two fifths of the way to no difference."""
    answers, real = known
    found = answers.estimate("mean", "AGE", ["JOB"])
    assert (found["basis"] == "implied").all()
    off = np.abs(found["estimate"] - real)
    assert (off > 0.25).all()
    assert (found["standard_error"] > 0.9 * off).all()
    assert ((found["lower"] <= real) & (real <= found["upper"])).all()
    apart = answers.estimate("difference", "AGE", ["JOB"])
    assert apart["lower"][0] <= real[1] - real[0] <= apart["upper"][0]


def test_within_the_stratum_that_measured_it_nothing_changes(known):
    answers, real = known
    found = answers.estimate("mean", "AGE", ["S", "JOB"]).set_index(["S", "JOB"])
    assert (found.loc[0, "basis"] == "measured").all()
    assert found.loc[0, "estimate"].to_numpy() == pytest.approx(real, abs=0.05)
