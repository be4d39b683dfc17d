"""What a mean may be off by where rows are within groups of bins: its weights against moved laws, and how often means
of columns with a long tail that noise hides are covered."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.coverage import Form, evidence_of
from equistrata.analysis.answers import Answers
from equistrata.analysis.bases import grouped, placed
from equistrata.analysis.questions import question
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable

SCHEMA = Schema(
    "visits",
    (
        Column("SEX", values=("a", "b")),
        Column("VISITS", lower=0, upper=365, integer=True, release="draw"),
    ),
)


def answers_of(seed, rows=20_000, part=0.01, middle=1.0):
    """A release of visits that few have, some of them very many; and each group's mean."""
    rng = np.random.default_rng(seed)
    visits = np.where(rng.random(rows) < part, np.ceil(np.exp(rng.normal(middle, 1.3, rows))), 0).clip(0, 365)
    frame = pd.DataFrame({"SEX": rng.choice(["a", "b"], rows), "VISITS": visits.astype(int)})
    evidence = evidence_of(CodedTable.encode(frame, SCHEMA), Form.of("SEX", "mst", 1.0), seed + 100)
    return Answers(evidence, seed, count=10), frame.groupby("SEX")["VISITS"].mean()


def test_weights_are_what_a_moved_law_moves_answers_by():
    answers, _ = answers_of(1, part=0.2)
    asked = question(SCHEMA, "mean", "VISITS", ["SEX"])
    solved = grouped._solved(answers, asked)
    weights = grouped._weights(answers, solved)
    law = answers.narrow(asked.columns).evidence.model.marginal(("VISITS",))
    every = solved.found.rows(np.tile(law, 2))
    rng = np.random.default_rng(0)
    assert (np.abs(weights @ law) < 1e-9 * np.abs(weights) @ law).all()  # more of the same in each bin moves nothing
    assert (solved.rows <= every + 1e-9).all()  # else weights are bounded, and no derivative
    for _ in range(5):
        moved = law * (1 + 1e-6 * rng.normal(size=len(law)))
        off = grouped._off(solved.found, np.tile(moved, 2), solved.top, solved.bottom, solved.rows)
        assert off == pytest.approx(weights @ (moved - law), rel=1e-3, abs=1e-12)


def test_arms_are_a_part_of_the_noise_and_no_longer_than_there_is_room():
    answers, _ = answers_of(2)
    weights = np.zeros((2, SCHEMA["VISITS"].size))
    weights[0, 300], weights[1, 5:9] = 1.0, 2.0
    covariance = answers.table(("VISITS",)).covariance
    known = placed.LAW * np.sqrt(np.einsum("ij,jk,ik->i", weights, covariance, weights))
    low, high = placed.arms(answers, "VISITS", weights, np.array([[np.inf, np.inf], [0.0, known[1] / 3]]))
    assert low == pytest.approx([known[0], 0.0])
    assert high == pytest.approx([known[0], known[1] / 3])


def test_means_of_a_column_with_a_hidden_tail_are_covered():
    """Without a part for what the law lacks, 10 of these 20 intervals held the mean."""
    inside = []
    for seed in range(10):
        answers, means = answers_of(seed)
        found = answers.estimate("mean", "VISITS", ["SEX"])
        real = means.loc[found["SEX"]].to_numpy()
        inside += [*((found["lower"] <= real) & (real <= found["upper"]))]
        assert (found["upper"] < 3.0).all()  # a mean of 0.07 and bounds of 365: no interval of everything
    assert np.sum(inside) >= 17


def test_differences_know_that_groups_have_the_law_in_common():
    answers, _ = answers_of(3, part=0.2)  # no interval ends at 0, where nothing would cancel
    means = answers.estimate("mean", "VISITS", ["SEX"])
    difference = answers.estimate("difference", "VISITS", ["SEX"])
    apart = np.hypot(*(means["upper"] - means["lower"]))
    assert 0 < float((difference["upper"] - difference["lower"]).iloc[0]) < apart
