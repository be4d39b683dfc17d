"""Exact binomial draws from the operating system's random bits.

A trial succeeds if a uniform number is below p. A float p ≥ 2⁻¹¹ has at most 64 binary places, so comparing 64 random
bits with them is exact; a smaller p is cut off after 64 places.

>>> exact_binomial(70, np.array([0.0, 1.0])).tolist()
[0, 70]
"""

from __future__ import annotations

import os

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError

ROWS_AT_ONCE = 1 << 16  # draws are made in blocks of this many, to bound memory


def exact_binomial(trials: int, p: Floats) -> Counts:
    """One draw of Binomial(trials, p) for each p in [0, 1]. Any shape, shape kept."""
    flat = p.ravel()
    drawn = np.empty(flat.shape, dtype=np.int64)
    for start in range(0, len(flat), ROWS_AT_ONCE):
        drawn[start : start + ROWS_AT_ONCE] = _exact_binomial(trials, flat[start : start + ROWS_AT_ONCE])
    return drawn.reshape(p.shape)


def checked_trials(trials: int, probabilities: Floats) -> tuple[int, Floats]:
    """A whole number of trials, and probabilities as floats. Raises InputError if they are none."""
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("the probabilities of a binomial draw must lie in [0, 1]")
    if not 1 <= trials < 2**31:
        raise InputError(f"a binomial draw needs a whole number of trials, 1 to 2³¹ − 1, not {trials}")
    return int(trials), p


def _exact_binomial(trials: int, p: Floats) -> Counts:
    """Compare all trials' uniform numbers with p at once, binary place by binary place, from the first one down.

    Of the trials that agree with p so far, a fair half has 0 in the next place. Where p has 1 there, those are below p
    and succeed; where p has 0, the others are above and fail; the rest go on. Two random bits a trial on average.
    """
    certain = p >= 1
    places = (np.where(certain, 0.0, p) * 2.0**64).astype(np.uint64)
    undecided = np.where(certain, 0, trials).astype(np.int64)
    successes = np.where(certain, trials, 0).astype(np.int64)
    for place in range(63, -1, -1):
        rows = np.flatnonzero(undecided)
        if not len(rows):
            break
        zeros = _fair_coins(undecided[rows])
        one = (places[rows] >> np.uint64(place)) & np.uint64(1) == 1
        successes[rows] += np.where(one, zeros, 0)
        undecided[rows] = np.where(one, undecided[rows] - zeros, zeros)
    return successes


def _fair_coins(tosses: Counts) -> Counts:
    """Binomial(tosses, ½) for each entry (all positive): the number of ones among that many random bits."""
    words = (tosses + 63) // 64
    ends = np.cumsum(words)
    bits = np.frombuffer(os.urandom(8 * int(ends[-1])), dtype=np.uint64).copy()
    unused = (64 * words - tosses).astype(np.uint64)  # 0 to 63 bits of each entry's last word
    bits[ends - 1] >>= unused
    return np.add.reduceat(np.bitwise_count(bits).astype(np.int64), ends - words)
