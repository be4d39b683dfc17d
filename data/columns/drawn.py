"""The numbers that are drawn from a numeric column's bins."""

from __future__ import annotations

import math

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.grid import digits_of


def drawn_ends(column: Column) -> tuple[Floats, Floats]:
    """The least and the largest number that a released row of each bin may have, each of shape (bins,).

    >>> drawn_ends(Column("X", lower=0, upper=9, edges=(0, 4.5, 9), integer=True))
    (array([0., 5.]), array([4., 9.]))
    """
    low, high = np.clip(np.array(column.cuts[:-1]), *column.bounds), np.clip(np.array(column.cuts[1:]), *column.bounds)
    open_low = np.where(np.arange(column.bins) == 0, low, np.nextafter(low, np.inf))
    low = np.where(open_low == high, high, low)  # one number alone, as a bound or a rule's
    if column.integer:
        whole = np.ceil(open_low) <= np.floor(high)  # else it has no whole number, and no row
        low, high = np.where(whole, np.ceil(open_low), low), np.where(whole, np.floor(high), high)
    elif column.decimals is not None:  # the numbers of so many decimals within the bin, if it has any
        first, last = decimals_between(open_low, high, column.decimals)
        low, high = np.where(first <= last, first, low), np.where(first <= last, last, high)
    return low, high


def released_ends(column: Column) -> tuple[Floats, Floats]:
    """As `drawn_ends`, of the numbers as they are written: a bin of real numbers is open on the left.

    >>> released_ends(Column("X", lower=0, upper=9, edges=(0, 4.5, 9)))
    (array([0.    , 4.5001]), array([4.5, 9. ]))
    """
    low, high = drawn_ends(column)
    edge = (low == np.clip(np.array(column.cuts[:-1]), *column.bounds)) & (np.arange(column.bins) > 0) & (low < high)
    least = np.where(edge, np.nextafter(low, np.inf), low)
    if column.integer:
        return least, high
    digits, ends = digits_of_draws(column), (least, high)
    for places in (most_digits(digits), *([] if column.decimals is None else [digits])):
        first, last = decimals_between(least, high, places)
        ends = np.where(first <= last, first, ends[0]), np.where(first <= last, last, ends[1])
    return ends


def decimals_between(least: Floats, most: Floats, places: int) -> tuple[Floats, Floats]:
    """The first and the last number of so many decimals from `least` to `most`; the first is larger where none is."""
    step, first, last = 10.0**-places, np.round(least, places), np.round(most, places)
    first = np.where(first < least, np.round(first + step, places), first)
    last = np.where(last > most, np.round(last - step, places), last)
    return first, last


def digits_of_draws(column: Column) -> int:
    """How many decimals drawn numbers have: as declared, or so many that the narrowest of declared bins has a hundred
    numbers, or of fine ones a thousandth of the range."""
    if column.decimals is not None:
        return column.decimals
    if column.fine:
        return min(digits_of(*column.bounds), 15)
    widths = np.diff(column.edges)
    narrowest = float(widths[widths > 1e-12 * widths.sum()].min())  # a rule may have cut a single number off
    return min(max(2 - math.floor(math.log10(narrowest)), 0), 15)


def most_digits(digits: int) -> int:
    """How many decimals drawn numbers have in bins that hold none of so many."""
    return min(digits + 2, 15)


def drawn_numbers(column: Column) -> Floats:
    """The mean of the released numbers of each bin, shape (bins,): its middle.

    >>> bins = {"lower": 0, "upper": 9, "edges": (0, 4.5, 9), "integer": True}
    >>> drawn_numbers(Column("X", release="draw", **bins)), drawn_numbers(Column("X", release="midpoint", **bins))
    (array([2., 7.]), array([2.25, 6.75]))
    """
    low, high = drawn_ends(column)
    if column.release == "midpoint":  # of the bin's ends, whatever numbers are in it
        cuts = np.clip(np.array(column.cuts), *column.bounds)
        return np.asarray(np.clip((cuts[:-1] + cuts[1:]) / 2, low, high))
    return np.asarray((low + high) / 2)
