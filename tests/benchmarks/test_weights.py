"""The benchmark of wrong weights: its scores on numbers done by hand, and one small run."""

import numpy as np
import pytest

from benchmarks.weights import SOURCES, l1_error, main, measure, weighted_mean, worst_stratum
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights

SCHEMA = Schema("people", (Column("SEX", values=(1, 2)), Column("RAC1P", values=(1, 2)), Column("ESR", values=(0, 1))))
STRATA = Strata.over(SCHEMA, ("SEX", "RAC1P"))


def weights(*shares):
    return PublicWeights(dict(zip(STRATA.keys, shares, strict=True)), "test")


def test_scores_by_hand():
    true, found = weights(0.5, 0.3995, 0.1, 0.0005), weights(0.4, 0.4, 0.2, 0)
    assert l1_error(true, found) == pytest.approx(0.201)
    # A stratum of 0.05 % does not count, though all of it is missing.
    assert worst_stratum(true, found, STRATA) == (pytest.approx(1.0), "SEX=2,RAC1P=1")
    groups = dict(zip(STRATA.keys, map(np.array, ([1.0, 3], [4.0], [10.0], [])), strict=True))
    assert weighted_mean(groups, weights(0.25, 0.25, 0.25, 0.25)) == pytest.approx(16 / 3)


def test_wrong_public_weights_stay_wrong_and_both_follow_the_counts():
    rng = np.random.default_rng(0)
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [4000, 3000, 2000, 1000], axis=0)
    table = CodedTable(np.column_stack([codes, rng.integers(0, 2, 10_000)]).astype(np.uint8), SCHEMA)
    column = Column("PAY", lower=0, upper=100, sigma=20)
    groups = {key: rng.normal(40 + 10 * i, 5, 500) for i, key in enumerate(STRATA.keys)}
    lines = dict(measure(table, weights(0.1, 0.2, 0.3, 0.4), column, groups, "mst", 5.0, 0))
    assert tuple(lines) == SOURCES
    public, noisy, both = (lines[source] for source in SOURCES)
    assert public.shares == pytest.approx(0.8)
    assert (public.worst, public.stratum) == (pytest.approx(3.0), "SEX=2,RAC1P=2")
    assert public.weighted == pytest.approx(0.2, abs=0.01)  # 60 for 50
    assert public.estimated == pytest.approx(0.2, abs=0.03)
    assert public.workload > 0.7
    for line in (noisy, both):
        assert line.shares < 0.02
        assert line.workload < 0.1
        assert line.weighted < 0.01
    assert both.estimated < 0.02
    assert noisy.estimated < 0.02


def test_help_says_what_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["weights", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "weights" in capsys.readouterr().out
