"""The data dictionaries of ACS PUMS files from the Census Bureau, which are CSV files.

A dictionary has lines that start with NAME and lines that start with VAL:

    NAME,AGEP,N,2,"Age" VAL,AGEP,N,2,1,99,"1 to 99 years (Top-coded)"

Cells of the type C are texts, even if they only contain digits. Cells of the type N are whole numbers. A value that
only consists of the letter b stands for an empty cell. Columns that are in both the housing file and the person file
are listed twice with the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from equistrata.errors import InputError


@dataclass
class Entry:
    """A column of a dictionary.

    Attributes
    ----------
    name : str
        The name of the column.
    kind : {"C", "N"}
        The type of the column.
    width : str
        The width of the column in characters.
    label : str
        The label of the column.
    values : list of tuples
        The first value, the last value and the label of each line. An empty cell has the letter b as its value.
    """

    name: str
    kind: str
    width: str
    label: str
    values: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def blank(self) -> str | None:
        """The label of an empty cell, or None if the column has no empty cells."""
        found = [words or "N/A" for first, _, words in self.values if is_blank(first)]
        return "; ".join(found) if found else None

    @property
    def codes(self) -> tuple[tuple[str, str], ...]:
        """The codes that are listed individually, and their labels."""
        return tuple((first, words) for first, last, words in self.values if first == last and not is_blank(first))


def is_blank(code: str) -> bool:
    """Return True if a value stands for an empty cell."""
    return {*code} <= {"b"}


def read_entries(rows: Iterable[Sequence[str]], where: str) -> dict[str, Entry]:
    """Return the columns of a dictionary by name.

    Parameters
    ----------
    rows : iterable of sequence of str
        The lines of the dictionary.
    where : str
        The name of the dictionary in error messages.

    Raises
    ------
    InputError
        If a line is neither a NAME line nor a VAL line, or if a column is listed twice with different lines.
    """
    found: dict[str, list[Entry]] = {}
    for number, cells in enumerate(rows, start=1):
        line = [" ".join(cell.split()) for cell in cells]
        if line[0] == "NAME" and len(line) >= 5 and line[2] in ("C", "N"):
            found.setdefault(line[1], []).append(Entry(line[1], line[2], line[3], line[4]))
        elif line[0] == "VAL" and len(line) >= 7 and line[1] in found:
            found[line[1]][-1].values.append((line[4], line[5], line[6]))
        else:
            raise InputError(f"{where}, line {number}: the line does not begin with NAME or VAL; correct it")
    for name, (first, *others) in found.items():
        if any(other != first for other in others):
            raise InputError(f"{where} describes column {name!r} twice, in different ways; keep one description")
    return {name: each for name, (each, *_) in found.items()}
