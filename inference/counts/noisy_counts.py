"""Counts with Laplace noise: the sufficient statistics of binomial and multinomial models, released with pure ε.

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
    """What noisy counts cost, and their noise.

    Attributes:
        epsilon, rho, entries, relation: the price, pure ε; ε²/2 in zCDP; its charges and neighbouring relation.
        scale: b of the Laplace noise in each count, in rows: the L1 sensitivity over ε.
        private: whether the noise came from a source fit for real releases.
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

    Attributes:
        value: the count plus Laplace noise, neither rounded nor clipped, so unbiased.
        rows: the declared number of rows.
    """

    value: float
    rows: int

    @property
    def proportion(self) -> float:
        """The noisy proportion: unbiased, and so not always in [0, 1]."""
        return self.value / self.rows


@dataclass(frozen=True, kw_only=True)
class NoisyTable(CountPrice):
    """The noisy number of rows in each cell of a table.

    Attributes:
        values: the counts plus independent Laplace noise, of the table's shape, neither rounded nor clipped.
        rows: the declared number of rows (replace-one), or None where it is private (add-remove).
    """

    values: Floats
    rows: int | None


def noisy_count(values: npt.ArrayLike, *, epsilon: float, noise: NoiseSource) -> NoisyCount:
    """The number of ones among zeros and ones, plus Laplace noise of scale 1/ε.

    `values`, shape (n,), n ≥ 1, are never written to; n is declared public. Raises InputError, before any noise, unless
    each is 0 or 1 (or False or True).

    Cost: ε-DP, hence ε²/2-zCDP; replace-one. See docs/proofs/proportions.md.
    Source: the talk on differentially private estimators, Algorithm 1 (Λ = 1, on the scale of the mean 1/(nε)).
    """
    epsilon = positive("epsilon", epsilon)
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise InputError("a noisy count needs one column of at least one row; give values of shape (n,)")
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
    """The number of rows in each cell of a declared table, plus independent Laplace noise.

    Args:
        codes: shape (n, d), or (n,) for one column, whole numbers from 0; never written to.
        shape: the number of declared categories of each column, d of them, each at least 1.
        relation: replace-one, with n ≥ 1 declared public: noise of scale 2/ε. Add-remove, with n ≥ 0 private: 1/ε.

    Raises:
        InputError: a setting out of its range, or codes that do not fit the declared shape. No noise is drawn then.

    Cost: ε-DP, hence ε²/2-zCDP, under `relation`. See docs/proofs/proportions.md.

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
        raise InputError(f"the codes need shape (n, {len(sizes)}), one column for each entry of the declared shape")
    if array.size and (array.dtype.kind not in "iu" or (array < 0).any() or (array >= np.array(sizes)).any()):
        raise InputError("a row's code is not among the declared categories; code the columns from 0 by their schema")
    if relation == REPLACE_ONE and not len(array):
        raise InputError("a table of a declared number of rows needs at least one row")

    def counts() -> Counts:
        cells = np.ravel_multi_index(tuple(array.T), sizes) if array.size else np.zeros(0, dtype=np.int64)
        return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)

    values, price = _released(counts, sensitivity, epsilon, relation, noise, "table")
    return NoisyTable(values=values, rows=len(array) if relation == REPLACE_ONE else None, **price)


def cell_sensitivity(relation: Relation) -> float:
    """The L1 sensitivity of all cells together."""
    one_of("relation", relation, (REPLACE_ONE, ADD_REMOVE))
    return 2.0 if relation == REPLACE_ONE else 1.0


def _released(
    counts: Callable[[], Counts], sensitivity: float, epsilon: float, relation: Relation, noise: NoiseSource, what: str
) -> tuple[Floats, dict[str, Any]]:
    noise, budget = source_of(noise), Budget(Rho.of_pure(epsilon))
    values, scale = noise.laplace(lambda: counts().astype(np.float64), sensitivity, epsilon, budget, what)
    price = {"epsilon": epsilon, "rho": budget.total, "entries": budget.entries, "relation": relation}
    return values, {**price, "scale": scale, "private": noise.private}
