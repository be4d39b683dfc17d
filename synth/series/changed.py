"""What a month's own joint counts say of how people change, with intervals that cover whatever the truth is.

What months know together (`equistrata.synth.series.transitions`) is drawn towards persistence and towards former
months, which is right for synthetic people and wrong for a statement. A statement rests on the month's own noise alone.
All columns count the same people, so the number of people in both months is that of all of them together, and each
column's cells are moved to add up to it (least squares). Shares are ratios of sums of cells, with Fieller's intervals.
Post-processing, no cost. See docs/proofs/panel.md.

>>> from equistrata.synth.series.transitions import THEN
>>> seen = Seen.of([Measurement((THEN.format("JOB"), "JOB"), np.array([[900.0, 40.0], [35.0, 700.0]]), 10.0)])
>>> share = seen[0].changed()
>>> round(share.estimate, 3), round(share.low, 3), round(share.high, 3)
(0.045, 0.029, 0.06)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equistrata.arrays import Floats
from equistrata.stats.fieller import Spread, ratio_interval
from equistrata.synth.measurements import Measurement


@dataclass(frozen=True)
class Share:
    """A share of people with its interval. `estimate` is within [0, 1]; NaN where there seem to be no people at all."""

    estimate: float
    low: float
    high: float

    @property
    def uninformative(self) -> bool:
        """Whether the interval is all that a share can be."""
        return self.low <= 0.0 and self.high >= 1.0


@dataclass(frozen=True, eq=False)
class Seen:
    """Joint counts of one column as a month measured it.

    Attributes:
        column: its name.
        counts: numbers of people by code before (axis 0) and now (axis 1), with noise; all columns have one sum.
        sigma: of a cell, before cells were moved to that sum.
        sum_variance: of the sum.
    """

    column: str
    counts: Floats
    sigma: float
    sum_variance: float

    @classmethod
    def of(cls, measured: Sequence[Measurement]) -> list[Seen]:
        """Of a month's measured joint counts, which are of the same people."""
        if not measured:
            return []
        precision = np.array([1 / (each.values.size * each.sigma**2) for each in measured])
        people = float(precision @ np.array([each.values.sum() for each in measured]) / precision.sum())
        return [
            cls(
                each.columns[1],
                each.values + (people - each.values.sum()) / each.values.size,
                each.sigma,
                1 / float(precision.sum()),
            )
            for each in measured
        ]

    def changed(self, level: float = 0.95) -> Share:
        """The share of the people in both months who changed their code."""
        size = len(self.counts)
        return self._share(float(self.counts.sum() - np.trace(self.counts)), size**2 - size, None, size**2, level)

    def cell(self, then: int, code: int, level: float = 0.95) -> Share:
        """Of the people with one code in the month before, the share that has this code now."""
        return self._share(float(self.counts[then, code]), 1, float(self.counts[then].sum()), len(self.counts), level)

    def covariance(self, inner: int, outer: int) -> float:
        """Of sums of so many cells, the first ones being among the second. Moved cells are the residuals of their
        mean, plus the mean, which is known better."""
        cells = self.counts.size
        return self.sigma**2 * (inner - inner * outer / cells) + inner * outer / cells**2 * self.sum_variance

    def _share(self, part: float, inner: int, whole: float | None, outer: int, level: float) -> Share:
        """Of sums of so many cells."""
        whole = float(self.counts.sum()) if whole is None else whole
        spread = Spread(self.covariance(inner, inner), self.covariance(inner, outer), self.covariance(outer, outer))
        low, high = ratio_interval(part, whole, spread, level=level, upper=1.0)
        estimate = float(np.clip(part / whole, 0.0, 1.0)) if whole > 0 else float("nan")
        return Share(estimate, low, high)
