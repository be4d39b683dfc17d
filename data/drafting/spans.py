"""Bounds in a cell of a code book: two ends of a range of numbers or days, or one of them.

>>> span_in("0..99"), span_in("2025-01-01 to 2025-12-31"), span_in("1-5 scale"), span_in("1-5 scale", words=True)
(('0', '99'), ('2025-01-01', '2025-12-31'), None, ('1', '5'))
>>> [span_in(text, words=True) for text in ("0 <= x <= 99", ">=0, <=120", "de 0 a 99", "Numeric (0-99)")]
[('0', '99'), ('0', '120'), ('0', '99'), ('0', '99')]
"""

from __future__ import annotations

import re
from functools import lru_cache

from equistrata.data.columns.column import number_in

_NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
_WORDS = r"\s+(?:up\s+to|a|à|ao|até|hasta|bis|au|tot)\s+"
_TO = rf"(?:\s*(?:-|–|—|\.\.+|to|through|thru|until|,)\s*|{_WORDS})"
_SPAN = re.compile(rf"[\[(]?\s*[$€£]?({_NUMBER}){_TO}[$€£]?({_NUMBER})\s*%?\s*[\])]?", re.I)
_COMMA = r"-?\d{1,3}(?:\.\d{3})*,\d+|-?\d{1,3}(?:\.\d{3}){2,}|-?\d+,\d+|-?\d+"  # 1.000.000 and 99,9
_COMMAS = re.compile(
    rf"[€£]?\s*({_COMMA})(?:\s*(?:\s[-–—]\s|\.\.+|to|bis)\s*|{_WORDS})[€£]?\s*({_COMMA})\s*[€£%]?", re.I
)
# Where the word between is of a language with decimal commas, a point is between thousands: 0 bis 20.000.
_LOCAL = rf"-?\d{{1,3}}\.\d{{3}}|{_COMMA}"
_LOCALLY = re.compile(rf"[€£]?\s*({_LOCAL})\s+(?:bis|a|à|ao|até|hasta|au|tot)\s+[€£]?\s*({_LOCAL})\s*[€£%]?", re.I)
_DAYS = re.compile(rf"({_DAY}){_TO}({_DAY})", re.I)
_BETWEEN = re.compile(
    rf"(?:between|from|de|von|entre|desde|zwischen)\s+({_NUMBER}|{_DAY})\s+"
    rf"(?:and|to|up\s+to|a|à|até|hasta|y|e|et|und|bis)\s+({_NUMBER}|{_DAY})",
    re.I,
)
_WORDED = re.compile(
    rf"(-?\d+)\s*\([^()]*[^\W\d][^()]*\)\s*{_TO}\s*(-?\d+)\s*\([^()]*\)", re.I
)  # 1 (never) to 5 (always)
_ENDS = re.compile(rf"min(?:imum)?\s*[=:]?\s*({_NUMBER})\s*[,;/|\n]?\s*max(?:imum)?\s*[=:]?\s*({_NUMBER})", re.I)
_AT_LEAST = re.compile(rf"(?:>=|≥)\s*({_NUMBER})\s*(?:,|;|&|and)?\s*(?:<=|≤)\s*({_NUMBER})", re.I)
_AROUND = re.compile(rf"({_NUMBER})\s*(?:<=|≤)\s*[A-Za-z_]\w*\s*(?:<=|≤)\s*({_NUMBER})")
_BOUND = re.compile(r"[$€£]?\s*(-?[\d.,]+)\s*[$€£%]?")
_COLON = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d+)?)\s*:\s*(-?(?:0|[1-9]\d*)(?:\.\d+)?)")
_KIND = (
    r"(?:(?:valid|allowed|likert|rating) )?"
    r"(?:range|values?|numeric|numbers?|integers?|decimals?|continuous|float|dates?|years?|yyyy|scale|likert|valid"
    r"|whole numbers?)"
)
KINDS = re.compile(_KIND, re.I)  # alone, it says nothing of the values
_BEFORE = re.compile(rf"{_KIND}\s*(?:[:,]?\s+|\()", re.I)
_AFTER = re.compile(r"[ \t]*[(]?[A-Za-z%°/ ]*[)]?")  # 1-5 scale, 0 to 120 (years)
_DIGIT = re.compile(r"\d")
_MOST_LETTERS = 300  # of a range with words around it; a list is no range
_ZEROS = re.compile(r"-?0\d")


def span_in(text: str, words: bool = False) -> tuple[str, str] | None:
    """The two ends of a range of numbers or days, as they are written; None if the text is none.

    Args:
        words: take words around it, too, as in "1-5 scale" or "range: 0 to 120".
    """
    text = text.strip()
    return _span_in(text, words) if len(text) <= _MOST_LETTERS and _DIGIT.search(text) else None


@lru_cache(maxsize=1 << 13)
def _span_in(text: str, words: bool) -> tuple[str, str] | None:
    forms = (_DAYS, _LOCALLY, _SPAN, _COMMAS, *(_BETWEEN, _ENDS, _WORDED, _AT_LEAST, _AROUND) * words)
    tried: dict[str, None] = {text: None}
    if words:
        bare = _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text
        end = next((found.end() for form in forms if (found := form.match(bare))), None)
        tried |= {bare: None} | (
            {bare[:end]: None} if end is not None and _AFTER.fullmatch(bare[end:]) and "\n" not in bare else {}
        )
    found = next((found for each in tried for form in forms if (found := form.fullmatch(each))), None)
    if found is None:
        return None
    if found.re in (_COMMAS, _LOCALLY):
        lower, upper = (end.replace(".", "").replace(",", ".") for end in found.groups())
    else:
        lower, upper = (end.replace(",", "") for end in found.groups())  # without commas between thousands
    ends = number_in(lower), number_in(upper)
    if ends[0] is None or ends[1] is None:
        return lower, upper
    pair = (
        "," in found[0] and not found[0].startswith("[") and not re.search(r"(?<=\d)(?:-|–|—|\.\.+|[a-z ])", found[0])
    )
    # "0,1" lists two values, and "1 - 1 child" is a code with its words.
    return None if ends[0] >= ends[1] or (pair and ends[1] - ends[0] <= 1) else (lower, upper)


def days_between(text: str) -> tuple[str | None, str | None]:
    """The two days of the only range of days within a text.

    >>> days_between("Date of birth, 1900-01-01 to 2025-12-31"), days_between("since 2020-01-01")
    (('1900-01-01', '2025-12-31'), (None, None))
    """
    found = {each.groups() for each in _DAYS.finditer(text)}
    first, last = found.pop() if len(found) == 1 else (None, None)
    return first, last


def cell_span(text: str) -> tuple[str, str] | None:
    """As `span_in` of a cell that has one value or range and nothing else: "0 : 99" is one, too.

    >>> cell_span("0 : 99"), cell_span("09:00"), cell_span("1:2")
    (('0', '99'), None, None)
    """
    found = _COLON.fullmatch(text.strip())
    return span_in(text) or (
        span_in(f"{found[1]}..{found[2]}") if found and float(found[2]) - float(found[1]) > 1 else None
    )


def bound_in(text: str) -> str:
    """A bound without its sign of money or per cent, written as Python writes a number; any other text as it is.

    >>> [bound_in(text) for text in ("250,000", "€1.000.000", "99,9", "50 %", "01.01.2025", "none")]
    ['250000', '1000000', '99.9', '50', '01.01.2025', 'none']
    """
    found = _BOUND.fullmatch(text.strip())
    number = found[1] if found else ""
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        return number.replace(",", "")
    if re.fullmatch(r"-?\d{1,3}(?:\.\d{3})*,\d+|-?\d+,\d+|-?\d{1,3}(?:\.\d{3}){2,}", number):
        return number.replace(".", "").replace(",", ".")
    return number if number_in(number) is not None else text


def between_codes(between: tuple[str, str]) -> bool:
    """Whether the ends of a range are no numbers, as 01001 is not 1001."""
    return not _DAYS.fullmatch(" to ".join(between)) and any(_ZEROS.match(end) for end in between)
