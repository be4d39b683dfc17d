"""The talk's tables for tests of a proportion, beside ours: `python -m paper table proportions`.

K, the factor by which noise multiplies the rows that a test needs, by both laws; and the errors of the classical test
on noisy counts, without correction and with K times the rows, by simulation (100,000 runs, seeded).
"""

from __future__ import annotations

import math

import numpy as np
from rich.table import Table
from scipy.special import ndtri

from equistrata.inference.counts.proportions import proportion_sizing
from equistrata.inference.counts.sizing import Law
from equistrata.stats.checks import positive, whole
from equistrata.stats.laws import BinomialLaplace

P0, EFFECT, ALPHA, BETA = 0.25, 0.1, 0.05, 0.1
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)
RUNS = 100_000

# As printed in the talk, for EPSILONS.
TALK_K: dict[tuple[float, Law], tuple[float, ...]] = {
    (0.4, "normal-laplace"): (3.65, 2.12, 1.64, 1.42, 1.29),
    (0.4, "normal"): (3.58, 2.10, 1.63, 1.41, 1.29),
    (0.1, "normal-laplace"): (2.62, 1.64, 1.35, 1.22, 1.15),
    (0.1, "normal"): (2.64, 1.65, 1.35, 1.22, 1.15),
}
TALK_LEVEL: dict[Law | None, tuple[float, ...]] = {
    None: (0.1606, 0.0763, 0.0496, 0.0350, 0.0315),
    "normal": (0.0943, 0.0557, 0.0403, 0.0376, 0.0288),
    "normal-laplace": (0.0937, 0.0538, 0.0387, 0.0335, 0.0267),
}
TALK_TYPE_TWO: dict[Law | None, tuple[float, ...]] = {
    None: (0.2562, 0.1817, 0.1459, 0.1355, 0.1209),
    "normal": (0.0249, 0.0434, 0.0629, 0.0754, 0.0814),
    "normal-laplace": (0.0238, 0.0451, 0.0633, 0.0752, 0.0830),
}


def rows_of(law: Law | None, epsilon: float) -> int:
    """N without a correction, or K·N, both rounded up.

    >>> rows_of(None, 0.1), rows_of("normal", 0.1)
    (221, 582)
    """
    sizing = proportion_sizing(P0, EFFECT, alpha=ALPHA, beta=BETA)
    if law is None:
        return math.ceil(sizing.classical_rows)
    return math.ceil(sizing.rows(epsilon, law))


def simulated_errors(rows: int, epsilon: float, runs: int, seed: int) -> tuple[float, float]:
    """The talk's experiment: the one-sided classical test's error rates on noisy counts under either hypothesis."""
    rng = np.random.default_rng(seed)
    middle = P0 + EFFECT / 2
    critical = P0 - float(ndtri(ALPHA / 2)) * math.sqrt(middle * (1 - middle) / rows)
    above = [
        float(np.mean((rng.binomial(rows, p, runs) + rng.laplace(0, 1 / epsilon, runs)) / rows > critical))
        for p in (P0, P0 + EFFECT)
    ]
    return above[0], 1 - above[1]


def forgotten_noise_errors(p0: float, effect: float, *, rows: int, epsilon: float, alpha: float) -> tuple[float, float]:
    """The exact errors of the classical test of p₀ + effect on a noisy count as if there were no noise.

    It rejects on the effect's side of p₀ ± z(1 − α/2)√(σ²/rows), σ² = p̄(1 − p̄), p̄ = p₀ + effect/2. More rows restore
    its power, but its level stays far above α/2.

    Args:
        p0, effect, alpha: as for `proportion_sizing`.
        rows: at least 1; N without correction, K·N with it.
        epsilon: of the noisy count, positive.

    Returns:
        (level on that side, type II error). The level of both sides together is about twice the first.

    Raises:
        InputError: a setting out of its range.

    >>> errors = [forgotten_noise_errors(0.25, 0.1, rows=n, epsilon=0.1, alpha=0.05) for n in (221, 578)]
    >>> [(round(first, 3), round(second, 3)) for first, second in errors]
    [(0.161, 0.256), (0.097, 0.026)]
    """
    middle = proportion_sizing(p0, effect, alpha=alpha, beta=0.5)  # checks the settings; beta is not one of them
    rows, scale = whole("rows", rows, 1), 1 / positive("epsilon", epsilon)
    step = math.copysign(float(-ndtri(alpha / 2)) * math.sqrt(middle.variance / rows), effect)
    critical = rows * (p0 + step)
    null, other = (BinomialLaplace(rows, p, scale) for p in (p0, p0 + effect))
    if effect > 0:
        return float(null.sf(critical)), float(other.cdf(critical))
    return float(null.cdf(critical)), float(other.sf(critical))


def tables(runs: int) -> list[Table]:
    """Both tables."""
    factors = Table(title="K (the talk's)", title_justify="left")
    errors = Table(title=f"errors of the classical test, {runs:,} runs (the talk's)", title_justify="left")
    for table, first in ((factors, "β, law"), (errors, "rows, error")):
        for heading in (first, *(f"ε = {epsilon:g}" for epsilon in EPSILONS)):
            table.add_column(heading, justify="left" if heading == first else "right")
    for (beta, law), printed in TALK_K.items():
        sizing = proportion_sizing(P0, EFFECT, alpha=ALPHA, beta=beta)
        found = [sizing.correction_factor(e, law) for e in EPSILONS]
        factors.add_row(f"{beta:g}, {law}", *(f"{k:.3f} ({p:.2f})" for k, p in zip(found, printed, strict=True)))
    for kept in TALK_LEVEL:
        size = "N" if kept is None else f"K·N, {kept}"
        measured = [simulated_errors(rows_of(kept, e), e, runs, seed) for seed, e in enumerate(EPSILONS)]
        for kind, (name, talk) in enumerate((("level", TALK_LEVEL), ("type II", TALK_TYPE_TWO))):
            cells = (f"{pair[kind]:.4f} ({t:.4f})" for pair, t in zip(measured, talk[kept], strict=True))
            errors.add_row(f"{size}, {name}", *cells)
    return [factors, errors]
