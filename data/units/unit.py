"""The unit of privacy: who is protected as a whole, and at most how many rows of each are used.

Nobody declared: one row. Declared: all rows with one value of a column, as of one person or one household; neighbouring
tables then differ by one whole unit, wherever its rows fall. See docs/proofs/units.md.

>>> Unit.read({"column": "SERIALNO", "at_most": 4}, "schema people")
Unit(column='SERIALNO', at_most=4)
>>> print(Unit("SERIALNO", 4).words, "|", ROW.words)
all rows with one SERIALNO, of which at most 4 are used | one row
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equistrata.errors import InputError

MOST_ROWS = 1_000  # of a unit


@dataclass(frozen=True)
class Unit:
    """Whose rows are added or removed together.

    Attributes:
        column: whose values name units; it is never released. None where each row is a unit.
        at_most: rows of a unit that are used; others are left out (`equistrata.data.units.bounding`). 1 without column.
    """

    column: str | None = None
    at_most: int = 1

    def __post_init__(self) -> None:
        whole = isinstance(self.at_most, int) and not isinstance(self.at_most, bool)
        if not (whole and 1 <= self.at_most <= MOST_ROWS):
            raise InputError(f"a unit's 'at_most' is a whole number of rows from 1 to {MOST_ROWS:,}")
        if self.column is None and self.at_most != 1:
            raise InputError("'at_most' bounds the rows of a unit, but no unit is declared; name its column")

    @classmethod
    def read(cls, declared: Any, here: str) -> Unit:
        """The unit that a schema file declares as `unit: {column: NAME, at_most: ROWS}`. Raises InputError."""
        shape = "needs 'unit' to be {column: NAME, at_most: ROWS}"
        if not isinstance(declared, dict) or set(declared) != {"column", "at_most"}:
            raise InputError(f"{here} {shape}")
        if not (isinstance(declared["column"], str) and declared["column"].strip()):
            raise InputError(f"{here} {shape}, with the name of a column")
        try:
            return cls(declared["column"], declared["at_most"])
        except InputError as error:
            raise InputError(f"{here} has a wrong 'unit': {error}") from None

    @property
    def words(self) -> str:
        """For cards and reports."""
        if self.column is None:
            return "one row"
        rows = "one is" if self.at_most == 1 else f"at most {self.at_most} are"
        return f"all rows with one {self.column}, of which {rows} used"


ROW = Unit()
