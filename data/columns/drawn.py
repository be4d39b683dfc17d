"""The numbers that are drawn from the bins of a numeric column."""

from __future__ import annotations

import math

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.grid import digits_of


def drawn_ends(column: Column) -> tuple[Floats, Floats]:
    """Return the smallest and the largest number that can be released for each bin.

    Parameters
    ----------
    column : Column
        The numeric column.

    Returns
    -------
    low, high : ndarray of float
        The smallest and the largest number of each bin, shape (bins,).

    Examples
    --------
    >>> drawn_ends(Column("X", lower=0, upper=9, edges=(0, 4.5, 9), integer=True))
    (array([0., 5.]), array([4., 9.]))
    """
    low, high = np.clip(np.array(column.cuts[:-1]), *column.bounds), np.clip(np.array(column.cuts[1:]), *column.bounds)
    open_low = np.where(np.arange(column.bins) == 0, low, np.nextafter(low, np.inf))
    low = np.where(open_low == high, high, low)  # a bin with a single number, which comes from a bound or a rule
    if column.integer:
        whole = np.ceil(open_low) <= np.floor(high)  # otherwise the bin has no whole number and therefore no rows
        low, high = np.where(whole, np.ceil(open_low), low), np.where(whole, np.floor(high), high)
    elif column.decimals is not None:  # the numbers in the bin that have the declared number of decimals
        first, last = decimals_between(open_low, high, column.decimals)
        low, high = np.where(first <= last, first, low), np.where(first <= last, last, high)
    return low, high


def released_ends(column: Column) -> tuple[Floats, Floats]:
    """Return the smallest and the largest number of each bin as they are written.

    These are the numbers of `drawn_ends`, except that the bins of real numbers are open on the left.

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
    """Return the first and the last number with a given number of decimals between two numbers.

    If there is no number between them, the first is larger than the last.
    """
    step, first, last = 10.0**-places, np.round(least, places), np.round(most, places)
    first = np.where(first < least, np.round(first + step, places), first)
    last = np.where(last > most, np.round(last - step, places), last)
    return first, last


def digits_of_draws(column: Column) -> int:
    """Return the number of decimals of drawn numbers.

    If the decimals are not declared, the narrowest declared bin contains at least 100 numbers. For fine bins, a
    thousandth of the range contains at least 100 numbers.
    """
    if column.decimals is not None:
        return column.decimals
    if column.fine:
        return min(digits_of(*column.bounds), 15)
    widths = np.diff(column.edges)
    narrowest = float(widths[widths > 1e-12 * widths.sum()].min())  # a rule can create a bin of a single number
    return min(max(2 - math.floor(math.log10(narrowest)), 0), 15)


def most_digits(digits: int) -> int:
    """Return the number of decimals that is used in bins that are too narrow for the default number of decimals."""
    return min(digits + 2, 15)


def drawn_numbers(column: Column) -> Floats:
    """Return the mean of the released numbers of each bin, which is the middle of the bin, shape (bins,).

    >>> bins = {"lower": 0, "upper": 9, "edges": (0, 4.5, 9), "integer": True}
    >>> drawn_numbers(Column("X", release="draw", **bins)), drawn_numbers(Column("X", release="midpoint", **bins))
    (array([2., 7.]), array([2.25, 6.75]))
    """
    low, high = drawn_ends(column)
    # This is the middle of the edges, even if the numbers in the bin have a different mean.
    if column.release == "midpoint":
        cuts = np.clip(np.array(column.cuts), *column.bounds)
        return np.asarray(np.clip((cuts[:-1] + cuts[1:]) / 2, low, high))
    return np.asarray((low + high) / 2)
