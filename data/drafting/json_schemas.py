"""Frictionless Table Schemas (also in a data package) and JSON Schemas of rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME
from equistrata.data.drafting.column import Book, BookColumn, Kind, one_line
from equistrata.data.files.opening import plain_name
from equistrata.data.texts.json_documents import parse_json
from equistrata.errors import InputError

_KINDS: dict[str, Kind] = {
    "integer": "integer", "year": "integer", "number": "number", "date": "date", "datetime": "date",
    "date-time": "date", "boolean": "boolean", "string": "text",
}  # fmt: skip
# Keys that may say more of the cells than is read.
_UNREAD = ("$ref", "allOf", "not", "if", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "pattern", "bareNumber")
_STEP = re.compile(r"1(?:\.0*)?|0\.(0*1)0*")  # a step of whole numbers, or of so many decimals


def read_json_schema(text: str, where: str, columns: Collection[str]) -> Book | None:
    """The columns of a Table Schema, a data package (its table with most of `columns`) or a JSON Schema; else None."""
    document = parse_json(text, where)
    document = document if isinstance(document, dict) else {}
    resources = document.get("resources")
    if isinstance(resources, list) and "fields" not in document:
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
        parts = {name: each for name, each in properties.items() if isinstance(each, dict)}
        return Book({name: _of_property(name, each, document) for name, each in parts.items()})
    return None


def _name(field: Any) -> str:
    return str(field.get("name", "")) if isinstance(field, dict) else ""


def _of_table(document: Mapping[str, Any], fields: Collection[Mapping[str, Any]], where: str) -> Book:
    key = document.get("primaryKey")
    keys = key if isinstance(key, list) else [key]
    found = {column.name: column for column in (_of_field(field, keys) for field in fields)}
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
    numbers = [number for raw in absent if (number := number_in(raw)) is not None]
    for column in found.values():
        low, high = column.lower, column.upper
        within = (
            isinstance(low, float | int) and isinstance(high, float | int) and any(low <= n <= high for n in numbers)
        )
        if within or {raw for raw, _ in column.values} & {*absent}:
            found[column.name] = replace(column, remarks=column.remarks + twice)
    return Book(found, file | ({"absent": absent} if absent else {}))


def _of_field(field: Mapping[str, Any], key: Collection[Any]) -> BookColumn:
    limits = field["constraints"] if isinstance(field.get("constraints"), dict) else {}
    missing, kind = _pairs(field.get("missingValues")), str(field.get("type", ""))
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
    if column.name in key and len(key) > 1:
        return replace(column, remarks=(*column.remarks, "it is a part of the key of rows"))
    return replace(column, kind="id") if column.name in key or limits.get("unique") is True else column


def _of_property(name: str, field: Mapping[str, Any], document: Mapping[str, Any]) -> BookColumn:
    field = _merged(field, document)
    kinds = field.get("type", "")
    named = [str(each) for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    choices = [each for each in field.get("oneOf") or field.get("anyOf") or [] if isinstance(each, dict)]
    constant = all("const" in each for each in choices)
    titled = [
        {"value": each["const"], "label": each.get("title") or each.get("description")} for each in choices if constant
    ]
    listed = titled or (field["enum"] if isinstance(field.get("enum"), list) else [])
    absent = [each for each in listed if each is None or (titled and each["value"] is None)]
    dated = field.get("format") if named == ["string"] and field.get("format") in ("date", "date-time") else ""
    usual = {key: value for key, value in field.items() if key != "format"}
    column = _column(name, usual, dated or "".join(named[:1]), [each for each in listed if each not in absent])
    remarks = ("it has several types",) * (len(named) > 1) + ("its alternatives are not read",) * (not constant)
    null = isinstance(kinds, list) and len(named) < len(kinds)
    words = "".join(str(each["label"] or "") for each in absent if titled)
    return replace(
        column, absent=bool(null or absent or field.get("nullable")), absence=words, remarks=column.remarks + remarks
    )


def _merged(field: Mapping[str, Any], document: Mapping[str, Any], depth: int = 4) -> Mapping[str, Any]:
    """A property with what it refers to in its own document, and what its only alternative to null says."""
    for key in ("allOf", "anyOf", "oneOf"):
        several = field[key] if isinstance(field.get(key), list) else []
        parts = [each for each in several if isinstance(each, dict) and each.get("type") != "null"]
        if len(parts) == 1 and "const" not in parts[0]:
            rest = {name: value for name, value in field.items() if name != key}
            null = {"nullable": True} if len(parts) < len(several) else {}
            field = {**parts[0], **rest, **null}
    path = str(field.get("$ref", "")).split("/")
    found: Any = document
    for part in path[1:]:
        found = found.get(part) if isinstance(found, dict) else None
    if path[0] == "#" and isinstance(found, dict) and depth:
        rest = {name: value for name, value in field.items() if name != "$ref"}
        return _merged({**found, **rest}, document, depth - 1)
    return field


def _column(name: str, field: Mapping[str, Any], kind: str, listed: Any) -> BookColumn:
    """A column by the keys that both kinds of schema have."""
    values, lower, upper, step = _pairs(listed), field.get("minimum"), field.get("maximum"), field.get("multipleOf")
    read = {"pattern"} if values else set()
    decimals = _STEP.fullmatch(str(step)) if _KINDS.get(kind) in ("integer", "number") else None
    read |= {"multipleOf"} if decimals else set()
    for end, inwards in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        limit = field.get(end)
        if _KINDS.get(kind) == "integer" and isinstance(limit, int) and not isinstance(limit, bool):
            lower, upper = (limit + 1, upper) if inwards > 0 else (lower, limit - 1)
            read |= {end} if end.lower().removeprefix("exclusive") not in field else set()
    remarks = [f"the book's {key!r} is not read" for key in _UNREAD if key in field and key not in read]
    remarks += [f"its type {kind!r} is not read"] * bool(kind and kind not in _KINDS and not values)
    column = BookColumn(
        name, str(field.get("title") or field.get("description") or ""), _KINDS.get(kind, ""), values,
        remarks=tuple(remarks), notes=str(field.get("description", "")) if field.get("title") else "",
    )  # fmt: skip
    if values and not (kind == "boolean" and {raw for raw, _ in values} == {"True", "False"}):
        return replace(column, kind="text" if kind == "string" else "nominal")
    if column.kind == "date":
        layout = str(field.get("format", "default"))
        layout = {"default": ISO if kind == "date" else ISO_TIME}.get(layout, layout if "%" in layout else "")
        days = (end[:10] if isinstance(end, str) else None for end in (lower, upper))
        return replace(column, layout=layout, lower=next(days), upper=next(days))
    if column.kind not in ("integer", "number"):
        return column
    ends = [None if isinstance(end, bool) else number_in(end) for end in (lower, upper)]
    whole = "integer" if decimals and not decimals[1] else column.kind
    return replace(
        column,
        kind=whole,
        lower=ends[0],
        upper=ends[1],
        decimals=len(decimals[1]) if decimals and decimals[1] else None,
    )


def _pairs(listed: Any) -> tuple[tuple[str, str], ...]:
    """Values with their words, from a list of values or of mappings."""
    made = (
        each if isinstance(each, dict) else {"value": each} for each in (listed if isinstance(listed, list) else [])
    )
    return tuple((one_line(each.get("value")), one_line(each.get("label"))) for each in made)
