"""What one cell of a code book lists: codes with their words, values, or bounds.

>>> listed_in("1=Male; 2=Female"), listed_in("0-120")
(([('1', 'Male'), ('2', 'Female')], None, None), ([], '0', '120'))
>>> listed_in("1-5 scale; -9: refused; Blank: N/A")
([('-9', 'refused'), ('', 'N/A')], '1', '5')
>>> listed_in("01001-01040")  # codes
([], None, None)
>>> listed_in("-9=refused"), listed_in("Note: see page 3")
(([('-9', 'refused')], None, None), ([], None, None))
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.entries import Codes

_NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
_TO = r"(?:-|–|—|\.\.+|to|through|thru|until|,)"
_SPAN = re.compile(rf"\[?\s*[$€£]?({_NUMBER})\s*{_TO}\s*[$€£]?({_NUMBER})\s*%?\s*\]?", re.I)
_COMMA = r"-?\d{1,3}(?:\.\d{3})*,\d+|-?\d{1,3}(?:\.\d{3}){2,}|-?\d+,\d+|-?\d+"  # 1.000.000 and 99,9
_COMMAS = re.compile(rf"[€£]?\s*({_COMMA})\s*(?:\s[-–—]\s|\.\.+|to|bis)\s*[€£]?\s*({_COMMA})\s*[€£%]?", re.I)
_DAYS = re.compile(rf"({_DAY})\s*{_TO}\s*({_DAY})", re.I)
_BETWEEN = re.compile(rf"(?:between|from)\s+({_NUMBER}|{_DAY})\s+(?:and|to)\s+({_NUMBER}|{_DAY})", re.I)
_WORDED = re.compile(
    rf"(-?\d+)\s*\([^()]*[^\W\d][^()]*\)\s*{_TO}\s*(-?\d+)\s*\([^()]*\)", re.I
)  # 1 (never) to 5 (always)
_ENDS = re.compile(rf"min(?:imum)?\s*[=:]?\s*({_NUMBER})\s*[,;/|\n]?\s*max(?:imum)?\s*[=:]?\s*({_NUMBER})", re.I)
_BOUND = re.compile(r"[$€£]?\s*(-?[\d.,]+)\s*[$€£%]?")
_KIND = r"(?:(?:valid|allowed) )?(?:range|values?|numeric|numbers?|integers?|decimals?|continuous|float|dates?|scale)"
_BEFORE = re.compile(rf"{_KIND}\s*[:,]?\s+", re.I)
_AFTER = re.compile(r"\s*[(]?[A-Za-z%°/ ]+[)]?")  # 1-5 scale, 0 to 120 (years)
_KINDS = re.compile(_KIND, re.I)  # a part alone says nothing of the values
_ZEROS = re.compile(r"-?0\d")
BLANK = re.compile(r"[(<\[]?(?:blank|empty)(?: cell)?[)>\]]?", re.I)  # an absent cell, in a book's words
# Alone in a cell, only this is surely a code: not "AGE >= 18", nor "Note: see page 3".
_SURELY_CODED = re.compile(r"\s*(?:[\w.+-]{1,20}\s*=|-?\d+\s*:(?!\d\d\b)).+", re.S)
# How a part of a list has its code and words; all parts have one way.
_WAYS = (
    re.compile(r"([^=:,;|\n]+?)\s*(?:=>?|:)\s*(.+)", re.S),
    re.compile(rf"(-?\d+|[A-Za-z]{{1,2}}|[A-Z][A-Z0-9_]{{1,9}}|(?i:{BLANK.pattern}))\s+[-–—]\s+(.*[^\W\d].*)", re.S),
    re.compile(r"((?:(?! - )[^=:,;|\n])+?)\s*,\s*(.+)", re.S),
    re.compile(r"(-?\d+|[A-Z][A-Z0-9_]{0,9})\s*\((.+)\)", re.S),
    re.compile(r"\(?(-?\d+)[.)]\s+(.*[^\W\d].*)", re.S),
    re.compile(r"(-?\d+|[A-Z](?=\s+[A-Z]))\s+(?![-–—])(.*[^\W\d].*)", re.S),  # 1 Male, 2 Female; never one alone
)
_MARKS = ("|", "\n", ";", ",")
_LOOSE = (re.compile("/"), re.compile(r"\s+(?=-?\d+\s*[=:])"), re.compile(r"\s+(?=\(?\d+\)\s)"))  # 1=Yes/0=No, 1:a 2:b
_AND_SO_ON = re.compile(r"(.*?)\s*(?:\.\.+|…|\bto|[-–—])", re.S | re.I)  # 1=never ... 5=always


def listed_in(text: str) -> tuple[Codes, str | None, str | None]:
    """The codes in a cell, as "1, Yes | 2, No", "1=Male; 2=Female" or "f, m", or the bounds, as "0-120".

    A blank cell has the code "".
    """
    text = text.replace("\xa0", " ").replace("…", "...").strip()
    if between := span_in(text, words=True):
        return ([], None, None) if between_codes(between) else ([], *between)
    if text[:1] in ("{", "["):
        return _literal(text), None, None
    if scale := _scale(text):
        return [], *scale
    parts, way = _split(text)
    coded = [way and way.fullmatch(part) for part in parts]
    spans = {part: between for part, pair in zip(parts, coded, strict=True)
             if (between := span_in(pair[1]) if pair else span_in(part, words=True))}  # fmt: skip
    if any(map(between_codes, spans.values())):  # some codes are not here
        return [], None, None
    grouped = any(re.search(r"\d", part) and number_in(part) is None and not pair and part not in spans
                  for part, pair in zip(parts, coded, strict=True))  # fmt: skip
    if len(spans) > 1 or (spans and grouped):  # groups, as "0-17; 18-64; 65 and over", which are values
        spans = {}
    every = all(pair or BLANK.fullmatch(part) for part, pair in zip(parts, coded, strict=True) if part not in spans)
    codes = [(pair[1].strip(), pair[2].strip()) if pair and every else (part, "")
             for part, pair in zip(parts, coded, strict=True) if part not in spans]  # fmt: skip
    codes = [("" if BLANK.fullmatch(raw) else raw, _unquoted(words)) for raw, words in codes]
    codes = [pair for pair in codes if not (spans and _KINDS.fullmatch(pair[0]) and not pair[1])]
    lower, upper = next(iter(spans.values()), (None, None))
    alone = len(codes) == 1 and lower is None and not _SURELY_CODED.fullmatch(parts[0])
    return [] if alone else codes, lower, upper


def beside_in(text: str) -> list[tuple[str, str]]:
    """The codes in a cell that are no values: "-9=refused; -8=not asked", "-9, -8", or one alone.

    >>> beside_in("-9=refused; -8=don't know, or no answer"), beside_in("-9, -8"), beside_in("none")
    ([('-9', 'refused'), ('-8', "don't know, or no answer")], [('-9', 'missing'), ('-8', 'missing')], [])
    """
    if "=" in text or ":" in text:
        return [(code, words or "missing") for code, words in listed_in(text)[0]]
    if BLANK.fullmatch(text.strip()):
        return [("", "missing")]
    parts = re.findall(r"[^\s;|,]+", text)
    codes = all(number_in(part) is not None or len(part) == 1 for part in parts)
    return [(part, "missing") for part in parts] if codes else []


def span_in(text: str, words: bool = False) -> tuple[str, str] | None:
    """The two ends of a range of numbers or days, as they are written; None if the text is none.

    Args:
        words: take words around it, too, as in "1-5 scale" or "range: 0 to 120".

    >>> span_in("0..99"), span_in("2025-01-01 to 2025-12-31"), span_in("1-5 scale"), span_in("1-5 scale", words=True)
    (('0', '99'), ('2025-01-01', '2025-12-31'), None, ('1', '5'))
    """
    text = text.strip()
    forms = (_DAYS, _SPAN, _COMMAS, *(_BETWEEN, _ENDS, _WORDED) * words)
    tried: dict[str, None] = {text: None}
    if words:
        bare = _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text
        end = next((found.end() for form in forms if (found := form.match(bare))), None)
        tried |= {bare: None} | ({bare[:end]: None} if end is not None and _AFTER.fullmatch(bare[end:]) else {})
    found = next((found for each in tried for form in forms if (found := form.fullmatch(each))), None)
    if found is None:
        return None
    if found.re is _COMMAS:
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


def _literal(text: str) -> Codes:
    """A mapping or list as JSON or Python writes it; nothing if it is none."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(found, dict):
            return [(str(key), str(value)) for key, value in found.items()]
        if isinstance(found, list) and not any(isinstance(each, list | dict) for each in found):
            return [(str(each), "") for each in found]
    return []


def _scale(text: str) -> tuple[str, str] | None:
    """The ends of a scale of which only these have words: "1=Strongly disagree ... 5=Strongly agree"."""
    for mark in (None, *_MARKS):
        parts = text.split(mark) if mark else _LOOSE[1].split(text)
        parts = [part.strip() for part in parts]
        if len(parts) == 3 and re.fullmatch(r"\.\.+", parts[1]):
            parts = [f"{parts[0]} ...", parts[2]]
        ends = [_WAYS[0].fullmatch(part) for part in parts]
        if len(parts) == 2 and ends[0] and ends[1] and _AND_SO_ON.fullmatch(ends[0][2]):
            low, high = (number_in(end[1]) for end in ends if end)
            if low is not None and high is not None and high - low > 1:
                return ends[0][1].strip(), ends[1][1].strip()
    return None


def _split(text: str) -> tuple[list[str], re.Pattern[str] | None]:
    """The parts of a list, and the way in which they have codes: those of the most parts that all have one, except a
    range."""
    best, most, how = [part.strip() for part in _first(text)], 1, None
    for marks in (_MARKS, _LOOSE):
        for mark in marks:
            split = [part.strip() for part in (text.split(mark) if isinstance(mark, str) else mark.split(text))]
            for way in _WAYS:
                parts = _whole_parts(split, way, mark if isinstance(mark, str) else " ")
                spans = [part for part in parts if span_in(part, words=True)]
                others = [part for part in parts if part not in spans and not _plainly(part)]
                raw = [pair[1] for part in others if (pair := way.fullmatch(part))]
                once = (marks is _MARKS and way is _WAYS[0]) or len({*raw}) == len(raw)
                if len(parts) > most and raw and len(raw) == len(others) and once and len(spans) < 2:
                    best, most, how = parts, len(parts), way
        if most > 1:
            break
    if most == 1 and len(best) == 1 and (way := _WAYS[0]).fullmatch(best[0]):
        how = way
    return [part for part in best if part], how


def _plainly(part: str) -> bool:
    """Whether a part needs no code: the word for an absent cell, or for a kind of numbers."""
    return bool(BLANK.fullmatch(part) or _KINDS.fullmatch(part))


def _first(text: str) -> list[str]:
    return next((text.split(mark) for mark in ("|", ";", "\n") if mark in text), None) or text.split(",")


def _whole_parts(parts: Sequence[str], way: re.Pattern[str], mark: str) -> list[str]:
    """Parts of a list without those that a mark within words made: "9=Don't know, refused" is one.

    >>> _whole_parts(["1=Yes", "9=Don't know", "refused"], _WAYS[0], ","), _whole_parts(["f", "m"], _WAYS[0], ",")
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


def _unquoted(words: str) -> str:
    words = words.rstrip(",; ") or words
    return words[1:-1] if len(words) > 2 and words[0] == words[-1] and words[0] in "\"'" else words
