"""Private means of strata, which are measured over all rows and within the strata, and are then reconciled and shrunk.

A part of ρ is spent on the mean of all rows, and the rest on the means of the strata. The two levels are reconciled by
weighted least squares. A mixed model (see `equistrata.stats.random_effects`) pools information across strata. See
docs/proofs/hierarchical-means.md.

>>> import numpy as np
>>> from equistrata.inference.means.coinpress import Coinpress
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> groups = {(sex, race): rng.normal(38 + sex + race, 12, 4000 // race**3) for sex in (1, 2) for race in (1, 2, 3, 4)}
>>> coinpress = Coinpress(lower=0, upper=99, sigma=14, sizes="noisy", bounds=(0, 99))
>>> whole = coinpress.hierarchical(groups, None, 0.01, SeededNoise(1))
>>> [what for what, _ in whole.entries], float(whole.rho)
(['counts of strata', 'all rows', 'strata'], 0.01)
>>> exact = float(np.concatenate(list(groups.values())).mean())
>>> abs(whole.value - exact) < 0.5 and whole.lower < exact < whole.upper
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.inference.means.clip import Clip, gaussian_reach
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.interval import joint_clip
from equistrata.inference.means.post_stratification import PostStrata, post_stratify
from equistrata.inference.means.refinement import ROW_COUNT_SHARE, estimate_mean, row_counts
from equistrata.inference.means.settings import CoinpressSettings, WeightedGroups
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.stats.random_effects import effects, variances

SPLITS = tuple(Fraction(part, 20) for part in range(2, 20))  # the candidate shares of ρ for the mean of all rows
# The prior standard deviation of each effect, in units of the declared σ. See docs/experiments/means.md.
SPREAD = 0.1


def two_level_means(
    read: WeightedGroups, settings: CoinpressSettings, budget: Budget, noise: NoiseSource
) -> StratifiedEstimate:
    """Estimate the means of at least two strata and of all rows (see `Coinpress.hierarchical`).

    The function spends all of the remaining budget for all outputs together. It raises RuntimeError if a part of the
    budget remains.
    """
    cost, noisy = budget.total * ROW_COUNT_SHARE, settings.sizes == "noisy"
    streams = {key: noise.spawn(place) for key, place in read.streams.items()}
    counting = budget.parallel(cost, read.values, "counts of strata") if noisy else {}
    counts = everyone = row_counts(read.present, cost, counting, streams)
    if read.declared:
        counting = budget.parallel(cost, read.values, "counts of all rows of strata") if noisy else {}
        everyone = row_counts(read.everyone, cost, counting, streams)
    people = post_stratify(read, counts, everyone)
    part = best_split([rows.count for rows in counts.values()], settings, budget.remaining)
    for_all, for_strata = budget.remaining.split([part, 1 - part])
    everybody = np.concatenate([read.values[key] for key in sorted(read.values, key=read.streams.__getitem__)])
    own = budget.part(for_all, "all rows")
    whole = estimate_mean(everybody, own, settings, noise.spawn(len(read.values)))
    before = budget.entries
    budgets = budget.parallel(for_strata, read.values, "strata")
    if budget.remaining:
        raise RuntimeError(f"the levels left ρ = {float(budget.remaining)} of the budget unspent")
    strata = {}
    for key, values in read.values.items():
        found = estimate_mean(values, budgets[key], settings, streams[key].spawn(1), counts[key], whole.raw)
        strata[key] = replace(found, rho=budget.total, entries=(*before, *found.entries))
    levels = TwoLevelMeans(whole, strata, settings, people)
    value, (lower, upper), variance, clip = levels.population()
    return StratifiedEstimate(
        value=min(max(value, lower), upper),
        lower=lower,
        upper=upper,
        rho=budget.total,
        relation=settings.relation,
        strata={
            key: replace(found, value=min(max(float(mean), found.lower), found.upper))
            for (key, found), mean in zip(strata.items(), levels.shrunk(), strict=True)
        },
        weights=dict(zip(strata, people.shares.tolist(), strict=True)),
        variance=variance,
        bias=clip.bias + people.empty * (settings.upper - settings.lower),
        clip=clip,
        entries=budget.entries,
        private=noise.private,
    )


def best_split(sizes: Sequence[float], settings: CoinpressSettings, rho: Rho) -> Fraction:
    """Return the share of ρ for the mean of all rows.

    The share minimises the larger of two predicted losses, which are those of the population and of the strata. The
    loss of the population is its standard deviation, divided by the standard deviation with the best use of all of ρ.
    The loss of a stratum is the standard deviation of its own measurement shrunk towards the mean of all rows, divided
    by the same with all of ρ for both. The loss of the strata is the mean over the strata. Therefore a stratum that is
    too small for an estimate has only a small effect. Both losses are at most √2 (see
    docs/proofs/hierarchical-means.md).

    Parameters
    ----------
    sizes : sequence of float of length k
        The number of rows in each stratum, which is public or was paid for.
    settings : CoinpressSettings
        The settings of the estimator.
    rho : Rho
        The privacy cost of the two levels together.

    Returns
    -------
    Fraction
        The share, which is one of `SPLITS`.

    Examples
    --------
    >>> settings = CoinpressSettings(0, 99, 14, bounds=(0, 99))
    >>> [str(best_split([10000.0] * 8, settings, Rho(rho))) for rho in (1e-1, 1e-4, 1e-5)]
    ['1/2', '11/20', '3/4']
    """
    population, strata = _losses(sizes, settings, rho)
    return SPLITS[int(np.argmin(np.maximum(population, strata)))]


def _losses(sizes: Sequence[float], settings: CoinpressSettings, rho: Rho) -> tuple[Floats, Floats]:
    """Return the loss of the population and the loss of the strata for each of `SPLITS`."""
    a, everybody = np.array(SPLITS, dtype=np.float64), math.fsum(sizes)
    if not everybody > 0:
        return np.abs(a - 0.5), np.zeros(len(a))
    rows = np.array([size for size in sizes if size > 0])
    share = rows / everybody
    alone, whole = _predicted(rows, settings, rho), float(_predicted(np.array(everybody), settings, rho))
    summed = float(share**2 @ alone)
    apart, best = (SPREAD * settings.sigma) ** 2, min(whole, summed)

    population = 1 / (a / whole + (1 - a) / summed)
    measured = alone / (1 - a)[:, None]
    measured -= (share * measured) ** 2 / (summed / (1 - a) + whole / a)[:, None]
    lost = _combined_variance(measured, apart + population[:, None]) / _combined_variance(alone, apart + best)
    return np.sqrt(population / best), np.sqrt(lost).mean(axis=1)


def _combined_variance(own: Floats, others: Floats | float) -> Floats:
    """Return the variance of the best mixture of two independent measurements with these variances."""
    return np.asarray(own * others / (own + others))


def _predicted(rows: Floats, settings: CoinpressSettings, rho: Rho) -> Floats:
    width = np.minimum(settings.limits[1] - settings.limits[0], 2 * gaussian_reach(rows) * settings.sigma)
    return np.asarray((gaussian_sigma(rho) * width / (1 if settings.relation == REPLACE_ONE else 2) / rows) ** 2)


@dataclass(frozen=True, eq=False)
class TwoLevelMeans:
    """The means of both levels, which are reconciled and shrunk by post-processing of published numbers.

    Attributes
    ----------
    whole : Estimate
        The estimate of the mean of all rows.
    strata : mapping of hashable to Estimate
        The estimate of each stratum.
    settings : CoinpressSettings
        The settings of the estimator.
    people : PostStrata
        The weights of the strata in the population, which are public weights or the sizes of the strata.
    """

    whole: Estimate
    strata: Mapping[Hashable, Estimate]
    settings: CoinpressSettings
    people: PostStrata

    @property
    def own(self) -> Floats:
        """Return the estimated shares of the strata in the rows. The shares sum to one."""
        rows = self._each("rows")
        return rows / rows.sum() if rows.sum() > 0 else np.full(len(rows), 1 / len(rows))

    @property
    def measured(self) -> Floats:
        """Return the measured means of the strata.

        If nothing was measured, the mean is the midpoint of the declared interval.
        """
        middle = self.settings.middle
        return np.array([middle if found.raw is None else found.raw for found in self.strata.values()])

    @property
    def consistent(self) -> Floats:
        """Return the means of the strata, reconciled with the mean of all rows (see `_gain`).

        The means are reconciled by weighted least squares.
        """
        return self.measured + self._gain * (self._about - float(self.own @ self.measured))

    def population(self) -> tuple[float, tuple[float, float], float, Clip]:
        """Return the mean of the population, its interval, its variance (with sampling and noise) and its clip."""
        shares, settings = self.people.shares, self.settings
        of_whole = float(shares @ self._gain)
        levels = [*self.strata.values(), self.whole]
        clip = joint_clip((found.clip for found in levels), [*(shares - of_whole * self.own).tolist(), of_whole])
        # The same rows are measured twice, so the sum is a mixture of the sums of both levels.
        sums = self.people.joined([found.sums for found in self.strata.values()], self.whole.sums, of_whole)
        value = float(shares @ self.consistent)
        sampling = settings.sampling * self.people.sampled / max(sums.rows, 1.0) ** 2
        return value, self.people.interval(sums, settings, clip), sums.variance(value) + sampling, clip

    def shrunk(self) -> Floats:
        """Return the posterior means of the strata, reconciled with the mean of all rows.

        The prior is the mixed model plus σ²/n_i, for the mean of the rows of the stratum. The variances of the model
        have a prior as well (see `SPREAD`), because the likelihood is flat if the noise is much larger than σ.
        """
        noise, seen = self._noise, self._known
        if len(seen) < 3 or not seen.any():  # for two strata, no variance remains once their mean is removed
            return self.consistent
        keys = [key if isinstance(key, tuple) else (key,) for key in self.strata]
        # If a noisy size is below the noise floor, it is replaced by the standard deviation of its noise.
        rows = np.maximum(self._each("rows"), self._each("count_deviation"))
        scatter = self.settings.sigma**2 / np.maximum(rows, 1.0)
        kernels = effects(keys)
        fitted = variances(
            [kernel[np.ix_(seen, seen)] for kernel in kernels],
            self.measured[seen, None],
            (noise + scatter)[seen],
            expected=[(SPREAD * self.settings.sigma) ** 2] * len(kernels),
        )
        prior = np.add.reduce([v * kernel for v, kernel in zip(fitted, kernels, strict=True)]) + np.diag(scatter)
        look = np.vstack([np.eye(len(keys))[seen], self.own])
        observed = np.append(self.measured[seen], self._about)
        inverse = np.linalg.inv(look @ prior @ look.T + np.diag(np.append(noise[seen], self._noise_of_whole)))
        ones, cross = inverse.sum(1), prior @ look.T
        mean = float(ones @ observed) / float(ones.sum())
        predicted = mean + cross @ inverse @ (observed - mean)
        left = 1 - cross @ ones
        posterior = prior - cross @ inverse @ cross.T + np.outer(left, left) / float(ones.sum())
        gain = posterior @ self.own
        missing = float(self.own @ (self.consistent - predicted))
        return np.asarray(predicted + gain * missing / float(gain @ self.own))

    @property
    def _about(self) -> float:
        return self.whole.value if self.whole.raw is None else self.whole.raw

    @property
    def _known(self) -> npt.NDArray[np.bool_]:
        return np.array([found.raw is not None for found in self.strata.values()])

    @property
    def _noise(self) -> Floats:
        """Return the noise variances of the means of the strata.

        The variance is 0 if nothing was measured, and so is the share.
        """
        # An error in a size changes the sum. The change is proportional to the distance of the centre from the mean.
        counts = (self._each("centre") - self._about) * self._each("count_deviation")
        return np.asarray((self._each("sum_deviation") ** 2 + counts**2) / np.maximum(self._each("rows"), 1.0) ** 2)

    @property
    def _noise_of_whole(self) -> float:
        whole = self.whole
        if whole.raw is None:
            return 0.0
        return math.hypot(whole.sum_deviation, (whole.raw - whole.centre) * whole.count_deviation) ** 2 / whole.rows**2

    @property
    def _gain(self) -> Floats:
        """Return the change of the mean of each stratum that reconciles the two levels.

        The change is per unit of the difference between the mean of all rows and the sum over the strata. The change is
        (Cs)_i/(V + sᵀCs) for the shares s. The matrix C is the covariance of the errors of the strata. It is the sum of
        bbᵀ and the diagonal matrix of the noise variances. The vector b contains the expected biases of clipping,
        because the same tail is cut off in every stratum. The number V is the corresponding variance of the mean of all
        rows.
        """
        bias = self._each("bias")
        moved = self._noise * self.own + bias * float(bias @ self.own)
        total = float(moved @ self.own) + self._noise_of_whole + self.whole.bias**2
        return moved / total if total > 0 else moved

    def _each(self, name: str) -> Floats:
        return np.array([getattr(found, name) for found in self.strata.values()], dtype=np.float64)
