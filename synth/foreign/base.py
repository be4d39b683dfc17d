"""What all synthesizers of other projects have in common, as mechanisms: they draw rows in a process of their own.

Of each stratum the adapter buys a noisy number of rows, unless that was paid for, and has the rest spent by the
synthesizer. What comes back is a pool of rows, which stands for a model. The guarantee is the synthesizer's own claim:
see `Mechanism.caveats`, which every card prints.
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

    Attributes:
        synthesizer: its name.
        python: the interpreter that has it; None for the one that the kind of synthesizer says.
        delta: the δ that it is given, where ρ is given and no `promise`.
        count_share: part of the price of a stratum for a noisy number of rows, where none was paid for before.
        folder: where the private folder that rows pass through is made; None for the system's temporary folder.
        promise: what it is given to spend, where the release's price was made for that; None to give it what ρ buys.
    """

    synthesizer: str = ""
    python: str | None = None
    delta: float = 1e-9
    count_share: float = COUNT_SHARE
    folder: Path | None = None
    promise: Promise | None = None

    @property
    def keeps_measurements(self) -> bool:
        """It gives rows and nothing else."""
        return False

    @property
    @abstractmethod
    def converts(self) -> bool:
        """Whether it turns (ε, δ) into ρ and spends that, as our own do; else it promises (ε, δ)-DP and no more."""

    @property
    @abstractmethod
    def pure(self) -> bool:
        """Whether it promises ε-DP, and is given no δ."""

    @abstractmethod
    def interpreter(self) -> Path:
        """Where its Python is. Raises InputError if it is not there."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Which synthesizer it is, for `_foreign_worker`."""

    @abstractmethod
    def check(self) -> Self:
        """Itself, if its environment is there and has it. Raises InputError if not."""

    def check_cells(self, schema: Schema) -> None:
        """Raise InputError if a table of this schema has more combinations of codes than it can take."""

    def promised(self, epsilon: float, delta: float, aside: Rho, account: tuple[float, float] | None = None) -> Self:
        """Itself, with what keeps a release (ε, δ)-DP of which `aside` is spent otherwise (`Promise.within`)."""
        promise = Promise.within(epsilon, delta, aside, pure=self.pure, account=account, count_share=self.count_share)
        return replace(self, promise=promise)

    def working_in(self, folder: Path) -> Self:
        """See `Mechanism.working_in`."""
        return replace(self, folder=folder)

    def measure(
        self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()
    ) -> list[Measurement]:
        """Only `known` and a noisy number of rows, at `rho` if that is not known: the rest is the synthesizer's own."""
        if math.isfinite(total_estimate(known)[1]):
            return list(known)
        return [*known, measure_marginal(table, (), rho, Budget(rho), noise)]

    def model(self, schema: Schema, measurements: Sequence[Measurement]) -> Model:
        """Always raises InputError: there are no measurements to model."""
        raise InputError(f"{self.name} keeps no measurements, so its models cannot be made again; fit it instead")

    def fit_table(self, table: CodedTable, rho: Rho, noise: NoiseSource, known: Sequence[Measurement] = ()) -> Fit:
        """Fit one table, with a noisy number of its rows if `known` does not hold it.

        Cost: `rho` in zCDP by the synthesizer's own account; see `caveats`. One that `converts` gets the (ε, δ) that
        its part of ρ implies; for any other see `Promise`. One made-up row from the declared domain joins the table,
        so that an empty stratum can be fitted.

        Raises:
            InputError: the environment is not there, or the domain is too large.
            BudgetExceeded: the promise costs more than ρ.
            ForeignFailed: the child process failed.
        """
        self.check_cells(table.schema)
        if table.schema.unit != ROW or table.schema.survey_weight is not None:
            raise InputError(
                f"{self.name} accounts for one row only, in its own way, and schema {table.schema.name!r} declares a "
                "unit or a survey weight; choose mst or aim"
            )
        budget, measurements = Budget(rho), list(known)
        counted = math.isfinite(total_estimate(known)[1])
        if self.converts:
            if not counted:
                measurements.append(measure_marginal(table, (), rho * self.count_share, budget, noise))
            rest = budget.spend(budget.remaining, self.name)
            epsilon, delta = rest.epsilon(self.delta) * (1 - 1e-9), self.delta  # a hair less, since ε was rounded up
        else:
            promise = self.promise or Promise.costing(
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
        """The pool: possible rows that it drew."""
        schema = table.schema
        private = np.concatenate([table.codes.astype(np.uint32), uniform(schema, 1).codes.astype(np.uint32)])
        job = dict(self.settings()) | {"epsilon": epsilon, "delta": delta, "draw": rows}
        given = CodedTable(private.astype(code_dtype(schema)), schema)
        pool = possible(draw(str(self.interpreter()), job, given, self.name, self.folder))
        if not len(pool):
            pool = possible(uniform(schema, SMALLEST_POOL))
        if not len(pool):
            raise ForeignFailed(f"{self.name} drew only rows that schema {schema.name!r} declares impossible")
        return pool


def uniform(schema: Schema, rows: int) -> CodedTable:
    """Made-up rows of the declared domain."""
    codes = np.random.default_rng().integers(0, schema.sizes, (rows, len(schema.sizes)))
    return CodedTable(codes.astype(code_dtype(schema)), schema)


def possible(table: CodedTable) -> CodedTable:
    """The rows that hold no combination that the schema declares impossible."""
    return table.take(~table.ruled_out())
