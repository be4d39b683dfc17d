"""Columns that lie within others, as a PUMA within its state: codes that are unique inside one value of the outer only.

The schema declares which pairs there are, so they are public, and a pair that is not declared has no code. Such a
column's values are pairs, as `36/100`; so they are released, and every sum over an outer value follows from them.

>>> values, parts = pairs({36: [100, 200], 50: [100]}, 1, "column 'PUMA'")
>>> values, parts
(('36/100', '36/200', '50/100'), ((36, 100), (36, 200), (50, 100)))
>>> joined([pd.Series(["50", "36", "36"]), pd.Series([100.0, 100.0, 300.0])], parts).tolist()
['50/100', '36/100', '36/300']
>>> outer_codes(parts, 1)
(0, 0, 1)
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.raw import Values, distinct_cells, exact_number, plain_text, read_cell
from equistrata.errors import InputError

BETWEEN = "/"
Part = int | float | str
Parts = tuple[tuple[Part, ...], ...]  # of each value: the outer columns' values, and its own inside them


def pairs(declared: Any, depth: int, here: str) -> tuple[tuple[str, ...], Parts]:
    """Declared values by the values of `depth` outer columns: what each is called, and its parts.

    Raises InputError unless it is a mapping from outer values to lists of values (to such mappings, with two outer
    columns), all distinct and free of "/".
    """
    parts = tuple(_parts(declared, depth, here))
    for level in range(depth + 1):
        kinds = {isinstance(part[level], str) for part in parts}
        if len(kinds) > 1:
            raise InputError(f"{here} mixes kinds of values; make all numbers or all quoted text")
    values = tuple(BETWEEN.join(map(plain_text, part)) for part in parts)
    if len({tuple(map(_compared, part)) for part in parts}) < len(parts) or not parts:
        raise InputError(f"{here} needs a list of distinct values within each value of the outer column")
    return values, parts


def _parts(declared: Any, depth: int, here: str) -> Iterator[tuple[Part, ...]]:
    if depth == 0:
        if not isinstance(declared, list) or not declared:
            raise InputError(f"{here} lies within another, so 'values' maps each outer value to a list of its own")
        yield from ((_checked(value, here),) for value in declared)
        return
    if not isinstance(declared, dict) or not declared:
        raise InputError(
            f"{here} lies within another, so its 'values' map each value of that to a list, as {{36: [100, 200]}}"
        )
    for outer, inner in declared.items():
        yield from ((_checked(outer, here), *rest) for rest in _parts(inner, depth - 1, here))


def _checked(value: Any, here: str) -> Part:
    plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    if not plain or not plain_text(value).strip() or BETWEEN in plain_text(value):
        raise InputError(f"{here} needs values that are numbers or quoted text without {BETWEEN!r}")
    return value  # type: ignore[no-any-return]


def joined(columns: Sequence[pd.Series], parts: Parts) -> pd.Series:
    """Raw cells of the outer columns and of the inner one, in this order, as the texts that name pairs.

    A pair that is not declared keeps its raw text, which names none. Absent where one of the cells is.
    """
    found = [_texts(series, [part[level] for part in parts]) for level, series in enumerate(columns)]
    whole, absent = found[0][0].astype(object), found[0][1]
    for texts, none in found[1:]:
        whole, absent = whole + BETWEEN + texts, absent | none
    return pd.Series(np.where(absent, None, whole), index=columns[0].index, dtype=object)


def _texts(series: pd.Series, declared: Sequence[Part]) -> tuple[Any, Any]:
    """Each cell as the text of the declared value that it is, else as no such text, and whether it is absent."""
    known = Values((value, plain_text(value)) for value in declared)
    names = {plain_text(value) for value in declared}
    places, distinct = distinct_cells(series)
    cells = [read_cell(cell) for cell in distinct]
    texts = [known.find(cell) or _unlike(plain_text(cell), names) for cell in cells]
    return np.array([*texts, ""], dtype=object)[places], np.array([*(cell is None for cell in cells), True])[places]


def _unlike(text: str, names: Collection[str]) -> str:
    """A text of a cell that is no declared value, as a check may show it."""
    return text if text not in names else repr(text)


def _compared(value: Part) -> Hashable:
    return value if isinstance(value, str) else exact_number(value)


def outer_codes(parts: Parts, level: int) -> tuple[int, ...]:
    """For each value the number, from 0 in order, of its first `level` parts: of the outer value that it belongs to."""
    places: dict[tuple[Part, ...], int] = {}
    return tuple(places.setdefault(part[:level], len(places)) for part in parts)
