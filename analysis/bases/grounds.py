"""What answers are made of: a release's evidence, the replicates of its model, and tables of counts, each made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from equistrata.analysis.axes import Merged, holds, nests
from equistrata.analysis.bases.unlike import of_names, relative_variance, spread_law, stratum_column
from equistrata.analysis.questions import Question
from equistrata.analysis.uncertainty.apart import StratumCounts
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.learned import FEWEST, Dropped, dropped_pairs, learned_misfit
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED, LeastSquares
from equistrata.analysis.uncertainty.misfit import (
    measured_sets,
    misfit_variance,
    relation_elsewhere,
    unmeasured_pairs,
)
from equistrata.analysis.uncertainty.passed_over import passed_over
from equistrata.analysis.uncertainty.replicates import Replicate, Replicating
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Key
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.synth.measurements import Columns, Measurement, Prediction, at_level, cells_where, sum_groups, summed
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.strata.model import StratifiedModel

REPLICATES = 25  # Student's quantile is then 3 % above that of 50
Errors = tuple[Floats, Floats, Floats, Floats]  # see `equistrata.analysis.bases.implied.errors`
FEW_REPLICATES = 10  # where they say a small part of an answer's variance, as of a model of few columns

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(eq=False)
class Grounds:
    """What answers are made of.

    Attributes:
        evidence: what a release measured.
        seed: of the replicates' noise. Public: it protects nothing.
        count: of replicates.
        models: whether what was not measured is answered by the model.
        progress: is called with how many replicates are made, and of how many.
        workers: processes that make replicates side by side, where these take long.
        erring: the errors of the question that was asked last: a contrast of its answers needs them as well.
        limits: and its `measured_limits`.
    """

    evidence: Evidence
    seed: int = 0
    count: int = REPLICATES
    models: bool = True
    progress: Callable[[int, int], None] | None = None
    workers: int = 1
    erring: dict[tuple[Question, float, float], Errors] = field(default_factory=dict)
    limits: dict[tuple[Question, float, float], Floats] = field(default_factory=dict)
    _replicated: list[Replicate] = field(default_factory=list)
    _elsewhere: dict[Columns, Floats | None] = field(default_factory=dict)
    _known: dict[tuple[Columns, Merged], LeastSquares | None] = field(default_factory=dict)
    _parts: dict[Columns, StratumCounts | None] = field(default_factory=dict)
    _groups: dict[Columns, StratumCounts | None] = field(default_factory=dict)
    _spreads: dict[tuple[str, float, Merged], Floats] = field(default_factory=dict)
    _levels: dict[Merged, tuple[Schema, list[Measurement]]] = field(default_factory=dict)
    _asked: dict[str, Question] = field(default_factory=dict)
    _grouped: dict[tuple[Question, float, float], Floats] = field(default_factory=dict)
    _solved: dict[Question, Any] = field(default_factory=dict)
    _narrow: dict[frozenset[str], Grounds] = field(default_factory=dict)

    def narrow(self, columns: Columns) -> Grounds:
        """The same of a model of these columns and those of strata alone, by what was measured of them.

        A model of all columns of a large table takes minutes, and so does each replicate of it.
        """
        names = frozenset({*columns, *self.evidence.strata.columns, UNIT_ROWS})
        if names not in self._narrow:
            self._narrow.clear()
            kept = {
                key: [_about(each, names) for each in measurements if _says(each, columns, names)]
                for key, measurements in self.evidence.measured.items()
            }
            few = min(self.count, FEW_REPLICATES)
            self._narrow[names] = Grounds(replace(self.evidence, measured=kept), self.seed, few)
        return self._narrow[names]

    @cached_property
    def misfit(self) -> float:
        """See `learned_misfit`."""
        return learned_misfit(self.dropped)

    @cached_property
    def dropped(self) -> list[Dropped]:
        """See `dropped_pairs`."""
        return dropped_pairs(self.evidence)

    def misfit_of(self, pair: Columns) -> float:
        """s of a pair that was not measured, in the schema's order: less than `misfit` as far as AIM's last choices say
        so."""
        return self._passed_over.get(pair, self.misfit)

    @cached_property
    def _passed_over(self) -> Mapping[Columns, float]:
        return passed_over(self.evidence, self.unmeasured, self.misfit)

    @cached_property
    def unmeasured(self) -> list[Columns]:
        """See `unmeasured_pairs`."""
        return unmeasured_pairs(self.evidence)

    def never_measured(self, pair: Columns, merged: Merged = ()) -> bool:
        """Whether two columns are one of `unmeasured`, or were not measured together in these groups of codes."""
        if not merged:
            return pair in self.unmeasured
        schema = self.evidence.strata.schema
        return not any(holds(each, pair, schema, merged) for each in self.evidence.published)

    def assumed_alone(self, pair: Columns, merged: Merged = ()) -> bool:
        """Whether what two columns may have to do with each other is a law of other tables, which this release did not
        say: not measured together, and of groups that strata define, or where too few pairs were measured."""
        few = len(measured_sets(self.evidence)) < FEWEST
        return (few or stratum_column(self.evidence, pair) is not None) and self.never_measured(pair, merged)

    def pair_variance(self, pair: Columns, table: Floats, level: float = 0.95, merged: Merged = ()) -> Floats:
        """The misfit's variance of each cell of two columns that were not measured together, before margins are known.

        Where one of them defines groups (`stratum_column`) and both are of names, as of an interval of this level by
        `spread_law`.
        """
        name = stratum_column(self.evidence, pair)
        if name is None or not of_names(self.evidence, pair):
            return misfit_variance(table, self.misfit_of(pair) * table.sum())
        if (name, level, merged) not in self._spreads:
            known, sizes = self.table((name,), merged), self.over(self.evidence.model, (name,), merged)
            sigmas = np.zeros(len(sizes)) if known is None else np.sqrt(np.maximum(np.diag(known.covariance), 0.0))
            law = spread_law(self.evidence, name)
            self._spreads[name, level, merged] = relative_variance(law, np.maximum(sizes, 0.0), sigmas, level)
        axis = pair.index(name)
        counts = np.maximum(table, 0.0)
        times = np.expand_dims(self._spreads[name, level, merged], 1 - axis) * counts.sum(1 - axis, keepdims=True)
        return np.asarray(counts * times)

    def elsewhere(self, pair: Columns) -> Floats | None:
        """See `relation_elsewhere`; found once."""
        if pair not in self._elsewhere:
            self._elsewhere[pair] = relation_elsewhere(self.evidence, pair)
        return self._elsewhere[pair]

    def replicated(self) -> list[Replicate]:
        """`count` replicates, each made once."""
        return list(self.replicates(self.count))

    def replicates(self, count: int, workers: int | None = None) -> Iterator[Replicate]:
        """So many replicates, made by so many processes as in `Replicating.models`; the first `self.count` are kept.

        `workers` is that of the attributes if it is None.
        """
        yield from (known := self._replicated[:count])
        places = range(len(known), count)
        for place, made in zip(places, self._replicating.models(places, workers or self.workers), strict=True):
            if place == len(self._replicated) < self.count:
                self._replicated.append(made)
            if self.progress is not None:
                self.progress(place + 1, count)
            yield made

    @cached_property
    def _replicating(self) -> Replicating:
        return Replicating(self.evidence, self.seed)

    @cached_property
    def values(self) -> list[Floats]:
        return [measurement.values for measurement in self.evidence.all]

    def values_in(self, merged: Merged) -> list[Floats]:
        """`values`, of columns in groups of codes: what `table` of these is solved by."""
        return [measurement.values for measurement in self._level(merged)[1]]

    def over(self, model: StratifiedModel, columns: Columns, merged: Merged = ()) -> Floats:
        """A model's counts over columns, some in groups of codes."""
        return in_groups(model.marginal(columns), columns, merged)

    def _level(self, merged: Merged) -> tuple[Schema, list[Measurement]]:
        """The schema and the measurements with these columns in groups of codes; what tells no groups apart has no
        part in it."""
        if not merged:
            return self.evidence.strata.schema, list(self.evidence.all)
        if merged not in self._levels:
            coarse = Coarsening(self.evidence.strata.schema, dict(merged))
            kept = [m for m in self.evidence.all if nests(m, merged)]
            self._levels[merged] = coarse.schema, [coarse.coarse(each) for each in kept]
        return self._levels[merged]

    def tables(self, columns: Columns, merged: Merged = ()) -> list[LeastSquares]:
        """With the columns that define strata where these were measured one by one, which says all that was measured;
        and by these columns, where that has more cells than a covariance is worked out for."""
        names = dict.fromkeys([self.by_strata(columns), columns])
        found = (self.table(each, merged) for each in names)
        return [table for table in found if table is not None]

    def counted(self, columns: Columns, merged: Merged = (), sums: bool = False) -> list[LeastSquares | StratumCounts]:
        """`tables`, and the strata one after the other where each was measured by itself and their table is too large.

        Args:
            sums: whether no ratio is asked for. Ratios about fine bins have their groups instead (`grouped`).
        """
        found: list[LeastSquares | StratumCounts] = [*self.tables(columns, merged)]
        wide, fine = self.by_strata(columns), any(self.evidence.strata.schema[name].fine for name in columns)
        if self.apart and not merged and (sums or not fine) and self.table(wide) is None:
            parts = self.stratum_by_stratum(wide)
            found += [] if parts is None else [parts]
        return found

    def stratum_by_stratum(self, columns: Columns) -> StratumCounts | None:
        """See `StratumCounts.of`; of the columns that were asked for last, made once: it is large."""
        strata, measured = self.evidence.strata, self.evidence.all
        return of_the_last(self._parts, columns, lambda: StratumCounts.of(strata, measured, columns))

    def of_groups(
        self, columns: Columns, name: str, groups: Mapping[Key, npt.NDArray[np.intp]]
    ) -> StratumCounts | None:
        """See `StratumCounts.grouped` and `summed`; of the columns that were asked for last, made once."""
        if columns not in self._groups:
            self._groups.clear()
            if {*columns} == {name, *self.evidence.strata.columns}:
                bins = self.stratum_by_stratum(columns)
                found = None if bins is None else bins.summed(groups)
            else:
                found = StratumCounts.grouped(self.evidence.strata, self.evidence.all, columns, name, groups)
            self._groups[columns] = found
        return self._groups[columns]

    def table(self, columns: Columns, merged: Merged = ()) -> LeastSquares | None:
        """See `LeastSquares.of`; made once."""
        if (columns, merged) not in self._known:
            self._known[columns, merged] = LeastSquares.of(*self._level(merged), columns)
        return self._known[columns, merged]

    def noise(self, columns: Columns) -> Floats:
        """The variance of the measured counts over some columns, one axis each."""
        known = self.table(columns)
        if known is not None:
            return known.variance.reshape(known.shape)
        # More cells than a covariance is worked out for: that of the best measurement that holds them all.
        held = [m.sigma**2 for m in self.evidence.all if m.involved.issuperset(columns)]
        sizes = [self.evidence.strata.schema[name].size for name in columns]
        return np.full(sizes, min(held, default=NOT_MEASURED))

    def noise_in(self, columns: Columns, codes: Mapping[str, int]) -> Floats:
        """The same within a stratum."""
        wide = at_level(self.evidence.strata.schema, columns, self.evidence.strata.columns)
        return np.asarray(self.noise(wide)[cells_where(wide, dict(codes))])

    @cached_property
    def sets(self) -> list[frozenset[str]]:
        return [frozenset(measurement.columns) for measurement in self.evidence.all]

    @cached_property
    def apart(self) -> bool:
        """Whether strata were measured one by one."""
        return any(measurement.where for measurement in self.evidence.published)

    def by_strata(self, columns: Columns) -> Columns:
        """The columns, and where strata were measured one by one, those that define them."""
        strata = self.evidence.strata
        return at_level(strata.schema, columns, strata.columns) if self.apart else columns


def of_the_last(kept: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """What was made for this key, if it was asked for last: made once, and no other is kept, since it may be large."""
    if key not in kept:
        kept.clear()
        kept[key] = make()
    return kept[key]


def in_groups(table: Floats, columns: Columns, merged: Merged) -> Floats:
    """A table over columns with some of them in groups of codes."""
    for name, groups in merged:
        if name in columns:
            table = sum_groups(table, columns.index(name), groups)
    return table


def _says(measurement: Measurement, columns: Columns, names: frozenset[str]) -> bool:
    """Whether a measurement is of some of these columns, or of no others than these names."""
    if isinstance(measurement, Prediction):
        return measurement.involved <= names
    return measurement.involved <= names or bool({*measurement.columns} & {*columns})


def _about(measurement: Measurement, names: frozenset[str]) -> Measurement:
    """What it says of these columns, or itself."""
    own = tuple(name for name in measurement.columns if name in names)
    return measurement if len(own) == len(measurement.columns) else summed(measurement, own)
