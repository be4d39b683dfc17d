"""Private means by Coinpress, for one group or for strata, with intervals.

Coinpress first uses a wide clip to estimate the mean with low accuracy. Then it narrows the interval of the mean, uses
a tighter clip and measures again. See Biswas, Dong, Kamath and Ullman (Coinpress, NeurIPS 2020), and Algorithms 1 to 3
of the stratification paper.

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
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, RowCount, estimate_mean, positive_rho, row_counts
from equistrata.inference.means.settings import CoinpressSettings, GroupedValues, GroupWeights, read_groups, read_values
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, source_of


@dataclass(frozen=True)
class Coinpress(CoinpressSettings):
    """The Coinpress estimator with its declared settings, which are described in `CoinpressSettings`.

    Each method spends the cost `rho` in zCDP, ρ > 0. If `rho` is a `Budget`, the method spends all of the remaining
    budget.

    Privacy
    -------
    If `sizes` is "public", the neighbouring relation is replacing one row within a stratum. A row that moves to another
    stratum is not covered. If `sizes` is "noisy", the relation is adding or removing one row. See
    docs/proofs/coinpress.md.
    """

    def mean(
        self, values: npt.ArrayLike, rho: Budget | Rho | float, noise: NoiseSource, *, rows: RowCount | None = None
    ) -> Estimate:
        """Estimate the mean of a group of values.

        Parameters
        ----------
        values : array-like of shape (n,)
            The values in any unit, with n ≥ 0. Infinite values are clipped. The array is not changed.
        rho : Budget, Rho or float
            The privacy cost in zCDP, positive.
        noise : NoiseSource
            The source of the noise.
        rows : RowCount, optional
            A noisy number of these rows that was paid for elsewhere. In this case no part of ρ is spent on a count. It
            can only be given if `sizes` is "noisy".

        Returns
        -------
        Estimate
            The estimate and its interval. If the tail is adaptive, the nominal coverage is `level` for the mean that
            `target` selects, and the interval accounts for the estimated bias of clipping. If the tail is Gaussian, and
            the rows are independent, Gaussian and fit the settings, the interval covers the *population* mean with a
            probability of at least 1 − β. If n is public and equal to 0, the interval is [lower, upper].

        Raises
        ------
        InputError
            If `rows` has no noise, if ρ is not positive, if there is no noise source, or if the values are not
            one-dimensional or contain NaN. Nothing is charged in these cases.

        Privacy
        -------
        ρ-zCDP, in addition to the cost of `rows`.

        References
        ----------
        Stratification paper, Algorithms 1 and 2.

        Examples
        --------
        >>> from equistrata.privacy.noise import SeededNoise
        >>> Coinpress(lower=0, upper=40, sigma=14).mean([], 0.5, SeededNoise(1)).value
        20.0
        """
        if rows is not None and (self.sizes != "noisy" or not rows.sigma > 0):
            raise InputError("'rows' is a noisy count, so it needs a positive sigma and sizes='noisy'")
        noise = source_of(noise)
        return estimate_mean(read_values(values), Budget(positive_rho(rho)), self, noise, rows)

    def by_strata(
        self,
        groups: GroupedValues,
        weights: GroupWeights | None,
        rho: Budget | Rho | float,
        noise: NoiseSource,
        *,
        absent: Mapping[Hashable, int] | None = None,
    ) -> StratifiedEstimate:
        """Estimate the mean of each of several disjoint groups, and the mean of the population (StratCoinpress).

        Parameters
        ----------
        groups : mapping or sequence of array-like
            The values of each group, as in `read_groups`. A row must not be in two groups.
        weights : PublicWeights, mapping or sequence of float, or None
            The share of each group, as in `read_groups`. If None, each row stands for one person. For
            PubStratCoinpress, use `PublicWeights` from a public sample that does not contain any of the people in the
            rows.
        rho : Budget, Rho or float
            The privacy cost in zCDP, positive.
        noise : NoiseSource
            The source of the noise.
        absent : mapping of hashable to int, optional
            The number of rows without a value in each group, which is as private as the rows. The weights are shares of
            all people, with or without a value, and the mean of the population is over the people with a value. If
            None, every row has a value.

        Returns
        -------
        StratifiedEstimate
            The estimate of the population and those of the strata. The coverage of each single interval is as in
            `mean`, except that the interval of the population always has the level `level`. If a stratum is known to be
            empty, its share is given to the other strata, and the bias increases by the share times the length of
            [lower, upper]. If the noisy size of a stratum is below its noise, the stratum has the weight of its rows.

        Raises
        ------
        InputError
            If `mean` raises it, if a group has no weight, if a weight is negative, or if the weights do not sum to 1.

        Privacy
        -------
        ρ-zCDP for all outputs together, by parallel composition.

        References
        ----------
        Stratification paper, Algorithm 3, without the factor 1/k that is printed before the sum.

        Examples
        --------
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
        amount = positive_rho(rho)
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
        """Estimate the means of the strata and of all rows from measurements at both levels.

        The measurements of the two levels are reconciled, and the means of the strata are shrunk.

        Parameters
        ----------
        groups : mapping or sequence of array-like
            The values of each group, as in `by_strata`. If there is only one group, there is only one level. If the
            keys are tuples of the same length, the strata that have a value in common are pooled first.
        weights : PublicWeights, mapping or sequence of float, or None
            The share of each group, as in `by_strata`.
        rho : Budget, Rho or float
            The privacy cost in zCDP, positive.
        noise : NoiseSource
            The source of the noise.
        absent : mapping of hashable to int, optional
            The number of rows without a value in each group, as in `by_strata`.

        Returns
        -------
        StratifiedEstimate
            The estimate of the population and those of the strata. If there are at least three strata, the `value` of a
            stratum is its posterior mean, clipped to its interval. The interval is that of the measurement of the
            stratum, and its coverage is that of `mean`. The field `raw` and the value of the population are not shrunk.

        Raises
        ------
        InputError
            If `by_strata` raises it, or if the tail is not adaptive.

        Privacy
        -------
        ρ-zCDP for all outputs together. See docs/proofs/hierarchical-means.md.

        References
        ----------
        Hay et al. (arXiv:0904.0942), section 4, for the levels and their consistency.
        """
        if self.tail != "adaptive":
            raise InputError(f"means at two levels need tail='adaptive', not {self.tail!r}")
        read, noise = read_groups(groups, weights, absent), source_of(noise)
        if len(read.values) == 1:
            return self.by_strata(groups, weights, rho, noise, absent=absent)
        return two_level_means(read, self, Budget(positive_rho(rho)), noise)
