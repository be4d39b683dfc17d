"""The experiment on planted relations: results are kept, and no relation is made twice."""

import sys

import pandas as pd

from benchmarks import interactions


def run(monkeypatch, output, *words):
    asked = ("--rows", "800", "--mechanisms", "mst", "--epsilons", "5", "--replicates", "2", "--results", str(output))
    monkeypatch.setattr(sys, "argv", ["interactions", *asked, *words])
    interactions.main()


def test_a_second_run_adds_to_the_results_and_makes_nothing_again(tmp_path, monkeypatch, capsys):
    output, made = tmp_path / "new" / "interactions.csv", []
    answers_to = interactions.answers_to
    monkeypatch.setattr(interactions, "answers_to", lambda *a: made.append(a[3]) or answers_to(*a))
    run(monkeypatch, output, "--interactions", "1")
    first = pd.read_csv(output)
    run(monkeypatch, output, "--interactions", "2")
    run(monkeypatch, output, "--interactions", "1", "--rows", "900")
    found = pd.read_csv(output)
    assert made == [1000, 1001, 1000]
    assert found.groupby("place")["seed"].nunique().to_dict() == {
        "mst, ε = 5, 800 rows by SEX": 2,
        "mst, ε = 5, 900 rows by SEX": 1,
    }
    pd.testing.assert_frame_equal(found.iloc[: len(first)], first)
    assert "two-way" in capsys.readouterr().out
