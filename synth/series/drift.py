"""The filter of a series, which combines former counts with the measurements of a month.

The counts drift and can jump. There is one Kalman filter per marginal. The count of a cell is a random walk that is
observed with noise: x_t = x_{t−1} + w_t, where w_t has variance q_t, and y_t = x_t + e_t, where e_t has variance σ². If
rows leave and arrive at random, the variance of a cell is proportional to its number of rows n, so q = κ·n.

The drift κ is estimated by the method of moments, because the expected value of (y_t − x_{t−1})² is P + q + σ². All
marginals of the same kind are used together (over all rows, or within strata), and the estimate is shrunk to DRIFT. A
sudden change is not a drift (`equistrata.synth.series.jumps`).

The filter uses only published noisy numbers, so it is post-processing and has no privacy cost. See
docs/proofs/series.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Columns, FilteredMeasurement, FormerEstimate, Measurement, root_mean_square
from equistrata.synth.series.jumps import inflate_variances
from equistrata.synth.series.state import Moments, State, known, marginal_of, pooled

# The prior value of κ, since random turnover of rows gives about 0.1 and trends give more. The errors are similar for
# values between 0.3 and 1.
DRIFT = 0.5


@dataclass(frozen=True, eq=False)
class Month:
    """The combined estimates from the measurements of a month and all former months.

    Parameters
    ----------
    measured : tuple of Measurement
        The marginals of the month, combined with the former state.
    predicted : tuple of Former
        The other marginals of the series, as predicted for the month.
    state : State
        The state of the series after the month.
    prior : tuple of Former, default=()
        The predictions of the former state for the month. Their variances are raised if the counts jumped.
    """

    measured: tuple[Measurement, ...]
    predicted: tuple[FormerEstimate, ...]
    state: State
    prior: tuple[FormerEstimate, ...] = ()


def predicted(state: State, month: int, strata: Columns) -> list[FormerEstimate]:
    """Predict the marginals of a later month before they are measured.

    The predicted counts are those of the state, and their variances include the drift. The prediction has no privacy
    cost.

    Parameters
    ----------
    state : State
        The state of the series.
    month : int
        The later month.
    strata : tuple of str
        The columns that define the strata.

    Returns
    -------
    list of Former
        The predicted marginals.
    """
    gap = month - state.month
    return [_drifted(each, _kappa(state, _kind(each, strata)) * gap) for each in state.known]


def filter_month(strata: Columns, state: State, month: int, measured: Sequence[Measurement]) -> Month:
    """Combine the measurements of a month with the state of a former month.

    The combination is post-processing and has no privacy cost.

    Parameters
    ----------
    strata : tuple of str
        The columns that define the strata.
    state : State
        The former state, with marginals that match the schema (`State.fitting`).
    month : int
        The month, which is later than `state.month`.
    measured : sequence of Measurement
        The measurements of all rows, or of single strata if they have `where`.

    Returns
    -------
    Month
        The combined estimates.
    """
    own = pooled(measured)
    former = {marginal_of(each): each for each in predicted(state, month, strata)}
    joined, moments, priors = list[Measurement](), dict(state.moments), list[FormerEstimate]()
    for name, each in own.items():
        prior = former.pop(name, None)
        if prior is None:
            joined.append(each)
            continue
        innovation, noise, plain = each.values - prior.values, each.cell_sigma**2, prior.cell_sigma**2
        variance = inflate_variances(innovation, plain, noise)
        priors.append(known(prior, prior.values, variance))
        gain = variance / (variance + noise)
        sigmas = np.sqrt(noise * gain)
        values = prior.values + gain * innovation
        joined.append(FilteredMeasurement(name[0], values, root_mean_square(sigmas), name[1], name[2], sigmas=sigmas))
        kind = _kind(each, strata)
        rows = np.where(variance > plain, 0.0, (month - state.month) * _rows(prior))  # jumps are not part of the drift
        one, two = moments.get(kind, (0.0, 0.0))
        more = _moments(innovation, plain + noise, rows, _kappa(state, kind))
        moments[kind] = one + more[0], two + more[1]
    rest = tuple(known(each, each.values, each.cell_sigma**2) for each in former.values() if _readable(each))
    state_now = State(month, (*(known(each, each.values, each.cell_sigma**2) for each in joined), *rest), moments)
    return Month(tuple(joined), rest, state_now, (*priors, *rest))


def _kind(measurement: Measurement, strata: Columns) -> str:
    return "within strata" if strata and set(strata) <= measurement.involved else "all rows"


def _readable(each: Measurement) -> bool:
    """Return True if the noise floor is below the largest L1 distance of two tables with this number of rows.

    This distance is twice the number of rows.
    """
    return NOISE_L1 * float(each.cell_sigma.sum()) < 2 * max(float(each.values.sum()), 1.0)


def _rows(measurement: Measurement) -> Floats:
    """Return the number of rows of each cell for the drift, which is at least the standard deviation of the cell."""
    return np.maximum(measurement.values, measurement.cell_sigma)


def _kappa(state: State, kind: str) -> float:
    """Estimate the drift of a kind of marginals.

    The moments are combined with DRIFT, which is a prior with a standard deviation of twice DRIFT.
    """
    one, two = state.moments.get(kind, (0.0, 0.0))
    doubt = 2 / (2 * DRIFT) ** 2
    return (DRIFT * doubt + max(one, 0.0)) / (doubt + two)


def _drifted(each: FormerEstimate, kappa: float) -> FormerEstimate:
    return known(each, each.values, each.sigmas**2 + kappa * _rows(each))


def _moments(innovation: Floats, variance: Floats, rows: Floats, kappa: float) -> Moments:
    """Compute Σ n(d² − V + κn)/V² and Σ n²/V², where 2V² is the variance of d².

    The ratio of the two sums is an estimate of κ. The variance V includes the drift κn.
    """
    weight = rows / variance**2
    return float((weight * (innovation**2 - variance + kappa * rows)).sum()), float((weight * rows).sum())
