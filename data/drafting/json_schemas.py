"""Frictionless Table Schemas, data packages and JSON Schemas of rows, as code books."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME
from equistrata.data.drafting.column import BookColumn, Code, CodeBook, Kind, one_line
from equistrata.data.files.opening import plain_name
from equistrata.data.texts.json_documents import parse_json
from equistrata.errors import InputError

_KINDS: dict[str, Kind] = {
    "integer": "integer", "year": "integer", "number": "number", "date": "date", "datetime": "date",
    "date-time": "date", "boolean": "boolean", "string": "text",
}  # fmt: skip
# Keys that can restrict the cells and that are not read.
_UNREAD = ("$ref", "allOf", "not", "if", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "pattern", "bareNumber")
_STEP = re.compile(r"1(?:\.0*)?|0\.(0*1)0*")  # the step of whole numbers, or of numbers with some decimals
_DEEPEST = 4  # the maximum depth of nested references


def read_json_schema(text: str, where: str, columns: Collection[str]) -> CodeBook | None:
    """Return the columns of a Table Schema, a data package or a JSON Schema.

    Parameters
    ----------
    text : str
        The text of the document.
    where : str
        The start of the error message.
    columns : collection of str
        The columns of the table. They select the table of a data package that shares the largest number of columns.

    Returns
    -------
    Book or None
        The code book, or None if the document has none of these formats.

    Raises
    ------
    InputError
        If several tables share the same number of columns, or if a column is described twice.
    """
    document = _mapping(parse_json(text, where))
    tables = [_mapping(_mapping(each).get("schema")) for each in _list(document.get("resources"))]
    if "fields" not in document and (tables := [each for each in tables if isinstance(each.get("fields"), list)]):
        wanted = {*map(plain_name, columns)}
        shared = [len(wanted & {plain_name(_name(field)) for field in each["fields"]}) for each in tables]
        document, *others = (each for each, found in zip(tables, shared, strict=True) if found == max(shared))
        if any(each != document for each in others):
            raise InputError(f"{where} describes several tables that fit these columns equally well; keep one of them")
    if isinstance(document.get("fields"), list):
        return _of_table(document, [each for each in document["fields"] if isinstance(each, dict)], where)
    rows = _mapping(document.get("items")) if document.get("type") == "array" else document
    if not isinstance(rows.get("properties"), dict):
        return None
    return CodeBook({name: _of_property(name, _mapping(each), document) for name, each in rows["properties"].items()})


def _of_table(document: Mapping[str, Any], fields: Collection[Mapping[str, Any]], where: str) -> CodeBook:
    key = document.get("primaryKey")
    keys = key if isinstance(key, list) else [key]
    found = {column.name: column for column in (_of_field(field, keys) for field in fields)}
    if len(found) < len(fields):
        raise InputError(f"{where} describes the same column twice; keep one description")
    file: dict[str, object] = {}
    for mark, name in (("decimal", "decimalChar"), ("thousands", "groupChar")):
        marks = {str(each[name]) for each in fields if each.get(name)}
        if len(marks) > 1:
            raise InputError(f"{where} declares two different values for {name}, but a file has only one; correct them")
        if marks - ({"."} if mark == "decimal" else set()):
            file[mark] = marks.pop()
    absent = [raw for raw, _ in _pairs(document.get("missingValues")) if raw not in ABSENT]
    numbers = [number for raw in absent if (number := number_in(raw)) is not None]
    for column in found.values():
        low, high = column.lower, column.upper
        within = isinstance(low, float) and isinstance(high, float) and any(low <= each <= high for each in numbers)
        if within or {raw for raw, _ in column.values} & {*absent}:
            remarks = (*column.remarks, "one of its values is also a missing value of all columns")
            found[column.name] = replace(column, remarks=remarks)
    return CodeBook(found, file | ({"absent": absent} if absent else {}))


def _of_field(field: Mapping[str, Any], keys: Collection[Any]) -> BookColumn:
    limits, missing = _mapping(field.get("constraints")), _pairs(field.get("missingValues"))
    named, allowed = _pairs(field.get("categories")), _pairs(limits.get("enum"))
    column = _column(_name(field), {**field, **limits}, str(field.get("type", "")), named or allowed)
    if named and allowed and dict(named).keys() != dict(allowed).keys():
        column = replace(column, remarks=(*column.remarks, "its categories differ from its enum"))
    column = replace(
        column, absent=limits.get("required") is False or any(not raw for raw, _ in missing),
        missing=tuple((raw, words or "missing") for raw, words in missing if raw),
    )  # fmt: skip
    spelled = [_pairs(field.get(f"{word}Values")) for word in ("false", "true")]
    if column.kind == "boolean" and all(len(pairs) == 1 for pairs in spelled):
        column = replace(column, kind="nominal", values=(spelled[0][0], spelled[1][0]))
    elif column.kind == "boolean" and any(spelled):
        column = replace(column, remarks=(*column.remarks, "it has several spellings of true or false"))
    if column.values and field.get("categoriesOrdered") is True:
        column = replace(column, kind="ordinal")
    if column.name in keys and len(keys) > 1:
        return replace(column, remarks=(*column.remarks, "it is a part of the primary key"))
    return replace(column, kind="id") if column.name in keys or limits.get("unique") is True else column


def _of_property(name: str, field: Mapping[str, Any], document: Mapping[str, Any]) -> BookColumn:
    field = _merged(field, document)
    kinds = field.get("type", "")
    named = [str(each) for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    choices = [*map(_mapping, _list(field.get("oneOf")) or _list(field.get("anyOf")))]
    constant = all("const" in each for each in choices)
    titled = [(each.get("const"), each.get("title") or each.get("description")) for each in choices if constant]
    listed = titled or [(each, "") for each in _list(field.get("enum"))]
    null = [one_line(words) for value, words in listed if value is None]
    dated = field.get("format") if named == ["string"] and field.get("format") in ("date", "date-time") else ""
    usual = {key: value for key, value in field.items() if key != "format"}
    values = tuple((one_line(value), one_line(words)) for value, words in listed if value is not None)
    column = _column(name, usual, dated or "".join(named[:1]), values)
    read = constant and not any(isinstance(value, dict | list) for value, _ in listed)
    remarks = ("it has several types",) * (len(named) > 1) + ("its alternatives are not supported",) * (not read)
    absent = bool(null or field.get("nullable") or (isinstance(kinds, list) and "null" in kinds))
    return replace(column, absent=absent, absence="".join(null), remarks=column.remarks + remarks)


def _merged(field: Mapping[str, Any], document: Mapping[str, Any], deep: int = _DEEPEST) -> Mapping[str, Any]:
    """Return a property with the parts that it refers to, and with the only alternative to null."""
    for key in ("allOf", "anyOf", "oneOf"):
        several = _list(field.get(key))
        parts = [each for each in map(_mapping, several) if each.get("type") != "null"]
        if len(parts) == 1 and "const" not in parts[0]:
            rest = {name: value for name, value in field.items() if name != key}
            field = {**parts[0], **rest, **({"nullable": True} if len(several) > 1 else {})}
    start, *path = str(field.get("$ref", "")).split("/")
    found: Any = document
    for part in path:
        found = _mapping(found).get(part)
    if start != "#" or not _mapping(found) or not deep:
        return field
    return _merged({**found, **{name: value for name, value in field.items() if name != "$ref"}}, document, deep - 1)


def _column(name: str, field: Mapping[str, Any], kind: str, values: tuple[Code, ...]) -> BookColumn:
    """Return a column from the keys that both kinds of schemas have."""
    said, read = _KINDS.get(kind, ""), {"pattern"} if values else set()
    step = _STEP.fullmatch(str(field.get("multipleOf"))) if said in ("integer", "number") else None
    read |= {"multipleOf"} if step else set()
    ends: list[Any] = [field.get("minimum"), field.get("maximum")]
    for place, key, inwards in ((0, "exclusiveMinimum", 1), (1, "exclusiveMaximum", -1)):
        if said == "integer" and ends[place] is None and type(field.get(key)) is int:
            ends[place], read = field[key] + inwards, {*read, key}
    remarks = [f"the book's {key!r} is not supported" for key in _UNREAD if key in field and key not in read]
    remarks += [f"its type {kind!r} is not supported"] * bool(kind and not said and not values)
    title, words = (str(field.get(key) or "") for key in ("title", "description"))
    column = BookColumn(name, title or words, said, values, remarks=tuple(remarks), notes=words if title else "")
    if values and not (said == "boolean" and {raw for raw, _ in values} == {"True", "False"}):
        return replace(column, kind="text" if said == "text" else "nominal")
    if said == "date":
        layout = str(field.get("format", "default"))
        layout = {"default": ISO if kind == "date" else ISO_TIME}.get(layout, layout if "%" in layout else "")
        lower, upper = (end[:10] if isinstance(end, str) else None for end in ends)
        return replace(column, layout=layout, lower=lower, upper=upper)
    if said not in ("integer", "number"):
        return column
    low, high = (None if isinstance(end, bool) else number_in(end) for end in ends)
    places = len(step[1] or "") if step else None
    return replace(column, kind="integer" if places == 0 else said, lower=low, upper=high, decimals=places or None)


def _name(field: Any) -> str:
    return str(_mapping(field).get("name", ""))


def _mapping(part: Any) -> dict[str, Any]:
    return part if isinstance(part, dict) else {}


def _list(part: Any) -> list[Any]:
    return part if isinstance(part, list) else []


def _pairs(listed: Any) -> tuple[Code, ...]:
    """Return the values and their labels from a list of values or mappings."""
    made = [each if isinstance(each, dict) else {"value": each} for each in _list(listed)]
    return tuple((one_line(each.get("value")), one_line(each.get("label"))) for each in made)
