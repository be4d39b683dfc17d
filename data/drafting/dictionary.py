"""CSV and Excel dictionaries: one row a column, or one row a value. `HEADINGS` are those that are read.

    name,label,type,values,lower,upper,decimals,format,missing,required
    SEX,Sex,nominal,1=Male; 2=Female,,,,,,yes
    AGE,Age in years,integer,,0,99,,,N=not known,

>>> cell_values("0=<5 years; 1=>=5 years")
((('0', '<5 years'), ('1', '>=5 years')), None, None, '')
>>> cell_values("0..98; 99=refused"), cell_values("0,5-1,5")
(((('99', 'refused'),), 0.0, 98.0, ''), ((), 0.5, 1.5, '"0,5-1,5" has commas, which may be decimal points'))
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import day_in, iso
from equistrata.data.drafting.column import NO_ANSWER, Book, BookColumn, Code, Kind, one_line
from equistrata.errors import InputError

HEADINGS: dict[str, tuple[str, ...]] = {
    "name": ("name", "variable", "column", "field", "variable name", "column name", "field name"),
    "label": ("label", "title", "variable label"),
    "type": ("type", "data type"),
    "values": ("values", "codes", "categories", "choices", "allowed values", "value labels"),
    "lower": ("lower", "min", "minimum"),
    "upper": ("upper", "max", "maximum"),
    "decimals": ("decimals",),
    "format": ("format", "date format"),
    "missing": ("missing", "missing values", "missing codes"),
    "required": ("required",),
    "value": ("value", "code"),
    "meaning": ("meaning", "value label", "code label"),
    "description": ("description",),
    "note": ("note", "notes", "comment", "comments", "remark", "remarks"),
    "": ("", "unit", "units", "position", "width", "length", "question", "source", "table", "section", "form"),
}
TEMPLATE = [*HEADINGS][:10]
_TYPES: dict[str, Kind] = {
    "number": "number", "numeric": "number", "float": "number", "double": "number", "decimal": "number",
    "real": "number", "continuous": "number", "integer": "integer", "int": "integer", "year": "integer", "date": "date",
    "nominal": "nominal", "categorical": "nominal", "factor": "nominal", "boolean": "nominal", "ordinal": "ordinal",
    "text": "text", "string": "text", "character": "text", "id": "id", "identifier": "id",
}  # fmt: skip
_NUMBER = r"-?\d+(?:[.,]\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:\.\.+|–|-|to)\s*({_NUMBER})(?:\s*=.*|\s*(?P<unit>[^\W\d].*))?")
_NO_CODE = re.compile(  # 1 Yes; Y - Yes; Yes (1); {1; ['a'
    r"-?\d[\d.]*[\s:)-]+[^\W\d].*|\S+\s+[-–—]\s+\S.*|.*\w\s*[(\[]-?\d+[)\]]|[\[{'\"].*|.*[\]}'\"]"
)
_NO_CELL = re.compile(r"-?\d\S*\s|\.\.|\d-\d|\b(?:all|any|negative|values?)\b")  # -9 refused; -9..-1
_FORMATS = {"yyyy": "%Y", "mm": "%m", "dd": "%d"}


def is_dictionary(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has a heading for the names of columns, and another that is read."""
    found = {*map(_heading, rows[0])} - {None, ""} if rows else set()
    return "name" in found and len(found) > 1


def template(columns: Sequence[str]) -> str:
    """A dictionary to fill in, as CSV: a row for each column of a table."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([TEMPLATE, *([name, *[""] * 9] for name in columns)])
    return file.getvalue()


def read_dictionary(rows: Sequence[Sequence[str]], where: str) -> Book:
    """The columns of a dictionary. Raises InputError for headings and rows that are not read."""
    known = [*map(_heading, rows[0])]
    if None in known:
        raise InputError(
            f"{where} has the heading {one_line(rows[0][known.index(None)])!r}, which is not read; delete that column, "
            f"or name it as one of {', '.join(filter(None, HEADINGS))}"
        )
    if twice := next((key for key in known if key and known.count(key) > 1), None):
        raise InputError(f"{where} has two headings for {twice!r}; keep one of them")
    found, name, each_value = dict[str, list[dict[str, str]]](), "", "value" in known
    for number, row in enumerate(rows[1:], start=2):
        line = {str(key): cell.strip() for key, cell in zip(known, row, strict=False) if key}
        name = line.get("name") or name * each_value
        if any(map(str.strip, row[len(known) :])) or not name:
            what = "no name of a column" if not name else "more cells than headings; put those with commas into quotes"
            raise InputError(f"{where}, row {number} has {what}")
        found.setdefault(name, []).append(line)
    if not each_value and (twice := next((name for name, lines in found.items() if len(lines) > 1), None)):
        raise InputError(f"{where} describes {twice!r} twice; keep one row, or give each value a row of its own")
    return Book({name: (_of_values if each_value else _of_row)(name, lines) for name, lines in found.items()})


def cell_values(text: str) -> tuple[tuple[Code, ...], float | None, float | None, str]:
    """The codes, bounds and doubts of a cell, as `1=Yes; 2=No`, `a; b`, `0..99`, `0 to 98; 99=refused`."""
    whole = _RANGE.fullmatch(text.strip())
    marks = r"[;\n|]" if re.search(r"[;\n|]", text) or whole else r","
    items = [item.strip() for item in re.split(marks, text) if item.strip()]
    ranges = [found for item in items if (found := _RANGE.fullmatch(item))]
    sign = "=" if "=" in text else ":"
    pairs = [item.partition(sign) for item in items if len(ranges) != 1 or not _RANGE.fullmatch(item)]
    codes = tuple((raw.strip(), words.strip()) for raw, _, words in pairs)
    labelled = any(equals for _, equals, _ in pairs)
    unread = [
        raw + equals + words
        for raw, equals, words in pairs
        if _NO_CODE.fullmatch(raw.strip())
        or (equals and not (raw.strip() and words.strip()))
        or (marks == "," and not equals and (labelled or " " in raw.strip()))
        or not re.search(r"\w", raw)
    ]
    if unread or len({raw for raw, _ in codes}) < len(codes):
        return (), None, None, f"the book's values are not read: {one_line('; '.join(unread) or text)}"
    if len(ranges) != 1:
        return codes, None, None, "some of its values are ranges of numbers" if ranges else ""
    low, high = (float(end.replace(",", ".")) for end in ranges[0].groups()[:2])
    commas = f'"{ranges[0][0]}" has commas, which may be decimal points' if "," in ranges[0][0] else ""
    unit = f'"{ranges[0]["unit"]}" stands behind its numbers' if ranges[0]["unit"] else ""
    return codes, low, high, commas or unit or (f"its range {ranges[0][0]} is not read" if low >= high else "")


def _iso(text: str, layout: str) -> str:
    """A date of a layout in ISO form; empty if it is none."""
    day = day_in(text, layout) if layout else None
    return "" if day is None else iso(day)


def _heading(cell: str) -> str | None:
    plain = " ".join(cell.replace("_", " ").split()).casefold()
    return next((key for key, spellings in HEADINGS.items() if plain in spellings), None)


def _of_values(name: str, lines: Sequence[Mapping[str, str]]) -> BookColumn:
    """A column of one row a value; without `meaning`, the label is the value's."""
    meant = "meaning" if any("meaning" in line for line in lines) else "label"
    first = {key: next((line[key] for line in lines if line.get(key)), "") for key in HEADINGS if key != meant}
    column = _of_row(name, [{**first, "values": ""}])
    pairs = [(line.get("value", ""), line.get(meant, "")) for line in lines]
    ranges = [found for raw, _ in pairs if (found := _RANGE.fullmatch(raw))]
    kept = [(raw, words) for raw, words in pairs if raw or words]
    codes = [(raw, words) for raw, words in kept if len(ranges) != 1 or not _RANGE.fullmatch(raw)]
    remarks = ["some of its values are ranges of numbers"] * (len(ranges) > 1)
    remarks += ["a code is there twice"] * (len({raw for raw, _ in codes}) < len(codes))
    if len(ranges) == 1:
        column = replace(column, lower=number_in(ranges[0][1]), upper=number_in(ranges[0][2]))
    return replace(column, values=tuple(codes), remarks=(*column.remarks, *remarks))


def _of_row(name: str, lines: Sequence[Mapping[str, str]]) -> BookColumn:
    line = {key: lines[0].get(key, "") for key in HEADINGS}
    kind = _TYPES.get(line["type"].casefold(), "")
    codes, low, high, remark = cell_values(line["values"])
    remarks = [remark] * bool(remark)
    remarks += [f'the book\'s type "{one_line(line["type"])}" is not read'] * bool(line["type"] and not kind)
    noted = re.search(r"\d", line["note"]) or NO_ANSWER.search(line["note"])
    remarks += [f"the book notes: {one_line(line['note'])}"] * bool(noted)
    needed = {"": None, "yes": True, "true": True, "no": False, "false": False}
    remarks += ["its 'required' is neither yes nor no"] * (line["required"].casefold() not in needed)
    ends: list[Any] = [line["lower"], line["upper"]]
    layout = re.sub("yyyy|mm|dd", lambda found: _FORMATS[found[0].lower()], line["format"], flags=re.I)
    layout = layout if "%" in layout else ""
    if kind == "date" or (not kind and all(day_in(end) is not None for end in ends)):
        kind = "date"
        ends = [_iso(end, layout) or end for end in ends]
        remarks += [
            f"its bound {one_line(end)} is no date as 2024-12-31" for end in ends if end and day_in(end) is None
        ]
    elif kind != "text":
        remarks += [f"its bound {one_line(end)} is not read" for end in ends if end and number_in(end) is None]
        ends = [number_in(end) if end else usual for end, usual in zip(ends, (low, high), strict=True)]
    elif low is not None:
        ends = re.findall(_NUMBER.replace("-?", ""), line["values"])[:2]
    items = [item.partition("=") for item in re.split(r"[;\n|,]", line["missing"]) if item.strip()]
    missing = {raw.strip(): words.strip() or "missing" for raw, _, words in items}
    if any(map(_NO_CELL.search, missing)):
        missing, remarks = {}, [*remarks, f"its missing values are not read: {one_line(line['missing'])}"]
    empty = {raw for raw in missing if raw in ABSENT or raw.casefold() in ("blank", "empty", "yes")}
    places = number_in(line["decimals"])
    lower, upper = (None if end == "" else end for end in ends)
    return BookColumn(
        name, line["label"] or line["description"], kind, codes, lower, upper,
        tuple((raw, words) for raw, words in missing.items() if raw not in empty and raw.casefold() != "no"),
        tuple(remarks), absent=bool(empty) or needed.get(line["required"].casefold()) is False,
        decimals=int(places) if places is not None and 0 <= places <= 15 else None,
        layout=layout, notes=line["description"] if line["label"] else "",
    )  # fmt: skip
