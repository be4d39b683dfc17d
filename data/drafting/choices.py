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
from equistrata.data.drafting.entries import SENTINEL, Codes, no_answer
from equistrata.data.drafting.spans import KINDS, between_codes, cell_span, span_in
from equistrata.data.drafting.unlisted import beside_range, no_list, parted

# An absent cell, in a book's words: in English, Spanish, Portuguese, German, French, and as SAS and Stata write it.
BLANK = re.compile(
    r"[(<\[]?(?:(?:left )?blank|empty|na|vac[ií]o|(?:en )?blanco(?: por pase)?|vazio|(?:em )?branco|leer|vide)"
    r"(?: cells?| field)?[)>\]]?|\.",
    re.I,
)
_OF_VALUES = re.compile(r"Value\s*=\s*(\S*)\s+Label\s*=\s*", re.I)  # as UK archives print them
# Alone in a cell, only this is surely a code: not "AGE >= 18", nor "Note: see page 3".
_SURELY_CODED = re.compile(
    rf"\s*(?:[\w.+-]{{1,20}}\s*=|-?\d+\s*:(?!\d\d\b)|(?:{SENTINEL.pattern})\s+(?:[-–—]\s+)?(?=[^\W\d])).+", re.S
)
# How a part of a list has its code and words; all parts have one way.
_WAYS = (
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
_MOST_LETTERS = 1 << 17  # of a cell that is read
_LONG = re.compile(r"\d{40}")  # no number of a code book
_NONE = re.compile(r"\W*(?:no|not|none|missing|unknown|n/?a|inapplicable|without|blank|refused|non)\b", re.I)
# ['Yes' 'No' nan], as NumPy prints it.
_ITEMS = re.compile(r"'[^']*'|\"[^\"]*\"|nan|None|<NA>")
_ARRAY = re.compile(rf"\[\s*(?:{_ITEMS.pattern})(?:\s+(?:{_ITEMS.pattern}))*\s*\]")
_MARKS = ("|", "\n", ";", ",")
# 1=Yes/0=No, 1:a 2:b, (1) a (2) b, 1. a 2. b, 1-a 2-b, and last 1 a 2 b, where codes must count up.
_LOOSE = (
    re.compile("/"),
    re.compile(r"\s+(?=-?\d+(?:\s*[-–]\s*\d+)?\s*[=:])"),
    re.compile(r"\s+(?=[A-Za-z]{1,3}\s*=)"),
    re.compile(r"\s+(?=[(\[]?\d+[)\]]\s)"),
    re.compile(r"\s+(?=\d+\.\s+[^\W\d])"),
    re.compile(r"\s+(?=\d+[-–—][^\W\d])"),
)
_BLANKS = re.compile(r"\s+(?=\d+\s+['\"]?[^\W\d])")
_PAIRS = re.compile(
    r"(?:m/[fw]|[fw]/m|male/female|female/male|yes/no|no/yes|y/n|n/y|true/false|t/f|ja/nein|j/n|oui/non|o/n|s[ií]/no|s/n"
    r"|sim/n[aã]o)",
    re.I,
)
_WHERE = re.compile(r"[,;:]?\s*(?:\bwhere\b\s*|[(])")  # 1 to 7, where 1 = never; 0-90 (99 = missing)
_AND_SO_ON = re.compile(r"(.*?)\s*(?:\.\.+|…|\bto|[-–—])", re.S | re.I)  # 1=never ... 5=always


def listed_in(text: str) -> tuple[Codes, str | None, str | None]:
    """The codes in a cell, as "1, Yes | 2, No", "1=Male; 2=Female" or "f, m", or the bounds, as "0-120".

    A blank cell has the code "".
    """
    if len(text) > _MOST_LETTERS or _LONG.search(text):
        return [], None, None
    return _listed(re.sub(r"[ \xa0]+", " ", text), noted=True)


def _listed(text: str, noted: bool) -> tuple[Codes, str | None, str | None]:
    """As `listed_in`. With `noted`, a range may have codes in parentheses after it."""
    text = text.replace("…", "...").strip(" \t\r\n;,|")
    if between := cell_span(text):  # 0:99, where there is nothing else
        return ([], None, None) if between_codes(between) else ([], *between)
    text = _OF_VALUES.sub(lambda found: f"{found[1] or 'blank'}=", text)
    if between := span_in(text, words=True):
        return ([], None, None) if between_codes(between) else ([], *between)
    if text[:1] == "{" or (text[:1] == "[" and text[-1:] == "]"):
        return turned(_literal(text)), None, None
    if _PAIRS.fullmatch(text.replace(" ", "")):
        return [(raw.strip(), "") for raw in text.split("/")], None, None
    if text[:1] == "(" and text[-1:] == ")" and not re.search("[()]", text[1:-1]):
        text = text[1:-1]  # (whole numbers, 18-99)
    if (ended := re.fullmatch(r"[^\d(),;|]+\(([^()]*)\)", text)) and (between := span_in(ended[1])):
        return ([], None, None) if between_codes(between) else ([], *between)
    if noted and (found := _noted(text)) is not None:
        return found
    if scale := _scale(text):
        return ([], None, None) if between_codes(scale) else ([], *scale)
    if (scaled := _scale_and_codes(text)) is not None:
        return scaled
    if plain := _plain_then_coded(text):
        return plain, None, None
    return _of_parts(text)


def _of_parts(text: str) -> tuple[Codes, str | None, str | None]:
    """As `listed_in`, of the parts of a list, each with its code and words, one of which may be a range."""
    parts, way = _split(text)
    coded = [way and way.fullmatch(part) for part in parts]
    coded = [None if pair and KINDS.fullmatch(pair[1]) else pair for pair in coded]  # valid: 0-50
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
    if not spans and not any(words for _, words in codes):
        codes = [(part, "") for part in parted([raw for raw, _ in codes])]
    codes = [(cell_of(raw, words), _unquoted(words)) for raw, words in codes]
    if spans:  # words before a range are none of its codes: "text entry, 18-99"
        before = {*parts[: parts.index(next(iter(spans)))]}
        codes = [pair for pair in codes if pair[1] or not (KINDS.fullmatch(pair[0]) or pair[0] in before)]
        codes = [
            (words, raw) if _is_said(raw) and number_in(words) is not None else (raw, words) for raw, words in codes
        ]
        if not all(map(beside_range, codes)):
            return [], None, None
    elif no_list(codes):
        return [], None, None
    lower, upper = next(iter(spans.values()), (None, None))
    alone = len(codes) == 1 and lower is None and not _SURELY_CODED.fullmatch(parts[0])
    alone = alone or (
        len(codes) == 1 and lower is None and codes[0][0].isalpha() and number_in(codes[0][1]) is not None
    )
    return [] if alone else turned(codes), lower, upper


def _is_said(raw: str) -> bool:
    """Whether a code is a word for a cell without an answer: missing = -1."""
    return not SENTINEL.fullmatch(raw) and no_answer("", raw)


def cell_of(raw: str, words: str) -> str:
    """A code as cells have it; empty where the book means an absent cell. NA may be Namibia, too.

    >>> cell_of("Blank", "not asked"), cell_of("NA", "No basement"), cell_of("NA", "Namibia"), cell_of("'a'", "")
    ('', '', 'NA', 'a')
    """
    coded = raw.strip().upper() == "NA" and words and not _NONE.match(words)
    return "" if BLANK.fullmatch(raw) and not coded else _unquoted(raw)


def beside_in(text: str) -> list[tuple[str, str]]:
    """The codes in a cell that are no values: "-9=refused; -8=not asked", "-9, -8", or one alone.

    >>> beside_in("-9=refused; -8=don't know, or no answer"), beside_in("-9, -8"), beside_in("none")
    ([('-9', 'refused'), ('-8', "don't know, or no answer")], [('-9', 'missing'), ('-8', 'missing')], [])
    """
    if "=" in text or ":" in text:
        return [(code, words or "missing") for code, words in listed_in(text)[0]]
    if BLANK.fullmatch(text.strip()):
        return [("", "missing")]
    parts = ["" if BLANK.fullmatch(part) else part for part in re.findall(r"[^\s;|,]+", text)]
    if all(number_in(part) is not None or len(part) < 2 for part in parts):
        return [(part, "missing") for part in parts]
    found, lower, _ = listed_in(text)
    return (
        [(code, words or "missing") for code, words in found]
        if lower is None and all(words or not code or SENTINEL.fullmatch(code) for code, words in found)
        else []
    )


def _noted(text: str) -> tuple[Codes, str | None, str | None] | None:
    """Bounds with codes in words after them, as "18-65 (99 = missing)" or "1 to 7, where 1 = never"; None if none."""
    if (found := _WHERE.search(text)) is None or not (between := span_in(text[: found.start()], words=True)):
        return None
    codes, lower, _ = _listed(text[found.end() :].removesuffix(")"), noted=False)
    one_way = [raw for raw, _ in codes if number_in(raw) is not None]
    if codes and lower is None and len(one_way) == len(codes):
        return codes, *between
    return ([], None, None) if "where" in found[0].lower() else None  # 0-10, where 0 is worst


def turned(codes: Codes) -> Codes:
    """Codes of a list that has words first, as "Male=1, Female=2": small numbers, each once, are no counts of rows."""
    raw, words = [str(raw) for raw, _ in codes], [str(words) for _, words in codes]
    numbers = [text for text in words if re.fullmatch(r"-?\d{1,2}", text) or SENTINEL.fullmatch(text)]
    plain = [float(text) for text in numbers if not SENTINEL.fullmatch(text)]
    first = min(plain, default=0)  # 48 and 52 are shares, and no codes
    counted = len({*numbers}) == len(codes) and first <= 1 and all(number_in(text) is None for text in raw)
    turned = len(codes) > 1 and (counted or all(map(_short_for, words, raw)))
    return [(text, said) for said, text in codes] if turned else codes


def _literal(text: str) -> Codes:
    """A mapping or list as JSON or Python writes it; nothing if it is none."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(found, dict) and found:
            return [(str(key), str(value)) for key, value in found.items()]
        if isinstance(found, list) and not any(isinstance(each, list | dict) for each in found):
            return [(str(each), "") for each in found]
    if _ARRAY.fullmatch(text):
        return [("" if each[:1] not in "'\"" else each[1:-1], "") for each in _ITEMS.findall(text)]
    if re.fullmatch(r"\[[^;]*\]|\{[^:=;]*\}", text, re.S):  # [M, F], as YAML has it, or {M, F}
        return [(_unquoted(part.strip()), "") for part in text[1:-1].split(",")] if re.search(r"\w", text) else []
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


def _scale_and_codes(text: str) -> tuple[Codes, str, str] | None:
    """A scale as of `_scale` with codes after it: "1=never ... 5=always, 9=refused"; None if it is none."""
    for mark in _MARKS:
        first, *rest = (part.strip() for part in text.split(mark))
        pairs = [_WAYS[0].fullmatch(part) for part in rest]
        if pairs and all(pairs) and (scale := _scale(first)):
            return [(cell_of(pair[1].strip(), pair[2].strip()), pair[2].strip()) for pair in pairs if pair], *scale
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
                if way is _WAYS[-1] and not all(map(_abbreviated, filter(None, map(way.fullmatch, others)))):
                    continue
                once = (marks is _MARKS and way is _WAYS[0]) or len({*raw}) == len(raw)
                if len(parts) > most and (raw or spans) and len(raw) == len(others) and once and len(spans) < 2:
                    best, most, how = parts, len(parts), way
        if most > 1:
            break
    if most == 1 and (parts := _counted(text)):
        return parts, _WAYS[-1]
    if most == 1 and len(best) == 1:
        how = next((way for way in (_WAYS[0], _WAYS[1], _WAYS[-1]) if way.fullmatch(best[0])), None)
    return [part for part in best if part], how


def _plain_then_coded(text: str) -> Codes:
    """Values without words, and after them codes of cells without an answer, as "M, F; 9=unknown"; none if it is none.

    >>> _plain_then_coded("M, F; 9=unknown"), _plain_then_coded("a, b, .=missing"), _plain_then_coded("1=M; 9=unknown")
    ([('M', ''), ('F', ''), ('9', 'unknown')], [('a', ''), ('b', ''), ('', 'missing')], [])
    """
    for mark in _MARKS:
        parts = [part.strip() for part in text.split(mark)]
        last = [_WAYS[0].fullmatch(part) for part in parts]
        plain = next((at for at in range(len(last), 0, -1) if not last[at - 1]), 0)
        after = [(found[1].strip(), found[2].strip()) for found in last[plain:] if found]
        if (
            plain
            and after
            and not any(last[:plain])
            and all(no_answer(*each) or BLANK.fullmatch(each[0]) for each in after)
        ):
            codes, lower, _ = _listed(mark.join(parts[:plain]), noted=False)
            if len(codes) > 1 and lower is None and not any(words for _, words in codes):
                return [*codes, *((cell_of(raw, words), _unquoted(words)) for raw, words in after)]
    return []


def _abbreviated(found: re.Match[str]) -> bool:
    """Whether a code of several letters is an abbreviation of its words."""
    code, words = found[1].lower(), found[2].lower()
    letters = iter(words)
    return (
        not (len(code) > 1 and code.isalpha())
        or bool(BLANK.fullmatch(code))
        or (words.startswith(code[0]) and all(letter in letters for letter in code))
    )


def _short_for(code: str, words: str) -> bool:
    """Whether a few capitals are an abbreviation of longer words."""
    letters = iter(words.lower())
    return (
        bool(re.fullmatch("[A-Z]{1,4}", code))
        and len(words) > len(code)
        and words[:1].upper() == code[0]
        and all(letter in letters for letter in code.lower())
    )


def _counted(text: str) -> list[str]:
    """The parts of "1 Male 2 Female", of which codes count up from 0 or 1; none if it is no such list."""
    parts = [part.strip() for part in _BLANKS.split(text)]
    codes = [int(found[1]) for part in parts if (found := _WAYS[-1].fullmatch(part)) and found[1].isdigit()]
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
