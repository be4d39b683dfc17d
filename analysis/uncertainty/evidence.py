"""The measurements of a release and the model that is fitted to them.

All estimates and replicates are computed from these. Public weights of groups are not included. They only determine the
number of rows that were drawn for each stratum, and do not describe the private table. They may come from another year,
or be unequal by design. All results are post-processing of published numbers, so they cost no privacy. This applies to
releases of any age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.strata import Key, Strata
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.errors import enough_memory
from equistrata.stats.threads import one_thread
from equistrata.synth.measurements import Columns, Measurement, total_estimate
from equistrata.synth.mechanisms.base import Mechanism, SharingMechanism
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.strata.fitting import StrataMeasurements, model_strata
from equistrata.synth.strata.model import StratifiedModel, noisy_weights, rows_of_units
from equistrata.synth.strata.shrinkage import predict_from_others


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy measurements and the settings of the model.

    Attributes:
        strata: of the release, over the schema of what was modelled (`Schema.modelled`).
        measured: as `load_all_measurements` reads them: stratum → measurements, or `()` → those of the whole table.
        mechanism: as the release had it.
        shrinkage: whether small strata borrow from the others.
        held_out: the part of the rows that the release kept for tests, in [0, 1): measurements, and the model's total,
            are of the others.
        stored: the fitted model as a release keeps it for its readers; None to fit it when it is needed.
    """

    strata: Strata
    measured: StrataMeasurements
    mechanism: Mechanism
    shrinkage: bool = True
    held_out: float = 0.0
    stored: StratifiedModel | None = None

    @classmethod
    def of(cls, strata: Strata, measured: StrataMeasurements, mechanism: Mechanism, **more: Any) -> Evidence:
        """Create the evidence of a release with these strata. The measurements may include UNIT_ROWS."""
        return cls(Strata.over(strata.schema.modelled, strata.columns), measured, mechanism, **more)

    @cached_property
    def all(self) -> tuple[Measurement, ...]:
        """The measured counts of rows.

        They are equal to `published` unless units count as one. In this case, the measurements with UNIT_ROWS are
        converted to counts of rows.
        """
        if not self.strata.schema.weighed:
            return self.published
        return tuple(self._of_rows(each) for each in self.published if UNIT_ROWS in each.columns)

    @property
    def names(self) -> Columns:
        """The names of the released columns."""
        weight = self.strata.schema.expanded_by
        apart = {UNIT_ROWS} if weight is None else {UNIT_ROWS, weight.name}
        return tuple(name for name in self.strata.schema.names if name not in apart)

    def rows_of(self, values: Sequence[Floats]) -> list[Floats]:
        """Convert values of `published` to values of `all`.

        Parameters
        ----------
        values : sequence of ndarray
            One array for each measurement in `published`.

        Returns
        -------
        list of ndarray
            One array for each measurement in `all`.
        """
        if not self.strata.schema.weighed:
            return [*values]
        changed = (replace(each, values=new) for each, new in zip(self.published, values, strict=True))
        return [self._of_rows(each).values for each in changed if UNIT_ROWS in each.columns]

    @property
    def unit_sizes(self) -> Floats:
        """The number of rows of a unit for each code of UNIT_ROWS."""
        return np.array(self.strata.schema[UNIT_ROWS].values, dtype=np.float64)

    def _of_rows(self, measurement: Measurement) -> Measurement:
        """Convert a measurement of units by their number of rows to a measurement of rows."""
        axis, sizes = measurement.columns.index(UNIT_ROWS), self.unit_sizes
        columns, groups = list(measurement.columns), list(measurement.groups)
        del columns[axis], groups[axis]
        values, sigma = (
            np.moveaxis(measurement.values, axis, -1) @ sizes,
            measurement.sigma * float(np.hypot.reduce(sizes)),
        )
        return replace(measurement, columns=tuple(columns), groups=tuple(groups), values=values, sigma=sigma)

    @cached_property
    def published(self) -> tuple[Measurement, ...]:
        """All measurements. The measurements of a single stratum have its codes in `where`."""
        return tuple(
            replace(each, where=(*self.strata.codes_of(key).items(), *each.where)) if key else each
            for key, measurements in self.measured.items()
            for each in measurements
        )

    @cached_property
    def fitted(self) -> StratifiedModel:
        """The model of what was measured, by the same steps as in the release: of units, where they count as one."""
        return self._model(self.measured) if self.stored is None else self.stored

    @cached_property
    def shares(self) -> Mapping[Key, float]:
        """The share of each stratum in `model`. No model is fitted if the strata were measured separately."""
        if set(self.measured) == {()} or self.strata.schema.weighed:
            return self.model.weights.shares
        return noisy_weights(self.strata, self.measured).shares

    @cached_property
    def model(self) -> StratifiedModel:
        """The model of rows."""
        return self.of_rows(self.fitted)

    def of_rows(self, fitted: StratifiedModel) -> StratifiedModel:
        """Convert a model of the measurements to a model of rows."""
        return rows_of_units(fitted)

    def refitted(self, changed: Sequence[Measurement]) -> StratifiedModel:
        """Fit the model to other measurements.

        Parameters
        ----------
        changed : sequence of Measurement
            The measurements in the order of `published`.

        Returns
        -------
        StratifiedModel
            The model, which is fitted by the same steps as `fitted`.
        """
        found, start = {}, 0
        for key, measurements in self.measured.items():
            part = changed[start : start + len(measurements)]
            start += len(measurements)
            found[key] = [replace(new, where=old.where) for new, old in zip(part, measurements, strict=True)]
        return self._model(found)

    def without(self, dropped: Sequence[bool]) -> StratifiedModel:
        """Fit the model without some of the measurements.

        Parameters
        ----------
        dropped : sequence of bool
            One element for each measurement in `published`. The measurement is left out if it is True.

        Returns
        -------
        StratifiedModel
            The model, which is fitted by the same steps as `fitted`.
        """
        places, found = iter(dropped), {}
        for key, measurements in self.measured.items():
            found[key] = [each for each in measurements if not next(places)]
        return self._model(found)

    def _model(self, measured: Mapping[Key, Sequence[Measurement]]) -> StratifiedModel:
        largest = max(
            (each for found in measured.values() for each in found), key=lambda each: each.values.size, default=None
        )
        what = "the model of this release"
        if largest is not None:
            what += f" (its largest marginal, {' × '.join(largest.columns)}, has {largest.values.size:,} cells)"
        with (
            one_thread(),
            enough_memory(what, "use a machine with more memory, or ask about columns that were measured together"),
        ):
            return self._made(measured)

    def _made(self, measured: Mapping[Key, Sequence[Measurement]]) -> StratifiedModel:
        mechanism = self.mechanism
        if set(measured) == {()} and self.strata.columns:
            engine = mechanism.engine if isinstance(mechanism, SharingMechanism) else MirrorDescent()
            return model_strata(self.strata, measured[()], engine, self.shrinkage)
        borrowing = self.shrinkage and len(self.strata.keys) > 1
        extras = predict_from_others(self.strata, measured) if borrowing else {key: [] for key in measured}
        models = {
            key: mechanism.model(self.strata.rest(key), [*measured[key], *extras[key]]) for key in self.strata.keys
        }
        total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measured.values())
        return StratifiedModel(self.strata, models, noisy_weights(self.strata, measured), total)
