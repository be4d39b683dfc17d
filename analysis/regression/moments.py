"""Sums of products of two columns over all rows, computed from the measurements of each pair.

The sums are linear in the noise and do not depend on a model. A linear regression only requires these sums, and they
are also the sufficient statistics of a logistic regression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.analysis.questions import broadcast_functionals
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns

# The columns of a term in the order of the schema, and the number of each cell of their table. The intercept has no
# columns and an interaction has two.
Term = tuple[Columns, Floats]
Tables = Callable[[Columns], Sequence[LeastSquares]]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of products over the rows for pairs of terms.

    Attributes
    ----------
    shape : tuple of int
        The shape of the matrix of sums.
    parts : tuple
        For each sum, its row and column in the matrix, its table, and the value of each cell, shape (cells,).
    """

    shape: tuple[int, int]
    parts: tuple[tuple[int, int, LeastSquares, Floats], ...]

    @classmethod
    def of(cls, schema: Schema, tables: Tables, first: Sequence[Term], second: Sequence[Term]) -> Moments | None:
        """Compute the sums of products for all pairs of a term in `first` and a term in `second`.

        Returns None if one of the sums cannot be computed from the measurements.
        """
        parts = []
        for i, left in enumerate(first):
            for j, right in enumerate(second):
                columns, cells = _product(schema, left, right)
                for table in tables(columns):
                    functional = broadcast_functionals(cells[None, :], columns, table.columns, table.shape)
                    if table.has(functional)[0]:
                        parts.append((i, j, table, functional[0]))
                        break
                else:
                    return None
        return cls((len(first), len(second)), tuple(parts))

    @property
    def variance(self) -> Floats:
        """The variance of the noise in each of the `sums`, with the same shape."""
        found = np.zeros(self.shape)
        for i, j, table, functional in self.parts:
            found[i, j] = table.spread(functional[None, :])[0] @ functional
        return found

    def sums(self, values: Sequence[Floats]) -> Floats:
        """Return the matrix of sums for the given values of all measurements."""
        known: dict[int, Floats] = {}
        found = np.zeros(self.shape)
        for i, j, table, functional in self.parts:
            if id(table) not in known:
                known[id(table)] = table.counts(values)
            found[i, j] = functional @ known[id(table)]
        return found


def _product(schema: Schema, left: Term, right: Term) -> tuple[Columns, Floats]:
    """Return the columns of two terms, in the schema's order, and the product of the terms in each cell."""
    columns = tuple(name for name in schema.names if name in {*left[0], *right[0]})
    shape = tuple(schema[name].size for name in columns)
    first, second = (broadcast_functionals(numbers[None, :], own, columns, shape)[0] for own, numbers in (left, right))
    return columns, first * second
