"""Combinations that cannot occur: rules on values as a schema declares them, and the codes that they rule out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from equistrata.data.columns import dates
from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.data.columns.declared import MOST, MOST_CODES, need
from equistrata.data.ranges import FORMS, Bins, Range
from equistrata.data.rules import some_row
from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.data.schema import Schema

_DATE_FORMS = "'<2020-02-01', '>=2020-02-01', '2020-02-01 to 2020-02-29' (both ends in) or '2020-02-29'"


@dataclass(frozen=True)
class Impossible:
    """A structural zero: no person has, in every one of `columns`, one of the listed `codes`."""

    columns: tuple[str, ...]
    codes: tuple[tuple[int, ...], ...]


def ruled(schema: Schema, entries: Sequence[Any], here: str) -> Schema:
    """The schema with the structural zeros that its rules make, and with bins cut where a rule's range ends."""
    rules = [_rule(schema, entry, here) for entry in entries]
    cut = {name: list[Range]() for rule in rules for name in rule}
    for rule in rules:
        for name, listed in rule.items():
            cut[name] += [each for each in listed if not isinstance(each, int)]
    columns = tuple(_cut(column, cut.get(column.name, []), here) for column in schema.columns)
    ruled, zeros = replace(schema, columns=columns), []
    for rule in rules:
        codes = {name: _codes_of(listed, schema[name], ruled[name]) for name, listed in rule.items()}
        all_of = all(len(each) == ruled[name].size for name, each in codes.items())
        need(here, not all_of, f"rules out every value of {', '.join(codes)}; leave one possible")
        zeros.append(Impossible(tuple(codes), tuple(codes.values())))
    out = [dict(zip(zero.columns, map(frozenset, zero.codes), strict=True)) for zero in zeros]
    possible = some_row({name: ruled[name].size for zero in zeros for name in zero.columns}, out)
    need(here, possible, "has rules in 'impossible' that together leave no row possible; take one of them out")
    return replace(ruled, impossible=tuple(zeros))


def _rule(schema: Schema, entry: Any, here: str) -> dict[str, list[int | Range]]:
    """What an entry of 'impossible' lists for each of its columns: declared codes, and ranges of numbers."""
    need(here, isinstance(entry, dict) and entry, "needs each entry of 'impossible' to map columns to lists of values")
    rule = {}
    for name, values in entry.items():
        place = {key: code for code, key in enumerate(schema[name].keys)}
        listed = values if isinstance(values, list) else [values]
        rule[name] = [each for value in listed for each in _meant(schema[name], place, value, here)]
    return rule


def _meant(column: Column, place: Mapping[Value, int], value: Any, here: str) -> list[int | Range]:
    """The codes or the range that a value in a rule means: a value or a bin's index, else words, else a range."""
    out, keys = f"rules out {column.name}={value!r}, but {value!r}", column.keys
    need(here, isinstance(value, int | float | str) and not isinstance(value, bool), f"{out} is not a value or a text")
    if value in place:
        return [place[value]]
    raw = {column.bins + place: plain_text(raw) for place, (raw, _) in enumerate(column.codes)}
    words = {code: {column.words(keys[code]), raw.get(code)} for code in range(column.bins, column.size)}
    worded = [code for code, known in words.items() if value in known or plain_text(value) == raw.get(code)]
    if worded or not column.numeric:
        shown = [*map(column.words, keys[:12]), *["…"] * (len(keys) > 12)]
        need(here, worded, f"{out} is not a value of {column.name!r}; it has {', '.join(shown)}")
        return [*worded]
    need(here, isinstance(value, str), f"{out} is not one of its {column.bins} bins; quote what means numbers: {FORMS}")
    try:
        return [_bins(column).read(dates.in_days(value) if column.layout else value)]
    except (InputError, ValueError) as error:
        if column.layout:
            bounds = " and ".join(map(column.shown, column.bounds))
            raise InputError(f"{here} {out} is no range of dates between {bounds}; write {_DATE_FORMS}") from None
        own = [f"{column.words(key)!r}" for key in keys[column.bins :]]
        raise InputError(f"{here} {out} {error}" + (f" (or {', '.join(own)})" if own else "")) from None


def _bins(column: Column) -> Bins:
    return Bins(column.cuts, *column.bounds, column.integer)


def _cut(column: Column, ranges: list[Range], here: str) -> Column:
    if not ranges:
        return column
    bins = _bins(column)
    empty = any(first > last for first, last in zip(*bins.ends, strict=True))
    need(here, not empty, f"has a rule on {column.name!r}, which has a bin without a whole number in it; widen that")
    edges = bins.cut(ranges)
    need(here, len(edges) <= MOST_CODES + 1, f"has {len(edges) - 1:,} bins of {column.name!r} by its rules; {MOST}")
    new = next((edge for edge in edges if edge not in column.cuts), None)
    fixed = new is None or column.release != "index"
    need(here, fixed, f"has a rule that cuts {column.name!r} at {new}, which releases its bins' indices; add that edge")
    if column.fine:
        return replace(column, splits=tuple(edge for edge in edges if edge not in column.cuts))
    return replace(column, edges=edges)


def _codes_of(listed: list[int | Range], declared: Column, column: Column) -> tuple[int, ...]:
    """The codes, in a column with perhaps more bins, of declared codes and of ranges."""
    codes, bins = set[int](), _bins(column) if column.numeric else None
    for each in listed:
        if not isinstance(each, int):
            assert bins is not None
            codes.update(bins.inside(each))
        elif each < declared.bins:
            first, last = (column.cuts.index(edge) for edge in declared.cuts[each : each + 2])
            codes.update(range(first if each else 0, last))  # the first bin may begin lower now
        else:
            codes.add(each + column.bins - declared.bins)
    return tuple(sorted(codes))
