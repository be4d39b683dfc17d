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
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Filtered, Former, Measurement, root_mean_square
from equistrata.synth.series.jumps import inflated
from equistrata.synth.series.state import Moments, State, known, marginal_of, pooled

# docs/experiments/series.md
DRIFT = 0.5  # κ before anything is seen of it: rows that come and leave alike give a tenth, and trends more


@dataclass(frozen=True, eq=False)
class Month:
    """What a month's measurements and all former ones say together.

    Attributes:
        measured: this month's marginals joined with the former state.
        predicted: the other marginals that the series knows, as they are this month.
        state: of the series after this month.
        prior: what the former state says of this month, with the variances of what jumped.
    """

    measured: tuple[Measurement, ...]
    predicted: tuple[Former, ...]
    state: State
    prior: tuple[Former, ...] = ()


def predicted(state: State, month: int, strata: Columns) -> list[Former]:
    """What a state says of a later month, before that is measured: the same counts, with drift. No cost."""
    gap = month - state.month
    return [_drifted(each, _kappa(state, _kind(each, strata)) * gap) for each in state.known]


def filtered(strata: Columns, state: State, month: int, measured: Sequence[Measurement]) -> Month:
    """Join a month's measurements with the state of a former month. Post-processing, no cost.

    Args:
        strata: the columns that define strata.
        state: of marginals that fit the schema (`State.fitting`).
        month: from `state.month` + 1 on.
        measured: of all rows, or with `where` of one stratum.
    """
    own = pooled(measured)
    former = {marginal_of(each): each for each in predicted(state, month, strata)}
    joined, moments, priors = list[Measurement](), dict(state.moments), list[Former]()
    for name, each in own.items():
        prior = former.pop(name, None)
        if prior is None:
            joined.append(each)
            continue
        innovation, noise, plain = each.values - prior.values, each.cell_sigma**2, prior.cell_sigma**2
        variance = inflated(innovation, plain, noise)
        priors.append(known(prior, prior.values, variance))
        gain = variance / (variance + noise)
        sigmas = np.sqrt(noise * gain)
        values = prior.values + gain * innovation
        joined.append(Filtered(name[0], values, root_mean_square(sigmas), name[1], name[2], sigmas=sigmas))
        kind = _kind(each, strata)
        rows = np.where(variance > plain, 0.0, (month - state.month) * _rows(prior))  # a jump is no drift
        one, two = moments.get(kind, (0.0, 0.0))
        more = _moments(innovation, plain + noise, rows, _kappa(state, kind))
        moments[kind] = one + more[0], two + more[1]
    rest = tuple(known(each, each.values, each.cell_sigma**2) for each in former.values() if _readable(each))
    state_now = State(month, (*(known(each, each.values, each.cell_sigma**2) for each in joined), *rest), moments)
    return Month(tuple(joined), rest, state_now, (*priors, *rest))


def _kind(measurement: Measurement, strata: Columns) -> str:
    return "within strata" if strata and set(strata) <= measurement.involved else "all rows"


def _readable(each: Measurement) -> bool:
    """Whether a marginal's noise is below the largest L1 distance of two tables with its rows, which is twice these."""
    return NOISE_L1 * float(each.cell_sigma.sum()) < 2 * max(float(each.values.sum()), 1.0)


def _rows(measurement: Measurement) -> Floats:
    """The rows of each cell, as far as a drift depends on them."""
    return np.maximum(measurement.values, measurement.cell_sigma)


def _kappa(state: State, kind: str) -> float:
    """The drift of a kind of marginals: moments joined with DRIFT, which counts as seen with an error of twice it."""
    one, two = state.moments.get(kind, (0.0, 0.0))
    doubt = 2 / (2 * DRIFT) ** 2
    return (DRIFT * doubt + max(one, 0.0)) / (doubt + two)


def _drifted(each: Former, kappa: float) -> Former:
    return known(each, each.values, each.sigmas**2 + kappa * _rows(each))


def _moments(innovation: Floats, variance: Floats, rows: Floats, kappa: float) -> Moments:
    """Σ n(d² − V + κn)/V² and Σ n²/V², 2V² the variance of d²: their ratio is κ. V has the drift κn in it."""
    weight = rows / variance**2
    return float((weight * (innovation**2 - variance + kappa * rows)).sum()), float((weight * rows).sum())
