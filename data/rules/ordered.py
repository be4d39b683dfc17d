"""Orders between two columns of numbers or dates, as JAIL_IN <= JAIL_OUT: which rows can obey, and numbers that do.

A bin says only within which ends a number lies, so a row of codes obeys an order if numbers of its bins can. Given such
rows, `in_order` draws the numbers; rows of codes that cannot obey are changed before (`synth.strata.exchange`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.declared import need
from equistrata.data.columns.drawn import decimals_between, digits_of_draws, most_digits, released_ends
from equistrata.data.rules.comparisons import Comparison

if TYPE_CHECKING:
    from equistrata.data.schema import Schema

Mask = npt.NDArray[np.bool_]
Bins = npt.NDArray[np.integer[Any]]
Codes = Mapping[str, Bins]  # column → codes of all rows

_DRAWS = 20  # of a row that breaks an order: two numbers of one bin are in order half of the time


@dataclass(frozen=True)
class Ordered:
    """A rule: where both columns hold numbers, that of `lower` is at most that of `upper`.

    Attributes:
        rule: as the schema file has it.
        lower, upper: the columns.
        strict: that of `lower` is less.
        unless: columns and codes: a row with one of these need not obey.
    """

    rule: str
    lower: str
    upper: str
    strict: bool = False
    unless: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def columns(self) -> set[str]:
        """All columns that it depends on."""
        return {self.lower, self.upper, *(name for name, _ in self.unless)}

    def given(self, fixed: Mapping[str, int]) -> Ordered | None:
        """The rule where some columns have these codes; None if it says nothing there, or structural zeros say it."""
        unless = dict(self.unless)
        if {self.lower, self.upper} & fixed.keys() or any(
            fixed[name] in unless[name] for name in fixed.keys() & unless
        ):
            return None
        rest = tuple((name, codes) for name, codes in self.unless if name not in fixed)
        return Ordered(self.rule, self.lower, self.upper, self.strict, rest)

    def concerns(self, codes: Codes, schema: Schema) -> Mask:
        """The rows that have to obey: both columns hold numbers, and no other column frees them."""
        found = (codes[self.lower] < schema[self.lower].bins) & (codes[self.upper] < schema[self.upper].bins)
        for name, free in self.unless:
            found &= ~np.isin(codes[name], free)
        return np.asarray(found)

    def broken(self, numbers: Mapping[str, Floats], codes: Codes, schema: Schema) -> Mask:
        """The rows that do not obey, by their numbers."""
        low, high = numbers[self.lower], numbers[self.upper]
        return np.asarray(self.concerns(codes, schema) & ((low >= high) if self.strict else (low > high)))


def order_of(
    pair: Comparison, schema: Schema, rule: str, unless: tuple[tuple[str, tuple[int, ...]], ...], there: str
) -> Ordered:
    """The order that a comparison of two columns of numbers or dates asks for. Raises InputError; `there` begins it."""
    need(
        there,
        pair.sign not in ("==", "!="),
        "asks whether numbers are equal; write <, <=, > or >=, and leave out a column that always equals another",
    )
    for name in (pair.column, str(pair.other)):
        drawn = schema[name].release == "draw"
        need(there, drawn, f"compares {name!r}, of which bins are released; leave 'release' out, so that numbers are")
    names = (pair.column, str(pair.other)) if pair.sign[0] == "<" else (str(pair.other), pair.column)
    order = Ordered(rule, *names, strict=len(pair.sign) == 1, unless=unless)
    least, most = _ends(schema[order.lower])[0][0], _ends(schema[order.upper])[1][-1]
    never = least >= most if order.strict else least > most
    need(there, not never or unless, f"no row can obey: {order.lower!r} begins where {order.upper!r} ends")
    return order


def check_order(orders: Sequence[Ordered], schema: Schema, here: str) -> None:
    """Raise InputError if orders go in a circle, or are of columns or codes that the schema does not have."""
    for order in orders:
        kinds = {(schema[name].numeric, bool(schema[name].layout)) for name in (order.lower, order.upper)}
        codes = all(set(codes) <= set(range(schema[name].size)) for name, codes in order.unless)
        fits = len(kinds) == 1 and (False, False) not in kinds and codes
        need(here, fits, f"has the rule {order.rule!r}, which its columns cannot have")
    try:
        by_order(tuple(orders))
    except CycleError:
        need(here, False, "has rules by which columns are before themselves; take one of them out")


def out_of_order(order: Ordered, schema: Schema) -> list[tuple[int, ...]]:
    """For each code of the lower column, the codes of the upper one that no number of it can go with."""
    low, high = schema[order.lower], schema[order.upper]
    least, most = _ends(low)[0], _ends(high)[1]
    first = np.searchsorted(most, least, "right" if order.strict else "left")  # the first bin with a number as large
    return [*(tuple(range(place)) for place in first.tolist()), *[()] * (low.size - low.bins)]


def reached(codes: Codes, schema: Schema, orders: Sequence[Ordered]) -> dict[str, Floats]:
    """The least number that each compared column can have in each row so that all columns before it fit.

    Numbers of bins; NaN where a row holds none. A row can obey all orders if none is beyond its bin's end (`obeys`).
    """
    found = dict[str, Floats]()
    for name in by_order(tuple(orders)):
        column = schema[name]
        numbers = np.where(codes[name] < column.bins, _ends(column)[0][_bins(codes[name], column)], np.nan)
        for order in orders:
            if order.upper == name:
                where = order.concerns(codes, schema)
                needed = np.where(where, after(column, found[order.lower], order.strict), -np.inf)
                numbers = np.where(needed > numbers, needed, numbers)
        found[name] = numbers
    return found


def obeys(codes: Codes, schema: Schema, orders: Sequence[Ordered]) -> Mask:
    """The rows that can obey all orders by numbers within their bins, shape (n,)."""
    fits = np.ones(len(next(iter(codes.values()))), dtype=np.bool_)
    for name, numbers in reached(codes, schema, orders).items():
        most = _ends(schema[name])[1][_bins(codes[name], schema[name])]
        fits &= ~(numbers > most)
    return fits


def first_bins(column: Column, numbers: Floats) -> npt.NDArray[np.intp]:
    """For each number, the first bin that holds one as large; as many as there are bins where none does."""
    return np.asarray(np.searchsorted(_ends(column)[1], numbers))


def after(column: Column, numbers: Floats, strict: bool) -> Floats:
    """The least numbers of a column's kind that are at least these, or, if `strict`, larger."""
    if column.integer:
        return np.asarray(np.floor(numbers) + 1 if strict else np.ceil(numbers))
    digits = most_digits(digits_of_draws(column)) if column.decimals is None else column.decimals
    return decimals_between(np.nextafter(numbers, np.inf) if strict else numbers, numbers, digits)[0]


def before(column: Column, numbers: Floats, strict: bool) -> Floats:
    """The largest numbers of a column's kind that are at most these, or, if `strict`, less."""
    if column.integer:
        return np.asarray(np.ceil(numbers) - 1 if strict else np.floor(numbers))
    digits = most_digits(digits_of_draws(column)) if column.decimals is None else column.decimals
    return decimals_between(numbers, np.nextafter(numbers, -np.inf) if strict else numbers, digits)[1]


def in_order(
    codes: Codes, schema: Schema, orders: Sequence[Ordered], draw: Callable[[Column, Floats, Floats], Floats]
) -> dict[str, Floats]:
    """Numbers for the compared columns of rows that can obey (`obeys`), drawn from their bins given that they do.

    Rows are drawn again until they obey, which is a draw from all that do. A row that still does not after _DRAWS
    draws, as of many columns in one bin, is drawn one column at a time, between its neighbours (Gibbs sampling).

    Args:
        draw: numbers of a column between the least and the largest that each may be.
    """
    ends = {
        name: [each[_bins(codes[name], schema[name])] for each in _ends(schema[name])]
        for name in by_order(tuple(orders))
    }
    numbers = {name: draw(schema[name], *ends[name]) for name in ends}
    for related in _related(orders):
        own = [order for order in orders if order.lower in related]
        rows = np.arange(len(codes[related[0]]))
        for again in range(_DRAWS + 1):
            drawn = {name: numbers[name][rows] for name in related}
            part = {name: each[rows] for name, each in codes.items()}
            rows = rows[np.any([order.broken(drawn, part, schema) for order in own], axis=0)]
            if not len(rows) or again == _DRAWS:
                break
            for name in related:
                numbers[name][rows] = draw(schema[name], *(each[rows] for each in ends[name]))
        if len(rows):
            part = {name: each[rows] for name, each in codes.items()}
            within = {name: (ends[name][0][rows], ends[name][1][rows]) for name in related}
            for name, each in _one_by_one(part, schema, own, within, draw).items():
                numbers[name][rows] = np.where(np.isnan(each), numbers[name][rows], each)
    return numbers


def _one_by_one(
    codes: Codes,
    schema: Schema,
    orders: Sequence[Ordered],
    ends: Mapping[str, tuple[Floats, Floats]],
    draw: Callable[[Column, Floats, Floats], Floats],
) -> dict[str, Floats]:
    """Numbers in order, from the least that fit by _DRAWS rounds in which each column is drawn given the others."""
    numbers = reached(codes, schema, orders)
    concerned = [order.concerns(codes, schema) for order in orders]
    for _ in range(_DRAWS):
        for name in numbers:
            least, most = ends[name]
            for order, where in zip(orders, concerned, strict=True):
                if order.upper == name:
                    above = after(schema[name], numbers[order.lower], order.strict)
                    least = np.where(where, np.fmax(least, above), least)
                elif order.lower == name:
                    below = before(schema[name], numbers[order.upper], order.strict)
                    most = np.where(where, np.fmin(most, below), most)
            numbers[name] = np.where(np.isnan(numbers[name]), np.nan, draw(schema[name], least, most))
    return numbers


def _related(orders: Sequence[Ordered]) -> list[list[str]]:
    """The compared columns in groups that no order goes between, each in the order of `by_order`."""
    groups = list[set[str]]()
    for order in orders:
        touched = [group for group in groups if {order.lower, order.upper} & group]
        groups = [group for group in groups if group not in touched] + [
            set().union({order.lower, order.upper}, *touched)
        ]
    names = by_order(tuple(orders))
    return [[name for name in names if name in group] for group in groups]


@lru_cache
def by_order(orders: tuple[Ordered, ...]) -> list[str]:
    """The compared columns, each after those that it is not less than. Raises CycleError."""
    graph = TopologicalSorter[str]()
    for order in orders:
        graph.add(order.upper, order.lower)
    return [*graph.static_order()]


def _bins(codes: Bins, column: Column) -> Bins:
    """The bin of each code, the last one of codes that are none."""
    return np.asarray(np.minimum(codes, column.bins - 1))


@lru_cache
def _ends(column: Column) -> tuple[Floats, Floats]:
    """The least and the largest number that a released row of each bin may have, each of shape (bins,)."""
    return released_ends(column)
