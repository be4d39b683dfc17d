"""Which relations of columns a release measured, and keeps, in words: for its card, the terminal and the audits.

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
    """How many pairs of columns were measured together, and which columns were measured with no other.

    Args:
        relations: of a release's card: lists `measured`, `not_measured` (pairs) and `alone` (columns). Public.
        words: what columns are called, where that is not their name.
    """
    measured, missed = (len(relations[name]) for name in ("measured", "not_measured"))
    were = "was" if measured == 1 else "were"
    said = f"{measured} of {measured + missed} pairs of columns {were} measured together"
    alone = [words.get(name, name) for name in relations["alone"]]
    return f"{said}; {unmeasured(alone)}" if alone else said


def relations_kept(relations: Mapping[str, Any], words: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Which measured pairs depend on each other in the rows as well, and of which pairs this is not known.

    Args:
        relations, words: as `relations_measured`. Nothing is said of older cards, which do not know it.

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
    """That columns were measured with no other."""
    return f"relations of {', '.join(alone)} with others were not measured"
