"""Tables of code books that people read: of Markdown, of web pages and of workbooks.

>>> table = [["Name", "Label", "Values"], ["SEX", "Sex", "1=Male; 2=Female"]]
>>> [entry] = from_tables([table], {"sex"})
>>> entry.label, entry.codes
('Sex', (('1', 'Male'), ('2', 'Female')))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise, takewhile

from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import of_lists, placed
from equistrata.data.drafting.rows.dictionaries import by_rows, from_rows, parts_of
from equistrata.data.drafting.rows.lists import Part
from equistrata.data.files.opening import plain_name

Rows = list[list[str]]

_UNDER = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*")  # the line under Markdown's headings
_RULE = re.compile(r"\s*(?:-{2,}(?:\s+-{2,})+|={2,}(?:\s+={2,})+)\s*")
_BREAK = re.compile(r"<br\s*/?>", re.I)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_STRONG = re.compile(r"\*\*|__|`|'{2,3}(?=\w)|(?<=\w)'{2,3}|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
# A column with its words, on a line that may be an item of a list.
ITEM = re.compile(r"\s*(?:[-*+•]\s+|\d+[.)]\s+)?([^\s:=|]+(?: [^\s:=|]+){0,3}?)\s*(?::|\t|\s{2,}|\s[-–—=]\s)\s*(.*)")
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


def from_sheets(sheets: Iterable[Rows], wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of those sheets of a workbook that are dictionaries: one may have the columns, and another their
    codes. Of two sheets that have the same of a column, that one is meant that names more of the table's columns.

    Args:
        wanted: as of `from_tables`. A sheet with half of them in a row is the table itself, and not read.
    """
    ranked = sorted(sheets, key=lambda rows: -len(_names(rows) & {*wanted}))
    parts, known = list[Part](), dict[bool, set[str]]()
    for rows in ranked:
        at, place = placed(rows, wanted)
        if len(place) < 2 or any(_is_header(row, wanted) for row in rows):
            continue
        taken, found = known.setdefault("code" in place, set()), set[str]()
        for part, where in parts_of(rows, at, place):
            if of_lists(where):
                parts.append((part, where))
                continue
            name, kept = "", []
            for row in part:
                name = (row[where["name"]].strip() if where["name"] < len(row) else "") or name
                if plain_name(name) not in taken:
                    found.add(plain_name(name))
                    kept.append(row)
            parts.append((kept, where))
        taken |= found
    return by_rows(parts)


def _names(rows: Rows) -> set[str]:
    return {plain_name(cell) for row in rows for cell in row}


def _is_header(row: Sequence[str], wanted: Collection[str]) -> bool:
    """Whether a row has the names of the table's columns."""
    return len({*map(plain_name, row)} & {*wanted}) >= max(2, len(wanted) / 2)


def markdown_tables(text: str) -> list[Rows]:
    """The tables of a Markdown text, without its marks for bold, code and links."""
    lines, tables = text.splitlines(), list[Rows]()
    for at, line in enumerate(lines[1:], start=1):
        if "|" in line and _UNDER.fullmatch(line) and "|" in lines[at - 1]:
            rows = [cells_in(lines[at - 1])]
            for below in lines[at + 1 :]:
                if "|" not in below:
                    break
                rows.append(cells_in(below))
            tables.append(rows)
    return tables[:_MOST_TABLES]


def ruled_tables(text: str) -> list[Rows]:
    """The tables of a text with a line of dashes under, or of = signs around, the headings of each column.

    >>> ruled_tables("Name  What is it\\n----  ----------\\nSEX   Sex\\n      (1=m; 2=f)\\n\\nmore")
    [[['Name', 'What is it'], ['SEX', 'Sex'], ['', '(1=m; 2=f)']]]
    """
    lines, tables = text.expandtabs().splitlines(), list[Rows]()
    for at, line in enumerate(lines[1:], start=1):
        if _RULE.fullmatch(line) and lines[at - 1].strip() and not _RULE.fullmatch(lines[at - 1]):
            starts = [found.start() for found in re.finditer(r"\S+", line)]
            below = [*takewhile(lambda row: row.strip() and not _RULE.fullmatch(row), lines[at + 1 :])]
            ends = [*starts[1:], None]
            rows = [
                [row[start:end].strip() for start, end in zip(starts, ends, strict=True)]
                for row in (lines[at - 1], *below)
            ]
            tables.append(rows)
    return tables[:_MOST_TABLES]


def cells_in(line: str) -> list[str]:
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
    if page.defined:
        made.append([["name", "description"], *page.defined])
    return made


def _heading(above: Sequence[str], wanted: Collection[str]) -> tuple[str, str]:
    """A column and its words, of the texts above a table: "SEX - Sex of the person", or "Variable Name:", "SEX"."""
    said = {before.rstrip(" :").lower(): after for before, after in pairwise(above)}
    name = said.get("variable name", "")
    if plain_name(name) in wanted:
        return name, said.get("sas label") or said.get("label") or said.get("english text") or ""
    for text in reversed(above):
        found = ITEM.fullmatch(text)
        if found and plain_name(found[1]) in wanted:
            return found[1], found[2]
        if plain_name(text) in wanted:
            return text.strip(), ""
    return "", ""


_INLINE = ("code", "b", "i", "em", "strong", "span", "a", "tt", "var", "samp", "sub", "sup", "kbd", "q")


class _Page(HTMLParser):
    """Reads the tables of a web page, each with the texts between it and the one before."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[tuple[list[str], Rows]] = []
        self.above: list[str] = []
        self.rows: Rows | None = None
        self.cell: list[str] | None = None
        self.text: list[str] = []
        self.tag, self.term = "", ""
        self.defined: Rows = []  # terms of lists of definitions, with these

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
        elif self.rows is None and not self._is_within(tag):
            self._end_text()
            self.tag = tag if tag in ("dt", "dd") else self.tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self.rows is not None:
            self.tables.append((self.above, [row for row in self.rows if any(row)]))
            self.above, self.rows, self.cell = [], None, None
        elif tag in ("td", "th") and self.rows:
            self.cell = None
        elif self.rows is None and not self._is_within(tag):
            self._end_text()

    def _is_within(self, tag: str) -> bool:
        """Whether a tag is within the words of a definition."""
        return self.tag in ("dt", "dd") and tag in _INLINE

    def handle_data(self, data: str) -> None:
        if self.rows and self.cell is not None and self.rows[-1]:
            self.cell.append(re.sub(r"\s+", " ", data))
            self.rows[-1][-1] = "".join(self.cell).replace("\xa0", " ").strip()
        elif self.rows is None:
            self.text.append(data)

    def _end_text(self) -> None:
        if text := " ".join("".join(self.text).split()):
            self.above.append(text)
            if self.tag == "dd" and self.term:
                self.defined.append([self.term, text])
            self.tag, self.term = "", text if self.tag == "dt" else ""
        self.text = []


def without_marks(line: str) -> str:
    """A line without Markdown's marks for bold, code and links."""
    return _STRONG.sub("", _LINK.sub(r"\1", line))
