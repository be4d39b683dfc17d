"""Answers by codes of a column that was measured with others in groups of its codes only."""

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.bases.within import times_chance
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement, sum_groups
from equistrata.synth.registry import mechanism

COLUMNS = {
    "AGE": {"lower": 0, "upper": 59, "integer": True},
    "MONTH": {"values": list(range(40))},
    "SEX": {"values": [1, 2]},
}


def answers_about(rows, names, groups):
    """Of rows that were counted with hardly any noise: each column, and all together, some in groups of codes."""
    schema = Schema.from_dict({"columns": {name: COLUMNS[name] for name in names}}, "people")
    table = np.zeros(schema.sizes)
    np.add.at(table, tuple(rows[name] for name in names), 1)
    axes = range(len(names))
    found = [
        Measurement((name,), table.sum(tuple(other for other in axes if other != axis)), 1.0)
        for axis, name in enumerate(names)
    ]
    for axis, name in enumerate(names):
        table = table if groups.get(name) is None else sum_groups(table, axis, groups[name])
    found.append(Measurement(tuple(names), table, 1.0, tuple(groups.get(name) for name in names)))
    return Answers(Evidence(Strata.over(schema, []), {(): found}, mechanism("mst")), 0, count=3)


def people(seed=6, count=6000):
    rng = np.random.default_rng(seed)
    return {"AGE": rng.integers(0, 60, count), "MONTH": rng.integers(0, 40, count), "SEX": rng.integers(0, 2, count)}


def covered(found, truth):
    return float(np.mean((found["lower"] <= truth) & (truth <= found["upper"])))


@pytest.mark.parametrize(("name", "size"), [("AGE", 60), ("MONTH", 40)])
def test_shares_and_counts_by_a_code_allow_for_who_is_in_it(name, size):
    """Sex by single ages, and by months, in groups of ten: of those of one code a share is off by chance."""
    rows = people()
    groups = tuple(code // 10 for code in range(size))
    answers = answers_about(rows, [name, "SEX"], {name: groups})
    women = np.bincount(rows[name], rows["SEX"], size)
    every = np.bincount(rows[name], minlength=size)
    shares = answers.estimate("proportion", {"SEX": 2}, [name])
    assert covered(shares, women / every) >= 0.9  # 0.25 before
    assert (shares["upper"] - shares["lower"]).max() < 0.47
    assert covered(answers.estimate("count", {"SEX": 2}, [name]), women) >= 0.9
    apart = answers.estimate("difference", {"SEX": 2}, [name])
    assert covered(apart, (women / every)[1:] - (women / every)[0]) >= 0.9
    assert (apart["upper"] - apart["lower"]).min() > 0.1  # two of one group had been equal for sure


def test_numbers_by_a_code_where_both_are_in_groups():
    rows = people()
    ages, months = (tuple(code // 10 for code in range(size)) for size in (60, 40))
    answers = answers_about(rows, ["AGE", "MONTH"], {"AGE": ages, "MONTH": months})
    means = np.bincount(rows["MONTH"], rows["AGE"], 40) / np.bincount(rows["MONTH"], minlength=40)
    assert covered(answers.estimate("mean", "AGE", ["MONTH"]), means) >= 0.9


def test_whole_groups_are_as_they_were_measured():
    """Of all codes of a group nothing is unknown."""
    rows = people()
    answers = answers_about(rows, ["AGE", "SEX"], {"AGE": tuple(code // 10 for code in range(60))})
    whole = answers.estimate("proportion", {"SEX": 2}, where={"AGE": "10-19"}).iloc[0]
    assert whole["upper"] - whole["lower"] < 0.01
    part = answers.estimate("proportion", {"SEX": 2}, where={"AGE": "10-14"}).iloc[0]
    assert part["upper"] - part["lower"] > 0.05


def test_chance_is_that_of_a_sample_without_replacement():
    """With nothing else between codes, and 1 + τ²·R(1 − f) times that of chance where half are asked about."""
    assert times_chance(np.array([50.0]), np.array([0.5]), 0.0).tolist() == [1.0]
    assert times_chance(np.array([50.0]), np.array([0.5]), 0.02).tolist() == [2.0]
