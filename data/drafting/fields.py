"""Fields of JSON and YAML code books: Frictionless Table Schema, JSON Schema, CSV on the Web, and others like these."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import Any

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME, TIME_OF_DAY
from equistrata.data.drafting.cells.choices import listed_in, turned
from equistrata.data.drafting.cells.mapped import (
    ALTERNATIVES,
    absent_of,
    alternatives,
    list_of,
    pair_of,
    pairs_of,
    united,
    with_words,
    worded,
    words_of,
)
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import CALLED, plain
from equistrata.data.drafting.spans import bound_in
from equistrata.data.drafting.terms import (
    DATE,
    absent_in,
    apart,
    decimals_in,
    decimals_of,
    formats_in,
    like_dates,
    of_dates,
    of_kind,
    of_truth,
)

_SIGNS = 'the book has signs around these numbers; list those that the file has, as file: {signs: ["€", "%"]}'
_ENDS = (("min", "minimum", "from", "lower"), ("max", "maximum", "to", "upper"))  # of a mapping that is a range
_LIMITS = ("constraints", "logicaltypeoptions")  # in which a field has more of its keys
_ABOUT = ("kind", "type", "unit", "units", "description", "inclusive")  # what such a mapping says besides
_OF_TIMES = ("date", "datetime", "time", "boolean", "yearmonth")
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
        if isinstance(form, str) and ALTERNATIVES.fullmatch(form):
            field["enum"] = alternatives(form)
        elif isinstance(form, str) and field["type"] == "boolean":
            field |= {f"{word}values": [raw] for word, raw in zip(("true", "false"), form.split("|"), strict=False)}
        elif isinstance(form, str) and field["type"] in _USUAL:
            field["format"] = form
        field["description"] = field["description"] or next(iter(headers), "")
        name = str(each.get("name") or next(iter(headers), ""))
        entry = _field(name, field, None)
        yield entry
        yield from (replace(entry, name=title.strip(), implied=True) for title in headers if title not in names)


@dataclass
class _Listed:
    """What a field lists: codes, those that are no value, and bounds."""

    codes: list[tuple[object, object]] = dataclasses.field(default_factory=list)
    beside: list[tuple[object, object]] = dataclasses.field(default_factory=list)
    lower: Any = None
    upper: Any = None


def _first(field: Mapping[str, Any], what: str) -> Any:
    return next((field[key] for key in CALLED[what] if field.get(key) not in (None, "")), None)


def _field(name: str, field: Mapping[str, Any], missing: Any) -> Entry:
    limits = (field.get(key) for key in _LIMITS)
    within = {str(key).lower(): value for each in limits if isinstance(each, dict) for key, value in each.items()}
    field = united({**field, **within})
    label = next((field[key] for key in ("title", *CALLED["label"]) if isinstance(field.get(key), str)), "")
    kinds = _first(field, "type")
    kinds = [each for each in kinds if each != "null"] if isinstance(kinds, list) else [kinds or ""]
    kind = str(kinds[0]).lower() if kinds else ""
    found = _listed_by(field)
    if not found.codes and (found.lower, found.upper, _first(field, "bounds")) == (None, None, None):
        label, of_label = apart(label) if kind not in _OF_TIMES else (label, "")  # where the label is all there is
        if of_label:
            codes, found.lower, found.upper = listed_in(of_label)
            found.codes = [*codes]
    if field.get("unique") is True or field.get("primarykey") is True or kind in ("identifier", "id"):
        return Entry(name, label, identifier=True)
    found.codes = with_words(found.codes, field)
    may_lack, absent = _absent(field, missing)
    return _typed(name, label, field, kind, found, may_lack, [*absent, *found.beside])


def _listed_by(field: Mapping[str, Any]) -> _Listed:
    """The codes and bounds under a field's keys for them."""
    pattern = field.get("pattern")
    of_pattern = pattern if isinstance(pattern, str) and ALTERNATIVES.fullmatch(pattern) else ""
    listed = worded(field) or field.get("enum") or _first(field, "choices") or alternatives(of_pattern)
    found = _Listed(lower=_first(field, "lower"), upper=_first(field, "upper"))
    between = _first(field, "bounds")
    if isinstance(between, list) and len(between) == 2:
        found.lower, found.upper = (
            between[at] if end is None else end for at, end in enumerate((found.lower, found.upper))
        )
    elif isinstance(between, dict) and listed:
        _take_ends(found, between)
    elif between is not None and not listed:
        listed = between
    found.lower, found.upper = map(_bound, (found.lower, found.upper))
    if isinstance(listed, dict) and (lists := [each for each in listed.values() if isinstance(each, list)]):
        listed = lists[0] if len(lists) == 1 else None  # {kind: enumerated, members: [...]}
    if isinstance(listed, dict):
        _take_mapping(found, listed)
    elif isinstance(listed, list):
        found.codes = pairs_of(listed)
    elif isinstance(listed, str):
        codes, low, high = listed_in(listed)
        found.codes, found.lower = [*codes], low if found.lower is None else found.lower
        found.upper = high if found.upper is None else found.upper
    return found


def _bound(end: Any) -> Any:
    return None if isinstance(end, dict | list) else bound_in(end) if isinstance(end, str) else end


def _take_ends(found: _Listed, limits: Mapping[Any, Any]) -> None:
    """Take bounds from a mapping that has them."""
    inner = {str(key).lower(): _bound(end) for key, end in limits.items()}
    found.lower = next((inner[key] for key in _ENDS[0] if inner.get(key) is not None), found.lower)
    found.upper = next((inner[key] for key in _ENDS[1] if inner.get(key) is not None), found.upper)


def _take_mapping(found: _Listed, listed: Mapping[Any, Any]) -> None:
    """Take codes and bounds from a mapping: of values to words, or to what is said of each."""
    _take_ends(found, listed)
    none = {*_ENDS[0], *_ENDS[1], *_ABOUT}
    pairs = [(str(key), value) for key, value in listed.items() if str(key).lower() not in none]
    found.codes = [*turned(pairs)] if all(isinstance(value, str | int) for _, value in pairs) else [*pairs]
    flagged = [(raw, value) for raw, value in pairs if isinstance(value, dict)]
    if flagged:
        found.codes = [(raw, words_of(words)) for raw, words in found.codes]
        found.beside = [(raw, words_of(value) or "missing") for raw, value in flagged if value.get("missing") is True]


def _absent(field: Mapping[str, Any], missing: Any) -> tuple[bool, list[tuple[object, object]]]:
    """Whether cells may be absent, and the codes that say so."""
    given = _first(field, "beside")
    given = None if given is _first(field, "choices") else given
    if given is None and isinstance(field.get("missing"), list | dict):  # a number there may count them
        given = field["missing"]
    kept = next((each for each in map(absent_of, (given, missing)) if each is not None), [])
    # What a CSV file has for an absent cell is none of its values.
    required = field.get("required")
    kept = [] if given is None and required is True else kept  # a table's missing values are none of such a column
    absent = [(raw, words or "missing") for raw, words in map(pair_of, kept) if words or raw not in ABSENT]
    said = [field[key] for key in CALLED["absent"] if isinstance(field.get(key), bool | str)]
    lacks = any(each if isinstance(each, bool) else absent_in(each)[0] for each in said)
    required = False if lacks or "null" in list_of(_first(field, "type")) else required
    return required is False or (required is not True and len(absent) < len(kept)), absent


def _typed(
    name: str,
    label: str,
    field: Mapping[str, Any],
    kind: str,
    found: _Listed,
    may_lack: bool,
    absent: list[tuple[object, object]],
) -> Entry:
    """The entry of a field by its type."""
    ends = found.lower, found.upper
    dated = field.get("format") if kind in ("", "string") else None  # of JSON Schema
    typed = DATE.fullmatch(kind)
    if (
        usual := _USUAL.get(kind)
        or (typed and ISO)
        or _USUAL.get(str(dated).replace("-", ""))
        or (ISO if not kind and like_dates(*ends) else None)
    ):
        layout = next((field[key] for key in CALLED["format"] if isinstance(field.get(key), str)), "")
        layout = "" if dated in ("date", "date-time") else layout or (typed[2] if typed else "")
        layout = formats_in(layout)[0] or layout or formats_in(label)[0]
        return of_dates(Entry.of(name, label, missing=may_lack, absent=absent), *ends, layout, usual)
    if kind == "time":
        return replace(Entry.of(name, label, missing=may_lack), remark=TIME_OF_DAY)
    if kind in ("boolean", "bool", "logical") and not found.codes:
        spellings = {word: list_of(field.get(f"{word}values")) for word in ("true", "false")}
        return of_truth(name, label, spellings, may_lack, absent)
    step = field.get("multipleof")
    entry = of_kind(
        name,
        label,
        found.codes,
        ends,
        (kind, str(_first(field, "measure"))),
        missing=may_lack,
        absent=absent,
        whole=False if isinstance(step, float) and not step.is_integer() else None,
        ordered=field.get("categoriesordered") is True,
        decimals=_decimals(_first(field, "decimals"), step, _first(field, "format"), kind),
    )
    return _as_written(entry, field) if entry.type == "number" else entry


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
