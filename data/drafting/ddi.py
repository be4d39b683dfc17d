"""DDI-Codebook files (DDI 1.2 to 2.6), as code books.

Archives publish these XML files, which have an element `var` for each column.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil, floor, inf
from xml.etree import ElementTree

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.column import MOST_LISTED, BookColumn, CodeBook, Kind
from equistrata.errors import InputError

# The names of a missing cell in statistical programs, which is an empty cell in a CSV file.
_EMPTY = ("", ".", "sysmiss")
_NOTES = ("codInstr", "txt", "notes")
_POINT = re.compile(r"-?\d+\.0+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_ddi(text: str, where: str) -> CodeBook:
    """Return the columns of a DDI-Codebook. Raises an InputError if the text is not a DDI-Codebook or not plain XML."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{where} has a document type or entities, which are not supported; remove them")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        raise InputError(f"{where} is not valid XML; correct its syntax") from None
    for each in root.iter():
        each.tag = str(each.tag).rpartition("}")[2]
    if root.tag in ("DDIInstance", "FragmentInstance"):
        raise InputError(f"{where} is in DDI-Lifecycle (DDI 3), which is not supported; export it as DDI-Codebook 2.5")
    found: dict[str, BookColumn] = {}
    for column in map(_column, root.iter("var")):
        if found.setdefault(column.name, column) != column:
            found[column.name] = replace(column, remarks=("the book describes it twice, in different ways",))
    return CodeBook(found)


def _column(var: ElementTree.Element) -> BookColumn:
    told = next((form.attrib for form in var.iterfind("varFormat")), {})
    text, contin = told.get("type") == "character", var.get("intrvl") == "contin"
    raws = [_said(each, "catValu") for each in var.iter("catgry")]
    plain = not text and all(raw.casefold() in _EMPTY or _POINT.fullmatch(raw) for raw in raws)
    raws = [raw.partition(".")[0] if plain else raw for raw in raws]
    values, missing = dict[str, str](), dict[str, str]()
    for raw, each in zip(raws, var.iter("catgry"), strict=True):
        (missing if each.get("missing", "").casefold() in ("y", "yes", "true") or raw.casefold() in _EMPTY else values)[
            raw
        ] = _said(each, "labl")
    remarks = ["a code has two meanings"] * (len({*raws}) < len(raws))
    for item in var.iterfind("invalrng/item"):
        raw = str(item.get("VALUE", "")).strip()
        missing.setdefault(raw, values.pop(raw, ""))
    for span in var.iterfind("invalrng/range"):
        low, high = (number_in(span.get(end, "")) for end in ("min", "max"))
        least, most = (-inf if low is None else low), (inf if high is None else high)
        within = [raw for raw in values if (number := number_in(raw)) is not None and least <= number <= most]
        missing |= {raw: values.pop(raw) for raw in within}
        if most - least > MOST_LISTED:
            remarks.append("the book marks a range of codes as missing")
        else:
            missing = {str(code): "" for code in range(ceil(least), floor(most) + 1)} | missing
    bare = bool(values) and not any(values.values())
    remarks += ["its values have no labels, so they can be values that were only counted in rows"] * bare
    if all(raw == words for raw, words in values.items()):
        values = dict.fromkeys(values, "")
    ranges = [dict(each.attrib) for each in var.iterfind("valrng/range")]
    several = len(ranges) > 1 or any("Exclusive" in key for each in ranges for key in each)
    remarks += ["its bounds are exclusive, or are given in several ranges"] * several
    lower, upper = (ranges[0].get(end, "") if len(ranges) == 1 else "" for end in ("min", "max"))
    dcml, ends = number_in(var.get("dcml", "")), [number_in(end) for end in (lower, upper)]
    kind: Kind = "ordinal" if var.get("nature") == "ordinal" else "text" if text else ""
    called = tuple((raw, said or "missing") for raw, said in missing.items() if raw.casefold() not in _EMPTY)
    column = BookColumn(
        str(var.get("name", "")), _said(var, "labl"), kind, tuple(values.items()), None, None, called, tuple(remarks),
        absent=any(raw.casefold() in _EMPTY for raw in missing),
        notes=" ".join("".join(each.itertext()) for tag in _NOTES for each in var.iterfind(tag)),
    )  # fmt: skip
    if _DATE.fullmatch(lower) and _DATE.fullmatch(upper):
        layout = told.get("formatname", "")
        return replace(column, kind="date", lower=lower, upper=upper, layout=layout if "%" in layout else "")
    if told.get("category") in ("date", "time"):
        return replace(column, kind="date")
    low, high = ends
    amount: Kind = "" if values and not contin else "number"
    if low is None or high is None:
        return column if column.kind else replace(column, kind=amount)
    if text and not values:
        return replace(column, lower=lower, upper=upper)
    listed = {*map(number_in, values)}
    if {low, high} <= listed and not contin and (len(listed) > 2 or high - low == 1):
        return column  # the range repeats the list
    if not values and var.get("intrvl") == "discrete" and high - low <= MOST_LISTED:
        column = replace(column, kind="nominal")
    amount = column.kind or ("integer" if dcml == 0 else "number" if dcml or contin else "")
    return replace(column, kind=amount, lower=low, upper=high, decimals=int(dcml) if dcml else None)


def _said(element: ElementTree.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else " ".join("".join(found.itertext()).split())
