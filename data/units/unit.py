"""The unit of privacy: who is protected as a whole, and at most how many rows of each are used.

Undeclared: one row. Declared: all rows with one value of a column, as of one person or one household; neighbouring
tables then differ by one whole unit, wherever its rows fall. See docs/proofs/units.md.

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

MOST_ROWS = 1_000  # of a unit
MOST_WEIGHED = 16  # rows of a unit that counts as one: a column of a model says how many it has
UNIT_ROWS = "(rows of the unit)"  # that column, which is in no released row
# Units count by default where `noise_ratio` is at least the first, and noise, k·√(columns/2ρ), is at least the second
# times the rows: below, what a model misses of how values go with sizes weighs more (docs/experiments/units.md).
LEAST_GAIN, LEAST_NOISE = 1.3, 0.0015

Weights = Literal["rows", "units"]
Neighbours = Literal["add-remove", "replace-one"]


@dataclass(frozen=True)
class Unit:
    """Rows that are added or removed together.

    Attributes:
        column: its values name units; it is never released. None where each row is a unit.
        at_most: rows of a unit that are used; others are left out (`equistrata.data.units.bounding`). 1 without column.
        unique: each row has a value of its own in the column, and rows in which it repeats are refused.
        weights: of what is synthesized. By "rows" each row counts as one, so noise is for `at_most` rows at once. By
            "units" each unit counts as one, in equal parts by its rows, so noise is for one; how many rows a unit has
            is measured too, as a column, and rows are drawn by that.
        relation: neighbouring tables differ by one unit that is added or removed, or by one in place of another.
    """

    column: str | None = None
    at_most: int = 1
    unique: bool = False
    weights: Weights = "rows"
    relation: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        whole = isinstance(self.at_most, int) and not isinstance(self.at_most, bool)
        if not (whole and 1 <= self.at_most <= MOST_ROWS):
            raise InputError(f"a unit's 'at_most' is a whole number of rows from 1 to {MOST_ROWS:,}")
        if self.column is None and (self.at_most != 1 or self.unique):
            raise InputError("'at_most' bounds the rows of a unit, but no unit is declared; name its column")
        if self.weights == "units" and not 1 < self.at_most <= MOST_WEIGHED:
            raise InputError(
                f"units can count as one each where 2 to {MOST_WEIGHED} rows of them are used; change at_most, or let "
                "rows count"
            )

    @classmethod
    def read(cls, declared: Any, here: str) -> Unit:
        """The unit that a schema file declares as `unit: {column: NAME, at_most: ROWS}`. Raises InputError.

        Without `at_most`, the column is an id that no two rows share.
        """
        shape = "needs 'unit' to be {column: NAME, at_most: ROWS}, or {column: NAME} of an id that no two rows share"
        if not (isinstance(declared, dict) and {"column"} <= set(declared) <= {"column", "at_most"}):
            raise InputError(f"{here} {shape}")
        if not (isinstance(declared["column"], str) and declared["column"].strip()):
            raise InputError(f"{here} {shape}, with the name of a column")
        if "at_most" in declared and declared["at_most"] is None:
            raise InputError(
                f"{here} has a 'unit' with an empty 'at_most'; give a number of rows, or leave the key out"
            )
        try:
            return cls.of(declared["column"], declared.get("at_most"))
        except InputError as error:
            raise InputError(f"{here} has a wrong 'unit': {error}") from None

    @classmethod
    def of(cls, column: str, at_most: int | None) -> Unit:
        """The unit that a column names; without `at_most`, no two rows share its value. Raises InputError."""
        return cls(column, 1, unique=True) if at_most is None else cls(column, at_most)

    @property
    def words(self) -> str:
        """For cards and reports."""
        if self.column is None:
            return "one row"
        if self.unique:
            return f"one row, which alone has its {self.column}"
        rows = "one is" if self.at_most == 1 else f"at most {self.at_most} are"
        counted = ", and which counts as one" if self.weights == "units" else ""
        return f"all rows with one {self.column}, of which {rows} used{counted}"

    def left_out_words(self, counted: Mapping[str, Any] | None) -> str:
        """For cards and reports: what the bound means for numbers, in sentences; empty where nothing bounds rows.

        Args:
            counted: the noisy counts of units by their rows, as on a card (`unit_sizes`), if these were bought.
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
        """The zCDP price of a unit, over that of one weight of 1 that is added, in what is synthesized: k², or 2k².

        Counts do not fall below 0, so what is removed and what is added have squared norms that add up. Choices are
        drawn at `choice_sensitivity`, which makes them cost the same. See docs/proofs/units.md.
        """
        rows = self.at_most if self.weights == "rows" else 1
        return rows**2 * (2 if self.relation == "replace-one" else 1)

    @property
    def sum_cost(self) -> int:
        """The same of one row that is added, in a sum of numbers or a distance, of either sign: k², or (2k)²."""
        return (self.at_most * (2 if self.relation == "replace-one" else 1)) ** 2

    @property
    def histogram_cost(self) -> int:
        """The same of a unit in counts of units, of which it is one: 1, or 2 where another takes its place."""
        return 2 if self.relation == "replace-one" else 1

    @property
    def choice_sensitivity(self) -> float:
        """At which choices are drawn, of scores that move by 1 where a weight of 1 is added."""
        return sqrt(2) if self.relation == "replace-one" else 1.0


ROW = Unit()


def unit_sizes_of(texts: Sequence[str]) -> tuple[float, ...]:
    """Public shares of units with 1, 2, 3 … rows, as they are written. Raises InputError unless they are such."""
    try:
        shares = tuple(float(text) for text in texts)
    except ValueError:
        shares = (-1.0,)
    if not (all(isfinite(share) and share >= 0 for share in shares) and (not shares or fsum(shares) > 0)):
        raise InputError(
            "unit sizes are shares of units with 1, 2, 3 … rows, as 0.3,0.4,0.2,0.1: numbers of at least 0, not all 0"
        )
    return shares


def noise_ratio(at_most: int, columns: int, unit_sizes: Sequence[float] = ()) -> float:
    """The noise of a column's shares where rows count, over that where units count. From public numbers alone.

    Rows: noise for `at_most` rows at once, on as many as are used. Units: noise for one, on their number, and one
    column more to pay for. Above 1, units have less noise.

    Args:
        columns: how many are synthesized.
        unit_sizes: shares of units with 1, 2, … rows; as many of each number up to `at_most` if none are given.

    >>> round(noise_ratio(4, 10, [0.28, 0.35, 0.15, 0.13, 0.09]), 2), round(noise_ratio(4, 10, [0, 0, 0, 1]), 2)
    (1.65, 0.95)
    """
    return at_most / used_rows(at_most, unit_sizes) * sqrt(columns / (columns + 1))


def better_weights(
    at_most: int, columns: int, rho: float, rows: float | None, unit_sizes: Sequence[float] = ()
) -> Weights:
    """What counts as one by default: units where noise matters and is predicted to fall by LEAST_GAIN, else rows.

    Args:
        rho: of the synthesis, for a unit.
        rows: how many are used, expected from public numbers; None where there are none: then rows count.

    >>> better_weights(4, 10, 0.015, 7_000), better_weights(4, 10, 0.015, 200_000), better_weights(2, 10, 0.015, 7_000)
    ('units', 'rows', 'rows')
    """
    if rows is None or not 1 < at_most <= MOST_WEIGHED:
        return "rows"
    noise = at_most * sqrt(columns / (2 * rho)) / max(rows, 1.0)
    return "units" if noise >= LEAST_NOISE and noise_ratio(at_most, columns, unit_sizes) >= LEAST_GAIN else "rows"


def used_rows(at_most: int, unit_sizes: Sequence[float] = ()) -> float:
    """Rows of a unit that are used, on average; without shares, as many units have each number up to `at_most`."""
    shares = unit_sizes or [1.0] * at_most
    return fsum(share * min(rows, at_most) for rows, share in enumerate(shares, start=1)) / fsum(shares)
