"""Revised counts of each month, which are estimated from all months of a series. They cost no privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from equistrata.analysis.axes import named
from equistrata.analysis.headings import IN_REVISED, heading
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.arrays import Floats
from equistrata.synth.measurements import FormerEstimate
from equistrata.synth.series.drift import Month, filter_month
from equistrata.synth.series.smoothing import smooth_states
from equistrata.synth.series.state import State, combine_strata


def revised_months(releases: Mapping[int, Release], chain: Sequence[int]) -> pd.DataFrame:
    """Return revised counts. See `equistrata.analysis.series.releases.SeriesOfReleases.revised`.

    `chain` contains the months in order.
    """
    first: State | None = None
    months, before = list[Month](), releases[chain[0]]
    for number in chain:
        release = releases[number]
        strata, own = release.strata, combine_strata(release.strata, release.evidence.measured)
        if first is None:
            first = State.of(number, own)
        else:
            state = months[-1].state if months else first
            known = state.fitting(strata, before.strata.schema)
            months.append(filter_month(strata.columns, known, number, own))
        before = release
    assert first is not None
    states = [first, *(month.state for month in months)]
    lines = [
        _cells(releases[number].evidence, number, then, now)
        for number, state, revised in zip(chain, states, smooth_states(first, months), strict=True)
        for then, now in zip(state.known, revised, strict=True)
    ]
    names = dict.fromkeys(name for number in chain for name in releases[number].strata.schema.names)
    numbers = ["then", "then_error", "revised", "revised_error"]
    headings = [heading(name, IN_REVISED) for name in names]
    return pd.concat(lines, ignore_index=True).reindex(columns=["month", "columns", *headings, *numbers])


def _cells(evidence: Evidence, month: int, then: FormerEstimate, now: FormerEstimate) -> pd.DataFrame:
    """Return the rows of one marginal for `revised_months`. The counts include the rows that were held out."""
    schema, held_out = evidence.strata.schema, evidence.held_out
    places = np.indices(then.values.shape).reshape(then.values.ndim, then.values.size)
    values: dict[str, Any] = {name: named(schema[name])[code] for name, code in then.where}
    for name, groups, place in zip(then.columns, then.groups, places, strict=True):
        called = list(named(schema[name]))
        if groups is not None:
            parts = [
                [str(word) for word, own in zip(called, groups, strict=True) if own == g]
                for g in range(max(groups) + 1)
            ]
            called = [" or ".join(part) for part in parts]
        values[name] = [called[code] for code in place]
    columns = ", ".join(name for name in schema.names if name in values)
    found = dict[str, Floats]()
    alike = 1 if schema.weighed else schema.unit.at_most  # the rows of a unit are held out together
    for name, each in (("then", then), ("revised", now)):
        counts = each.values.ravel()
        variance = each.sigmas.ravel() ** 2 + held_out * alike * np.maximum(counts, 0.0)
        found |= {name: counts / (1 - held_out), f"{name}_error": np.sqrt(variance) / (1 - held_out)}
    called_by = {heading(name, IN_REVISED): words for name, words in values.items()}
    return pd.DataFrame({"month": month, "columns": columns, **called_by, **found})
