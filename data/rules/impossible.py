"""Combinations of values that cannot occur.

They are declared in a schema as lists of values or as rules. This module converts them to the codes that are excluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from equistrata.data.columns import dates
from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.data.columns.declared import MOST, MOST_CODES, need
from equistrata.data.derived import FROM, Derived, check_source, ends_of, refuse_derived
from equistrata.data.rules.comparisons import NEGATED, Comparison, columns_of, read
from equistrata.data.rules.ordered import Ordered, check_order, order_of, out_of_order
from equistrata.data.rules.possible import any_row_possible
from equistrata.data.rules.ranges import FORMS, Bins, Range
from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.data.schema import Schema

_DATE_FORMS = "'<2020-02-01', '>=2020-02-01', '2020-02-01 to 2020-02-29' (both ends in) or '2020-02-29'"


@dataclass(frozen=True)
class Impossible:
    """A structural zero, which is a combination of codes that no row can have.

    Parameters
    ----------
    columns : tuple of str
        The names of the columns.
    codes : tuple of tuples of int
        The codes of each column. A row is impossible if it has one of these codes in each of the columns.
    """

    columns: tuple[str, ...]
    codes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Part:
    """The codes of one column that violate a rule.

    These are the listed codes and ranges, or all other codes if `others` is True.
    """

    column: str
    listed: tuple[int | Range, ...]
    others: bool = False
    bins: bool = False  # if True, the other codes only include bins


def ruled(
    schema: Schema, entries: Sequence[Any], rules: Sequence[Any], derives: Mapping[str, Any], here: str
) -> Schema:
    """Add the structural zeros, the rules and the derived columns to a schema.

    The bins of a column are cut at the ends of the ranges in the rules and at the ends of the bins of derived columns.

    Parameters
    ----------
    schema : Schema
        The schema without rules.
    entries : sequence
        The entries under 'impossible', which are mappings from columns to values that cannot occur together.
    rules : sequence
        The texts under 'rules' (see `equistrata.data.rules.comparisons`).
    derives : mapping of str to object
        The declarations of the derived columns by name (see `equistrata.data.derived`).
    here : str
        The start of the error message.

    Returns
    -------
    Schema
        The schema with rules.

    Raises
    ------
    InputError
        If a rule is not valid, or if the rules leave no possible row.
    """
    broken: list[tuple[list[_Part], Comparison | None, str]]
    broken = [(_listed(schema, entry, here), None, "") for entry in entries]
    for rule in rules:
        there, comparisons = f"{here} has the rule {rule!r}, which", read(rule, here)
        for name in columns_of(rule):
            refuse_derived(name, derives, there)
        pairs = [each for each in comparisons if each.other is not None]
        need(there, len(pairs) < 2, "compares two pairs of columns; write a separate rule for each pair")
        parts = [_against(schema, each, there) for each in comparisons if each.other is None]
        broken.append((parts, pairs[0] if pairs else None, rule))
    cut = {part.column: list[Range]() for parts, _, _ in broken for part in parts}
    for parts, _, _ in broken:
        for part in parts:
            cut[part.column] += [each for each in part.listed if not isinstance(each, int)]
    for name, spec in derives.items():
        there = f"column {name!r} of {here}"
        check_source(name, spec, schema, there)
        cut.setdefault(spec[FROM], []).extend(ends_of(spec, schema[spec[FROM]], there))
    columns = tuple(_cut(column, cut.get(column.name, []), here) for column in schema.columns)
    done, zeros, orders = replace(schema, columns=columns), list[Impossible](), list[Ordered]()
    for parts, pair, rule in broken:
        codes = dict[str, tuple[int, ...]]()
        for part in parts:
            found = _codes_of(part, schema[part.column], done[part.column])
            codes[part.column] = tuple(each for each in found if each in codes.get(part.column, found))
        if pair is None:
            zeros += _zero(codes, done, f"{here} has the rule {rule!r}, which" if rule else here)
            continue
        order, ruled_out = _compared(done, pair, rule, codes, here)
        orders += order
        zeros += ruled_out
    check_order(orders, done, here)
    out = [dict(zip(zero.columns, map(frozenset, zero.codes), strict=True)) for zero in zeros]
    possible = any_row_possible({name: done[name].size for zero in zeros for name in zero.columns}, out)
    need(here, possible, "has rules that together rule out every row; remove one of them")
    derived = [
        Derived.read(name, spec, done[spec[FROM]], f"column {name!r} of {here}") for name, spec in derives.items()
    ]
    return replace(done, impossible=tuple(dict.fromkeys(zeros)), ordered=tuple(orders), derived=tuple(derived))


def _zero(codes: Mapping[str, tuple[int, ...]], schema: Schema, here: str) -> list[Impossible]:
    """Return the structural zero of codes that cannot occur together, or nothing if one of the columns has no codes."""
    all_of = all(len(each) == schema[name].size for name, each in codes.items())
    need(here, not all_of, f"rules out every value of {', '.join(codes)}; keep at least one of them possible")
    return [Impossible(tuple(codes), tuple(codes.values()))] if all(codes.values()) else []


def _listed(schema: Schema, entry: Any, here: str) -> list[_Part]:
    """Return the codes and the ranges of numbers of each column in an entry of 'impossible'."""
    need(here, isinstance(entry, dict) and entry, "needs each entry of 'impossible' to map columns to lists of values")
    parts = []
    for name, values in entry.items():
        listed = values if isinstance(values, list) else [values]
        said = f"{here} rules out {name}="
        parts.append(_Part(name, tuple(each for value in listed for each in _meant(schema[name], value, said))))
    return parts


def _against(schema: Schema, comparison: Comparison, there: str) -> _Part:
    """Return the codes of a column that violate a comparison with values.

    An absent number or a code in a column of numbers only violates a comparison with a code that is named.
    """
    column, sign = schema[comparison.column], comparison.sign
    need(there, not column.open, f"names {column.name!r}, which has 'values: open'; list its values")
    said = f"{there} compares {column.name} with "
    numbers = column.numeric and not any(_worded(column, value) for value in comparison.values)
    days = not (numbers and column.layout) or all(isinstance(value, str) for value in comparison.values)
    need(there, days, f"compares dates of {column.name!r} with a number; write a date, such as '2020-02-01'")
    if sign in ("==", "!="):
        listed = [each for value in comparison.values for each in _meant(column, _number(column, value), said)]
        return _Part(column.name, tuple(listed), others=sign == "==", bins=numbers)
    (value,) = comparison.values
    if numbers:
        text = f"{NEGATED[sign]}{plain_text(value)}"
        return _Part(column.name, (_range(column, text, f"{said}{value!r}, but '{text}'"),))
    need(there, column.ordered and not column.numeric, f"needs an order of {column.name!r}, but its values have none")
    (code,) = (each for each in _meant(column, value, said) if isinstance(each, int))
    kept = {"<": range(code), "<=": range(code + 1), ">": range(code + 1, column.size), ">=": range(code, column.size)}
    return _Part(column.name, tuple(kept[sign]), others=True)


def _compared(
    schema: Schema, pair: Comparison, rule: str, codes: Mapping[str, tuple[int, ...]], here: str
) -> tuple[list[Ordered], list[Impossible]]:
    """Return the rule and the structural zeros of a comparison of two columns.

    If one of the columns has declared bins, the combinations of bins that violate the rule are structural zeros. If
    both columns have fine bins, there are too many combinations, so the rows are put in order after they are drawn (see
    `equistrata.synth.strata.exchange`).
    """
    there = f"{here} has the rule {rule!r}, which"
    one, two = schema[pair.column], schema[str(pair.other)]
    for column in (one, two):
        need(there, not column.open, f"names {column.name!r}, which has 'values: open'; list its values")
    kinds = [(column.numeric, bool(column.layout)) for column in (one, two)]
    need(there, kinds[0] == kinds[1], f"compares {one.name!r} with {two.name!r}, which have different types")
    unless = {
        name: tuple(code for code in range(schema[name].size) if code not in set(broken))
        for name, broken in codes.items()
    }
    if not one.numeric:
        pairs = _unlike(one, two, pair, there)
        return [], _zeros_of_pairs(one.name, two.name, pairs, codes)
    order = order_of(pair, schema, rule, tuple(unless.items()), there)
    if one.fine and two.fine:
        return [order], []
    return [order], _zeros_of_pairs(order.lower, order.upper, out_of_order(order, schema), codes)


def _unlike(one: Column, two: Column, pair: Comparison, there: str) -> list[tuple[int, ...]]:
    """Return the codes of the second column that violate a comparison, for each code of the first column."""
    if pair.sign in ("==", "!="):
        return [
            tuple(place for place, other in enumerate(two.values) if (value == other) != (pair.sign == "=="))
            for value in one.values
        ]
    alike = one.ordered and two.ordered and one.values == two.values
    need(
        there,
        alike,
        f"needs an order of {one.name!r} and {two.name!r}; declare both as 'type: ordinal' with the same values",
    )
    obeys = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[pair.sign]
    return [tuple(b for b in range(two.size) if not obeys(a, b)) for a in range(one.size)]


def _zeros_of_pairs(
    one: str, two: str, broken: Sequence[tuple[int, ...]], codes: Mapping[str, tuple[int, ...]]
) -> list[Impossible]:
    """Return the structural zeros of two columns, given the codes of the second that each code of the first excludes.

    The structural zeros only apply to rows in which each other column has one of its codes in `codes`.
    """
    zeros = []
    for ruled_out in dict.fromkeys(filter(None, broken)):
        own = {one: tuple(code for code, each in enumerate(broken) if each == ruled_out), two: ruled_out}
        joined = {name: tuple(c for c in own.get(name, each) if c in each) for name, each in {**own, **codes}.items()}
        if all(joined.values()):
            zeros.append(Impossible(tuple(joined), tuple(joined.values())))
    return zeros


def _worded(column: Column, value: Value) -> list[int]:
    """Return the codes, except for bins, that a value names, either as a raw cell or by the label."""
    raw = {column.bins + place: plain_text(raw) for place, (raw, _) in enumerate(column.codes)}
    words = {code: column.words(column.keys[code]) for code in range(column.bins, column.size)}
    return [
        code for code, said in words.items() if value in (said, raw.get(code)) or plain_text(value) == raw.get(code)
    ]


def _number(column: Column, value: Value) -> Value:
    """Return a number as the text of a range if the column has numbers."""
    text = column.numeric and not isinstance(value, str) and not _worded(column, value)
    return plain_text(value) if text else value


def _meant(column: Column, value: Any, said: str) -> list[int | Range]:
    """Return the codes or the range that a value in a rule means.

    The value is the released value, the index of a bin, a label, or a range of numbers, in this order.
    """
    out, keys = f"{said}{value!r}, but {value!r}", column.keys
    place = {key: code for code, key in enumerate(keys)}
    kind = isinstance(value, int | float | str) and not isinstance(value, bool)
    need(out, kind, "is neither a value nor a text")
    if value in place:
        return [place[value]]
    labelled = _worded(column, value)
    if labelled or not column.numeric:
        shown = [*map(column.words, keys[:12]), *["…"] * (len(keys) > 12)]
        need(out, labelled, f"is not a value of {column.name!r}; it has {', '.join(shown)}")
        return [*labelled]
    need(
        out, isinstance(value, str), f"is not one of its {column.bins} bins; write ranges of numbers in quotes: {FORMS}"
    )
    return [_range(column, value, out)]


def _range(column: Column, text: str, out: str) -> Range:
    """Return the range of numbers or dates of a text. Raises an InputError that begins with `out`."""
    try:
        return _bins(column).read(dates.in_days(text) if column.layout else text)
    except (InputError, ValueError) as error:
        if column.layout:
            bounds = " and ".join(map(column.shown, column.bounds))
            raise InputError(f"{out} is not a range of dates between {bounds}; write {_DATE_FORMS}") from None
        own = [f"{column.words(key)!r}" for key in column.keys[column.bins :]]
        raise InputError(f"{out} {error}" + (f" (or {', '.join(own)})" if own else "")) from None


def _bins(column: Column) -> Bins:
    return Bins(column.cuts, *column.bounds, column.integer)


def _cut(column: Column, ranges: list[Range], here: str) -> Column:
    if not ranges:
        return column
    bins = _bins(column)
    empty = any(first > last for first, last in zip(*bins.ends, strict=True))
    need(here, not empty, f"has a rule on {column.name!r}, which has a bin without a whole number; widen that bin")
    edges = bins.cut(ranges)
    need(
        here,
        len(edges) <= MOST_CODES + 1,
        f"has {len(edges) - 1:,} bins of {column.name!r} because of its rules; {MOST}",
    )
    new = next((edge for edge in edges if edge not in column.cuts), None)
    fixed = new is None or column.release != "index"
    need(
        here,
        fixed,
        f"divides a bin of {column.name!r} at {new}, but the column has 'release: index'; add {new} to its edges",
    )
    if column.fine:
        return replace(column, splits=tuple(edge for edge in edges if edge not in column.cuts))
    return replace(column, edges=edges)


def _codes_of(part: _Part, declared: Column, column: Column) -> tuple[int, ...]:
    """Return the codes of a part of a rule in a column that can have more bins than the declared column."""
    codes, bins = set[int](), _bins(column) if column.numeric else None
    for each in part.listed:
        if not isinstance(each, int):
            assert bins is not None
            codes.update(bins.inside(each))
        elif each < declared.bins:
            first, last = (column.cuts.index(edge) for edge in declared.cuts[each : each + 2])
            codes.update(range(first if each else 0, last))  # the first bin can begin at a lower number after the cut
        else:
            codes.add(each + column.bins - declared.bins)
    if part.others:
        codes = set(range(column.bins if part.bins else column.size)) - codes
    return tuple(sorted(codes))
