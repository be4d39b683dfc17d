"""Code books as they are published: JSON, CSV, Frictionless Table Schema, DDI, REDCap, the ACS's, Stata's, SPSS's.

A book is known by its content, and by the ending of binary files. All it says is public.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from equistrata.data.drafting.archives import from_ddi, from_spss, from_stata
from equistrata.data.drafting.dictionaries import from_csv
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.fields import from_json
from equistrata.data.files.kinds import kind_of
from equistrata.data.files.opening import file_and_kind, plain_name
from equistrata.errors import InputError

MOST_BYTES = 1 << 24
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
    text = _decoded(content)
    start = text.lstrip()[:1]
    read = from_ddi if start == "<" else from_json if start in ("{", "[") else from_csv
    found: dict[str, Entry] = {}
    wanted = {*map(plain_name, columns)}
    for each in read(text, where, wanted) if read is from_csv else read(text, where):
        # A line under the headings, as of Markdown's tables, names nothing.
        if re.search(r"\w", each.name) and found.setdefault(each.name, each) != each:
            twice = f"the book describes {each.name} more than once, and not alike; the first is taken"
            found[each.name] = replace(found[each.name], remark=twice)
    if not found:
        raise InputError(
            f"{where} names no columns in a form that is known: JSON or CSV with a name for each column, Frictionless "
            "Table Schema, DDI, REDCap, ACS, Stata or SPSS"
        )
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


def _decoded(content: bytes) -> str:
    """UTF-16 by its mark, UTF-8, Windows' Latin-1 (with dashes and quotes), or Latin-1."""
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16" if utf_16 else "utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")
