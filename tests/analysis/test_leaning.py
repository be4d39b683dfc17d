"""Means of departments that lean within groups of salaries as they do between them, and of those that do not."""

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases import grouped
from equistrata.analysis.bases.leaning import STEEPEST, leaned, scores, slopes
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement, sum_groups
from equistrata.synth.registry import mechanism

MEDIANS = np.array([33, 42, 61])  # of salaries, in thousands
SHARES = np.array([0.5, 0.3, 0.2])
SIGMA = 15.0


def evidence(seed, medians=MEDIANS):
    """20,000 salaries by department, measured with three groups of bins; and the departments' means."""
    rng = np.random.default_rng(seed)
    pay = {"lower": 0, "upper": 199, "integer": True}
    schema = Schema.from_dict({"columns": {"DEPT": {"values": ["a", "b", "c"]}, "PAY": pay}}, "payroll")
    department = rng.choice(3, 20_000, p=SHARES)
    pay = np.clip(medians[department] * np.exp(rng.normal(0, 0.3, 20_000)), 0, 199).astype(int)
    table = np.zeros((3, 200))
    np.add.at(table, (department, pay), 1.0)
    groups = tuple(np.searchsorted([32, 48], np.arange(200), side="right").tolist())
    both = sum_groups(table, 1, groups)
    found = [
        Measurement(("PAY",), table.sum(0) + rng.normal(0, SIGMA, 200), SIGMA),
        Measurement(("DEPT",), table.sum(1) + rng.normal(0, SIGMA, 3), SIGMA),
        Measurement(("DEPT", "PAY"), both + rng.normal(0, SIGMA, both.shape), SIGMA, (None, groups)),
    ]
    means = table @ np.arange(200) / table.sum(1)
    return Evidence.of(Strata.over(schema, ("DEPT",)), {(): found}, mechanism("mst")), means


def covered(medians):
    """How many of nine 95 % intervals of departments' means hold them, and the answers' lines."""
    inside, lines = 0, []
    for seed in range(3):
        found, means = evidence(seed, medians)
        lines.append(Answers(found, count=3).estimate("mean", "PAY", ["DEPT"]))
        inside += int(((lines[-1]["lower"] <= means) & (means <= lines[-1]["upper"])).sum())
    return inside, lines


def test_departments_that_lean_are_covered(monkeypatch):
    """On fixed seeds; at 95 % fewer than eight of nine are by chance in .07. Without it half are missed: who is paid
    more than others is so within a group of salaries, too."""
    inside, lines = covered(MEDIANS)
    assert inside >= 8
    monkeypatch.setattr(grouped, "_leaning", lambda *_: 0.0)
    before, former = covered(MEDIANS)
    assert before <= 6
    for line, other in zip(lines, former, strict=True):  # an interval reaches farther, and no answer moves
        assert line["estimate"].tolist() == other["estimate"].tolist()
        assert (line["upper"] - line["lower"] >= other["upper"] - other["lower"] - 1e-9).all()


def test_departments_that_are_alike_have_the_intervals_that_they_had(monkeypatch):
    _, lines = covered(np.full(3, 42))
    monkeypatch.setattr(grouped, "_leaning", lambda *_: 0.0)
    _, former = covered(np.full(3, 42))
    for line, other in zip(lines, former, strict=True):
        assert (line["upper"] - line["lower"]).tolist() == pytest.approx(
            (other["upper"] - other["lower"]).tolist(), rel=0.05
        )


def test_a_law_that_is_tilted_as_the_slope_says():
    """Two lognormal laws: the slope is that of their log ratio in normal scores, where nothing is noise."""
    x = np.linspace(-4, 4, 801)
    every, own = np.exp(-(x**2) / 2), np.exp(-((x - 0.5) ** 2) / 2)
    groups = np.searchsorted([-1.0, 0.0, 1.0], x)
    at = scores(every, len(x))
    assert np.abs(at - x)[np.abs(x) < 3].max() < 0.01
    rows, all_rows = (np.bincount(groups, 1e6 * law / law.sum()) for law in (own, every))
    middles = np.bincount(groups, every * at) / np.bincount(groups, every)
    found = slopes(rows, np.zeros(4), all_rows, middles, np.ones(4, dtype=bool))
    assert found == pytest.approx(np.full(4, 0.5), abs=0.03)
    times = leaned(every, groups, at - middles[groups], found)
    tilted = every * times / np.bincount(groups, every)[groups]
    real = own / np.bincount(groups, own)[groups]
    means = [np.bincount(groups, law * x) for law in (tilted, real)]
    assert means[0] == pytest.approx(means[1], abs=0.01)


def test_slopes_of_noise_are_none_and_none_is_steeper_than_is_believed():
    middles, inside = np.array([-1.0, 0.0, 1.0, 0.0]), np.array([True, True, True, False])
    every = np.array([1000.0, 1000.0, 1000.0, 50.0])
    noisy = slopes(np.array([0.0, 3.0, 9.0, 0.0]), np.full(4, 500.0), every, middles, inside)
    assert np.abs(noisy).max() < 0.1
    sharp = slopes(np.array([0.0, 0.0, 900.0, 0.0]), np.zeros(4), every, middles, inside)
    assert sharp[3] == 0
    assert np.abs(sharp).max() == STEEPEST
    assert slopes(np.zeros(4), np.zeros(4), np.zeros(4), middles, inside).tolist() == [0.0] * 4
