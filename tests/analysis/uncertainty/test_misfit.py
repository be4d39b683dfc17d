import os
import subprocess
import sys

import numpy as np
import pytest

from equistrata.analysis.uncertainty.misfit import with_margins


def test_cells_with_known_margins_vary_as_normal_ones_given_their_sums():
    """The conditional covariance of normal variables, given linear sums, is Σ − ΣDᵀ(DΣDᵀ)⁺DΣ."""
    rng = np.random.default_rng(0)
    variance, functionals = rng.random((3, 4)) * 9, rng.normal(size=(5, 12))
    rows, columns = np.repeat(np.eye(3), 4, axis=1), np.tile(np.eye(4), 3)
    sums, sigma = np.concatenate([rows, columns]), np.diag(variance.ravel())
    given = sigma - sigma @ sums.T @ np.linalg.pinv(sums @ sigma @ sums.T) @ sums @ sigma
    found = with_margins(functionals, variance)
    assert found @ found.T == pytest.approx(functionals @ given @ functionals.T)


def test_a_cell_that_was_measured_has_no_misfit_and_two_columns_of_two_have_one():
    left = with_margins(np.eye(4), np.array([[4.0, 4.0], [4.0, 4.0]]))
    assert np.abs(left.sum(0)) == pytest.approx(0)  # all four cells move together
    assert with_margins(np.eye(4), np.array([[0.0, 4.0], [4.0, 4.0]])) == pytest.approx(0)


@pytest.mark.slow
def test_draws_do_not_depend_on_the_hashes_of_names():
    """Regression test: the order of the sets of columns depended on the hash seed of Python."""
    script = """
import numpy as np
from equistrata.analysis.uncertainty.misfit import table_effects
columns = tuple("ABCD")
sets = [frozenset(pair) for pair in ("AB", "BC", "CD", "AD")]
def noise(names):
    return np.full([{"A": 2, "B": 3, "C": 2, "D": 3}[name] for name in names], 4.0)
table = np.full((2, 3, 2, 3), 9.0)
found = table_effects(table, columns, sets, 0.05, noise, np.random.default_rng(0))
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
