"""Counts over columns by least squares of everything that a release measured of them; each table is solved once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from equistrata.analysis.axes import Merged, nests
from equistrata.analysis.uncertainty.apart import StratumCounts
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Measurement, at_level
from equistrata.synth.models.coarsening import Coarsening


@dataclass(frozen=True, eq=False)
class MeasuredCounts:
    """Tables of counts with their covariance, whatever the model is.

    Attributes:
        evidence: what a release measured.
    """

    evidence: Evidence
    _solved: dict[tuple[Columns, Merged], LeastSquares | None] = field(default_factory=dict, repr=False)

    @cached_property
    def apart(self) -> bool:
        """Whether strata were measured one by one."""
        return any(measurement.where for measurement in self.evidence.published)

    def by_strata(self, columns: Columns) -> Columns:
        """The columns, and where strata were measured one by one, the columns that define strata."""
        strata = self.evidence.strata
        return at_level(strata.schema, columns, strata.columns) if self.apart else columns

    def values(self, merged: Merged = ()) -> list[Floats]:
        """The values of the measurements that `table` is solved by."""
        return [measurement.values for measurement in self._level(merged)[1]]

    def table(self, columns: Columns, merged: Merged = ()) -> LeastSquares | None:
        """See `LeastSquares.of`; some columns may be in groups of codes."""
        if (columns, merged) not in self._solved:
            self._solved[columns, merged] = LeastSquares.of(*self._level(merged), columns)
        return self._solved[columns, merged]

    def tables(self, columns: Columns, merged: Merged = ()) -> list[LeastSquares]:
        """The table by strata, where strata were measured one by one, because it holds everything that was measured;
        and the table of these columns alone, which may be small enough where that is not."""
        names = dict.fromkeys([self.by_strata(columns), columns])
        found = (self.table(each, merged) for each in names)
        return [table for table in found if table is not None]

    def counted(self, columns: Columns, merged: Merged = ()) -> list[LeastSquares | StratumCounts]:
        """`tables`, and where the table by strata is too large, each stratum solved by itself."""
        found: list[LeastSquares | StratumCounts] = [*self.tables(columns, merged)]
        wide = self.by_strata(columns)
        if self.apart and not merged and self.table(wide) is None:
            parts = StratumCounts.of(self.evidence.strata, self.evidence.all, wide)
            found += [] if parts is None else [parts]
        return found

    def _level(self, merged: Merged) -> tuple[Schema, list[Measurement]]:
        """The schema and the measurements with these columns in groups of codes, without measurements of other
        groups."""
        if not merged:
            return self.evidence.strata.schema, list(self.evidence.all)
        coarse = Coarsening(self.evidence.strata.schema, dict(merged))
        return coarse.schema, [coarse.coarse(each) for each in self.evidence.all if nests(each, merged)]
