"""Private means by Coinpress, of one group or of strata, with intervals.

Clip wide, measure roughly, narrow the interval for the mean, clip tighter, measure again: Biswas, Dong, Kamath and
Ullman (Coinpress, NeurIPS 2020); Algorithms 1 to 3 of the stratification paper.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> hours = np.random.default_rng(0).normal(38, 12, 5000)
>>> estimate = Coinpress(lower=0, upper=99, sigma=14).mean(hours, 0.5, SeededNoise(1))
>>> round(float(hours.mean()), 3), round(estimate.value, 3), [what for what, _ in estimate.entries]
(37.946, 37.923, ['step 1', 'tail histogram', 'step 2'])
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy.typing as npt

from equistrata.errors import InputError
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.hierarchical import two_level_means
from equistrata.inference.means.interval import joint_clip
from equistrata.inference.means.post_stratification import post_stratify
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, RowCount, estimate_mean, row_counts, spendable
from equistrata.inference.means.settings import CoinpressSettings, GroupedValues, GroupWeights, read_groups, read_values
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, source_of


@dataclass(frozen=True)
class Coinpress(CoinpressSettings):
    """Coinpress with its declared settings; see `CoinpressSettings` for them.

    `rho` is what a method spends, ρ > 0 (of a `Budget`, all that is left). Neighbouring tables: replace-one within a
    stratum for `sizes="public"` (a row that changes its stratum is not covered), add-remove for `sizes="noisy"`. See
    docs/proofs/coinpress.md.
    """

    def mean(
        self, values: npt.ArrayLike, rho: Budget | Rho | float, noise: NoiseSource, *, rows: RowCount | None = None
    ) -> Estimate:
        """The mean of `values`. Cost: ρ-zCDP, on top of the cost of `rows`.

        Args:
            values: shape (n,), n ≥ 0, in any unit; infinities are clipped; never written to.
            rows: with `sizes="noisy"`, a noisy number of these rows that was paid for elsewhere: no ρ goes to a count.

        Returns:
            The estimate. Its interval covers the *population* mean with probability at least 1 − β for independent
            Gaussian rows that fit the settings; else approximately, with the estimated bias of clipping. For public n =
            0 it is [lower, upper].

        Raises:
            InputError: `rows` without noise, no positive ρ, no source of noise, values that are not one-dimensional, or
                NaN among them. Nothing is charged then.

        Source: the stratification paper, Algorithms 1 and 2.

        >>> from equistrata.privacy.noise import SeededNoise
        >>> Coinpress(lower=0, upper=40, sigma=14).mean([], 0.5, SeededNoise(1)).value
        20.0
        """
        if rows is not None and (self.sizes != "noisy" or not rows.sigma > 0):
            raise InputError("a count that was paid for is noisy: give its sigma, above 0, and sizes='noisy'")
        noise = source_of(noise)
        return estimate_mean(read_values(values), Budget(spendable(rho)), self, noise, rows)

    def by_strata(
        self,
        groups: GroupedValues,
        weights: GroupWeights | None,
        rho: Budget | Rho | float,
        noise: NoiseSource,
        *,
        absent: Mapping[Hashable, int] | None = None,
    ) -> StratifiedEstimate:
        """The mean of each of disjoint groups, and that of the population (StratCoinpress).

        Args:
            groups, weights: as for `read_groups`; no row is in two groups. None if each row stands for one person.
                PubStratCoinpress: `PublicWeights` from a public sample that shares no one with the rows.
            absent: group → the number of its rows without a value, private as the rows are. The weights are shares of
                the people with a value or without, and the population's mean is over those with one. None where every
                row has a value.

        Returns:
            The population estimate and the strata's own. Each interval fails with probability β, one at a time. Shares
            of strata that are known to be empty go to the others, with the length of [lower, upper] as their bias. A
            stratum with a noisy size that is below its noise has the weight of its rows.

        Raises:
            InputError: as `mean`; a group without a weight, a negative weight, or weights that do not sum to 1.

        Cost: ρ-zCDP for all outputs together (parallel composition).
        Source: the stratification paper, Algorithm 3, without the 1/k printed before the sum.

        >>> import numpy as np
        >>> from equistrata.privacy.noise import SeededNoise
        >>> rng = np.random.default_rng(0)
        >>> groups = {"men": rng.normal(40, 12, 3000), "women": rng.normal(36, 12, 2000)}
        >>> coinpress = Coinpress(lower=0, upper=99, sigma=14)
        >>> whole = coinpress.by_strata(groups, {"men": 0.6, "women": 0.4}, 0.5, SeededNoise(1))
        >>> round(whole.value, 2), round(whole.strata["women"].value, 2), float(whole.rho)
        (38.35, 36.48, 0.5)
        """
        read, noise = read_groups(groups, weights, absent), source_of(noise)
        amount = spendable(rho)
        budgets = Budget(amount).parallel(amount, read.values, "strata")
        streams = {key: noise.spawn(place) for key, place in read.streams.items()}
        cost, paying = amount * ROW_COUNT_SHARE, budgets if self.sizes == "noisy" else {}
        counts = row_counts(read.present, cost, paying, streams)
        people = post_stratify(
            read, counts, row_counts(read.everyone, cost, paying, streams) if read.declared else counts
        )
        strata = {
            key: estimate_mean(values, budgets[key], self, streams[key], counts[key])
            for key, values in read.values.items()
        }
        shares = people.shares.tolist()
        sums = people.joined([found.sums for found in strata.values()])
        clip = joint_clip((found.clip for found in strata.values()), shares)
        lower, upper = people.interval(sums, self, clip)
        return StratifiedEstimate(
            value=min(max(sums.mean, lower), upper),
            lower=lower,
            upper=upper,
            rho=amount,
            relation=self.relation,
            strata=strata,
            weights=dict(zip(strata, shares, strict=True)),
            variance=sums.variance(sums.mean) + self.sampling * people.sampled / max(sums.rows, 1.0) ** 2,
            bias=clip.bias + people.empty * (self.upper - self.lower),
            clip=clip,
            private=noise.private,
        )

    def hierarchical(
        self,
        groups: GroupedValues,
        weights: GroupWeights | None,
        rho: Budget | Rho | float,
        noise: NoiseSource,
        *,
        absent: Mapping[Hashable, int] | None = None,
    ) -> StratifiedEstimate:
        """The means of strata and of all rows, measured at both levels, reconciled and shrunk.

        Args:
            groups, weights, absent: as for `by_strata`; one group is one level. Strata whose keys are tuples of one
                length pool first with those that have a value in common.

        Returns:
            The population's estimate and the strata's own. From three strata on, a
            stratum's `value` is its posterior mean. It stays in its interval, which is that of its own measurement and
            covers as in `mean`. `raw` and the population's value are not shrunk.

        Raises:
            InputError: as `by_strata`, or a tail that is not adaptive.

        Cost: ρ-zCDP for all outputs together. See docs/proofs/hierarchical-means.md.
        Source: levels and consistency, Hay et al. (arXiv:0904.0942), section 4.
        """
        if self.tail != "adaptive":
            raise InputError(f"means at two levels need tail='adaptive', not {self.tail!r}")
        read, noise = read_groups(groups, weights, absent), source_of(noise)
        if len(read.values) == 1:
            return self.by_strata(groups, weights, rho, noise, absent=absent)
        return two_level_means(read, self, Budget(spendable(rho)), noise)
