"""The interface of synthesizers.

A synthesizer measures private rows once, within ρ. All later steps are post-processing.
"""

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
    """The result of fitting one table: the measurements and the model that is estimated from them."""

    measurements: tuple[Measurement, ...]
    model: Model


class Mechanism(ABC):
    """A synthesizer.

    Its settings are public fields. Rows and noise are passed only as arguments and are never stored.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the mechanism in the papers, for example MST, AIM or GEM."""

    @abstractmethod
    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure private rows.

        The result is all that the mechanism releases about the rows.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The maximum privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for, for example a noisy count.

        Returns
        -------
        list of Measurement
            The known measurements, followed by the new measurements.

        Privacy
        -------
        The new measurements are `rho`-zCDP. Neighbouring tables differ by one added or removed row.
        """

    @abstractmethod
    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """Estimate the model from measurements.

        The estimation is post-processing.

        Parameters
        ----------
        schema : Schema
            The schema of the measured table.
        measurements : sequence of Measurement
            The measurements.

        Returns
        -------
        Model
            The estimated model.
        """

    def fit_table(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """Measure a table and estimate its model.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The maximum privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        Fit
            The measurements and the model.

        Privacy
        -------
        The fit has the privacy cost of `measure`. The known measurements have no further cost.
        """
        measurements = self.measure(table, rho, noise, known)
        return Fit(tuple(measurements), self.model(table.schema, measurements))

    @property
    def choice_part(self) -> float | None:
        """The cost of a selection as a fraction of the cost of the selected measurement, or None if the fraction
        varies.
        """
        return None

    @property
    def strata(self) -> Columns:
        """The columns of the strata that one run serves with one selection.

        The tuple is empty if the mechanism does not use strata.
        """
        return ()

    # Synthesizers of other projects override the following members.

    @property
    def keeps_measurements(self) -> bool:
        """Return True if `measure` returns all the information from which the model is made.

        If False, only `fit_table` can make a model.
        """
        return True

    @property
    def software(self) -> str:
        """The name and the version of the other project that fits the model.

        The text is shown on the card. It is empty for our mechanisms.
        """
        return ""

    @property
    def caveats(self) -> tuple[str, ...]:
        """The reasons why the guarantee is weaker than the privacy cost suggests.

        They are shown on the card, as one sentence per reason.
        """
        return ()

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the privacy guarantee."""
        return ADD_REMOVE

    def try_out(self, schema: Schema) -> None:  # noqa: B027
        """Raise InputError if the mechanism fails on made-up rows of the schema of a stratum."""

    def working_in(self, folder: Path) -> Mechanism:
        """Return a mechanism that stores rows only in the given private folder.

        The caller removes the folder at the end of the run, even if the run fails.
        """
        return self


class LoggedMechanism(Mechanism):
    """A mechanism that logs the cost of each of its steps."""

    @abstractmethod
    def measure_with_log(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> tuple[list[Measurement], list[Step]]:
        """Measure private rows and log the steps.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The maximum privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        measurements : list of Measurement
            The result of `measure`.
        log : list of Step
            One step per new measurement, and one step per selection of no marginal. The costs of the steps add up to ρ.

        Privacy
        -------
        The new measurements are `rho`-zCDP. Neighbouring tables differ by one added or removed row.
        """

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """See `Mechanism.measure`."""
        return self.measure_with_log(table, rho, noise, known)[0]


@dataclass(frozen=True)
class Opening:
    """The decisions of a run before its first selection.

    They are based on the schema and on noisy numbers, so they are post-processing.

    Parameters
    ----------
    first : sequence of (tuple of str, Rho)
        The marginals that are measured again if no pair can be measured with little noise, with the cost of each.
    names : tuple of str
        The columns from which pairs are selected.
    levels : Levels
        The levels at which pairs can be selected.
    tree : Rho
        The ρ that was used to decide if a tree of pairs can be measured.
    choices : int
        The maximum number of pairs that are selected and measured. For AIM, it is the number of sets of columns. It is
        0 if pairs are too noisy to measure.
    price : Rho
        The ρ of each selected pair. It increases if fewer pairs are measured. It is 0 if no pair is measured.
    each : SharingMechanism or None, default=None
        The mechanism that measures each stratum separately with `tree`, which is all of the remaining ρ. If None, one
        selection serves all strata.
    power : float, default=0.0
        The exponent with which the selected marginals share ρ by their numbers of cells. If 0, they share ρ equally.
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
        """Compute the share of each pair of columns relative to an equal share.

        The shares assume that the maximum number of pairs is measured. In a random spanning tree, all pairs are equally
        likely, so the mean over all pairs represents the other selected pairs.

        Parameters
        ----------
        schema : Schema
            The schema of the columns.

        Returns
        -------
        dict of tuple of str to float
            For each pair that can be selected, its share of ρ divided by an equal share.
        """
        pairs = list(combinations(self.names, 2))
        weights = [prod(schema[name].size for name in pair) ** self.power for pair in pairs]
        return {pair: weight * len(pairs) / sum(weights) for pair, weight in zip(pairs, weights, strict=True)}


class SharingMechanism(LoggedMechanism):
    """A mechanism that can select marginals once for all strata.

    Parameters
    ----------
    levels : Levels
        The strata, and the levels at which marginals can be measured.
    engine : Estimator
        The engine that estimates the model.
    readable : float
        The maximum noise floor at which marginals are selected, as a fraction of the number of rows.
    """

    levels: Levels
    engine: Estimator
    readable: float

    @abstractmethod
    def opening(self, session: Session) -> Opening:
        """Measure the marginals that need no selection, and decide the price of pairs.

        Parameters
        ----------
        session : Session
            The session, which is charged for the measurements.

        Returns
        -------
        Opening
            The decisions.

        Privacy
        -------
        The cost is the sum of the costs of the measurements.
        """

    @abstractmethod
    def with_levels(self, strata: Columns, coarse: bool, fine: bool, each: bool = True) -> Self:
        """Return a copy of the mechanism that selects once for the given strata.

        Parameters
        ----------
        strata : tuple of str
            The columns that define the strata.
        coarse : bool
            If True, marginals over all rows can be selected.
        fine : bool
            If True, marginals within strata can be selected.
        each : bool, default=True
            If True, each stratum may have its own selection if all strata are large.

        Returns
        -------
        SharingMechanism
            The copy of the mechanism.
        """

    @property
    @abstractmethod
    def model_size(self) -> float:
        """The maximum size of the model, in MiB of the tables of its junction tree.

        Models can be larger if the measured marginals require it.
        """

    @property
    def strata(self) -> Columns:
        """See `Mechanism.strata`."""
        return self.levels.strata

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """See `Mechanism.model`."""
        return modelled(schema, measurements, self.engine)


def shared_mechanism(mechanism: Mechanism) -> SharingMechanism | None:
    """Return the mechanism if one run of it serves all strata. Otherwise, return None."""
    return mechanism if isinstance(mechanism, SharingMechanism) and mechanism.strata else None
