"""Columns that are nested within other columns.

The codes of a nested column are only unique within a value of the outer columns. For example, the code of a PUMA is
only unique within its state. The schema declares all pairs of an outer and an inner value, so the pairs are public. A
pair that is not declared has no code. The values of a nested column are the texts of the pairs, such as `36/100`, and
these texts are released. All sums over an outer value can be computed from the pairs.

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
Parts = tuple[tuple[Part, ...], ...]  # for each value, the values of the outer columns and the inner value


def pairs(declared: Any, depth: int, here: str) -> tuple[tuple[str, ...], Parts]:
    """Return the texts and the parts of the pairs that a schema declares.

    Parameters
    ----------
    declared : mapping
        The list of inner values of each outer value. If there are two outer columns, this is a mapping of mappings.
    depth : int
        The number of outer columns.
    here : str
        The start of the error message.

    Returns
    -------
    values : tuple of str
        The text of each pair.
    parts : tuple of tuples
        The outer values and the inner value of each pair.

    Raises
    ------
    InputError
        If `declared` is not a mapping of this form, if the values are not distinct, or if a value contains "/".
    """
    parts = tuple(_parts(declared, depth, here))
    for level in range(depth + 1):
        kinds = {isinstance(part[level], str) for part in parts}
        if len(kinds) > 1:
            raise InputError(
                f"{here} has both numbers and texts as values; make all of them numbers or all quoted texts"
            )
    values = tuple(BETWEEN.join(map(plain_text, part)) for part in parts)
    if len({tuple(map(_compared, part)) for part in parts}) < len(parts) or not parts:
        raise InputError(f"{here} needs a list of distinct values for each value of the outer column")
    return values, parts


def _parts(declared: Any, depth: int, here: str) -> Iterator[tuple[Part, ...]]:
    if depth == 0:
        if not isinstance(declared, list) or not declared:
            raise InputError(
                f"{here} has 'within', so 'values' must map each value of the outer column to a list of its own"
            )
        yield from ((_checked(value, here),) for value in declared)
        return
    if not isinstance(declared, dict) or not declared:
        raise InputError(
            f"{here} has 'within', so 'values' must map each value of the outer column to a list, such as "
            "{36: [100, 200]}"
        )
    for outer, inner in declared.items():
        yield from ((_checked(outer, here), *rest) for rest in _parts(inner, depth - 1, here))


def _checked(value: Any, here: str) -> Part:
    plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    if not plain or not plain_text(value).strip() or BETWEEN in plain_text(value):
        raise InputError(f"{here} needs values that are numbers or quoted text without {BETWEEN!r}")
    return value  # type: ignore[no-any-return]


def joined(columns: Sequence[pd.Series], parts: Parts) -> pd.Series:
    """Join the raw cells of the outer columns and the inner column to the texts of pairs.

    A pair that is not declared is joined as its raw text, which is not the text of any declared pair. The result is
    absent if one of the cells is absent.

    Parameters
    ----------
    columns : sequence of Series
        The outer columns, outermost first, and the inner column.
    parts : tuple of tuples
        The declared pairs.

    Returns
    -------
    Series
        The texts, with None for absent cells.
    """
    found = [_texts(series, [part[level] for part in parts]) for level, series in enumerate(columns)]
    whole, absent = found[0][0].astype(object), found[0][1]
    for texts, none in found[1:]:
        whole, absent = whole + BETWEEN + texts, absent | none
    return pd.Series(np.where(absent, None, whole), index=columns[0].index, dtype=object)


def _texts(series: pd.Series, declared: Sequence[Part]) -> tuple[Any, Any]:
    """Return the text of the declared value of each cell, and a mask of the absent cells.

    If the value of a cell is not declared, its text is different from the texts of all declared values.
    """
    known = Values((value, plain_text(value)) for value in declared)
    names = {plain_text(value) for value in declared}
    places, distinct = distinct_cells(series)
    cells = [read_cell(cell) for cell in distinct]
    texts = [known.find(cell) or _unlike(plain_text(cell), names) for cell in cells]
    return np.array([*texts, ""], dtype=object)[places], np.array([*(cell is None for cell in cells), True])[places]


def _unlike(text: str, names: Collection[str]) -> str:
    """Return the text of a cell that is not a declared value, in a form that differs from all declared values."""
    return text if text not in names else repr(text)


def _compared(value: Part) -> Hashable:
    return value if isinstance(value, str) else exact_number(value)


def outer_codes(parts: Parts, level: int) -> tuple[int, ...]:
    """Return the index of the outer value that each value belongs to.

    The indices start at 0 and are in the order of the first appearance of the outer values.

    Parameters
    ----------
    parts : tuple of tuples
        The declared pairs.
    level : int
        The number of outer columns that make up the outer value.
    """
    places: dict[tuple[Part, ...], int] = {}
    return tuple(places.setdefault(part[:level], len(places)) for part in parts)
