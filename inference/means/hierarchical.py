"""Private means of strata, measured over all rows and within strata, then reconciled and shrunk.

A part of ρ buys the mean of all rows, and what is left those of the strata. Weighted least squares reconcile both
levels, and a mixed model (`equistrata.stats.random_effects`) pools information across strata. See
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

SPLITS = tuple(Fraction(part, 20) for part in range(2, 20))  # of ρ: candidate parts for all rows
SPREAD = 0.1  # in units of the declared σ: prior standard deviation of each effect (docs/experiments/means.md)


def two_level_means(
    read: WeightedGroups, settings: CoinpressSettings, budget: Budget, noise: NoiseSource
) -> StratifiedEstimate:
    """The means of at least two strata and of all rows. See `Coinpress.hierarchical`.

    Cost: all that is left of `budget`, for all outputs together; RuntimeError if any were left.
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
    """The part of ρ for all rows that minimises the larger of two predicted losses, the population's and the strata's.

    The population's loss is its standard deviation over that with all of ρ where it is best spent. A stratum's is that
    of its own measurement leant on the mean of all rows, over the same with all of ρ for either; the strata's loss is
    the mean over strata, so that one which cannot be read neither gains nor decides. Neither exceeds √2: see
    docs/proofs/hierarchical-means.md. `sizes`: the strata's numbers of rows, public or paid for, shape (k,).

    >>> settings = CoinpressSettings(0, 99, 14, bounds=(0, 99))
    >>> [str(best_split([10000.0] * 8, settings, Rho(rho))) for rho in (1e-1, 1e-4, 1e-5)]
    ['1/2', '11/20', '3/4']
    """
    population, strata = _losses(sizes, settings, rho)
    return SPLITS[int(np.argmin(np.maximum(population, strata)))]


def _losses(sizes: Sequence[float], settings: CoinpressSettings, rho: Rho) -> tuple[Floats, Floats]:
    """For each of `SPLITS` the population's loss and that of the strata, shape (splits,)."""
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
    lost = _leant(measured, apart + population[:, None]) / _leant(alone, apart + best)
    return np.sqrt(population / best), np.sqrt(lost).mean(axis=1)


def _leant(own: Floats, others: Floats | float) -> Floats:
    """The variance of the best mixture of two independent measurements with these variances."""
    return np.asarray(own * others / (own + others))


def _predicted(rows: Floats, settings: CoinpressSettings, rho: Rho) -> Floats:
    width = np.minimum(settings.limits[1] - settings.limits[0], 2 * gaussian_reach(rows) * settings.sigma)
    return np.asarray((gaussian_sigma(rho) * width / (1 if settings.relation == REPLACE_ONE else 2) / rows) ** 2)


@dataclass(frozen=True, eq=False)
class TwoLevelMeans:
    """Reconciles and shrinks the means of both levels. Post-processing of published numbers.

    `people` are the strata as public weights, or their own sizes, make them the population's.
    """

    whole: Estimate
    strata: Mapping[Hashable, Estimate]
    settings: CoinpressSettings
    people: PostStrata

    @property
    def own(self) -> Floats:
        """The strata's estimated shares of the rows; they sum to one."""
        rows = self._each("rows")
        return rows / rows.sum() if rows.sum() > 0 else np.full(len(rows), 1 / len(rows))

    @property
    def measured(self) -> Floats:
        """The strata's means as measured; the middle of the declared interval where nothing was."""
        middle = self.settings.middle
        return np.array([middle if found.raw is None else found.raw for found in self.strata.values()])

    @property
    def consistent(self) -> Floats:
        """The strata's means, reconciled with the mean over all rows by weighted least squares: see `_gain`."""
        return self.measured + self._gain * (self._about - float(self.own @ self.measured))

    def population(self) -> tuple[float, tuple[float, float], float, Clip]:
        """The population's mean, its interval, its variance (sampling and noise) and its clip."""
        shares, settings = self.people.shares, self.settings
        of_whole = float(shares @ self._gain)
        levels = [*self.strata.values(), self.whole]
        clip = joint_clip((found.clip for found in levels), [*(shares - of_whole * self.own).tolist(), of_whole])
        # The same rows, measured twice: a mixture of both levels' sums.
        sums = self.people.joined([found.sums for found in self.strata.values()], self.whole.sums, of_whole)
        value = float(shares @ self.consistent)
        sampling = settings.sampling * self.people.sampled / max(sums.rows, 1.0) ** 2
        return value, self.people.interval(sums, settings, clip), sums.variance(value) + sampling, clip

    def shrunk(self) -> Floats:
        """The strata's posterior means, reconciled with the mean of all rows.

        The prior is the mixed model plus σ²/nᵢ, for the mean of the stratum's own rows. Its variances have a prior too
        (`SPREAD`): where the noise is far above σ the likelihood is flat.
        """
        noise, seen = self._noise, self._known
        if len(seen) < 3 or not seen.any():  # two strata have no variance between them once their mean is out
            return self.consistent
        keys = [key if isinstance(key, tuple) else (key,) for key in self.strata]
        # A noisy size below the noise floor is replaced by its noise.
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
        """The noise variances of the strata's means; 0 where nothing was measured (their share is 0 as well)."""
        # An error in a size moves the sum of all rows in proportion to the distance of its centre from the mean.
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
        """How far each stratum's mean moves per unit between the mean of all rows and the sum of strata.

        (Cs)ᵢ/(V + sᵀCs) for shares s. C, the covariance of the strata's errors, is the diagonal of noise variances plus
        bbᵀ, b the expected biases of clipping (the same tail is cut in every stratum); V likewise, of all rows.
        """
        bias = self._each("bias")
        moved = self._noise * self.own + bias * float(bias @ self.own)
        total = float(moved @ self.own) + self._noise_of_whole + self.whole.bias**2
        return moved / total if total > 0 else moved

    def _each(self, name: str) -> Floats:
        return np.array([getattr(found, name) for found in self.strata.values()], dtype=np.float64)
