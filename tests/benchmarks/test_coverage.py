"""Tests of a small run of the coverage experiment."""

import sys

import pandas as pd

from benchmarks.coverage import main


def test_a_run_writes_coverage_by_basis(tmp_path, monkeypatch, capsys):
    output = tmp_path / "coverage.csv"
    words = "--rows 2000 --epsilons 2 --mechanisms mst --strata SEX --releases 1 --columns SEX,DIS,ESR,MAR"
    monkeypatch.setattr(sys, "argv", ["coverage", *words.split(), "--results", str(output)])
    main()
    assert "mst, 2,000 rows" in capsys.readouterr().out
    found = pd.read_csv(output)
    assert {"measured", "naive"} <= set(found["basis"])
    measured = found[(found["basis"] == "measured") & (found["intervals"] > 20)]
    assert (measured["inside"] / measured["intervals"] > 0.7).all()
    assert found["intervals"].sum() > 100
