"""Coefficients with intervals: linear ones by measured sums of products, others by the model with its misfit.

See docs/proofs/estimates.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from equistrata.analysis.bases.grounds import Grounds
from equistrata.analysis.derived import ANSWER, IMPLIED, MEASURED, REFUSED, parts_of
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.regression.disturbed import disturbed
from equistrata.analysis.regression.moments import Moments
from equistrata.analysis.regression.score import MOST_WORK, score_interval
from equistrata.analysis.uncertainty.misfit import BELIEF, misfit_variance, strata_with
from equistrata.arrays import Floats
from equistrata.errors import InputError

NOISES = 200  # draws of noise on measured sums
_SEEN = 2.0  # standard deviations of a group's number of rows, at least, for a linear coefficient of it


def coefficients(grounds: Grounds, asked: Regression, level: float, sampled: float) -> pd.DataFrame:
    """The coefficients. Linear ones follow from measured pairs, if all were; else from the model."""
    whole = not any(np.isnan(numbers).any() for _, numbers in asked.parts)  # else rows drop out by three columns
    if whole and asked.kind == "ols":
        measured = _by_sums(grounds, asked, level, sampled)
        if measured is not None:
            return measured
    outcome = asked.outcome_column
    _check_interactions(grounds, asked)
    if not grounds.models:
        raise InputError(
            f"the release did not measure all pairs of {outcome} and the columns in 'by', and has no model; leave out "
            "those whose pair is not in 'relations' of card.json"
        )
    basis = np.full(len(asked.terms), IMPLIED)
    basis[_apart(grounds, asked)] = REFUSED
    if (basis == REFUSED).all():
        raise InputError(
            f"the release measured {outcome} with none of the columns in 'by', so its model has no "
            "relation of them; measured pairs are in 'relations' of card.json"
        )
    if asked.kind == "logit" and (basis == REFUSED).any():  # not collapsible: all coefficients depend on it
        alone = _alone(grounds, outcome).intersection(asked.columns)
        raise InputError(
            f"the release did not measure {outcome} with {', '.join(sorted(map(str, alone)))} for all "
            "rows, and odds of all other columns depend on that; leave it out of 'by'"
        )
    modelled = _from_models(grounds, asked, whole)
    value, counts = modelled.value, modelled.known[0]
    basis[~modelled.settled] = REFUSED
    scored = modelled.shaken & (asked.kind == "logit")  # has an interval that may have no end
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


def _by_sums(grounds: Grounds, asked: Regression, level: float, sampled: float) -> pd.DataFrame | None:
    """Linear coefficients that follow from measured sums alone; None if not all was measured."""
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


def _apart(grounds: Grounds, asked: Regression) -> npt.NDArray[np.bool_]:
    """The terms of columns that were not measured with the outcome, shape (terms,); the intercept with any such."""
    alone = _alone(grounds, asked.outcome_column)
    apart = [not alone.isdisjoint(names) for names, _ in asked.parts[:-1]]
    return np.array([any(apart), *apart[1:]])


def _check_interactions(grounds: Grounds, asked: Regression) -> None:
    """Raise InputError if an interaction was not measured together with the outcome: a model of pairs has none."""
    evidence = grounds.evidence
    for names in dict.fromkeys(names for names, _ in asked.parts[1:-1] if len(names) > 1):
        together = tuple(name for name in evidence.strata.schema.names if name in {*names, asked.outcome_column})
        if len(strata_with(evidence, together)) < len(evidence.strata.keys):
            raise InputError(
                f"the release did not measure {', '.join(together)} all together, so its model has no interaction of "
                f"{' and '.join(names)}; ask for main effects ({', '.join(names)}), or choose strata or a workload "
                "with these columns for the next release"
            )


def _alone(grounds: Grounds, outcome: str) -> set[str]:
    """The columns that were not measured with this one, or in some strata only."""
    evidence, keys = grounds.evidence, len(grounds.evidence.strata.keys)
    others = [name for name in evidence.names if name != outcome]
    return {name for name in others if len(strata_with(evidence, (outcome, name))) < keys}


def _perhaps_empty(grounds: Grounds, asked: Regression) -> npt.NDArray[np.bool_]:
    """The terms of groups of so few rows that noise may be all of them, shape (terms,): the model alone says these."""
    found = np.zeros(len(asked.terms), dtype=bool)
    for place, term in enumerate(asked.parts[1:-1], 1):
        rows = Moments.of(grounds.evidence.strata.schema, grounds.counts.tables, asked.parts[:1], [term])
        if rows is not None and set(term[1]) <= {0.0, 1.0}:
            _, _, table, cells = rows.parts[0]
            spread = float(np.sqrt(cells @ table.covariance @ cells))
            found[place] = float(rows.sums(grounds.counts.values())[0, 0]) <= _SEEN * spread
    return found


def _linear(grounds: Grounds, asked: Regression) -> tuple[Floats, Floats] | None:
    """Coefficients by measured sums of products, and their variance: the same sums with more noise, many times."""
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
    if smallest <= 0:  # a group of so few rows that noise may be all of them
        return None
    value: Floats = np.linalg.solve(sums[:, :-1], sums[:, -1]).astype(np.float64)
    return value, np.asarray(((np.array(drawn) - value) ** 2).mean(0))


@dataclass(frozen=True, eq=False)
class _Modelled:
    """Coefficients by the model, shape (terms,).

    Attributes:
        settled: which are finite.
        shaken: which are not in some draw of the noise, so that their variance says nothing.
        known: the table of counts, and the sums of terms times outcome.
        draws: the same of each replicate.
        assumed: see `_apart_tables`.
    """

    value: Floats
    variance: Floats
    settled: npt.NDArray[np.bool_]
    shaken: npt.NDArray[np.bool_]
    known: tuple[Floats, Floats]
    draws: Sequence[tuple[Floats, Floats]]
    assumed: Sequence[Floats]


def _from_models(grounds: Grounds, asked: Regression, whole: bool) -> _Modelled:
    """Coefficients by the model's table, with the sums of terms times outcome that were measured."""
    rng, known_counts = np.random.default_rng(grounds.seed + 1), grounds.counts
    wide = known_counts.by_strata(asked.columns)
    inner = tuple(axis for axis, name in enumerate(wide) if name not in asked.columns)
    terms, outcome = asked.parts[:-1], asked.parts[-1:]
    products = Moments.of(grounds.evidence.strata.schema, known_counts.tables, terms, outcome) if whole else None
    counts = grounds.evidence.model.marginal(asked.columns).ravel()
    believed = np.ones(1)  # of a measured sum, as far as its noise is less than what the model may be off by
    if products is not None:
        prior = asked.spread(misfit_variance(counts, BELIEF * counts.sum()))
        believed = prior / np.maximum(prior + products.variance[:, 0], 1e-12)

    def sums(values: list[Floats], table: Floats) -> Floats:
        """Those of a model's table, over the cells of the regression, and of measurements."""
        own = asked.products(table)
        return own if products is None else np.asarray(own + believed * (products.sums(values)[:, 0] - own))

    known = counts, sums(known_counts.values(), counts)
    value, settled = asked.fitted(*known)
    truth, drawn, draws, shaken = asked.coefficients(counts), [], [], np.zeros(len(value), dtype=bool)
    for model, values in grounds.replicated():
        moved = disturbed(known_counts, grounds.misfit.share, model, asked.columns, rng).sum(inner).ravel()
        draws.append((moved, sums(values, moved if products is None else model.marginal(asked.columns).ravel())))
        found, finite = asked.fitted(*draws[-1])
        drawn.append(found)
        shaken |= ~finite
    assumed = list(_apart_tables(grounds, asked, counts))
    far = sum((asked.coefficients(each, known[1]) - value) ** 2 for each in assumed)
    variance = np.asarray(((np.array(drawn) - truth) ** 2).mean(0) + far)
    return _Modelled(value, variance, settled, shaken, known, draws, assumed)


def _apart_tables(grounds: Grounds, asked: Regression, counts: Floats) -> Iterator[Floats]:
    """The table without what the model says of each pair of explaining columns that was not measured.

    How such columns go together follows from their relations to others if nothing else joins them. That is assumed,
    and the misfit, no more than about a cell itself, does not undo it where the model leaves hardly a row.
    """
    table = counts.reshape([grounds.evidence.strata.schema[name].size for name in asked.columns])
    for pair in grounds.misfit.unmeasured:
        if set(pair) <= set(asked.columns) - {asked.outcome_column}:
            others = tuple(axis for axis, name in enumerate(asked.columns) if name not in pair)
            joint = np.maximum(table.sum(others, keepdims=True), 1e-9)
            axes = [asked.columns.index(name) for name in pair]
            alone = joint.sum(axes[0], keepdims=True) * joint.sum(axes[1], keepdims=True) / joint.sum()
            yield np.asarray(table * alone / joint).ravel()
