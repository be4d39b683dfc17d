"""Code books of archives and statistical packages: DDI-Codebook, Stata's and SPSS's files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from equistrata.data.columns.column import number_in
from equistrata.data.columns.dates import ISO
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.terms import decimals_in, like_dates, of_dates
from equistrata.data.files import spss, stata
from equistrata.data.files.labelled import Described
from equistrata.errors import InputError

_SYSTEM_MISSING = ("", ".", "Sysmiss", "sysmiss")  # what programs call a cell without a value: empty in CSV
_OF_DAYS = re.compile(r"%-?(?:td|d)")  # display formats of dates
_STATA_DATES = (
    'dates; declare {type: date, format: "%d%b%Y", lower: ..., upper: ...}, as Stata exports them (28apr2022), with '
    "bounds in ISO form"
)
_DATES = 'dates; declare {type: date, format: "%Y-%m-%d", lower: ..., upper: ...}, with bounds in ISO form'
_WHOLE_FORMAT = re.compile(r"[A-Za-z]*\d+(?:\.0)?")  # as F8.0


def from_ddi(text: str, where: str, _: Collection[str] = ()) -> Iterator[Entry]:
    """The entries of a DDI-Codebook. Raises InputError if it is not plain XML."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{where} has a document type or entities, which are not read; remove them")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise InputError(f"{where} is not valid XML; mend it") from None
    if str(root.tag).rpartition("}")[2] in ("DDIInstance", "FragmentInstance"):
        raise InputError(f"{where} is DDI-Lifecycle (DDI 3), which is not read; export it as DDI-Codebook (DDI 2.5)")
    for each in root.iter():
        each.tag = str(each.tag).rpartition("}")[2]
    for var in root.iter("var"):
        between = var.find(".//valrng/range")
        bounds = (None, None) if between is None else (between.get("min"), between.get("max"))
        listed = [(each, _said(each, "catValu").strip(), _said(each, "labl")) for each in var.iter("catgry")]
        listed = [(each, "" if raw in _SYSTEM_MISSING else raw, words) for each, raw, words in listed]
        known = {raw for _, raw, _ in listed}
        absent = [(raw, words or "missing") for each, raw, words in listed if each.get("missing") == "Y"]
        invalid = (str(each.get("VALUE", "")).strip() for each in var.iterfind(".//invalrng/item"))
        absent += [(raw, "missing") for raw in invalid if raw not in known]
        form = var.find("varFormat")
        counted, written = number_in(var.get("dcml", "")), "" if form is None else form.get("formatname", "")
        if counted is None:
            counted = 0 if _WHOLE_FORMAT.fullmatch(written) else None
        decimals = decimals_in(written) if counted is None else counted
        contin = var.get("intrvl") == "contin"
        name, label = str(var.get("name", "")), _said(var, "labl")
        lacks = any(raw in _SYSTEM_MISSING for raw, _ in absent) or "" in known
        codes = [(raw, words) for raw, words in absent if raw not in _SYSTEM_MISSING]
        if like_dates(*bounds):
            remark = f"CHECK: the book has no format of {name}; its cells are taken to be written as its bounds are"
            yield of_dates(Entry.of(name, label, missing=lacks, absent=codes), *bounds, "", ISO, remark)
            continue
        yield Entry.of(
            name,
            label,
            [(raw, words) for _, raw, words in listed if raw],
            *bounds,
            whole=True if counted == 0 else None,
            ordered=var.get("nature") == "ordinal",
            missing=lacks,
            absent=codes,
            continuous=form is not None and form.get("type") == "numeric" and contin,
            decimals=decimals,
            allows_decimals=contin or bool(decimals),
        )


def _said(element: ElementTree.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else "".join(found.itertext())


def from_stata(path: Path, where: str) -> Iterator[Entry]:
    """The entries of a Stata file. Raises InputError if it cannot be read."""
    for name, told in stata.described(path, where).items():
        decimals = decimals_in(told.form)
        entry = Entry.of(name, told.label, [*told.labels.items()], missing=bool(told.missing), decimals=decimals)
        yield _dated(entry, told, _STATA_DATES if _OF_DAYS.match(told.form) else _DATES)


def from_spss(path: Path, where: str) -> Iterator[Entry]:
    """The entries of an SPSS file. Raises InputError if it cannot be read, or pyreadstat is not installed."""
    for name, told in spss.described(path, where).items():
        listed, absent, decimals = told.labels.items(), told.missing.items(), decimals_in(told.form)
        entry = Entry.of(name, told.label, [*listed], ordered=told.ordered, absent=[*absent], decimals=decimals)
        yield _dated(entry, told, _DATES)


def _dated(entry: Entry, told: Described, remark: str) -> Entry:
    return replace(entry, remark=remark) if told.dated and entry.type is None else entry
