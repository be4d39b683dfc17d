"""Values that a file writes in one other way than its code book: in other letters, without a remark, or in words.

>>> entry = Entry.of("SEX", "Sex", [("1", "Male"), ("2", "Female")])
>>> way_of(["female", "male"], entry), respelled(entry, "words, in small letters").codes
('words, in small letters', (('male', ''), ('female', '')))
>>> firms = Entry.of("FIRM", "", [("Small (<50)", ""), ("Large (50+)", "")])
>>> way_of(["1", "male"], entry), way_of(["Small", "Large"], firms)
('', 'without remarks')

All values of a column are spelled in one way, whichever of them rows hold: so a draft says how cells are written, and
not which values there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from equistrata.data.columns.column import plain_text
from equistrata.data.drafting.entries import Entry

MOST_OTHERS = 200  # distinct cells of a column, none of the book's values, that are kept
_MOST_UNKNOWN = 0.5  # of these, that may be no value in a way that is taken
_REMARK = re.compile(r"(?<=\S)\s*[(\[][^()\[\]]*[)\]]$")
_LETTERS: dict[str, Callable[[str], str]] = {
    "": str, "in small letters": str.lower, "in capitals": str.upper, "with a capital": str.capitalize,
}  # fmt: skip


def is_listed(entry: Entry) -> bool:
    """Whether values of an entry may be written otherwise: it has a list of them, each of which is what cells hold."""
    return entry.type in ("nominal", "ordinal") and not entry.recode


def _ways(entry: Entry) -> dict[str, list[str]]:
    """Way → the values of an entry, in its order, as it writes them; only ways in which they stay apart."""
    raw = [raw for raw, _ in entry.codes]
    said = [words or raw for raw, words in entry.codes]
    of = {"values": raw, "without remarks": [_REMARK.sub("", each) for each in raw], "words": said}
    made = {
        ", ".join(filter(None, (name, how))) if name != "values" else how: [*map(write, texts)]
        for name, texts in of.items()
        for how, write in _LETTERS.items()
    }
    return {way: texts for way, texts in made.items() if way and texts != raw and len({*texts}) == len(texts)}


def way_of(cells: Collection[object], entry: Entry) -> str:
    """The way in which cells hold most of an entry's values, and more of them than as the book has them; else empty.

    Args:
        cells: distinct ones of a column, without absent ones.
    """
    texts = {*map(plain_text, cells)}
    if not is_listed(entry) or not texts:
        return ""
    exact = len(texts & {raw for raw, _ in entry.codes})  # words may be numbers, too, as of a scale from 0
    known = {way: len(texts.intersection(written)) for way, written in _ways(entry).items()}
    best = max(known, key=lambda way: known[way], default="")
    return best if best and known[best] > max(exact, len(texts) * _MOST_UNKNOWN) else ""


def respelled(entry: Entry, way: str) -> Entry:
    """The entry with its values as a way writes them; what they mean stays, where that says more."""
    codes = tuple(
        (text, "" if words.casefold() == text.casefold() else words)
        for text, (_, words) in zip(_ways(entry)[way], entry.codes, strict=True)
    )
    return replace(entry, codes=codes, respelled=True)
