"""Tests of the variance between groups, which is estimated from a release."""

import numpy as np
from known_relations import SCHEMA, evidence_of, people

from equistrata.analysis.uncertainty.groups import between_groups, counted_sizes, group_shares
from equistrata.data.table import CodedTable

NAMES = ("X", "Y", "W")


def learned(evidence):
    columns = [group_shares(evidence, evidence.model, name) for name in NAMES]
    return between_groups(evidence, columns, counted_sizes(evidence)[1])


def test_a_group_that_alone_differs_raises_the_variance_of_its_column():
    alike = people(20_000, 3)
    codes = np.array(alike.codes)
    there = (codes[:, 0] == 1) & (codes[:, 1] == 1)
    codes[there, 5] = np.random.default_rng(0).random(there.sum()) < 0.95
    differing = learned(evidence_of(CodedTable(codes, SCHEMA), 5.0, ["G", "R"]))["W"]
    assert differing > 10 * learned(evidence_of(alike, 5.0, ["G", "R"]))["W"]


def test_groups_measured_one_by_one_are_predicted_by_the_others():
    found = learned(evidence_of(people(20_000, 3), 5.0, ["G", "R"], selection="per-stratum"))
    assert all(0 < spread < 0.2 for spread in found.values())
    assert found["X"] > found["W"]


def test_large_groups_have_their_own_size_and_small_ones_may_be_smaller_than_they_seem():
    evidence = evidence_of(people(4000), 1.0, ["G", "R"])
    sizes = np.array([evidence.model.weights.shares[key] for key in evidence.strata.keys]) * evidence.model.total
    times = counted_sizes(evidence)[1] * np.maximum(sizes, 1.0)
    assert np.isfinite(times).all()
    assert (times >= 0.99).all()
    assert times[sizes.argmax()] < 1.1 < times[sizes.argmin()] + 0.2


def test_without_strata_there_is_no_group_to_differ():
    evidence = evidence_of(people(3000), 1.0)
    columns = [group_shares(evidence, evidence.model, name) for name in NAMES]
    assert columns[0].shares.shape == (1, 4)
    assert set(between_groups(evidence, columns, counted_sizes(evidence)[1]).values()) == {0.015}
