"""What a month of a series knows: before it measures, and for its model. The price is this month's alone.

See `equistrata.synth.series.drift` for how, and docs/proofs/series.md for why former measurements cost nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equistrata.data.strata import Key, Strata
from equistrata.synth.measurements import Former, Measurement
from equistrata.synth.series.choice import usable
from equistrata.synth.series.drift import Month, filtered, predicted
from equistrata.synth.series.state import State, by_strata, of_strata


def known_before(strata: Strata, state: State | None, month: int) -> list[Former]:
    """What a mechanism is given to know before it measures a month: marginals of merged codes, to merge them again.

    What to measure is chosen as in a single release. With all that is known, choices would be others at no less error,
    and what a month measures by itself would say too little of how far its model is off (docs/experiments/series.md).
    """
    found = [] if state is None else predicted(state, month, strata.columns)
    return [each for each in found if any(each.groups)]


def after(
    strata: Strata, state: State | None, month: int, measured: Mapping[Key, Sequence[Measurement]]
) -> tuple[dict[Key, list[Measurement]], State]:
    """What a month's model is made of, as measurements are kept, by stratum; and the state after it. No cost."""
    own = of_strata(strata, measured)
    if state is None:
        return {key: list(found) for key, found in measured.items()}, State.of(month, own)
    found: Month = filtered(strata.columns, state, month, own)
    used = usable(strata.schema, strata.columns, found.measured, found.predicted)
    return by_strata(strata, [*found.measured, *used], measured), found.state
