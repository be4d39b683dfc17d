"""One run's books: what a mechanism measures of a table, how it scores a choice, and what each step cost.

MST, AIM and GEM all take marginals of a table, choose some of them by how badly a model explains them, and fall back on
their first marginals where nothing else can be read. All of that is here, once: a mechanism says only what to offer and
what to pay.

>>> truth, modelled = np.array([30, 10]), np.array([20.0, 20.0])
>>> score(truth, modelled), round(score(truth, modelled, sigma=5.0), 2)
(20.0, 12.02)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import NOISE_L1, Groups, Measurement, measure_marginal

Columns = tuple[str, ...]

GRID = 1024  # scores are whole multiples of 1/GRID
LARGEST = 2.0**42  # of what goes into a score: up to twice this, a float holds every multiple of 1/GRID
ALMOST_ONE = 1 - 2.0**-18  # a weight above it counts as one, see `weighed`
NOTHING = Rho(0)


class Marginals(Protocol):
    """What tells expected counts over columns: a model."""

    def marginal(self, columns: Sequence[str]) -> Floats: ...


@dataclass(frozen=True)
class Step:
    """What one step of a run cost and published: enough to add up ρ again, and nothing else of the rows.

    Attributes:
        columns: what was measured; empty where only a choice was made, of nothing.
        sigma: the standard deviation of the noise on each cell; infinite where nothing was measured.
        measurement: ρ of the measurement.
        selection: ρ of the choice of `columns`; zero where there was none.
    """

    columns: Columns
    sigma: float
    measurement: Rho
    selection: Rho


def score(truth: npt.NDArray[np.int64], modelled: Floats, sigma: float = 0.0) -> float:
    """How badly a model explains a marginal: ‖true − model‖₁, less the noise that measuring it would bring, √(2/π)·σ·cells.

    Args:
        truth: the exact counts, which add up to less than 2³³; not private by themselves.
        modelled: the model's, made from noisy numbers alone, of the same shape.
        sigma: of the measurement to come; 0 to take nothing off.

    Sensitivity: exactly 1, in floating point too. One row moves one true cell by one, so ‖·‖₁ by at most one (either way); σ
    and cells are public. The model's counts and the noise are rounded to multiples of 1/1024 and held below 2⁴², so that
    every sum and difference here is a multiple of 1/1024 below 2⁴³, and floats of 53 bits add those without error.
    """
    expected = np.clip(modelled, 0.0, LARGEST)
    expected = np.rint(expected * (GRID * min(1.0, LARGEST / max(float(expected.sum()), 1.0)))) / GRID
    noise = np.rint(min(NOISE_L1 * sigma * modelled.size, LARGEST) * GRID) / GRID
    return float(np.abs(truth - expected).sum() - noise)


def weighed(scores: Floats, weights: Floats) -> Floats:
    """Scores times public weights, over the largest weight: so that one sensitivity, exactly 1, holds for all of them.

    The largest weight becomes 1 and changes nothing. A smaller one, v, is at most 1 − 2⁻¹⁸: two scores that are 1 apart and
    less than 2³⁴ then end at most v + 2·2⁻⁵³·2³⁴ ≤ 1 apart, the rounding of both products included.
    """
    shares = weights / weights.max()
    return np.where(shares > ALMOST_ONE, 1.0, shares) * scores


class Books:
    """A table, the budget that pays for looking at it, and what was measured and logged so far.

    Attributes:
        budget: what the run may spend.
        measurements: `known` first, then the run's own.
        log: a `Step` for each of these, and for each choice of nothing. Its amounts add up to what was spent.

    With `distinct`, marginals are counted on the table's distinct rows: worth finding these where hundreds are scored.
    """

    def __init__(
        self,
        table: CodedTable,
        rho: Rho,
        noise: NoiseSource,
        known: Sequence[Measurement] = (),
        distinct: bool = False,
    ) -> None:
        self.table, self.noise = table, noise
        self.budget = Budget(rho)
        self.measurements = list(known)
        self.log: list[Step] = []
        self._true = _TrueMarginals(table, distinct)

    def measure(
        self, columns: Iterable[str], price: Rho, selection: Rho = NOTHING, groups: Sequence[Groups] = ()
    ) -> Measurement:
        """Measure columns at this price; `selection` was paid before, for choosing them, and is only written down."""
        names = tuple(columns)
        noisy = measure_marginal(self.table, names, price, self.budget, self.noise, groups)
        self.measurements.append(noisy)
        self.log.append(Step(names, noisy.sigma, price, selection))
        return noisy

    def measure_again(self, first: Sequence[tuple[Columns, Rho]]) -> None:
        """The fallback where nothing else can be read or paid: what is left goes to the first marginals, as they shared before."""
        shares = self.budget.remaining.split([float(price) for _, price in first])
        for (columns, _), share in zip(first, shares, strict=True):
            self.measure(columns, share)

    def score(self, columns: Columns, model: Marginals, sigma: float = 0.0) -> float:
        """`score` of these columns of the table. Not private: only `choose` may see it."""
        return score(self._true[columns], model.marginal(columns), sigma)

    def choose(self, scores: Callable[[], Floats], price: Rho) -> int:
        """The place of a high score, by the exponential mechanism at `price`; the scores have sensitivity 1."""
        return self.noise.select(scores, 1.0, price, self.budget, "choice of a marginal")

    def chose_nothing(self, price: Rho) -> None:
        """Write down a choice, paid for, of nothing."""
        self.log.append(Step((), inf, NOTHING, price))


class _TrueMarginals:
    """Exact marginals, each counted once. Private: only scores may be made of them."""

    def __init__(self, table: CodedTable, distinct: bool) -> None:
        self.table, self.distinct = table, distinct
        self._known: dict[Columns, npt.NDArray[np.int64]] = {}

    def __getitem__(self, columns: Columns) -> npt.NDArray[np.int64]:
        if columns not in self._known:
            rows, times = self._counted
            if len(rows) < len(self.table):
                shape = [self.table.schema[name].size for name in columns]
                counted = np.bincount(rows.index_of(columns), times, prod(shape))
                self._known[columns] = counted.astype(np.int64).reshape(shape)
            else:
                self._known[columns] = self.table.marginal(columns)
        return self._known[columns]

    @cached_property
    def _counted(self) -> tuple[CodedTable, npt.NDArray[np.int64]]:
        return self.table.distinct() if self.distinct else (self.table, np.ones(0, dtype=np.int64))
