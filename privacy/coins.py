"""Exact binomial draws from the random bits of the operating system.

A trial succeeds if a uniform random number is smaller than p. A float p ≥ 2⁻¹¹ has at most 64 binary places, so that a
comparison with 64 random bits is exact. A smaller p is truncated after 64 binary places.

>>> exact_binomial(70, np.array([0.0, 1.0])).tolist()
[0, 70]
"""

from __future__ import annotations

import os

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.errors import InputError

ROWS_AT_ONCE = 1 << 16  # the number of draws in one block, which bounds memory use


def exact_binomial(trials: int, p: Floats) -> Counts:
    """Draw one value from Binomial(trials, p) for each probability in `p`.

    Parameters
    ----------
    trials : int
        The number of trials of each draw.
    p : ndarray of float
        Probabilities in [0, 1], of any shape.

    Returns
    -------
    ndarray of int
        The numbers of successes, with the same shape as `p`.
    """
    flat = p.ravel()
    drawn = np.empty(flat.shape, dtype=np.int64)
    for start in range(0, len(flat), ROWS_AT_ONCE):
        drawn[start : start + ROWS_AT_ONCE] = _exact_binomial(trials, flat[start : start + ROWS_AT_ONCE])
    return drawn.reshape(p.shape)


def checked_trials(trials: int, probabilities: Floats) -> tuple[int, Floats]:
    """Check the parameters of a binomial draw.

    Parameters
    ----------
    trials : int
        The number of trials, from 1 to 2³¹ − 1.
    probabilities : ndarray of float
        Probabilities in [0, 1].

    Returns
    -------
    trials : int
        The number of trials as a Python integer.
    probabilities : ndarray of float
        The probabilities in double precision.

    Raises
    ------
    InputError
        If a parameter is out of its range.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("the probabilities of a binomial draw must lie in [0, 1]")
    if not 1 <= trials < 2**31:
        raise InputError(f"a binomial draw needs a whole number of trials, 1 to 2³¹ − 1, not {trials}")
    return int(trials), p


def _exact_binomial(trials: int, p: Floats) -> Counts:
    """Compare the uniform numbers of all trials with p at once, one binary place after another.

    The comparison starts at the most significant place and follows only the trials that agree with p so far. In the
    next place, each of these trials has a 0 with probability 1/2. If p has a 1 in that place, the trials with a 0 are
    smaller than p and succeed. If p has a 0, the trials with a 1 are larger than p and fail. The other trials remain
    undecided. A trial needs two random bits on average.
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
    """Draw from Binomial(tosses, 1/2) for each entry by counting the ones among random bits.

    All entries must be positive.
    """
    words = (tosses + 63) // 64
    ends = np.cumsum(words)
    bits = np.frombuffer(os.urandom(8 * int(ends[-1])), dtype=np.uint64).copy()
    unused = (64 * words - tosses).astype(np.uint64)  # 0 to 63 bits of each entry's last word
    bits[ends - 1] >>= unused
    return np.add.reduceat(np.bitwise_count(bits).astype(np.int64), ends - words)
