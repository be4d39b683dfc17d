"""Tests of the noise argument of each estimator. If it is not a noise source, an error must be raised before the budget
is charged.
"""

import numpy as np
import pytest

import equistrata
from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import noisy_count, noisy_table
from equistrata.inference.means.laplace import LaplaceMean
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise

COINPRESS = equistrata.Coinpress(lower=0, upper=10, sigma=2)
LAPLACE = LaplaceMean(radius=1, epsilon=1)
ROWS = np.zeros(5)

ESTIMATES = {
    "mean": lambda rho, noise: COINPRESS.mean(ROWS, rho, noise),
    "by_strata": lambda rho, noise: COINPRESS.by_strata([ROWS, ROWS], None, rho, noise),
    "hierarchical": lambda rho, noise: COINPRESS.hierarchical([ROWS, ROWS], None, rho, noise),
    "Laplace mean": lambda rho, noise: LAPLACE.mean(ROWS, noise),
    "Laplace strata": lambda rho, noise: LAPLACE.by_strata([ROWS, ROWS], None, noise),
    "count": lambda rho, noise: noisy_count(ROWS, epsilon=1, noise=noise),
    "table": lambda rho, noise: noisy_table([0, 1], (2,), epsilon=1, noise=noise),
    "ratio": lambda rho, noise: equistrata.ratio(ROWS, ROWS, epsilon=1, delta=1e-6, noise=noise),
}


@pytest.mark.parametrize("noise", [7, "secure", SeededNoise])
@pytest.mark.parametrize("name", ESTIMATES)
def test_what_is_no_source_of_noise_is_refused_and_charges_nothing(name, noise):
    """Regression test: an AttributeError was raised after the budget was charged."""
    budget = Budget(Rho(1))
    with pytest.raises(InputError, match="must be a source of noise"):
        ESTIMATES[name](budget, noise)
    assert budget.remaining == Rho(1)
    ESTIMATES[name](budget, SeededNoise(1))
