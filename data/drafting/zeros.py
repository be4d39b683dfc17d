"""Whole numbers as codes that a file writes with zeros in front and a code book without, or the other way round.

>>> entry = Entry.of("STATE", "State", [("01", "Alabama"), ("02", "Alaska"), ("10", "Delaware")])
>>> widths_in(["1", "10"], entry), respelled(entry, 0).codes
({0}, (('1', 'Alabama'), ('2', 'Alaska'), ('10', 'Delaware')))
>>> widths_in(["01", "10"], entry), widths_in(["1", "02"], entry) == {0, 2}
({2}, True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from equistrata.data.columns.column import plain_text
from equistrata.data.drafting.entries import Entry

_DIGITS = re.compile(r"\d{1,18}")
_PADDED = re.compile(r"0\d+")


def widths_in(cells: Iterable[object], entry: Entry) -> set[int]:
    """How wide codes with zeros in front are written in cells, and 0 if some that others fill up have none.

    Cells that are no code of the entry, however it is written, say nothing; nor do those that are as wide as the widest
    code, which would have no zeros anyway.
    """
    known = {int(raw): raw for raw in _numbers(entry)}
    widest = max(map(len, known.values()), default=0)
    found = set[int]()
    for text in map(plain_text, cells):
        if _DIGITS.fullmatch(text) and int(text) in known:
            if _PADDED.fullmatch(text):
                found.add(len(text))
            elif len(text) < widest:
                found.add(0)
    return found


def differs(widths: set[int], entry: Entry) -> bool:
    """Whether a file writes codes in one way, and the book in another one; where some would be one code, nothing is
    said."""
    raw = _numbers(entry)
    return len(widths) == 1 and widths_in(raw, entry) != widths and len({*map(int, raw)}) == len(raw)


def respelled(entry: Entry, width: int) -> Entry:
    """The entry with its whole numbers as wide as this, zeros in front; without such zeros if it is 0."""
    numbers = {*_numbers(entry)}
    codes = ((str(int(raw)).zfill(width) if raw in numbers else raw, words) for raw, words in entry.codes)
    return replace(entry, codes=tuple(codes), respelled=True)


def _numbers(entry: Entry) -> list[str]:
    categorical = entry.type in ("nominal", "ordinal") and not entry.recode
    return [raw for raw, _ in entry.codes if _DIGITS.fullmatch(raw)] if categorical else []
