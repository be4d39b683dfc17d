"""Tests of relations between more than three columns, and of custom workloads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equistrata.data.columns.column import Column
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms import aim
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.candidates import CandidateSession
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.mechanisms.workload import all_sets, workload_of
from equistrata.synth.registry import serving
from equistrata.synth.synthesizer import StratifiedSynthesizer

INPUTS = [f"X{place}" for place in range(4)]


def parity_table(rows=6000, seed=1):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.integers(0, 2, rows) for name in [*INPUTS, "A", "B"]})
    table["Y"] = table[INPUTS].sum(axis=1) % 2
    table["G"] = rng.integers(0, 3, rows)
    return table


def kept(table, mechanism, strata=()):
    """Return the share of synthetic rows with the correct parity."""
    schema = Schema("parity", tuple(Column(name, values=tuple(sorted(set(table[name])))) for name in table))
    rows = StratifiedSynthesizer(mechanism, list(strata), seed=2).fit(table, schema).sample(4000)
    return (rows[INPUTS].sum(axis=1) % 2 == rows["Y"]).mean()


@pytest.mark.parametrize("strata", [(), ("G",)])
def test_a_parity_of_four_columns_is_found(strata, monkeypatch):
    table = parity_table()
    assert kept(table, "aim", strata) > 0.95
    monkeypatch.setattr(aim, "MOST_NARROW", 0)
    assert kept(table, "aim", strata) < 0.6
    assert kept(table, AIM(degree=5), strata) > 0.95
    assert kept(table, AIM(workload={(*INPUTS, "Y"): 1.0}), strata) > 0.95


def test_which_sets_are_looked_at():
    narrow = [Column(name, values=(0, 1)) for name in "ABCDE"]
    schema = Schema("s", (*narrow, Column("W", values=tuple(range(9)))))
    assert [len(each) for each in AIM().larger_sets(schema)] == [4] * 5 + [5]
    assert AIM(degree=4).larger_sets(schema) == [tuple("ABCDE")]
    assert AIM(degree=2).larger_sets(schema) == AIM(degree=5).larger_sets(schema) == []
    assert AIM(workload={("A", "B"): 1.0}).larger_sets(schema) == []
    # With a noise of √(2/π) in each of 32 cells.
    assert AIM().larger_sets(schema, 0.5, 40) == AIM().larger_sets(schema)[:5]


def test_they_are_offered_seldom_and_stay_once_chosen():
    schema = Schema("s", tuple(Column(name, values=(0, 1)) for name in "ABCD"))
    table = CodedTable(np.zeros((10, 4), dtype=np.uint8), schema)
    run = CandidateSession(table, Rho(1), SeededNoise(1), (), 1.0)
    run.offer({("A", "B"): 2.0, ("B", "C"): 1.0}, [tuple("ABCD"), tuple("ABC")])
    assert run.weights[tuple("ABCD")] == 2.0
    offered = []
    for picks in range(9):
        run.picks = picks
        offered.append(len(run.candidates(1e6)))
    assert offered == [4, 4, 2, 4, 2, 2, 2, 4, 2]
    run.picks, run.again = 2, True
    assert len(run.candidates(1e6)) == 4
    run.picks, run.again, run.seldom = 2, False, run.seldom - {tuple("ABC")}
    assert tuple("ABC") in run.candidates(1e6)


def test_workloads_are_read_as_written():
    assert workload_of(["Y*A", "B * A =0.5"], ("A", "B", "Y")) == {("A", "Y"): 1.0, ("A", "B"): 0.5}
    sets = all_sets("ABCDEFGH", 3, "C")
    weighed = sum(weight for columns, weight in sets.items() if "C" in columns)
    assert weighed == pytest.approx(sum(sets.values()) / 2)
    assert all_sets("ABC", 2, "C") == dict.fromkeys([("A", "B"), ("A", "C"), ("B", "C")], 1.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A*Z", "names 'Z', which is not released"),
        ("A*A", "names a column twice"),
        ("A*B=0", "weight above 0"),
        ("A*B=many", "weight above 0"),
        ("A*B=nan", "weight above 0"),
        ("", "names '', which is not released"),
    ],
)
def test_wrong_workloads_are_refused(text, sentence):
    with pytest.raises(InputError, match=sentence):
        workload_of([text], ("A", "B", "Y"))
    with pytest.raises(InputError, match="is given twice"):
        workload_of(["A*B", "B*A=2"], ("A", "B"))


def test_mechanisms_get_the_workload_that_they_have():
    sets = {("A", "B"): 2.0}
    assert serving(MST()) == MST()
    assert (serving(AIM(), 4, None, "A").degree, serving(GEM(), 4).degree) == (4, 4)
    assert serving(AIM(), workload=sets).workload == sets
    for mechanism, asked in [(MST(), {"degree": 4}), (MST(), {"workload": sets}), (GEM(), {"target": "A"})]:
        with pytest.raises(
            InputError, match=f"setting '{next(iter(asked))}' describes the workload .* {mechanism.name} has"
        ):
            serving(mechanism, **asked)
    with pytest.raises(InputError, match="leave out degree and target, or leave out the workload"):
        serving(AIM(), 3, sets)
