"""Linear and logistic regression on a table of expected counts.

Each cell of the table is a row, and its count is the weight of the row. The coefficients of main effects depend on the
marginals of pairs of columns. For linear regression, they depend on nothing else. Therefore, a model of pairs is
sufficient.

>>> from equistrata.data.schema import Column, Schema
>>> schema = Schema.load("acs_employment").select(["SEX", "DIS", "ESR"])
>>> counts = np.array([[[30.0, 10.0], [10.0, 30.0]], [[30.0, 10.0], [10.0, 30.0]]])
>>> asked = Regression.of(schema, "logit", {"ESR": 0}, ["SEX", "DIS"])
>>> asked.terms, (asked.coefficients(counts.ravel()).round(3) + 0.0).tolist()
(('(intercept)', 'SEX=2', 'DIS=2'), [1.099, 0.0, -2.197])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.analysis.axes import codes_of, named, outer_column_names
from equistrata.analysis.questions import MOST_CELLS, Of, broadcast_functionals, check_words, code_numbers
from equistrata.analysis.regression.moments import Term
from equistrata.arrays import Floats
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError
from equistrata.synth.measurements import Columns

MOST_TERMS = 200
_STEPS, _CONVERGED, _SETTLED, _RIDGE = 50, 1e-9, 1e-4, 1e-9


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression over the cells of a table.

    Attributes
    ----------
    kind : str
        "ols" or "logit".
    columns : tuple of str
        The columns of the table.
    terms : tuple of str
        The names of the coefficients: the intercept, each value of a column except its first (such as `SEX=2`), or the
        name of a numeric column.
    design : ndarray of shape (cells, terms)
        The design matrix.
    outcome : ndarray of shape (cells,)
        The outcome, which is 0 or 1 for "logit".
    kept : ndarray of shape (cells,)
        1 for cells in which all numbers are present, and 0 otherwise.
    parts : tuple
        The columns and the number of each cell for each term and for the outcome. The number is NaN if it is absent.
    """

    kind: str
    columns: Columns
    terms: tuple[str, ...]
    design: Floats
    outcome: Floats
    kept: Floats
    parts: tuple[Term, ...]

    @classmethod
    def of(cls, schema: Schema, kind: str, of: Of, on: Sequence[str]) -> Regression:
        """Create a regression.

        Parameters
        ----------
        schema : Schema
            The schema of the release.
        kind : str
            "ols" or "logit".
        of : str or mapping
            For "ols", a column of numbers. For "logit", {column: value or values} for an outcome of 1.
        on : sequence of str
            The explanatory variables. Numeric columns have one coefficient. Other columns have one coefficient for each
            value except the first. "A*B" stands for A, B and their interaction.

        Returns
        -------
        Regression
            The regression.

        Raises
        ------
        InputError
            If the schema does not have the outcome or one of the columns.
        """
        check_words(of, on, None)
        on, pairs = interactions(schema, on)
        given = [of] if isinstance(of, str) else list(of or ())
        unknown = [name for name in (*given, *on) if name not in schema.names]
        if unknown and unknown[0] in outer_column_names(schema):
            raise InputError(
                f"a regression cannot use {unknown[0]!r}, because a column within it determines it; give that column "
                f"instead, or ask for proportions, means or differences by {unknown[0]!r}"
            )
        if unknown:
            raise InputError(f"the release has no column {unknown[0]!r}; it has {', '.join(schema.names)}")
        if len(given) != 1 or not on or set(given) & set(on) or len(set(on)) < len(on):
            raise InputError("a regression needs one outcome in 'of', and other columns in 'by'; give each column once")
        columns = tuple(name for name in schema.names if name in {*given, *on})
        shape = tuple(schema[name].size for name in columns)
        if prod(shape) > MOST_CELLS // 10:
            raise InputError(
                f"a table of {', '.join(columns)} has {prod(shape):,} cells, which is too many; give fewer columns"
            )
        terms_of = {name: 1 if _as_number(schema[name]) else schema[name].size - 1 for name in on}
        count = 1 + sum(terms_of.values()) + sum(terms_of[a] * terms_of[b] for a, b in pairs)
        if count > MOST_TERMS:
            raise InputError(
                f"a regression on {', '.join(on)} has {count:,} coefficients, but the maximum is {MOST_TERMS}; leave "
                "out columns with many values"
            )
        y = schema[given[0]]
        if kind == "ols":
            if not isinstance(of, str):
                raise InputError("a linear regression needs a numeric column as outcome; give its name in 'of'")
            outcome = code_numbers(y)[0]
        else:
            if of is None or isinstance(of, str):
                raise InputError("a logistic regression needs an outcome of 0 or 1; give {column: value} in 'of'")
            outcome = np.isin(np.arange(y.size), codes_of(y, of[y.name])).astype(float)
        named_terms: list[tuple[str, Term]] = [("(intercept)", ((), np.ones(1)))]
        by_column = {name: _terms(schema[name]) for name in on}
        for name in on:
            named_terms += by_column[name]
        for a, b in pairs:
            named_terms += [
                (f"{one}:{other}", ((a, b), np.outer(left, right).ravel()))
                for one, (_, left) in by_column[a]
                for other, (_, right) in by_column[b]
            ]
        terms = [name for name, _ in named_terms]
        parts: list[Term] = [part for _, part in named_terms]
        parts.append(((y.name,), outcome))
        table = np.stack(
            [broadcast_functionals(numbers[None, :], own, columns, shape)[0] for own, numbers in parts], axis=1
        )
        present, table = ~np.isnan(table).any(1), np.nan_to_num(table)
        return cls(kind, columns, tuple(terms), table[:, :-1], table[:, -1], present.astype(float), tuple(parts))

    @property
    def outcome_column(self) -> str:
        """The column of the outcome."""
        return self.parts[-1][0][0]

    def products(self, counts: Floats) -> Floats:
        """Compute the sums of terms times outcome over the rows of a table.

        Parameters
        ----------
        counts : ndarray of shape (cells,)
            The counts of the table.

        Returns
        -------
        ndarray of shape (terms,)
            The sums.
        """
        return np.asarray(self.design.T @ (self.weights(counts) * self.outcome))

    def spread(self, variance: Floats) -> Floats:
        """Compute the variance of `products`.

        Parameters
        ----------
        variance : ndarray of shape (cells,)
            The variances of the counts.

        Returns
        -------
        ndarray of shape (terms,)
            The variances of the sums.
        """
        return np.asarray((self.design**2).T @ (variance * self.kept * self.outcome**2))

    def weights(self, counts: Floats) -> Floats:
        """Return the number of rows in each cell that are included in the regression."""
        return np.maximum(counts, 0.0) * self.kept

    def coefficients(self, counts: Floats, products: Floats | None = None) -> Floats:
        """Fit the regression by least squares, or by maximum likelihood with Newton's method.

        The likelihood may have no finite maximum for a coefficient, for example if all rows of a group have the same
        outcome. In this case, the value of the last step is returned, and `settled` is False for this coefficient.

        Parameters
        ----------
        counts : ndarray of shape (cells,)
            The table of counts.
        products : ndarray of shape (terms,), optional
            The sums of terms times outcome over the rows, if more accurate values are known than those of the table.

        Returns
        -------
        ndarray of shape (terms,)
            The coefficients.
        """
        return self.fitted(counts, products)[0]

    def settled(self, counts: Floats, products: Floats | None = None) -> npt.NDArray[np.bool_]:
        """Return a mask of the coefficients that have converged to a maximum, shape (terms,)."""
        return self.fitted(counts, products)[1]

    def fitted(self, counts: Floats, products: Floats | None = None) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return `coefficients` and `settled`."""
        found, step = self._fitted(counts, products)
        return found, np.abs(step) < _SETTLED

    def held(self, counts: Floats, products: Floats, start: Floats, place: int) -> Floats:
        """Fit a logistic regression in which one coefficient is fixed at its start value."""
        return self._fitted(counts, products, start, np.arange(len(start)) != place)[0]

    def orthogonal_combination(self, weights: Floats, place: int) -> Floats:
        """Return the combination of terms that is orthogonal to all terms except one, shape (terms,).

        The factor of the term at `place` is 1.
        """
        square = self._square(weights)
        others = np.arange(len(square)) != place
        found = np.ones(len(square))
        found[others] = -np.linalg.solve(square[np.ix_(others, others)], square[others, place])
        return found

    def _fitted(
        self,
        counts: Floats,
        products: Floats | None,
        start: Floats | None = None,
        free: npt.NDArray[np.bool_] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the coefficients and the last step."""
        weights = self.weights(counts)
        if products is None:
            products = self.products(counts)
        if self.kind == "ols":
            return self._inverse(weights) @ products, np.zeros(len(self.terms))
        found, step = np.zeros(len(self.terms)) if start is None else start, np.zeros(len(self.terms))
        free = np.ones(len(self.terms), dtype=bool) if free is None else free
        for _ in range(_STEPS):
            chance = scipy.special.expit(self.design @ found)
            right = products - self.design.T @ (weights * chance)
            step[free] = np.linalg.solve(self._square(weights * chance * (1 - chance))[np.ix_(free, free)], right[free])
            found = found + np.clip(step, -5.0, 5.0)
            if np.abs(step).max() < _CONVERGED:
                break
        return found, step

    def sampling(self, counts: Floats, found: Floats) -> Floats:
        """Compute the sandwich variance of the coefficients due to the sampling of rows.

        Parameters
        ----------
        counts : ndarray of shape (cells,)
            The counts of the table.
        found : ndarray of shape (terms,)
            The coefficients.

        Returns
        -------
        ndarray of shape (terms,)
            The variances.
        """
        weights, fitted = self.weights(counts), self.design @ found
        chance = scipy.special.expit(fitted)
        residual = self.outcome - (fitted if self.kind == "ols" else chance)
        bread = self._inverse(weights if self.kind == "ols" else weights * chance * (1 - chance))
        meat = (self.design * (weights * residual**2)[:, None]).T @ self.design
        return np.asarray(np.diag(bread @ meat @ bread))

    def _square(self, weights: Floats) -> Floats:
        square = (self.design * weights[:, None]).T @ self.design
        return np.asarray(square + _RIDGE * max(float(np.trace(square)), 1.0) * np.eye(len(square)))

    def _inverse(self, weights: Floats) -> Floats:
        return np.asarray(np.linalg.inv(self._square(weights)))


def interactions(schema: Schema, on: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Read the columns that explain an outcome, where "A*B" stands for A, B and their interaction.

    Returns
    -------
    columns : tuple of str
        Each column once, for its main effect.
    pairs : tuple of (str, str)
        The interactions, each pair in the schema's order.
    """
    columns: dict[str, None] = {}
    pairs: dict[tuple[str, str], None] = {}
    plain = [name for name in on if name in schema.names or "*" not in name]
    if len(set(plain)) < len(plain):
        raise InputError(f"a column is given twice in 'by' ({', '.join(plain)}); give each column once")
    for name in on:
        factors = [name] if name in plain else [factor.strip() for factor in name.split("*")]
        columns |= dict.fromkeys(factors)
        if name not in plain:
            if len(factors) != 2 or factors[0] == factors[1]:
                raise InputError(f"{name!r} is not an interaction; write two different columns, such as 'SEX*DIS'")
            pairs[tuple(sorted(factors, key=lambda each: _place(schema, each)))] = None  # type: ignore[index]
    return tuple(columns), tuple(pairs)


def _place(schema: Schema, name: str) -> int:
    return schema.names.index(name) if name in schema.names else -1


def _terms(column: Column) -> list[tuple[str, Term]]:
    """Return the main effects of a column: its numbers, or an indicator of each value except the first."""
    if _as_number(column):
        return [(column.name, ((column.name,), code_numbers(column)[0]))]
    codes = np.arange(column.size)
    return [
        (f"{column.name}={key}", ((column.name,), (codes == code).astype(float)))
        for code, key in enumerate(named(column))
        if code
    ]


def _as_number(column: Column) -> bool:
    """Return True if a column has a single coefficient for its numbers rather than one coefficient per value."""
    return column.numeric and column.release != "index" and not column.layout
