"""The experiment on expected distances: results are kept, and no release is made twice."""

import sys

import pandas as pd

from benchmarks import distances


def test_a_second_run_adds_to_the_results_and_makes_nothing_again(tmp_path, monkeypatch, capsys):
    output, made, evidence_of = tmp_path / "distances.csv", [], distances.evidence_of
    monkeypatch.setattr(distances, "evidence_of", lambda *a: made.append(a[2]) or evidence_of(*a))
    words = "--rows 1500 --epsilons 3 --strata SEX --columns SEX,DIS,ESR,MAR --replicates 2 --first 70"
    for releases in ("1", "2"):
        monkeypatch.setattr(
            sys, "argv", ["distances", *words.split(), "--releases", releases, "--results", str(output)]
        )
        distances.main()
    found = pd.read_csv(output)
    assert made == found["seed"].tolist() == [70, 71]
    assert "1,500" in capsys.readouterr().out
    assert set(found["place"]) == {"mst, 1,500 rows of NY by SEX, ε = 3"}
    assert found["distance"].between(0.1, 10).all()
