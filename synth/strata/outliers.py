"""Strata, or all strata of one value, that are unlike all others: which they are, and how far off they may be.

In the mixed model what strata differ by has one variance. Where three of four are alike it is about zero, and the
fourth is not believed, however clear its counts are. So each stratum, and each value of a stratum column, may have a
shift of its own: none, or with a small probability one of a wide law, up to as far as two distributions can be apart.
How likely that is given the noisy counts has a closed form, since their noise is known. What is unlike others in one
column is rather so in others. Post-processing, no cost. See docs/proofs/shrinkage.md.

Source: the mean-shift model of outliers (Cook and Weisberg, Residuals and Influence in Regression, 1982, chapter 2),
with priors for which and how far (Verdinelli and Wasserman, Statistics and Computing 1991).

>>> off = Looks(np.eye(5) / 0.01 - 20, np.array([[0.0], [0.0], [0.0], [0.0], [0.9]]), np.eye(5), 1.0)
>>> alike = Looks(off.projection, np.zeros((5, 1)), np.eye(5), 1.0)
>>> found = shifts({("AGE",): off, ("JOB",): alike})
>>> found["AGE",].round(2).tolist(), found["JOB",].round(3).tolist()
([0.0, 0.0, 0.0, 0.0, 0.43], [0.0, 0.0, 0.0, 0.0, 0.002])
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from equistrata.arrays import Floats
from equistrata.stats.random_effects import families
from equistrata.synth.measurements import Columns

# docs/experiments/shrinkage.md
_UNLIKE = 0.05  # the probability that a stratum, or a value of a stratum column, is unlike all others
_COLUMNS, _STRAY = 0.5, 0.01  # the probability that a column of it has a shift if it is, and if it is not
_WIDTHS = 4.0 ** -np.arange(4)  # the variances of a shift that are equally likely, of the widest
_LEAST = 0.05  # the least probability of a shift that is heeded
_MOST = 1 / 3  # of all levels: more of them would be no exceptions


@dataclass(frozen=True, eq=False)
class Looks:
    """What was seen of a marginal, and what may have a shift of its own: m looks, l levels, c cells.

    Attributes:
        projection: the looks' inverse covariance without the common mean, shape (m, m).
        observed: shares by contrast, shape (m, c − 1).
        levels: the part of each level in each look, shape (l, m).
        widest: the largest variance of a shift.
    """

    projection: Floats
    observed: Floats
    levels: Floats
    widest: float


def levels_of(keys: Sequence[tuple[Hashable, ...]]) -> Floats:
    """What may be unlike others: each stratum, and the strata of each value; 0 or 1, shape (l, k)."""
    found = np.hstack(families(keys)).T
    return np.asarray(found[found.sum(1) < len(keys)])


def widest_variance(shares: Floats) -> float:
    """That of a shift to where all rows are in one cell: its squares add up to at most one more than the shares'."""
    return float(1 + (shares**2).sum()) / max(len(shares) - 1, 1)


def shifts(looks: Mapping[Columns, Looks]) -> dict[Columns, Floats]:
    """The variance of each level's shift in each marginal, shape (l,): 0 for nearly all.

    With that variance a normal law keeps as much of what is off as the mixture of no shift and of shifts of all widths
    does on average.

    Args:
        looks: of columns and of pairs of columns, all with the same levels.
    """
    factors = {columns: logsumexp(_factors(_Pushed.of(found))[0], axis=1) for columns, found in looks.items()}
    ratios = {}  # how much likelier a column is if its level is unlike others
    for columns, factor in factors.items():
        unlike, like = (np.logaddexp(np.log(p) + factor, np.log1p(-p)) for p in (_COLUMNS, _STRAY))
        ratios[columns] = unlike - like
    found = {}
    for columns, seen in looks.items():
        others = [ratios[other] for other in ratios if len(other) == 1 and other[0] not in columns]
        unlike = expit(np.log(_UNLIKE / (1 - _UNLIKE)) + sum(others, np.zeros(len(seen.levels))))
        found[columns] = _chosen(_Pushed.of(seen), _COLUMNS * unlike + _STRAY * (1 - unlike))
    return found


@dataclass(eq=False)
class _Pushed:
    """Looks, and the levels times their projection, shape (l, m), which changes once a level has a shift."""

    looks: Looks
    pushed: Floats

    @classmethod
    def of(cls, looks: Looks) -> _Pushed:
        return cls(looks, looks.levels @ looks.projection)

    def shift(self, level: int, variance: float, information: float) -> None:
        """Give a level a shift of this variance: Sherman and Morrison's formula."""
        weight = variance / (1 + variance * information)
        self.pushed = self.pushed - weight * np.outer(self.pushed @ self.looks.levels[level], self.pushed[level])


def _factors(seen: _Pushed) -> tuple[Floats, Floats, Floats]:
    """The logarithm of each width's probability times its Bayes factor against none, and the part of what is off that a
    shift of that width keeps, shapes (l, widths); and the precision with which a shift is seen, shape (l,)."""
    looks = seen.looks
    information = np.maximum((seen.pushed * looks.levels).sum(1), 1e-12)
    squares = ((seen.pushed @ looks.observed) ** 2).sum(1) / information
    ratio = information[:, None] * looks.widest * _WIDTHS
    kept = ratio / (1 + ratio)
    logs = (squares[:, None] * kept - looks.observed.shape[1] * np.log1p(ratio)) / 2
    return logs - np.log(len(_WIDTHS)), kept, information


def _chosen(seen: _Pushed, chances: Floats) -> Floats:
    """The variances of shifts, the likeliest first, each given those before it; `chances` are from before, (l,)."""
    variances = np.zeros(len(chances))
    left = np.ones(len(chances), dtype=bool)
    for _ in range(int(_MOST * len(chances))):
        logs, kept, information = _factors(seen)
        odds = np.where(left, logsumexp(logs, axis=1) + np.log(chances / (1 - chances)), -np.inf)
        best = int(odds.argmax())
        chance = expit(odds[best])
        if chance < _LEAST:
            break
        widths = np.exp(logs[best] - logsumexp(logs[best]))
        part = chance * float(widths @ kept[best])
        variances[best] = part / (1 - part) / information[best]
        seen.shift(best, float(variances[best]), float(information[best]))
        left[best] = False
    return variances
