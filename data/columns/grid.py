"""The bins of a numeric column that declares bounds alone: so fine that values lose little, and public.

A synthesizer merges them by what it measures (`equistrata.synth.models.coarsening`). Values are drawn by the shares
that the column by itself was measured to have.

>>> fine_edges(0, 3, "linear", integer=True)
(0.0, 0.5, 1.5, 2.5, 3.0)
>>> fine_edges(10, 60, "linear")[:3], len(fine_edges(10, 60, "linear"))
((10.0, 10.05, 10.1), 1001)
>>> [edge for edge in fine_edges(-5000, 1_000_000, "logarithmic", integer=True) if abs(edge) < 2 or edge > 980_000]
[-1.5, -0.5, 0.5, 1.5, 980000.5, 990000.5, 1000000.0]
>>> fine_edges(0, 1_000_000, "logarithmic")[1:4], scale_of(0, 1_000_000), scale_of(20_230_101, 20_241_231)
((0.0, 1.0, 2.0), 'rounded', 'linear')
>>> with_bounds_apart((45.0, 46.0, 48.0, 50.0), 45, 50, digits=1)
(45.0, 45.05, 46.0, 48.0, 49.95, 50.0)
>>> [edge for edge in fine_edges(0, 90_000, "rounded", integer=True) if edge < 2 or 99 < edge < 120 or edge > 88_000]
[0.0, 0.5, 1.5, 99.5, 104.5, 114.5, 88499.5, 89499.5, 90000.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import count, pairwise
from math import ceil, floor, log10
from typing import Literal

# Bins of the last end halfway between those numbers of two digits at which the second's end: incomes in thousands are
# in the middle of a bin. "logarithmic" is that of releases from before 2026-11-26.
Scale = Literal["linear", "logarithmic", "rounded"]

FINE_BINS, COARSER_BINS = 1000, 100  # at most, of one width; and where a logarithmic scale has more near zero
_WIDE = 100.0  # times the bound that is nearer to zero: from there on one width tells too little of what is near
_ROUNDING, _ULPS = 1e-9, 64  # part of a bin, or of all; units in the last place of the bound that is further from zero
_DECADES = 6  # of two digits of numbers that are not whole, down from the bound that is further from zero


def scale_of(lower: float, upper: float, integer: bool = False) -> Scale:
    """The scale of a column that declares none: rounded if its bounds reach to zero, or nearly.

    Whole numbers that have a bin each are linear.
    """
    nearer, further = sorted((abs(lower), abs(upper)))
    few = integer and upper - lower < FINE_BINS
    return "rounded" if not few and (lower <= 0 <= upper or further >= _WIDE * nearer) else "linear"


def fine_edges(
    lower: float, upper: float, scale: Scale, integer: bool = False, decimals: int | None = None
) -> tuple[float, ...]:
    """The edges between two bounds. The first is the lower bound, or the next smaller float where that is a bin alone.

    Linear: bins of one width, 1, 2 or 5 times a power of ten, at most FINE_BINS; whole numbers have a bin each where
    that suffices. Logarithmic: bins end at numbers of two digits (98, 99, 100, 110, …, 990, 1000, 1100, …), which keeps
    incomes apart as well as hours, and zero has a bin of its own. Numbers that are not whole have such bins where they
    are narrower than COARSER_BINS of one width; they begin with 1, …, 99 times a millionth of the further bound,
    rounded up to a power of ten. Rounded: the same numbers are in the middle of the bins, and so numbers that people
    round are drawn around what they say.

    Args:
        decimals: of numbers that are not whole, if known: no bin is narrower than the last of them, and where bins are
            as narrow, the lower bound has one of its own, as all other numbers have.
    """
    finest = Fraction(10) ** -(decimals or 0) if integer or decimals is not None else Fraction(0)
    if scale == "rounded":
        return _rounded(lower, upper, finest, integer)
    below_zero = math.nextafter(0.0, -math.inf)
    if scale == "linear":
        inside = _round_numbers(lower, upper, FINE_BINS, finest, integer)
    elif integer:
        ends = [*(-number - 1 for number in _two_digits(-lower)), -1, 0, *_two_digits(upper)]
        inside = [end + 0.5 for end in ends]
    else:
        numbers, unit = _spread_numbers(lower, upper, finest)
        inside = [*map(float, numbers), *[below_zero] * (unit != finest)]  # else none is between the last and zero
    first = below_zero if scale == "logarithmic" and not integer and lower == 0 else float(lower)
    between = _between(inside, first, lower, upper)
    if decimals is not None and not integer and first == lower and between and between[0] - first < 1.5 * finest:
        first, between = math.nextafter(first, -math.inf), [first, *between]  # else it would share a bin with the next
    return (first, *between, float(upper))


def with_bounds_apart(edges: Sequence[float], lower: float, upper: float, digits: int | None) -> tuple[float, ...]:
    """The edges, and those that put the least and the largest number into bins of their own.

    Args:
        edges: of `fine_edges`.
        digits: how many decimals the numbers have, 0 of whole ones; None if that is not known.
    """
    if digits is None:
        below = [math.nextafter(bound, -math.inf) for bound in (lower, upper)]
        return tuple(sorted({*edges, *below, float(lower)}))
    unit = Fraction(10) ** -digits
    inside = [Fraction(str(edge)) / unit for edge in edges[1:-1]]
    least, largest = ceil(Fraction(str(lower)) / unit), floor(Fraction(str(upper)) / unit)
    gaps = {least, largest - 1} if least < largest else set()  # between such a number and the next is an edge
    cuts = (gap + Fraction(1, 2) for gap in gaps if not any(gap <= edge < gap + 1 for edge in inside))
    return tuple(sorted({*edges, *(float(cut * unit) for cut in cuts)}))


def _rounded(lower: float, upper: float, finest: Fraction, integer: bool) -> tuple[float, ...]:
    """Edges halfway between numbers of two digits; zero is a bin alone."""
    if integer:
        numbers = [*(-number for number in _two_digits(-lower)), 0, *_two_digits(upper)]
        # A whole number halfway is further from zero.
        ends = [(a + b) // 2 + (0.5 if b <= 0 or b - a == 1 else -0.5) for a, b in pairwise(sorted(numbers))]
        return (float(lower), *(edge for edge in ends if ceil(lower) < edge < floor(upper)), float(upper))
    middles, unit = _spread_numbers(lower, upper, finest)
    halves = [float((a + b) / 2) for a, b in pairwise(middles) if unit == finest or 0 not in (a, b)]
    below_zero = math.nextafter(0.0, -math.inf)
    first = below_zero if lower == 0 else float(lower)
    inside = [*halves, *[below_zero, 0.0] * (unit != finest)]
    return (first, *_between(inside, first, lower, upper), float(upper))


def _between(edges: Iterable[float], first: float, lower: float, upper: float) -> list[float]:
    """The edges inside, ascending, without those that only rounding sets apart from a bound; zero's own stay."""
    slack = rounding(upper - lower, lower, upper)
    own = (math.nextafter(0.0, -math.inf), 0.0)
    return sorted(x for x in edges if first < x < upper and (x in own or lower + slack < x < upper - slack))


def rounding(width: float, lower: float, upper: float) -> float:
    """By how much a number between these bounds may be off by arithmetic on binary fractions: very little of a width,
    and no more than such numbers are apart. With bounds of 0 and 1e12, -9 is no zero.

    >>> rounding(0.2, 0, 0.2) < 1e-14, rounding(1e12, 0, 1e12), rounding(1e-6, 1, 1 + 1e-6) <= 1e-15
    (True, 0.0078125, True)
    """
    return min(_ROUNDING * width, _ULPS * math.ulp(max(abs(lower), abs(upper))))


def _spread_numbers(lower: float, upper: float, finest: Fraction) -> tuple[list[Fraction], Fraction]:
    """Zero and numbers of two digits on both sides of it, as far apart as COARSER_BINS of one width at most, ascending;
    and the least above zero."""
    width = _round_width(lower, upper, COARSER_BINS, finest)
    near = 100 * Fraction(10) ** floor(log10(width))
    unit = max(Fraction(10) ** (ceil(log10(max(abs(lower), abs(upper)))) - _DECADES), finest)
    digits: Iterable[Fraction] = (number * unit for number in _two_digits(float(near / unit)))
    close = [number for number in digits if number <= near]
    far = [step * width for step in range(floor(Fraction(lower) / width), ceil(Fraction(upper) / width) + 1)]
    return sorted({Fraction(0), *close, *(-x for x in close), *(x for x in far if abs(x) > near)}), unit


def _round_width(lower: float, upper: float, bins: int, finest: Fraction) -> Fraction:
    """The least width of 1, 2 or 5 times a power of ten, at least `finest`, of which few enough bins are made."""
    low, high, slack = Fraction(lower), Fraction(upper), Fraction(_ROUNDING)  # exact, whatever came before
    widths = (m * Fraction(10) ** k for k in count(floor(log10(upper - lower)) - 3) for m in (1, 2, 5))
    wide = (each for each in widths if each >= finest)
    return next(each for each in wide if ceil(high / each - slack) - floor(low / each + slack) <= bins)


def _round_numbers(lower: float, upper: float, bins: int, finest: Fraction, integer: bool) -> list[float]:
    """Multiples of the least round width that makes at most so many bins; of whole numbers, ends of such bins."""
    if integer and upper - lower < bins:
        return [whole + 0.5 for whole in range(ceil(lower), floor(upper))]
    width, shift = _round_width(lower, upper, bins, finest), Fraction(1, 2) if integer else 0
    steps = range(floor(Fraction(lower) / width), ceil(Fraction(upper) / width) + 1)
    return [float(step * width + shift) for step in steps]


def digits_of(lower: float, upper: float) -> int:
    """How many decimals numbers between these bounds have where nothing is said: a thousandth of the range has 100."""
    return max(2 - floor(log10(_round_width(lower, upper, FINE_BINS, Fraction(0)))), 0)


def _two_digits(most: float) -> list[int]:
    """Positive numbers of two digits and zeros, ascending, up to the first beyond `most` at least."""
    numbers, power = list(range(1, 100)), 1
    while numbers[-1] < most:
        power *= 10
        numbers += [digits * power for digits in range(10, 100)]
    return numbers
