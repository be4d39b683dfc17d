"""Code books of archives and statistical packages: DDI-Codebook, files of Stata and SPSS, and the programs that label
their columns and SAS's."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from equistrata.data.columns.column import number_in
from equistrata.data.columns.dates import ISO
from equistrata.data.drafting.entries import Entry, numbered_in_order
from equistrata.data.drafting.spans import span_in
from equistrata.data.drafting.terms import decimals_in, like_dates, of_dates
from equistrata.data.files import spss, stata
from equistrata.data.files.labelled import Described
from equistrata.data.files.opening import plain_name
from equistrata.errors import InputError

_SYSTEM_MISSING = ("", ".", "Sysmiss", "sysmiss")  # what programs call a cell without a value: empty in CSV
_OF_DAYS = re.compile(r"%-?(?:td|d)")  # display formats of dates
_STATA_DATES = (
    'dates; declare {type: date, format: "%d%b%Y", lower: ..., upper: ...}, as Stata exports them (28apr2022), with '
    "bounds in ISO form"
)
_DATES = 'dates; declare {type: date, format: "%Y-%m-%d", lower: ..., upper: ...}, with bounds in ISO form'
# Programs: quoted words, and the parts of a statement, which ends in ; or, in SPSS, in a point at the end of a line.
_QUOTED = r"""(?:`"(?:(?!"').)*"'|"(?:[^"]|"")*"|'(?:[^']|'')*')"""
_STATEMENT = rf"""((?:[^;"']|{_QUOTED})*);"""
_STATA_LABEL = re.compile(rf"^[ \t]*la(?:b|bel)?\s+var(?:iable)?\s+(\S+)\s+({_QUOTED})", re.M | re.I)
_STATA_LIST = re.compile(r"^[ \t]*la(?:b|bel)?\s+def(?:ine)?\s+(\S+)\s+(.*)$", re.M | re.I)
_STATA_USE = re.compile(r"^[ \t]*la(?:b|bel)?\s+val(?:ues?)?\s+(\S[^\n,]*?)\s+(\S+?)\s*(?:,.*)?$", re.M | re.I)
_STATA_PAIR = re.compile(rf"(-?\d+|\.[a-z])\s+({_QUOTED})", re.I)
_SPSS_BLOCK = re.compile(
    r"^[ \t]*(?:add\s+)?(variable\s+labels?|value\s+labels?|missing\s+values)\b(.*?)(?:\.[ \t]*$|\Z)",
    re.M | re.I | re.S,
)
_SPSS_TOKEN = re.compile(rf"/|{_QUOTED}|[^\s/\"']+")
_SPSS_PAIR = re.compile(rf"([^\s/\"']+)\s+({_QUOTED})")
_SPSS_MISSING = re.compile(r"([^\s/()]+(?:\s+[^\s/()]+)*)\s*\(([^)]*)\)")
_SPSS_THROUGH = re.compile(r"(-?\d+(?:\.\d+)?|lo(?:west)?)\s+thru\s+(-?\d+(?:\.\d+)?|hi(?:ghest)?)\b", re.I)
_SAS_LIST = re.compile(rf"\bvalue\s+(\$?\w+)\s+{_STATEMENT}", re.I)
_SAS_RANGE = re.compile(r"\s*(?:other$|low\b|.*-\s*<|.*<\s*-|.*-\s*high$)", re.I)  # low-<18, 18-high, other
_SAS_LIST_OF_NAMES = re.compile(r"([A-Za-z_]\w*?)(\d+)-([A-Za-z_]\w*?)(\d+)")
_SAS_PAIR = re.compile(rf"({_QUOTED}|[^\s=\"']+)\s*=\s*({_QUOTED})")
_SAS_LABEL = re.compile(rf"\blabel\s+{_STATEMENT}", re.I)
_SAS_USE = re.compile(r"\bformat\s+([^;\"'=]*);", re.I)
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


def is_program(text: str) -> bool:
    """Whether a text labels values as a program of Stata, SPSS or SAS does."""
    found = (_STATA_LIST.search(text), re.search(r"^[ \t]*(?:add\s+)?value\s+labels?\b", text, re.M | re.I))
    return any(found) or bool(re.search(r"\bproc\s+format\b", text, re.I))


def from_program(text: str, _: str, wanted: Collection[str] = ()) -> Iterator[Entry]:
    """The entries of a program that labels columns and values. Bounds are in none, so numbers stay questions.

    Args:
        wanted: columns of the table, as `plain_name` writes them.
    """
    labels, codes, absent = dict[str, str](), dict[str, list[tuple[str, str]]](), dict[str, str]()
    lists: dict[str, list[tuple[str, str]]] = {}
    if re.search(r"\bproc\s+format\b", text, re.I):
        for name, inner in _SAS_LIST.findall(text):
            lists[name.lower()] = [(_bare(raw), _bare(words)) for raw, words in _SAS_PAIR.findall(inner)]
        for inner in _SAS_LABEL.findall(text):
            labels |= {name: _bare(words) for name, words in _SAS_PAIR.findall(inner)}
        for inner in _SAS_USE.findall(text):
            names = list[str]()
            for token in _listed_names(inner):
                if token.endswith("."):
                    codes |= {name: lists[key] for name in names if (key := token[:-1].lower()) in lists}
                    names = []
                else:
                    names.append(token)
    elif _STATA_LIST.search(text):
        text = re.sub(r"///[^\n]*\n", " ", text)
        labels = {name: _bare(words) for name, words in _STATA_LABEL.findall(text)}
        for name, inner in _STATA_LIST.findall(text):
            lists.setdefault(name, []).extend((raw, _bare(words)) for raw, words in _STATA_PAIR.findall(inner))
        for names, key in _STATA_USE.findall(text):
            codes |= {name: lists[key] for name in names.split() if key in lists}
    else:
        for kind, inner in _SPSS_BLOCK.findall(text):
            if kind.lower().startswith("variable"):
                labels |= {name: _bare(words) for name, words in _SPSS_PAIR.findall(inner)}
            elif kind.lower().startswith("value"):
                codes |= dict(_spss_codes(inner))
            else:
                for names, raw in _SPSS_MISSING.findall(inner):
                    absent |= dict.fromkeys(names.split(), raw)
    for name in dict.fromkeys([*labels, *codes]):
        if not wanted or plain_name(name) in wanted:
            said = dict(codes.get(name, []))
            beside = [(raw, said.get(raw) or "missing") for raw in _spss_missing(absent.get(name, ""), said)]
            # A range of codes with one label is no code.
            listed = [(raw, words) for raw, words in said.items() if span_in(raw) is None and not _SAS_RANGE.match(raw)]
            yield Entry.of(name, labels.get(name, ""), listed, absent=beside)


def _listed_names(inner: str) -> Iterator[str]:
    """The parts of a FORMAT statement, with each name of a numbered list: Q1-Q3 are Q1, Q2 and Q3."""
    for token in inner.split():
        found = _SAS_LIST_OF_NAMES.fullmatch(token)
        if found and found[1].lower() == found[3].lower() and int(found[2]) <= int(found[4]) <= int(found[2]) + 9999:
            for number in range(int(found[2]), int(found[4]) + 1):
                yield f"{found[1]}{number:0{len(found[2])}}"
        else:
            yield token


def _spss_codes(inner: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Columns with the codes of a VALUE LABELS statement: names, then pairs of a code and its words, up to a slash."""
    names, pairs, raw = list[str](), list[tuple[str, str]](), ""
    for token in [*_SPSS_TOKEN.findall(inner), "/"]:
        quoted = token[:1] in "\"'"
        if token == "/":
            yield from ((name, pairs) for name in names)
            names, pairs, raw = [], [], ""
        elif raw:
            pairs.append((_bare(raw), _bare(token)))
            raw = ""
        elif quoted or (number_in(token) is not None and names):
            raw = token
        else:
            names.append(token)


def _spss_missing(listed: str, codes: Collection[str]) -> list[str]:
    """The codes of a MISSING VALUES statement; of a range those that have words, and its ends.

    >>> _spss_missing("6 THRU 9", ["1", "6", "8"]), _spss_missing("LO THRU 0, 99", ["-1", "1"])
    (['6', '8', '9'], ['-1', '0', '99'])
    """
    found = list[str]()
    for low, high in _SPSS_THROUGH.findall(listed):
        ends = -math.inf if low[:1].isalpha() else float(low), math.inf if high[:1].isalpha() else float(high)
        within = (raw for raw in codes if (number := number_in(raw)) is not None and ends[0] <= number <= ends[1])
        found += [*within, *(end for end in (low, high) if not end[:1].isalpha())]
    alone = re.findall(rf"{_QUOTED}|[^\s,]+", _SPSS_THROUGH.sub(" ", listed))
    return [*dict.fromkeys([*found, *map(_bare, alone)])]


def _bare(text: str) -> str:
    """A text without its quotes."""
    if text[:2] == '`"':
        return text[2:-2].strip()
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote).strip() if quote and quote in "\"'" else text


def _said(element: ElementTree.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else "".join(found.itertext())


def from_stata(path: Path, where: str) -> Iterator[Entry]:
    """The entries of a Stata file. Raises InputError if it cannot be read."""
    for name, told in stata.described(path, where).items():
        decimals = decimals_in(told.form)
        entry = Entry.of(name, told.label, [*told.labels.items()], missing=bool(told.missing), decimals=decimals)
        entry = replace(entry, numbered=numbered_in_order(told.labels))
        yield _dated(entry, told, _STATA_DATES if _OF_DAYS.match(told.form) else _DATES)


def from_spss(path: Path, where: str) -> Iterator[Entry]:
    """The entries of an SPSS file. Raises InputError if it cannot be read, or pyreadstat is not installed."""
    for name, told in spss.described(path, where).items():
        listed, absent, decimals = told.labels.items(), told.missing.items(), decimals_in(told.form)
        entry = Entry.of(name, told.label, [*listed], ordered=told.ordered, absent=[*absent], decimals=decimals)
        entry = replace(entry, numbered=numbered_in_order(told.labels))
        yield _dated(entry, told, _DATES)


def _dated(entry: Entry, told: Described, remark: str) -> Entry:
    return replace(entry, remark=remark) if told.dated and entry.type is None else entry
