"""What a constraint of a form (XLSForm) allows: bounds, and codes beside them.

>>> allowed_in(". >= 0 and . <= 120"), allowed_in(".>0 and .<100", whole=True)
(('0', '120', []), ('1', '99', []))
>>> allowed_in("(. >= 0 and . <= 90) or . = 98"), allowed_in(". >= date('1920-01-01') and . <= date('2025-12-31')")
(('0', '90', [('98', 'missing')]), ('1920-01-01', '2025-12-31', []))
>>> allowed_in("(. >= 0 and . <= ${size}) or . = -1"), allowed_in("regex(., '[0-9]+')"), allowed_in(". < 5 or . > 9")
((None, None, []), (None, None, []), (None, None, []))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from equistrata.data.columns.column import number_in, plain_text

Allowed = tuple[str | None, str | None, list[tuple[str, str]]]

_NOTHING: Allowed = (None, None, [])
_CLAUSE = re.compile(r"\.\s*(>=|<=|>|<|=)\s*(?:(-?\d+(?:\.\d+)?)|(?:date\(\s*)?'(\d{4}-\d\d-\d\d)'\s*\)?)")
_MOST_LETTERS = 1_000  # of a constraint that is read


def allowed_in(constraint: str, whole: bool = False) -> Allowed:
    """The lower and upper bound that a constraint gives, and codes that it allows beside them.

    A clause that is not known narrows what "and" allows, so it is left out; one after "or" would widen it, so then
    nothing is said. An end that is itself not allowed (<) is one, unless numbers are whole.

    Args:
        whole: whether the answers are whole numbers.
    """
    found: list[tuple[str, str]] = []
    codes = list[tuple[str, str]]()
    if not constraint or len(constraint) > _MOST_LETTERS:
        return _NOTHING
    for way in _parts(_bare(constraint), "or"):
        clauses = [_CLAUSE.fullmatch(_bare(each)) for each in _parts(_bare(way), "and")]
        known = [each for each in clauses if each]
        if len(clauses) == 1 and known and known[0][1] == "=" and known[0][2]:
            codes.append((known[0][2], "missing"))
            continue
        lower = [_end(each, whole) for each in known if each[1] in (">", ">=")]
        upper = [_end(each, whole) for each in known if each[1] in ("<", "<=")]
        if len(lower) != 1 or len(upper) != 1 or found:
            return _NOTHING
        found.append((lower[0], upper[0]))
    return (*found[0], codes) if found else _NOTHING


def _end(clause: re.Match[str], whole: bool) -> str:
    number = number_in(clause[2] or "")
    if number is None:
        return clause[3]
    step = {">": 1, "<": -1}.get(clause[1], 0) if whole and number.is_integer() else 0
    return plain_text(number + step)


def _bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and next(_closed(text), 0) == len(text):
        text = text[1:-1].strip()
    return text


def _closed(text: str) -> Iterator[int]:
    """The places behind parentheses that end at the depth at which the text begins."""
    depth = 0
    for at, letter in enumerate(text, start=1):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            yield at


def _parts(text: str, word: str) -> list[str]:
    """The parts of a text between a word that is in no parentheses."""
    parts, depth, begun = list[str](), 0, 0
    for found in re.finditer(rf"[()]|\b{word}\b", text):
        depth += (found[0] == "(") - (found[0] == ")")
        if found[0] == word and depth == 0:
            parts.append(text[begun : found.start()])
            begun = found.end()
    return [*parts, text[begun:]]
