"""What a synthesizer is: it measures private rows once, within ρ; everything after is post-processing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Self

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import ADD_REMOVE, Relation, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.measurements import Columns, Measurement
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.session import Session, Step
from equistrata.synth.models.base import Model
from equistrata.synth.models.coarsening import modelled
from equistrata.synth.models.estimation import Estimator


@dataclass(frozen=True, eq=False)
class Fit:
    """What fitting one table yields: the measurements that were paid for, and their model."""

    measurements: tuple[Measurement, ...]
    model: Model


class Mechanism(ABC):
    """A synthesizer. Its settings are public fields; rows and noise come only as arguments and are never kept."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As in the papers: MST, AIM, GEM."""

    @abstractmethod
    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """All that it releases of the rows. Cost: at most `rho` in zCDP; neighbours differ by one added or removed row.

        Args:
            known: measurements of the same rows that were paid for before (a noisy count, say). The result starts
                with them.
        """

    @abstractmethod
    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """The model that measurements imply. Post-processing."""

    def fit_table(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """Measure a table and model it. Cost: as `measure`; nothing for `known`."""
        measurements = self.measure(table, rho, noise, known)
        return Fit(tuple(measurements), self.model(table.schema, measurements))

    @property
    def choice_part(self) -> float | None:
        """What each choice costs, as a part of what measuring the chosen costs; None where that part is not fixed."""
        return None

    @property
    def strata(self) -> Columns:
        """The columns of the strata that one run serves with one choice; none if it knows of no strata."""
        return ()

    # What other projects' synthesizers say otherwise.

    @property
    def keeps_measurements(self) -> bool:
        """Whether `measure` yields all that the model is made of. If not, only `fit_table` makes a model."""
        return True

    @property
    def software(self) -> str:
        """The other project that does the fitting, with its version, for the card; empty for ours."""
        return ""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What makes the guarantee weaker than the price alone says, a sentence each, for the card."""
        return ()

    @property
    def relation(self) -> Relation:
        """Which neighbours the guarantee is about."""
        return ADD_REMOVE

    def try_out(self, schema: Schema) -> None:  # noqa: B027
        """Raise InputError where it fails on made-up rows of a stratum's schema."""

    def working_in(self, folder: Path) -> Mechanism:
        """Itself, leaving rows nowhere but in this private folder, which the caller removes however the run ends."""
        return self


class LoggedMechanism(Mechanism):
    """A mechanism that accounts for each of its steps."""

    @abstractmethod
    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """As `measure`, with a Step for each measurement after `known` and each choice of nothing; they add up to ρ."""

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """See `Mechanism.measure`."""
        return self.measure_with_log(table, rho, noise, known)[0]


@dataclass(frozen=True)
class Opening:
    """What a run decides before it first chooses, from the schema and noisy numbers alone. Post-processing.

    Attributes:
        first: the marginals that are measured again if no pair can be read, each at what it cost.
        names: the columns whose pairs are offered.
        levels: where they are offered.
        tree: ρ by which the gate judged whether a tree of pairs can be read.
        choices: how many pairs (AIM: sets of columns) are chosen and bought at most; 0 where the gate is shut.
        price: ρ that each of them gets, or more where fewer are bought; 0 where none is.
        each: what measures each stratum by itself with `tree`, all that is left; None for one choice for all of them.
        power: what was chosen shares its ρ by its cells to this power; 0 for equal parts.
    """

    first: Sequence[tuple[Columns, Rho]]
    names: Columns
    levels: Levels
    tree: Rho
    choices: int
    price: Rho
    each: SharingMechanism | None = None
    power: float = 0.0

    def parts(self, schema: Schema) -> dict[Columns, float]:
        """Pair of columns that is offered → how much of an equal part it gets among as many as may be bought.

        In a random spanning tree each pair is as likely as another, so their mean stands for what is chosen beside it.
        """
        pairs = list(combinations(self.names, 2))
        weights = [prod(schema[name].size for name in pair) ** self.power for pair in pairs]
        return {pair: weight * len(pairs) / sum(weights) for pair, weight in zip(pairs, weights, strict=True)}


class SharingMechanism(LoggedMechanism):
    """A mechanism that can make one choice of marginals for all strata (`levels`), and models them by an `engine`."""

    levels: Levels
    engine: Estimator
    readable: float

    @abstractmethod
    def opening(self, session: Session) -> Opening:
        """Measure what needs no choice, and decide what pairs may cost. Cost: what is measured."""

    @abstractmethod
    def with_levels(self, strata: Columns, coarse: bool, fine: bool, each: bool = True) -> Self:
        """Itself, choosing once for these strata: among marginals over all rows (`coarse`), within strata (`fine`).

        With `each`, it may leave the choice to each of them where all are large.
        """

    @property
    @abstractmethod
    def model_size(self) -> float:
        """The largest model that it makes on purpose, in MiB of its junction tree's tables."""

    @property
    def strata(self) -> Columns:
        """See `Mechanism.strata`."""
        return self.levels.strata

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """See `Mechanism.model`."""
        return modelled(schema, measurements, self.engine)


def serving_all(mechanism: Mechanism) -> SharingMechanism | None:
    """The mechanism, if one run of it serves all strata."""
    return mechanism if isinstance(mechanism, SharingMechanism) and mechanism.strata else None
