"""What stratification costs a private mean, from the sizes of the groups.

The noise of a stratified Laplace mean grows with Σ log|Gᵢ|: at most k·ln(n/k), for equal groups. Theorem 10 is its
expectation when shares follow a symmetric Dirichlet distribution.

>>> race = [138474, 24024, 508, 5, 244, 17030, 72, 10964, 5646]  # New York 2018, RAC1P
>>> alpha = fit_alpha(race)
>>> round(alpha, 4), round(fit_alpha(race, method="moments"), 4)  # the paper's α is the second
(0.2566, 0.1301)
>>> n = sum(race)
>>> [round(f, 1) for f in (equal_log_sizes(9, n), expected_log_sizes(9, alpha, n), least_log_sizes(9, n))]
[89.9, 67.2, 20.2]

Source: the stratification paper, Proposition 9, Theorem 10 and their proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import psi

from equistrata.errors import InputError
from equistrata.stats.checks import one_of, positive, whole

AlphaFit = Literal["likelihood", "moments"]

EVEN = 1e-12  # distance of the mean logarithm from that of equal shares, below which α (past 10¹¹) counts as infinite


def expected_log_sizes(k: int, alpha: float, n: float) -> float:
    """Theorem 10: E Σ log(gᵢn) = k(ψ(α) − ψ(kα) + ln n) for shares g from the symmetric Dirichlet distribution.

    k ≥ 1 groups, α > 0 (infinite for equal groups), n > 0 rows. Raises InputError on others.

    >>> round(expected_log_sizes(2, 1.0, 100), 4)  # both shares uniform: 2(ln 100 − 1)
    7.2103
    """
    k, n = whole("k", k, 1), positive("n", n)
    if alpha == math.inf:
        return k * math.log(n / k)
    alpha = positive("alpha", alpha)
    return k * (float(psi(alpha) - psi(k * alpha)) + math.log(n))


def equal_log_sizes(k: int, n: float) -> float:
    """Lemma 12: the bound k·ln(n/k) on Σ log|Gᵢ|, reached by equal groups. k ≥ 1 groups, n > 0 rows."""
    return whole("k", k, 1) * math.log(positive("n", n) / k)


def least_log_sizes(k: int, n: float) -> float:
    """(k − 1) + ln(n − k + 1): the paper's informal best case, all groups but one tiny. k ≥ 1 groups, n ≥ k rows."""
    k, n = whole("k", k, 1), positive("n", n)
    if n < k:
        raise InputError(f"n is {n:g}, but {k} groups need at least as many rows; give more rows or fewer groups")
    return k - 1 + math.log(n - k + 1)


def fit_alpha(shares: Sequence[float] | npt.ArrayLike, *, method: AlphaFit = "likelihood") -> float:
    """The α of the symmetric Dirichlet distribution that fits one vector of group shares; infinite for equal shares.

    "likelihood" solves ψ(kα) − ψ(α) = −mean(ln gᵢ); at that α Theorem 10 gives the vector's own Σ log(gᵢn). "moments"
    matches Σ gᵢ² = (α + 1)/(kα + 1), which the largest groups decide. `shares`: shape (k,), k ≥ 2, shares or sizes.
    Raises InputError unless all are positive and finite.

    >>> fit_alpha([0.25, 0.25, 0.25, 0.25])
    inf
    """
    one_of("method", method, get_args(AlphaFit))
    sizes = np.asarray(shares, dtype=float)
    if sizes.ndim != 1 or len(sizes) < 2:
        raise InputError("a Dirichlet law needs at least two groups; give a share for each")
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise InputError("a group's share is not a positive number; leave empty groups out")
    g, k = sizes / sizes.sum(), len(sizes)
    if method == "moments":
        squares = float((g**2).sum())
        return (1 - squares) / (k * squares - 1) if k * squares - 1 > EVEN else math.inf
    target = -float(np.log(g).mean())
    if target - math.log(k) < EVEN:
        return math.inf

    def excess(log_alpha: float) -> float:
        alpha = math.exp(log_alpha)
        return float(psi(k * alpha) - psi(alpha)) - target

    # (1 − 1/k)/α < ψ(kα) − ψ(α) < ln k + 1/α, from ψ(x + 1) = ψ(x) + 1/x and 1/(2x) < ln x − ψ(x) < 1/x.
    least, most = math.log((1 - 1 / k) / target) - 1, math.log(1 / (target - math.log(k))) + 1
    return math.exp(brentq(excess, least, most, xtol=1e-14, rtol=1e-14))
