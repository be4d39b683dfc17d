"""Ranges of numbers in rules.

The ranges cut the bins of a column so that each bin is either completely inside or completely outside of a range.

>>> ages = Bins((0.0, 17.0, 39.0, 120.0), 0, 120, integer=True)
>>> young = ages.read("<15")
>>> young, ages.cut([young]), Bins(ages.cut([young]), 0, 120, integer=True).inside(young)
((-inf, 14), (0.0, 14.0, 17.0, 39.0, 120.0), range(0, 1))
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from equistrata.errors import InputError

Range = tuple[float, float]  # the smallest and the largest number in the range

FORMS = "'<15', '<=14', '>64', '>=65', '15-24' (both ends included) or '15'"
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_SIDED = re.compile(rf"\s*(<=|>=|<|>)\s*({_NUMBER})\s*")
_BETWEEN = re.compile(rf"\s*({_NUMBER})(?:\s*-\s*({_NUMBER}))?\s*")
_OPEN = re.compile(rf"\s*(?:[<>]=?|-|{_NUMBER}\s*-)\s*")


@dataclass(frozen=True)
class Bins:
    """The bins of a numeric column.

    Parameters
    ----------
    edges : tuple of float
        The edges in ascending order. The first bin is closed, and the other bins are open on the left.
    lower, upper : float
        The smallest and the largest number of the column.
    integer : bool
        If True, the column has whole numbers only.
    """

    edges: tuple[float, ...]
    lower: float
    upper: float
    integer: bool = False

    def read(self, text: str) -> Range:
        """Return the range of a text in one of the formats in FORMS.

        Raises
        ------
        InputError
            If the text is not a range or contains no number within the bounds. The message is the end of a sentence.
        """
        if sided := _SIDED.fullmatch(text):
            sign, number = sided[1], float(sided[2])
            if sign[0] == "<":
                low, high = -math.inf, self._last(number) if sign == "<=" else self._before(number)
            else:
                low, high = self._first(number) if sign == ">=" else self._after(number), math.inf
        elif between := _BETWEEN.fullmatch(text):
            ends = float(between[1]), float(between[2] or between[1])
            low, high = self._first(ends[0]), self._last(ends[1])
            if ends[0] > ends[1]:
                raise InputError("ends before it begins; write the smaller number first")
        elif _OPEN.fullmatch(text):
            raise InputError("has an open end; write '<15' or '>64'")
        else:
            raise InputError(f"is not a range; write {FORMS}")
        if low > high or high < self._first(self.lower) or low > self._last(self.upper):
            raise InputError(f"contains no number between the bounds {self.lower:g} and {self.upper:g}")
        return low, high

    def cut(self, ranges: Iterable[Range]) -> tuple[float, ...]:
        """Return the edges of the bins after each range is a union of bins.

        For real numbers, a cut below a number is at the next smaller float, so that every float is on the correct side.
        If the lowest number needs a separate bin, this bin begins below the number.
        """
        edges, (firsts, lasts) = set(self.edges), self.ends
        for low, high in ranges:
            for last in (self._before(low), high):  # the largest number to the left of a cut
                place = bisect_right(firsts, last) - 1
                if place >= 0 and last < lasts[place]:
                    edges |= {float(last), self.edges[0] if last > self.edges[0] else float(self._before(last))}
        return tuple(sorted(edges))

    def inside(self, numbers: Range) -> range:
        """Return the bins that are completely inside a range."""
        firsts, lasts = self.ends
        return range(bisect_left(firsts, numbers[0]), bisect_right(lasts, numbers[1]))

    @cached_property
    def ends(self) -> tuple[list[float], list[float]]:
        """The smallest numbers of the bins and the largest numbers of the bins.

        If a bin contains no number, its smallest number is larger than its largest number.
        """
        firsts = [self._first(max(self.edges[0], self.lower)), *map(self._after, self.edges[1:-1])]
        return firsts, [self._last(min(edge, self.upper)) for edge in self.edges[1:]]

    def _first(self, number: float) -> float:
        return math.ceil(number) if self.integer and math.isfinite(number) else number

    def _last(self, number: float) -> float:
        return math.floor(number) if self.integer and math.isfinite(number) else number

    def _before(self, number: float) -> float:
        whole = self.integer and math.isfinite(number)
        return math.ceil(number) - 1 if whole else math.nextafter(number, -math.inf)

    def _after(self, number: float) -> float:
        whole = self.integer and math.isfinite(number)
        return math.floor(number) + 1 if whole else math.nextafter(number, math.inf)
