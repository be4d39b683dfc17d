"""The talk's tables for tests of a proportion.

K is the factor by which noise multiplies the rows that a test needs, by both laws. The talk simulated the errors of the
classical test on noisy counts, without correction and with K times the rows; ours are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy.special import ndtri

from equistrata.inference.counts.proportions import proportion_sizing
from equistrata.inference.counts.sizing import Law
from equistrata.stats.laws import BinomialLaplace
from paper.comparison import Comparison, Sample, Settings, compare, read_published

P0, EFFECT, ALPHA, BETA = 0.25, 0.1, 0.05, 0.1
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)


def rows_of(law: Law | None, epsilon: float) -> int:
    """N without a correction, or K·N, both rounded up.

    >>> rows_of(None, 0.1), rows_of("normal", 0.1)
    (221, 582)
    """
    sizing = proportion_sizing(P0, EFFECT, alpha=ALPHA, beta=BETA)
    return math.ceil(sizing.classical_rows if law is None else sizing.rows(epsilon, law))


def forgotten_noise_errors(rows: int, epsilon: float) -> tuple[float, float]:
    """The exact level and type II error of the classical one-sided test on a noisy count as if there were no noise.

    It rejects above p₀ + z(1 − α/2)√(σ²/rows), σ² = p̄(1 − p̄), p̄ = p₀ + effect/2. More rows restore its power, but its
    level stays far above α/2. The level of both sides together is about twice this.

    >>> [tuple(round(error, 3) for error in forgotten_noise_errors(rows, 0.1)) for rows in (221, 578)]
    [(0.161, 0.256), (0.097, 0.026)]
    """
    middle = P0 + EFFECT / 2
    critical = rows * (P0 - float(ndtri(ALPHA / 2)) * math.sqrt(middle * (1 - middle) / rows))
    null, other = (BinomialLaplace(rows, p, 1 / epsilon) for p in (P0, P0 + EFFECT))
    return float(null.sf(critical)), float(other.cdf(critical))


def compare_tables(table: int, settings: Settings) -> Iterator[Comparison]:
    """Both tables of the talk. Nothing is drawn, so there are no runs."""
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
            errors = forgotten_noise_errors(rows_of(corrected, epsilon), epsilon)
            arm = f"K·N rows, {corrected}" if corrected else "N rows"
            samples += [(name, arm, epsilon, e) for name, e in zip(("level", "type II error"), errors, strict=True)]
    title = "Tests of a proportion: K, and the errors of the classical test"
    yield Comparison("proportions", title, "ε", "Exact laws, no rows.", compare(samples, published))
