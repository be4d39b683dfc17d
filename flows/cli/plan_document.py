"""A plan as plain values: what `equistrata plan --json` prints, and what its table and its plot are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.inference.means.dirichlet import (
    equal_log_sizes,
    expected_log_sizes,
    fit_alpha,
    least_log_sizes,
)
from equistrata.inference.means.laplace import LaplaceMean
from equistrata.inference.planning.questions import MeanQuestion, ProportionQuestion
from equistrata.inference.planning.strata import StratumPlan, plan_strata

Question = MeanQuestion | ProportionQuestion

GAMMA = 0.05  # failure probability of the bounds


def plan_document(
    asked: Question,
    strata: Strata,
    weights: PublicWeights,
    rows: float | None,
    epsilon: float,
    column: str | None = None,
) -> dict[str, Any]:
    """The whole plan as plain values, for JSON: null stands for "no ε is enough" and for what does not apply.

    Raises InputError: shares without a number of rows, or a setting out of its range.
    """
    total = weights.total if rows is None else rows
    if total is None:
        raise InputError(f"the sizes from {weights.source} are shares; give the number of rows in all with --rows")
    if not (math.isfinite(total) and total > 0):
        raise InputError(f"setting 'rows' is {total:g}, but must be a positive number; give the rows that you expect")
    sizes = {strata.label(key): weights.shares[key] * total for key in strata.keys}
    parts = plan_strata(asked, sizes, epsilon)
    keys = [dict(zip(strata.columns, key, strict=True)) for key in strata.keys]
    mean = isinstance(asked, MeanQuestion)
    needed = parts[0].rows_needed
    return {
        "column": column,
        "quantity": "mean" if mean else "proportion",
        "mechanism": "Coinpress, noisy size" if mean else "count with Laplace noise, declared size",
        "reference": asked.reference,
        "goal": asked.goal,
        "effect": asked.effect,
        "relative_error": asked.relative_error,
        "about": asked.about,
        "alpha": asked.alpha,
        "beta": asked.beta if asked.goal == "power" else None,
        "epsilon": epsilon,
        "delta": asked.delta if isinstance(asked, MeanQuestion) else None,
        "part": asked.part,
        "relation": asked.relation,
        "sizes": {"source": weights.source, "rows": total},
        "rows_without_noise": math.ceil(asked.classical_rows),
        "rows_needed": needed,
        "correction_factor": asked.rows(epsilon) / asked.classical_rows if asked.classical_rows else None,
        "strata": [_stratum(part, key) for part, key in zip(parts, keys, strict=True)],
        "unreadable": [part.label for part in parts if part.status != "readable"],
        "too_few_rows": [part.label for part in parts if part.status == "too few rows"],
        "bound": _bound(asked, list(sizes.values()), epsilon),
    }


def _stratum(part: StratumPlan, key: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stratum": part.label,
        "key": dict(key),
        "rows": part.rows,
        "smallest_epsilon": _finite(part.smallest_epsilon),
        "rows_needed": part.rows_needed,
        "reached": _finite(part.reached),
        "status": part.status,
    }


def _bound(asked: Question, sizes: list[float], epsilon: float) -> dict[str, Any]:
    """Proposition 9 and Theorem 10 for these sizes: of the sums of logarithms, and of the error they bound.

    The error is that of stratified Laplace means at this ε (pure, replace-one within a stratum), in the data's unit.
    """
    # A proportion is the mean of zeros and ones: in [0, 1], with a deviation of at most ½.
    spans = (asked.lower, asked.upper, asked.sigma) if isinstance(asked, MeanQuestion) else (0.0, 1.0, 0.5)
    lower, upper, sigma = spans
    filled = [size for size in sizes if size >= 1]  # a group that expects no row has no logarithm
    k, n = len(filled), math.fsum(filled)
    if not filled:
        return {"strata": 0, "rows": n}
    alpha = fit_alpha(filled) if k > 1 else math.inf
    sums = {
        "theorem_10": expected_log_sizes(k, alpha, n),
        "proposition_9": equal_log_sizes(k, n),
        "best_case": least_log_sizes(k, n),
    }
    laplace = LaplaceMean(radius=(upper - lower) / 2, epsilon=epsilon, gamma=GAMMA, sigma=sigma)
    errors = {name: laplace.error_bound(k, n, value) for name, value in sums.items()}
    return {
        "strata": k,
        "rows": n,
        "alpha": _finite(alpha),
        "alpha_by_moments": _finite(fit_alpha(filled, method="moments")) if k > 1 else None,
        "log_sizes": sums | {"sum": math.fsum(map(math.log, filled))},
        "gamma": GAMMA,
        "error": errors | {"unstratified": laplace.error_bound(1, n, math.log(n))},
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
