"""Sentences about the relations between columns that a release measured and preserved.

They are used for the card of the release, for the terminal and for the audits.

>>> found = {"measured": [["A", "B"]], "not_measured": [["A", "C"], ["B", "C"]], "alone": ["C"]}
>>> print(relations_measured(found))
1 of 3 pairs of columns was measured together; C was not measured together with any other column
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

HOW_KEPT = (
    "A relation counts as preserved if the measured counts of the pair differ significantly from independence (a test "
    "at 5\u00a0% for all pairs together), and if the released rows contain at least half of this dependence. For the "
    "other measured pairs, the columns may be independent in the rows although they are related in the real table."
)


def relations_measured(relations: Mapping[str, Any], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a sentence about the number of pairs of columns that were measured together.

    The sentence also names the columns that were not measured with any other column.

    Parameters
    ----------
    relations : mapping
        The relations on the card of a release, which are public. The entries `measured` and `not_measured` are lists of
        pairs, and `alone` is a list of columns.
    words : mapping of str to str
        The names of columns that are shown to readers. By default, the name of the column is used.

    Returns
    -------
    str
        The sentence, without a period.
    """
    measured, missed = (len(relations[name]) for name in ("measured", "not_measured"))
    were = "was" if measured == 1 else "were"
    said = f"{measured} of {measured + missed} pairs of columns {were} measured together"
    alone = [words.get(name, name) for name in relations["alone"]]
    return f"{said}; {unmeasured(alone)}" if alone else said


def relations_kept(relations: Mapping[str, Any], words: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return the measured pairs for which the rows preserve the dependence, and the pairs for which this is not known.

    Parameters
    ----------
    relations : mapping
        The relations on the card of a release, as in `relations_measured`. Older cards do not have the entry `kept`.
    words : mapping of str to str
        The names of columns that are shown to readers.

    Returns
    -------
    list of str
        The sentences, without periods. Empty if the card does not have the entry `kept`.

    Examples
    --------
    >>> for sentence in relations_kept({"measured": [["A", "B"], ["A", "C"]], "kept": [["A", "B"]]}, {"B": "Born"}):
    ...     print(sentence)
    Relations that the rows preserve: A × Born
    Relations that the rows may not preserve: A × C
    """
    if "kept" not in relations or not relations["measured"]:
        return []
    unknown = [pair for pair in relations["measured"] if pair not in relations["kept"]]
    kept, others = (
        "; ".join(" × ".join(words.get(name, name) for name in pair) for pair in pairs)
        for pairs in (relations["kept"], unknown)
    )
    unsure = [f"Relations that the rows may not preserve: {others}"] if others else []
    return [f"Relations that the rows preserve: {kept or 'none'}", *unsure]


def unmeasured(alone: Sequence[str]) -> str:
    """Return a sentence about the columns that were not measured with any other column."""
    were = "was" if len(alone) == 1 else "were"
    return f"{', '.join(alone)} {were} not measured together with any other column"
