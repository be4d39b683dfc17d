"""Workloads, which are sets of columns and their weights.

The synthetic rows should preserve the marginals of these sets.

>>> workload_of(["ESR*SEX*DIS=2", "MAR*ESR"], ("SEX", "DIS", "ESR", "MAR"))
{('SEX', 'DIS', 'ESR'): 2.0, ('ESR', 'MAR'): 1.0}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb, isfinite

from equistrata.errors import InputError
from equistrata.synth.measurements import Columns

TIMES, WEIGHS = "*", "="


def workload_of(texts: Iterable[str], names: Sequence[str]) -> dict[Columns, float]:
    """Parse a workload from texts.

    Parameters
    ----------
    texts : iterable of str
        Texts such as `SEX*DIS*ESR=2`, which is a set of three columns with weight 2. The default weight is 1.
    names : sequence of str
        The columns of the table, in order.

    Returns
    -------
    dict of tuple of str to float
        The weight of each set of columns.

    Raises
    ------
    InputError
        If a text has an unknown column or a repeated column, if a set is repeated, or if a weight is not positive.
    """
    found: dict[Columns, float] = {}
    for text in texts:
        columns, _, weight = text.partition(WEIGHS)
        each = [name.strip() for name in columns.split(TIMES)]
        unknown = next((name for name in each if name not in names), None)
        if unknown is not None:
            raise InputError(f"workload {text!r} names {unknown!r}, which is not released; name {', '.join(names)}")
        try:
            number = float(weight) if weight else 1.0
        except ValueError:
            number = 0.0
        if not (isfinite(number) and number > 0):
            raise InputError(
                f"workload {text!r} needs a weight above 0 after {WEIGHS!r}, such as SEX{TIMES}DIS{WEIGHS}2"
            )
        ordered = tuple(name for name in names if name in each)
        if len(ordered) < len(each) or ordered in found:
            raise InputError(f"workload {text!r} names a column twice, or is given twice; keep one of them")
        found[ordered] = number
    return found


def all_sets(names: Sequence[str], degree: int, target: str | None = None) -> dict[Columns, float]:
    """Return every set of `degree` columns with weight 1.

    If there are fewer columns, the only set is the set of all columns.

    Parameters
    ----------
    names : sequence of str
        The columns.
    degree : int
        The number of columns of each set.
    target : str or None, default=None
        The column that is most important. Sets with this column have half of the total weight, or more if they are more
        than half of the sets.

    Returns
    -------
    dict of tuple of str to float
        The weight of each set.
    """
    count, size = len(names), min(degree, len(names))
    sets: Mapping[Columns, float] = dict.fromkeys(combinations(names, size), 1.0)
    if target is None or target not in names:
        return dict(sets)
    factor = max(comb(count - 1, size) / max(comb(count - 1, size - 1), 1), 1.0)
    return {columns: factor if target in columns else 1.0 for columns in sets}
