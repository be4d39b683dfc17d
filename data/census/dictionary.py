"""The Census Bureau's data dictionaries of ACS PUMS files, as CSV: lines NAME and VAL.

    NAME,AGEP,N,2,"Age"
    VAL,AGEP,N,2,1,99,"1 to 99 years (Top-coded)"

Cells of type C are texts, whatever their digits; N are whole numbers. A value of b's alone is an empty cell. Columns of
housing and of persons alike are listed twice, with the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from equistrata.errors import InputError


@dataclass
class Entry:
    """A column of a dictionary: `values` are (first, last, words), with b's for an empty cell."""

    name: str
    kind: str
    width: str
    label: str
    values: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def blank(self) -> str | None:
        """What an empty cell means; None where there is none."""
        found = [words or "N/A" for first, _, words in self.values if is_blank(first)]
        return "; ".join(found) if found else None

    @property
    def codes(self) -> tuple[tuple[str, str], ...]:
        """Each code that is listed by itself, with its words."""
        return tuple((first, words) for first, last, words in self.values if first == last and not is_blank(first))


def is_blank(code: str) -> bool:
    """Whether a value stands for an empty cell."""
    return {*code} <= {"b"}


def read_entries(rows: Iterable[Sequence[str]], where: str) -> dict[str, Entry]:
    """The columns of a dictionary, by name.

    Raises InputError for a line that is neither NAME nor VAL, and for a column that is listed twice in two ways.
    """
    found: dict[str, list[Entry]] = {}
    for number, cells in enumerate(rows, start=1):
        line = [" ".join(cell.split()) for cell in cells]
        if line[0] == "NAME" and len(line) >= 5 and line[2] in ("C", "N"):
            found.setdefault(line[1], []).append(Entry(line[1], line[2], line[3], line[4]))
        elif line[0] == "VAL" and len(line) >= 7 and line[1] in found:
            found[line[1]][-1].values.append((line[4], line[5], line[6]))
        else:
            raise InputError(f"{where}, line {number} is no NAME or VAL line of the Census Bureau's; mend it")
    for name, (first, *others) in found.items():
        if any(other != first for other in others):
            raise InputError(f"{where} lists column {name!r} twice, in two ways; keep one of them")
    return {name: each for name, (each, *_) in found.items()}
