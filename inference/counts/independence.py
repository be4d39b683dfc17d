"""The χ² test of independence of the two columns of a noisy table, and the number of rows that the test needs.

The noise increases the classical statistic, so the usual χ² quantile rejects far too often. Therefore the null
distribution is simulated. The simulated tables have independent columns, the margins of the noisy table, and the same
noise.

>>> import numpy as np
>>> from equistrata.inference.counts.noisy_counts import noisy_table
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> first = rng.integers(0, 2, 800)
>>> second = np.where(rng.random(800) < 0.25, first, rng.integers(0, 3, 800))
>>> table = noisy_table(np.column_stack([first, second]), (2, 3), epsilon=0.5, noise=SeededNoise(1))
>>> independence_test(table, rng=rng).p_value
0.001
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import NoisyTable, cell_sensitivity
from equistrata.privacy.budget import REPLACE_ONE, Relation
from equistrata.stats.checks import positive, share, whole

LEAST_EXPECTED = 1.0  # if the estimated expected count of a cell is smaller, there is no verdict
RULE_OF_FIVE = 5.0  # the smallest expected count of a cell in a plan
LEAST_MARGIN = 0.5  # the smallest value of a noisy margin, in rows
LEAST_DISTANCE = 1e-12  # if the χ² per row is smaller, the columns of a table are treated as independent
JOINT_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class IndependenceTest:
    """The result of a test of independence.

    Attributes
    ----------
    statistic : float
        The statistic Σ (Y_ij − e_ij)²/(e_ij + 2b²), with the variance of the noise in the denominator. Without noise,
        this is Pearson's χ².
    p_value : float
        The p-value, in (0, 1]. It is 1 if there is no verdict.
    least_expected : float
        The smallest e_ij, which is the expected number of rows in a cell under independence. It is estimated from the
        noisy margins. If it is less than 1, there is no verdict.
    """

    statistic: float
    p_value: float
    least_expected: float

    @property
    def verdict(self) -> bool:
        """Return True if the table has enough rows for a verdict."""
        return self.least_expected >= LEAST_EXPECTED


def independence_test(table: NoisyTable, *, rng: np.random.Generator, resamples: int = 999) -> IndependenceTest:
    """Test that the two columns of a noisy table are independent.

    Parameters
    ----------
    table : NoisyTable
        A table with two columns, each of which has at least two categories.
    rng : numpy.random.Generator
        The generator for the simulated null distribution. It does not protect privacy.
    resamples : int, default=999
        The number of simulated tables, at least 1. The p-value is a multiple of 1/(resamples + 1).

    Returns
    -------
    IndependenceTest
        The statistic and the p-value.

    Raises
    ------
    InputError
        If the table has another shape, or if there are no resamples.

    Privacy
    -------
    The test is post-processing, so it has no additional cost. See docs/proofs/proportions.md.

    References
    ----------
    .. [1] Gaboardi, Lim, Rogers and Vadhan, ICML 2016.
    .. [2] Kifer and Rogers, AISTATS 2017.

    The talk on differentially private estimators names this test.
    """
    values, scale = table.values, table.scale
    if values.ndim != 2 or min(values.shape) < 2:
        raise InputError("a test of independence needs a table of two columns with at least two categories each")
    resamples = whole("resamples", resamples, 1)
    observed, expected = _statistic(values, table.rows, scale)
    rows = table.rows if table.rows is not None else max(round(float(values.sum())), 1)
    noisy = _draw(expected, rows, scale, resamples, rng)
    as_far = int((_statistic(noisy, table.rows, scale)[0] >= observed).sum())
    least = float(expected.min())
    p_value = (1 + as_far) / (1 + resamples) if least >= LEAST_EXPECTED else 1.0
    return IndependenceTest(float(observed), p_value, least)


@dataclass(frozen=True)
class IndependenceDesign:
    """A planned test of independence.

    Parameters
    ----------
    joint : sequence of sequence of float
        The assumed probability of each cell, for at least two rows and two columns. The probabilities are positive and
        add up to 1.
    alpha : float
        The level of the test, in (0, 1).
    epsilon : float
        The privacy cost ε of the noisy table, positive.
    relation : Relation, default=REPLACE_ONE
        The neighbouring relation, as in `noisy_table`.
    draws : int, default=20000
        The number of simulated tables under each hypothesis, at least 100. The error of the power is at most about
        1/√draws.
    seed : int, default=0
        The seed of the simulation.

    Examples
    --------
    >>> design = IndependenceDesign(((0.3, 0.2), (0.2, 0.3)), alpha=0.05, epsilon=0.2)
    >>> round(design.power(510), 1), round(design.sample_size(beta=0.2), -2)
    (0.8, 500)
    """

    joint: Sequence[Sequence[float]]
    alpha: float
    epsilon: float
    relation: Relation = REPLACE_ONE
    draws: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        share("alpha", self.alpha)
        positive("epsilon", self.epsilon)
        whole("draws", self.draws, 100)
        cell_sensitivity(self.relation)
        _ = self._cells

    @cached_property
    def _cells(self) -> Floats:
        cells = np.asarray(self.joint, dtype=float)
        two_columns = cells.ndim == 2 and min(cells.shape) >= 2
        if not two_columns or not (cells > 0).all() or not abs(cells.sum() - 1) < JOINT_SUM_TOLERANCE:
            raise InputError(
                "the joint table must have two columns with at least two categories each, and positive probabilities "
                "that sum to 1"
            )
        return np.asarray(cells / cells.sum())

    @cached_property
    def _product(self) -> Floats:
        return np.asarray(self._cells.sum(1, keepdims=True) * self._cells.sum(0, keepdims=True))

    def power(self, rows: int) -> float:
        """Return the probability that the test rejects independence.

        Parameters
        ----------
        rows : int
            The number of rows of the table, at least 1.

        Returns
        -------
        float
            The power, which is computed by simulation.
        """
        rows, scale = whole("rows", rows, 1), cell_sensitivity(self.relation) / self.epsilon
        known = rows if self.relation == REPLACE_ONE else None
        rng = np.random.default_rng(self.seed)
        null, _ = _statistic(_draw(self._product, rows, scale, self.draws, rng), known, scale)
        other, expected = _statistic(_draw(self._cells, rows, scale, self.draws, rng), known, scale)
        verdict = expected.min((-2, -1)) >= LEAST_EXPECTED
        return float(np.mean((other > np.quantile(null, 1 - self.alpha)) & verdict))

    def sample_size(self, beta: float) -> int:
        """Return the number of rows at which the test has the power 1 − β.

        Parameters
        ----------
        beta : float
            The type II error β, in (0, 1 − alpha).

        Returns
        -------
        int
            The number of rows, with a relative accuracy of 1 %. The expected number of rows in each cell is at least
            five.

        Raises
        ------
        InputError
            If β is not in (0, 1 − alpha), or if the columns of the joint table are independent.
        """
        product = self._product
        if not share("beta", beta) < 1 - self.alpha:
            raise InputError(
                f"beta is {beta:g}, but must be below 1 − alpha = {1 - self.alpha:g}; choose a smaller one"
            )
        if float(((self._cells - product) ** 2 / product).sum()) < LEAST_DISTANCE:
            raise InputError(
                "the columns of the joint table are independent; give a table with the dependence to detect"
            )
        short = math.ceil(RULE_OF_FIVE / float(product.min())) - 1  # one row less than the rule of five requires
        if self.power(short + 1) >= 1 - beta:
            return short + 1
        needed = 2 * (short + 1)
        while self.power(needed) < 1 - beta:
            short, needed = needed, 2 * needed
        while needed - short > max(1, needed // 100):
            middle = (short + needed) // 2
            short, needed = (short, middle) if self.power(middle) >= 1 - beta else (middle, needed)
        return needed


def _draw(cells: Floats, rows: int, scale: float, draws: int, rng: np.random.Generator) -> Floats:
    drawn = rng.multinomial(rows, (cells / cells.sum()).ravel(), size=draws)
    return drawn.reshape(draws, *cells.shape) + rng.laplace(0.0, scale, (draws, *cells.shape))


def _statistic(values: Floats, rows: int | None, scale: float) -> tuple[Floats, Floats]:
    """Compute the statistic and the expected counts of noisy tables.

    For tables of shape (..., r, c), the arrays have the shapes (...) and (..., r, c).
    """
    if rows is not None:  # the total is known, so the noise in the total can be removed
        cells = values.shape[-2] * values.shape[-1]
        values = values - (values.sum((-2, -1), keepdims=True) - rows) / cells
    total = np.maximum(values.sum((-2, -1), keepdims=True), 1.0)
    down, across = (np.maximum(values.sum(axis, keepdims=True), LEAST_MARGIN) for axis in (-1, -2))
    expected = total * (down / down.sum(-2, keepdims=True)) * (across / across.sum(-1, keepdims=True))
    return np.asarray(((values - expected) ** 2 / (expected + 2 * scale**2)).sum((-2, -1))), expected
