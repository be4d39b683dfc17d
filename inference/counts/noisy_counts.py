"""Counts with Laplace noise, which are sufficient statistics of binomial and multinomial models, under pure ε-DP.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> rows = np.random.default_rng(0).random(500) < 0.3
>>> yes = noisy_count(rows, epsilon=0.5, noise=SeededNoise(1))
>>> int(rows.sum()), round(yes.value, 2), round(yes.proportion, 3), yes.scale
(129, 129.05, 0.258, 2.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation, Rho
from equistrata.privacy.noise import NoiseSource, source_of
from equistrata.stats.checks import one_of, positive, whole


@dataclass(frozen=True, kw_only=True)
class CountPrice:
    """The privacy cost and the noise of noisy counts.

    Attributes
    ----------
    epsilon : float
        The cost in pure ε-DP.
    rho : Rho
        The cost in zCDP, ε²/2.
    entries : tuple of (str, Rho)
        The charges.
    relation : Relation
        The neighbouring relation.
    scale : float
        The scale b of the Laplace noise in each count, in rows. It is the L1 sensitivity divided by ε.
    private : bool
        If True, the noise source is suitable for real releases.
    """

    epsilon: float
    rho: Rho
    entries: tuple[tuple[str, Rho], ...]
    relation: Relation
    scale: float
    private: bool


@dataclass(frozen=True, kw_only=True)
class NoisyCount(CountPrice):
    """A noisy number of successes.

    Attributes
    ----------
    value : float
        The count plus Laplace noise. It is neither rounded nor clipped, so it is unbiased.
    rows : int
        The declared number of rows.
    """

    value: float
    rows: int

    @property
    def proportion(self) -> float:
        """Return the noisy proportion. It is unbiased, so it may be outside of [0, 1]."""
        return self.value / self.rows


@dataclass(frozen=True, kw_only=True)
class NoisyTable(CountPrice):
    """The noisy number of rows in each cell of a table.

    Attributes
    ----------
    values : ndarray
        The counts plus independent Laplace noise, with the shape of the table. They are neither rounded nor clipped.
    rows : int or None
        The declared number of rows under the replace-one relation. None under the add-remove relation, where the number
        of rows is private.
    """

    values: Floats
    rows: int | None


def noisy_count(values: npt.ArrayLike, *, epsilon: float, noise: NoiseSource) -> NoisyCount:
    """Count the ones among zeros and ones, with Laplace noise of scale 1/ε.

    Parameters
    ----------
    values : array-like of shape (n,)
        The values 0 or 1 (or False or True), with n ≥ 1. The number n is declared as public. The array is not changed.
    epsilon : float
        The privacy cost ε, positive.
    noise : NoiseSource
        The source of the noise.

    Returns
    -------
    NoisyCount
        The noisy count and its cost.

    Raises
    ------
    InputError
        If a value is not 0 or 1. No noise is drawn in this case.

    Privacy
    -------
    ε-DP, and therefore ε²/2-zCDP, under replacing one row. See docs/proofs/proportions.md.

    References
    ----------
    The talk on differentially private estimators, Algorithm 1 (with Λ = 1 and the scale 1/(nε) for the mean).
    """
    epsilon = positive("epsilon", epsilon)
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise InputError("a noisy count needs a one-dimensional array with at least one row; give values of shape (n,)")
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise InputError("a noisy count needs zeros and ones; code the values as 0 or 1")
    values, price = _released(lambda: np.array([np.count_nonzero(array)]), 1.0, epsilon, REPLACE_ONE, noise, "count")
    return NoisyCount(value=float(values[0]), rows=array.size, **price)


def noisy_table(
    codes: npt.ArrayLike,
    shape: Sequence[int],
    *,
    epsilon: float,
    noise: NoiseSource,
    relation: Relation = REPLACE_ONE,
) -> NoisyTable:
    """Count the rows in each cell of a declared table, with independent Laplace noise.

    Parameters
    ----------
    codes : array-like of shape (n, d) or (n,)
        The codes of the d columns, as whole numbers from 0. The array is not changed.
    shape : sequence of int
        The number of declared categories of each column, at least 1.
    epsilon : float
        The privacy cost ε, positive.
    noise : NoiseSource
        The source of the noise.
    relation : Relation, default=REPLACE_ONE
        The neighbouring relation. Under replace-one, the number n ≥ 1 of rows is declared as public, and the scale of
        the noise is 2/ε. Under add-remove, the number n ≥ 0 is private, and the scale is 1/ε.

    Returns
    -------
    NoisyTable
        The noisy counts and their cost.

    Raises
    ------
    InputError
        If a setting is out of its range, or if the codes do not fit the declared shape. No noise is drawn in this case.

    Privacy
    -------
    ε-DP, and therefore ε²/2-zCDP, under `relation`. See docs/proofs/proportions.md.

    Examples
    --------
    >>> from equistrata.privacy.noise import SeededNoise
    >>> table = noisy_table([[0, 1], [1, 1], [1, 0]], (2, 2), epsilon=1.0, noise=SeededNoise(1))
    >>> table.values.shape, table.scale, table.rows, float(table.rho)
    ((2, 2), 2.0, 3, 0.5)
    """
    epsilon = positive("epsilon", epsilon)
    sizes = tuple(whole("a number of categories", size, 1) for size in shape)
    sensitivity = cell_sensitivity(relation)
    array = np.asarray(codes)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise InputError(f"the codes must have shape (n, {len(sizes)}), with one column for each entry of 'shape'")
    if array.size and (array.dtype.kind not in "iu" or (array < 0).any() or (array >= np.array(sizes)).any()):
        raise InputError(
            "a row has a code that is not a declared category; code the columns from 0, as in their schema"
        )
    if relation == REPLACE_ONE and not len(array):
        raise InputError(f"the table has no rows, but the relation {REPLACE_ONE!r} needs at least one")

    def counts() -> Counts:
        cells = np.ravel_multi_index(tuple(array.T), sizes) if array.size else np.zeros(0, dtype=np.int64)
        return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)

    values, price = _released(counts, sensitivity, epsilon, relation, noise, "table")
    return NoisyTable(values=values, rows=len(array) if relation == REPLACE_ONE else None, **price)


def cell_sensitivity(relation: Relation) -> float:
    """Return the L1 sensitivity of all cells together."""
    one_of("relation", relation, (REPLACE_ONE, ADD_REMOVE))
    return 2.0 if relation == REPLACE_ONE else 1.0


def _released(
    counts: Callable[[], Counts], sensitivity: float, epsilon: float, relation: Relation, noise: NoiseSource, what: str
) -> tuple[Floats, dict[str, Any]]:
    noise, budget = source_of(noise), Budget(Rho.of_pure(epsilon))
    values, scale = noise.laplace(lambda: counts().astype(np.float64), sensitivity, epsilon, budget, what)
    price = {"epsilon": epsilon, "rho": budget.total, "entries": budget.entries, "relation": relation}
    return values, {**price, "scale": scale, "private": noise.private}
