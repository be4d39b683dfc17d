"""Conversion of the specification of a column in a schema file to a `Column`.

The specification is a mapping that was read from YAML. If it is not valid, an InputError describes the fault. The
parameter `here` of all functions is the start of this message, and it names the place in the schema file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from math import ceil, floor
from typing import Any, get_args

import numpy as np

from equistrata.data.columns import dates
from equistrata.data.columns.column import (
    OTHER,
    OWN_CATEGORY,
    Column,
    Type,
    Value,
    number_in,
    plain_text,
    stated_scale,
    writable,
)
from equistrata.data.columns.nesting import BETWEEN, pairs
from equistrata.data.columns.raw import exact_number
from equistrata.errors import InputError

TAKEN, CONFIRMED, OPEN = "taken_from_rows", "confirmed", "open"
MOST_WHOLE = 2**53  # all whole numbers up to this one are exact in floating point
MOST_INTEGER = 2**63 - 1  # the largest integer of 64 bits
MOST_CODES = 10_000  # per column: a marginal of two columns then has at most 10⁸ cells
MOST = f"the maximum is {MOST_CODES:,}, so merge some of them or declare bins"
_QUOTE = 'YAML reads yes, no, on, off, true and false without quotes as truth values, so quote them: "yes"'
_UNWRITABLE = "has a carriage return in {!r}, which cannot be read back from a CSV file; remove it"
_TIMES = ("time", "time of day", "timeofday")  # the names of a time of day in other schema formats
_OF_DATES = ("format", "every")
_NOT_OF_DATES = ("values", "integer", "release", "sigma", "mean", "scale", "decimals", "positive")
_OWN = {"name", "splits", "layout", "also", "open", "parts", "joined", "bounds_apart"}
COLUMN_KEYS = {each.name for each in fields(Column)} - _OWN | {*_OF_DATES, TAKEN}


def column_of(name: str, spec: Any, here: str) -> Column:
    """Return the column that a schema file declares.

    Parameters
    ----------
    name : str
        The name of the column.
    spec : mapping
        The specification of the column in the schema file.
    here : str
        The start of each error message.

    Returns
    -------
    Column
        The declared column.

    Raises
    ------
    InputError
        If the specification is not valid.
    """
    need(here, isinstance(spec, dict), "needs a mapping with 'values' or with 'lower' and 'upper'")
    refuse_unknown(spec, COLUMN_KEYS, here)
    public = f"is marked as {TAKEN!r}; compare it with public facts, correct it, and run equistrata schema confirm"
    need(here, not spec.get(TAKEN), f"{public}, or list the column under {CONFIRMED!r}")
    kind = spec.get("type")
    times = kind in _TIMES or (
        kind == "date" and any(map(dates.is_time_of_day, (spec.get("lower"), spec.get("upper"))))
    )
    need(here, not times, f"has {dates.TIME_OF_DAY}")
    need(here, kind is None or kind in get_args(Type), f"needs 'type' to be {', '.join(get_args(Type))}")
    if kind == "date":
        spec = _in_days(spec, here)
    only_dates = next((key for key in _OF_DATES if key in spec and kind != "date"), None)
    need(here, not only_dates, f"has {only_dates!r}, which is only allowed for dates; add 'type: date' or remove it")
    need(here, "within" not in spec or "values" in spec, "has 'within', which needs 'values'")
    one_kind = ("values" in spec) != ("lower" in spec and "upper" in spec)
    need(here, one_kind, "needs either 'values' (categorical) or 'lower' and 'upper' (numeric), not both")
    of_values = kind in ("nominal", "ordinal")
    fits = kind is None or of_values == ("values" in spec)
    needed = "'values'" if of_values else "'lower' and 'upper'"
    need(here, fits, f"is declared as {kind}, which needs {needed}")
    reads = _nested if "within" in spec else {OPEN: _open}.get(str(spec.get("values")), _categorical)
    sigma, read = spec.get("sigma"), reads if "values" in spec else _numeric
    settings = read(spec, here)
    need(here, sigma is None or (is_number(sigma) and sigma > 0), "needs 'sigma' to be a positive number")
    sigma = None if sigma is None else float(sigma)
    words, missing = text_of(spec, "label", here), spec.get("missing")
    return _with_positive(Column(name, words, missing=missing, sigma=sigma, type=kind, **settings), spec, here)


def _with_positive(column: Column, spec: Mapping[str, Any], here: str) -> Column:
    """Return a copy of the column with the value of 'positive' in the specification, if there is one."""
    positive = spec.get("positive")
    if positive is None:
        return column
    need(here, not column.open, "has 'values: open', so 'positive' cannot name one of its values; remove 'positive'")
    need(here, column.release != "index", "has 'release: index', so it cannot have 'positive'; remove one of them")
    need(here, column.integer or not column.fine, "has 'positive', which also needs 'edges' or 'integer: true'")
    column = replace(column, positive=positive)
    text = isinstance(positive, str) if column.numeric else not isinstance(positive, bool)
    try:
        need(here, text and column.codes_of(positive), "")
    except InputError:
        among = "one of its 'edges'" if column.edges else "a number between its bounds"
        needed = f"the numbers above {among}, such as '>50000'" if column.numeric else "one of its values"
        raise InputError(f"{here} needs 'positive' to be {needed}") from None
    return column


def _in_days(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    """Convert the specification of a column of dates to the specification of a column of whole days."""
    extra = next((key for key in _NOT_OF_DATES if key in spec), None)
    need(here, not extra, f"has {extra!r}, which is not allowed for dates; remove it")
    given, every = spec.get("format", dates.ISO), spec.get("every")
    layout, *also = given if isinstance(given, list) and given else [given]
    need(here, every is None or every in dates.EVERY, f"needs 'every' to be {', '.join(dates.EVERY)}")
    need(here, every is None or "edges" not in spec, "has both 'every' and 'edges'; declare one of them")
    listed = spec.get("edges") or []
    found = [
        dates.day_in(text)
        for text in (spec.get("lower"), spec.get("upper"), *(listed if isinstance(listed, list) else [None]))
    ]
    days = [day for day in found if day is not None]
    need(here, len(days) == len(found), "needs 'lower', 'upper' and 'edges' as dates, such as \"2024-12-31\"")
    lower, upper, *edges = days
    need(here, lower < upper, "needs 'lower' to be before 'upper'")
    need(here, upper <= dates.LAST, "needs 'upper' to be before the year 9999")
    back = all(isinstance(each, str) and dates.round_trips(day, each) for each in (layout, *also) for day in days[:2])
    need(here, back, "needs a 'format' in which its bounds can be written and read back, such as \"%d.%m.%Y\"")
    apart = len({layout, *also}) == 1 + len(also) and dates.told_apart([layout, *also], lower, upper)
    need(here, apart, "has two formats in 'format' that read the same text as different dates; use only one of them")
    if every:
        edges = list(dates.calendar_edges(lower, upper, every))
    missing = spec.get("missing")
    coded = isinstance(spec.get("codes"), dict) and missing in spec["codes"]
    day = None if missing in (None, OWN_CATEGORY) or coded else dates.day_in(missing)
    plain = {key: value for key, value in spec.items() if key not in _OF_DATES}
    return plain | {
        "lower": lower,
        "upper": upper,
        "edges": edges,
        "missing": missing if day is None else day,
        "integer": True,
        "layout": layout,
        "also": also,
    }


def _open(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    extra = next((key for key in ("recode", "labels", "codes") if key in spec), None)
    need(here, not extra, f"has {extra!r}, which is only allowed if 'values' is a list; remove it, or list the values")
    need(here, spec.get("type") != "ordinal", "has 'values: open', so its values have no order; remove 'type: ordinal'")
    others, missing = spec.get("others", OTHER), spec.get("missing")
    for key, name in (("others", others), ("missing", missing)):
        plain = name is None or (isinstance(name, str) and writable(name))
        need(here, plain, f"needs {key!r} to be a short text in quotes")
    need(here, others is not None, "needs a name for rare values in 'others'; remove this key to call them 'other'")
    return {"others": others, "open": True}


def _categorical(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    values = spec["values"]
    need(here, isinstance(values, list) and values, "needs 'values' to be a list of distinct values")
    need(here, "codes" not in spec, "has both 'values' and 'codes'; list the codes under 'values'")
    text = all(isinstance(value, str) for value in values)
    need(here, not any(isinstance(value, bool) for value in values), f"has truth values in 'values'; {_QUOTE}")
    need(
        here,
        text or all(map(is_number, values)),
        "has both numbers and texts among 'values'; make all of them numbers or all quoted texts",
    )
    blank = next((value for value in values if text and not value.strip()), None)
    need(here, blank is None, "has a blank among 'values', which means a missing cell; declare 'missing' instead")
    need(here, not any(map(_unwritable, values)), _UNWRITABLE.format("values"))
    most = MOST_INTEGER if all(isinstance(value, int) for value in values) else MOST_WHOLE - 1
    need(
        here,
        text or max(map(abs, values)) <= most,
        "has numbers among 'values' that have too many digits to be exact; quote all values as texts",
    )
    # The values in the form in which they are compared with rows.
    distinct, compared = set(values), set(values if text else map(exact_number, values))
    need(here, len(compared) == len(values), "needs 'values' to be a list of distinct values")
    need(here, len(values) <= MOST_CODES, f"has {len(values):,} values; {MOST}")
    recode, others = spec.get("recode") or {}, spec.get("others")
    need(here, isinstance(recode, dict), "needs 'recode' to be a mapping from raw to released values")
    for key, value in [*recode.items(), ("others", others), ("missing", spec.get("missing"))]:
        known = isinstance(value, Hashable) and value in distinct and not isinstance(value, bool)
        need(
            here,
            known or (value is None and key not in recode),
            f"maps {key!r} to {value!r}, which is not one of its values" + f"; {_QUOTE}" * isinstance(value, bool),
        )
    numeric = all(isinstance(key, str) or is_number(key) for key in recode)
    truth = f"; {_QUOTE}" * any(isinstance(key, bool) for key in recode)
    need(here, numeric, f"needs the keys of 'recode' to be numbers or quoted text{truth}")
    need(here, len({*map(plain_text, recode)}) == len(recode), "has the same key twice in 'recode'; keep one")
    clear = {*values} if not recode or others is None else {*recode, others}
    unclear = next((repr(value) for value in values if value not in clear), "")
    need(here, not unclear, f"does not say which value a raw {unclear} becomes; list it in 'recode'")
    labels = spec.get("labels") or {}
    texts = isinstance(labels, dict) and all(isinstance(words, str) for words in labels.values())
    need(here, texts, "needs 'labels' to be a mapping from values to quoted words")
    for value in labels:
        truth = f"; {_QUOTE}" * isinstance(value, bool)
        need(here, value in distinct, f"has a label for {value!r}, which is not one of its values{truth}")
    pairs = {name: tuple(given.items()) for name, given in (("recode", recode), ("labels", labels))}
    return {"values": tuple(values), "others": others, **pairs}


def _nested(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    extra = next((key for key in ("recode", "others", "missing", "codes") if key in spec), None)
    need(here, not extra, f"has {extra!r}, which is not allowed for a column with 'within'; remove it")
    within = spec["within"] if isinstance(spec["within"], list) else [spec["within"]]
    names = within and all(isinstance(name, str) and name.strip() and BETWEEN not in name for name in within)
    need(here, names and len(set(within)) == len(within), "needs 'within' to name other columns of the table")
    values, parts = pairs(spec["values"], len(within), here)
    return _categorical({**spec, "values": [*values]}, here) | {"within": tuple(within), "parts": parts}


def _numeric(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    listed = spec.get("edges") or []
    need(here, "labels" not in spec, "has 'labels', but bins are named after their edges; remove 'labels'")
    numbers = [spec["lower"], spec["upper"], *(listed if isinstance(listed, list) else [None])]
    layout = str(spec.get("layout", ""))
    need(here, all(map(is_number, numbers)), "needs finite numbers as 'lower', 'upper' and 'edges'")
    lower, upper, *edges = (float(x) for x in numbers)
    need(here, lower < upper, "needs 'lower' to be less than 'upper'")
    if spec.get("integer") is True and not layout:
        need(here, ceil(lower) <= floor(upper), "has no whole number between 'lower' and 'upper'; widen these bounds")
        most = f"has bounds beyond {MOST_WHOLE:,}, where whole numbers are not exact; choose narrower bounds"
        need(here, max(abs(lower), abs(upper)) <= MOST_WHOLE, most)
    need(here, len(edges) <= MOST_CODES + 1, f"has {len(edges) - 1:,} bins; {MOST}")
    if edges:
        ascending = len(edges) > 1 and sorted(set(edges)) == edges
        need(here, ascending, "needs 'edges' to be at least two ascending numbers")
        reach = edges[0] <= lower and edges[-1] >= upper
        need(here, reach, "has 'edges' that do not reach from 'lower' to 'upper'; add the missing edges")
        inside = edges[1] >= lower and edges[-2] < upper
        need(here, inside, "has a bin that lies outside 'lower' and 'upper'; remove its edge")
    release, missing, integer = spec.get("release", "draw"), spec.get("missing"), spec.get("integer", False)
    need(here, release in ("index", "draw", "midpoint"), "needs 'release' to be index, draw or midpoint")
    need(here, edges or release != "index", "has 'release: index', which needs 'edges'")
    also = tuple(spec.get("also", ()))
    meant = partial(_day_in_any, layouts=(layout, *also)) if layout else number_in
    codes = _sentinels(spec, (lower, upper), max(len(edges) - 1, 0) if release == "index" else 0, here, meant)
    fits = missing in (None, OWN_CATEGORY, *(raw for raw, _ in codes))
    fits = fits or (missing is not None and is_number(missing) and lower <= missing <= upper)
    need(
        here,
        fits,
        f"needs 'missing' to be 'own' or a {'date' if layout else 'number'} between its bounds"
        + ", or one of 'codes'" * bool(codes),
    )
    need(here, isinstance(integer, bool), "needs 'integer' to be true or false")
    if edges and integer and release == "draw":
        ends = pairwise([np.ceil(lower) - 1, *map(np.floor, edges[1:-1]), np.floor(upper)])
        whole = all(low < high for low, high in ends)
        need(here, whole, "has 'integer: true', but one of its bins contains no whole number; widen that bin")
    scale = spec.get("scale")
    need(here, scale in (None, "linear", "logarithmic"), "needs 'scale' to be linear or logarithmic")
    need(here, not (scale and edges), "has both 'scale' and 'edges', which both define its bins; remove one of them")
    decimals = spec.get("decimals")
    counted = decimals is None or (isinstance(decimals, int) and not isinstance(decimals, bool) and 0 <= decimals <= 15)
    need(here, counted, "needs 'decimals' to be a whole number from 0 to 15")
    drawn = decimals is None or (release == "draw" and not integer)
    need(here, drawn, "has 'decimals', but it does not release numbers with decimals; remove 'decimals'")
    mean = spec.get("mean")
    holds = isinstance(mean, list) and len(mean) == 2 and all(map(is_number, mean)) and mean[0] < mean[1]
    need(here, mean is None or holds, "needs 'mean' to be two ascending numbers that are certain to enclose the mean")
    return {
        "lower": lower, "upper": upper, "edges": tuple(edges), "integer": integer, "release": release,
        "mean": None if mean is None else (float(mean[0]), float(mean[1])), "codes": codes, "layout": layout,
        "also": also,
        "scale": None if edges or layout else stated_scale(lower, upper, integer, scale), "decimals": decimals,
    }  # fmt: skip


def _day_in_any(cell: Value, layouts: tuple[str, ...]) -> float | None:
    return next((day for layout in layouts if (day := dates.day_in(cell, layout)) is not None), None)


def _sentinels(
    spec: Mapping[str, Any],
    bounds: tuple[float, float],
    indices: int,
    here: str,
    meant: Callable[[Value], float | None],
) -> tuple[tuple[Value, str], ...]:
    """Return the declared 'codes'.

    A code must not be equal to a number that a bin can release, which is a number within the bounds or the index of a
    bin.
    """
    codes = spec.get("codes") or {}
    texts = isinstance(codes, dict) and all(isinstance(words, str) and words for words in codes.values())
    need(here, texts, "needs 'codes' to be a mapping from raw values to quoted words")
    known = all((isinstance(raw, str) and raw.strip()) or is_number(raw) for raw in codes)
    need(here, known, "needs the keys of 'codes' to be numbers or quoted text")
    need(here, not any(map(_unwritable, codes)), _UNWRITABLE.format("codes"))
    need(here, len(codes) + len(spec.get("edges") or []) <= MOST_CODES, f"has {len(codes):,} codes; {MOST}")
    for raw in codes:
        number = meant(raw)
        inside = number is not None and (bounds[0] <= number <= bounds[1] or number in range(indices))
        need(here, not inside, f"has the code {raw!r}, which is also a number or date of this column; remove it")
    distinct = {plain_text(raw) if (number := meant(raw)) is None else number for raw in codes}
    need(here, len(distinct) == len(codes), "has the same code twice in 'codes'; keep one of them")
    return tuple(codes.items())


def _unwritable(value: Value) -> bool:
    return isinstance(value, str) and "\r" in value


def need(here: str, holds: object, fault: str) -> None:
    """Raise an InputError with the message "`here` `fault`" if `holds` is false."""
    if not holds:
        raise InputError(f"{here} {fault}")


def text_of(spec: Mapping[str, Any], key: str, here: str) -> str:
    """Return the value of a key as a text, or an empty text if there is no value.

    Parameters
    ----------
    spec : mapping
        The specification of a column.
    key : str
        The key of the text. A number is converted to a text.
    here : str
        The start of the error message.

    Raises
    ------
    InputError
        If the value is not a text or a number.
    """
    value = spec.get(key)
    need(here, value is None or isinstance(value, str | int | float), f"needs {key!r} to be a text")
    return "" if value is None else str(value)


def is_number(value: Any) -> bool:
    """Return True if a value from YAML is a finite number and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def refuse_unknown(spec: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise an InputError if a mapping has an unknown key, because a misspelled key would otherwise be ignored."""
    unknown = sorted(str(key) for key in spec if key not in known)
    if unknown:
        raise InputError(f"{where} has the unknown key {unknown[0]!r}; known keys are {', '.join(sorted(known))}")
