"""Frictionless Table Schemas (also in a data package) and JSON Schemas of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from equistrata.data.columns.column import ABSENT
from equistrata.data.columns.dates import ISO, ISO_TIME
from equistrata.data.drafting.column import CODES, Book, BookColumn, Kind, one_line
from equistrata.data.files.opening import plain_name
from equistrata.data.texts.json_documents import parse_json
from equistrata.errors import InputError

_KINDS: dict[str, Kind] = {
    "integer": "integer", "year": "integer", "number": "number", "date": "date", "datetime": "date",
    "date-time": "date", "boolean": "boolean", "string": "text",
}  # fmt: skip
# Keys that may say more of the cells than is read.
_UNREAD = ("$ref", "allOf", "not", "if", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "pattern", "bareNumber")


def read_json_schema(text: str, where: str, columns: Collection[str]) -> Book | None:
    """The columns of a Table Schema, a data package (its table with most of `columns`) or a JSON Schema; else None."""
    document = parse_json(text, where)
    document = document if isinstance(document, dict) else {}
    if isinstance(resources := document.get("resources"), list):
        schemas = [each.get("schema") for each in resources if isinstance(each, dict)]
        tables = [each for each in schemas if isinstance(each, dict) and isinstance(each.get("fields"), list)]
        wanted = {*map(plain_name, columns)}
        document = max(
            tables, key=lambda each: len(wanted & {plain_name(_name(field)) for field in each["fields"]}), default={}
        )
    if isinstance(fields := document.get("fields"), list):
        return _of_table(document, [each for each in fields if isinstance(each, dict)], where)
    rows = document.get("items") if document.get("type") == "array" else document
    if isinstance(rows, dict) and isinstance(properties := rows.get("properties"), dict):
        return Book({name: _of_property(name, each) for name, each in properties.items() if isinstance(each, dict)})
    return None


def _name(field: Any) -> str:
    return str(field.get("name", "")) if isinstance(field, dict) else ""


def _of_table(document: Mapping[str, Any], fields: Collection[Mapping[str, Any]], where: str) -> Book:
    key = document.get("primaryKey")
    found = {
        column.name: column for column in (_of_field(field, key in (_name(field), [_name(field)])) for field in fields)
    }
    if len(found) < len(fields):
        raise InputError(f"{where} describes a column twice; keep one of them")
    file: dict[str, object] = {}
    for mark, name in (("decimal", "decimalChar"), ("thousands", "groupChar")):
        marks = {str(each[name]) for each in fields if each.get(name)}
        if len(marks) > 1:
            raise InputError(f"{where} writes numbers in two ways ({name}); a file has one, so correct it")
        if marks - ({"."} if mark == "decimal" else set()):
            file[mark] = marks.pop()
    absent = [raw for raw, _ in _pairs(document.get("missingValues")) if raw not in ABSENT]
    twice = ("a value is among the missing values of all columns",)
    for column in found.values():
        if {raw for raw, _ in column.values} & {*absent}:
            found[column.name] = replace(column, remarks=column.remarks + twice)
    return Book(found, file | ({"absent": absent} if absent else {}))


def _of_field(field: Mapping[str, Any], key: bool) -> BookColumn:
    limits = field["constraints"] if isinstance(field.get("constraints"), dict) else {}
    missing = _pairs(field.get("missingValues"))
    kind = str(field.get("type", ""))
    column = _column(_name(field), {**field, **limits}, kind, limits.get("enum") or field.get("categories"))
    absent = limits.get("required") is False or any(not raw for raw, _ in missing)
    column = replace(column, absent=absent, missing=tuple((raw, words or "missing") for raw, words in missing if raw))
    spelled = [_pairs(field.get(f"{word}Values")) for word in ("false", "true")]
    if column.kind == "boolean" and all(len(pairs) == 1 for pairs in spelled):
        column = replace(column, kind="nominal", values=(spelled[0][0], spelled[1][0]))
    elif column.kind == "boolean" and any(spelled):
        column = replace(column, remarks=(*column.remarks, "it spells true or false in several ways"))
    if column.values and field.get("categoriesOrdered") is True:
        column = replace(column, kind="ordinal")
    return replace(column, kind="id") if key or limits.get("unique") is True else column


def _of_property(name: str, field: Mapping[str, Any]) -> BookColumn:
    kinds = field.get("type", "")
    named = [str(each) for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    choices = [each for each in field.get("oneOf") or field.get("anyOf") or [] if isinstance(each, dict)]
    listed = [{"value": each.get("const"), "label": each.get("title")} for each in choices] or field.get("enum")
    dated = field.get("format") if named == ["string"] and field.get("format") in ("date", "date-time") else ""
    usual = {key: value for key, value in field.items() if key != "format"}
    column = _column(name, usual, dated or "".join(named[:1]), [each for each in listed or [] if each is not None])
    remarks = column.remarks + ("it has several types",) * (len(named) > 1)
    remarks += ("its alternatives are not read",) * any("const" not in each for each in choices)
    return replace(
        column, absent=len(named) < len(kinds) if isinstance(kinds, list) else None in (listed or []), remarks=remarks
    )


def _column(name: str, field: Mapping[str, Any], kind: str, listed: Any) -> BookColumn:
    """A column by the keys that both kinds of schema have."""
    values, lower, upper = _pairs(listed), field.get("minimum"), field.get("maximum")
    unread = [key for key in _UNREAD if key in field and not (values and key == "pattern")]
    label = str(field.get("title") or field.get("description") or "")
    remarks = [f"the book's {key!r} is not read" for key in unread]
    remarks += ["its description speaks of codes"] * bool(CODES.search(str(field.get("description", ""))))
    remarks += [f"its type {kind!r} is not read"] * bool(kind and kind not in _KINDS and not values)
    column = BookColumn(name, label, _KINDS.get(kind, ""), values, remarks=tuple(remarks))
    if values:
        return replace(column, kind="nominal")
    if column.kind == "date":
        layout = str(field.get("format", "default"))
        layout = {"default": ISO if kind == "date" else ISO_TIME}.get(layout, layout if "%" in layout else "")
        days = (end[:10] if isinstance(end, str) else None for end in (lower, upper))
        return replace(column, layout=layout, lower=next(days), upper=next(days))
    ends = [end if isinstance(end, int | float) and not isinstance(end, bool) else None for end in (lower, upper)]
    return replace(column, lower=ends[0], upper=ends[1]) if column.kind in ("integer", "number") else column


def _pairs(listed: Any) -> tuple[tuple[str, str], ...]:
    """Values with their words, from a list of values or of mappings."""
    made = (
        each if isinstance(each, dict) else {"value": each} for each in (listed if isinstance(listed, list) else [])
    )
    return tuple((one_line(each.get("value")), one_line(each.get("label"))) for each in made)
