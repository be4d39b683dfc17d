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

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.cells.parts import BLANK, LOOSE, MARKS, WAYS, split_up
from equistrata.data.drafting.cells.unlisted import beside_range, no_list, parted
from equistrata.data.drafting.entries import SENTINEL, Codes, no_answer
from equistrata.data.drafting.spans import KINDS, between_codes, cell_span, span_in

_OF_VALUES = re.compile(r"Value\s*=\s*(\S*)\s+Label\s*=\s*", re.I)  # as UK archives print them
# Alone in a cell, only this is surely a code: not "AGE >= 18", nor "Note: see page 3".
_SURELY_CODED = re.compile(
    rf"\s*(?:(?:[A-Z\d_.+-]{{1,20}}|[A-Za-z]{{1,3}})\s*=|-?\d+\s*:(?!\d\d\b)"
    rf"|(?:{SENTINEL.pattern})\s+(?:[-–—]\s+)?(?=[^\W\d])).+",
    re.S,
)
_MOST_LETTERS = 1 << 17  # of a cell that is read
_LONG = re.compile(r"\d{40}")  # no number of a code book
_NONE = re.compile(r"\W*(?:no|not|none|missing|unknown|n/?a|inapplicable|without|blank|refused|non)\b", re.I)
_LACKS = re.compile(r"missing(?: values?)?|system missing|sysmis", re.I)  # with words, an absent cell
_ELSE = re.compile(r"(?:all |any(?:thing)? )?(?:else|others?)|otherwise", re.I)
# ['Yes' 'No' nan], as NumPy prints it.
_ITEMS = re.compile(r"'[^']*'|\"[^\"]*\"|nan|None|<NA>")
_ARRAY = re.compile(rf"\[\s*(?:{_ITEMS.pattern})(?:\s+(?:{_ITEMS.pattern}))*\s*\]")
_PAIRS = re.compile(
    r"(?:([^\W\d]\w+)/(?:not|non|no)[- ]?\1|m/[fw]|[fw]/m|male/female|female/male|yes/no|no/yes|y/n|n/y|true/false"
    r"|false/true|t/f|ja/nein|j/n|oui/non|o/n|s[ií]/no|s/n|sim/n[aã]o)",
    re.I,
)
_GROUPED = re.compile(r"(?:^|(?<=[\n;|]))[ \t]{0,4}-?\d{1,3}(?:,\d{3})+(?=\s{0,4}=)")  # 9,995 = More than 250
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
    text = _GROUPED.sub(lambda found: found[0].replace(",", ""), text.replace("…", "...").strip(" \t\r\n;,|"))
    if between := cell_span(text):  # 0:99, where there is nothing else
        return ([], None, None) if between_codes(between) else ([], *between)
    text = _OF_VALUES.sub(lambda found: f"{found[1] or 'blank'}=", text)
    if between := span_in(text, words=True):
        return ([], None, None) if between_codes(between) else ([], *between)
    if text[:1] == "{" or (text[:1] == "[" and text[-1:] == "]"):
        return turned(_literal(text)), None, None
    if _PAIRS.fullmatch(re.sub(r"\s*/\s*", "/", text)):
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
    parts, way = split_up(text)
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
    >>> cell_of("All else", "Missing"), cell_of("Missing", "Not asked"), cell_of("Missing", ""), cell_of("1'", "Yes")
    ('', '', 'Missing', '1')
    """
    lacks = _LACKS.fullmatch(raw) or (_ELSE.fullmatch(raw) and no_answer("", words))
    if lacks and words and number_in(words) is None:
        return ""
    coded = raw.strip().upper() == "NA" and words and not _NONE.match(words)
    return "" if BLANK.fullmatch(raw) and not coded else _unquoted(raw).strip()


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
    numbers = [text for text in words if re.fullmatch(r"-?\d{1,2}(?:\.\d)?", text) or SENTINEL.fullmatch(text)]
    plain = [float(text) for text in numbers if not SENTINEL.fullmatch(text)]
    first = min(plain, default=0)  # 48 and 52 are shares, and no codes
    counted = len({*numbers}) == len(codes) and first <= 1 and all(number_in(text) is None for text in raw)
    turned = len(codes) > 1 and (counted or all(map(_short_for, words, raw)))
    return [(text, said) for said, text in codes] if turned else codes


def _literal(text: str) -> Codes:
    """A mapping or list as JSON or Python writes it; nothing if it is none."""
    if _ARRAY.fullmatch(text):  # before Python, to which 'a' 'b' are one text
        return [("" if each[:1] not in "'\"" else each[1:-1], "") for each in _ITEMS.findall(text)]
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(found, dict) and found:
            return [(str(key), str(value)) for key, value in found.items()]
        if isinstance(found, list) and not any(isinstance(each, list | dict) for each in found):
            return [(str(each), "") for each in found]
    if re.fullmatch(r"\[[^;]*\]|\{[^:=;]*\}", text, re.S):  # [M, F], as YAML has it, or {M, F}
        parts = text[1:-1].split(",")
        alone = len(parts) == 1 and " " in parts[0].strip()  # [string variable]
        return [(_unquoted(part.strip()), "") for part in parts] if re.search(r"\w", text) and not alone else []
    return []


def _scale(text: str) -> tuple[str, str] | None:
    """The ends of a scale of which only these have words: "1=Strongly disagree ... 5=Strongly agree"."""
    for mark in (None, *MARKS):
        parts = text.split(mark) if mark else LOOSE[1].split(text)
        parts = [part.strip() for part in parts]
        if len(parts) == 3 and re.fullmatch(r"\.\.+", parts[1]):
            parts = [f"{parts[0]} ...", parts[2]]
        ends = [WAYS[0].fullmatch(part) for part in parts]
        if len(parts) == 2 and ends[0] and ends[1] and _AND_SO_ON.fullmatch(ends[0][2]):
            low, high = (number_in(end[1]) for end in ends if end)
            if low is not None and high is not None and high - low > 1:
                return ends[0][1].strip(), ends[1][1].strip()
    return None


def _scale_and_codes(text: str) -> tuple[Codes, str, str] | None:
    """A scale as of `_scale` with codes after it: "1=never ... 5=always, 9=refused"; None if it is none."""
    for mark in MARKS:
        first, *rest = (part.strip() for part in text.split(mark))
        pairs = [WAYS[0].fullmatch(part) for part in rest]
        if pairs and all(pairs) and (scale := _scale(first)):
            return [(cell_of(pair[1].strip(), pair[2].strip()), pair[2].strip()) for pair in pairs if pair], *scale
    return None


def _plain_then_coded(text: str) -> Codes:
    """Values without words, and after them codes of cells without an answer, as "M, F; 9=unknown"; none if it is none.

    >>> _plain_then_coded("M, F; 9=unknown"), _plain_then_coded("a, b, .=missing"), _plain_then_coded("1=M; 9=unknown")
    ([('M', ''), ('F', ''), ('9', 'unknown')], [('a', ''), ('b', ''), ('', 'missing')], [])
    """
    for mark in MARKS:
        parts = [part.strip() for part in text.split(mark)]
        last = [WAYS[0].fullmatch(part) for part in parts]
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


def _short_for(code: str, words: str) -> bool:
    """Whether a few capitals are an abbreviation of longer words."""
    letters = iter(words.lower())
    return (
        bool(re.fullmatch("[A-Z]{1,4}", code))
        and len(words) > len(code)
        and words[:1].upper() == code[0]
        and all(letter in letters for letter in code.lower())
    )


def _unquoted(words: str) -> str:
    words = words.rstrip(",; ") or words
    if re.fullmatch(r"['\"]?[\w.-]+['\"]?", words):  # also '1 without its other quote
        return words.strip("'\"")
    return words[1:-1] if len(words) > 2 and words[0] == words[-1] and words[0] in "\"'" else words
