"""How many people rows stand for: by a survey weight, and by public totals with which weights agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.errors import InputError


@dataclass(frozen=True, eq=False)
class SurveyWeight:
    """How many people the rows of a question stand for.

    Attributes:
        column: the survey weight, which is one axis more.
        groups: the group of each of its codes, in which a question reads it.
        shares: P(code | group), shape (codes,).
        numbers: the weight of each code, shape (codes,).
        scale: weights are counted in this unit: 1, or the mean weight, so that a ratio's sums are in rows.
    """

    column: str
    groups: tuple[int, ...]
    shares: Floats
    numbers: Floats
    scale: float = 1.0

    @cached_property
    def mean(self) -> Floats:
        """The mean weight of each group, shape (groups,)."""
        return np.bincount(self.groups, self.shares * self.numbers) / self.scale

    @cached_property
    def spread(self) -> Floats:
        """The mean of squared weights of each group over the mean weight: times what a row's sampling variance counts
        more than its weight. Shape (groups,)."""
        squares = np.bincount(self.groups, self.shares * self.numbers**2) / self.scale**2
        return np.divide(squares, self.mean, out=np.zeros(len(squares)), where=self.mean > 0)


@dataclass(frozen=True, eq=False)
class PostStrata:
    """Public totals of people, which weights are made to agree with (Holt and Smith, 1979).

    Attributes:
        cells: of each cell of the question's table, that of the totals, shape (cells,).
        totals: shape (n,).
    """

    cells: Indices
    totals: Floats

    def factors(self, people: Floats) -> Floats:
        """What the weights of each cell are multiplied by where the cells have so many people, shape (cells,).

        Raises InputError where a cell of the totals has people and the table none.
        """
        sums = np.bincount(self.cells, people, len(self.totals))
        if ((sums <= 0) & (self.totals > 0)).any():
            raise InputError(
                "the release's model has nobody in a cell of the control totals, so nothing says who is there; ask for "
                "rows of the file (weighted=False, or --unweighted)"
            )
        found = np.divide(self.totals, sums, out=np.zeros(len(sums)), where=sums > 0)
        return np.asarray(found[self.cells])

    def means(self, functionals: Floats, weights: Floats) -> Floats:
        """Of each cell of the totals the sum of functionals of the table, shape (n, cells), over that of weights, as
        numbers of the table's cells."""
        sums = np.array([np.bincount(self.cells, each, len(self.totals)) for each in functionals])
        below = np.bincount(self.cells, weights, len(self.totals))
        return np.asarray((sums / np.where(below > 0, below, 1.0))[:, self.cells])
