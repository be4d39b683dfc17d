"""The base class of mechanisms that use a synthesizer of another project.

The synthesizer draws rows in a separate process. For each stratum, the adapter measures a noisy number of rows, unless
it is already known, and the synthesizer spends the rest of the budget. The result is a pool of rows, which is used as a
model. The privacy guarantee is the claim of the synthesizer. See `Mechanism.caveats`, which every card prints.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.unit import ROW
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource
from equistrata.synth.counting import measure_marginal
from equistrata.synth.foreign.child import ForeignFailed, draw
from equistrata.synth.foreign.promise import COUNT_SHARE, Promise
from equistrata.synth.measurements import Measurement, total_estimate
from equistrata.synth.mechanisms.base import Fit, Mechanism
from equistrata.synth.models.base import Model
from equistrata.synth.models.pool import SampledModel

SMALLEST_POOL, LARGEST_POOL = 10_000, 1_000_000


@dataclass(frozen=True)
class ForeignSynthesizer(Mechanism):
    """A synthesizer of another project.

    Parameters
    ----------
    synthesizer : str
        The name of the synthesizer.
    python : str or None, default=None
        The path of the Python interpreter of the synthesizer. If None, the default of the subclass is used.
    delta : float, default=1e-9
        The δ that is passed to the synthesizer if ρ is given and `promise` is None.
    count_share : float, default=0.02
        The fraction of the price of a stratum for a noisy number of rows, if this number is not known yet.
    folder : Path or None, default=None
        The folder in which the private folder for the rows is created. If None, it is the temporary folder of the
        system.
    promise : Promise or None, default=None
        The budget of the synthesizer, if the price of the release was computed for it. If None, the synthesizer gets
        the budget that ρ allows.
    """

    synthesizer: str = ""
    python: str | None = None
    delta: float = 1e-9
    count_share: float = COUNT_SHARE
    folder: Path | None = None
    promise: Promise | None = None

    @property
    def keeps_measurements(self) -> bool:
        """Return False, because the synthesizer returns only rows."""
        return False

    @property
    @abstractmethod
    def converts(self) -> bool:
        """Return True if the synthesizer converts (ε, δ) to ρ and spends ρ, as our own mechanisms do.

        If False, the synthesizer only promises (ε, δ)-DP.
        """

    @property
    @abstractmethod
    def pure(self) -> bool:
        """Return True if the synthesizer promises ε-DP and gets no δ."""

    @abstractmethod
    def interpreter(self) -> Path:
        """Return the path of the Python interpreter of the synthesizer.

        Raises
        ------
        InputError
            If the interpreter does not exist.
        """

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return the settings that identify the synthesizer for `_foreign_worker`."""

    @abstractmethod
    def check(self) -> Self:
        """Check that the environment exists and has the synthesizer.

        Returns
        -------
        ForeignSynthesizer
            This synthesizer.

        Raises
        ------
        InputError
            If the environment or the synthesizer is missing.
        """

    def check_cells(self, schema: Schema) -> None:
        """Raise InputError if a table of this schema has more combinations of codes than the synthesizer supports."""

    def promised(self, epsilon: float, delta: float, aside: Rho, account: tuple[float, float] | None = None) -> Self:
        """Return a copy of the synthesizer with a budget that keeps the release (ε, δ)-DP.

        Parameters
        ----------
        epsilon, delta : float
            The privacy parameters of the release.
        aside : Rho
            The ρ that the release spends on other results.
        account : (float, float) or None, default=None
            The ε and the δ of the budget that is charged (see `Promise.within`).

        Returns
        -------
        ForeignSynthesizer
            The copy of the synthesizer.
        """
        promise = Promise.within(epsilon, delta, aside, pure=self.pure, account=account, count_share=self.count_share)
        return replace(self, promise=promise)

    def working_in(self, folder: Path) -> Self:
        """See `Mechanism.working_in`."""
        return replace(self, folder=folder)

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Measure the noisy number of rows, unless it is known.

        The other results of the synthesizer are not measurements.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost of the number of rows in zCDP.
        noise : NoiseSource
            The source of the noise.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        list of Measurement
            The known measurements and the number of rows.

        Privacy
        -------
        The number of rows is `rho`-zCDP. Neighbouring tables differ by one added or removed row.
        """
        if math.isfinite(total_estimate(known)[1]):
            return list(known)
        return [*known, measure_marginal(table, (), rho, Budget(rho), noise)]

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """Raise InputError, because there are no measurements from which a model can be estimated."""
        raise InputError(
            f"{self.name} stores no measurements, so its models cannot be made from measurements; fit it instead"
        )

    def fit_table(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """Fit the synthesizer to a table.

        The noisy number of rows is measured if it is not in `known`. One made-up row from the declared domain is added
        to the table, so that an empty stratum can be fitted.

        Parameters
        ----------
        table : CodedTable
            The private rows.
        rho : Rho
            The privacy cost in zCDP.
        noise : NoiseSource
            The source of the noise for the number of rows.
        known : sequence of Measurement, default=()
            Measurements of the same rows that are already paid for.

        Returns
        -------
        Fit
            The measurements and the pool of drawn rows.

        Raises
        ------
        InputError
            If the environment is missing, if the domain is too large, or if the schema declares a unit or a survey
            weight.
        BudgetExceeded
            If the promise costs more than `rho`.
        ForeignFailed
            If the child process failed.

        Privacy
        -------
        The cost is `rho` in zCDP according to the accounting of the synthesizer (see `caveats`). A synthesizer that
        `converts` gets the (ε, δ) that its part of ρ implies. For other synthesizers, see `Promise`.
        """
        self.check_cells(table.schema)
        if table.schema.unit != ROW or table.schema.survey_weight is not None:
            raise InputError(
                f"{self.name} only protects one row, but schema {table.schema.name!r} declares a unit or a survey "
                "weight; choose mst or aim"
            )
        budget, measurements = Budget(rho), list(known)
        counted = math.isfinite(total_estimate(known)[1])
        if self.converts:
            if not counted:
                measurements.append(measure_marginal(table, (), rho * self.count_share, budget, noise))
            rest = budget.spend(budget.remaining, self.name)
            epsilon, delta = rest.epsilon(self.delta) * (1 - 1e-9), self.delta  # slightly less, as ε was rounded up
        else:
            promise = self.promise or Promise.of_rho_and_delta(
                rho, 0.0 if self.pure else self.delta, not counted, self.count_share
            )
            budget.spend(Rho.of_pure(promise.epsilon) + promise.paid, self.name)
            if not counted:
                noisy, scale = noise.laplace(
                    lambda: np.array(float(len(table))), 1.0, promise.count, budget, "number of rows"
                )
                measurements.append(Measurement((), np.array(float(noisy)), scale * math.sqrt(2)))
            epsilon, delta = promise.epsilon, promise.delta
        total = max(total_estimate(measurements)[0], 0.0)
        rows = int(min(max(2 * total, SMALLEST_POOL), LARGEST_POOL))
        pool = self._drawn(table, epsilon, delta, rows)
        return Fit(tuple(measurements), SampledModel(total, pool))

    def _drawn(self, table: CodedTable, epsilon: float, delta: float, rows: int) -> CodedTable:
        """Draw a pool of possible rows."""
        schema = table.schema
        private = np.concatenate([table.codes.astype(np.uint32), uniform(schema, 1).codes.astype(np.uint32)])
        job = dict(self.settings()) | {"epsilon": epsilon, "delta": delta, "draw": rows}
        given = CodedTable(private.astype(code_dtype(schema)), schema)
        pool = possible(draw(str(self.interpreter()), job, given, self.name, self.folder))
        if not len(pool):
            pool = possible(uniform(schema, SMALLEST_POOL))
        if not len(pool):
            raise ForeignFailed(f"{self.name} only drew rows that schema {schema.name!r} declares impossible")
        return pool


def uniform(schema: Schema, rows: int) -> CodedTable:
    """Draw made-up rows uniformly from the declared domain.

    Parameters
    ----------
    schema : Schema
        The schema.
    rows : int
        The number of rows.

    Returns
    -------
    CodedTable
        The rows.
    """
    codes = np.random.default_rng().integers(0, schema.sizes, (rows, len(schema.sizes)))
    return CodedTable(codes.astype(code_dtype(schema)), schema)


def possible(table: CodedTable) -> CodedTable:
    """Return the rows that are not excluded by structural zeros.

    Parameters
    ----------
    table : CodedTable
        The rows.

    Returns
    -------
    CodedTable
        The possible rows.
    """
    return table.take(~table.ruled_out())
