"""Which relations of columns a release measured, in words: one sentence for its card, the terminal and the audit.

>>> found = {"measured": [["A", "B"]], "not_measured": [["A", "C"], ["B", "C"]], "alone": ["C"]}
>>> print(relations_measured(found))
1 of 3 pairs of columns was measured together; relations of C with others were not measured
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any


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


def unmeasured(alone: Sequence[str]) -> str:
    """That columns were measured with no other."""
    return f"relations of {', '.join(alone)} with others were not measured"
