"""How unlike groups may be in a column of which nothing was measured by group: a law of τ², not one number.

A share p of a group of n rows has variance p(1 − p)(1/n + τ²) about what the model says, as in
`equistrata.analysis.uncertainty.heterogeneity`. Neither n nor τ² is known. n has the law of a noisy size; log τ² is
normal about a level that all pairs with the same stratum column have, and so is the level. Pairs with it that were
measured are left out and predicted by a model of the rest, which moves the level by Bayes' rule. The interval is that
of the mixture: a difference far from the usual one is not excluded as a normal law would.

Only of stratum columns of names, and of columns of names by them (`of_names`). Numbers and ordered codes, as ages, are
related to most other columns, as pairs within groups are, and have the misfit of these
(`equistrata.analysis.uncertainty.misfit`). Post-processing, no cost.

Source: Fay and Herriot (1979); the levels, docs/experiments/estimates.md.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.heterogeneity import likely_sizes
from equistrata.analysis.uncertainty.misfit import freedom
from equistrata.analysis.uncertainty.replicates import expected
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, Measurement, Prediction, summed, tells_apart

USUAL = 0.01  # τ², three times the median over columns of a census by sex and race (docs/experiments/estimates.md)
BETWEEN_STRATA, BETWEEN_COLUMNS = 1.3, 1.5  # standard deviations of log τ²: of its levels, and about a level
SPREADS = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 43)])  # τ² of the law, the first for what is less
_LOGS = np.log(np.maximum(SPREADS, SPREADS[1] / 2))
_STEPS = 40  # halvings in the search for a quantile


def stratum_column(evidence: Evidence, pair: Columns) -> str | None:
    """The one of two columns by which the other is looked at in groups: it defines strata and has
    names. None if none does, or both."""
    strata = [name for name in pair if name in evidence.strata.columns]
    column = evidence.strata.schema[strata[0]] if len(strata) == 1 else None
    return None if column is None or column.numeric or column.ordered else column.name


def of_names(evidence: Evidence, pair: Columns) -> bool:
    """Whether neither of two columns is of numbers or ordered codes, which the law is not of."""
    columns = [evidence.strata.schema[name] for name in pair]
    return not any(column.numeric or column.ordered for column in columns)


def spread_law(evidence: Evidence, name: str) -> Floats:
    """The chance of each of SPREADS for a column that was not measured with this stratum column; sums to 1."""
    levels = _normal(_LOGS, np.log(USUAL), BETWEEN_STRATA)
    about = np.array([_normal(_LOGS, level, BETWEEN_COLUMNS) for level in _LOGS])  # of each level
    for likely in _likelihoods(evidence, name):
        levels = levels * (about @ likely)
        levels = levels / levels.sum()
    return np.asarray(levels @ about)


def relative_variance(law: Floats, sizes: Floats, sigmas: Floats, level: float) -> Floats:
    """What variance a normal share of each group has over p(1 − p) if its interval is as wide as the law's; at most 1.

    Args:
        law: see `spread_law`.
        sizes: the groups' rows by the model, shape (k,).
        sigmas: standard deviations of the noise in them, shape (k,).
        level: of the interval, in (0, 1).
    """
    found = []
    for size, sigma in zip(sizes.tolist(), sigmas.tolist(), strict=True):
        rows, chance = likely_sizes(size, sigma)
        spread = np.sqrt(np.minimum(1 / rows[:, None] + SPREADS, 1.0)).ravel()
        weights = (chance[:, None] * law).ravel()
        low, high = 0.0, float(ndtri((1 + level) / 2))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            outside = 2 * float(weights @ ndtr(-middle / spread))
            low, high = (middle, high) if outside > 1 - level else (low, middle)
        found.append((high / ndtri((1 + level) / 2)) ** 2)
    return np.array(found)


def _normal(values: Floats, mean: float, deviation: float) -> Floats:
    """Chances of values by a normal law, to 1 in all."""
    likely = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    return np.asarray(likely / likely.sum())


def _likelihoods(evidence: Evidence, name: str) -> list[Floats]:
    """Of each column that was measured with this stratum column: how likely what was measured is for each of SPREADS,
    over the likeliest."""
    strata = evidence.strata.columns
    by_group = [
        not m.where
        and not isinstance(m, Prediction)
        and tells_apart(m, [name])
        and any(n in evidence.names and n not in strata for n in m.columns)
        for m in evidence.published
    ]
    if not any(by_group):
        return []
    model = evidence.without(by_group)
    logs: dict[str, Floats] = {}
    for measurement in (m for m, held in zip(evidence.published, by_group, strict=True) if held):
        for other in (n for n in measurement.columns if n in evidence.names and n not in strata):
            part = summed(measurement, (name, other))
            logs[other] = logs.get(other, 0.0) + _log_likelihood(part, expected(model, part), name)
    return [np.exp(each - each.max()) for each in logs.values()]


def _log_likelihood(part: Measurement, table: Floats, name: str) -> Floats:
    """By each of SPREADS, of a measurement of two columns, where a model expects this table."""
    sizes = np.maximum(table.sum(1 - part.columns.index(name), keepdims=True), 1.0)
    gaps, free = part.values - table, freedom(table)
    cells = np.maximum(table, 0.0) * sizes * free
    variances = (cells * np.minimum(1 / sizes + spread, 1.0) + part.sigma**2 for spread in SPREADS.tolist())
    found = np.array([-0.5 * float((np.log(v) + gaps**2 / v).sum()) for v in variances])
    independent = np.prod([size - 1 for size in table.shape]) / table.size  # sums over both axes are known
    return np.asarray(found * independent)
