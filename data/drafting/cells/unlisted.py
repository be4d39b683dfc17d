"""Cells of a code book that look like a list of values, and are none: examples, open lists, statistics, kinds.

>>> [no_list([(each, "") for each in text.split(", ")]) for text in ("e.g. A12, B07", "red, green, etc.", "red, green")]
[True, True, False]
>>> no_list([("Mean", "45"), ("SD", "12")]), no_list([("1-3", "low"), ("4-6", "high")]), no_list([("1", "low")])
(True, True, False)
"""

from __future__ import annotations

import re

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.entries import Codes
from equistrata.data.drafting.spans import KINDS, span_in

_EXAMPLES = re.compile(
    r"(?:e\.?\s?g\b|such as\b|for (?:example|instance)\b|examples?:|z\.\s?b\b|p\.\s?ex\b|p\.\s?ej\b|por ejemplo\b).*",
    re.I | re.S,
)
_AND_SO_ON = re.compile(r"(?:.*[\s,;])?(?:\.{2,}|…|etc\.?|and so on|and others|usw\.?|u\.\s?s\.\s?w\.?)", re.I | re.S)
_STATISTIC = r"(?:min|max|mean|median|sd|std|avg|average|quartiles?|percentiles?|variance)(?:imum|ev|\.)?"
_COUNTED = re.compile(rf"{_STATISTIC}\s*[=:]?\s*-?\d.*", re.I)
_NAMED = re.compile(_STATISTIC, re.I)
_DIGITS = re.compile(r"\d+\s*(?:digits?|characters?|chars?|letters?|bytes?|stellen|ziffern|chiffres|d[ií]gitos)", re.I)
_ROWS = re.compile(r"[^\W\d]\w*\s+[-–—]\s+\d+")  # M - 12, F - 15: how many rows have each
_CODED = re.compile(r"[\w.+-]{1,20}\s*=\s*\S.*", re.S)  # beside parts without a code
_ENDS = re.compile(r"[,;]\s*(?:\.{2,}|…)")  # of words: 2=Tu, ...
_OR = re.compile(r"(\S+)\s+(?:or|oder|ou|and|und|et)\s+(\S+)", re.I)


def no_list(codes: Codes) -> bool:
    """Whether codes and words that a cell seems to list are not all of a column's values.

    A code with words that is itself a range stands for several values.
    """
    plain = [raw for raw, words in codes if not words]
    worded = [(raw, words) for raw, words in codes if words]
    if any(each.fullmatch(raw) for raw in plain for each in (_EXAMPLES, _AND_SO_ON, _COUNTED)):
        return True
    if any(raw.count(one) != raw.count(other) for raw, _ in codes for one, other in ("()", "[]")):  # a mark within
        return True
    if any(each.fullmatch(raw) for raw in plain for each in (_DIGITS, _CODED)):
        return True
    numbers = [raw for raw, _ in worded if number_in(raw) is not None]
    if numbers and any(" " in raw for raw, _ in worded):  # 5-point scale: 1 = bad, 5 = good
        return True
    if not worded and (any(map(KINDS.fullmatch, plain)) or all(map(_ROWS.fullmatch, plain)) or _alike_coded(plain)):
        return True
    if any(
        _ENDS.search(words[-5:]) or (_NAMED.fullmatch(raw) and number_in(words) is not None) for raw, words in worded
    ):
        return True
    return sum(span_in(raw) is not None for raw, _ in worded) > 1


def _alike_coded(values: list[str]) -> bool:
    """Whether values all begin with a number and words, and two with one number: coded in a way that is not known."""
    found = [re.match(r"(-?\d+)\s+(?=\D)", value) for value in values]
    return len(values) > 1 and all(found) and len({number[1] for number in found if number}) < len(values)


def beside_range(code: tuple[object, object]) -> bool:
    """Whether a code may be listed next to a range: a number, or letters, and no other range in words.

    >>> [beside_range(each) for each in (("99", "refused"), ("N", ""), ("not asked", ""), ("5 and over", "adult"))]
    [True, True, True, False]
    """
    raw, words = map(str, code)
    return number_in(raw) is not None or not re.search(r"\d", raw) or (not words and " " not in raw)


def parted(values: list[str]) -> list[str]:
    """Values with the last two apart, where a word is between them: "10, 20 or 30".

    >>> parted(["10", "20 or 30"]), parted(["red", "green or blue"]), parted(["one room", "two or more"])
    (['10', '20', '30'], ['red', 'green', 'blue'], ['one room', 'two or more'])
    """
    found = _OR.fullmatch(values[-1]) if len(values) > 1 else None
    if found is None or any(" " in each for each in values[:-1]) or found[2].lower() in ("more", "mehr", "plus"):
        return values
    return [*values[:-1], found[1], found[2]]
