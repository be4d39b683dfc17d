"""Code books that people read: tables of Markdown and of web pages, and lists of columns with their values below them.

>>> [entry] = from_lines("SEX: Sex of the person\\n\\n   1\\tMale\\n   2\\tFemale\\n", "book", {"sex"})
>>> entry.label, entry.codes
('Sex of the person', (('1', 'Male'), ('2', 'Female')))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise

from equistrata.data.drafting.choices import listed_in
from equistrata.data.drafting.dictionaries import from_rows
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import placed
from equistrata.data.drafting.spans import span_in
from equistrata.data.files.opening import plain_name

Rows = list[list[str]]

_UNDER = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*")  # the line under Markdown's headings
_BREAK = re.compile(r"<br\s*/?>", re.I)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_STRONG = re.compile(r"\*\*|__|`|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
# A column with its words, on a line that may be an item of a list; and a code with its words.
_ITEM = re.compile(r"\s*(?:[-*+•]\s+|\d+[.)]\s+)?([^\s:=|]+(?: [^\s:=|]+){0,3}?)\s*(?::|\t|\s{2,}|\s[-–—=]\s)\s*(.*)")
_CODE = re.compile(r"(\.|[^\s=:]*[^\W_][^\s=:]*)(?:\t+|\s{2,}|\s*[=:]\s*|\s+[-–—]\s+)(\S.*)")
_ENDS = re.compile(r"(.*?)\s*[(\[]([^()\[\]]*(?:\([^()]*\)[^()\[\]]*)*)[)\]]\s*\.?")  # label (values)
_PLACE = {"name": 0, "label": 1, "choices": 2}
_BY_CODE = {"name": 0, "label": 1, "code": 2, "words": 3}
_MOST_TABLES = 1_000  # of a book


def from_tables(tables: Iterable[Rows], wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of those tables that are dictionaries.

    Args:
        wanted: columns of the table that the book is for, as `plain_name` writes them.
    """
    for rows in tables:
        at, place = placed(rows, wanted)
        if len(place) > 1:
            yield from from_rows(rows, at, place)


def markdown_tables(text: str) -> list[Rows]:
    """The tables of a Markdown text, without its marks for bold, code and links."""
    lines, tables = text.splitlines(), list[Rows]()
    for at, line in enumerate(lines[1:], start=1):
        if "|" in line and _UNDER.fullmatch(line) and "|" in lines[at - 1]:
            rows = [_cells(lines[at - 1])]
            for below in lines[at + 1 :]:
                if "|" not in below:
                    break
                rows.append(_cells(below))
            tables.append(rows)
    return tables[:_MOST_TABLES]


def _cells(line: str) -> list[str]:
    line = _BREAK.sub("\n", _LINK.sub(r"\1", line.strip().removeprefix("|")))
    cells = re.split(r"(?<!\\)\|", re.sub(r"(?<!\\)\|\s*$", "", line))
    return [_STRONG.sub("", cell.replace("\\|", "|")).strip() for cell in cells]


def web_tables(text: str, wanted: Collection[str] = ()) -> list[Rows]:
    """The tables of a web page; one with codes alone gets the names and labels that stand above it.

    Args:
        wanted: as of `from_tables`.
    """
    page = _Page()
    page.feed(text)
    page.close()
    made = list[Rows]()
    for above, rows in page.tables:
        name, label = _heading(above, wanted)
        if name and rows and "name" not in placed(rows, wanted)[1]:
            head = ["variable", "label", *rows[0]]
            made.append([head, *([name, label, *row] for row in rows[1:])])
        else:
            made.append(rows)
    return made


def _heading(above: Sequence[str], wanted: Collection[str]) -> tuple[str, str]:
    """A column and its words, of the texts above a table: "SEX - Sex of the person", or "Variable Name:", "SEX"."""
    said = {before.rstrip(" :").lower(): after for before, after in pairwise(above)}
    name = said.get("variable name", "")
    if plain_name(name) in wanted:
        return name, said.get("sas label") or said.get("label") or said.get("english text") or ""
    for text in reversed(above):
        found = _ITEM.fullmatch(text)
        if found and plain_name(found[1]) in wanted:
            return found[1], found[2]
        if plain_name(text) in wanted:
            return text.strip(), ""
    return "", ""


class _Page(HTMLParser):
    """Reads the tables of a web page, each with the texts between it and the one before."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[tuple[list[str], Rows]] = []
        self.above: list[str] = []
        self.rows: Rows | None = None
        self.cell: list[str] | None = None
        self.text: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:
        if tag == "table" and len(self.tables) < _MOST_TABLES:
            self._end_text()
            self.rows = []
        elif tag == "tr" and self.rows is not None:
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.cell = []
            self.rows[-1].append("")
        elif tag == "br" and self.cell is not None:
            self.cell.append("\n")
        elif self.rows is None:
            self._end_text()

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self.rows is not None:
            self.tables.append((self.above, [row for row in self.rows if any(row)]))
            self.above, self.rows, self.cell = [], None, None
        elif tag in ("td", "th") and self.rows:
            self.cell = None
        elif self.rows is None:
            self._end_text()

    def handle_data(self, data: str) -> None:
        if self.rows and self.cell is not None and self.rows[-1]:
            self.cell.append(re.sub(r"\s+", " ", data))
            self.rows[-1][-1] = "".join(self.cell).replace("\xa0", " ").strip()
        elif self.rows is None:
            self.text.append(data)

    def _end_text(self) -> None:
        if text := " ".join("".join(self.text).split()):
            self.above.append(text)
        self.text = []


def from_lines(text: str, _: str, wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of a text that names columns of the table, each at the start of a line, with values after or below.

    Args:
        wanted: as of `from_tables`; nothing else names a column.
    """
    blocks: dict[str, tuple[list[str], Rows]] = {}
    now: tuple[list[str], Rows] | None = None
    for line in map(_plain, text.splitlines()):
        found = _ITEM.fullmatch(line)
        if found and plain_name(found[1]) in wanted:
            now = ([found[1], found[2].strip()], [])
            known = blocks.get(plain_name(found[1]))
            if known is None or not known[1]:  # a list of all columns may come first
                blocks[plain_name(found[1])] = now
        elif now is not None and span_in(line):
            now[1].append([line.strip(), ""])
        elif now is not None and (coded := _CODE.fullmatch(line.strip())):
            now[1].append([coded[1], coded[2].strip()])
    for (name, said), codes in blocks.values():
        label, choices = _apart(said)
        if codes:
            yield from from_rows([[name, label, *pair] for pair in codes], 0, _BY_CODE)
        else:
            yield from from_rows([[name, label, choices]], 0, _PLACE)


def _plain(line: str) -> str:
    return _STRONG.sub("", _LINK.sub(r"\1", line))


def _apart(said: str) -> tuple[str, str]:
    """A label apart from the values in parentheses after it, or after its last colon."""
    if (found := _ENDS.fullmatch(said)) and _lists(found[2]):
        return found[1], found[2]
    before, mark, after = said.partition(": ")
    if mark and _lists(after):
        return before, after
    return ("", said) if _lists(said) and not re.match(r"[^\W\d]", said) else (said, "")


def _lists(text: str) -> bool:
    codes, lower, _ = listed_in(text)
    return lower is not None or (len(codes) > 1 and any(words for _, words in codes))
