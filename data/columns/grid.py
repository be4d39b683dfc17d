"""The bins of a numeric column for which only the bounds are declared.

The bins only depend on the schema, so they are public. They are narrow so that the values lose little precision. A
synthesizer merges them according to its measurements (see `equistrata.synth.models.coarsening`). The values within a
merged bin are drawn from the measured one-way marginal of the column.

>>> fine_edges(0, 3, "linear", integer=True)
(0.0, 0.5, 1.5, 2.5, 3.0)
>>> fine_edges(10, 60, "linear")[:3], len(fine_edges(10, 60, "linear"))
((10.0, 10.05, 10.1), 1001)
>>> [edge for edge in fine_edges(-5000, 1_000_000, "logarithmic", integer=True) if abs(edge) < 2 or edge > 980_000]
[-1.5, -0.5, 0.5, 1.5, 980000.5, 990000.5, 1000000.0]
>>> fine_edges(0, 1_000_000, "logarithmic")[1:4], scale_of(0, 1_000_000), scale_of(20_230_101, 20_241_231)
((0.0, 1.0, 2.0), 'rounded', 'linear')
>>> add_bound_bins((45.0, 46.0, 48.0, 50.0), 45, 50, digits=1)
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

# Logarithmic bins end at the numbers with two significant digits. Rounded bins end halfway between these numbers, so
# that an income that was rounded to thousands is in the middle of a bin. Releases before 2026-11-26 are logarithmic.
Scale = Literal["linear", "logarithmic", "rounded"]

# The maximum number of linear bins, and of the bins of equal width on the other scales.
FINE_BINS, COARSER_BINS = 1000, 100
_WIDE = 100.0  # the ratio of the bounds above which bins of equal width are too wide near the smaller bound
_ROUNDING, _ULPS = 1e-9, 64  # rounding error: relative to a width, and in units in the last place of the larger bound
_DECADES = 6  # the number of decades below the larger bound that have bins at numbers of two digits


def scale_of(lower: float, upper: float, integer: bool = False) -> Scale:
    """Return the scale of a column that does not declare one.

    The scale is "rounded" if the bounds include zero, or if one bound is at least 100 times the other in absolute
    value. Otherwise, the scale is "linear". It is also "linear" for whole numbers if each number has a separate bin.
    """
    nearer, further = sorted((abs(lower), abs(upper)))
    few = integer and upper - lower < FINE_BINS
    return "rounded" if not few and (lower <= 0 <= upper or further >= _WIDE * nearer) else "linear"


def fine_edges(
    lower: float, upper: float, scale: Scale, integer: bool = False, decimals: int | None = None
) -> tuple[float, ...]:
    """Return the edges of the fine bins between two bounds.

    On the linear scale, all bins have the same width, which is 1, 2 or 5 times a power of ten. There are at most
    FINE_BINS bins. Each whole number has a separate bin if this limit allows it.

    On the logarithmic scale, the bins end at the numbers with at most two significant digits (98, 99, 100, 110, …, 990,
    1000, 1100, …), so that large and small numbers have the same relative precision. Zero has a separate bin. Numbers
    that are not whole use these bins where they are narrower than the range divided by COARSER_BINS. The smallest of
    these bins end at 1, …, 99 times a millionth of the larger bound, where the bound is rounded up to a power of ten.

    On the rounded scale, the same numbers are in the middle of the bins. If a respondent rounded a number, the released
    numbers are therefore drawn from both sides of the rounded number.

    Parameters
    ----------
    lower, upper : float
        The bounds of the column.
    scale : {"linear", "logarithmic", "rounded"}
        The scale of the bins.
    integer : bool
        If True, the numbers are whole.
    decimals : int, optional
        The number of decimals, if it is known. No bin is narrower than one unit of the last decimal. If the bins have
        this width, the lower bound has a separate bin, as all other numbers have.

    Returns
    -------
    tuple of float
        The edges in ascending order. The first edge is the lower bound, or the next smaller float if the lower bound
        has a separate bin.
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
        # If the unit is the finest, there is no number between it and zero.
        inside = [*map(float, numbers), *[below_zero] * (unit != finest)]
    first = below_zero if scale == "logarithmic" and not integer and lower == 0 else float(lower)
    between = _between(inside, first, lower, upper)
    if decimals is not None and not integer and first == lower and between and between[0] - first < 1.5 * finest:
        # Otherwise the lower bound would share a bin with the next number.
        first, between = math.nextafter(first, -math.inf), [first, *between]
    return (first, *between, float(upper))


def add_bound_bins(edges: Sequence[float], lower: float, upper: float, digits: int | None) -> tuple[float, ...]:
    """Add edges so that the smallest and the largest number have separate bins.

    Parameters
    ----------
    edges : sequence of float
        The edges from `fine_edges`.
    lower, upper : float
        The bounds of the column.
    digits : int or None
        The number of decimals, which is 0 for whole numbers, or None if it is not known.

    Returns
    -------
    tuple of float
        The edges in ascending order.
    """
    if digits is None:
        below = [math.nextafter(bound, -math.inf) for bound in (lower, upper)]
        return tuple(sorted({*edges, *below, float(lower)}))
    unit = Fraction(10) ** -digits
    inside = [Fraction(str(edge)) / unit for edge in edges[1:-1]]
    least, largest = ceil(Fraction(str(lower)) / unit), floor(Fraction(str(upper)) / unit)
    # An edge is needed between each of these numbers and the next.
    gaps = {least, largest - 1} if least < largest else set()
    cuts = (gap + Fraction(1, 2) for gap in gaps if not any(gap <= edge < gap + 1 for edge in inside))
    return tuple(sorted({*edges, *(float(cut * unit) for cut in cuts)}))


def _rounded(lower: float, upper: float, finest: Fraction, integer: bool) -> tuple[float, ...]:
    """Return edges that are halfway between the numbers with two significant digits, where zero has a separate bin."""
    if integer:
        numbers = [*(-number for number in _two_digits(-lower)), 0, *_two_digits(upper)]
        # A whole number that is exactly halfway belongs to the bin that is further from zero.
        ends = [(a + b) // 2 + (0.5 if b <= 0 or b - a == 1 else -0.5) for a, b in pairwise(sorted(numbers))]
        return (float(lower), *(edge for edge in ends if ceil(lower) < edge < floor(upper)), float(upper))
    middles, unit = _spread_numbers(lower, upper, finest)
    halves = [float((a + b) / 2) for a, b in pairwise(middles) if unit == finest or 0 not in (a, b)]
    below_zero = math.nextafter(0.0, -math.inf)
    first = below_zero if lower == 0 else float(lower)
    inside = [*halves, *[below_zero, 0.0] * (unit != finest)]
    return (first, *_between(inside, first, lower, upper), float(upper))


def _between(edges: Iterable[float], first: float, lower: float, upper: float) -> list[float]:
    """Return the edges between the bounds in ascending order.

    Edges that differ from a bound only by rounding error are left out, except for the edges of the bin of zero.
    """
    slack = rounding(upper - lower, lower, upper)
    own = (math.nextafter(0.0, -math.inf), 0.0)
    return sorted(x for x in edges if first < x < upper and (x in own or lower + slack < x < upper - slack))


def rounding(width: float, lower: float, upper: float) -> float:
    """Return the rounding error of floating-point arithmetic for numbers between two bounds.

    The result is a small fraction of the width, and it is at most a few units in the last place of the larger bound. It
    is small enough that -9 does not count as zero if the bounds are 0 and 1e12.

    >>> rounding(0.2, 0, 0.2) < 1e-14, rounding(1e12, 0, 1e12), rounding(1e-6, 1, 1 + 1e-6) <= 1e-15
    (True, 0.0078125, True)
    """
    return min(_ROUNDING * width, _ULPS * math.ulp(max(abs(lower), abs(upper))))


def _spread_numbers(lower: float, upper: float, finest: Fraction) -> tuple[list[Fraction], Fraction]:
    """Return numbers on both sides of zero, and the smallest positive one.

    The numbers near zero have at most two significant digits. The other numbers are multiples of the width of
    COARSER_BINS equal bins.
    """
    width = _round_width(lower, upper, COARSER_BINS, finest)
    near = 100 * Fraction(10) ** floor(log10(width))
    unit = max(Fraction(10) ** (ceil(log10(max(abs(lower), abs(upper)))) - _DECADES), finest)
    digits: Iterable[Fraction] = (number * unit for number in _two_digits(float(near / unit)))
    close = [number for number in digits if number <= near]
    far = [step * width for step in range(floor(Fraction(lower) / width), ceil(Fraction(upper) / width) + 1)]
    return sorted({Fraction(0), *close, *(-x for x in close), *(x for x in far if abs(x) > near)}), unit


def _round_width(lower: float, upper: float, bins: int, finest: Fraction) -> Fraction:
    """Return the smallest width for which there are at most `bins` bins.

    The width is 1, 2 or 5 times a power of ten, and it is at least `finest`.
    """
    low, high, slack = Fraction(lower), Fraction(upper), Fraction(_ROUNDING)  # exact arithmetic
    widths = (m * Fraction(10) ** k for k in count(floor(log10(upper - lower)) - 3) for m in (1, 2, 5))
    wide = (each for each in widths if each >= finest)
    return next(each for each in wide if ceil(high / each - slack) - floor(low / each + slack) <= bins)


def _round_numbers(lower: float, upper: float, bins: int, finest: Fraction, integer: bool) -> list[float]:
    """Return multiples of the smallest round width for which there are at most `bins` bins.

    For whole numbers, the edges are halfway between two whole numbers.
    """
    if integer and upper - lower < bins:
        return [whole + 0.5 for whole in range(ceil(lower), floor(upper))]
    width, shift = _round_width(lower, upper, bins, finest), Fraction(1, 2) if integer else 0
    steps = range(floor(Fraction(lower) / width), ceil(Fraction(upper) / width) + 1)
    return [float(step * width + shift) for step in steps]


def digits_of(lower: float, upper: float) -> int:
    """Return the number of decimals of drawn numbers if it is not declared.

    A thousandth of the range then contains at least 100 numbers.
    """
    return max(2 - floor(log10(_round_width(lower, upper, FINE_BINS, Fraction(0)))), 0)


def _two_digits(most: float) -> list[int]:
    """Return the positive whole numbers with at most two significant digits, in ascending order.

    The last of the numbers is at least `most`.
    """
    numbers, power = list(range(1, 100)), 1
    while numbers[-1] < most:
        power *= 10
        numbers += [digits * power for digits in range(10, 100)]
    return numbers
