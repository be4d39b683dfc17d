"""The numbers that are drawn from a numeric column's bins."""

from __future__ import annotations

from decimal import Decimal
from math import floor, log10

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column

_PART = (0.4, 1.1)  # of the step between numbers of two digits, that a bin around one of them is wide; ends are halves


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


def decimals_between(least: Floats, most: Floats, places: int) -> tuple[Floats, Floats]:
    """The first and the last number of so many decimals from `least` to `most`; the first is larger where none is."""
    step, first, last = 10.0**-places, np.round(least, places), np.round(most, places)
    first = np.where(first < least, np.round(first + step, places), first)
    last = np.where(last > most, np.round(last - step, places), last)
    return first, last


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


def round_numbers(column: Column) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The number of two digits that each bin is around, and these two digits, each of shape (bins,); 0 where a bin has
    one number alone, or is around none. Columns on other scales have none.

    >>> numbers, digits = round_numbers(Column("X", lower=0, upper=90_000, integer=True, scale="rounded"))
    >>> numbers[[99, 100, 134, 359, 361]].tolist(), digits[[99, 100, 134, 359, 361]].tolist()
    ([0.0, 100.0, 440.0, 89000.0, 0.0], [0, 10, 44, 89, 0])
    """
    numbers, digits = np.zeros(column.bins), np.zeros(column.bins, dtype=np.intp)
    if column.scale != "rounded" or column.edges or column.layout or column.release not in ("draw", "value"):
        return numbers, digits
    for place, (low, high) in enumerate(zip(*(ends.tolist() for ends in drawn_ends(column)), strict=True)):
        middle = abs(low + high) / 2
        if low < high and middle > 0:
            power = floor(log10(middle)) - 1
            two = round(middle / 10.0**power)
            two, power = (10, power + 1) if two == 100 else (two, power)
            number = float(Decimal(two).scaleb(power)) * (1 if low + high > 0 else -1)
            inside = (column.cuts[place] < number or place == 0) and low <= number <= high
            around = inside and _PART[0] <= (high - low + column.integer) / 10.0**power <= _PART[1]
            if around and (power >= 0 or not column.integer) and power >= -(column.decimals or np.inf):
                numbers[place], digits[place] = number, two
    return numbers, digits
