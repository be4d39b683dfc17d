"""What a release measured, and the model that follows from it: all that estimates and replicates are made of.

Public group weights are no part of it: they say how many rows were drawn of each stratum, not what the table has, and
may be of another year, or unequal by intent.

Post-processing of published numbers: nothing here costs privacy, for releases of any age.
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
from equistrata.synth.strata.fitting import StrataMeasurements, cut_strata
from equistrata.synth.strata.model import StratifiedModel, noisy_weights, rows_of_units
from equistrata.synth.strata.shrinkage import predict_from_others


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy measurements and how a model was made of them.

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
        """Of a release with these strata; its measurements may hold UNIT_ROWS besides."""
        return cls(Strata.over(strata.schema.modelled, strata.columns), measured, mechanism, **more)

    @cached_property
    def all(self) -> tuple[Measurement, ...]:
        """Measured counts of rows: `published`, or where units count as one those by UNIT_ROWS, added up."""
        if not self.strata.schema.weighed:
            return self.published
        return tuple(self._of_rows(each) for each in self.published if UNIT_ROWS in each.columns)

    @property
    def names(self) -> Columns:
        """The released columns."""
        weight = self.strata.schema.expanded_by
        apart = {UNIT_ROWS} if weight is None else {UNIT_ROWS, weight.name}
        return tuple(name for name in self.strata.schema.names if name not in apart)

    def rows_of(self, values: Sequence[Floats]) -> list[Floats]:
        """The values of `all`, by values of `published`."""
        if not self.strata.schema.weighed:
            return [*values]
        changed = (replace(each, values=new) for each, new in zip(self.published, values, strict=True))
        return [self._of_rows(each).values for each in changed if UNIT_ROWS in each.columns]

    @property
    def unit_sizes(self) -> Floats:
        """Rows of a unit, by code of UNIT_ROWS."""
        return np.array(self.strata.schema[UNIT_ROWS].values, dtype=np.float64)

    def _of_rows(self, measurement: Measurement) -> Measurement:
        """A measurement of units by how many rows they have, as one of rows."""
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
        """Every measurement, that of a stratum by itself with `where`."""
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
        """Of each stratum, as `model` has them; where these were measured one by one, no model is made for it."""
        if set(self.measured) == {()} or self.strata.schema.weighed:
            return self.model.weights.shares
        return noisy_weights(self.strata, self.measured).shares

    @cached_property
    def model(self) -> StratifiedModel:
        """The model of rows."""
        return self.of_rows(self.fitted)

    def of_rows(self, fitted: StratifiedModel) -> StratifiedModel:
        """The model of rows that follows from one of what was measured."""
        return rows_of_units(fitted)

    def refitted(self, changed: Sequence[Measurement]) -> StratifiedModel:
        """As `fitted`, of other measurements in place of `published`, in their order."""
        found, start = {}, 0
        for key, measurements in self.measured.items():
            part = changed[start : start + len(measurements)]
            start += len(measurements)
            found[key] = [replace(new, where=old.where) for new, old in zip(part, measurements, strict=True)]
        return self._model(found)

    def without(self, dropped: Sequence[bool]) -> StratifiedModel:
        """As `fitted`, of `published` but those that are dropped, one truth value for each."""
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
        with one_thread(), enough_memory(what, "read it on a machine with more, or ask for what was measured together"):
            return self._made(measured)

    def _made(self, measured: Mapping[Key, Sequence[Measurement]]) -> StratifiedModel:
        mechanism = self.mechanism
        if set(measured) == {()} and self.strata.columns:
            engine = mechanism.engine if isinstance(mechanism, SharingMechanism) else MirrorDescent()
            return cut_strata(self.strata, measured[()], engine, self.shrinkage)
        borrowing = self.shrinkage and len(self.strata.keys) > 1
        extras = predict_from_others(self.strata, measured) if borrowing else {key: [] for key in measured}
        models = {
            key: mechanism.model(self.strata.rest(key), [*measured[key], *extras[key]]) for key in self.strata.keys
        }
        total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measured.values())
        return StratifiedModel(self.strata, models, noisy_weights(self.strata, measured), total)
