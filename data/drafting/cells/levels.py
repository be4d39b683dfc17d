"""Values in the words about a column, after a word that says so: "(binary: yes or no)", "a factor with levels a; b".

>>> levels_in("numeric: 0 - none, 1 - primary education (4th grade) or 2 - higher")
'0 = none | 1 = primary education (4th grade) | 2 = higher'
>>> levels_in("binary: 'GP' - Gabriel Pereira or 'MS' - Mousinho"), levels_in("binary: yes or no")
('GP = Gabriel Pereira | MS = Mousinho', 'yes | no')
>>> levels_in("numeric: from 1 - very bad to 5 - very good"), levels_in("numeric: n if 1<=n<3, else 4")
('1..5', '')
>>> with_levels('Factor with levels "worker" (assembly line), "office", "other".')
'worker = assembly line | office = office | other = other'
"""

from __future__ import annotations

import re

from equistrata.data.drafting.spans import span_in

_KIND = re.compile(
    r"(?:binary|boolean|nominal|categorical|ordinal|numeric|factor|discrete|integer)\s*:\s*(.+)", re.I | re.S
)
_LEVELS = re.compile(r".*\b(?:with|has|having)\s+(?:\w+\s+)?levels?\s*:?\s*(.+?)\.?\s*", re.I | re.S)
_OR = re.compile(r",?\s+(?:or|and)\s+(?=['\"]|\S{1,12}\s+[-–—=]\s|\S+$)")
_PAIR = re.compile(r"['\"]?([\w<>+.-]{1,12})['\"]?\s*[-–—=:]\s+(\S.*)", re.S)
_NAMED = re.compile(r"(?:'([^']+)'|\"([^\"]+)\"|([\w+.-]+(?: [\w+.-]+){0,2}))\s*(?:\((.*)\))?", re.S)
_SCALE = re.compile(r"(?:from\s+)?(-?\d+)\s*[-–—=]\s*[^\d,]+?\s+to\s+(-?\d+)\s*[-–—=]\s*[^\d,]+", re.I)
_MARKS = re.compile(r"[,;]")
_MOST_LETTERS = 4_000


def levels_in(text: str) -> str:
    """The values after a word for a kind of columns and a colon, as a list that `listed_in` reads; else nothing."""
    found = _KIND.fullmatch(text.strip()) if len(text) <= _MOST_LETTERS else None
    return _listed(found[1]) if found else ""


def with_levels(text: str) -> str:
    """The values after "with levels", as R's documentation has them, as a list that `listed_in` reads; else nothing."""
    found = _LEVELS.fullmatch(text.strip()) if len(text) <= _MOST_LETTERS else None
    return _listed(found[1]) if found else ""


def _listed(text: str) -> str:
    if scale := _SCALE.fullmatch(text.strip()):
        return f"{scale[1]}..{scale[2]}"
    first, _, rest = text.partition(",")
    if (between := span_in(first, words=True)) and not re.search(r"\d", rest):
        return "..".join(between)
    parts = [part for each in _parts(_OR.sub(", ", text)) if (part := each.strip())]
    if len(parts) < 2 or "|" in text:
        return ""
    pairs = [_PAIR.fullmatch(part) for part in parts]
    if all(pairs):
        made = [(pair[1], pair[2].strip()) for pair in pairs if pair]
    else:
        named = [_NAMED.fullmatch(part) for part in parts]
        made = [(each[1] or each[2] or each[3], each[4] or "") for each in named if each]
        made = made if all(named) else []
    alone = len({code for code, _ in made}) == len(made)
    worded = any(words for _, words in made)
    return " | ".join(f"{code} = {words or code}" if worded else code for code, words in made) if alone else ""


def _parts(text: str) -> list[str]:
    """The parts of a text between commas or semicolons that are in no parentheses."""
    parts, depth, begun = list[str](), 0, 0
    for found in re.finditer(r"[(),;]", text):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth == 0 and _MARKS.fullmatch(found[0]):
            parts.append(text[begun : found.start()])
            begun = found.end()
    return [*parts, text[begun:]]
