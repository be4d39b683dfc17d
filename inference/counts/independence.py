"""Are two columns independent? The χ² test on a noisy table, and how many rows it needs.

Noise of a known law makes the classical statistic too large, so the classical χ² quantile rejects independence far too
often. Here the null law is simulated: tables of independent columns with the margins that the noisy table shows, and
the same noise.

>>> import numpy as np
>>> from equistrata.inference.counts.noisy_counts import noisy_table
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> first = rng.integers(0, 2, 800)
>>> second = np.where(rng.random(800) < 0.25, first, rng.integers(0, 3, 800))
>>> table = noisy_table(np.column_stack([first, second]), (2, 3), epsilon=0.5, noise=SeededNoise(1))
>>> independence_test(table, rng=rng).p_value
0.001
>>> round(independence_sample_size([[0.3, 0.2], [0.2, 0.3]], alpha=0.05, beta=0.2, epsilon=0.2), -2)
500
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import NoisyTable, cell_sensitivity
from equistrata.privacy.budget import REPLACE_ONE, Relation
from equistrata.stats.checks import positive, share, whole

__all__ = ["IndependenceTest", "independence_power", "independence_sample_size", "independence_test"]


LEAST_EXPECTED = 1.0  # rows in a cell under independence, as the noisy table shows them: below it there is no verdict
RULE_OF_FIVE = 5.0  # the same, planned for: room for the noise of the estimate
LEAST_MARGIN = 0.5  # rows that a margin counts for at least, however low its noisy count
LEAST_DISTANCE = 1e-12  # of χ² per row: below it a table is taken for independent
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class IndependenceTest:
    """The outcome of a test of independence.

    Attributes:
        statistic: Σ (Yᵢⱼ − eᵢⱼ)²/(eᵢⱼ + 2b²), the squared distance from independence in units of its variance, noise
            included; without noise Pearson's χ².
        p_value: in (0, 1]; 1 where there is no verdict.
        least_expected: the smallest eᵢⱼ: rows in a cell under independence, estimated from the noisy margins.
    """

    statistic: float
    p_value: float
    least_expected: float

    @property
    def verdict(self) -> bool:
        """Whether the table had enough rows for a verdict."""
        return self.least_expected >= LEAST_EXPECTED


def independence_test(table: NoisyTable, *, rng: np.random.Generator, resamples: int = 999) -> IndependenceTest:
    """Test that the two columns of a noisy table are independent.

    Args:
        table: two columns, each of at least two categories.
        rng: for the simulated null law; it protects nothing.
        resamples: simulated tables, at least 1; the p-value is a multiple of 1/(resamples + 1).

    Returns:
        The test. Its null law is that of tables drawn from Multinomial(n, ρ̂ ⊗ κ̂) with the table's own Laplace noise,
        where ρ̂ and κ̂ are the shares of the noisy margins; each simulated table goes through the same estimates. That is
        valid as far as the margins are known. Where they are not, it would not be: with expected counts far below one,
        simulations of the level at 0.05 gave up to 0.20. So there is no verdict if a cell's estimated expected count is
        below 1; then the level stayed within Monte Carlo error of 0.05, or below, in every one of 210 settings
        (tests/inference/test_independence.py has the hardest of them).

    Raises:
        InputError: a table that has not two columns of two categories, or a number of resamples below 1.

    Privacy: none beyond that of the table (post-processing). Source: the talk names the test; the Monte Carlo null law is
    that of Gaboardi, Lim, Rogers and Vadhan (ICML 2016), with the noise's variance in the statistic's denominator, as
    Kifer and Rogers (AISTATS 2017) have it, which keeps small cells from deciding alone.
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


def independence_power(
    joint: npt.ArrayLike,
    *,
    rows: int,
    alpha: float,
    epsilon: float,
    relation: Relation = REPLACE_ONE,
    draws: int = 20_000,
    seed: int = 0,
) -> float:
    """The probability that the test rejects independence when the cells have these probabilities, by simulation.

    Args:
        joint: shape (r, c), r and c at least 2: the guessed probability of each cell, positive, adding up to 1.
        rows: at least 1.
        alpha: the level, in (0, 1).
        epsilon: at which the table is released, positive.
        relation: as for `noisy_table`; it sets the scale of the noise.
        draws: simulated tables under independence, and as many under `joint`; at least 100. The error is at most
            1/√draws or so.
        seed: of the simulation.

    Returns:
        The share of tables under `joint` that have a verdict and lie beyond the 1 − alpha quantile of those of independent
        columns with its margins.

    Raises:
        InputError: an argument out of its range.

    >>> round(independence_power([[0.3, 0.2], [0.2, 0.3]], rows=510, alpha=0.05, epsilon=0.2), 1)
    0.8
    """
    cells, rows, draws = _joint(joint), whole("rows", rows, 1), whole("draws", draws, 100)
    alpha = share("alpha", alpha)
    scale = cell_sensitivity(relation) / positive("epsilon", epsilon)
    known = rows if relation == REPLACE_ONE else None
    rng = np.random.default_rng(seed)
    null, _ = _statistic(_draw(_product(cells), rows, scale, draws, rng), known, scale)
    other, expected = _statistic(_draw(cells, rows, scale, draws, rng), known, scale)
    verdict = expected.min((-2, -1)) >= LEAST_EXPECTED
    return float(np.mean((other > np.quantile(null, 1 - alpha)) & verdict))


def independence_sample_size(
    joint: npt.ArrayLike,
    *,
    alpha: float,
    beta: float,
    epsilon: float,
    relation: Relation = REPLACE_ONE,
    draws: int = 20_000,
    seed: int = 0,
) -> int:
    """The rows from which `independence_power` is 1 − beta, to one part in a hundred.

    At least so many that every cell expects five under independence: then the noisy table has a verdict.

    Args:
        joint, alpha, epsilon, relation, draws, seed: as for `independence_power`; the columns must not be independent.
        beta: the type II error, in (0, 1 − alpha).

    Raises:
        InputError: an argument out of its range.
    """
    cells = _joint(joint)
    product = _product(cells)
    if not share("beta", beta) < 1 - share("alpha", alpha):
        raise InputError(f"beta is {beta:g}, but must be below 1 − alpha = {1 - alpha:g}; choose a smaller beta")
    if float(((cells - product) ** 2 / product).sum()) < LEAST_DISTANCE:
        raise InputError("the joint table is that of independent columns; give the dependence that is to be seen")

    def enough(rows: int) -> bool:
        found = independence_power(
            cells, rows=rows, alpha=alpha, epsilon=epsilon, relation=relation, draws=draws, seed=seed
        )
        return found >= 1 - beta

    short = math.ceil(RULE_OF_FIVE / float(product.min())) - 1  # one row fewer than the rule of five asks for
    if enough(short + 1):
        return short + 1
    needed = 2 * (short + 1)
    while not enough(needed):
        short, needed = needed, 2 * needed
    while needed - short > max(1, needed // 100):
        middle = (short + needed) // 2
        short, needed = (short, middle) if enough(middle) else (middle, needed)
    return needed


def _draw(cells: Floats, rows: int, scale: float, draws: int, rng: np.random.Generator) -> Floats:
    """Noisy tables of rows drawn from these cells, shape (draws, r, c)."""
    drawn = rng.multinomial(rows, (cells / cells.sum()).ravel(), size=draws)
    return drawn.reshape(draws, *cells.shape) + rng.laplace(0.0, scale, (draws, *cells.shape))


def _statistic(values: Floats, rows: int | None, scale: float) -> tuple[Floats, Floats]:
    """The statistic, shape (…), and the expected counts, shape (…, r, c), of noisy tables of shape (…, r, c)."""
    if rows is not None:  # the total is known, so the noise in it can be taken out again
        cells = values.shape[-2] * values.shape[-1]
        values = values - (values.sum((-2, -1), keepdims=True) - rows) / cells
    total = np.maximum(values.sum((-2, -1), keepdims=True), 1.0)
    down, across = (np.maximum(values.sum(axis, keepdims=True), LEAST_MARGIN) for axis in (-1, -2))
    expected = total * (down / down.sum(-2, keepdims=True)) * (across / across.sum(-1, keepdims=True))
    return np.asarray(((values - expected) ** 2 / (expected + 2 * scale**2)).sum((-2, -1))), expected


def _joint(joint: npt.ArrayLike) -> Floats:
    cells = np.asarray(joint, dtype=float)
    if cells.ndim != 2 or min(cells.shape) < 2 or not (cells > 0).all() or not abs(cells.sum() - 1) < SUM_TOLERANCE:
        raise InputError(
            "the joint table needs two columns of at least two categories, and positive probabilities that add up to 1; "
            "mend it"
        )
    scaled: Floats = cells / cells.sum()
    return scaled


def _product(joint: Floats) -> Floats:
    """The joint table of independent columns with the same margins."""
    down, across = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    product: Floats = down * across
    return product
