"""Code books as they are published: JSON, CSV, Frictionless Table Schema, DDI, REDCap, the ACS's, Stata's, SPSS's,
Excel's.

A book is known by its content, and by the ending of binary files. All it says is public.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from equistrata.data.drafting.archives import from_ddi, from_program, from_spss, from_stata, is_program
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.prose.lines import from_lines
from equistrata.data.drafting.prose.records import from_records
from equistrata.data.drafting.prose.sections import from_sections
from equistrata.data.drafting.prose.tables import from_sheets, from_tables, markdown_tables, ruled_tables, web_tables
from equistrata.data.drafting.rows.dictionaries import from_csv
from equistrata.data.drafting.trees import from_json, from_yaml
from equistrata.data.files import excel
from equistrata.data.files.kinds import kind_of, not_text
from equistrata.data.files.opening import file_and_kind, plain_name
from equistrata.errors import InputError

MOST_BYTES = 1 << 24
MOST_ROWS = 200_000  # of a sheet of a book
_NO_TEXT = {
    b"%PDF": "a PDF; copy its table of columns into a CSV file",
    b"{\\rtf": "an RTF document; save it as plain text, or copy its table of columns into a CSV file",
}
_START = 4096  # characters by which a page of the web is known
_TABLE = re.compile(
    r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*$", re.M
)  # the line under Markdown's headings
_LABELLED = {"stata": from_stata, "spss": from_spss}


def read_codebook(path: str | Path, columns: Collection[str] = ()) -> dict[str, Entry]:
    """Column → what a code book says of it, in its order.

    Args:
        columns: of the table, by which the names in a dictionary are known whatever they are called there.

    Raises InputError if there is no such file, it is too large, or of no form that is known.
    """
    path = Path(path)
    where = f"code book {path.name!r}"
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= MOST_BYTES else None
    except OSError:
        content = None
    if content is None:
        raise InputError(f"{where} is no file that can be read, of at most {MOST_BYTES >> 20} MiB; check the path")
    if (kind := kind_of(path)) in _LABELLED:
        return {each.name: each for each in _LABELLED[kind](path, where)}
    wanted = {*map(plain_name, columns)}
    if kind == "excel":
        found = _once(from_sheets(excel.sheets(path, where, MOST_ROWS).values(), wanted))
        if not found:
            raise InputError(
                f"{where} names no columns in a form that is known: a sheet needs a row for each column, or for each "
                "value, with headings such as Name, Label, Values, Code"
            )
        return found
    text = _decoded(content, where)
    found, broken = dict[str, Entry](), None
    for read in _readers(text, path):
        try:
            entries = _once(read(text, where, wanted))
        except InputError as error:  # as no well-formed CSV, which may be a list
            broken = broken or error
            continue
        found = found or entries
        if any(entry.type for name, entry in entries.items() if not wanted or plain_name(name) in wanted):
            found = entries
            break
    if not found:
        raise broken or InputError(
            f"{where} names no columns in a form that is known: CSV, JSON, YAML, or a table of Markdown or HTML, with "
            "a name for each column; Frictionless Table Schema, JSON Schema, DDI-Codebook, REDCap, ACS, Stata, SPSS or "
            "Excel"
        )
    return found


def _readers(text: str, path: Path) -> list[Callable[[str, str, Collection[str]], Iterator[Entry]]]:
    """What may read a book, by how it begins: the first that finds values or bounds of a column is meant."""
    start = text.lstrip()[:1]
    if start == "<":
        of_web = re.search(r"<(?:!doctype html|html|table|body)\b", text[:_START], re.I)
        return [lambda text, where, wanted: from_tables(web_tables(text, wanted), wanted)] if of_web else [from_ddi]
    if path.suffix.lower() in (".yaml", ".yml"):
        return [from_yaml]
    if start == "{" or (start == "[" and path.suffix.lower() not in (".md", ".txt")):
        return [from_json]
    if is_program(text):
        return [from_program]
    tables = [lambda text, where, wanted: from_tables(markdown_tables(text), wanted)] if _TABLE.search(text) else []
    ruled = [lambda text, where, wanted: from_tables(ruled_tables(text), wanted)]
    return [*tables, *([] if tables else [from_csv]), *ruled, from_records, from_sections, from_lines]


def _once(entries: Iterator[Entry]) -> dict[str, Entry]:
    """Entries by their names, the first of each."""
    found: dict[str, Entry] = {}
    for each in entries:
        # A line under the headings, as of Markdown's tables, names nothing.
        if re.search(r"\w", each.name) and found.setdefault(each.name, each) != each:
            twice = f"the book describes {each.name} more than once, and not alike; the first is taken"
            found[each.name] = replace(found[each.name], remark=twice)
    return found


def joined(first: Mapping[str, Entry], second: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries of both, where names that differ in case and blanks are one; the first of two that are of one column
    and not empty."""
    said = {plain_name(name) for name, entry in first.items() if entry.type or entry.identifier}
    kept = {name: entry for name, entry in second.items() if plain_name(name) not in said}
    known = set(map(plain_name, kept)) - said
    return {name: entry for name, entry in first.items() if plain_name(name) not in known} | kept


def said_in(path: str | Path) -> dict[str, Entry]:
    """Column → what a table's own file says of it: Stata's and SPSS's are their own code books, others say nothing.

    Raises InputError if it cannot be read.
    """
    path, kind = file_and_kind(path, None)
    return {each.name: each for each in _LABELLED[kind](path, f"file {path.name!r}")} if kind in _LABELLED else {}


def _decoded(content: bytes, where: str) -> str:
    """UTF-16 by its mark, UTF-8, Windows' Latin-1 (with dashes and quotes), or Latin-1. Raises InputError if it is no
    text."""
    if other := next((said for mark, said in _NO_TEXT.items() if content.startswith(mark)), ""):
        raise InputError(f"{where} is {other}")
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not utf_16 and (other := not_text(content)):
        zeros = "no text, since it has zero bytes; save it as UTF-8"
        raise InputError(f"{where} is {zeros if 'zero bytes' in other else other}")
    for encoding in ("utf-16" if utf_16 else "utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")
