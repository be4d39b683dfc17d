"""A month of a series: former counts drift, jump, and are joined with this month's by a Kalman filter per marginal.

Counts of a cell are a random walk seen with noise: x_t = x_{t−1} + w_t, w_t of variance q_t; y_t = x_t + e_t, e_t of
variance σ². Rows that leave and come at random move a cell of n rows with a variance in proportion to n, so q = κ·n.
κ is estimated by moments, since (y_t − x_{t−1})² is P + q + σ² in expectation, from all marginals of a kind together
(over all rows, and within strata), and shrunk to DRIFT. What changed at once is no drift:
`equistrata.synth.series.jumps`.

Everything here is made of published noisy numbers: post-processing, no cost. See docs/proofs/series.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Filtered, Former, Measurement, root_mean_square
from equistrata.synth.series.jumps import Grown, moved
from equistrata.synth.series.state import Moments, State, known, marginal_of, pooled

# docs/experiments/series.md
DRIFT = 0.5  # κ where nothing is seen of it: rows that come and leave alike give a tenth, and trends more
_LEAST_DRIFT = 0.1  # times DRIFT
_MOST_APART = 3.0  # standard deviations that a jump counts as in the moments
_KEPT = 0.9  # of the moments of the month before
_FORGOTTEN = 2.0  # times the rows: the noise floor of a marginal that is dropped from the state


@dataclass(frozen=True, eq=False)
class Month:
    """What a month's measurements and all former ones say together.

    Attributes:
        measured: this month's marginals joined with the former state.
        predicted: the other marginals that the series knows, as they are this month.
        state: of the series after this month.
        prior: what the former state says of this month once it is known what grew and what moved.
    """

    measured: tuple[Measurement, ...]
    predicted: tuple[Former, ...]
    state: State
    prior: tuple[Former, ...] = ()


def predicted(state: State, month: int, strata: Columns) -> list[Former]:
    """What a state says of a later month, before that is measured: the same counts, with drift. No cost."""
    gap = month - state.month
    return [_drifted(each, _kappa(state, _kind(each, strata)) * gap) for each in state.known]


def filtered(schema: Schema, strata: Columns, state: State, month: int, measured: Sequence[Measurement]) -> Month:
    """Join a month's measurements with the state of a former month. Post-processing, no cost.

    Args:
        schema: of what is measured.
        strata: the columns that define strata.
        state: of marginals that fit the schema (`State.fitting`).
        month: from `state.month` + 1 on.
        measured: of all rows, or with `where` of one stratum.
    """
    own = pooled(measured)
    before = predicted(state, month, strata)
    grown = Grown.of(schema, strata, before, list(own.values()))
    former = {marginal_of(each): grown.applied(each) for each in before}
    joined, moments, priors = list[Measurement](), dict[str, Moments](), list[Former]()
    for name, each in own.items():
        prior = former.pop(name, None)
        if prior is None:
            joined.append(each)
            continue
        apart, noise, plain = each.values - prior.values, each.cell_sigma**2, prior.cell_sigma**2
        variance = moved(apart, plain, noise)
        priors.append(known(prior, prior.values, variance))
        gain = variance / (variance + noise)
        sigmas = np.sqrt(noise * gain)
        values = prior.values + gain * apart
        joined.append(Filtered(name[0], values, root_mean_square(sigmas), name[1], name[2], sigmas=sigmas))
        kind = _kind(each, strata)
        seen = _moments(apart, plain, noise, _rows(prior), _kappa(state, kind), month - state.month)
        one, two = moments.get(kind, (0.0, 0.0))
        moments[kind] = one + seen[0], two + seen[1]
    rest = tuple(known(each, each.values, each.cell_sigma**2) for each in former.values() if _readable(each))
    kept = {kind: _added(state.moments.get(kind, (0.0, 0.0)), new) for kind, new in moments.items()}
    state_now = State(
        month, (*(known(each, each.values, each.cell_sigma**2) for each in joined), *rest), {**state.moments, **kept}
    )
    return Month(tuple(joined), rest, state_now, (*priors, *rest))


def _kind(measurement: Measurement, strata: Columns) -> str:
    return "within strata" if strata and set(strata) <= measurement.involved else "all rows"


def _readable(each: Measurement) -> bool:
    return NOISE_L1 * float(each.cell_sigma.sum()) < _FORGOTTEN * max(float(each.values.sum()), 1.0)


def _rows(measurement: Measurement) -> Floats:
    """The rows of each cell, as far as a drift depends on them."""
    return np.maximum(measurement.values, measurement.cell_sigma)


def _kappa(state: State, kind: str) -> float:
    """The drift of a kind of marginals: moments joined with DRIFT, which counts as seen with an error of twice it."""
    one, two = state.moments.get(kind, (0.0, 0.0))
    doubt = 2 / (2 * DRIFT) ** 2
    return max((DRIFT * doubt + one) / (doubt + two), _LEAST_DRIFT * DRIFT)


def _drifted(each: Former, kappa: float) -> Former:
    return known(each, each.values, each.sigmas**2 + kappa * _rows(each))


def _moments(apart: Floats, variance: Floats, noise: Floats, rows: Floats, kappa: float, gap: int) -> Moments:
    """Σ n(d² − P − σ²)/V² and Σ n²/V², 2V² the variance of d²: their ratio is κ. A jump counts as _MOST_APART·√V."""
    n, whole = gap * rows, variance + noise
    squares = np.minimum(apart**2, _MOST_APART**2 * whole)
    weight = n / whole**2
    return float((weight * (squares - (whole - kappa * n))).sum()), float((weight * n).sum())


def _added(before: Moments, new: Moments) -> Moments:
    return _KEPT * before[0] + new[0], _KEPT * before[1] + new[1]
