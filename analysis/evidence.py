"""What a release measured, and the model that follows from it: all that estimates and replicates are made of.

Post-processing of published numbers: nothing here costs privacy, for releases of any age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from equistrata.data.strata import Key, Strata
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.base import Mechanism, SharingMechanism
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.fitting import StrataMeasurements, cut_strata
from equistrata.synth.strata.model import StratifiedModel, noisy_weights


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy measurements and how a model was made of them.

    Attributes:
        strata: of the release.
        measured: as `load_all_measurements` reads them: stratum → measurements, or `()` → those of the whole table.
        mechanism: as the release had it.
        shrinkage: whether small strata borrow from the others.
        held_out: the part of the rows that the release kept for tests, in [0, 1): measurements, and the model's total,
            are of the others.
        weights: of the strata where they are public numbers; None where they follow from the measurements.
    """

    strata: Strata
    measured: StrataMeasurements
    mechanism: Mechanism
    shrinkage: bool = True
    held_out: float = 0.0
    weights: PublicWeights | None = None

    @cached_property
    def all(self) -> tuple[Measurement, ...]:
        """Every measurement, that of a stratum by itself with `where`."""
        return tuple(
            replace(each, where=(*self.strata.codes_of(key).items(), *each.where)) if key else each
            for key, measurements in self.measured.items()
            for each in measurements
        )

    @cached_property
    def model(self) -> StratifiedModel:
        """The model, by the same steps as in the release."""
        return self._model(self.measured)

    def refitted(self, changed: Sequence[Measurement]) -> StratifiedModel:
        """The model of other measurements in place of `all`, in their order."""
        found, start = {}, 0
        for key, measurements in self.measured.items():
            part = changed[start : start + len(measurements)]
            start += len(measurements)
            found[key] = [replace(new, where=old.where) for new, old in zip(part, measurements, strict=True)]
        return self._model(found)

    def without(self, dropped: Sequence[bool]) -> StratifiedModel:
        """The model of `all` but those that are dropped, one truth value for each."""
        places, found = iter(dropped), {}
        for key, measurements in self.measured.items():
            found[key] = [each for each in measurements if not next(places)]
        return self._model(found)

    def _model(self, measured: Mapping[Key, Sequence[Measurement]]) -> StratifiedModel:
        if set(measured) == {()} and self.strata.columns:
            engine = self.mechanism.engine if isinstance(self.mechanism, SharingMechanism) else None
            model = cut_strata(self.strata, measured[()], engine, self.shrinkage)
        else:
            borrowing = self.shrinkage and len(self.strata.keys) > 1
            extras = borrow(self.strata, measured) if borrowing else {key: [] for key in measured}
            models = {
                key: self.mechanism.model(self.strata.rest(key), [*measured[key], *extras[key]])
                for key in self.strata.keys
            }
            total = sum(max(total_estimate(noisy)[0], 0.0) for noisy in measured.values())
            model = StratifiedModel(self.strata, models, noisy_weights(self.strata, measured), total)
        return model if self.weights is None else replace(model, weights=self.weights)


def check_keeps(mechanism: Mechanism) -> None:
    """Raise InputError for a mechanism that keeps no measurements: nothing says how far off its rows are."""
    if not mechanism.keeps_measurements:
        raise InputError(
            f"a release by {mechanism.name} publishes no measurements, so nothing says how far off its rows are; make "
            "it with mst, aim or gem"
        )
