"""Private means by Coinpress, of one group or of strata, with intervals.

Clip wide, measure roughly, narrow the interval for the mean, clip tighter, measure again: Biswas, Dong, Kamath and
Ullman (Coinpress, NeurIPS 2020), stated as Algorithms 1 and 2 of the stratification paper; its Algorithm 3
(StratCoinpress) is one run per stratum at the full ρ. PubStratCoinpress is `stratified_coinpress` given `PublicWeights`
from a public sample: the same function, for shares are always an argument and never counted from the private rows.

>>> import numpy as np
>>> from equistrata.privacy.noise import SeededNoise
>>> hours = np.random.default_rng(0).normal(38, 12, 5000)
>>> estimate = coinpress_mean(hours, lower=0, upper=99, sigma=14, rho=0.5, noise=SeededNoise(1))
>>> round(float(hours.mean()), 3), round(estimate.value, 3), [what for what, _ in estimate.entries]
(37.946, 37.925, ['step 1', 'tail histogram', 'step 2'])
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy.typing as npt

from equistrata.inference.means.estimate import Estimate, StratifiedEstimate
from equistrata.inference.means.groups import Groups, Weights, equal_weights, read_groups, read_values
from equistrata.inference.means.run import Rows, Settings, Sizes, Tail, estimate, positive
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource

__all__ = ["Rows", "coinpress_mean", "stratified_coinpress"]


def coinpress_mean(
    values: npt.ArrayLike,
    *,
    lower: float,
    upper: float,
    sigma: float,
    rho: Budget | Rho | float,
    steps: int = 2,
    beta: float = 0.01,
    noise: NoiseSource,
    sizes: Sizes = "public",
    tail: Tail = "adaptive",
    bounds: tuple[float, float] | None = None,
    rows: Rows | None = None,
) -> Estimate:
    """The mean of `values`, privately.

    Args:
        values: shape (n,), n ≥ 0, in any unit; infinities are clipped; never written to.
        lower, upper: an interval that holds the *mean* (not the data), finite, in the unit of the values. Declared: it must
            not be read from the rows.
        sigma: a declared bound on the standard deviation, positive, in the unit of the values.
        rho: what may be spent, ρ > 0; all of it is. Of a budget, all that is left.
        steps: t ≥ 1. The last step gets ¾ of what the steps have and the others share the rest; one step gets all.
        beta: the failure probability of the interval, in (0, 1).
        noise: where the noise comes from.
        sizes: "public" when n is declared public; "noisy" when it is private: then a tenth of ρ buys a noisy count.
        tail: "gaussian" is the paper's Algorithm 2 (but for the bounds, and for steps whose interval is cut to the one
            before); "adaptive" is better where it can be:
            the last step clips at Φ⁻¹(1 − 1/(2n))·σ from the interval (about one Gaussian row lost) instead of
            √(2 ln(8n/β))·σ; from 1,000 rows on 8 % of ρ buys a histogram of the rows beyond, and each side is clipped
            where the expected bias² + noise² is least (`equistrata.inference.means.clip`: what is expected of tails, and when it decides);
            with a noisy size, sums are taken about the point that makes the noise least by the rough mean of the first step, not
            about the clip's midpoint; and earlier, wider readings are joined by least squares.
        bounds: declared bounds (a, b) of the data; no clip goes beyond them. Tighter clips need less noise.
        rows: with `sizes="noisy"`, a noisy count of these rows that was paid for elsewhere (for several columns at once,
            say), with the standard deviation of its noise: then no ρ goes to a count here.

    Returns:
        The estimate. Its interval is Z ± √(2(σ²/n + noise²) ln(2/β_t)), β_t = β/4, plus the bias that clipping is
        estimated to leave (`tail="adaptive"`, which also keeps it inside the interval of the step before). It covers
        the *population* mean of which the rows are a sample, with probability at least 1 − β when the rows are
        independent and Gaussian with a deviation of at most σ, and the mean lies in [lower, upper]. For other columns
        that is an approximation; a tail that the histogram could not see is in it as far as it was expected.
        With public n = 0 nothing is known: the midpoint of [lower, upper], with the whole of it as interval, at ρ.

    Raises:
        ValueError: a setting out of its range, `rows` without noise, values that are not one-dimensional, or NaN among them.

    Privacy: ρ-zCDP (on top of what `rows` cost); "public": replace-one within a stratum; "noisy": add-remove. Proof: the clip of each step is
    chosen from earlier outputs and declared settings. Given it, one row moves the sum of n clipped values by at most
    its width w (replace-one), the sum Σ(clip(x) − c) about a point c of it, chosen likewise, by at most the distance to its
    farther end (add-remove; w/2 about the midpoint), a count by 1,
    and the histogram by 1 (√2 under replace-one) in L2; each gets Gaussian noise of deviation Δ/√(2ρ_s), which is
    ρ_s-zCDP; the amounts add up to ρ (adaptive composition; checked by a `Budget`, exactly). Division, narrowing and the
    choice of a clip are post-processing.

    Source: the stratification paper, Algorithms 1-2; Bun and Steinke (arXiv:1605.02065), Proposition 1.6, Lemma 2.3.

    >>> from equistrata.privacy.noise import SeededNoise
    >>> coinpress_mean([], lower=0, upper=40, sigma=14, rho=0.5, noise=SeededNoise(1)).value
    20.0
    """
    settings = Settings.of(lower, upper, sigma, steps, beta, sizes, tail, bounds)
    if rows is not None and (sizes != "noisy" or not rows.sigma > 0):
        raise ValueError("a count that was paid for is noisy: give its sigma, above 0, and sizes='noisy'")
    return estimate(read_values(values), Budget(positive(rho)), settings, noise, rows)


def stratified_coinpress(
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
    tail: Tail = "adaptive",
    bounds: tuple[float, float] | None = None,
) -> StratifiedEstimate:
    """The mean of each of disjoint groups, privately, and from these the population mean Σ ωᵢ μ̂ᵢ.

    Args:
        groups: stratum key → its values, shape (nᵢ,), nᵢ ≥ 0; or a sequence of such arrays. No row may be in two groups.
        weights: the share ωᵢ of each group: `PublicWeights`, a mapping with the same keys, or a sequence; not
            negative, summing to 1 within 10⁻⁶; None for nᵢ/n from the strata's own sizes, public or noisy as `sizes`
            says (then already paid for). A stratum with a positive share and no group counts as an empty group.
            PubStratCoinpress: `PublicWeights` from a public sample that shares no one with the rows.
        lower, upper, sigma: hold for every stratum. The other arguments: as for `coinpress_mean`.

    Returns:
        The population estimate and the strata's own. Every stratum's interval fails with probability β, one at a
        time: the paper's Σ βᵢ = β would widen the first clips of the many small strata for the sake of a joint statement;
        for that, pass β/k. The population interval combines variances, √(2 ln(2/β) Σ ωᵢ²(σ²/nᵢ + noiseᵢ²)) + Σ ωᵢ biasᵢ,
        where an empty stratum has the length of [lower, upper] as its bias; with `weights=None` by the delta method on the
        ratio of the summed sums to the summed sizes. The strata's measured values are combined as they
        are (`Estimate.raw`), before each is moved into its own interval: errors of mean zero cancel in the sum and
        those of values cut at a bound add up. Shares of empty strata go to the others. With `sizes="noisy"` a stratum of
        about ten rows or fewer is hardly told from an empty one: where [lower, upper] is much wider than the strata's
        means lie apart, many such strata bias the population (1 % for New York's income on [−20,000, 4,200,000]). (The paper's 1/k in front
        of the sum is a slip.) The result does not depend on the order of the groups.

    Raises:
        ValueError: as `coinpress_mean`; a group without a weight, a negative weight, or weights that do not sum to 1.

    Privacy: ρ-zCDP for all outputs together; "public": replace-one within a stratum (a row that changes its stratum
    changes the sizes, and is not covered); "noisy": add-remove. Proof: neighbours differ in one stratum only, each
    stratum's run is ρ-zCDP and uses its own noise (parallel composition, `Budget.parallel`); the combination is
    post-processing with public weights.

    Source: the stratification paper, Algorithm 3 (StratCoinpress and PubStratCoinpress).

    >>> import numpy as np
    >>> from equistrata.privacy.noise import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> groups = {"men": rng.normal(40, 12, 3000), "women": rng.normal(36, 12, 2000)}
    >>> shares = {"men": 0.6, "women": 0.4}
    >>> whole = stratified_coinpress(groups, shares, lower=0, upper=99, sigma=14, rho=0.5, noise=SeededNoise(1))
    >>> round(whole.value, 2), round(whole.strata["women"].value, 2), float(whole.rho)
    (38.34, 36.47, 0.5)
    """
    settings = Settings.of(lower, upper, sigma, steps, beta, sizes, tail, bounds)
    # Sizes that are not declared public must not be read here, not even as shares: any shares will do until they are paid.
    read = read_groups(groups, equal_weights(groups) if weights is None else weights)
    amount = positive(rho)
    budgets = Budget(amount).parallel(amount, read.values, "strata")
    strata = {
        key: estimate(values, budgets[key], settings, noise.spawn(read.streams[key]))
        for key, values in read.values.items()
    }
    shares = read.weights if weights is not None else _shares_of(strata)
    known = {key: (share, raw) for key, share in shares.items() if (raw := strata[key].raw) is not None}
    covered = math.fsum(share for share, _ in known.values())
    empty = math.fsum(share for key, share in shares.items() if key not in known)
    middle = (settings.lower + settings.upper) / 2
    value = math.fsum(share * raw for share, raw in known.values()) / covered if covered > 0 else middle
    scale = 1 / covered if covered > 0 else 0.0
    variance = (
        math.fsum((share * scale) ** 2 * strata[key].variance for key, (share, _) in known.items())
        if weights is not None
        else _own_sizes_variance(strata, value, settings.sigma)
    )
    bias = math.fsum(share * scale * strata[key].bias for key, (share, _) in known.items())
    bias += empty * (settings.upper - settings.lower)
    half = math.sqrt(2 * variance * math.log(2 / settings.beta)) + bias
    return StratifiedEstimate(
        value=value,
        lower=value - half,
        upper=value + half,
        rho=amount,
        relation=settings.relation,
        strata=strata,
        weights=shares,
        variance=variance,
        bias=bias,
        private=noise.private,
    )


def _shares_of(strata: Mapping[Hashable, Estimate]) -> dict[Hashable, float]:
    """Shares from the sizes that the strata's estimates state; alike if all state zero."""
    rows = math.fsum(estimate.rows for estimate in strata.values())
    return {key: estimate.rows / rows if rows > 0 else 1 / len(strata) for key, estimate in strata.items()}


def _own_sizes_variance(strata: Mapping[Hashable, Estimate], value: float, sigma: float) -> float:
    """The variance of Σ nᵢ rawᵢ / Σ nᵢ with noisy nᵢ, by the delta method.

    The numerator is Σ (nᵢ cᵢ + Sᵢ), Sᵢ a noisy sum about the centre cᵢ: noise in nᵢ moves the ratio by (cᵢ − value)/n,
    noise in Sᵢ by 1/n. A stratum that may be empty so adds its noise once, not divided by its own uncertain size.
    """
    rows = math.fsum(estimate.rows for estimate in strata.values())
    if not rows > 0:
        return 0.0
    parts = (
        estimate.sum_deviation**2
        + ((estimate.centre - value) * estimate.count_deviation) ** 2
        + sigma**2 * estimate.rows
        for estimate in strata.values()
    )
    return math.fsum(parts) / rows**2
