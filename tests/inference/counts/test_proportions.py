"""Tests of the sample size of private tests of a proportion. The tables of the talk are in tests/paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimators import correction_factor, effective_sample_size, private_sample_size, sample_size, smallest_epsilon
from scipy import integrate, optimize, stats

from equistrata.errors import InputError
from equistrata.inference.counts.proportions import power

RUNS = 400_000


def oracle_rows(p0, effect, alpha, beta, epsilon):
    """Solve Equation 4 for N by bisection, with numerical integration over the normal variable."""
    middle = p0 + effect / 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    weights = weights / weights.sum()

    def quantile(p, rows):
        sd, scale = math.sqrt(middle * (1 - middle) / rows), 1 / (epsilon * rows)
        return optimize.brentq(
            lambda x: float(weights @ stats.laplace.cdf(x - sd * nodes, scale=scale)) - p, -1e3, 1e3, xtol=1e-12
        )

    def gap(rows):
        return quantile(1 - alpha / 2, rows) - (abs(effect) + quantile(beta, rows))

    return optimize.brentq(gap, 2, 1e7, rtol=1e-9)


OTHER = [
    (0.5, 0.05, 0.01, 0.2, 0.08),
    (0.1, 0.2, 0.1, 0.05, 0.35),
    (0.8, -0.3, 0.05, 0.1, 0.15),
    (0.03, 0.05, 0.05, 0.3, 1.0),
    (0.6, 0.39, 0.2, 0.45, 0.07),
]


@pytest.mark.parametrize(("p0", "effect", "alpha", "beta", "epsilon"), OTHER)
def test_correction_factor_at_values_in_no_table(p0, effect, alpha, beta, epsilon):
    settings = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
    middle = p0 + effect / 2
    quantiles = stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(1 - beta)
    classical = quantiles**2 * middle * (1 - middle) / effect**2
    printed = 8 * effect**2 / (epsilon**2 * quantiles**2 * (middle * (1 - middle)) ** 2)
    assert correction_factor(p0, effect, **settings) == pytest.approx(0.5 + 0.5 * math.sqrt(1 + printed), rel=1e-12)
    exact = correction_factor(p0, effect, **settings, law="normal-laplace")
    # The numerical integral has a relative error of a few parts in ten thousand near the mode of the Laplace
    # distribution.
    assert exact == pytest.approx(oracle_rows(p0, effect, alpha, beta, epsilon) / classical, rel=1e-3)


@pytest.mark.parametrize(("p0", "effect", "alpha", "beta", "epsilon"), OTHER)
def test_the_planned_rows_have_the_planned_errors(p0, effect, alpha, beta, epsilon):
    """Both error rates must be equal to the given rates for K·N rows, with the critical value of the normal-Laplace
    model.
    """
    rows = sample_size(p0, effect, alpha=alpha, beta=beta) * correction_factor(
        p0, effect, alpha=alpha, beta=beta, epsilon=epsilon, law="normal-laplace"
    )
    rng = np.random.default_rng(3)
    middle = p0 + effect / 2
    noise = rng.normal(0, math.sqrt(middle * (1 - middle) / rows), RUNS) + rng.laplace(0, 1 / (epsilon * rows), RUNS)
    critical = np.quantile(np.abs(noise), 1 - alpha)
    seen = np.mean(noise + abs(effect) > critical)
    assert (
        abs(seen - (1 - beta)) <= 5 * math.sqrt(beta * (1 - beta) / RUNS) + 0.002
    )  # the critical value is also simulated


@pytest.mark.parametrize("law", ["normal", "normal-laplace"])
def test_inverses(law):
    settings = {"alpha": 0.03, "beta": 0.15, "law": law}
    factor = correction_factor(0.4, 0.07, epsilon=0.2, **settings)
    classical = sample_size(0.4, 0.07, alpha=0.03, beta=0.15)
    assert private_sample_size(0.4, 0.07, epsilon=0.2, **settings) == math.ceil(factor * classical)
    assert effective_sample_size(factor * classical, 0.4, 0.07, epsilon=0.2, **settings) == pytest.approx(classical)
    assert smallest_epsilon(factor * classical, 0.4, 0.07, **settings) == pytest.approx(0.2, rel=1e-9)
    assert smallest_epsilon(classical, 0.4, 0.07, **settings) == math.inf


def test_power_is_the_law_beyond_the_critical_values():
    """The power at p₀ is the level. Otherwise, it is compared with a numerical integral over the rejection region."""
    p0, p, rows, epsilon, alpha = 0.25, 0.4, 100, 0.1, 0.05
    assert power(p0, p0=p0, rows=rows, alpha=alpha, epsilon=epsilon) == pytest.approx(alpha)
    assert power(p0, p0=p0, rows=rows, alpha=alpha) == pytest.approx(alpha)
    scale, null = 1 / (rows * epsilon), math.sqrt(p0 * (1 - p0) / rows)

    def cdf(x, sd):
        inner = lambda t: stats.norm.cdf((x - t) / sd) * stats.laplace.pdf(t, scale=scale)  # noqa: E731
        return integrate.quad(inner, -3, 0)[0] + integrate.quad(inner, 0, 3)[0]

    reach = optimize.brentq(lambda x: cdf(x, null) - (1 - alpha / 2), 0, 2)
    other = math.sqrt(p * (1 - p) / rows)
    expected = 1 - cdf(p0 + reach - p, other) + cdf(p0 - reach - p, other)
    assert power(p, p0=p0, rows=rows, alpha=alpha, epsilon=epsilon) == pytest.approx(expected, abs=1e-6)


GOOD = {"p0": 0.25, "effect": 0.1, "alpha": 0.05, "beta": 0.1, "epsilon": 0.1}


@pytest.mark.parametrize("law", ["normal", "normal-laplace"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"effect": 0.75}, r"p0 \+ effect is 1,"),
        ({"effect": 0.9}, r"p0 \+ effect is 1.15"),
        ({"effect": -0.25}, r"p0 \+ effect is 0,"),
        ({"effect": 0.0}, "effect is 0"),
        ({"effect": math.nan}, "effect is nan"),
        ({"effect": None}, "effect is None"),
        ({"p0": 0.0}, "p0 is 0"),
        ({"p0": 1.2}, "p0 is 1.2"),
        ({"p0": "a"}, "p0 is 'a'"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 0.975}, "beta is 0.975"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
    ],
)
def test_bad_settings_are_refused(bad, message, law):
    with pytest.raises(InputError, match=message):
        correction_factor(**(GOOD | bad), law=law)
