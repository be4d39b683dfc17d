"""A draft of a schema, as YAML: what a code book says, and a question where it says nothing.

>>> made = draft(["AGE", "JOB"], {"AGE": Entry.of("AGE", "Age", (), 0, 99)}, "people")
>>> print(made.text)
# A draft. Whatever is declared here is public: it must come from a code book, never from the rows.
name: "people"
columns:
  AGE: {label: "Age", type: number, lower: 0, upper: 99, integer: true}
# CHECK: are these whole numbers, as their bounds are? If not, take 'integer: true' away; decimals are refused: AGE
# For private means (--means), add sigma: NUMBER, a public bound on the standard deviation, to those you need: AGE
# QUESTION: what may these columns hold? They are not released until they are declared.
# Where no list is public, as of jobs: {values: open}. A release finds what many rows hold, at a cost.
# JOB: {values: [...]} or {lower: ..., upper: ...}  (no entry)
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import yaml

from equistrata.data.columns.column import OWN_CATEGORY, Value, number_in
from equistrata.data.columns.declared import CONFIRMED, TAKEN
from equistrata.data.drafting.entries import SENTINEL, Entry, matched, one_line
from equistrata.data.files import documents
from equistrata.data.files.opening import plain_name
from equistrata.data.misfits import unused_value
from equistrata.data.questions import questions
from equistrata.data.schema import Schema
from equistrata.errors import InputError

_IDENTIFIER = re.compile(
    r"(?:^|[_\W])(?:id|uuid|guid|ssn|serialno|e_?mail|phone|address|surname)$|^(?:full_?)?name$", re.I
)
_WEIGHT = re.compile(r"^p?wgtp\d*$|\b(?:sampling|survey|design|replicate|person|household) weights?\b", re.I)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TRUTH = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # what YAML 1.1 takes for something else
_WHOLE = "are these whole numbers, as their bounds are? If not, take 'integer: true' away; decimals are refused"
_DECIMALS = "the book allows decimals. Are these whole numbers? Then write 'integer: true'; as it is, they need not be"
_CONTRARY = (
    "the book says whole numbers, and the file has decimals, which are refused. Take 'integer: true' away, or mend"
)
_HAVE = "Read of the file, since the book does not say it: these columns have decimals"
_HAVE_NONE = (
    "Read of the file, since the book does not say it: these columns have no decimals, so 'integer: true'; take that "
    "away where later tables may have some"
)
_ABSENT = (
    "Read of the file, since the book does not say it: these columns have absent cells, so 'missing'. Declare it of "
    "others by hand where later tables may have some"
)
_RESPELLED = (
    "Read of the file: it writes these values otherwise than the book, all of a column in one way: codes with zeros in "
    "front, or without, other letters, no remarks, or words for codes; as in the file"
)
_SIGMA = "For private means (--means), add sigma: NUMBER, a public bound on the standard deviation, to those you need"
_ORDER = "does the order of the values mean something? Then write 'type: ordinal'; as it is, it does not"
_SCALE = (
    "is it a scale beside codes of missing cells? Then declare numbers, as {lower: 1, upper: 5, integer: true, codes: "
    "{-9: refused}, missing: own}, which have means and quantiles; as it is, these codes are values as the others are"
)
_AMOUNTS = "whole numbers, taken for amounts. If they are codes, as of schools, declare 'values'; of people, 'unit'"
_MOST_CODES = 1000  # of a column, that may be codes


@dataclass
class Draft:
    """A schema's YAML, and what it leaves open.

    Attributes:
        open: column → why it is not declared.
        aside: declared columns that are not released by default: identifiers and survey weights.
        by_file: columns of numbers of which the file, and not the book, says whether they have decimals → whether.
        absent: columns of which the file, and not the book, says that cells are absent.
        respelled: columns of which the file writes values otherwise than the book, all in one way.
        contrary: columns of whole numbers, by the book, in which the file has decimals.
        unknown: entries of the code book without a column in the table.
    """

    text: str = ""
    declared: list[str] = field(default_factory=list)
    open: dict[str, str] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    by_file: dict[str, bool] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    respelled: list[str] = field(default_factory=list)
    contrary: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def released(self) -> list[str]:
        """The declared columns that are released by default. Without one, no command takes the draft as a schema."""
        return [column for column in self.declared if column not in self.aside]


def draft(
    columns: Sequence[str],
    entries: Mapping[str, Entry],
    name: str,
    file: Mapping[str, str] | None = None,
    taken: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Draft:
    """A draft of the schema of a table.

    Args:
        columns: of the table, by its header.
        entries: what is known of them; names may differ in case, and in blanks at their ends.
        name: of the schema.
        file: what it declares of a CSV file.
        taken: column → what of its entry was taken from rows, which is to be confirmed before it is used; nothing for
            one that only its question speaks of.

    Raises InputError if it would be a file that no command reads: too many columns or values.
    """
    of_book = matched(columns, entries)
    made, lines, specs = Draft(), list[str](), dict[str, dict[str, Any]]()
    whole, decimals, settled, unordered, scales, amounts = (list[str]() for _ in range(6))
    for column in columns:
        entry = of_book.get(column)
        if entry and entry.identifier:
            made.open[column] = "by the code book an identifier, which is not released"
        elif _IDENTIFIER.search(column):
            made.open[column] = "by its name an identifier or free text, which is not released"
        elif entry is None or entry.type is None:
            made.open[column] = "no entry" if entry is None else entry.label if column in taken else _nothing(entry)
        elif problem := _problem(column, spec := _spec(entry)):
            made.open[column] = problem
        else:
            made.declared.append(column)
            made.absent += [column] * entry.absent
            made.respelled += [column] * entry.respelled
            specs[column] = spec
            spec |= {TAKEN: [*taken[column]]} if column in taken else {}
            lines += [f"  # {entry.remark}"] * bool(entry.remark) + [f"  {_key(column)}: {_flow(spec)}"]
            if entry.type == "number" and entry.integer is None and not (entry.decimals and entry.fractions):
                (settled if entry.fractions is not None else decimals if entry.allows_decimals else whole).append(
                    column
                )
            if entry.type == "number" and entry.integer and entry.fractions:
                made.contrary.append(column)
            numbers = [raw for raw, _ in entry.codes if isinstance(_number(raw), int)]
            plain = [raw for raw in numbers if not SENTINEL.fullmatch(raw)]
            if entry.values and len(plain) > 2 and (entry.missing or len(plain) < len(numbers)):
                scales.append(column)
            elif entry.type == "nominal" and len(numbers) > 2:
                unordered.append(column)
            if "type" in taken.get(column, ()) and entry.integer and not entry.remark and _few(entry):
                amounts.append(column)
            if _WEIGHT.search(column) or _WEIGHT.search(entry.label):
                made.aside.append(column)
    found = set(map(plain_name, columns))
    made.unknown = [key for key, entry in entries.items() if plain_name(key) not in found and not entry.implied]
    checked = (
        (_WHOLE, whole), (_DECIMALS, decimals), (_CONTRARY, made.contrary), (_AMOUNTS, amounts),
        (_ORDER, unordered), (_SCALE, scales)
    )  # fmt: skip
    made.by_file = {name: not specs[name].get("integer", False) for name in settled}
    for said, has in ((_HAVE, True), (_HAVE_NONE, False)):
        named = [name for name in settled if made.by_file[name] is has]
        lines += [f"# {said}: {_listed(named)}"] * bool(named)
    for said, named in ((_ABSENT, made.absent), (_RESPELLED, made.respelled)):
        lines += [f"# {said}: {_listed(named)}"] * bool(named)
    checks = [f"# CHECK: {asked}: {_listed(named)}" for asked, named in checked if named]
    averaged = [name for name in made.released if "lower" in specs[name] and "format" not in specs[name]]
    checks += [f"# {_SIGMA}: {_listed(averaged)}"] * bool(averaged)
    asked = questions({_key(column): one_line(why) for column, why in made.open.items()})
    made.text = "\n".join([*_head(made, name, file, taken), *lines, *checks, *asked, ""])
    _read_again(made)
    return made


def written_by_book(columns: Sequence[str], entries: Mapping[str, Entry]) -> dict[str, str]:
    """What a code book says of how a table's numbers are written, as a schema's `file`; nothing where columns differ:
    a file has one way."""
    by_name = {plain_name(key): entry for key, entry in entries.items()}
    said = [by_name[name].file for name in map(plain_name, columns) if name in by_name and by_name[name].file]
    found = dict(pair for file in said for pair in file)
    alike = all((key, value) == (key, found[key]) for file in said for key, value in file)
    return found if alike and found.get("decimal", ".") != found.get("thousands") else {}


def _read_again(made: Draft) -> None:
    """Raise InputError unless the draft declares what it is meant to, once all of it is confirmed."""
    try:
        if len(made.text.encode()) > documents.MOST_BYTES:
            raise InputError(f"the draft has more than {documents.MOST_BYTES:,} bytes, the most that is read")
        document = documents.parse(made.text, "the draft")
        if made.released:
            Schema.from_dict({**document, CONFIRMED: [*document["columns"]]}, "of the draft")
    except InputError as error:
        reason = str(error).removesuffix("; shorten it")
        raise InputError(f"{reason}; leave columns out of the table, or lists out of the code book") from None


def _head(made: Draft, name: str, file: Mapping[str, str] | None, taken: Mapping[str, Sequence[str]]) -> list[str]:
    source = "A draft. Whatever is declared here is public: it must come from a code book, never from the rows."
    if taken:
        source = "A DRAFT FROM PRIVATE ROWS, as private as they are."
        if any(taken.get(column) for column in made.declared):
            source += f" Compare each column with what is public, mend it, and list it under '{CONFIRMED}'."
    lines = [f"# {source}", f"name: {_scalar(one_line(name) or 'table')}"]
    if file:
        lines.append(f"file: {_flow(file)}")
    if made.aside:
        lines += [
            f"# Survey weights ({_listed(made.aside)}) are declared, and not released unless --columns names them.",
            f"default: [{', '.join(map(_scalar, made.released))}]",
        ]
        lines += ["# Nothing else is declared: list under 'default' what you declare."] * (not made.released)
    if any(taken.get(column) for column in made.declared):
        lines.append(f"{CONFIRMED}: []")
    return [*lines, "columns:" if made.declared else "# columns:"]


def _few(entry: Entry) -> bool:
    """Whether so few whole numbers are within the bounds that they may be codes."""
    low, high = entry.lower, entry.upper
    return isinstance(low, float) and isinstance(high, float) and high - low < _MOST_CODES


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(_key, columns))


def _nothing(entry: Entry) -> str:
    """Why an entry declares nothing."""
    return ": ".join(filter(None, (entry.remark or "neither values nor bounds", entry.label)))


def _spec(entry: Entry) -> dict[str, Any]:
    """An entry as a column of a schema file."""
    spec: dict[str, Any] = {"label": entry.label} if entry.label else {}
    spec["type"] = entry.type
    if entry.type in ("nominal", "ordinal"):
        values = entry.values
        spec["values"] = values
        meant = dict(zip((raw for raw, _ in entry.codes), values, strict=True))
        words = {meant[raw]: said for raw, said in entry.codes if said}
        if entry.missing or entry.absent:
            absent = unused_value(values)
            spec |= {"values": [*values, absent], "missing": absent}
            said = entry.absence or ("" if absent == "missing" else "missing")
            words |= {absent: said} if said else {}
        spec |= {"labels": words} if words else {}
        spec |= {"recode": {raw: meant[to] for raw, to in entry.recode}} if entry.recode else {}
    else:
        if entry.layout:
            spec["format"] = [entry.layout, *entry.also] if entry.also else entry.layout
        spec |= {"lower": entry.lower, "upper": entry.upper}
        if not entry.layout:
            places = {} if entry.decimals is None else {"decimals": entry.decimals}
            spec |= {"integer": True} if entry.whole else places
        spec |= {"codes": {_code(raw): words or raw for raw, words in entry.codes}} if entry.codes else {}
        spec |= {"missing": OWN_CATEGORY} if entry.missing or entry.absent else {}
    return spec


def _number(raw: str) -> Value:
    return int(raw) if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})", raw) else raw


def _code(raw: str) -> Value:
    """A code among numbers: a number where it is written as one, as 99.9, so that released cells are numbers too."""
    number = number_in(raw)
    return number if number is not None and repr(number) == raw else _number(raw)


def _problem(column: str, spec: dict[str, Any]) -> str:
    """What the schema would say against a declaration; empty if nothing."""
    try:
        document = documents.parse(f"columns: {{{_key(column)}: {_flow(spec)}}}", "draft")
        Schema.from_dict(document, "draft")
    except InputError as error:
        return str(error).partition("draft ")[2] or str(error)
    return ""


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _key(key: Value) -> str:
    return key if isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and key.lower() not in _TRUTH else _scalar(key)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = str(int(value)) if value.is_integer() else repr(value)
        return f"{value:.15f}".rstrip("0") if "e" in text else text  # YAML takes 1e-05 for a text
    if value in ("number", "date", "nominal", "ordinal", OWN_CATEGORY):
        return str(value)
    quoted: str = yaml.dump(str(value), Dumper=_DUMPER, default_style='"', allow_unicode=True, width=1 << 30)
    return quoted.removesuffix("\n")
