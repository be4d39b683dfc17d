"""Dictionaries in CSV or Excel files, as code books.

A dictionary has one row for each column, or one row for each value. The headings that are read are in `HEADINGS`.

    name,label,type,values,lower,upper,decimals,format,missing,required SEX,Sex,nominal,1=Male; 2=Female,,,,,,yes
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
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import day_in, iso
from equistrata.data.drafting.column import NO_ANSWER, BookColumn, Code, CodeBook, Kind, one_line
from equistrata.errors import InputError

# The codes, the bounds, and a remark if they are ambiguous.
Listed = tuple[tuple[Code, ...], float | None, float | None, str]
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
_RANGE = re.compile(rf"({_NUMBER})\s*(?:\.\.+|–|-|to)\s*({_NUMBER})(?:\s*(?P<unit>[^\W\d].*))?")
_NO_CODE = re.compile(  # such as "1 Yes", "Y - Yes", "Yes (1)", "{1" or "['a'"
    r"-?\d[\d.]*[\s:)-]+[^\W\d].*|\S+\s+[-–—]\s+\S.*|.*\w\s*[(\[]-?\d+[)\]]|[\[{'\"].*|.*[\]}'\"]"
)
_NO_CELL = re.compile(r"-?\d\S*\s|\.\.|\d-\d|\b(?:all|any|negative|values?)\b")  # such as "-9 refused" or "-9..-1"
_FORMATS = {"yyyy": "%Y", "mm": "%m", "dd": "%d"}


def is_dictionary(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row has a heading for the names of the columns and another heading that is read."""
    found = {*map(_heading, rows[0])} - {None, ""} if rows else set()
    return "name" in found and len(found) > 1


def template(columns: Sequence[str]) -> str:
    """Return a CSV dictionary with one empty row for each column of a table, which the user can fill in."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([TEMPLATE, *([name, *[""] * 9] for name in columns)])
    return file.getvalue()


def read_dictionary(rows: Sequence[Sequence[str]], where: str) -> CodeBook:
    """Return the columns of a dictionary. Raises an InputError if a heading or a row cannot be read."""
    known = [*map(_heading, rows[0])]
    if None in known:
        raise InputError(
            f"{where} has the heading {one_line(rows[0][known.index(None)])!r}, which is not known; delete that "
            f"column, or rename it to one of {', '.join(filter(None, HEADINGS))}"
        )
    if twice := next((key for key in known if key and known.count(key) > 1), None):
        raise InputError(f"{where} has two headings for {twice!r}; keep one of them")
    found, name, each_value = dict[str, list[dict[str, str]]](), "", "value" in known
    for number, row in enumerate(rows[1:], start=2):
        line = {str(key): cell.strip() for key, cell in zip(known, row, strict=False) if key}
        name = line.get("name") or name * each_value
        if any(map(str.strip, row[len(known) :])) or not name:
            what = "no column name" if not name else "more cells than headings; put cells with commas into quotes"
            raise InputError(f"{where}, row {number} has {what}")
        found.setdefault(name, []).append(line)
    if not each_value and (twice := next((name for name, lines in found.items() if len(lines) > 1), None)):
        raise InputError(f"{where} describes {twice!r} twice; keep one row, or give each value a row of its own")
    meant = ("meaning" if "meaning" in known else "label") if each_value else ""
    return CodeBook({name: _column(name, lines, meant) for name, lines in found.items()})


def cell_values(text: str) -> Listed:
    """Return the codes, the bounds and a remark from a cell such as `1=Yes; 2=No`, `a; b`, `0..99` or `0 to 98;
    99=refused`.
    """
    marks = r"[;\n|]" if re.search(r"[;\n|]", text) or _RANGE.fullmatch(text.strip()) else r","
    pairs = [item.partition("=" if "=" in text else ":") for item in re.split(marks, text) if item.strip()]
    pairs = [(raw.strip(), equals, words.strip()) for raw, equals, words in pairs]
    labelled = any(equals for _, equals, _ in pairs)
    unread = [
        raw + equals + words
        for raw, equals, words in pairs
        if not _RANGE.fullmatch(raw)
        and (
            _NO_CODE.fullmatch(raw)
            or (equals and not (raw and words))
            or (marks == "," and not equals and (labelled or " " in raw))
            or not re.search(r"\w", raw)
        )
    ]
    codes = [(raw, words) for raw, _, words in pairs]
    if unread or len({raw for raw, _ in codes}) < len(codes):
        return (), None, None, f"the book's values could not be read: {one_line('; '.join(unread) or text)}"
    return _ranged(codes)


def _ranged(codes: Sequence[Code]) -> Listed:
    """Return the codes and the bounds of a column, where the bounds are the only range in the list."""
    ranges = [found for raw, _ in codes if (found := _RANGE.fullmatch(raw))]
    if len(ranges) != 1:
        return tuple(codes), None, None, "some of its values are ranges of numbers" if ranges else ""
    low, high = (float(end.replace(",", ".")) for end in ranges[0].groups()[:2])
    commas = f'"{ranges[0][0]}" has commas, which may be decimal points' if "," in ranges[0][0] else ""
    unit = f'its numbers are followed by "{ranges[0]["unit"]}"' if ranges[0]["unit"] else ""
    turned = f"its range {ranges[0][0]} could not be read" if low >= high else ""
    return tuple(code for code in codes if code[0] != ranges[0][0]), low, high, commas or unit or turned


def _column(name: str, lines: Sequence[Mapping[str, str]], meant: str) -> BookColumn:
    """Return a column from its row, or from one row for each value with labels under the heading `meant`."""
    line = {key: next((line[key] for line in lines if line.get(key)), "") for key in HEADINGS}
    listed = [(each.get("value", ""), each.get(meant, "")) for each in lines]
    codes, low, high, remark = _ranged([code for code in listed if any(code)]) if meant else cell_values(line["values"])
    line |= {meant: ""} if meant else {}
    kind = _TYPES.get(line["type"].casefold(), "")
    remarks = [remark] * bool(remark) + ["a code is listed twice"] * (len({raw for raw, _ in codes}) < len(codes))
    remarks += [f'the book\'s type "{one_line(line["type"])}" is not known'] * bool(line["type"] and not kind)
    noted = re.search(r"\d", line["note"]) or NO_ANSWER.search(line["note"])
    remarks += [f"the book notes: {one_line(line['note'])}"] * bool(noted)
    needed = {"": None, "yes": True, "true": True, "no": False, "false": False}
    remarks += ["its 'required' is neither yes nor no"] * (line["required"].casefold() not in needed)
    ends: list[Any] = [line["lower"], line["upper"]]
    layout = re.sub("yyyy|mm|dd", lambda found: _FORMATS[found[0].lower()], line["format"], flags=re.I)
    layout, unread = layout if "%" in layout else "", list[str]()
    if kind == "date" or (not kind and all(day_in(end) is not None for end in ends)):
        kind = "date"
        days = [day if layout and (day := day_in(end, layout)) is not None else day_in(end) for end in ends]
        unread = [
            f"{end} is not a date (2024-12-31)" for end, day in zip(ends, days, strict=True) if end and day is None
        ]
        ends = [None if day is None else iso(day) for day in days]
    elif kind != "text":
        unread = [f"{end} is not a number" for end in ends if end and number_in(end) is None]
        ends = [number_in(end) if end else usual for end, usual in zip(ends, (low, high), strict=True)]
    elif low is not None:
        ends = re.findall(_NUMBER.replace("-?", ""), line["values"])[:2]
    remarks += [f"its bound {one_line(each)}" for each in unread]
    items = [item.partition("=") for item in re.split(r"[;\n|,]", line["missing"]) if item.strip()]
    missing = {raw.strip(): words.strip() or "missing" for raw, _, words in items}
    if any(map(_NO_CELL.search, missing)):
        missing, remarks = {}, [*remarks, f"its missing values could not be read: {one_line(line['missing'])}"]
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


def _heading(cell: str) -> str | None:
    plain = " ".join(cell.replace("_", " ").split()).casefold()
    return next((key for key, spellings in HEADINGS.items() if plain in spellings), None)
