"""Rules that order two columns of numbers or dates, such as JAIL_IN <= JAIL_OUT.

A bin only determines an interval that contains the number. A row of codes can therefore satisfy a rule if there are
numbers in its bins that satisfy it. The function `in_order` draws these numbers. Rows of codes that cannot satisfy the
rules must be changed before (see `equistrata.synth.strata.exchange`).
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
Codes = Mapping[str, Bins]  # the codes of all rows of each column

# The maximum number of draws of a row that violates a rule. Two numbers of a bin are in order half of the time.
_DRAWS = 20


@dataclass(frozen=True)
class Ordered:
    """A rule that the number in the column `lower` is at most the number in the column `upper`.

    The rule applies to rows in which both columns have numbers.

    Parameters
    ----------
    rule : str
        The text of the rule in the schema file.
    lower, upper : str
        The names of the columns.
    strict : bool
        If True, the number in `lower` must be less than the number in `upper`.
    unless : tuple of pairs
        The names of other columns and their codes. The rule does not apply to a row that has one of these codes.
    """

    rule: str
    lower: str
    upper: str
    strict: bool = False
    unless: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def columns(self) -> set[str]:
        """The names of all columns in the rule."""
        return {self.lower, self.upper, *(name for name, _ in self.unless)}

    def given(self, fixed: Mapping[str, int]) -> Ordered | None:
        """Return the rule for rows in which some columns have fixed codes.

        Parameters
        ----------
        fixed : mapping of str to int
            The code of each fixed column.

        Returns
        -------
        Ordered or None
            The rule, or None if it does not apply or if structural zeros already imply it.
        """
        unless = dict(self.unless)
        if {self.lower, self.upper} & fixed.keys() or any(
            fixed[name] in unless[name] for name in fixed.keys() & unless
        ):
            return None
        rest = tuple((name, codes) for name, codes in self.unless if name not in fixed)
        return Ordered(self.rule, self.lower, self.upper, self.strict, rest)

    def concerns(self, codes: Codes, schema: Schema) -> Mask:
        """Return a mask of the rows to which the rule applies, shape (n,)."""
        found = (codes[self.lower] < schema[self.lower].bins) & (codes[self.upper] < schema[self.upper].bins)
        for name, free in self.unless:
            found &= ~np.isin(codes[name], free)
        return np.asarray(found)

    def broken(self, numbers: Mapping[str, Floats], codes: Codes, schema: Schema) -> Mask:
        """Return a mask of the rows that violate the rule, shape (n,).

        Parameters
        ----------
        numbers : mapping of str to ndarray
            The numbers of each column.
        codes : mapping of str to ndarray
            The codes of each column.
        schema : Schema
            The schema.
        """
        low, high = numbers[self.lower], numbers[self.upper]
        return np.asarray(self.concerns(codes, schema) & ((low >= high) if self.strict else (low > high)))


def order_of(
    pair: Comparison, schema: Schema, rule: str, unless: tuple[tuple[str, tuple[int, ...]], ...], there: str
) -> Ordered:
    """Return the rule that corresponds to a comparison of two columns of numbers or dates.

    Parameters
    ----------
    pair : Comparison
        The comparison of two columns.
    schema : Schema
        The schema.
    rule : str
        The text of the rule.
    unless : tuple of pairs
        The names of other columns and the codes for which the rule does not apply.
    there : str
        The start of the error message.

    Raises
    ------
    InputError
        If the operator is "==" or "!=", if a column does not release numbers, or if no row can satisfy the rule.
    """
    need(
        there,
        pair.sign not in ("==", "!="),
        "compares numbers with == or !=; use <, <=, > or >=, or remove a column that always equals another one",
    )
    for name in (pair.column, str(pair.other)):
        drawn = schema[name].release == "draw"
        need(
            there,
            drawn,
            f"compares {name!r}, which releases bins instead of numbers; remove 'release' from that column",
        )
    names = (pair.column, str(pair.other)) if pair.sign[0] == "<" else (str(pair.other), pair.column)
    order = Ordered(rule, *names, strict=len(pair.sign) == 1, unless=unless)
    least, most = _ends(schema[order.lower])[0][0], _ends(schema[order.upper])[1][-1]
    never = least >= most if order.strict else least > most
    need(
        there,
        not never or unless,
        f"no row can satisfy, since {order.lower!r} begins where {order.upper!r} ends; correct the bounds or the rule",
    )
    return order


def check_order(orders: Sequence[Ordered], schema: Schema, here: str) -> None:
    """Check the rules that order columns.

    Parameters
    ----------
    orders : sequence of Ordered
        The rules.
    schema : Schema
        The schema.
    here : str
        The start of the error message.

    Raises
    ------
    InputError
        If the rules form a cycle, or if they refer to columns or codes that the schema does not have.
    """
    for order in orders:
        kinds = {(schema[name].numeric, bool(schema[name].layout)) for name in (order.lower, order.upper)}
        codes = all(set(codes) <= set(range(schema[name].size)) for name, codes in order.unless)
        fits = len(kinds) == 1 and (False, False) not in kinds and codes
        need(here, fits, f"has the rule {order.rule!r}, which does not fit its columns; correct the rule")
    try:
        by_order(tuple(orders))
    except CycleError:
        need(here, False, "has rules that form a cycle, so that a column is less than itself; remove one of them")


def out_of_order(order: Ordered, schema: Schema) -> list[tuple[int, ...]]:
    """Return the codes of the upper column that are impossible for each code of the lower column.

    A code is impossible if no numbers of the two bins satisfy the rule.
    """
    low, high = schema[order.lower], schema[order.upper]
    least, most = _ends(low)[0], _ends(high)[1]
    # The first bin that has a number at least as large.
    first = np.searchsorted(most, least, "right" if order.strict else "left")
    return [*(tuple(range(place)) for place in first.tolist()), *[()] * (low.size - low.bins)]


def reached(codes: Codes, schema: Schema, orders: Sequence[Ordered]) -> dict[str, Floats]:
    """Return the smallest number that each compared column can have, given the columns before it in the order.

    Parameters
    ----------
    codes : mapping of str to ndarray
        The codes of each column, shape (n,).
    schema : Schema
        The schema.
    orders : sequence of Ordered
        The rules.

    Returns
    -------
    dict of str to ndarray
        The numbers of each compared column, shape (n,), or NaN if the row does not have a number. If a number is above
        the end of its bin, the row cannot satisfy the rules (see `obeys`).
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
    """Return a mask of the rows that can satisfy all rules with numbers in their bins, shape (n,)."""
    fits = np.ones(len(next(iter(codes.values()))), dtype=np.bool_)
    for name, numbers in reached(codes, schema, orders).items():
        most = _ends(schema[name])[1][_bins(codes[name], schema[name])]
        fits &= ~(numbers > most)
    return fits


def first_bins(column: Column, numbers: Floats) -> npt.NDArray[np.intp]:
    """Return the first bin that contains a number that is at least as large, for each number.

    The result is the number of bins if there is no such bin.
    """
    return np.asarray(np.searchsorted(_ends(column)[1], numbers))


def after(column: Column, numbers: Floats, strict: bool) -> Floats:
    """Return the smallest numbers of the column that are at least the given numbers.

    If `strict` is True, the results are larger than the given numbers.
    """
    if column.integer:
        return np.asarray(np.floor(numbers) + 1 if strict else np.ceil(numbers))
    digits = most_digits(digits_of_draws(column)) if column.decimals is None else column.decimals
    return decimals_between(np.nextafter(numbers, np.inf) if strict else numbers, numbers, digits)[0]


def before(column: Column, numbers: Floats, strict: bool) -> Floats:
    """Return the largest numbers of the column that are at most the given numbers.

    If `strict` is True, the results are smaller than the given numbers.
    """
    if column.integer:
        return np.asarray(np.ceil(numbers) - 1 if strict else np.floor(numbers))
    digits = most_digits(digits_of_draws(column)) if column.decimals is None else column.decimals
    return decimals_between(numbers, np.nextafter(numbers, -np.inf) if strict else numbers, digits)[1]


def in_order(
    codes: Codes, schema: Schema, orders: Sequence[Ordered], draw: Callable[[Column, Floats, Floats], Floats]
) -> dict[str, Floats]:
    """Draw the numbers of the compared columns from their bins, conditional on all rules.

    The rows must be able to satisfy the rules (see `obeys`). Rows that violate a rule are drawn again, which is
    rejection sampling from the conditional distribution. If a row still violates a rule after 20 draws, its columns are
    drawn one at a time, conditional on the other columns (Gibbs sampling). This is the case if many columns have the
    same bin.

    Parameters
    ----------
    codes : mapping of str to ndarray
        The codes of each column, shape (n,).
    schema : Schema
        The schema.
    orders : sequence of Ordered
        The rules.
    draw : callable
        A function that draws numbers of a column, given the column, the smallest numbers and the largest numbers.

    Returns
    -------
    dict of str to ndarray
        The numbers of each compared column, shape (n,).
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
    """Draw numbers that satisfy the rules with Gibbs sampling.

    The chain starts at the smallest possible numbers and has _DRAWS rounds. In each round, each column is drawn
    conditional on the other columns.
    """
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
    """Return the groups of compared columns that are connected by rules, each in the order of `by_order`."""
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
    """Return the compared columns in an order in which the lower column of each rule comes first.

    A CycleError is raised if the rules form a cycle.
    """
    graph = TopologicalSorter[str]()
    for order in orders:
        graph.add(order.upper, order.lower)
    return [*graph.static_order()]


def _bins(codes: Bins, column: Column) -> Bins:
    """Return the bin of each code, or the last bin if the code is not a bin."""
    return np.asarray(np.minimum(codes, column.bins - 1))


@lru_cache
def _ends(column: Column) -> tuple[Floats, Floats]:
    """Return the smallest and the largest number that can be released for each bin, each of shape (bins,)."""
    return released_ends(column)
