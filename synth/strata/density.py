"""The shape of numbers within merged bins, by stratum: its density over that of all rows is smooth.

Bins of a column that declares bounds alone are merged before columns are measured within strata. How much a stratum
has more or less of a group than all rows is known; within groups that ratio is interpolated (log-linearly, by rank), so
that a younger stratum is younger within a group of ages, too. Post-processing.

>>> groups, shares = np.repeat([0, 1], 2), np.full(4, 0.5)
>>> tilted(groups, shares, np.array([[30.0, 10.0], [10.0, 30.0]])).round(2).tolist()
[[0.53, 0.47, 0.6, 0.4], [0.4, 0.6, 0.47, 0.53]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.strata import Key
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import Coarsening

_LEAST_RATIO = 0.05  # of a group's part of a stratum to its part of all rows: less is taken as this
_RAKINGS = 10


def shares_by_stratum(
    coarsening: Coarsening,
    measurements: Sequence[Measurement],
    models: Mapping[Key, Model],
    known: Mapping[str, Floats] = MappingProxyType({}),
) -> dict[Key, dict[str, Floats]]:
    """P(code | group) of each column with merged codes, in each stratum.

    Args:
        coarsening: of the schema of all columns.
        measurements: of all rows.
        models: of merged codes, of each stratum; they add up to all rows.
        known: the counts of a column's codes in all rows, of columns in which they are not as measured of it alone.
    """
    found: dict[Key, dict[str, Floats]] = {key: {} for key in models}
    for name, groups in coarsening.groups.items():
        column = coarsening.fine[name]
        shares = coarsening.parts(name, known[name]) if name in known else coarsening.shares(name, measurements)
        inner, beside = np.asarray(groups)[: column.bins], groups[column.bins :]
        parts = np.tile(shares, (len(models), 1))
        if column.fine and (np.diff(inner) >= 0).all() and not {*beside} & {*groups[: column.bins]}:
            rows = np.array([model.marginal((name,))[: inner[-1] + 1] for model in models.values()])
            parts[:, : column.bins] = tilted(inner, shares[: column.bins], rows)
        for key, part in zip(models, parts, strict=True):
            found[key][name] = part
    return found


def tilted(groups: npt.NDArray[np.intp], shares: Floats, rows: Floats) -> Floats:
    """Each stratum's shares within groups, shape (k, bins); the strata's rows keep the `shares` together.

    Args:
        groups: of each bin, ascending.
        shares: P(bin | group) in all rows, shape (bins,).
        rows: of each stratum in each group, shape (k, groups).
    """
    rows = np.maximum(rows, 0.0)
    whole, sizes = rows.sum(0), np.maximum(rows.sum(1, keepdims=True), 1e-12)
    mass = whole[groups] * shares
    if len(whole) < 2 or not mass.sum() > 0:
        return np.tile(shares, (len(rows), 1))
    ratios = np.log(np.maximum(rows / sizes / np.maximum(whole / whole.sum(), 1e-12), _LEAST_RATIO))
    middles, places = ((np.cumsum(x) - x / 2) / x.sum() for x in (whole, mass))
    weights = np.array([np.exp(np.interp(places, middles, ratio) - ratio[groups]) for ratio in ratios]) * shares
    for _ in range(_RAKINGS):
        within = np.array([np.bincount(groups, each, len(whole)) for each in weights])[:, groups]
        weights = np.where(within > 0, weights / np.where(within > 0, within, 1.0), shares)
        together = (rows[:, groups] * weights).sum(0)
        weights = weights * np.where(together > 0, mass / np.where(together > 0, together, 1.0), 1.0)
    within = np.array([np.bincount(groups, each, len(whole)) for each in weights])[:, groups]
    return np.asarray(np.where(within > 0, weights / np.where(within > 0, within, 1.0), shares))
