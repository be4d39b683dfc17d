"""Tests that counts of separately measured strata are equal to the counts of a single table."""

import numpy as np
import pytest

from equistrata.analysis.uncertainty import apart
from equistrata.analysis.uncertainty.apart import StratumCounts
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement

SCHEMA = Schema(
    "",
    (
        Column("X", values=(0, 1, 2)),
        Column("G", values=("a", "b")),
        Column("Y", values=(0, 1)),
        Column("AGE", lower=0, upper=39, integer=True, release="draw"),
    ),
)
STRATA = Strata.over(SCHEMA, ["G"])


def noisy(columns, shape, sigma, where=None, groups=(), rng=np.random.default_rng(0)):  # noqa: B008
    codes = () if where is None else (("G", where),)
    return Measurement(columns, rng.normal(50, 9, shape), sigma, groups, codes)


def pairs():
    sizes = [noisy(("G",), 2, 4.0)]
    return [*sizes, *(m for g in (0, 1) for m in (noisy(("X",), 3, 2.0, g), noisy(("X", "Y"), (3, 2), 3.0 + g, g)))]


def test_strata_one_by_one_are_as_the_table_by_strata():
    measurements, columns = pairs(), ("X", "G", "Y")
    whole, parts = (
        each
        for each in (LeastSquares.of(SCHEMA, measurements, columns), StratumCounts.of(STRATA, measurements, columns))
    )
    values = [np.random.default_rng(place).normal(size=m.values.shape) for place, m in enumerate(measurements)]
    functionals = np.random.default_rng(1).normal(size=(4, 12))
    assert parts.counts(values) == pytest.approx(whole.counts(values))
    assert parts.spread(functionals) == pytest.approx(whole.spread(functionals))
    assert parts.has(functionals).all()


def test_what_a_stratum_did_not_measure_is_not_said():
    measurements = pairs()[:-1]  # stratum b has no pair
    parts = StratumCounts.of(STRATA, measurements, ("X", "G", "Y"))
    cells = np.zeros((3, 3, 2, 2))
    cells[0, 0, 0, 1] = cells[1, 0, 1, 1] = cells[2, 0, 1, :] = 1
    assert parts.has(cells.reshape(3, -1)).tolist() == [True, False, True]  # stratum b has only the margin of X
    assert StratumCounts.of(STRATA, [], ("X", "G", "Y")) is None


def test_a_table_that_is_too_large_is_not_solved(monkeypatch):
    monkeypatch.setattr(apart, "MOST_NUMBERS", 71)
    assert StratumCounts.of(STRATA, pairs(), ("X", "G", "Y")) is None  # the table has 2 × 6² numbers
