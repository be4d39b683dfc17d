import os
import subprocess
import sys

import numpy as np
import pytest

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import learned_misfit, with_margins
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def test_cells_with_known_margins_vary_as_normal_ones_given_their_sums():
    """By the law of normal variables given linear ones: Σ − ΣDᵀ(DΣDᵀ)⁺DΣ."""
    rng = np.random.default_rng(0)
    variance, functionals = rng.random((3, 4)) * 9, rng.normal(size=(5, 12))
    rows, columns = np.repeat(np.eye(3), 4, axis=1), np.tile(np.eye(4), 3)
    sums, sigma = np.concatenate([rows, columns]), np.diag(variance.ravel())
    given = sigma - sigma @ sums.T @ np.linalg.pinv(sums @ sigma @ sums.T) @ sums @ sigma
    found = with_margins(functionals, variance)
    assert found @ found.T == pytest.approx(functionals @ given @ functionals.T)


def test_a_cell_that_was_measured_has_no_misfit_and_two_columns_of_two_have_one():
    left = with_margins(np.eye(4), np.array([[4.0, 4.0], [4.0, 4.0]]))
    assert np.abs(left.sum(0)) == pytest.approx(0)  # all four move together
    assert with_margins(np.eye(4), np.array([[0.0, 4.0], [4.0, 4.0]])) == pytest.approx(0)


def test_what_sets_of_three_columns_say_of_the_misfit_is_of_their_pairs():
    """Nine columns that are alike through one that is not there, in a chain of sets of three. By their cells, each of
    six rows, s was .0027, half of what a pair of them is off by."""
    rng, names = np.random.default_rng(0), "ABCDEFGHI"
    schema = Schema("alike", tuple(Column(name, values=tuple(range(8))) for name in names))
    kind = rng.integers(0, 8, 3000)
    drawn = [np.where(rng.random(3000) < 0.35, kind, rng.integers(0, 8, 3000)) for _ in names]
    table = CodedTable(np.column_stack(drawn).astype(np.uint8), schema)
    counts = {each: table.marginal(each) for each in map(tuple, [*names, "ABC", "DEF", "GHI", "ADG"])}
    found = [Measurement(each, of + rng.normal(0, 2.0, of.shape), 2.0) for each, of in counts.items()]
    evidence = Evidence.of(Strata.over(schema, []), {(): found}, mechanism("mst"))
    pair = table.marginal(("B", "F"))
    off = pair - pair.sum(1, keepdims=True) * pair.sum(0) / 3000
    assert learned_misfit(evidence) == pytest.approx(np.sqrt((off**2).mean()) / 3000, rel=0.3)


@pytest.mark.slow
def test_draws_do_not_depend_on_the_hashes_of_names():
    """They did: sets of columns came in the order of a set, which Python changes from run to run."""
    script = """
import numpy as np
from equistrata.analysis.uncertainty.misfit import table_effects
columns = tuple("ABCD")
sets = [frozenset(pair) for pair in ("AB", "BC", "CD", "AD")]
def noise(names):
    return np.full([{"A": 2, "B": 3, "C": 2, "D": 3}[name] for name in names], 4.0)
table = np.full((2, 3, 2, 3), 9.0)
found = table_effects(table, columns, sets, lambda pair: 0.05, noise, np.random.default_rng(0))
print(repr(found.ravel().tolist()))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in "123"
    ]
    assert runs[0] == runs[1] == runs[2]
