"""Number of people that the rows stand for, given by a survey weight and by public control totals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equistrata.arrays import Floats, Indices
from equistrata.errors import InputError


@dataclass(frozen=True, eq=False)
class SurveyWeight:
    """The number of people that the rows of a question stand for.

    Attributes
    ----------
    column : str
        The survey weight, which is an additional axis of the table.
    groups : tuple of int
        The group of each code of the survey weight. A question reads the weight in these groups.
    shares : ndarray of shape (codes,)
        The probability P(code | group) of each code.
    numbers : ndarray of shape (codes,)
        The weight of each code.
    scale : float
        The unit of the weights. It is 1 or the mean weight. With the mean weight, the sums of a ratio are in rows.
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
        """The mean squared weight of each group divided by its mean weight, shape (groups,).

        This is the ratio of a row's contribution to the sampling variance to its weight.
        """
        squares = np.bincount(self.groups, self.shares * self.numbers**2) / self.scale**2
        return np.divide(squares, self.mean, out=np.zeros(len(squares)), where=self.mean > 0)


@dataclass(frozen=True, eq=False)
class PostStrata:
    """Public control totals of people, to which the weights are adjusted by post-stratification.

    Attributes
    ----------
    cells : ndarray of int, shape (cells,)
        The cell of the totals for each cell of the question's table.
    totals : ndarray of shape (n,)
        The public totals.

    References
    ----------
    .. [1] Holt and Smith (1979), Post Stratification.
    """

    cells: Indices
    totals: Floats

    def factors(self, people: Floats) -> Floats:
        """Return the factor by which the weights in each cell are multiplied, shape (cells,).

        `people` is the number of people in each cell before the adjustment. Raises InputError if a cell of the totals
        has people but the table does not.
        """
        sums = np.bincount(self.cells, people, len(self.totals))
        if ((sums <= 0) & (self.totals > 0)).any():
            raise InputError(
                "the model of the release has no people in a cell of the control totals, so that cell cannot be "
                "estimated; ask for rows of the file (weighted=False, or --unweighted)"
            )
        found = np.divide(self.totals, sums, out=np.zeros(len(sums)), where=sums > 0)
        return np.asarray(found[self.cells])

    def means(self, functionals: Floats, weights: Floats) -> Floats:
        """Return the mean of functionals in each cell of the totals, as values for the cells of the table.

        The mean is the sum of the functionals, of shape (n, cells), divided by the sum of the weights.
        """
        sums = np.array([np.bincount(self.cells, each, len(self.totals)) for each in functionals])
        below = np.bincount(self.cells, weights, len(self.totals))
        return np.asarray((sums / np.where(below > 0, below, 1.0))[:, self.cells])
