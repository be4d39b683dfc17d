"""DDI-Codebook (DDI 1.2 to 2.6), as archives publish it: XML with a `var` for each column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.column import CODES, Book, BookColumn, Kind
from equistrata.errors import InputError

_EMPTY = ("", ".", "sysmiss")  # what programs call a cell without a value: empty in CSV
_NOTES = ("codInstr", "txt", "notes")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_ddi(text: str, where: str) -> Book:
    """The columns of a DDI-Codebook. Raises InputError if it is not one, or not plain XML."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{where} has a document type or entities, which are not read; remove them")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        raise InputError(f"{where} is not valid XML; mend it") from None
    for each in root.iter():
        each.tag = str(each.tag).rpartition("}")[2]
    if root.tag in ("DDIInstance", "FragmentInstance"):
        raise InputError(f"{where} is DDI-Lifecycle (DDI 3), which is not read; export it as DDI-Codebook (DDI 2.5)")
    found: dict[str, BookColumn] = {}
    for column in map(_column, root.iter("var")):
        if found.setdefault(column.name, column) != column:
            found[column.name] = replace(column, remarks=("the book describes it twice, and not alike",))
    return Book(found)


def _column(var: ElementTree.Element) -> BookColumn:
    listed = [(_said(each, "catValu"), _said(each, "labl"), each.get("missing") == "Y") for each in var.iter("catgry")]
    values = {raw: words for raw, words, missing in listed if not missing and raw.casefold() not in _EMPTY}
    missing = {raw: words or "missing" for raw, words, is_missing in listed if is_missing}
    for item in var.iterfind("invalrng/item"):
        raw = str(item.get("VALUE", "")).strip()
        missing.setdefault(raw, values.pop(raw, "") or "missing")
    remarks = ["a range of codes is called missing"] * (var.find("invalrng/range") is not None)
    remarks += ["a code has two meanings"] * (len({raw for raw, _, _ in listed}) < len(listed))
    notes = ("".join(each.itertext()) for tag in _NOTES for each in var.iterfind(tag))
    remarks += ["a note in the book speaks of codes"] * any(map(CODES.search, notes))
    ranges = [dict(each.attrib) for each in var.iterfind("valrng/range")]
    remarks += ["its bounds are in several ranges, or exclusive"] * (
        len(ranges) > 1 or any("Exclusive" in key for each in ranges for key in each)
    )
    lower, upper = (ranges[0].get(end, "") if len(ranges) == 1 else "" for end in ("min", "max"))
    ends, dcml, contin = (
        (number_in(lower), number_in(upper)),
        number_in(var.get("dcml", "")),
        var.get("intrvl") == "contin",
    )
    kind: Kind = "ordinal" if var.get("nature") == "ordinal" else ""
    column = BookColumn(
        str(var.get("name", "")), _said(var, "labl"), kind, tuple(values.items()), None, None,
        tuple((raw, words) for raw, words in missing.items() if raw.casefold() not in _EMPTY), tuple(remarks),
        absent=any(raw.casefold() in _EMPTY for raw in (*missing, *(raw for raw, _, _ in listed))),
    )  # fmt: skip
    if _DATE.fullmatch(lower) and _DATE.fullmatch(upper):
        return replace(column, kind="date", lower=lower, upper=upper)
    if None not in ends and not _repeats(ends, values, contin):
        said: Kind = "integer" if dcml == 0 else "number" if dcml or contin else ""
        return replace(column, kind=said, lower=ends[0], upper=ends[1], decimals=int(dcml) if dcml else None)
    form = var.find("varFormat")
    text = form is not None and form.get("type") == "character"
    return column if values else replace(column, kind="text" if text else "number")


def _repeats(bounds: tuple[float | None, float | None], values: Mapping[str, str], contin: bool) -> bool:
    """Whether a range only says again what a list of three codes or more does: both of its ends are listed."""
    return len(values) > 2 and {*bounds} <= {*map(number_in, values)} and not contin and all(values.values())


def _said(element: ElementTree.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else " ".join("".join(found.itertext()).split())
