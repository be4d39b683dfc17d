"""What one cell of a code book lists: codes with their words, values, or bounds.

>>> listed_in("1=Male; 2=Female"), listed_in("0-120")
(([('1', 'Male'), ('2', 'Female')], None, None), ([], '0', '120'))
>>> listed_in("01001-01040")  # codes
([], None, None)
>>> listed_in("-9=refused"), listed_in("Note: see page 3")
(([('-9', 'refused')], None, None), ([], None, None))
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from equistrata.data.drafting.entries import Codes

_NUMBER = r"-?\d+(?:\.\d+)?"
RANGE = re.compile(rf"\[?\s*({_NUMBER})\s*(?:-|–|\.\.+|to|,)\s*({_NUMBER})\s*\]?", re.I)
# Alone in a cell, only this is surely a code: not "AGE >= 18", nor "Note: see page 3".
_SURELY_CODED = re.compile(r"\s*(?:[\w.+-]{1,20}\s*=|-?\d+\s*:).+", re.S)
_ZEROS = re.compile(r"-?0\d")
_CODED = re.compile(r"\s*([^=:,]+?)\s*[=:,]\s*(.+?)\s*", re.S)
_DASHED = re.compile(r"\s*(-?\d+|[A-Za-z]{1,2})\s+[-–—]\s+(.*[^\W\d].*?)\s*", re.S)  # as 1 - Male, not as 0 - 17


def listed_in(text: str) -> tuple[Codes, str | None, str | None]:
    """The codes in a cell, as "1, Yes | 2, No", "1=Male; 2=Female" or "f, m", or the bounds, as "0-120"."""
    if between := RANGE.fullmatch(text.strip()):
        return ([], None, None) if between_codes(between) else ([], between[1], between[2])
    if text.strip().startswith("{"):
        try:
            return [(str(key), str(value)) for key, value in json.loads(text).items()], None, None
        except (ValueError, AttributeError):
            return [], None, None
    parts = next((text.split(mark) for mark in ("|", ";", "\n") if mark in text), None) or text.split(",")
    parts = _whole_parts([part.strip() for part in parts if part.strip()])
    coded = [_CODED.fullmatch(part) for part in parts]
    if not any(coded):
        coded = [_DASHED.fullmatch(part) for part in parts]
    ranges = {part: between for part, pair in zip(parts, coded, strict=True)
              if (between := RANGE.fullmatch(pair[1] if pair else part))}  # fmt: skip
    if any(map(between_codes, ranges.values())):  # some codes are not here
        return [], None, None
    if len(ranges) > 1:  # groups, as "0-17; 18-64", which are values
        ranges = {}
    every = all(pair for part, pair in zip(parts, coded, strict=True) if part not in ranges)
    codes = [(pair[1], pair[2]) if pair and every else (part, "")
             for part, pair in zip(parts, coded, strict=True) if part not in ranges]  # fmt: skip
    lower, upper = next(((between[1], between[2]) for between in ranges.values()), (None, None))
    alone = len(codes) == 1 and lower is None and not _SURELY_CODED.fullmatch(parts[0])
    return [] if alone else codes, lower, upper


def between_codes(between: re.Match[str]) -> bool:
    """Whether the ends of a range are no numbers, as 01001 is not 1001."""
    return any(_ZEROS.match(end) for end in between.groups())


def _whole_parts(parts: Sequence[str]) -> list[str]:
    """Parts of a list without those that a comma within words made: "9=Don't know, refused" is one.

    >>> _whole_parts(["1=Yes", "9=Don't know", "refused"]), _whole_parts(["f", "m"])
    (['1=Yes', "9=Don't know, refused"], ['f', 'm'])
    """
    whole: list[str] = []
    for part in parts:
        if whole and "=" in parts[0] and "=" not in part and not RANGE.fullmatch(part):
            whole[-1] += f", {part}"
        else:
            whole.append(part)
    return whole
