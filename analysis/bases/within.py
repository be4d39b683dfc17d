"""What an answer of a model may be off by within groups of codes: columns were measured together in groups only.

Given its group, a model has a code independent of all other columns. The people may not be so: of N rows of a group,
those of a code (an age, a month, an occupation) are a few: their shares differ from the group's by chance, and in truth
as well. With the group's margins known, a linear functional Σ w n has by chance the variance Σ n ŵ², where ŵ is w less
its means over codes and over all else. That rows differ in truth adds τ²·min(1, 2(1 − f)²) of the R rows that are
asked about, a part f of the group, as in `equistrata.analysis.bases.grouped`, which does the same where one column
alone has fine bins.
"""

from __future__ import annotations

from math import prod

import numpy as np

from equistrata.analysis.axes import holds
from equistrata.analysis.bases.grounds import Grounds
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns

BY_STRATA, BY_OTHERS = 0.005, 0.03  # τ² (docs/experiments/estimates.md)


def code_variance(grounds: Grounds, columns: Columns, names: Columns) -> float:
    """τ² of the codes of some columns (`names`), by all of these."""
    return BY_STRATA if {*columns} <= {*names, *grounds.evidence.strata.columns} else BY_OTHERS


def times_chance(asked: Floats, left: Floats, tau: float) -> Floats:
    """By how much more than chance rows that are asked about are off, where the part `left` of their group is not."""
    left = np.maximum(left, 1e-9)
    return np.asarray(1 + tau * np.minimum(1 / left, 2 * left) * asked)


def within_groups(grounds: Grounds, columns: Columns, table: Floats, functionals: Floats) -> Floats:
    """The variance of functionals of a model's table by who has which code within groups, shape (n,).

    0 where no codes were merged, or the columns were never measured together: that is another error.

    Args:
        columns: one axis of the table each.
        functionals: shape (n, cells).
    """
    groups = _measured_groups(grounds, columns)
    if not groups:
        return np.zeros(len(functionals))
    axes = [columns.index(name) for name in groups]
    others = [axis for axis in range(len(columns)) if axis not in axes]
    order, sizes = [*others, *axes], [table.shape[axis] for axis in axes]
    codes = prod(sizes)
    rows = np.maximum(table.transpose(order).reshape(-1, codes), 0.0)
    places = [np.asarray(each)[code] for each, code in zip(groups.values(), np.indices(sizes), strict=True)]
    _, group = np.unique(np.ravel_multi_index([each.ravel() for each in places], sizes), return_inverse=True)
    weights = functionals.reshape(-1, *table.shape).transpose(0, *(1 + axis for axis in order))
    weights = weights.reshape(len(functionals), *rows.shape)
    variance, tau = np.zeros(len(functionals)), code_variance(grounds, columns, tuple(groups))
    for place in range(int(group.max()) + 1):
        inside = group == place
        variance += _of_group(rows[:, inside], weights[:, :, inside], tau, both=len(axes) == 1)
    return variance


def _of_group(rows: Floats, weights: Floats, tau: float, both: bool) -> Floats:
    """That of one group, of rows by all else and by code, shape (others, codes); weights have shape (n, …).

    Args:
        both: whether how many rows each code has over all else is known.
    """
    total = float(rows.sum())
    if total <= 0:
        return np.zeros(len(weights))
    asked = ((weights != 0) * rows).sum((1, 2))
    centred = weights - (weights * rows).sum(2, keepdims=True) / np.maximum(rows.sum(1), 1e-9)[:, None]
    if both:
        centred = centred - (centred * rows).sum(1, keepdims=True) / np.maximum(rows.sum(0), 1e-9)
    chance = (centred**2 * rows).sum((1, 2))
    return np.asarray(chance * times_chance(asked, 1 - asked / total, tau))


def _measured_groups(grounds: Grounds, columns: Columns) -> dict[str, tuple[int, ...]]:
    """The finest groups of codes in which columns were measured together, of those that were merged."""
    schema, found = grounds.evidence.strata.schema, dict[str, tuple[int, ...]]()
    finest = -1
    for each in grounds.evidence.published:
        if set(columns) <= each.involved and holds(each, columns, schema):
            kinds = {name: own for name, own in zip(each.columns, each.groups, strict=True) if own is not None}
            cells = prod(max(kinds[name]) + 1 if name in kinds else schema[name].size for name in columns)
            if cells > finest:
                finest, found = cells, {name: kinds[name] for name in columns if name in kinds}
    return found
