"""A draft of a schema as YAML.

The draft contains the declarations that are stated in a code book, questions where the code book is ambiguous, and the
columns that are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from equistrata.data.columns.declared import CONFIRMED, TAKEN
from equistrata.data.drafting.column import BookColumn, match_entries, one_line
from equistrata.data.drafting.doubt import PERSONAL, Decision, decide_declaration, is_personal
from equistrata.data.files.opening import plain_name
from equistrata.data.questions import left_out, question
from equistrata.data.schema import Schema
from equistrata.data.texts import documents
from equistrata.data.texts.documents import flow, flow_key
from equistrata.errors import InputError

_WEIGHT = re.compile(r"^p?wgtp\d*$|\b(?:sampling|survey|design|replicate|person|household) weights?\b", re.I)
_WORDS = ("number", "date", "nominal", "ordinal", "own", "open")  # words that do not need quotes


@dataclass
class Draft:
    """A draft of a schema and its open questions.

    Attributes
    ----------
    text : str
        The schema as YAML.
    declared : list of str
        The columns that are declared.
    asked : dict of str to str
        The columns that have a question, and the reason.
    left_out : dict of str to str
        The columns that are not declared, and the reason.
    aside : list of str
        The survey weights, which are not released by default.
    taken : dict of str to list
        The columns that can contain information from the rows, and the parts of the declaration that contain it.
    unknown : list of str
        The columns that are only in the code book.
    """

    text: str = ""
    declared: list[str] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    taken: dict[str, list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def draft(
    columns: Sequence[str],
    book: Mapping[str, BookColumn],
    name: str,
    file: Mapping[str, Any] = MappingProxyType({}),
    looked: Mapping[str, Decision] = MappingProxyType({}),
) -> Draft:
    """Draft the schema of a table.

    Parameters
    ----------
    columns : sequence of str
        The names of the columns in the header of the table.
    book : mapping of str to BookColumn
        The descriptions from a code book. The names can differ in case and in blanks at both ends.
    name : str
        The name of the schema.
    file : mapping
        The declaration of the file, as far as the header shows it.
    looked : mapping of str to Decision
        The drafts from the rows. They are used for columns for which the book has neither values nor bounds.

    Returns
    -------
    Draft
        The draft.

    Raises
    ------
    InputError
        If the draft has too many columns or values to be read again.
    """
    of_book, made, lines, means = match_entries(columns, book), Draft(), list[str](), list[str]()
    for column in columns:
        key, entry = flow_key(column), of_book.get(column)
        found, private = _valid(key, _of_book(column, entry)), ["labels"] * bool(entry and entry.from_rows)
        unlisted = entry is not None and entry.kind == "text" and not entry.values
        if column in looked and not (found.spec or found.personal or (found.readings and not unlisted)):
            found, private = _valid(key, looked[column]), ["rows"]
        marks = {TAKEN: private} if private else {}
        made.taken |= {column: private} if private and (found.spec or found.readings) else {}
        if found.spec:
            made.declared.append(column)
            made.aside += [column] * bool(_WEIGHT.search(column) or _WEIGHT.search(str(found.spec.get("label", ""))))
            means += [key] * ("lower" in found.spec and "format" not in found.spec and column not in made.aside)
            lines.append(f"  {key}: {flow(found.spec | marks, _WORDS)}")
        elif found.readings:
            made.asked[column] = found.why
            lines += question(key, found.why, {said: flow(spec | marks, _WORDS) for said, spec in found.readings})
        else:
            made.left_out[column] = found.why
            lines += left_out(key, ": ".join(filter(None, (found.why, entry.label if entry else ""))), found.shape)
    known = {*map(plain_name, columns)}
    made.unknown = [each for each in book if plain_name(each) not in known]
    sigma = "For private means (--means), add sigma: NUMBER, a public bound on the standard deviation, to these columns"
    lines += [f"# {sigma}: {', '.join(means)}"] * bool(means)
    made.text = "\n".join([*_head(made, name, file), *lines, ""])
    _read_again(made)
    return made


def _of_book(column: str, entry: BookColumn | None) -> Decision:
    return (
        decide_declaration(entry) if entry else PERSONAL if is_personal(column) else Decision(None, "not in the book")
    )


def _valid(key: str, found: Decision) -> Decision:
    """Return the decision without declarations that are not valid in a schema."""

    def problem(spec: Mapping[str, Any]) -> str:
        try:
            Schema.from_dict(documents.parse(f"columns: {{{key}: {flow(spec, _WORDS)}}}", "draft"), "draft")
        except InputError as error:
            return str(error).partition("draft ")[2] or str(error)
        return ""

    if found.spec and (why := problem(found.spec)):
        return Decision(None, one_line(why))
    return replace(found, why=one_line(found.why), readings=[each for each in found.readings if not problem(each[1])])


def _read_again(made: Draft) -> None:
    """Raise an InputError if the draft cannot be read after all its columns are confirmed."""
    try:
        if len(made.text.encode()) > documents.MOST_BYTES:
            raise InputError(f"the draft has more than {documents.MOST_BYTES:,} bytes, which is the limit")
        document = documents.parse(made.text, "the draft")
        if made.declared:
            Schema.from_dict({"columns": document["columns"], CONFIRMED: made.declared}, "of the draft")
    except InputError as error:
        reason = str(error).removesuffix("; shorten it")
        raise InputError(f"{reason}; remove columns from the table, or lists from the code book") from None


def _head(made: Draft, name: str, file: Mapping[str, Any]) -> list[str]:
    source = "A draft. Whatever is declared here is public: it must come from a code book, never from the rows."
    private = (
        "A DRAFT FROM PRIVATE ROWS, which is as private as the rows. Compare each column with public facts, correct "
        "it, and confirm it with equistrata schema confirm."
    )
    lines = [f"# {private if made.taken else source}", f"name: {flow(one_line(name) or 'table')}"]
    lines += [f"file: {flow(file)}"] if file else []
    if made.aside:
        kept = [each for each in (*made.declared, *made.asked) if each not in made.aside]
        lines += [
            f"# Survey weights ({', '.join(map(flow_key, made.aside))}) are declared, and not released by default."
        ]
        lines += [f"default: {flow(kept)}"]
    return [*lines, *[f"{CONFIRMED}: []"] * bool(made.taken), "columns:"]
