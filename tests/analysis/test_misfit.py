import numpy as np
import pytest

from equistrata.analysis.misfit import with_margins


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
