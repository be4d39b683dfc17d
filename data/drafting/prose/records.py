"""Texts that have a record for each column: lines of keys and what they say, and a table of its codes below them.

>>> text = "Variable Name: SEX   Length: 1\\nConcept: Sex\\nAnswer Categories   Code\\nMale   1\\nFemale   2"
>>> [entry] = from_records(text, "book", {"sex"})
>>> entry.label, entry.codes
('Sex', (('1', 'Male'), ('2', 'Female')))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from equistrata.data.drafting.dictionaries import from_rows
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import CALLED, plain
from equistrata.data.drafting.prose.lines import BY_CODE, GAP, PART, coded
from equistrata.data.files.opening import plain_name

_KEYED = re.compile(r"\s*([^\W\d_][\w ()/.'-]{0,60}?)\s*:\s*(.*)")
_COUNT = re.compile(r"(?<=\d) +[\d,.]+$")  # of rows, in a cell of a long code
_MOST_ABOVE = 20  # lines of a record above the one that has its name


def from_records(text: str, _: str, wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of a text that names columns of the table by a key, as "SAS Variable Name: SEX".

    Args:
        wanted: columns of the table, as `plain_name` writes them; nothing else names a column.
    """
    lines = text.splitlines()
    keyed = [_keyed(line) for line in lines]
    named = [at for at, (key, said) in enumerate(keyed) if key in CALLED["name"] and plain_name(said) in wanted]
    if not named or len(named) * PART < len(wanted):
        return
    starts = [_start(keyed, at, named) for at in named]
    for at, start, end in zip(named, starts, [*starts[1:], len(lines)], strict=True):
        yield from _record(keyed[at][1], lines[start:end])


def _keyed(line: str) -> tuple[str, str]:
    """The key of a line and what it says, up to the next cell; empty where it has none."""
    found = _KEYED.fullmatch(line)
    return (plain(found[1]), GAP.split(found[2].strip())[0]) if found else ("", "")


def _start(keyed: Sequence[tuple[str, str]], at: int, named: Sequence[int]) -> int:
    """The first line of the record that has its name at a place: keys may stand above it."""
    for above in range(at - 1, max(at - _MOST_ABOVE, -1), -1):
        if not keyed[above][0] or above in named:
            return above + 1
    return max(at - _MOST_ABOVE + 1, 0)


def _record(name: str, lines: Sequence[str]) -> Iterator[Entry]:
    """The entry of one record: its label by a key, and codes by the headings of their table, or as in other texts."""
    said, codes, place = dict[str, str](), list[list[str]](), None
    for line in lines:
        cells = GAP.split(line.strip())
        if (found := _headings(cells)) is not None:
            place = found
        elif place is not None and len(cells) > max(place):
            codes.append([_COUNT.sub("", cells[place[0]]), cells[place[1]]])
        elif place is not None and len(cells) == 1 and line.strip() and codes and not _KEYED.fullmatch(line):
            codes[-1][1] += f" {cells[0]}"  # words on two lines
        elif found_key := _KEYED.fullmatch(line):
            said.setdefault(plain(found_key[1]), found_key[2].strip())
            codes += [] if place is not None else _listed(found_key)
        elif place is None and line.strip():
            codes += coded(line)
    label = next((said[key] for key in CALLED["label"] if said.get(key)), "")
    yield from from_rows([[name, label, *pair] for pair in codes] or [[name, label, "", ""]], 0, BY_CODE)


def _listed(keyed: re.Match[str]) -> list[list[str]]:
    """The codes behind a key for values or bounds."""
    return coded(keyed[2]) if plain(keyed[1]) in (*CALLED["choices"], *CALLED["bounds"]) else []


def _headings(cells: Sequence[str]) -> tuple[int, int] | None:
    """Where codes and their words stand, if a line is the headings of their table."""
    known = [plain(cell) for cell in cells]
    code = next((at for at, cell in enumerate(known) if cell in CALLED["code"]), None)
    words = (at for at, cell in enumerate(known) if at != code and cell in (*CALLED["words"], *CALLED["label"]))
    where = next(words, None)
    return None if code is None or where is None else (code, where)
