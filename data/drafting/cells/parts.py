"""How a list in a cell of a code book is cut into parts, and which way each has its code and words.

>>> parts, way = split_up("1=Yes, 2=No, 9=Don't know, refused")
>>> parts, [way.fullmatch(part).groups() for part in parts][0]
(['1=Yes', '2=No', "9=Don't know, refused"], ('1', 'Yes'))
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from equistrata.data.drafting.spans import KINDS, span_in

# An absent cell, in a book's words: in English, Spanish, Portuguese, German, French, and as SAS and Stata write it.
BLANK = re.compile(
    r"[(<\[]?(?:(?:left )?blank|empty|na|vac[ií]o|(?:en )?blanco(?: por pase)?|vazio|(?:em )?branco|leer|vide)"
    r"(?: cells?| field)?[)>\]]?|\.",
    re.I,
)
# How a part of a list has its code and words; all parts have one way.
WAYS = (
    re.compile(r"([^=:,;|\n<>≤≥→]+?)\s*(?:=>?|:|->|→)\s*(.+)", re.S),
    re.compile(rf"(-?\d+|[A-Za-z]{{1,2}}|[A-Z][A-Z0-9_]{{1,9}}|(?i:{BLANK.pattern}))\s+[-–—]\s+(.*[^\W\d].*)", re.S),
    re.compile(r"((?:(?! - )[^=:,;|\n])+?)\s*,\s*(.+)", re.S),
    re.compile(r"(-?\d+|[A-Z][A-Z0-9_]{0,9})\s*\((.+)\)", re.S),
    re.compile(r"([^\W\d][^()\[\],;|\n]*?)\s*[(\[](-?\d{1,3})[)\]]"),  # Male (1)
    re.compile(r"[(\[]?(-?\d+|[A-Z]{1,4})[.)\]]\s+(.*[^\W\d].*)", re.S),
    re.compile(r"(-?\d+)[-–—](?=[^\W\d])(.+)", re.S),  # 1-Male
    # 1 Male, and never one alone. Letters need to be found in the words: ENG English, and not US English.
    re.compile(
        rf"(-?\d+|[A-Z](?=\s+[A-Z])|[A-Z]{{2,4}}|(?i:{BLANK.pattern})|\.[a-z])\s+(?![-–—])(?!(?:to|bis|through)\s+\d)(.*[^\W\d].*)",
        re.S,
    ),
)
MARKS = ("|", "\n", ";", ",")
# Any of these before a code: "1= secure, 2= insecure; NA = refused".
_ANY_MARK = re.compile(
    rf"[ \t]{{0,3}}[|\n;,]\s{{0,3}}(?=['\"]?(?:-?\d+(?:\.\d+)?|[a-z]{{1,2}}|missing|{BLANK.pattern})['\"]?\s{{0,3}}=)",
    re.I,
)
# 1=Yes/0=No, 1:a 2:b, (1) a (2) b, 1. a 2. b, 1-a 2-b, and last 1 a 2 b, where codes must count up.
LOOSE = (
    re.compile("/"),
    re.compile(r"\s+(?=-?\d+(?:\s*[-–]\s*\d+)?\s*[=:])"),
    re.compile(r"\s+(?=[A-Za-z]{1,3}\s*=)"),
    re.compile(r"\s+(?=[(\[]?\d+[)\]]\s)"),
    re.compile(r"\s+(?=\d+\.\s+[^\W\d])"),
    re.compile(r"\s+(?=\d+[-–—][^\W\d])"),
)
_BLANKS = re.compile(r"\s+(?=\d+\s+['\"]?[^\W\d])")


def split_up(text: str) -> tuple[list[str], re.Pattern[str] | None]:
    """The parts of a list, and the way in which they have codes: those of the most parts that all have one, except a
    range."""
    best, most, how = [part.strip() for part in _first(text)], 1, None
    for marks in ((*MARKS, _ANY_MARK), LOOSE):
        for mark in marks:
            split = [part.strip() for part in (text.split(mark) if isinstance(mark, str) else mark.split(text))]
            for way in WAYS:
                parts = _whole_parts(split, way, mark if isinstance(mark, str) else " ")
                spans = [part for part in parts if span_in(part, words=True)]
                others = [part for part in parts if part not in spans and not _plainly(part)]
                raw = [pair[1] for part in others if (pair := way.fullmatch(part))]
                if way is WAYS[-1] and not all(map(_abbreviated, filter(None, map(way.fullmatch, others)))):
                    continue
                once = (marks is not LOOSE and way is WAYS[0]) or len({*raw}) == len(raw)
                if len(parts) > most and (raw or spans) and len(raw) == len(others) and once and len(spans) < 2:
                    best, most, how = parts, len(parts), way
        if most > 1:
            break
    if most == 1 and (parts := _counted(text)):
        return parts, WAYS[-1]
    if most == 1 and len(best) == 1:
        how = next((way for way in (WAYS[0], WAYS[1], WAYS[-1]) if way.fullmatch(best[0])), None)
    return [part for part in best if part], how


def _abbreviated(found: re.Match[str]) -> bool:
    """Whether a code of several letters is an abbreviation of its words."""
    code, words = found[1].lower(), found[2].lower()
    letters = iter(words)
    return (
        not (len(code) > 1 and code.isalpha())
        or bool(BLANK.fullmatch(code))
        or (words.startswith(code[0]) and all(letter in letters for letter in code))
    )


def _counted(text: str) -> list[str]:
    """The parts of "1 Male 2 Female", of which codes count up from 0 or 1; none if it is no such list."""
    parts = [part.strip() for part in _BLANKS.split(text)]
    codes = [int(found[1]) for part in parts if (found := WAYS[-1].fullmatch(part)) and found[1].isdigit()]
    counts = len(codes) == len(parts) > 1 and codes[:2] in ([0, 1], [1, 2]) and sorted({*codes}) == codes
    return parts if counts else []


def _plainly(part: str) -> bool:
    """Whether a part needs no code: the word for an absent cell, or for a kind of numbers."""
    return bool(BLANK.fullmatch(part) or KINDS.fullmatch(part))


def _first(text: str) -> list[str]:
    marks = ("|", ";", "\n", *([] if "," in text else [" / "]))
    return next((text.split(mark) for mark in marks if mark in text), None) or text.split(",")


def _whole_parts(parts: Sequence[str], way: re.Pattern[str], mark: str) -> list[str]:
    """Parts of a list without those that a mark within words made: "9=Don't know, refused" is one.

    >>> _whole_parts(["1=Yes", "9=Don't know", "refused"], WAYS[0], ","), _whole_parts(["f", "m"], WAYS[0], ",")
    (['1=Yes', "9=Don't know, refused"], ['f', 'm'])
    """
    whole: list[str] = []
    for part in filter(None, parts):
        alone = way.fullmatch(part) or span_in(part, words=True) or _plainly(part)
        if whole and not alone and way.fullmatch(whole[-1]) and not span_in(whole[-1], words=True):
            whole[-1] += f" {part}" if mark == "\n" else f"{mark} {part}"
        else:
            whole.append(part)
    return whole
