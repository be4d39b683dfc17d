"""Sentences about the relations between columns that a release measured and preserved.

They are used for the card of the release, for the terminal and for the audits.

>>> found = {"measured": [["A", "B"]], "not_measured": [["A", "C"], ["B", "C"]], "alone": ["C"]}
>>> print(relations_measured(found))
1 of 3 pairs of columns was measured together; relations of C with others were not measured
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

HOW_KEPT = (
    "A relation is kept if the measured counts of the pair are farther from independence than noise and sampling make "
    "them (a test at 5\u00a0% for all pairs together), and the released rows have at least half of that. If it is not "
    "known, the rows may have the two columns as independent though they are not."
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
    Relations that are kept: A × Born
    Not known: A × C
    """
    if "kept" not in relations or not relations["measured"]:
        return []
    unknown = [pair for pair in relations["measured"] if pair not in relations["kept"]]
    kept, others = (
        "; ".join(" × ".join(words.get(name, name) for name in pair) for pair in pairs)
        for pairs in (relations["kept"], unknown)
    )
    return [f"Relations that are kept: {kept or 'none'}", *([f"Not known: {others}"] if others else [])]


def unmeasured(alone: Sequence[str]) -> str:
    """Return a sentence about the columns that were not measured with any other column."""
    return f"relations of {', '.join(alone)} with others were not measured"
