"""What changed at once: growth of groups, which is the same in all marginals; and parts of one marginal that moved.

A former count is believed as far as this month's measurements allow it. First the growth of strata, and of each
column's codes, is read from all marginals that hold them together: where a group is more than CLEAR standard
deviations from what it was, its former counts are scaled by how much it grew, so that a group that tripled keeps what
is known of its composition. Then each part of a marginal (all of it, a stratum, one code in all strata, a cell) is
tested by itself. One that differs by more than noise and drift is given the variance that explains the difference (as
in James and Stein's estimator), so that its own measurement counts instead. Post-processing.

>>> before, after = np.array([500.0, 100.0]), np.array([490.0, 310.0])
>>> growth(before, np.full(2, 100.0), after, np.full(2, 100.0))[0].round(2).tolist()
[1.0, 3.1]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Measurement, cells_where, sum_groups
from equistrata.synth.series.state import known

# docs/experiments/series.md
CLEAR = 4.0  # standard deviations beyond which growth is believed: some 60 groups are looked at each month
UNLIKELY = 0.003  # the chance that noise and drift alone make any part of a marginal seem to have moved
MOST_GROWTH = 20.0
_MOST_GROUPS = 20  # that grow at once
_READABLE = 3.0  # standard deviations: a former count below them says nothing of how much it grew


def growth(before: Floats, variance: Floats, after: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """How many times as much each cell of a table of counts is, and the variance of that; 1 and 0 where none is seen.

    Sums over any axes are groups. The group furthest off is scaled, until none is CLEAR standard deviations off.

    Args:
        before, variance: former counts and their variances.
        after, noise: this month's, of the same shape.
    """
    times, spread = np.ones(before.shape), np.zeros(before.shape)
    for _ in range(_MOST_GROUPS):
        best, place, factor, doubt = CLEAR, None, 1.0, 0.0
        for kept in _subsets(before.ndim):
            rest = tuple(axis for axis in range(before.ndim) if axis not in kept)
            old, new = (before * times).sum(rest, keepdims=True), after.sum(rest, keepdims=True)
            old_variance = (variance * times**2 + (before * spread**0.5) ** 2).sum(rest, keepdims=True)
            new_variance = noise.sum(rest, keepdims=True)
            apart = np.abs(new - old) / np.sqrt(old_variance + new_variance)
            apart = np.where((old > _READABLE * np.sqrt(old_variance)) & (new > 0), apart, 0.0)
            where = np.unravel_index(int(apart.argmax()), apart.shape)
            if apart[where] > best:
                best, factor = float(apart[where]), float(new[where] / old[where])
                doubt = float((new_variance[where] + factor**2 * old_variance[where]) / old[where] ** 2)
                place = tuple(int(where[axis]) if axis in kept else slice(None) for axis in range(before.ndim))
        if place is None:
            break
        factor = min(max(factor, 1 / MOST_GROWTH), MOST_GROWTH)
        spread[place] = spread[place] * factor**2 + times[place] ** 2 * doubt
        times[place] = times[place] * factor
    return times, spread


def moved(apart: Floats, variance: Floats, noise: Floats) -> Floats:
    """The variance of former counts once parts that moved are found: `variance`, or more, of the same shape.

    Args:
        apart: this month's counts less the former ones.
        variance: of the former counts.
        noise: of this month's.
    """
    found = variance.copy()
    squares = apart**2 / (variance + noise)
    unlikely = UNLIKELY / np.prod([size + 1 for size in apart.shape], initial=1.0)  # all parts together
    for kept in _subsets(apart.ndim):
        rest = tuple(axis for axis in range(apart.ndim) if axis not in kept)
        cells = apart.size / np.prod([apart.shape[axis] for axis in kept], initial=1.0)
        chance = scipy.special.chdtrc(cells, squares.sum(rest, keepdims=True))
        wanted = (apart**2 - noise).mean(rest, keepdims=True)
        found = np.where(chance < unlikely, np.maximum(found, wanted), found)
    return found


@dataclass(frozen=True, eq=False)
class Grown:
    """How much each stratum, and each code of each column, grew since the former month.

    Attributes:
        strata: the columns that define strata.
        sizes, size_spread: of strata: times as many rows, and the variance of that; shape by stratum column.
        rows: former rows by stratum, of that shape.
        profiles: for each other column that was measured within strata, former shares of its codes: that shape and one
            axis more. By them it is known of which cells over all rows a stratum that grew makes more.
        codes, code_spread: the same as of sizes for the codes of each other column, beyond what strata grew.
    """

    strata: Columns
    sizes: Floats
    size_spread: Floats
    rows: Floats
    profiles: Mapping[str, Floats]
    codes: Mapping[str, Floats]
    code_spread: Mapping[str, Floats]

    @classmethod
    def of(cls, schema: Schema, strata: Columns, before: Sequence[Measurement], after: Sequence[Measurement]) -> Grown:
        """From all marginals together; former ones with their drift."""
        shape = [schema[name].size for name in strata]
        sizes = [margin(each, strata, shape) for each in (before, after)]
        times, spread, rows = np.ones(shape), np.zeros(shape), np.ones(shape)
        if sizes[0] is not None and sizes[1] is not None:
            times, spread = growth(*sizes[0], *sizes[1])
            rows = np.maximum(sizes[0][0], 0.0) + 1e-9
        plain = cls(strata, times, spread, rows, _profiles(strata, before), {}, {})
        scaled = [plain.applied(each) for each in before]
        codes, code_spread = {}, {}
        for name in schema.names:
            if name in strata:
                continue
            own = [margin(each, (name,), [schema[name].size]) for each in (scaled, after)]
            if own[0] is not None and own[1] is not None:
                found, doubt = growth(*own[0], *own[1])
                if (found != 1).any():
                    codes[name], code_spread[name] = found, doubt
        return replace(plain, codes=codes, code_spread=code_spread)

    def applied(self, measurement: Measurement) -> Measurement:
        """Former counts as they are after that growth, with larger variances; the measurement itself if none was."""
        values, variance, grew = measurement.values, measurement.cell_sigma**2, False
        for times, spread in self._factors(measurement):
            variance = variance * times**2 + values**2 * spread
            values, grew = values * times, True
        return known(measurement, values, variance) if grew else measurement

    def _factors(self, measurement: Measurement) -> Iterator[tuple[Floats, Floats]]:
        """Factors, and their variances, that broadcast to the measurement's cells."""
        if (self.sizes != 1).any():
            yield self._of_strata(measurement)
        for axis, (name, groups) in enumerate(zip(measurement.columns, measurement.groups, strict=True)):
            if name in self.codes and groups is None:
                shape = [-1 if axis == other else 1 for other in range(measurement.values.ndim)]
                yield self.codes[name].reshape(shape), self.code_spread[name].reshape(shape)

    def _of_strata(self, measurement: Measurement) -> tuple[Floats, Floats]:
        """By how much cells grew with their strata: a mean over strata that a cell holds rows of, by former rows."""
        where = dict(measurement.where)
        inner = [name for name in measurement.columns if name not in self.strata]
        rows = self.rows.reshape([*self.rows.shape, *(1 for _ in inner)])
        for place, name in enumerate(inner):
            groups = measurement.groups[measurement.columns.index(name)]
            profile = self.profiles.get(name)
            if profile is not None and not where:
                axis = len(self.strata)
                shares = profile if groups is None else sum_groups(profile, axis, groups)
                shape = [shares.shape[axis] if other == place else 1 for other in range(len(inner))]
                rows = rows * (shares + 1e-9).reshape([*self.rows.shape, *shape])
        gone = tuple(axis for axis, name in enumerate(self.strata) if name not in measurement.columns)
        held = [name for name in self.strata if name in measurement.columns]
        merged = [measurement.groups[measurement.columns.index(name)] for name in held]  # PUMAs by state, say

        def summed(table: Floats) -> Floats:
            table = table.sum(gone)
            for axis, groups in enumerate(merged):
                table = table if groups is None else sum_groups(table, axis, groups)
            return table

        sizes, spread = (x.reshape([*x.shape, *(1 for _ in inner)]) for x in (self.sizes, self.size_spread))
        if where:
            rows = rows * self._only(where).reshape(sizes.shape)
        whole = summed(rows)
        times, doubt = summed(rows * sizes) / whole, summed(rows**2 * spread) / whole**2
        order = [[*held, *inner].index(name) for name in measurement.columns]
        return np.transpose(times, order), np.transpose(doubt, order)

    def _only(self, where: Mapping[str, int]) -> Floats:
        """1 for the strata with these codes, else 0."""
        found = np.zeros(self.rows.shape)
        found[cells_where(self.strata, where)] = 1.0
        return found


def margin(measurements: Sequence[Measurement], columns: Columns, shape: Sequence[int]) -> tuple[Floats, Floats] | None:
    """Counts over columns and their variances, from all marginals that hold them with all codes; None without any.

    Of strata that were measured by themselves, the number of rows counts. A cell that nothing was measured of has
    infinite variance.
    """
    sums, precision = np.zeros(shape), np.zeros(shape)
    for each in measurements:
        where = dict(each.where)
        groups = dict(zip(each.columns, each.groups, strict=True))
        if where:
            if set(columns) == set(where):
                place = cells_where(columns, where)
                sums[place] += each.values.sum() / each.sum_variance
                precision[place] += 1 / each.sum_variance
            continue
        if not set(columns) <= set(each.columns) or any(groups[name] is not None for name in columns):
            continue
        rest = tuple(axis for axis, name in enumerate(each.columns) if name not in columns)
        inner = [name for name in each.columns if name in columns]
        order = [inner.index(name) for name in columns]
        values, variance = (np.transpose(x.sum(rest), order) for x in (each.values, each.cell_sigma**2))
        sums, precision = sums + values / variance, precision + 1 / variance
    if not precision.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(precision > 0, sums / precision, 0.0), 1 / precision


def _profiles(strata: Columns, before: Sequence[Measurement]) -> dict[str, Floats]:
    """See `Grown.profiles`."""
    found = {}
    for each in before:
        inner = [name for name in each.columns if name not in strata]
        if len(inner) == 1 and set(strata) < set(each.columns) and not any(each.groups):
            counts = np.transpose(each.values, [each.columns.index(name) for name in (*strata, *inner)])
            counts = np.maximum(counts, 0.0) + 1e-9
            found[inner[0]] = counts / counts.sum(-1, keepdims=True)
    return found


def _subsets(axes: int) -> Iterator[tuple[int, ...]]:
    for size in range(axes + 1):
        yield from combinations(range(axes), size)
