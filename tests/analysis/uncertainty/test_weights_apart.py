"""Public weights that are not those of the measured rows are told; noise, and what a few years change, is not."""

import numpy as np
import pytest

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.weights_apart import weights_apart
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.card.notes import weights_apart_notes
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SCHEMA = Schema.from_dict({"columns": {"S": {"values": [1, 2]}, "R": {"values": ["a", "b"]}, "J": {"values": [0, 1]}}})
STRATA = Strata.over(SCHEMA, ("S", "R"))
SIZES = np.array([[4000.0, 500.0], [5000.0, 0.0]])


def evidence(sigma, apart=False):
    """Noise of none, but of a stated σ: sizes as one measurement, or of each stratum by its other column."""
    one = {(): [Measurement(("S", "R"), SIZES, sigma)]}
    each = {
        key: [Measurement(("J",), np.full(2, SIZES[tuple(STRATA.codes_of(key).values())] / 2), sigma)]
        for key in STRATA.keys
    }
    return Evidence.of(STRATA, each if apart else one, mechanism("mst"))


def public(*sizes):
    return PublicWeights.from_counts(dict(zip(STRATA.keys, sizes, strict=True)), STRATA, "file 'w.csv'")


@pytest.mark.parametrize("apart", [False, True])
def test_weights_of_other_people_are_told_farthest_first(apart):
    found = weights_apart(evidence(10.0, apart), public(4000, 5000, 0, 500))
    assert [each["stratum"] for each in found] == ["S=2,R=a", "S=1,R=b", "S=2,R=b"]
    assert found[0]["weight"] == 0
    assert found[0]["measured"] == pytest.approx(5000 / 9500, abs=1e-4)
    (note,) = weights_apart_notes(found)
    assert "S 2, R a has 0\u00a0% of the weight, and about 53\u00a0% of the rows" in note
    assert "(2 other groups differ" in note


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("sigma", "sizes"),
    [(10.0, (4000, 500, 5000, 0)), (10.0, (4400, 450, 4800, 20)), (1500.0, (4000, 5000, 0, 500)), (1e6, (1, 1, 1, 1))],
)
def test_noise_and_small_changes_are_not(sigma, sizes, apart):
    assert weights_apart(evidence(sigma, apart), public(*sizes)) == []
    assert weights_apart_notes([]) == []


def test_groups_by_fewer_columns_are_told_where_those_of_all_are_not_measured():
    found = {(): [Measurement(("S",), SIZES.sum(1), 1.0), Measurement(("R",), SIZES.sum(0), 1.0)]}
    apart = weights_apart(Evidence.of(STRATA, found, mechanism("mst")), public(1, 1, 1, 1))
    assert [each["stratum"] for each in apart] == ["R=a", "R=b"]
    assert (apart[0]["weight"], apart[0]["measured"]) == (0.5, pytest.approx(9000 / 9500, abs=1e-6))


@pytest.mark.parametrize("found", [[], [Measurement(("J",), np.full(2, 4750.0), 1.0)]])
def test_sizes_that_were_not_measured_say_nothing(found):
    assert weights_apart(Evidence.of(STRATA, {(): found}, mechanism("mst")), public(1, 1, 1, 1)) == []


@pytest.mark.parametrize("axes", [("P", "S", "J"), ("S", "P"), ("P",)])
def test_among_thousands_of_groups_too(axes):
    """1,300 places by sex, more than least squares of all cells together take: a file that has one place's rows in
    another; and of noise alone, over ten tables, none."""
    places = [f"p{place:04}" for place in range(1300)]
    schema = Schema.from_dict({"columns": {"P": {"values": places}, "S": {"values": [1, 2]}, "J": {"values": [0, 1]}}})
    strata, rng = Strata.over(schema, ("P", "S")), np.random.default_rng(1)
    sizes = rng.integers(500, 1500, (1300, 2)).astype(float)
    table = np.einsum("ps,j->psj", sizes, np.array([0.5, 0.5]))
    others = tuple(axis for axis, name in enumerate("PSJ") if name not in axes)
    true = np.transpose(table.sum(axis=others), [[n for n in "PSJ" if n in axes].index(name) for name in axes])
    weights = dict(zip(strata.keys, sizes.ravel().tolist(), strict=True))
    wrong = weights | {("p0007", sex): weights[("p0008", sex)] + 3000 for sex in (1, 2)}
    told = 0
    for _ in range(10):
        noisy = {(): [Measurement(axes, true + rng.normal(0, 60, true.shape), 60.0)]}
        evidence = Evidence.of(strata, noisy, mechanism("mst"))
        told += bool(weights_apart(evidence, PublicWeights.from_counts(weights, strata, "file")))
    found = weights_apart(evidence, PublicWeights.from_counts(wrong, strata, "file"))
    assert told == 0
    assert {each["stratum"].split(",")[0] for each in found} == {"P=p0007"}


def test_among_thousands_of_strata_that_were_measured_one_by_one():
    schema = Schema.from_dict({"columns": {"P": {"values": [*range(1300)]}, "J": {"values": [0, 1]}}})
    strata = Strata.over(schema, ("P",))
    found = {key: [Measurement(("J",), np.array([300.0, 200.0]), 5.0)] for key in strata.keys}
    evidence = Evidence.of(strata, found, mechanism("mst"))
    right = dict.fromkeys(strata.keys, 1.0)
    assert weights_apart(evidence, PublicWeights.from_counts(right, strata, "file")) == []
    (apart,) = weights_apart(evidence, PublicWeights.from_counts(right | {(7,): 3.0}, strata, "file"))
    assert apart["stratum"] == "P=7"
