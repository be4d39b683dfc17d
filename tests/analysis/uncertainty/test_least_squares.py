import numpy as np
import pytest
from known_relations import SCHEMA, evidence_of, people

from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.synth.measurements import Measurement


def exact(table, columns, sigma, groups=(), where=()):
    """Return a measurement with a noise scale but without noise."""
    fixed = dict(where)
    rows = table.take(
        np.logical_and.reduce([table.column(n) == c for n, c in fixed.items()] or [np.ones(len(table), bool)])
    )
    blank = Measurement(columns, np.zeros((1,) * len(columns)), sigma, groups)
    return Measurement(columns, blank.merged(rows.marginal(columns)).astype(float), sigma, groups, where)


def test_exact_measurements_give_exact_counts_and_their_least_squares_variance():
    table = people(500)
    found = [exact(table, ("X",), 2.0), exact(table, ("X", "Y"), 3.0)]
    x = LeastSquares.of(SCHEMA, found, ("X",))
    assert x.counts([m.values for m in found]) == pytest.approx(table.marginal(("X",)))
    # The two measurements of each cell have variance 4, and 18 for the sum of two cells with variance 9.
    assert np.diag(x.covariance) == pytest.approx(1 / (1 / 4 + 1 / 18))
    assert x.missing.size == 0
    joint = LeastSquares.of(SCHEMA, found, ("X", "Y"))
    assert joint.counts([m.values for m in found]) == pytest.approx(table.marginal(("X", "Y")).ravel())
    assert (np.diag(joint.covariance) < 9.0).all(), "the column alone helps"


def test_a_direction_that_nothing_measured_is_not_claimed():
    table = people(500)
    found = [exact(table, ("X",), 1.0), exact(table, ("Y",), 1.0)]
    joint = LeastSquares.of(SCHEMA, found, ("X", "Y"))
    cells, sums = np.eye(8), np.kron(np.eye(4), np.ones((1, 2)))
    assert not joint.has(cells).any()
    assert joint.has(sums).all()
    merged = [exact(table, ("X",), 1.0, groups=((0, 0, 1, 1),))]
    by_groups = LeastSquares.of(SCHEMA, merged, ("X",))
    assert by_groups.has(np.array([[1.0, 1, 0, 0], [1, 0, 0, 0]])).tolist() == [True, False]


def test_strata_that_were_measured_by_themselves_add_up():
    table = people(800)
    found = [exact(table, ("X",), 1.0, where=(("G", code),)) for code in (0, 1)]
    assert LeastSquares.of(SCHEMA, found, ("X",)) is None
    both = LeastSquares.of(SCHEMA, found, ("G", "X"))
    assert both.counts([m.values for m in found]) == pytest.approx(table.marginal(("G", "X")).ravel())
    one = LeastSquares.of(SCHEMA, found[:1], ("G", "X"))
    assert one.has(np.eye(8)).tolist() == [True] * 4 + [False] * 4


def test_the_covariance_is_that_of_the_noise():
    """The test uses 400 draws of the noise. The probability of a false alarm is less than 1e-4."""
    evidence = evidence_of(people(2000), 1.0, ["G"])
    table = LeastSquares.of(SCHEMA, evidence.all, ("G", "X"))
    rng = np.random.default_rng(1)
    drawn = [table.counts([rng.normal(0, m.sigma, m.values.shape) for m in evidence.all]) for _ in range(400)]
    ratio = np.var(drawn, axis=0) / np.diag(table.covariance)
    assert ratio.mean() == pytest.approx(1, abs=0.1)
    assert (np.abs(ratio - 1) < 0.4).all()
