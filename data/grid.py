"""The bins of a numeric column that declares bounds alone: so fine that values lose little, and public.

A synthesizer merges them by what it measures (`equistrata.synth.models.coarsening`). Values are drawn by the shares
that the column by itself was measured to have.

>>> fine_edges(0, 3, integer=True)
(0.0, 0.5, 1.5, 2.5, 3.0)
>>> fine_edges(10, 60)[:3], len(fine_edges(10, 60))
((10.0, 10.05, 10.1), 1001)
>>> [edge for edge in fine_edges(-5000, 1_000_000, integer=True) if abs(edge) < 2 or edge > 980_000]
[-1.5, -0.5, 0.5, 1.5, 980000.5, 990000.5, 1000000.0]
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from math import ceil, floor, log10

FINE_BINS = 1000  # at most, of numbers that are not whole, and of whole ones with a bin each


def fine_edges(lower: float, upper: float, integer: bool = False) -> tuple[float, ...]:
    """The edges between two bounds.

    Whole numbers have a bin each if there are at most FINE_BINS of them. Else bins end at numbers of two digits (98,
    99, 100, 110, …, 990, 1000, 1100, …), which keeps incomes apart as well as hours. Numbers that are not whole have
    bins of one width, 1, 2 or 5 times a power of ten.
    """
    if not integer:
        inside = _round_numbers(lower, upper)
    elif upper - lower < FINE_BINS:
        inside = [whole + 0.5 for whole in range(ceil(lower), floor(upper))]
    else:
        inside = [number + 0.5 for number in _two_digits(lower, upper)]
    return (float(lower), *(edge for edge in inside if lower < edge < upper), float(upper))


def _round_numbers(lower: float, upper: float) -> list[float]:
    """Multiples of the least round width that makes at most FINE_BINS bins."""
    low, high = Fraction(lower), Fraction(upper)  # exact: 10.1 is the float nearest to it, whatever came before
    widths = (m * Fraction(10) ** k for k in count(floor(log10(upper - lower)) - 3) for m in (1, 2, 5))
    width = next(width for width in widths if ceil(high / width) - floor(low / width) <= FINE_BINS)
    return [float(step * width) for step in range(floor(low / width), ceil(high / width) + 1)]


def _two_digits(lower: float, upper: float) -> list[int]:
    """Whole numbers of two digits and zeros, ascending; those below zero are such that bins mirror those above."""
    numbers, power = list(range(1, 100)), 1
    while numbers[-1] < max(abs(lower), abs(upper)):
        power *= 10
        numbers += [digits * power for digits in range(10, 100)]
    return [*(-number - 1 for number in reversed(numbers)), -1, 0, *numbers]
