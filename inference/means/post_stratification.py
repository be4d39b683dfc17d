"""How many people a row stands for by public weights, so that strata have public shares of the people.

The population's mean over the people with a value is Σ gᵢΣx / Σ gᵢnᵢ: a row of stratum i stands for gᵢ = ωᵢ/Nᵢ people,
with ωᵢ the stratum's public share of the people and Nᵢ its number of rows, with a value or without. A noisy Nᵢ is
joined with the public shares by inverse variance (`equistrata.stats.relative_sizes`), so that a stratum below the noise
floor has the weight of its rows, and not a public share over noise. See docs/proofs/coinpress.md.

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

UNLISTED = 0.5  # rows of a stratum with a public share of zero: rounding or sampling may have hidden them


@dataclass(frozen=True, eq=False)
class PostStrata:
    """Strata that rows are weighted by.

    Attributes:
        rows: each stratum's number of rows with a value, (k,).
        factors: how many people each of them stands for, (k,), scaled so that all together are as many people as rows.
        errors: the standard deviations of the factors, over the factors.
        empty: the public share of strata that are known to have no row.
    """

    rows: Floats
    factors: Floats
    errors: Floats
    empty: float = 0.0

    @property
    def shares(self) -> Floats:
        """The strata's shares of the people with a value; they sum to one."""
        people = self.factors * self.rows
        return people / people.sum() if people.sum() > 0 else np.full(len(people), 1 / len(people))

    @property
    def sampled(self) -> float:
        """How many times a row's sampling variance a weighted sum has: Σ g²n."""
        return float(self.factors**2 @ self.rows)

    def joined(self, strata: Sequence[NoisySums], whole: NoisySums | None = None, part: float = 0.0) -> NoisySums:
        """Weighted sums over all strata, of which `whole`, measured over all rows, replaces a part."""
        found = [sums.times(factor - part) for sums, factor in zip(strata, self.factors.tolist(), strict=True)]
        sums = reduce(add, found if whole is None else [*found, whole.times(part)])
        # A wrong factor moves the mean by as much as its stratum is unlike all.
        unlike = np.array([each.about(sums.mean).total for each in strata])
        doubt = float(((self.factors * self.errors * unlike) ** 2).sum())
        return replace(sums, spread=sums.spread + Spread(doubt, 0.0, 0.0))

    def interval(self, sums: NoisySums, settings: CoinpressSettings, clip: Clip) -> tuple[float, float]:
        """The mean's interval by `joined` sums: the mean of strata without a row may be anywhere."""
        lower, upper = sums.interval(settings, clip, self.sampled)
        unknown = self.empty * (settings.upper - settings.lower)
        return max(lower - unknown, settings.lower), min(upper + unknown, settings.upper)


def post_stratify(
    read: WeightedGroups, counts: Mapping[Hashable, RowCount], everyone: Mapping[Hashable, RowCount]
) -> PostStrata:
    """Strata by public shares of the people; without these, each row stands for one person. Post-processing.

    Args:
        counts: of each stratum's rows with a value.
        everyone: of each stratum's rows, with a value or without; with noise of its own.
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
        sizes = np.maximum(sizes, spread)  # a size below the noise floor is replaced by its noise
        shares, errors = expected / total, spread / sizes
    factors = np.divide(shares, sizes, out=np.zeros(len(rows)), where=sizes > 0)
    people = float(factors @ rows)
    scale = float(rows.sum()) / people if people > 0 else 0.0
    return PostStrata(rows, factors * scale, errors, float(shares[sizes <= 0].sum()))
