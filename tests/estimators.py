"""Functions that call each estimator with a single dictionary of settings, so that a test can vary one setting."""

import math

from equistrata.inference.counts.proportions import proportion_sizing
from equistrata.inference.federated import ab_test, arms, renyi
from equistrata.inference.federated.poisson_binomial import check_values
from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.laplace import LaplaceMean
from equistrata.inference.ratios import ratio, sums
from equistrata.inference.ratios.sums import RatioWeights


def coinpress_mean(values, *, rho, noise, rows=None, **settings):
    return Coinpress(**settings).mean(values, rho, noise, rows=rows)


def stratified_coinpress(groups, weights, *, rho, noise, absent=None, **settings):
    return Coinpress(**settings).by_strata(groups, weights, rho, noise, absent=absent)


def hierarchical_coinpress(groups, weights, *, rho, noise, absent=None, **settings):
    return Coinpress(**settings).hierarchical(groups, weights, rho, noise, absent=absent)


def laplace_mean(values, *, noise, **settings):
    return LaplaceMean(**settings).mean(values, noise)


def stratified_laplace_mean(groups, weights=None, *, noise, **settings):
    return LaplaceMean(**settings).by_strata(groups, weights, noise)


def private_ratio(numerator, denominator, weights=None, *, weight_bound=1.0, noise, **settings):
    weighted = None if weights is None else RatioWeights(weights, weight_bound)
    return ratio.private_ratio(numerator, denominator, ratio.RatioSettings(**settings), noise, weighted)


def measure_sums(numerator, denominator, priced, weights=None, *, weight_bound=1.0, noise):
    weighted = None if weights is None else RatioWeights(weights, weight_bound)
    return sums.measure_sums(numerator, denominator, priced, noise, weighted)


def arm_design(*, radius, epsilon, delta, trials=ab_test.TRIALS, mean_share=None, maximum=renyi.MAX_THETA):
    return ab_test.ArmDesign(radius, renyi.ThetaTarget(epsilon, delta, maximum=maximum), trials, mean_share)


def settle(rows, **settings):
    return arm_design(**settings).settings(rows)


def private_difference(treated, control, *, noise, target="pate", level=0.9, **settings):
    """Return the difference of two arms that are in the same process."""
    design = arm_design(**settings)
    people = [check_values(values, design.radius) for values in (treated, control)]
    chosen = [design.settings(len(values)) for values in people]
    sums = [each.reports(x, noise.spawn(i)) for i, (each, x) in enumerate(zip(chosen, people, strict=True))]
    found = [ab_test.private_arm(pair, each) for pair, each in zip(sums, chosen, strict=True)]
    return arms.interval_of(found, [1, -1], level, target=target)


def solve_theta(n, m, epsilon, delta, maximum=renyi.MAX_THETA):
    return renyi.solve_theta(n, m, renyi.ThetaTarget(epsilon, delta, maximum=maximum))


def solve_thetas(n, trials, epsilon, delta, mean_share=0.99):
    return renyi.solve_thetas(n, trials, renyi.ThetaTarget(epsilon, delta), mean_share)


def sample_size(p0, effect, **settings):
    return proportion_sizing(p0, effect, **settings).classical_rows


def correction_factor(p0, effect, *, alpha, beta, epsilon, law="normal"):
    return proportion_sizing(p0, effect, alpha=alpha, beta=beta).correction_factor(epsilon, law)


def private_sample_size(p0, effect, *, alpha, beta, epsilon, law="normal-laplace"):
    return math.ceil(proportion_sizing(p0, effect, alpha=alpha, beta=beta).rows(epsilon, law))


def effective_sample_size(rows, p0, effect, *, alpha, beta, epsilon, law="normal-laplace"):
    return proportion_sizing(p0, effect, alpha=alpha, beta=beta).effective_rows(rows, epsilon, law)


def smallest_epsilon(rows, p0, effect, *, alpha, beta, law="normal-laplace"):
    return proportion_sizing(p0, effect, alpha=alpha, beta=beta).smallest_epsilon(rows, law)


def stratified_error_bound(k, n, log_sizes, **settings):
    return LaplaceMean(**settings).error_bound(k, n, log_sizes)
