"""Tables and figures from the talk on proportions with Laplace noise.

1. K is the factor by which the noise increases the number of rows that a test requires, for both distributions. The
talk simulated the errors of the classical test on noisy counts, without correction and with K times the rows. Our
errors are exact.
2. The ratio of the mean squared errors with and without noise, as a function of ε and of the number of rows.
3. The power of tests as a function of the true proportion. The talk printed no numbers for 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri

from equistrata.inference.counts.noisy_counts import noisy_count
from equistrata.inference.counts.proportions import exact_power, power, proportion_sizing
from equistrata.inference.counts.sizing import Law
from equistrata.privacy.noise import SeededNoise
from equistrata.stats.distributions import BinomialLaplace
from paper.comparison import Comparison, Sample, Settings, compare, read_published

P0, EFFECT, ALPHA, BETA = 0.25, 0.1, 0.05, 0.1
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)
SHARES = (0.5, 0.25, 0.1)
# For the figures over ε, and over the number of rows at ε = 0.1.
ROWS, ROW_COUNTS = 100, (100, 300, 1_000, 3_000, 10_000)
POWER_ROWS, POWER_EPSILON = (100, 376), 0.1
REPETITIONS, QUICK_REPETITIONS = 1000, 100


def rows_of(law: Law | None, epsilon: float) -> int:
    """Return the number of rows N without correction, or K·N, rounded up.

    >>> rows_of(None, 0.1), rows_of("normal", 0.1)
    (221, 582)
    """
    sizing = proportion_sizing(P0, EFFECT, alpha=ALPHA, beta=BETA)
    return math.ceil(sizing.classical_rows if law is None else sizing.rows(epsilon, law))


def ignored_noise_errors(rows: int, epsilon: float) -> tuple[float, float]:
    """Compute the exact level and type II error of the classical one-sided test that ignores the noise in a count.

    The test rejects above p₀ + z(1 − α/2)√(σ²/rows), where σ² = p̄(1 − p̄) and p̄ = p₀ + effect/2. A larger number of
    rows restores its power, but its level remains much larger than α/2. The level of the two-sided test is about twice
    as large.

    Parameters
    ----------
    rows : int
        The number of rows.
    epsilon : float
        The privacy parameter ε.

    Returns
    -------
    tuple of float
        The level and the type II error.

    Examples
    --------
    >>> [tuple(round(error, 3) for error in ignored_noise_errors(rows, 0.1)) for rows in (221, 578)]
    [(0.161, 0.256), (0.097, 0.026)]
    """
    middle = P0 + EFFECT / 2
    critical = rows * (P0 - float(ndtri(ALPHA / 2)) * math.sqrt(middle * (1 - middle) / rows))
    null, other = (BinomialLaplace(rows, p, 1 / epsilon) for p in (P0, P0 + EFFECT))
    return float(null.sf(critical)), float(other.cdf(critical))


def noisy_error(p: float, rows: int, epsilon: float) -> float:
    """Return the ratio of the mean squared errors with and without noise, which is 1 + 2/(ε²·rows·p(1 − p)).

    >>> round(noisy_error(0.5, 100, 0.1), 9)
    9.0
    """
    return 1 + 2 / (epsilon**2 * rows * p * (1 - p))


def compare_number(number: int, settings: Settings) -> Iterator[Comparison]:
    """Yield the tables of the talk, or one of its two kinds of figures."""
    if number == 1:
        yield _tables()
    elif number == 2:
        yield _errors("ε", [(p, ROWS, epsilon) for p, epsilon in product(SHARES, EPSILONS)], settings)
        yield _errors("N", [(p, rows, POWER_EPSILON) for p, rows in product(SHARES, ROW_COUNTS)], settings)
    else:
        yield _powers()


def _errors(axis: str, places: Iterable[tuple[float, int, float]], settings: Settings) -> Comparison:
    """Compare the errors. Each element of `places` consists of p, the number of rows and ε."""
    samples: list[Sample] = []
    for p, rows, epsilon in places:
        panel, x, at = f"p = {p:g}", epsilon if axis == "ε" else rows, (rows, round(1000 * epsilon), round(1000 * p))
        samples.append((panel, "exact", x, noisy_error(p, rows, epsilon)))
        rng, noise = np.random.default_rng(at), SeededNoise(at[0]).spawn(at[1]).spawn(at[2])
        for run in range(settings.runs_of(REPETITIONS, QUICK_REPETITIONS)):
            found = noisy_count(rng.random(rows) < p, epsilon=epsilon, noise=noise.spawn(run))
            samples.append((panel, "simulated", x, (found.proportion - p) ** 2 / (p * (1 - p) / rows)))
    name, fixed = ("epsilon", f"N = {ROWS}") if axis == "ε" else ("rows", f"ε = {POWER_EPSILON:g}")
    title = f"Mean squared error of a noisy proportion over that without noise, {fixed}"
    return Comparison(
        f"proportions-error-{name}", title, axis, "Simulated rows, noise from seeds.", compare(samples, {})
    )


def _powers() -> Comparison:
    samples: list[Sample] = []
    for rows, p in product(POWER_ROWS, np.linspace(0.05, 0.5, 10).round(2).tolist()):
        given: dict[str, Any] = {"p0": P0, "rows": rows, "alpha": ALPHA}
        laws = {"without noise": power(p, **given), "normal-laplace": power(p, epsilon=POWER_EPSILON, **given)}
        laws["exact"] = exact_power(p, epsilon=POWER_EPSILON, **given)
        samples += [(f"N = {rows}", arm, p, value) for arm, value in laws.items()]
    title = f"Power of the two-sided test of p = {P0:g} at ε = {POWER_EPSILON:g}"
    return Comparison("proportions-power", title, "p", "Laws, no rows.", compare(samples, {}))


def _tables() -> Comparison:
    """Return both tables of the talk. They are exact, so there are no runs."""
    printed = read_published("proportions")
    published = {(row["number"], row["arm"], row["epsilon"]): row["value"] for _, row in printed.iterrows()}
    samples: list[Sample] = []
    for epsilon in EPSILONS:
        for beta in (0.4, 0.1):
            sizing = proportion_sizing(P0, EFFECT, alpha=ALPHA, beta=beta)
            for law in ("normal-laplace", "normal"):
                factor = sizing.correction_factor(epsilon, law)
                samples.append((f"K, beta = {beta:g}", law, epsilon, factor))
        for corrected in (None, "normal", "normal-laplace"):
            errors = ignored_noise_errors(rows_of(corrected, epsilon), epsilon)
            arm = f"K·N rows, {corrected}" if corrected else "N rows"
            samples += [(name, arm, epsilon, e) for name, e in zip(("level", "type II error"), errors, strict=True)]
    title = "Tests of a proportion: K, and the errors of the classical test"
    return Comparison("proportions", title, "ε", "Exact laws, no rows.", compare(samples, published))
