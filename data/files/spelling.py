"""How numbers are written that a file's dialect does not read: by their form alone, for a check's advice.

>>> spelled({"PAY": ["1.234,50 €", "17,25 €"], "SHARE": ["12,5 %", "N"]}, Dialect(delimiter=";")).declared
{'delimiter': ';', 'decimal': ',', 'thousands': '.', 'signs': ['%', '€']}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice

from equistrata.data.files.dialect import Dialect

_MOST = 2_000  # distinct cells of a column that are tried
_HALF = 0.5  # of them: less is no way of writing
_GAPS = " '’\u00a0\u202f"
# The first that reads the most: what need not be declared is not.
_SEPARATORS = ((".", ""), (",", ""), (".", ","), (",", "."), *((mark, gap) for mark in ",." for gap in _GAPS))
# Only these are named: any other text around a number is somebody's cell.
_KNOWN = (
    "%", "‰", "$", "€", "£", "¥", "₹", "kr", "zł", "Fr", "°", "EUR", "USD", "GBP", "CHF", "JPY", "CAD", "AUD", "SEK",
    "NOK", "DKK", "PLN",
)  # fmt: skip
_UNITS = ("°C", "°F", "kg", "g", "mg", "cm", "mm", "m", "km", "h", "min", "s", "yrs", "years")  # after it alone
_AROUND = re.compile(r"[\s()+-]*(?P<before>\D*?)[\s()+-]*(?:\d.*\d|\d)[.,]?[\s()+-]*(?P<after>\D*?)[\s()+-]*")
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")
_BY_COMMAS = re.compile(r"[^\d,]*[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?[^\d,]*")


def spelled(cells: Mapping[str, Collection[str]], now: Dialect) -> Dialect | None:
    """The dialect that reads the most of the cells of each column, which are none of its numbers now; None where none
    reads half of any column's.

    Args:
        cells: the distinct texts of each column.
        now: how the file is declared; its other settings stay.
    """
    tried = {name: [_bare(text) for text in islice(texts, _MOST)] for name, texts in cells.items() if texts}
    every = [text for texts in tried.values() for text in texts]
    signs = {*now.signs, *(sign for text in every for sign in _signs(text))}
    inside = any(text.startswith("(") and text.endswith(")") for text in map(str.strip, every))
    after = any(re.fullmatch(r"[^-]*\d[^-]*-", text.strip()) for text in every)
    negative = "parentheses" if inside else "trailing" if after else now.negative
    ordered = tuple(sorted(signs))
    made = [replace(now, decimal=mark, thousands=gap, signs=ordered, negative=negative) for mark, gap in _SEPARATORS]
    shares = [[share_read(texts, each) for texts in tried.values()] for each in made]
    best = max(range(len(made)), key=lambda at: (round(sum(shares[at]), 6), -at))
    if _SEPARATORS[best] == (",", "") and by_commas(every):
        best = _SEPARATORS.index((".", ","))
    return made[best] if any(share > _HALF for share in shares[best]) else None


def by_commas(texts: Collection[str]) -> bool:
    """Whether commas stand between thousands: three digits after each, and no number begins with 0.

    >>> by_commas(["1,234", "12,500", "7"]), by_commas(["1,234", "0,500"]), by_commas(["1,25"]), by_commas(["7"])
    (True, False, False, False)
    """
    having = [text for text in texts if "," in text]
    return bool(having) and all(_BY_COMMAS.fullmatch(text.strip()) for text in having)


def share_read(texts: Collection[str], dialect: Dialect) -> float:
    """The part of some texts that are numbers in a dialect."""
    shown = [_bare(text) for text in islice(texts, _MOST)]
    return sum(map(dialect.reads, shown)) / max(len(shown), 1)


def grouped(texts: Collection[str]) -> bool:
    """Whether all numbers have groups of three digits after points, which may be thousands: 0.125 is no such number.

    >>> grouped(["1.234", "12.500"]), grouped(["1.234", "0.125"])
    (True, False)
    """
    return bool(texts) and all(_GROUPED.fullmatch(text.strip()) for text in texts)


def _bare(text: str) -> str:
    """A cell as the file has it: what is a number to Python and none in the dialect was quoted (`Dialect.number`)."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


def _signs(text: str) -> list[str]:
    found = _AROUND.fullmatch(text.strip())
    if found is None:
        return []
    before, after = found.groups()
    return [each for each in (before, after) if each in _KNOWN] + [after] * (after in _UNITS)
