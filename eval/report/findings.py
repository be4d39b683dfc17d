"""What an audit found about one release, as its report shows it: errors of groups, exact or with intervals.

A release and its synthetic rows are public. Whether the rest is exact or noisy is the audit's: `public_findings` takes
noisy numbers only and gives each its interval, `internal_findings` gives exact ones without.

>>> error = relative_error_interval(NoisyNumber(2.0, 1.6, 2.4), 3.0)
>>> error.value, error.lower, error.upper, error.note
(0.5, 0.25, 0.875, '')
>>> relative_error_interval(NoisyNumber(0.5, 0.0, 1.2), 0.6).note
'± wider than the value'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from equistrata.eval.audit.layout import Layout

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.noisy_number import TOO_SMALL, NoisyNumber
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.scores.parity import ABSENT
from equistrata.eval.scores.tables import ALL_ROWS, numbers_of
from equistrata.eval.scores.workload import LARGEST

TELLING = 0.05  # an error whose interval reaches from 0 to beyond this is not told
LOST = "no synthetic row"
NO_POSITIVE = "no row has the value that is predicted"


@dataclass(frozen=True)
class ReleaseFacts:
    """What a release says of itself on its card, and how the report calls it.

    Attributes:
        name: unique in the report.
        variant, mechanism, strata, rows, source, created, software, private, caveats: as on the card.
        folder: the name of its folder, without the way to it.
        epsilon, delta, rho: its price.
        manifest: SHA-256 of its manifest, in hexadecimal.
    """

    name: str
    variant: str
    folder: str
    mechanism: str
    strata: tuple[str, ...]
    rows: int
    epsilon: float
    delta: float
    rho: float
    source: str
    created: str
    software: str
    private: bool
    caveats: tuple[str, ...]
    manifest: str


@dataclass(frozen=True)
class Synthetic:
    """What the figures need of the synthetic rows, which are public: label (and `all`) → rows; column → label → mean."""

    rows: Mapping[str, int]
    means: Mapping[str, Mapping[str, float | None]]

    @classmethod
    def of(cls, table: CodedTable, strata: Strata) -> Synthetic:
        """Count and average a synthetic table, coded, by these strata of the same schema; no mean where there is no row."""
        layout = Layout(strata, 0.95)
        index = layout.index(table)
        counts = np.append(np.bincount(index, minlength=len(layout.labels)), len(table))
        labels = (*layout.labels, ALL_ROWS)
        means = {}
        for name in layout.columns:
            numbers = numbers_of(table.schema[name])[table.column(name)]
            sums = np.bincount(index, weights=numbers, minlength=len(layout.labels))
            sums = np.append(sums, numbers.sum())
            means[name] = {
                label: float(total / count) if count else None
                for label, total, count in zip(labels, sums, counts, strict=True)
            }
        return cls(dict(zip(labels, counts.tolist(), strict=True)), means)


@dataclass(frozen=True)
class Shown:
    """A number as it is shown: exact without ends; else with an interval, whose upper end may be infinite.

    `note` says why it tells nothing, if so.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""

    @property
    def least(self) -> float:
        """What is certain: the lower end, or the exact value; 0 where there is none."""
        return (self.value if self.lower is None else self.lower) or 0.0

    @property
    def order(self) -> tuple[float, float]:
        """For sorting by size: first by what is certain, then by the estimate."""
        return self.least, self.value or 0.0


@dataclass(frozen=True)
class Findings:
    """What was found about one release.

    Strata go by their labels; `all` is the whole table.

    Attributes:
        errors: column → label → relative error of the column's mean there, for columns that define no strata.
        served: label → the same, averaged over these columns: how well the group is served. 0 is best.
        workload: label → workload error, in [0, 2].
        calibration: label → predicted over real number of positive rows.
        accuracy, selection_rate, false_negative_rate: label → rate of the classifier's predictions.
        sizes: label → number of private rows.
        lost: strata without a synthetic row.
    """

    release: ReleaseFacts
    errors: Mapping[str, Mapping[str, Shown]]
    served: Mapping[str, Shown]
    workload: Mapping[str, Shown]
    calibration: Mapping[str, Shown]
    accuracy: Mapping[str, Shown]
    selection_rate: Mapping[str, Shown]
    false_negative_rate: Mapping[str, Shown]
    sizes: Mapping[str, Shown]
    lost: tuple[str, ...]

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The strata from the worst served on. Those of which nothing is told come last."""
        labels = [label for label in self.served if label != ALL_ROWS]
        return tuple(sorted(labels, key=lambda label: (bool(self.served[label].note), _down(self.served[label].order))))

    @cached_property
    def untold(self) -> tuple[str, ...]:
        """The strata of which nothing is told."""
        return tuple(label for label in self.ranking if self.served[label].note)


def public_findings(release: ReleaseFacts, audit: PublicAudit, synthetic: Synthetic) -> Findings:
    """From noisy numbers, each with its interval. Post-processing."""
    errors = {
        column: {label: relative_error_interval(mean, synthetic.means[column][label]) for label, mean in means.items()}
        for column, means in audit.means.items()
    }
    lost = tuple(label for label, rows in synthetic.rows.items() if not rows)
    labels = audit.sizes
    return Findings(
        release=release,
        errors=errors,
        served={label: _average([of[label] for of in errors.values()]) for label in labels} if errors else {},
        workload={label: _shown(error) for label, error in audit.workload_error.items()}
        | {label: Shown(LARGEST, note=LOST) for label in audit.without_synthetic_rows},
        calibration={label: _shown(ratio) for label, ratio in audit.calibration.items()},
        accuracy={label: _shown(rate) for label, rate in audit.accuracy.items()},
        selection_rate={label: _shown(rate) for label, rate in audit.selection_rate.items()},
        false_negative_rate={label: _shown(rate) for label, rate in audit.false_negative_rate.items()},
        sizes={label: _shown(size) for label, size in audit.sizes.items()},
        lost=lost,
    )


def internal_findings(release: ReleaseFacts, audit: InternalAudit, synthetic: Synthetic) -> Findings:
    """From exact numbers: internal."""
    fairness, scores = audit.fairness, audit.scores
    errors = {column: {label: Shown(error) for label, error in of.items()} for column, of in audit.parity.items()}
    labels = next(iter(errors.values()), {})
    return Findings(
        release=release,
        errors=errors,
        served={label: _average([of[label] for of in errors.values()]) for label in labels},
        workload={label: Shown(error) for label, error in scores.workload3_strata.items()}
        | {ALL_ROWS: Shown(scores.workload3)},
        calibration={
            label: Shown(ratio, note="" if ratio is not None else NO_POSITIVE)
            for label, ratio in audit.calibration.items()
        },
        accuracy=_exact(fairness.accuracy_by_stratum) | {ALL_ROWS: Shown(fairness.accuracy)} if fairness else {},
        selection_rate=_exact(fairness.selection_rate) if fairness else {},
        false_negative_rate=_exact(fairness.false_negative_rate) if fairness else {},
        sizes={label: Shown(size) for label, size in audit.sizes.items()}
        | {ALL_ROWS: Shown(sum(audit.sizes.values()))},
        lost=tuple(label for label, rows in synthetic.rows.items() if not rows),
    )


def relative_error_interval(mean: NoisyNumber, synthetic: float | None) -> Shown:
    """|synthetic − mean| / |mean| for a noisy mean: the estimate, and all that is possible within the mean's interval.

    Without a synthetic value the error is 1, as in `equistrata.eval.scores.parity`. Where the interval holds 0, no error is too large. It tells
    nothing where the mean tells nothing, nor where its interval reaches from next to 0 to beyond `TELLING`.
    """
    if synthetic is None:
        return Shown(ABSENT, ABSENT, ABSENT, LOST)
    estimate = abs(synthetic - mean.value) / abs(mean.value) if mean.value else None
    if mean.lower <= 0 <= mean.upper or not math.isfinite(mean.upper):
        return Shown(estimate, 0.0, math.inf, TOO_SMALL)
    ends = [synthetic / end - 1 for end in (mean.lower, mean.upper)]
    within = min(ends) <= 0 <= max(ends)
    lower, upper = 0.0 if within else min(map(abs, ends)), max(map(abs, ends))
    return Shown(estimate, lower, upper, mean.note or _note(estimate, lower, upper))


def _average(parts: Iterable[Shown]) -> Shown:
    """The mean of several errors.

    Its interval goes from the mean of the lower ends to the mean of the upper ends. It is safe: an error of the mean is the
    mean of the errors' own, and noise that the columns do not share partly cancels in it. It tells nothing where more than
    half of its parts tell nothing.
    """
    parts = list(parts)
    values = [part.value for part in parts if part.value is not None]
    value = sum(values) / len(values) if len(values) == len(parts) else None
    if any(part.note == LOST for part in parts):
        return Shown(ABSENT, ABSENT, ABSENT, LOST)
    lowers = [part.lower for part in parts if part.lower is not None]
    uppers = [part.upper for part in parts if part.upper is not None]
    if not lowers:
        return Shown(value)
    lower, upper = sum(lowers) / len(parts), sum(uppers) / len(parts)
    notes = [part.note for part in parts if part.note]
    return Shown(value, lower, upper, notes[0] if len(notes) > len(parts) / 2 else _note(value, lower, upper))


def _note(value: float | None, lower: float, upper: float) -> str:
    wide = value is None or (upper - lower) / 2 > value
    return TOO_SMALL if wide and lower < TELLING / 10 and upper > TELLING else ""


def _shown(number: NoisyNumber) -> Shown:
    return Shown(number.value, number.lower, number.upper, number.note)


def _exact(rates: Mapping[str, float]) -> dict[str, Shown]:
    return {label: Shown(rate) for label, rate in rates.items()}


def _down(order: tuple[float, float]) -> tuple[float, float]:
    return -order[0], -order[1]
