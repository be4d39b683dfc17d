"""What a synthesizer and its model are: measure private rows once, within ρ; everything after is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from data.errors import InputError
from data.schema import Schema
from data.table import CodedTable
from privacy.budget import Relation, Rho
from privacy.noise import Floats, NoiseSource
from synth.aim import AIM
from synth.estimation import Estimator, MirrorDescent
from synth.gem import GEM
from synth.measurements import Measurement
from synth.mst import MST


class Model(Protocol):
    """A fitted distribution over rows. Using it is post-processing and costs nothing."""

    @property
    def schema(self) -> Schema: ...

    @property
    def total(self) -> float:
        """The number of rows it stands for (noisy or public)."""
        ...

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Expected counts over any columns, one axis each, summing to `total`."""
        ...

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[Model, float]:
        """The model given that columns have one of these codes, and the probability of that."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw rows."""
        ...


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
        """See `synth.mechanism.fit`. The measurements tell at least the number of rows."""
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


ENGINES = ("numpy", "mbi")
MECHANISMS = ("aim", "gem", "mst")


def estimator(engine: str) -> Estimator:
    """The estimation engine of that name. Raises InputError if it is unknown or not installed."""
    if engine == "numpy":
        return MirrorDescent()
    if engine != "mbi":
        raise InputError(f"unknown engine {engine!r}; choose {' or '.join(ENGINES)}")
    try:
        from synth.engine_mbi import MbiEngine
    except ImportError:
        raise InputError("engine 'mbi' is not installed; install equistrata[reference] or use engine 'numpy'") from None
    return MbiEngine()


def mechanism(name: str, engine: str = "numpy") -> Mechanism:
    """The synthesizer of that name with default settings. Raises InputError if it is unknown.

    >>> mechanism("mst").name
    'MST'
    """
    known = name.lower()
    if known.startswith("smartnoise-"):
        from synth.smartnoise import smartnoise

        return smartnoise(name)
    if known == "aim":
        return AIM() if engine == "numpy" else AIM(engine=estimator(engine), round_engine=estimator(engine))
    if known == "gem":
        if engine != "numpy":
            raise InputError(f"synthesizer 'gem' trains its own model and has no engine {engine!r}; leave it out")
        return GEM()
    if known == "mst":
        return MST(engine=estimator(engine))
    raise InputError(f"unknown synthesizer {name!r}; choose {' or '.join(MECHANISMS)}")
