"""The bound on a group's score: parts by hand, and that an oracle is no worse than what it is given."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.group_bound import ALL_ROWS, apart, bound, main, nearest_mixture, raked, shrunk, tables_of
from benchmarks.kmarginal import score


def people(rows=3000):
    """A group of a tenth of the rows, whose B follows A as in all others and whose C is its own."""
    rng = np.random.default_rng(3)
    group = rng.choice(["1", "1", "1", "1", "1", "1", "1", "1", "1", "2"], rows)
    a = rng.integers(0, 6, rows)
    b = (a + rng.integers(0, 2, rows)) % 6
    c = np.where(group == "2", rng.integers(0, 2, rows), rng.integers(0, 9, rows))
    return pd.DataFrame({"RAC1P": group, "A": a, "B": b, "C": c}).astype(str)


def test_tables_are_shares_of_each_group():
    frame = people()
    tables = tables_of(frame, "RAC1P")
    assert set(tables) == {ALL_ROWS, "1", "2"}
    own = frame[frame["RAC1P"] == "2"]
    assert tables["2"].rows == len(own)
    assert tables["2"].pairs["A", "B"][2, 3] == pytest.approx(((own["A"] == "2") & (own["B"] == "3")).mean())
    np.testing.assert_allclose(tables["2"].pairs["A", "C"].sum(axis=1), tables["2"].columns["A"])


def test_a_mixture_is_as_near_as_any_of_its_parts():
    parts = [np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.1, 0.8]), np.array([0.2, 0.6, 0.2])]
    target = np.array([0.3, 0.4, 0.3])
    made = nearest_mixture(target, parts)
    assert made.sum() == pytest.approx(1)
    assert ((made - target) ** 2).sum() <= min(((part - target) ** 2).sum() for part in parts)


def test_shrinking_takes_the_nearest_point():
    truth, prior = np.array([0.5, 0.5]), np.array([0.4, 0.6])
    assert shrunk(np.array([0.6, 0.4]), prior, truth) == pytest.approx(truth)
    assert shrunk(truth, prior, truth) == pytest.approx(truth)


def test_raking_keeps_the_odds_ratio():
    table = np.array([[0.4, 0.1], [0.2, 0.3]])
    made = raked(table, np.array([0.3, 0.7]), np.array([0.6, 0.4]))
    assert made.sum(axis=1) == pytest.approx([0.3, 0.7])
    assert made.sum(axis=0) == pytest.approx([0.6, 0.4])
    assert made[0, 0] * made[1, 1] / made[0, 1] / made[1, 0] == pytest.approx(6, rel=1e-4)


def test_without_noise_its_own_relations_are_exact_and_others_are_not():
    tables = tables_of(people(), "RAC1P")
    found = bound(tables, "2", rho=1e12, draws=1)
    assert found.own == pytest.approx(1000, abs=0.1)
    assert found.others < found.own


def test_more_noise_is_a_lower_bound():
    tables = tables_of(people(), "RAC1P")
    scores = [bound(tables, "2", rho, draws=5) for rho in (1e-4, 1e-2, 1.0)]
    assert scores[0].others < scores[1].others < scores[2].others
    assert all(each.others <= each.ages_known + 1e-9 for each in scores)


def test_it_is_the_boards_score():
    """All that is given to the oracle is exact: its score is that of the group's rows beside themselves."""
    frame = people()
    own = frame[frame["RAC1P"] == "2"].drop(columns="RAC1P")
    other = own.assign(A=np.random.default_rng(4).permutation(own["A"].to_numpy()))
    tables = {name: tables_of(each.assign(G="x"), "G")["x"] for name, each in (("own", own), ("other", other))}
    pairs = tables["own"].pairs.items()
    mine = 1000 * (1 - np.mean([apart(table, tables["other"].pairs[pair]) for pair, table in pairs]))
    assert mine == pytest.approx(score(own, other))


def test_the_command(tmp_path, capsys):
    rows = people(6000)
    rows.to_csv(tmp_path / "x2019.csv", index=False)
    entries = {name: {"values": {}} for name in rows.columns}
    (tmp_path / "data_dictionary.json").write_text(json.dumps(entries), "utf-8")
    options = ["--data", str(tmp_path), "--shares", "1", "--draws", "1", "--features"]
    assert main([*options, "RAC1P,A,B,C"]) == 0
    shown = capsys.readouterr().out
    assert f"{(rows['RAC1P'] == '2').sum()}" in shown
    assert "6,000 rows" in shown
    assert main([*options, "A,B,C"]) == 2
    assert "RAC1P" in capsys.readouterr().err
