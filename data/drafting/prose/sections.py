"""Texts in which each column has sections under underlined headings: valid codes, missing codes, notes.

>>> text = '''SEX    Sex of the person
...
... VALID CODES:
... -----------
... 1. Male
... 2. Female
...
... MISSING CODES:
... -------------
... -9. Refused
...
... NOTES:
... -----
... 3. is not in use.'''
>>> [entry] = from_sections(text, "book", {"sex"})
>>> entry.label, entry.codes
('Sex of the person', (('1', 'Male'), ('2', 'Female'), ('-9', 'Refused')))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import plain
from equistrata.data.drafting.prose.tables import ITEM
from equistrata.data.drafting.spans import span_in
from equistrata.data.files.opening import plain_name

_RULE = re.compile(r"\s*[-=_]{3,}\s*")
_SECTION = re.compile(r"\s*([A-Za-z][A-Za-z /]{2,30}):?\s*")
_OF_VALUES = ("validcodes", "codes", "validvalues", "values", "categories", "responsecodes", "codevalues")
_OF_MISSING = ("missingcodes", "missingvalues", "missing", "missingdatacodes", "missingdata")
_CODE = re.compile(r"\s*(-?\d+|[A-Z]{1,2})(?:\.|\)|\s*=|\s{2,}|\t)\s*(\S.*)")
_SPAN = re.compile(r"\s*(?:range:\s*)?(-?\d+(?:\.\d+)?\s*(?:-|to|thru)\s*-?\d+(?:\.\d+)?)(?:[.):]\s*.*)?", re.I)
_AND_SO_ON = re.compile(r"(?:\.\s?){3,}$|…$")  # 18 years old . . .
_NOT_KNOWN = "the lines under its valid codes are no list of codes and no range; declare the values"


@dataclass
class _Column:
    """What a text says of a column: lines by their section."""

    name: str
    label: str
    lines: dict[str, list[str]] = field(default_factory=dict)


def from_sections(text: str, _: str, wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of a text of which columns have sections of codes; none where it has no such section.

    Args:
        wanted: columns of the table, as `plain_name` writes them; nothing else names a column.
    """
    columns, section = list[_Column](), ""
    for line, after in pairwise([*text.splitlines(), ""]):
        found = ITEM.fullmatch(line)
        if found and plain_name(found[1]) in wanted:
            columns.append(_Column(found[1], found[2].strip()))
            section = ""
        elif _RULE.fullmatch(after) and line.strip():
            heading = _SECTION.fullmatch(line)
            section = plain(heading[1]) if heading else ""
        elif columns and not _RULE.fullmatch(line) and line.strip():
            columns[-1].lines.setdefault(section, []).append(line)
    if not any({*_OF_VALUES} & {*column.lines} for column in columns):
        return
    known = dict[str, _Column]()
    for column in columns:  # a list of all columns may come first
        if column.name not in known or (column.lines and not known[column.name].lines):
            known[column.name] = column
    for column in known.values():
        yield _entry(column)


def _entry(column: _Column) -> Entry:
    values = [line for key in _OF_VALUES for line in column.lines.get(key, [])]
    missing = [line for key in _OF_MISSING for line in column.lines.get(key, [])]
    spans = [span for line in values if (found := _SPAN.fullmatch(line)) and (span := span_in(found[1]))]
    codes, odd = _codes([line for line in values if not _SPAN.fullmatch(line)])
    absent, _ = _codes(missing)
    if odd or len(spans) > 1:
        return Entry(column.name, column.label, remark=_NOT_KNOWN)
    numbers = [number for raw, _ in codes if (number := number_in(raw)) is not None]
    if len(numbers) > 1 and not spans and any(_AND_SO_ON.search(words) for _, words in codes):
        return Entry.of(column.name, column.label, (), min(numbers), max(numbers), absent=absent)
    lower, upper = spans[0] if spans else (None, None)
    return Entry.of(column.name, column.label, codes, lower, upper, absent=absent)


def _codes(lines: list[str]) -> tuple[list[tuple[str, str]], bool]:
    """The codes of lines, of which one may go on in the next; and whether there are lines before the first."""
    codes, odd = list[tuple[str, str]](), False
    for line in lines:
        if found := _CODE.fullmatch(line):
            codes.append((found[1], found[2].strip()))
        elif codes:
            codes[-1] = (codes[-1][0], f"{codes[-1][1]} {line.strip()}")
        else:
            odd = True
    return codes, odd
