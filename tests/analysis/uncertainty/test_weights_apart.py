"""Public weights that are not those of the measured rows are told; noise, and what a few years change, is not."""

import numpy as np
import pytest

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.weights_apart import weights_apart
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.flows.release.card import weights_apart_notes
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


def test_sizes_that_were_not_measured_say_nothing():
    found = {(): [Measurement(("S",), SIZES.sum(1), 1.0), Measurement(("R",), SIZES.sum(0), 1.0)]}
    assert weights_apart(Evidence.of(STRATA, found, mechanism("mst")), public(1, 1, 1, 1)) == []
