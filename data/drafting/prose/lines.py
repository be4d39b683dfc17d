"""Texts that name a column at the start of a line, with its values after or below it.

>>> [entry] = from_lines("SEX: Sex of the person\\n\\n   1\\tMale\\n   2\\tFemale\\n", "book", {"sex"})
>>> entry.label, entry.codes
('Sex of the person', (('1', 'Male'), ('2', 'Female')))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from equistrata.data.drafting.cells.choices import listed_in
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import plain
from equistrata.data.drafting.prose.tables import ITEM, cells_in, without_marks
from equistrata.data.drafting.rows.dictionaries import from_rows
from equistrata.data.drafting.spans import cell_span, span_in
from equistrata.data.drafting.terms import apart
from equistrata.data.files.opening import plain_name

PART = 3  # of the table's columns, one of so many needs to be in a list of them
BY_CODE = {"name": 0, "label": 1, "code": 2, "words": 3}
_PLACE = {"name": 0, "label": 1, "choices": 2}
_HEADING = re.compile(r"#{1,6}\s+(\S+(?: \S+){0,3})\s*#*")
_BULLET = re.compile(r"^\s*[-*+•]\s+")
_TABLES = re.compile(r"^[^\n]*\|[^\n]*\n\s*\|?\s*:?-{2,}[-:| \t]*\n(?:[^\n]*\|[^\n]*(?:\n|\Z))*", re.M)
_CODE = re.compile(r"(\.|\(\w+\)|[^\s=:]*[^\W_][^\s=:]*)(\t+|\s{2,}|\s*[=:]\s*|\s+[-–—]\s+)(\S.*)")
_MARK = re.compile(r"\(\w{1,2}\)\s+(?=-?\d)")  # (m) before a code of missing cells
_COLON = re.compile(r"-?\d+(?:\.\d+)?:-?\d+(?:\.\d+)?")  # 15:49, the numbers of recode manuals
# A code and its words with one blank between them: surely one beside others alone.
_ONE_BLANK = re.compile(r"\s*(?:[-*+•]\s+)?((?:\(\w{1,2}\)\s+)?(-?\d{1,6}|[A-Z]{1,3}))[.)]?\s(?=[^\s\d])(.*)")
_TABBED = re.compile(r"\s*([^\s=:]+(?: [^\s=:]+){1,2})\t+\s*(\S.*)")
_NAMED = re.compile(r"([^\W\d]\w{2,}):\s")
# "yes, no.", "continuous." or "0-4, 5-9," with more below: short values between commas, and a point.
_OF_NAMES = re.compile(
    r"(?:[^\s,.:;]+(?: [^\s,.:;]+)?,\s*)+(?:[^\s,.:;]+(?: [^\s,.:;]+)?\.)?|(?:continuous|discrete|ignore)\.", re.I
)
GAP = re.compile(r"\t+|\s{2,}")  # between cells of a line
_COUNTED = re.compile(r"\s*(?:[\d,]+|\.)\s{2,}(-?\d+|\.[a-z]?)\s{2,}(\S.*)")  # rows with a code, the code, its words
_SHORT = 12  # letters of a cell of a layout: a length, a place, a type
_NEAR = 2  # letters by which cells below each other are apart
_MOST_LETTERS, _MOST_WORDS = 40, 5  # of a value that stands alone on its line
# What a line says that begins so, with a colon: words about a column, and no code.
_SAYS = {
    "note", "notes", "codes", "code", "values", "value", "valuelabels", "categories", "universe", "source", "question",
    "comment", "comments", "remark", "remarks", "description", "type", "format", "unit", "units", "label", "see",
    "example", "topic", "section", "concept", "name", "warning", "caution", "and", "or", "hinweis", "quelle", "nota",
    "range", "valid", "missing", "mean", "stddev", "median", "percentiles", "tabulation", "examples",
    "uniquevalues", "length",
}  # fmt: skip
_OF_WORDS = "CHECK: the book lists these words below {}, without codes; are they all of its values?"


_TWO_NUMBERS = "two numbers before the words of each value, of which one may count rows; declare the values"
_RANGES = "several ranges; declare their values, or the lowest and the highest number"


@dataclass
class _Block:
    """What a text says of a column: on its own line, and on those below it."""

    name: str
    label: str
    indent: int
    codes: list[list[str]] = field(default_factory=list)
    first: tuple[int, list[str]] | None = None  # a code on the column's own line, if those below stand as it does
    words: list[str] = field(default_factory=list)
    below: bool = False
    flat: list[list[str]] = field(default_factory=list)  # those of the codes that may be columns, as they are written
    at: int = -1  # where the words of the last code begin
    under: str = ""  # the line below, where its own ends in a comma
    counted: bool | None = None  # whether numbers of rows stand before codes; None where nothing says so


def from_lines(text: str, _: str, wanted: Collection[str]) -> Iterator[Entry]:
    """The entries of a text that names columns of the table, each at the start of a line, with values after or below.

    Args:
        wanted: columns of the table, as `plain_name` writes them; nothing else names a column.
    """
    blocks, now = dict[str, _Block](), None
    for line in map(without_marks, _TABLES.sub(_as_lines, text).splitlines()):
        if (begun := _begun(line, wanted, now)) is not None:
            now, known = begun, blocks.get(plain_name(begun.name))
            if known is None or not known.below:  # a list of all columns may come first
                blocks[plain_name(now.name)] = now
        elif now is not None and line.strip():
            _take(now, line)
    if len(blocks) * PART < len(wanted):  # words of another text, which happen to be names
        return
    deeper = sum(bool(block.codes) and not block.flat for block in blocks.values())
    if deeper > sum(bool(block.flat) for block in blocks.values()):  # others are columns that the table lacks
        for block in blocks.values():
            block.codes = [pair for pair in block.codes if pair not in block.flat]
    alike = sum(bool(_OF_NAMES.fullmatch(block.label)) for block in blocks.values())
    by_names = alike > len(blocks) / 2
    for block in blocks.values():
        yield from _of_names(block) if by_names else _entries(block)


def _of_names(block: _Block) -> Iterator[Entry]:
    """The entry of a line of a `.names` file (C4.5, the UCI repository): "sex: Female, Male." or "age: continuous."."""
    yield from from_rows([[block.name, "", f"{block.label} {block.under}".rstrip(". ")]], 0, _PLACE)


def coded(line: str) -> list[list[str]]:
    """The codes on a line, each with its words; a range is one, too.

    >>> coded("(m) 99   Missing"), coded("1 - 99\\tnumber of hours"), coded("0-50, 99 = refused"), coded("Note: of 2")
    ([['99', 'Missing']], [['1..99', 'number of hours']], [['0..50', ''], ['99', 'refused']], [])
    """
    bare = _BULLET.sub("", line).strip()
    text = _MARK.sub("", bare)
    first, *rest = GAP.split(text)
    if between := span_in(first) or (cell_span(first) if _COLON.fullmatch(first) else None):
        return [["..".join(between), " ".join(rest)]]
    if text != bare and (marked := _ONE_BLANK.fullmatch(text)):
        return [[marked[2], marked[3].strip()]]
    if between := span_in(text, words=True):
        return [["..".join(between), ""]]
    found = _CODE.fullmatch(text)
    said = found is not None and ":" in found[2] and plain(found[1]) in _SAYS
    if found and not said:
        return [[found[1], found[3].strip()]]
    listed, *ends = listed_in(found[3] if found else text)
    ranged = ends[0] is not None and ends[1] is not None
    if (not ranged and len(listed) < 2) or not all(words for _, words in listed):
        return []
    return [[f"{ends[0]}..{ends[1]}", ""]] * ranged + [[raw or "blank", words] for raw, words in listed]


def _begun(line: str, wanted: Collection[str], now: _Block | None) -> _Block | None:
    """The block that a line begins; None where it names no column."""
    indent = len(line) - len(line.lstrip())
    if plain_name(line) in wanted and (now is None or indent <= now.indent):
        # A label may be the name in other letters.
        return _Block(line.strip(), "", indent) if now is None or plain_name(line) != plain_name(now.name) else None
    found, head = ITEM.fullmatch(line), _HEADING.fullmatch(line)
    name, said = (found[1], found[2].strip()) if found else (head[1], "") if head else ("", "")
    if plain_name(name) not in wanted:
        return None
    label, *cells = GAP.split(said)
    block = _Block(name, said, indent)
    if not cells or not re.search(r"[^\W\d]", label):
        return block
    if between := cell_span(cells[-1]):
        block.label, block.codes = label, [["..".join(between), ""]]
    elif all(len(cell) <= _SHORT for cell in cells[:-1]) and re.search(r"\d", "".join(cells[:-1])):
        block.label = label if len(cells[-1]) <= _SHORT or len(cells) > 2 else said
        block.first = (
            (line.rindex(cells[-1]), [_MARK.sub("", f"{cells[-2]} ").strip(), cells[-1]]) if len(cells) > 1 else None
        )
    return block


def _take(block: _Block, line: str) -> None:
    """Add what a line below a column says."""
    if block.label.endswith(",") and not block.under:
        block.under = line.strip()
    if {"freq", "numeric", "label"} <= {*map(plain, line.split())}:  # Stata's codebook
        block.counted = True
    if tabulated := _COUNTED.fullmatch(line):
        block.counted = bool(block.counted)
        block.codes.append([tabulated[1], tabulated[2]])
    elif found := coded(line):
        if block.first is not None and not block.below:
            at = line.find(found[0][1])
            block.codes += [block.first[1]] if at >= 0 and abs(at - block.first[0]) <= _NEAR else []
        block.at = line.find(found[0][1]) if found[0][1] else -1
        before = list[list[str]]()
        while block.words and (pair := _aligned(block.words[-1], block.at)):
            before.insert(0, pair)
            block.words.pop()
        block.codes += [*before, *found]
        named = _NAMED.match(line.lstrip())
        if named and named[1] == found[0][0] and len(line) - len(line.lstrip()) <= block.indent:
            block.flat += found
        block.below = True
    elif block.codes and (pair := _aligned(line, block.at)):
        block.codes.append(pair)
    elif not block.codes and (_BULLET.match(line) or len(line) - len(line.lstrip()) > block.indent or not block.label):
        block.words.append(line)


def _aligned(line: str, at: int) -> list[str] | None:
    """A code with one blank before its words, if these stand where those of another code do, as "10 Other" below "9  No
    answer"; and one of some words before a tab."""
    if tabbed := _TABBED.fullmatch(line):
        return [tabbed[1], tabbed[2].strip()]
    found = _ONE_BLANK.fullmatch(line)
    return [found[2], found[3].strip()] if found and found.start(3) == at else None


def below(lines: Sequence[str]) -> list[list[str]]:
    """The codes of lines that all have one, with words after a blank.

    >>> below(["  1 Male", "  2 Female", "  9 not known"]), below(["  1 Male", "  as on the form"])
    ([['1', 'Male'], ['2', 'Female'], ['9', 'not known']], [])
    """
    found, lower, _ = listed_in("\n".join(_MARK.sub("", _BULLET.sub("", line).strip()) for line in lines))
    coded = (
        len(lines) > 1
        and all(map(_ONE_BLANK.fullmatch, lines))
        and len(found) == len(lines)
        and lower is None
        and all(words for _, words in found)
    )
    return [[raw or "blank", words] for raw, words in found] if coded else []


def of_codes(name: str, label: str, codes: Sequence[Sequence[str]]) -> Iterator[Entry]:
    """The entry of a column of which lines have codes or a range; a question where they have several ranges."""
    if sum(span_in(raw) is not None for raw, *_ in codes) > 1:
        yield Entry(name, label, remark=_RANGES)
    else:
        yield from from_rows([[name, label, *pair] for pair in codes], 0, BY_CODE)


def _entries(block: _Block) -> Iterator[Entry]:
    label, choices = apart(block.label)
    if block.counted is False:
        yield Entry(block.name, label, remark=_TWO_NUMBERS)
        return
    words = [_BULLET.sub("", line).strip() for line in block.words]
    headed = words and (block.codes or below(words[1:]) or (_heads(words) and not _BULLET.match(block.words[0])))
    if not block.label and headed and not below(words):
        label, words = words[0], words[1:]
    if codes := block.codes or ([] if choices else below(words)):
        yield from of_codes(block.name, label, codes)
    elif not choices and _are_values(words):
        entry = Entry.of(block.name, label, [(text, "") for text in words])
        yield replace(entry, remark=_OF_WORDS.format(block.name))
    else:
        yield from from_rows([[block.name, label, choices]], 0, _PLACE)


def _heads(words: Sequence[str]) -> bool:
    """Whether the first line below a column is its label: alone, or of more words than any other."""
    first, *rest = (len(text.split()) for text in words)
    return not rest or first > max(rest)


def _are_values(words: Sequence[str]) -> bool:
    """Whether lines are values, each once: short, and no sentences."""
    short = all(len(text) <= _MOST_LETTERS and len(text.split()) <= _MOST_WORDS for text in words)
    return len(words) > 1 and len({*words}) == len(words) and short and not any(text[-1] in ".:;?!," for text in words)


def _as_lines(table: re.Match[str]) -> str:
    """A table of Markdown as lines of a code and its words, without its headings."""
    return "\n".join("\t".join(cells_in(line)[:2]) for line in table[0].splitlines()[2:]) + "\n"
