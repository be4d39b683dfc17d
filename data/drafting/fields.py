"""Fields of JSON and YAML code books: Frictionless Table Schema, JSON Schema, CSV on the Web, and others like these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME, TIME_OF_DAY
from equistrata.data.drafting.choices import beside_in, listed_in, turned
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import CALLED, plain
from equistrata.data.drafting.spans import bound_in
from equistrata.data.drafting.terms import (
    DATE,
    absent_in,
    apart,
    decimals_in,
    decimals_of,
    like_dates,
    of_dates,
    of_kind,
    of_truth,
)

_SIGNS = 'the book has signs around these numbers; list those that the file has, as file: {signs: ["€", "%"]}'
_ALTERNATIVES = re.compile(r"\^?\(?[\w .,/-]+(?:\|[\w .,/-]+)+\)?\$?")  # values, as a regular expression
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[a-z]{2})?")  # en, enus
_OF_TIMES = ("date", "datetime", "time", "boolean", "yearmonth")
_WORDS = ("valuelabels", "labels", "enumlabels", "enumnames", "enumdescriptions", "categorylabels", "levellabels",
          "xenumnames", "xenumdescriptions", "xenumvarnames")  # fmt: skip
_USUAL = {"date": ISO, "datetime": ISO_TIME, "yearmonth": "%Y-%m"}  # layouts of the Table Schema


def fields_of(
    fields: Any,
    missing: Any,
    required: Collection[str] | None = None,
    lists: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Entry]:
    """The entries of fields.

    Args:
        fields: a list of them, or a mapping from names.
        missing: values of all of them that stand for absent cells, as the Table Schema has them.
        required: columns that every row has; None where the book has no such list.
        lists: lists of codes that fields name.
    """
    pairs = fields.items() if isinstance(fields, dict) else ((None, each) for each in fields)
    for name, field in pairs:
        field = field if isinstance(field, dict) else {"description": field if isinstance(field, str) else ""}
        found = {plain(str(key)): value for key, value in field.items()}
        name = name or name_of(field)
        if required is not None and not isinstance(found.get("required"), bool):
            found["required"] = name in required
        for key in CALLED["choices"]:
            if isinstance(named := found.get(key), str) and named in lists:
                found[key] = lists[named]
        yield _field(str(name), found, missing)


def name_of(field: Any) -> str:
    """What a field says that it is called; empty where it says nothing."""
    found = {plain(str(key)): value for key, value in field.items()} if isinstance(field, dict) else {}
    return next((found[key] for key in (*CALLED["name"], "id") if isinstance(found.get(key), str)), "")


def on_the_web(columns: list[Any], null: Any) -> Iterator[Entry]:
    """Columns as CSV on the Web describes them: by their names and, as a file's header has them, by their titles."""
    described = [each for each in columns if isinstance(each, dict) and not each.get("virtual")]
    names = {each["name"] for each in described if isinstance(each.get("name"), str)}
    for each in described:
        titles = each.get("titles", [])
        titles = next(iter(titles.values()), []) if isinstance(titles, dict) else titles
        headers = [title for title in (titles if isinstance(titles, list) else [titles]) if isinstance(title, str)]
        kind = each.get("datatype", "string")
        kind = kind if isinstance(kind, dict) else {"base": kind}
        absent = each.get("null", null)
        field: dict[str, Any] = {
            "type": kind.get("base", "string"),
            "minimum": kind.get("minimum", kind.get("minInclusive")),
            "maximum": kind.get("maximum", kind.get("maxInclusive")),
            "description": next((text for key in ("dc:description", "rdfs:label", "dc:title")
                                 if isinstance(text := each.get(key), str)), ""),
            "missingvalues": absent if isinstance(absent, list) else [] if absent is None else [absent],
            "constraints": {"required": each.get("required") is True},
        }  # fmt: skip
        form = kind.get("format")
        if isinstance(form, str) and _ALTERNATIVES.fullmatch(form):
            field["enum"] = re.split(r"\|", form.strip("^$()"))
        elif isinstance(form, str) and field["type"] == "boolean":
            field |= {f"{word}values": [raw] for word, raw in zip(("true", "false"), form.split("|"), strict=False)}
        elif isinstance(form, str) and field["type"] in _USUAL:
            field["format"] = form
        field["description"] = field["description"] or next(iter(headers), "")
        name = str(each.get("name") or next(iter(headers), ""))
        entry = _field(name, field, None)
        yield entry
        yield from (replace(entry, name=title.strip(), implied=True) for title in headers if title not in names)


def _field(name: str, field: Mapping[str, Any], missing: Any) -> Entry:
    given = field.get("constraints")
    limits: dict[Any, Any] = given if isinstance(given, dict) else {}
    field = {**field, **{str(key).lower(): value for key, value in limits.items()}}

    def first(what: str) -> Any:
        return next((field[key] for key in CALLED[what] if field.get(key) not in (None, "")), None)

    label = next((field[key] for key in ("title", *CALLED["label"]) if isinstance(field.get(key), str)), "")
    kinds = first("type")
    kinds = [each for each in kinds if each != "null"] if isinstance(kinds, list) else [kinds or ""]
    kind = str(kinds[0]).lower() if kinds else ""
    field = _united(field)
    listed, lower, upper = _worded(field) or field.get("enum") or first("choices"), first("lower"), first("upper")
    between = first("bounds")
    if isinstance(between, list) and len(between) == 2:
        lower, upper = (between[at] if end is None else end for at, end in enumerate((lower, upper)))
    elif isinstance(between, dict) and listed:
        limit = {str(key).lower(): end for key, end in between.items()}
        lower, upper = limit.get("min", lower), limit.get("max", upper)
    elif between is not None and not listed:
        listed = between
    lower, upper = (None if isinstance(end, dict | list) else end for end in (lower, upper))
    lower, upper = (bound_in(end) if isinstance(end, str) else end for end in (lower, upper))
    codes: list[tuple[object, object]] = []
    beside: list[tuple[object, object]] = []
    if isinstance(listed, dict):
        inner = {str(key).lower(): value for key, value in listed.items()}
        ends = inner.get("min", lower), inner.get("max", upper)
        lower, upper = (None if isinstance(end, dict | list) else end for end in ends)
        pairs = [(str(key), value) for key, value in listed.items() if str(key).lower() not in ("min", "max")]
        codes = [*turned(pairs)] if all(isinstance(value, str | int) for _, value in pairs) else [*pairs]
        flagged = [(str(key), value) for key, value in listed.items() if isinstance(value, dict)]
        if flagged:
            codes = [(raw, _worded_by(words)) for raw, words in codes]
            beside = [(raw, _worded_by(value) or "missing") for raw, value in flagged if value.get("missing") is True]
    elif isinstance(listed, list):
        codes = _pairs(listed)
    elif isinstance(listed, str):
        found, low, high = listed_in(listed)
        codes, lower, upper = [*found], low if lower is None else lower, high if upper is None else upper
    if not codes and (lower, upper, between) == (None, None, None) and kind not in _OF_TIMES:
        label, of_label = apart(label)  # where the label is all there is
        if of_label:
            found, lower, upper = listed_in(of_label)
            codes = [*found]
    codes = _with_words(codes, field)
    given = first("beside") if first("beside") is not listed else None
    if given is None and isinstance(field.get("missing"), list | dict):  # a number there may count them
        given = field["missing"]
    kept = next((each for each in map(_listed, (given, missing)) if each is not None), [])
    # What a CSV file has for an absent cell is none of its values.
    required = field.get("required")
    kept = [] if given is None and required is True else kept  # a table's missing values are none of such a column
    absent = [(raw, words or "missing") for raw, words in map(_pair, kept) if words or raw not in ABSENT]
    absent += beside
    said = [field[key] for key in CALLED["absent"] if isinstance(field.get(key), bool | str)]
    lacks = any(each if isinstance(each, bool) else absent_in(each)[0] for each in said)
    required = False if lacks or "null" in _list(first("type")) else required
    if field.get("unique") is True or field.get("primarykey") is True or kind in ("identifier", "id"):
        return Entry(name, label, identifier=True)
    may_lack = required is False or (required is not True and len(absent) < len(kept))
    dated = field.get("format") if kind in ("", "string") else None  # of JSON Schema
    typed = DATE.fullmatch(kind)
    if (
        usual := _USUAL.get(kind)
        or (typed and ISO)
        or _USUAL.get(str(dated).replace("-", ""))
        or (ISO if not kind and like_dates(lower, upper) else None)
    ):
        layout = next((field[key] for key in CALLED["format"] if isinstance(field.get(key), str)), "")
        layout = "" if dated in ("date", "date-time") else layout or (typed[2] if typed else "")
        return of_dates(Entry.of(name, label, missing=may_lack, absent=absent), lower, upper, layout, usual)
    if kind == "time":
        return replace(Entry.of(name, label, missing=may_lack), remark=TIME_OF_DAY)
    if kind == "boolean" and not codes:
        spellings = {word: _list(field.get(f"{word}values")) for word in ("true", "false")}
        return of_truth(name, label, spellings, may_lack, absent)
    ordered = field.get("categoriesordered") is True
    words = (kind, str(first("measure")))
    decimals = _decimals(first("decimals"), field.get("multipleof"), first("format"), kind)
    step = field.get("multipleof")
    whole = False if isinstance(step, float) and not step.is_integer() else None
    entry = of_kind(
        name,
        label,
        codes,
        (lower, upper),
        words,
        missing=may_lack,
        absent=absent,
        whole=whole,
        ordered=ordered,
        decimals=decimals,
    )
    return _as_written(entry, field) if entry.type == "number" else entry


def _pairs(listed: list[Any]) -> list[tuple[object, object]]:
    """The values of a list: texts such as "1 - Yes" have words, if all of them do."""
    if len(listed) > 1 and all(isinstance(each, str) and "\n" not in each for each in listed):
        found, lower, _ = listed_in("\n".join(listed))
        if lower is None and len(found) == len(listed) and any(words for _, words in found):
            return [*found]
    return [_pair(each) for each in listed]


def _with_words(codes: list[tuple[object, object]], field: Mapping[str, Any]) -> list[tuple[object, object]]:
    """Values with the words that a mapping or list beside them has, unless they have their own."""
    for words in (field[key] for key in _WORDS if isinstance(field.get(key), dict | list)):
        if codes and not any(said for _, said in codes):
            if isinstance(words, dict):
                by_raw = {str(raw): said for raw, said in words.items()}
                codes = [(raw, by_raw.get(str(raw), "")) for raw, _ in codes]
            elif len(words) == len(codes) and all(isinstance(said, str) for said in words):
                codes = [(raw, said) for (raw, _), said in zip(codes, words, strict=True)]
    return codes


def _united(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field of JSON Schema with its alternatives in one: a range, codes beside it, and null for absent cells."""
    listed = next((field[key] for key in ("oneof", "anyof") if isinstance(field.get(key), list)), None)
    if listed is None or not all(isinstance(each, dict) for each in listed):
        return field
    ranges = [each for each in listed if "const" not in each and "enum" not in each and each.get("type") != "null"]
    others = [each for each in listed if each not in ranges and each.get("type") != "null"]
    consts = [{"value": raw, **each} if "enum" in each else each for each in others
              for raw in (each["enum"] if isinstance(each.get("enum"), list) else [None])]  # fmt: skip
    rest = {key: value for key, value in field.items() if key not in ("oneof", "anyof")}
    rest |= {"required": False} if len(ranges) + len(others) < len(listed) else {}
    if not ranges:
        return {**rest, "values": consts}
    if len(ranges) > 1:
        return field
    return {**{plain(str(key)): value for key, value in ranges[0].items()}, **rest, "missingcodes": consts}


def _worded(field: Mapping[str, Any]) -> Any:
    """Of several lists of values, one that has words for all of the enumeration's."""
    enum = field.get("enum")
    lists = (field[key] for key in CALLED["choices"] if key != "enum" and field.get(key))
    if not isinstance(enum, list):
        return None
    for each in lists:
        raw = [*map(str, each)] if isinstance(each, dict) else [str(_pair(one)[0]) for one in _list(each)]
        if {*map(str, enum)} <= {*raw} and (isinstance(each, dict) or any(_pair(one)[1] for one in each)):
            return each
    return None


def _as_written(entry: Entry, field: Mapping[str, Any]) -> Entry:
    """With what the Table Schema says of how numbers are written: decimalChar, groupChar, bareNumber."""
    named = (("decimal", "decimalchar"), ("thousands", "groupchar"))
    given = [(key, field[name]) for key, name in named if isinstance(field.get(name), str) and len(field[name]) == 1]
    remark = _SIGNS if field.get("barenumber") is False and not entry.remark else entry.remark
    return replace(entry, file=tuple(given), remark=remark)


def _decimals(counted: Any, step: Any, *forms: Any) -> float | None:
    """How many decimals a field's numbers have: as counted, by the step of JSON Schema's multipleOf, or by a format."""
    if counted is not None:
        return None if isinstance(counted, bool | list | dict) else number_in(counted)
    if isinstance(step, int | float) and not isinstance(step, bool) and 0 < step < inf:
        return decimals_of(str(step))
    return next((found for form in forms if (found := decimals_in(str(form or ""))) is not None), None)


def _listed(absent: Any) -> list[Any] | None:
    """Missing values as a list: of a list, a mapping to their words, or texts such as "-9=refused; -8"."""
    if isinstance(absent, dict):
        return [{"value": raw, "label": words} for raw, words in absent.items()]
    if isinstance(absent, str | int | float) and not isinstance(absent, bool):
        found = beside_in(str(absent))
        return [{"value": raw, "label": words} for raw, words in found]
    return absent if isinstance(absent, list) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pair(listed: Any) -> tuple[object, object]:
    """A value of a list: itself, or a mapping that has its words."""
    if not isinstance(listed, dict):
        return listed, ""
    inner = {str(key).lower(): value for key, value in listed.items()}
    at = next((key for key in ("const", "value", "code", "key", "id", "name") if key in inner), "")
    words = _worded_by({key: value for key, value in inner.items() if key != at})
    return inner.get(at, ""), words


def _worded_by(value: Any) -> object:
    """The words of a value: itself, or of a mapping those that it has for it; of several languages the first."""
    if not isinstance(value, dict):
        return value
    inner = {plain(str(key)): words for key, words in value.items()}
    said = next((inner[key] for key in (*CALLED["words"], *CALLED["label"], "name", "text") if key in inner), None)
    if said is None and inner and all(isinstance(words, str) for words in inner.values()):
        return next(iter(inner.values())) if all(map(_LANGUAGE.fullmatch, inner)) else ""
    return _worded_by(said) if isinstance(said, dict) else "" if said is None else said
