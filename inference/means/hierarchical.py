"""Private means of strata, measured at two levels: over all rows and within strata, then made to agree.

Coinpress over all rows gives the population's mean with little noise and nothing of the strata; Coinpress by strata adds the noise
of k strata to the population. Here ρ is split: a part a buys the mean of all rows, the rest the means of the strata, which are
disjoint and so cost one amount together. What follows is post-processing: weighted least squares make the strata's means,
weighted by their sizes, sum to the population's, and strata with little signal lean on the others (`equistrata.stats.random_effects`).

**What that can give.** With the same clip everywhere and k strata of equal size, let the mean of all rows have noise of variance 1 at
the full ρ. The population's variance is then 1/(a + (1 − a)/k), and a stratum's, in units of what it has at the full ρ, is
(1 − a/(1 + a(k − 1)))/(1 − a). Both losses are equal at a = 1/2 for every k: √(2k/(k + 1)) in standard deviations, 1.15 for two
strata, 1.41 for many. No unbiased linear mechanism with Gaussian noise makes the larger of both smaller: for equal strata an optimal
one may be taken to treat them alike, and these splits are all of those. So where noise rules and nothing can be borrowed, an
answer to both questions costs this factor against the better answer to either.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> rng = np.random.default_rng(0)
>>> groups = {(sex, race): rng.normal(38 + sex + race, 12, 4000 // race**3) for sex in (1, 2) for race in (1, 2, 3, 4)}
>>> settings = {"lower": 0, "upper": 99, "sigma": 14, "rho": 0.01, "sizes": "noisy", "bounds": (0, 99)}
>>> whole = hierarchical_coinpress(groups, None, **settings, noise=SeededNoise(1))
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
from equistrata.inference.means.clip import gaussian_reach
from equistrata.inference.means.coinpress import stratified_coinpress
from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.groups import Groups, WeightedGroups, Weights, equal_weights, read_groups
from equistrata.inference.means.run import COUNT_SHARE, Rows, Settings, Sizes, estimate, noisy_rows, positive
from equistrata.privacy.budget import REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.stats.random_effects import effects, variances

SPLITS = tuple(
    Fraction(part, 20) for part in range(2, 20)
)  # parts of ρ for all rows that are weighed against each other
# The mean of all rows is soon known well enough to clip about it: its first steps share a tenth instead of a quarter.
LAST_SHARE_OF_ALL = Fraction(9, 10)
SPREAD = 0.25  # how far strata's means are taken to lie apart, in units of the declared σ, before anything is measured
LEAST_SHARE = 0.001  # strata below it do not count in the choice of the split, as in the parity error
# What is expected before anything is measured, in units of σ: how far strata that share a value lie apart from others, and how far
# one lies from what its values say.
SHARED, OWN = 1.0, 0.1
FEWEST = 3  # strata that there must be before one leans on another
FARTHEST = 3.0  # a stratum moves from its own measurement by at most this many standard deviations of its noise


def hierarchical_coinpress(
    groups: Groups,
    weights: Weights | None,
    *,
    lower: float,
    upper: float,
    sigma: float,
    rho: Budget | Rho | float,
    steps: int = 2,
    beta: float = 0.01,
    noise: NoiseSource,
    sizes: Sizes = "public",
    bounds: tuple[float, float] | None = None,
    split: float | None = None,
    shrinkage: bool = True,
) -> StratifiedEstimate:
    """The mean of each of disjoint groups and of all of them, privately, measured at both levels.

    Args:
        groups: as for `stratified_coinpress`. Where the keys are tuples of one length, as `equistrata.data.strata` makes them, strata
            that share a value in one place lean on each other first.
        weights: as for `stratified_coinpress`. With None the population is that of the rows. With weights it is
            Σ ωᵢ μᵢ, to which the mean of all rows only adds what it says of the strata.
        lower, upper, sigma, rho, steps, beta, noise, sizes, bounds: as for `coinpress_mean`, with its adaptive tail; over all
            rows the last step gets 9/10 of what the steps have.
        split: the part of ρ for all rows, in (0, 1); None for `best_split`.
        shrinkage: whether strata lean on each other (from three strata on). Without it they only agree with the whole.
            With one group there is one level, and all of this is `stratified_coinpress`.

    Returns:
        The population's estimate and the strata's own, each stated at ρ.
        A stratum's `value` is its posterior mean given all that was measured, and so biased towards what the others say. That
        weighs nothing where its own noise is small, and moves it by at most three standard deviations of that noise (limited
        translation: Efron and Morris, JASA 1972) before all are made to agree with the whole; never out of its interval.
        Its *interval* is that of its own measurement alone, at its part of ρ, and covers what that of `coinpress_mean`
        covers, whatever the others are like. `raw`, and the population's value, are not shrunk. The population's interval is
        √(2 ln(2/β)·variance) + bias about its value, and covers as that of `stratified_coinpress`.

    Raises:
        ValueError: as `stratified_coinpress`, or a split that is not between 0 and 1.

    Privacy: ρ-zCDP for all outputs together; "public": replace-one within a stratum; "noisy": add-remove. Proof: (1) with noisy
    sizes, a tenth of ρ buys a count in each stratum. Neighbours differ in one stratum, by one row, so that costs what one count
    costs (parallel composition, `Budget.parallel`). (2) a of the rest buys a Coinpress mean of all rows: a row that is added,
    removed or replaced within its stratum is so in all rows, and `coinpress_mean` says what one run costs. (3) what is left buys
    one run in each stratum, in parallel again. Each amount, and a itself, is chosen from declared settings, public sizes and counts
    that are paid for by then, so the three compose in sequence, adaptively, and a `Budget` checks that they add up to ρ exactly.
    Where a run sums rows about a point c, clipped to [l, u], the point is chosen from earlier outputs and the sensitivity is
    max(u − c, c − l). Least squares and shrinkage see noisy numbers only: post-processing.

    Source: levels and consistency, Hay et al. (arXiv:0904.0942), section 4; the means, Biswas et al. (Coinpress).
    """
    settings = Settings.of(lower, upper, sigma, steps, beta, sizes, "adaptive", bounds)
    if split is not None and not 0 < split < 1:
        raise ValueError(f"split must lie strictly between 0 and 1, not {split}")
    # Sizes that are not declared public must not be read here, not even as shares: any shares will do until they are paid.
    read = read_groups(groups, equal_weights(groups) if weights is None else weights)
    budget = Budget(positive(rho))
    if len(read.values) == 1:  # one level
        return stratified_coinpress(
            groups,
            weights,
            lower=lower,
            upper=upper,
            sigma=sigma,
            rho=budget,
            steps=steps,
            beta=beta,
            noise=noise,
            sizes=sizes,
            bounds=bounds,
        )
    counts = _counts(read, budget, settings, noise)
    chosen = best_split([rows.count for rows in counts.values()], settings, budget.remaining)
    for_all, for_strata = budget.remaining.split(
        [chosen, 1 - chosen] if split is None else [split, 1 - Fraction(split)]
    )
    everybody = np.concatenate([read.values[key] for key in sorted(read.values, key=read.streams.__getitem__)])
    whole = estimate(
        everybody,
        budget.part(for_all, "all rows"),
        replace(settings, last_share=LAST_SHARE_OF_ALL),
        noise.spawn(len(read.values)),
    )
    before = budget.entries
    budgets = budget.parallel(for_strata, read.values, "strata")
    if budget.remaining:
        raise RuntimeError(f"the levels left ρ = {float(budget.remaining)} of the budget unspent")
    strata = {
        key: replace(found, rho=budget.total, entries=(*before, *found.entries))
        for key, values in read.values.items()
        for paid in [counts[key] if sizes == "noisy" else None]
        for found in [
            estimate(values, budgets[key], settings, noise.spawn(read.streams[key]).spawn(1), paid, whole.raw)
        ]
    }
    levels = Levels(whole, strata, settings, None if weights is None else read.weights)
    means = levels.shrunk() if shrinkage else levels.consistent
    value, variance, bias = levels.population()
    half = math.sqrt(2 * variance * math.log(2 / settings.beta)) + bias
    return StratifiedEstimate(
        value=value,
        lower=value - half,
        upper=value + half,
        rho=budget.total,
        relation=settings.relation,
        strata={
            key: replace(found, value=min(max(float(mean), found.lower), found.upper))
            for (key, found), mean in zip(strata.items(), means, strict=True)
        },
        weights=dict(zip(strata, levels.weights.tolist(), strict=True)),
        variance=variance,
        bias=bias,
        entries=budget.entries,
        private=noise.private,
    )


def best_split(sizes: Sequence[float], settings: Settings, rho: Rho) -> Fraction:
    """The part of ρ for all rows whose larger loss is least: the population's, or that of the strata.

    A loss is the predicted standard deviation over that of whoever does better: all rows or strata at the full ρ for the
    population; for the strata, their own measurements at the full ρ, or one mean for everybody, when strata lie apart by
    a quarter of σ. Where strata can be read this is about 1/2, whatever their number; the less can be read, the more goes to all
    rows.

    Args:
        sizes: the strata's numbers of rows, public or paid for, shape (k,).

    >>> settings = Settings(0.0, 99.0, 14.0, bounds=(0.0, 99.0))
    >>> [str(best_split([10000.0] * 8, settings, Rho(rho))) for rho in (1e-1, 1e-5, 1e-6)]
    ['1/2', '7/10', '19/20']
    """
    everybody = math.fsum(sizes)
    if not everybody > 0:
        return Fraction(1, 2)
    rows = np.array([size for size in sizes if size >= LEAST_SHARE * everybody])
    alone = np.array([_predicted(size, settings, rho) for size in rows])
    whole, share = _predicted(everybody, settings, rho), rows / everybody
    summed = float(share**2 @ alone)
    spread = (SPREAD * settings.sigma) ** 2
    bests = min(whole, summed), min(math.sqrt(spread) * len(rows), float(np.sqrt(alone).sum()))

    def regret(part: Fraction) -> float:
        a = float(part)
        population = 1 / (a / whole + (1 - a) / summed)
        measured = alone / (1 - a)
        measured = measured - (share * measured) ** 2 / (summed / (1 - a) + whole / a)
        strata = float(np.sqrt(spread * measured / (spread + measured)).sum())
        return max(math.sqrt(population / bests[0]), strata / bests[1])

    return min(SPLITS, key=regret)


def _predicted(rows: float, settings: Settings, rho: Rho) -> float:
    """The variance of the noise of a mean of so many rows at ρ."""
    width = min(settings.bounds[1] - settings.bounds[0], 2 * gaussian_reach(rows) * settings.sigma)
    sensitivity = width if settings.relation == REPLACE_ONE else width / 2
    return (gaussian_sigma(rho, sensitivity) / rows) ** 2


def _counts(read: WeightedGroups, budget: Budget, settings: Settings, noise: NoiseSource) -> dict[Hashable, Rows]:
    """The strata's sizes: public, or noisy counts at a tenth of the budget."""
    if settings.sizes == "public":
        return {key: Rows(float(len(values))) for key, values in read.values.items()}
    cost = budget.total * COUNT_SHARE
    parts = budget.parallel(cost, read.values, "counts of strata")
    return {
        key: noisy_rows(values, cost, parts[key], noise.spawn(read.streams[key])) for key, values in read.values.items()
    }


@dataclass(frozen=True, eq=False)
class Levels:
    """What two levels say together. Post-processing: all of it may be computed from published numbers.

    Attributes:
        whole: the estimate over all rows.
        strata: stratum → its estimate.
        settings: of both.
        given: the strata's shares of the population; None for their own sizes.
    """

    whole: Estimate
    strata: Mapping[Hashable, Estimate]
    settings: Settings
    given: Mapping[Hashable, float] | None

    @property
    def own(self) -> Floats:
        """The strata's shares of the rows, as far as is known; sum to one."""
        rows = self._each("rows")
        return rows / rows.sum() if rows.sum() > 0 else np.full(len(rows), 1 / len(rows))

    @property
    def weights(self) -> Floats:
        """The strata's shares of the population."""
        return self.own if self.given is None else np.array([self.given[key] for key in self.strata])

    @property
    def measured(self) -> Floats:
        """The strata's means as measured; the middle of the declared interval where nothing was."""
        middle = self.settings.lower + (self.settings.upper - self.settings.lower) / 2
        return np.array([middle if found.raw is None else found.raw for found in self.strata.values()])

    @property
    def consistent(self) -> Floats:
        """The strata's means by weighted least squares: as measured, moved to agree with the mean over all rows.

        Where s are the strata's shares, C the covariance of their errors and V the variance of that of the mean m over all rows,
        stratum i moves by (m − Σ sⱼmⱼ)·(Cs)ᵢ/(V + sᵀCs). C is the variances of the noise on the diagonal, and bbᵀ: clips lose the
        same tail in every stratum, and b is what they are thought to lose. V is noise and bias likewise.
        """
        return self.measured + self._gain * (self._about - float(self.own @ self.measured))

    def population(self) -> tuple[float, float, float]:
        """The population's mean, its variance about the mean that the rows are a sample of, and the bias to allow for."""
        own, weights, known = self.own, self.weights, self._known
        covered = float(weights[known].sum())
        if not covered > 0:
            return self._about, 0.0, (self.settings.upper - self.settings.lower) / 2
        weights = np.where(known, weights, 0) / covered
        of_whole = float(weights @ self._gain)
        of_strata = weights - of_whole * own
        least = np.array([_least(found) for found in self.strata.values()])
        if self.given is None:
            sampling = self.settings.sigma**2 / _least(self.whole)
            careful = self._noise * (self.whole.rows / _least(self.whole)) ** 2
        else:
            sampling = float(weights**2 @ (self.settings.sigma**2 / least))
            careful = np.where(known, self._each("variance") - self.settings.sigma**2 / least, 0)
        of_all = self.whole.variance - self.settings.sigma**2 / _least(self.whole)
        variance = sampling + float(of_strata**2 @ careful) + of_whole**2 * of_all
        bias = float(np.abs(of_strata) @ self._each("bias")) + abs(of_whole) * self.whole.bias
        bias += (1 - covered) * (self.settings.upper - self.settings.lower)
        return float(weights @ self.consistent), variance, bias

    def shrunk(self) -> Floats:
        """The strata's posterior means, which still agree with the mean of all rows.

        The prior is the mixed model, plus σ²/nᵢ: a stratum's rows scatter about what they are a sample of, and what is estimated
        is first of all their own mean. Its variances are found by REML with a prior of their own (`SHARED`, `OWN`): where noise is
        far above σ the likelihood would allow any, and means of a few rows would keep the noise.
        """
        noise, seen = self._noise, self._known
        if len(seen) < FEWEST or not seen.any():
            return self.consistent
        keys = [key if isinstance(key, tuple) else (key,) for key in self.strata]
        # A noisy size that says next to nothing is taken to be as large as its noise.
        rows = np.maximum(self._each("rows"), self._each("count_deviation"))
        scatter = self.settings.sigma**2 / np.maximum(rows, 1.0)
        kernels = effects(keys)
        apart = [*[SHARED] * (len(kernels) - 1), OWN]
        fitted = variances(
            [kernel[np.ix_(seen, seen)] for kernel in kernels],
            self.measured[seen, None],
            (noise + scatter)[seen],
            expected=[(part * self.settings.sigma) ** 2 for part in apart],
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
        reach = np.where(seen, FARTHEST * np.sqrt(noise), np.inf)
        predicted = np.clip(predicted, self.measured - reach, self.measured + reach)
        gain = posterior @ self.own
        missing = float(self.own @ (self.consistent - predicted))
        return np.asarray(predicted + gain * missing / float(gain @ self.own))

    @property
    def _about(self) -> float:
        """The mean of all rows as measured over all rows."""
        return self.whole.value if self.whole.raw is None else self.whole.raw

    @property
    def _known(self) -> npt.NDArray[np.bool_]:
        return np.array([found.raw is not None for found in self.strata.values()])

    @property
    def _noise(self) -> Floats:
        """The variances of the noise of the strata's means; 0 where nothing was measured, as their share of the rows is.

        An error in a stratum's size moves the sum of all by how far its centre is from the population's mean.
        """
        sums = np.where(self._known, self._each("sum_deviation"), 0.0)
        counts = (self._each("centre") - self._about) * self._each("count_deviation")
        return np.asarray((sums**2 + counts**2) / np.maximum(self._each("rows"), 1.0) ** 2)

    @property
    def _noise_of_whole(self) -> float:
        whole = self.whole
        if whole.raw is None:
            return 0.0
        return math.hypot(whole.sum_deviation, (whole.raw - whole.centre) * whole.count_deviation) ** 2 / whole.rows**2

    @property
    def _gain(self) -> Floats:
        """How much each stratum's mean moves for each unit that the mean of all rows is above their sum."""
        bias = self._each("bias")
        moved = self._noise * self.own + bias * float(bias @ self.own)
        total = float(moved @ self.own) + self._noise_of_whole + self.whole.bias**2
        return moved / total if total > 0 else moved

    def _each(self, name: str) -> Floats:
        return np.array([getattr(found, name) for found in self.strata.values()], dtype=np.float64)


def _least(found: Estimate) -> float:
    return Rows(found.rows, found.count_deviation).least
