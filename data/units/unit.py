"""The unit of privacy, and the maximum number of rows of a unit that are used.

By default, the unit is a single row. If a column is declared as the unit, the unit consists of all rows that have the
same value of this column, such as the rows of a person or a household. Neighbouring tables then differ by one whole
unit, independent of the strata that its rows belong to. The proofs are in docs/proofs/units.md.

>>> Unit.read({"column": "SERIALNO", "at_most": 4}, "schema people")
Unit(column='SERIALNO', at_most=4, unique=False, weights='rows', relation='add-remove')
>>> for unit in (ROW, Unit("SERIALNO", 4), Unit("PERSON", 1, unique=True)):
...     print(unit.words)
one row
all rows with one SERIALNO, of which at most 4 are used
one row, which alone has its PERSON
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, sqrt
from typing import Any, Literal

from equistrata.errors import InputError

MOST_ROWS = 1_000  # the maximum of `at_most`
# The maximum of `at_most` if units are weighted equally, because the model then has a column of unit sizes.
MOST_WEIGHED = 16
UNIT_ROWS = "(rows of the unit)"  # the name of this column, which is not released
# By default, units are weighted equally if `noise_ratio` is at least LEAST_GAIN, and if the noise, k·√(columns/2ρ), is
# at least LEAST_NOISE times the number of rows. Otherwise, model error exceeds the gain (docs/experiments/units.md).
LEAST_GAIN, LEAST_NOISE = 1.3, 0.0015

Weights = Literal["rows", "units"]
Neighbours = Literal["add-remove", "replace-one"]


@dataclass(frozen=True)
class Unit:
    """The unit of privacy, which consists of rows that are added or removed together.

    Parameters
    ----------
    column : str, optional
        The column that contains the id of the unit. It is never released. If None, each row is a unit.
    at_most : int
        The maximum number of rows of a unit that are used. The other rows are left out (see
        `equistrata.data.units.bounding`). It must be 1 if there is no column.
    unique : bool
        If True, each row must have a different value in the column, and an error is raised if a value is repeated.
    weights : {"rows", "units"}
        The weights of the rows in the synthesis. For "rows", each row has weight 1, and the noise is calibrated to
        `at_most` rows. For "units", each unit has weight 1, which is divided equally among its rows, and the noise is
        calibrated to one unit. The number of rows of a unit is then an additional column that is measured, and the rows
        are drawn according to this column.
    relation : {"add-remove", "replace-one"}
        The neighbouring relation. Neighbouring tables differ by one unit that is added or removed, or by one unit that
        is replaced.

    Raises
    ------
    InputError
        If the settings are not valid.
    """

    column: str | None = None
    at_most: int = 1
    unique: bool = False
    weights: Weights = "rows"
    relation: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        whole = isinstance(self.at_most, int) and not isinstance(self.at_most, bool)
        if not (whole and 1 <= self.at_most <= MOST_ROWS):
            raise InputError(f"'at_most' of a unit must be a whole number of rows from 1 to {MOST_ROWS:,}")
        if self.column is None and (self.at_most != 1 or self.unique):
            raise InputError("'at_most' bounds the rows of a unit, but no unit is declared; name its column")
        if self.weights == "units" and not 1 < self.at_most <= MOST_WEIGHED:
            raise InputError(
                f"units can only count as one each if 'at_most' is from 2 to {MOST_WEIGHED}; change 'at_most', or "
                "count rows"
            )

    @classmethod
    def read(cls, declared: Any, here: str) -> Unit:
        """Return the unit that a schema file declares as `unit: {column: NAME, at_most: ROWS}`.

        If `at_most` is missing, the column contains an id that is different for each row.

        Parameters
        ----------
        declared : object
            The value of the key `unit` in the schema file.
        here : str
            The start of the error message.

        Raises
        ------
        InputError
            If the declaration is not valid.
        """
        shape = "needs 'unit' to be {column: NAME, at_most: ROWS}, or {column: NAME} if each row has its own id"
        if not (isinstance(declared, dict) and {"column"} <= set(declared) <= {"column", "at_most"}):
            raise InputError(f"{here} {shape}")
        if not (isinstance(declared["column"], str) and declared["column"].strip()):
            raise InputError(f"{here} {shape}, with the name of a column")
        if "at_most" in declared and declared["at_most"] is None:
            raise InputError(f"{here} has a 'unit' with an empty 'at_most'; give a number of rows, or remove the key")
        try:
            return cls.of(declared["column"], declared.get("at_most"))
        except InputError as error:
            raise InputError(f"{here} has an invalid 'unit': {error}") from None

    @classmethod
    def of(cls, column: str, at_most: int | None) -> Unit:
        """Return the unit that is given by a column.

        Parameters
        ----------
        column : str
            The column that contains the id of the unit.
        at_most : int or None
            The maximum number of rows of a unit. If None, the id must be different for each row.

        Raises
        ------
        InputError
            If `at_most` is not valid.
        """
        return cls(column, 1, unique=True) if at_most is None else cls(column, at_most)

    @property
    def words(self) -> str:
        """A description of the unit for cards and reports."""
        if self.column is None:
            return "one row"
        if self.unique:
            return f"one row, which alone has its {self.column}"
        rows = "one is" if self.at_most == 1 else f"at most {self.at_most} are"
        counted = ", and which counts as one" if self.weights == "units" else ""
        return f"all rows with one {self.column}, of which {rows} used{counted}"

    def left_out_words(self, counted: Mapping[str, Any] | None) -> str:
        """Return sentences about the effect of the maximum number of rows, for cards and reports.

        Parameters
        ----------
        counted : mapping or None
            The noisy counts of units by their number of rows, as in the entry `unit_sizes` of a card. If None, these
            counts were not measured.

        Returns
        -------
        str
            The sentences, or an empty text if the number of rows of a unit is not bounded.
        """
        if self.column is None or self.unique:
            return ""
        if counted is None:
            many = "How many were left out is private; the setting 'bound_share' buys a noisy count of them."
        else:
            left, most = counted["left_out"], f"{counted['most']:,}"
            many = (
                f"Left out were about {left['rows']:,.0f} ± {1.96 * left['standard_deviation']:,.0f} (95 %), by noisy "
                f"counts of units with so many rows, where {most} or more count as {most}."
            )
        return (
            "Rows beyond the bound are not used. Counts, shares and means are of the rows that are used; they differ "
            f"from those of all rows where units with more rows are unlike others. {many}"
        )

    @property
    def synthesis_cost(self) -> int:
        """The zCDP cost of a unit in the synthesis, relative to the cost of adding a weight of 1.

        For k rows of a unit, this is k² if a unit is added or removed, and 2k² if a unit is replaced. If the weights
        are "units", k is 1. The counts of a unit are not negative. The squared norm of a replacement is therefore at
        most the sum of the squared norms of the removed and the added counts. The scores of a selection are scaled by
        `choice_sensitivity` so that a selection has the same cost. The proof is in docs/proofs/units.md.
        """
        rows = self.at_most if self.weights == "rows" else 1
        return rows**2 * (2 if self.relation == "replace-one" else 1)

    @property
    def sum_cost(self) -> int:
        """The zCDP cost of a unit in a sum or a distance that can have either sign, relative to the cost of adding one
        row.

        For k rows of a unit, this is k² if a unit is added or removed, and (2k)² if a unit is replaced.
        """
        return (self.at_most * (2 if self.relation == "replace-one" else 1)) ** 2

    @property
    def histogram_cost(self) -> int:
        """The zCDP cost of a unit in a histogram of units, relative to the cost of adding one unit.

        This is 1 if a unit is added or removed, and 2 if a unit is replaced.
        """
        return 2 if self.relation == "replace-one" else 1

    @property
    def choice_sensitivity(self) -> float:
        """The sensitivity of the scores of a selection, if adding a weight of 1 changes a score by at most 1."""
        return sqrt(2) if self.relation == "replace-one" else 1.0


ROW = Unit()


def unit_sizes_of(texts: Sequence[str]) -> tuple[float, ...]:
    """Return the public shares of units that have 1, 2, 3, … rows.

    Parameters
    ----------
    texts : sequence of str
        The shares as texts.

    Returns
    -------
    tuple of float
        The shares, which do not need to sum to 1.

    Raises
    ------
    InputError
        If a share is not a number, if it is negative, or if all shares are 0.
    """
    try:
        shares = tuple(float(text) for text in texts)
    except ValueError:
        shares = (-1.0,)
    if not (all(isfinite(share) and share >= 0 for share in shares) and (not shares or fsum(shares) > 0)):
        raise InputError(
            "unit sizes must be the shares of units with 1, 2, 3 … rows, such as 0.3,0.4,0.2,0.1: numbers of at least "
            "0, not all of them 0"
        )
    return shares


def noise_ratio(at_most: int, columns: int, unit_sizes: Sequence[float] = ()) -> float:
    """Return the ratio of the noise of row weights to the noise of unit weights in the shares of a column.

    With row weights, the noise is calibrated to `at_most` rows and is divided by the number of rows that are used. With
    unit weights, the noise is calibrated to one unit and is divided by the number of units. Unit weights also need one
    additional column. If the ratio is above 1, unit weights have less noise. The ratio only depends on public numbers.

    Parameters
    ----------
    at_most : int
        The maximum number of rows of a unit.
    columns : int
        The number of columns that are synthesized.
    unit_sizes : sequence of float, optional
        The shares of units that have 1, 2, … rows. By default, all numbers of rows up to `at_most` are equally likely.

    Returns
    -------
    float
        The ratio.

    Examples
    --------
    >>> round(noise_ratio(4, 10, [0.28, 0.35, 0.15, 0.13, 0.09]), 2), round(noise_ratio(4, 10, [0, 0, 0, 1]), 2)
    (1.65, 0.95)
    """
    return at_most / used_rows(at_most, unit_sizes) * sqrt(columns / (columns + 1))


def better_weights(
    at_most: int, columns: int, rho: float, rows: float | None, unit_sizes: Sequence[float] = ()
) -> Weights:
    """Return the default of `Unit.weights`.

    The default is "units" if the noise is relevant and if unit weights reduce it at least by the factor LEAST_GAIN.
    Otherwise, it is "rows".

    Parameters
    ----------
    at_most : int
        The maximum number of rows of a unit.
    columns : int
        The number of columns that are synthesized.
    rho : float
        The zCDP cost of the synthesis for one unit.
    rows : float or None
        The expected number of rows that are used, computed from public numbers. If it is not known, the default is
        "rows".
    unit_sizes : sequence of float, optional
        The shares of units that have 1, 2, … rows.

    Returns
    -------
    {"rows", "units"}
        The weights.

    Examples
    --------
    >>> better_weights(4, 10, 0.015, 7_000), better_weights(4, 10, 0.015, 200_000), better_weights(2, 10, 0.015, 7_000)
    ('units', 'rows', 'rows')
    """
    if rows is None or not 1 < at_most <= MOST_WEIGHED:
        return "rows"
    noise = at_most * sqrt(columns / (2 * rho)) / max(rows, 1.0)
    return "units" if noise >= LEAST_NOISE and noise_ratio(at_most, columns, unit_sizes) >= LEAST_GAIN else "rows"


def used_rows(at_most: int, unit_sizes: Sequence[float] = ()) -> float:
    """Return the mean number of rows of a unit that are used.

    If the shares of the unit sizes are not given, all numbers of rows up to `at_most` are equally likely.
    """
    shares = unit_sizes or [1.0] * at_most
    return fsum(share * min(rows, at_most) for rows, share in enumerate(shares, start=1)) / fsum(shares)
