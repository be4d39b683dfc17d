"""What a synthesizer is: measure private rows once, within ρ; everything after is free. It imports no mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Relation, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.base import Model


class Mechanism(Protocol):
    """A synthesizer. Its settings are public fields; rows and noise come only as arguments and are never kept."""

    @property
    def name(self) -> str:
        """As in the papers: MST, AIM, GEM."""
        ...

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Everything it takes from the rows: at most `rho` in zCDP, neighbours by adding or removing one row.

        `known` holds measurements of the same rows that were paid for before (a noisy count, say); the result starts
        with them.
        """
        ...

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """The model that measurements imply. No cost."""
        ...


@runtime_checkable
class ForeignMechanism(Mechanism, Protocol):
    """A synthesizer of other people's that fits by itself: it gives a model, but no measurements that we could keep."""

    @property
    def software(self) -> str:
        """What does the fitting, with its version, for the card."""
        ...

    @property
    def caveats(self) -> tuple[str, ...]:
        """What makes its guarantee weaker than the price alone says, a sentence each, for the card."""
        ...

    @property
    def relation(self) -> Relation:
        """Which neighbours its guarantee can be about: the weaker relation where it uses the exact number of rows."""
        ...

    def within(self, folder: Path) -> ForeignMechanism:
        """Itself, leaving rows nowhere but in this private folder, which the caller removes however the run ends."""
        ...

    def fit(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """See `equistrata.synth.mechanisms.base.fit`. The measurements tell at least the number of rows."""
        ...


@dataclass(frozen=True, eq=False)
class Fit:
    """What fitting one table yields: the measurements that were paid for, and their model."""

    measurements: tuple[Measurement, ...]
    model: Model


def fit(
    mechanism: Mechanism, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
) -> Fit:
    """Measure a table at `rho` and model it. Cost: `rho` in zCDP under add/remove, beyond what `known` has cost."""
    if isinstance(mechanism, ForeignMechanism):
        return mechanism.fit(table, rho, noise, known)
    measurements = mechanism.measure(table, rho, noise, known)
    return Fit(tuple(measurements), mechanism.model(table.schema, measurements))
