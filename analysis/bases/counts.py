"""Least squares estimates of counts that combine all measurements of a release. Each table is solved only once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from equistrata.analysis.axes import Merged, has_nested_groups
from equistrata.analysis.uncertainty.apart import StratumCounts
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.least_squares import LeastSquares
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Measurement, join_level_columns
from equistrata.synth.models.coarsening import Coarsening


@dataclass(frozen=True, eq=False)
class MeasuredCounts:
    """Tables of counts with their covariance, which do not depend on the model.

    Attributes
    ----------
    evidence : Evidence
        The measurements of a release.
    """

    evidence: Evidence
    _solved: dict[tuple[Columns, Merged], LeastSquares | None] = field(default_factory=dict, repr=False)

    @cached_property
    def apart(self) -> bool:
        """True if the strata were measured separately."""
        return any(measurement.where for measurement in self.evidence.published)

    def by_strata(self, columns: Columns) -> Columns:
        """Return the columns, and the columns that define strata if the strata were measured separately."""
        strata = self.evidence.strata
        return join_level_columns(strata.schema, columns, strata.columns) if self.apart else columns

    def values(self, merged: Merged = ()) -> list[Floats]:
        """Return the values of the measurements that are used by `table`."""
        return [measurement.values for measurement in self._level(merged)[1]]

    def table(self, columns: Columns, merged: Merged = ()) -> LeastSquares | None:
        """Return the table over some columns, or None. See `LeastSquares.of`. Columns can be in groups of codes."""
        if (columns, merged) not in self._solved:
            self._solved[columns, merged] = LeastSquares.of(*self._level(merged), columns)
        return self._solved[columns, merged]

    def tables(self, columns: Columns, merged: Merged = ()) -> list[LeastSquares]:
        """Return the tables from which the counts can be computed.

        If the strata were measured separately, the table by strata comes first, because it uses all measurements. The
        table of these columns alone comes second. It can be small enough if the table by strata is not.
        """
        names = dict.fromkeys([self.by_strata(columns), columns])
        found = (self.table(each, merged) for each in names)
        return [table for table in found if table is not None]

    def counted(self, columns: Columns, merged: Merged = ()) -> list[LeastSquares | StratumCounts]:
        """Return `tables`, and separate estimates for each stratum if the table by strata is too large."""
        found: list[LeastSquares | StratumCounts] = [*self.tables(columns, merged)]
        wide = self.by_strata(columns)
        if self.apart and not merged and self.table(wide) is None:
            parts = StratumCounts.of(self.evidence.strata, self.evidence.all, wide)
            found += [] if parts is None else [parts]
        return found

    def _level(self, merged: Merged) -> tuple[Schema, list[Measurement]]:
        """Return the schema and the measurements with some columns in groups of codes.

        Measurements in groups that do not nest are left out.
        """
        if not merged:
            return self.evidence.strata.schema, list(self.evidence.all)
        coarse = Coarsening(self.evidence.strata.schema, dict(merged))
        return coarse.schema, [coarse.coarse(each) for each in self.evidence.all if has_nested_groups(each, merged)]
