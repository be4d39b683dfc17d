"""What answers are made of: a release's evidence, the replicates of its model, and tables of counts, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from equistrata.analysis.evidence import Evidence
from equistrata.analysis.least_squares import NOT_MEASURED, LeastSquares
from equistrata.analysis.misfit import learned_misfit, relation_elsewhere, unmeasured_pairs
from equistrata.analysis.questions import Question
from equistrata.analysis.replicates import Replicate, Replicating
from equistrata.arrays import Floats
from equistrata.synth.measurements import Columns, at_level, cells_where

REPLICATES = 25  # Student's quantile is then 3 % above that of 50


@dataclass(eq=False)
class Grounds:
    """What answers are made of.

    Attributes:
        evidence: what a release measured.
        seed: of the replicates' noise. Public: it protects nothing.
        count: of replicates.
        models: whether what was not measured is answered by the model.
        progress: is called with how many replicates are made, and of how many.
    """

    evidence: Evidence
    seed: int = 0
    count: int = REPLICATES
    models: bool = True
    progress: Callable[[int, int], None] | None = None
    _replicated: list[Replicate] = field(default_factory=list)
    _elsewhere: dict[Columns, Floats | None] = field(default_factory=dict)
    _known: dict[Columns, LeastSquares | None] = field(default_factory=dict)
    _asked: dict[str, Question] = field(default_factory=dict)

    @cached_property
    def misfit(self) -> float:
        """See `learned_misfit`."""
        return learned_misfit(self.evidence)

    @cached_property
    def unmeasured(self) -> list[Columns]:
        """See `unmeasured_pairs`."""
        return unmeasured_pairs(self.evidence)

    def elsewhere(self, pair: Columns) -> Floats | None:
        """See `relation_elsewhere`; found once."""
        if pair not in self._elsewhere:
            self._elsewhere[pair] = relation_elsewhere(self.evidence, pair)
        return self._elsewhere[pair]

    def replicated(self) -> list[Replicate]:
        """`count` replicates, each made once."""
        return list(self.replicates(self.count))

    def replicates(self, count: int, workers: int = 1) -> Iterator[Replicate]:
        """So many replicates, made by so many processes as in `Replicating.models`; the first `self.count` are kept."""
        yield from (known := self._replicated[:count])
        places = range(len(known), count)
        for place, made in zip(places, self._replicating.models(places, workers), strict=True):
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

    def tables(self, columns: Columns) -> list[LeastSquares]:
        """With the columns that define strata where these were measured one by one, which says all that was measured;
        and by these columns, where that has more cells than a covariance is worked out for."""
        found = (self.table(names) for names in dict.fromkeys([self.by_strata(columns), columns]))
        return [table for table in found if table is not None]

    def table(self, columns: Columns) -> LeastSquares | None:
        """See `LeastSquares.of`; made once."""
        if columns not in self._known:
            self._known[columns] = LeastSquares.of(self.evidence.strata.schema, self.evidence.all, columns)
        return self._known[columns]

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

    def by_strata(self, columns: Columns) -> Columns:
        """The columns, and where strata were measured one by one, those that define them."""
        apart = any(measurement.where for measurement in self.evidence.published)
        return at_level(self.evidence.strata.schema, columns, self.evidence.strata.columns) if apart else columns
