"""JSON and YAML code books: where in such a tree the fields of a table are, whatever the tree is for.

That is a Table Schema, a JSON Schema, CSV on the Web, a dbt project's tests, a suite of Great Expectations, or any list
or mapping of fields.

>>> [entry] = from_yaml("columns:\\n- {name: SEX, values: {01: Male, Y: Yes}}", "book")
>>> entry.name, entry.codes
('SEX', (('01', 'Male'), ('Y', 'Yes')))
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.fields import fields_of, name_of, on_the_web
from equistrata.data.drafting.headings import plain
from equistrata.data.files import documents
from equistrata.data.files.opening import plain_name
from equistrata.errors import InputError

_KEYS = ("fields", "variables", "columns", "properties")  # under which lists or mappings of fields are
_LISTS = ("codelists", "codelist", "valuesets", "valuelabels", "enums", "enumerations", "lookups", "categories")
_TRUTHS = ("required", "nullable", "optional", "unique", "primarykey", "identifier", "categoriesordered", "ordered")
_DEEPEST = 6  # levels below which no fields are looked for
_MOST_STEPS = 8  # from one reference to the next


@dataclass(frozen=True)
class _Table:
    """Fields of a table, values of it that stand for absent cells, and the columns that every row has, if listed."""

    fields: Any
    missing: Any = None
    required: tuple[str, ...] | None = None

    def names(self) -> set[str]:
        listed = self.fields if isinstance(self.fields, dict) else map(name_of, self.fields)
        return {plain_name(str(name)) for name in listed}


def from_json(text: str, where: str, wanted: Collection[str] = ()) -> Iterator[Entry]:
    """Its entries. Raises InputError if it is not valid JSON, or has a key twice, of which one would be lost.

    Args:
        wanted: columns of the table, as `plain_name` writes them: of several tables, the one that has most of them.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        known = dict(pairs)
        if len(known) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{where} has the key {twice!r} twice in one place; give each once")
        return known

    try:
        book = json.loads(text, object_pairs_hook=once)
        return _of_tree(book, wanted)
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not valid JSON; mend it") from None


def from_yaml(text: str, where: str, wanted: Collection[str] = ()) -> Iterator[Entry]:
    """As `from_json`. Scalars are taken as they are written: 01 is no 1, and Y is no truth value."""
    return _of_tree(_truths(documents.parse(text, where, aliases=True, as_written=True)), wanted)


def _truths(node: Any) -> Any:
    """With truth values under keys that are for them, and numbers as steps: YAML's scalars are texts here."""
    if isinstance(node, list):
        return [_truths(each) for each in node]
    if not isinstance(node, dict):
        return node
    known: dict[str, Any] = {"true": True, "yes": True, "false": False, "no": False}
    found = dict[str, Any]()
    for key, value in node.items():
        what = plain(str(key))
        if isinstance(value, str):
            step = number_in(value) if what == "multipleof" else None
            found[str(key)] = known.get(value.lower(), value) if what in _TRUTHS else value if step is None else step
        else:
            found[str(key)] = _truths(value)
    return found


def _of_tree(book: Any, wanted: Collection[str]) -> Iterator[Entry]:
    if isinstance(book, dict):
        tables = book.get("tables")
        for table in [book, *(tables if isinstance(tables, list) else [])]:
            of_web = table.get("tableSchema") if isinstance(table, dict) else None
            if isinstance(of_web, dict) and isinstance(of_web.get("columns"), list):
                return on_the_web(of_web["columns"], of_web.get("null", table.get("null", book.get("null"))))
        if isinstance(book.get("expectations"), list):
            return fields_of(_expected(book["expectations"]), None)
        book = _resolved(book, book)
    found = [*_tables(book, "$schema" in book if isinstance(book, dict) else False, wanted)]
    if isinstance(book, list) or (isinstance(book, dict) and "resources" not in book):
        found.append(_Table(book))
    best = max(found, key=lambda table: len(table.names() & {*wanted}), default=None)
    if best is None:
        return iter(())
    listed = book if isinstance(book, dict) else {}
    lists = {name: codes for key, value in listed.items() if plain(str(key)) in _LISTS for name, codes in _named(value)}
    return fields_of(_tested(best.fields), best.missing, best.required, lists)


def _tables(node: Any, schema: bool, wanted: Collection[str], depth: int = 0) -> Iterator[_Table]:
    """Tables of a tree, those of a level before those below it: what is under a key of theirs, a list of named things,
    and a mapping that has columns of the table for keys, whatever it is called."""
    if depth > _DEEPEST:
        return
    below = node if isinstance(node, list) else []
    if isinstance(node, dict):
        schema = schema or node.get("type") == "object"
        for key in (*_KEYS, *(key for key in node if key not in _KEYS)):
            fields, named = node.get(key), isinstance(node.get(key), list)
            each = [*fields.values()] if isinstance(fields, dict) else fields if isinstance(fields, list) else []
            of_schema = key in _KEYS and (key != "properties" or schema or (named and all(map(name_of, each))))
            if of_schema and any(isinstance(field, dict | str) for field in each):
                required = node.get("required")
                names = tuple(map(str, required)) if key == "properties" and isinstance(required, list) else None
                yield _Table(fields, node.get("missingValues"), names)
            elif key not in _KEYS and named and all(map(name_of, each)) and len(each) > 1:
                yield _Table(fields)
            elif isinstance(fields, dict) and len((table := _Table(fields)).names() & {*wanted}) > 1:
                yield table
        below = [value for key, value in node.items() if key not in _KEYS or depth == 0]
    for each in below:
        if isinstance(each, dict | list):
            yield from _tables(each, schema, wanted, depth + 1)


def _named(lists: Any) -> Iterator[tuple[str, Any]]:
    """Lists of codes by their names."""
    pairs = lists.items() if isinstance(lists, dict) else [(name_of(each), each) for each in lists or []]
    for name, codes in pairs:
        inner = next((codes[key] for key in ("codes", "values", "items", "categories") if key in codes), codes) \
            if isinstance(codes, dict) else codes  # fmt: skip
        yield str(name), inner


def _resolved(node: Any, book: Mapping[str, Any]) -> Any:
    """A tree of JSON Schema with what "#/…" refers to in its place; within that, alternatives alone are looked up, so
    that no tree grows by more than its own size for each reference."""
    if isinstance(node, list):
        return [_resolved(each, book) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" not in node:
        return {key: each if key in ("$defs", "definitions") else _resolved(each, book) for key, each in node.items()}
    target = _referred(node, book)
    if any(key in target for key in _KEYS):  # a table, and no field
        return node
    lists = {key: target[key] for key in ("oneOf", "anyOf") if isinstance(target.get(key), list)}
    return target | {key: [_referred(each, book) for each in listed] for key, listed in lists.items()}


def _referred(node: Any, book: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with what it refers to, as long as there is a reference."""
    found = dict(node) if isinstance(node, dict) else {}
    for _ in range(_MOST_STEPS):
        there = found.pop("$ref", None)
        if not isinstance(there, str) or not there.startswith("#/"):
            break
        target: Any = book
        for part in there[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        found = {**(target if isinstance(target, dict) else {}), **found}
    return found


def _tested(fields: Any) -> Any:
    """Fields with what dbt's tests of them say: not_null, unique, accepted_values and accepted_range."""
    if not isinstance(fields, list):
        return fields
    return [{**_said(field), **field} if isinstance(field, dict) else field for field in fields]


def _said(field: Mapping[str, Any]) -> dict[str, Any]:
    said = dict[str, Any]()
    tests = field.get("tests", field.get("data_tests"))
    if not isinstance(tests, list):
        return said
    said["required"] = False
    for test in tests:
        pairs = test.items() if isinstance(test, dict) else [(test, {})]
        for name, given in pairs:
            given = given.get("arguments", given) if isinstance(given, dict) else {}
            said |= _limits(str(name).rpartition(".")[2].removeprefix("expect_column_values_to_"), given)
    return said


def _expected(expectations: list[Any]) -> list[dict[str, Any]]:
    """Fields of a suite of Great Expectations."""
    fields: dict[str, dict[str, Any]] = {}
    for each in expectations:
        given = each.get("kwargs") if isinstance(each, dict) else None
        if isinstance(given, dict) and isinstance(given.get("column"), str):
            field = fields.setdefault(given["column"], {"name": given["column"], "required": False})
            name = str(each.get("expectation_type", each.get("type", "")))
            field |= _limits(name.removeprefix("expect_column_values_to_"), given)
    return [*fields.values()]


def _limits(test: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What one test of a column says of its cells."""
    if test in ("not_null", "not_be_null"):
        return {"required": True}
    if test in ("unique", "be_unique"):
        return {"unique": True}
    if test in ("accepted_values", "be_in_set"):
        values = given.get("values", given.get("value_set"))
        return {"enum": values} if isinstance(values, list) else {}
    if test in ("accepted_range", "be_between"):
        return {key: given[name] for key, name in (("minimum", "min_value"), ("maximum", "max_value")) if name in given}
    return {}
