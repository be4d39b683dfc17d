"""Regression coefficients with intervals.

Linear coefficients are computed from measured sums of products if possible. All other coefficients are computed from
the model, including its misfit. See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from equistrata.analysis.bases.grounds import AnswerSources
from equistrata.analysis.derived import ANSWER, IMPLIED, MEASURED, REFUSED, parts_of
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.regression.disturbed import draw_disturbed_table
from equistrata.analysis.regression.moments import Moments
from equistrata.analysis.regression.score import MOST_WORK, score_interval
from equistrata.analysis.uncertainty.misfit import BELIEF, misfit_variance, strata_with
from equistrata.arrays import Floats
from equistrata.errors import InputError

NOISES = 200  # the number of noise draws for measured sums
_SEEN = 2.0  # a group needs at least this many standard deviations of its number of rows for a linear coefficient


def coefficients(grounds: AnswerSources, asked: Regression, level: float, sampled: float) -> pd.DataFrame:
    """Estimate the coefficients of a regression.

    Linear coefficients are computed from measured pairs of columns if all pairs were measured. Otherwise, the
    coefficients are computed from the model.
    """
    # If a row is excluded due to a missing value, then its products depend on three columns.
    whole = not any(np.isnan(numbers).any() for _, numbers in asked.parts)
    if whole and asked.kind == "ols":
        measured = _by_sums(grounds, asked, level, sampled)
        if measured is not None:
            return measured
    outcome = asked.outcome_column
    _check_interactions(grounds, asked)
    if not grounds.models:
        raise InputError(
            f"the release has no model and did not measure all pairs of {outcome} and the columns in 'by'; leave out "
            "the columns without a pair in 'relations' of card.json"
        )
    basis = np.full(len(asked.terms), IMPLIED)
    basis[_apart(grounds, asked)] = REFUSED
    if (basis == REFUSED).all():
        raise InputError(
            f"the release did not measure {outcome} with any of the columns in 'by', so its model does not relate "
            "them; choose columns of measured pairs, which are in 'relations' of card.json"
        )
    # Odds ratios are not collapsible, so all coefficients depend on the missing pair.
    if asked.kind == "logit" and (basis == REFUSED).any():
        alone = _alone(grounds, outcome).intersection(asked.columns)
        raise InputError(
            f"the release did not measure {outcome} with {', '.join(sorted(map(str, alone)))} for all "
            "rows, which would affect the odds of all other columns; leave it out of 'by'"
        )
    modelled = _from_models(grounds, asked, whole)
    value, counts = modelled.value, modelled.known[0]
    basis[~modelled.settled] = REFUSED
    scored = modelled.shaken & (asked.kind == "logit")  # these have a score interval, which may be unbounded
    basis[_perhaps_empty(grounds, asked) & ~scored] = REFUSED
    drawn = sampled * asked.sampling(counts, value) if sampled else np.zeros(len(value))
    error = np.sqrt(modelled.variance + drawn)
    t = float(scipy.special.stdtrit(grounds.count, (1 + level) / 2))
    lower, upper = value - t * error, value + t * error
    shaken = np.flatnonzero(modelled.shaken & (basis != REFUSED))
    if asked.design.size * len(asked.terms) * len(shaken) > MOST_WORK:
        basis[shaken], shaken = REFUSED, shaken[:0]
    for place in shaken:
        more = (modelled.draws, modelled.assumed, sampled, t)
        lower[place], upper[place] = score_interval(asked, modelled.known, int(place), *more)
        error[place] = (upper[place] - lower[place]) / (2 * t)
    basis[np.isinf(lower) & np.isinf(upper)] = REFUSED
    return _answered(asked, np.array((value, lower, upper, error, *parts_of(error, modelled.variance, drawn))), basis)


def _answered(asked: Regression, numbers: Floats, basis: npt.NDArray[np.str_]) -> pd.DataFrame:
    shown = np.where(basis == REFUSED, np.nan, numbers)
    return pd.DataFrame({"term": asked.terms, **dict(zip(ANSWER, shown, strict=True)), "basis": basis})


def _by_sums(grounds: AnswerSources, asked: Regression, level: float, sampled: float) -> pd.DataFrame | None:
    """Return linear coefficients that are computed from measured sums only, or None if some sums were not measured."""
    found = _linear(grounds, asked)
    if found is None:
        return None
    (value, variance), drawn = found, np.zeros(len(found[0]))
    if sampled:
        drawn = sampled * asked.sampling(grounds.evidence.model.marginal(asked.columns).ravel(), value)
    error = np.sqrt(variance + drawn)
    far = float(scipy.special.stdtrit(NOISES, (1 + level) / 2)) * error
    numbers = np.array((value, value - far, value + far, error, *parts_of(error, variance, drawn)))
    return _answered(asked, numbers, np.full(len(value), MEASURED))


def _apart(grounds: AnswerSources, asked: Regression) -> npt.NDArray[np.bool_]:
    """Return a mask of the terms with columns that were not measured together with the outcome, shape (terms,).

    If there is such a term, the intercept is included as well.
    """
    alone = _alone(grounds, asked.outcome_column)
    apart = [not alone.isdisjoint(names) for names, _ in asked.parts[:-1]]
    return np.array([any(apart), *apart[1:]])


def _check_interactions(grounds: AnswerSources, asked: Regression) -> None:
    """Raise InputError if an interaction was not measured together with the outcome.

    The model only has the interactions that were measured.
    """
    evidence = grounds.evidence
    for names in dict.fromkeys(names for names, _ in asked.parts[1:-1] if len(names) > 1):
        together = tuple(name for name in evidence.strata.schema.names if name in {*names, asked.outcome_column})
        if len(strata_with(evidence, together)) < len(evidence.strata.keys):
            raise InputError(
                f"the release did not measure {', '.join(together)} all together, so its model has no interaction of "
                f"{' and '.join(names)}; ask for main effects ({', '.join(names)}), or choose strata or a workload "
                "with these columns for the next release"
            )


def _alone(grounds: AnswerSources, outcome: str) -> set[str]:
    """Return the columns that were not measured together with the outcome in all strata."""
    evidence, keys = grounds.evidence, len(grounds.evidence.strata.keys)
    others = [name for name in evidence.names if name != outcome]
    return {name for name in others if len(strata_with(evidence, (outcome, name))) < keys}


def _perhaps_empty(grounds: AnswerSources, asked: Regression) -> npt.NDArray[np.bool_]:
    """Return a mask of the terms with groups that are so small that they may consist only of noise, shape (terms,).

    The coefficients of these terms would depend on the model alone.
    """
    found = np.zeros(len(asked.terms), dtype=bool)
    for place, term in enumerate(asked.parts[1:-1], 1):
        rows = Moments.of(grounds.evidence.strata.schema, grounds.counts.tables, asked.parts[:1], [term])
        if rows is not None and set(term[1]) <= {0.0, 1.0}:
            _, _, table, cells = rows.parts[0]
            spread = float(np.sqrt(cells @ table.covariance @ cells))
            found[place] = float(rows.sums(grounds.counts.values())[0, 0]) <= _SEEN * spread
    return found


def _linear(grounds: AnswerSources, asked: Regression) -> tuple[Floats, Floats] | None:
    """Compute linear coefficients from measured sums of products, and their variance from draws of the noise."""
    moments = Moments.of(grounds.evidence.strata.schema, grounds.counts.tables, asked.parts[:-1], asked.parts)
    if moments is None:
        return None
    sums, rng, drawn = moments.sums(grounds.counts.values()), np.random.default_rng(grounds.seed + 2), []
    smallest = float(np.linalg.eigvalsh(sums[:, :-1])[0])
    for _ in range(NOISES):
        noise = [rng.normal(0.0, m.sigma, m.values.shape) for m in grounds.evidence.all]
        moved = sums + moments.sums(noise)
        smallest = min(smallest, float(np.linalg.eigvalsh(moved[:, :-1])[0]))
        drawn.append(np.linalg.lstsq(moved[:, :-1], moved[:, -1], rcond=None)[0])
    if smallest <= 0:  # a group is so small that it may consist only of noise
        return None
    value: Floats = np.linalg.solve(sums[:, :-1], sums[:, -1]).astype(np.float64)
    return value, np.asarray(((np.array(drawn) - value) ** 2).mean(0))


@dataclass(frozen=True, eq=False)
class _ModelCoefficients:
    """Coefficients that are computed from the model, each array of shape (terms,) unless stated otherwise.

    Attributes
    ----------
    value, variance : ndarray
        The coefficients and their variances.
    settled : ndarray of bool
        True for coefficients that are finite.
    shaken : ndarray of bool
        True for coefficients that are not finite in some draw of the noise. Their variance is not meaningful.
    known : tuple of ndarray
        The table of counts, and the sums of terms times outcome.
    draws : sequence of tuple
        The same arrays for each replicate.
    assumed : sequence of ndarray
        Alternative tables of counts. See `_apart_tables`.
    """

    value: Floats
    variance: Floats
    settled: npt.NDArray[np.bool_]
    shaken: npt.NDArray[np.bool_]
    known: tuple[Floats, Floats]
    draws: Sequence[tuple[Floats, Floats]]
    assumed: Sequence[Floats]


def _from_models(grounds: AnswerSources, asked: Regression, whole: bool) -> _ModelCoefficients:
    """Compute coefficients from the model's table and from the measured sums of terms times outcome."""
    rng, known_counts = np.random.default_rng(grounds.seed + 1), grounds.counts
    wide = known_counts.by_strata(asked.columns)
    inner = tuple(axis for axis, name in enumerate(wide) if name not in asked.columns)
    terms, outcome = asked.parts[:-1], asked.parts[-1:]
    products = Moments.of(grounds.evidence.strata.schema, known_counts.tables, terms, outcome) if whole else None
    counts = grounds.evidence.model.marginal(asked.columns).ravel()
    believed = np.ones(1)  # the weight of a measured sum relative to the model
    if products is not None:
        prior = asked.spread(misfit_variance(counts, BELIEF * counts.sum()))
        believed = prior / np.maximum(prior + products.variance[:, 0], 1e-12)

    def sums(values: list[Floats], table: Floats) -> Floats:
        """Combine the sums over the cells of a model's table with the measured sums."""
        own = asked.products(table)
        return own if products is None else np.asarray(own + believed * (products.sums(values)[:, 0] - own))

    known = counts, sums(known_counts.values(), counts)
    value, settled = asked.fitted(*known)
    truth, drawn, draws, shaken = asked.coefficients(counts), [], [], np.zeros(len(value), dtype=bool)
    for model, values in grounds.replicated():
        moved = draw_disturbed_table(known_counts, grounds.misfit.share, model, asked.columns, rng).sum(inner).ravel()
        draws.append((moved, sums(values, moved if products is None else model.marginal(asked.columns).ravel())))
        found, finite = asked.fitted(*draws[-1])
        drawn.append(found)
        shaken |= ~finite
    assumed = list(_apart_tables(grounds, asked, counts))
    far = sum((asked.coefficients(each, known[1]) - value) ** 2 for each in assumed)
    variance = np.asarray(((np.array(drawn) - truth) ** 2).mean(0) + far)
    return _ModelCoefficients(value, variance, settled, shaken, known, draws, assumed)


def _apart_tables(grounds: AnswerSources, asked: Regression, counts: Floats) -> Iterator[Floats]:
    """Yield tables in which one pair of explanatory variables that was not measured is independent.

    The model derives the dependence between these variables from their relations to other variables. This is an
    assumption. If the model has few rows in a cell, then the misfit does not include the error of this assumption,
    because the misfit of a cell is at most about its count.
    """
    table = counts.reshape([grounds.evidence.strata.schema[name].size for name in asked.columns])
    for pair in grounds.misfit.unmeasured:
        if set(pair) <= set(asked.columns) - {asked.outcome_column}:
            others = tuple(axis for axis, name in enumerate(asked.columns) if name not in pair)
            joint = np.maximum(table.sum(others, keepdims=True), 1e-9)
            axes = [asked.columns.index(name) for name in pair]
            alone = joint.sum(axes[0], keepdims=True) * joint.sum(axes[1], keepdims=True) / joint.sum()
            yield np.asarray(table * alone / joint).ravel()
