"""Post-stratification: the number of people for whom a row stands, according to public weights.

The weights are chosen so that the strata have their public shares of the people. The mean of the population over the
people with a value is Σ g_i Σx / Σ g_i n_i. In this formula, a row of stratum i stands for g_i = ω_i/N_i people, where
ω_i is the public share of the stratum, and N_i is its number of rows with or without a value. If N_i is noisy, it is
combined with the public shares by inverse-variance weighting (see `equistrata.stats.relative_sizes`). Therefore a
stratum below the noise floor has the weight of its rows, and not a public share divided by noise. See
docs/proofs/coinpress.md.

>>> from equistrata.inference.means.settings import read_groups
>>> read = read_groups({"a": [1.0] * 40, "b": [2.0] * 20}, {"a": 0.5, "b": 0.5}, {"a": 40})
>>> counts, everyone = ({key: RowCount(n) for key, n in rows.items()} for rows in (read.present, read.everyone))
>>> post_stratify(read, counts, everyone).factors.round(2).tolist()
[0.5, 2.0]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from equistrata.arrays import Floats
from equistrata.inference.means.clip import Clip
from equistrata.inference.means.interval import NoisySums
from equistrata.inference.means.refinement import RowCount
from equistrata.inference.means.settings import CoinpressSettings, WeightedGroups
from equistrata.stats.fieller import Spread
from equistrata.stats.relative_sizes import CLEAR, posterior_sizes

# The expected number of rows of a stratum with the public share 0. Rounding or sampling may have hidden its rows.
UNLISTED = 0.5


@dataclass(frozen=True, eq=False)
class PostStrata:
    """The strata by which rows are weighted.

    Attributes
    ----------
    rows : ndarray of shape (k,)
        The number of rows with a value in each stratum.
    factors : ndarray of shape (k,)
        The number of people for whom each of these rows stands. The factors are scaled so that the number of people is
        the number of rows.
    errors : ndarray of shape (k,)
        The standard deviations of the factors, divided by the factors.
    empty : float
        The public share of the strata that are known to have no rows.
    """

    rows: Floats
    factors: Floats
    errors: Floats
    empty: float = 0.0

    @property
    def shares(self) -> Floats:
        """Return the shares of the strata in the people with a value. The shares sum to one."""
        people = self.factors * self.rows
        return people / people.sum() if people.sum() > 0 else np.full(len(people), 1 / len(people))

    @property
    def sampled(self) -> float:
        """Return Σ g²n, which is the sampling variance of a weighted sum in units of that of one row."""
        return float(self.factors**2 @ self.rows)

    def joined(self, strata: Sequence[NoisySums], whole: NoisySums | None = None, part: float = 0.0) -> NoisySums:
        """Return the weighted sums over all strata.

        A part of each is replaced by `whole`, which is measured over all rows.
        """
        found = [sums.times(factor - part) for sums, factor in zip(strata, self.factors.tolist(), strict=True)]
        sums = reduce(add, found if whole is None else [*found, whole.times(part)])
        # The effect of an error in a factor is proportional to the difference between its stratum and the mean.
        unlike = np.array([each.about(sums.mean).total for each in strata])
        doubt = float(((self.factors * self.errors * unlike) ** 2).sum())
        return replace(sums, spread=sums.spread + Spread(doubt, 0.0, 0.0))

    def interval(self, sums: NoisySums, settings: CoinpressSettings, clip: Clip) -> tuple[float, float]:
        """Return the interval of the mean from the `joined` sums.

        The mean of a stratum without rows can be any possible value.
        """
        lower, upper = sums.interval(settings, clip, self.sampled)
        unknown = self.empty * (settings.upper - settings.lower)
        return max(lower - unknown, settings.lower), min(upper + unknown, settings.upper)


def post_stratify(
    read: WeightedGroups, counts: Mapping[Hashable, RowCount], everyone: Mapping[Hashable, RowCount]
) -> PostStrata:
    """Compute the weights of strata from their public shares of the people.

    If there are no public shares, each row stands for one person. The function is post-processing.

    Parameters
    ----------
    read : WeightedGroups
        The groups and their public shares.
    counts : mapping of hashable to RowCount
        The number of rows with a value in each stratum.
    everyone : mapping of hashable to RowCount
        The number of rows with or without a value in each stratum, with independent noise.

    Returns
    -------
    PostStrata
        The weights of the rows of each stratum.
    """
    rows = np.array([counts[key].count for key in read.values])
    alike, errors = np.ones(len(rows)), np.zeros(len(rows))
    shares = np.array([read.weights[key] for key in read.values])
    sizes, deviations = np.array([(everyone[key].drawn, everyone[key].sigma) for key in read.values]).T
    total, noisy = float(sizes.sum()), bool(deviations.all())
    if not read.declared or (noisy and not total > CLEAR * float(np.linalg.norm(deviations))):
        return PostStrata(rows, alike, errors)
    if noisy:
        keys = [key if isinstance(key, tuple) else (key,) for key in read.values]
        expected, precision = np.where(shares > 0, shares * total, UNLISTED), deviations**-2
        sizes, spread = posterior_sizes(expected, keys, precision, precision * sizes)
        sizes = np.maximum(sizes, spread)  # a size below the noise floor is replaced by its standard deviation
        shares, errors = expected / total, spread / sizes
    factors = np.divide(shares, sizes, out=np.zeros(len(rows)), where=sizes > 0)
    people = float(factors @ rows)
    scale = float(rows.sum()) / people if people > 0 else 0.0
    return PostStrata(rows, factors * scale, errors, float(shares[sizes <= 0].sum()))
