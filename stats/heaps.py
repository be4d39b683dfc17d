"""How often people round their numbers, from noisy counts of bins around numbers of two digits.

Without rounding, neighbouring bins hold about as many rows for their width. What bins around numbers that end in 5
or 0 (35,000; 40,000) hold beyond their neighbours are rows with exactly that number, since who rounds to fives or tens
has no other. Who rounds to two digits (34,000) is in one bin with all that are near, so counts are silent on it: of
those who do not round to fives, as large a part is taken to round to two digits. In incomes of the ACS it is .31 to
.65 where .32 to .60 round to fives (docs/experiments/numbers.md). Where none are seen to round, none do.

>>> digits = np.arange(10, 100)
>>> counts = np.where(digits % 10 == 0, 300.0, np.where(digits % 5 == 0, 200.0, 100.0))
>>> found = rounding(counts, 5.0, digits, digits * 1000.0, np.full(90, 1000.0))
>>> f"{found.fives:.2f} {found.tens:.2f}", found.shares(np.array([34, 35, 40, 0])).round(2).tolist()
('0.50 0.67', [0.5, 0.75, 0.83, 0.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats

Digits = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_NEAR = 2  # bins to either side
_SEEN = 2.0  # standard deviations of the noise that rounding has to stand out by (docs/experiments/numbers.md)


@dataclass(frozen=True)
class Rounding:
    """The parts of the rows near a number ending in 5, or in 0, that have just it, for they round to such numbers."""

    fives: float = 0.0
    tens: float = 0.0

    def shares(self, digits: Digits) -> Floats:
        """Which part of each bin's rows has its number of two digits, shape (bins,); 0 where a bin has none."""
        coarser = np.where(digits % 10 == 0, self.tens, np.where(digits % 5 == 0, self.fives, 0.0))
        return np.asarray(np.where(digits > 0, 1 - (1 - coarser) * (1 - self.fives), 0.0))


def rounding(counts: Floats, sigma: float, digits: Digits, numbers: Floats, widths: Floats) -> Rounding:
    """How often rows round, over all bins together. Post-processing of noisy counts: no cost.

    Args:
        counts: of bins in order, with independent noise of the standard deviation sigma.
        digits: the two digits of the number that each bin is around, from 10 to 99; 0 for a bin that has none.
        numbers: that number.
        widths: of the bins.
    """
    ends_in_0 = (digits > 0) & (digits % 10 == 0)
    ends_in_5 = (digits > 0) & (digits % 5 == 0) & ~ends_in_0
    plain = (digits > 0) & (digits % 5 != 0)
    held = [_excess(counts, sigma, kind, plain, numbers, widths) for kind in (ends_in_5, ends_in_0)]
    return Rounding(*held)


def _excess(counts: Floats, sigma: float, kind: Mask, plain: Mask, numbers: Floats, widths: Floats) -> float:
    """The part of these bins' rows that their neighbours would not have, shrunk by how far it is above the noise."""
    own, weights = np.zeros(len(counts)), np.zeros(len(counts))  # weights: of neighbours, in place of the bins
    for place in np.flatnonzero(kind).tolist():
        sides = [[each for each in range(place + step, place + (_NEAR + 1) * step, step)
                  if 0 <= each < len(counts) and plain[each]] for step in (-1, 1)]  # fmt: skip
        if all(sides):  # the density in between, by a line
            left, right = (float(numbers[side].mean()) for side in sides)
            part = (numbers[place] - left) / (right - left)
            own[place] = 1.0
            for side, share in zip(sides, (1 - part, part), strict=True):
                weights[side] += share * widths[place] / widths[side] / len(side)
    held, expected = float(own @ counts), max(float(weights @ counts), 0.0)
    noise = sigma * sqrt(float(own @ own + weights @ weights))
    if not held > 0 or held - expected <= _SEEN * noise:
        return 0.0
    return float((1 - expected / held) * (1 - (noise / (held - expected)) ** 2))
