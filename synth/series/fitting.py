"""The use of former releases in the fit of a month.

Former estimates are used before the measurements of a month and in its model. Only the measurements of the month have a
privacy cost. The method is in `equistrata.synth.series.drift`. The reason why former measurements have no further cost
is in docs/proofs/series.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equistrata.data.strata import Key, Strata
from equistrata.synth.measurements import FormerEstimate, Measurement
from equistrata.synth.series.choice import usable
from equistrata.synth.series.drift import Month, filter_month, predicted
from equistrata.synth.series.state import State, by_strata, combine_strata


def former_groupings(strata: Strata, state: State | None, month: int) -> list[FormerEstimate]:
    """Return the former estimates that a mechanism uses before it measures a month.

    These are the marginals with merged codes, so that codes are merged in the same groups again. The marginals to
    measure are selected as in a single release. If the mechanism used all former estimates, its selections would be
    different but the error would not be lower. The measurements of the month would then also be insufficient to assess
    the error of the model. The coverage of implied answers was 0.85 instead of 0.95.

    Parameters
    ----------
    strata : Strata
        The strata and the schema of the month.
    state : State or None
        The former state of the series, or None for the first month.
    month : int
        The month.

    Returns
    -------
    list of Former
        The predicted marginals with merged codes.
    """
    found = [] if state is None else predicted(state, month, strata.columns)
    return [each for each in found if any(each.groups)]


def after(
    strata: Strata, state: State | None, month: int, measured: Mapping[Key, Sequence[Measurement]]
) -> tuple[dict[Key, list[Measurement]], State]:
    """Combine the measurements of a month with the former state.

    The combination has no privacy cost.

    Parameters
    ----------
    strata : Strata
        The strata and the schema of the month.
    state : State or None
        The former state of the series, or None for the first month.
    month : int
        The month.
    measured : mapping of tuple to sequence of Measurement
        The measurements of each stratum.

    Returns
    -------
    used : dict of tuple to list of Measurement
        The measurements and estimates for the model of the month, by stratum.
    state : State
        The state of the series after the month.
    """
    own = combine_strata(strata, measured)
    if state is None:
        return {key: list(found) for key, found in measured.items()}, State.of(month, own)
    found: Month = filter_month(strata.columns, state, month, own)
    used = usable(strata.schema, strata.columns, found.measured, found.predicted)
    return by_strata(strata, [*found.measured, *used], measured), found.state
