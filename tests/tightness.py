"""Cases of the tight audit: whole releases of MST and AIM, and one Gaussian measurement (docs/proofs/tightness.md).

One row more (or one unit's rows, all in one cell) is to be found out from all that a release measures and chooses, as
`tradeoff` says. The tables are the worst that were found: 34 rows over three columns of two values, where a first
choice is even and moves one score up and two down. Gaussian measurements lose all they charge on any tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from tradeoff import worst_case_mu

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.base import LoggedMechanism
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent

SCHEMA = Schema("tiny", tuple(Column(name, values=(0, 1)) for name in "ABC"))
ROWS = (6, 7, 7, 10, 4, 0, 0, 0)  # of each cell, the last column's value changing first
ITERATIONS = 5  # of an estimate: any model will do, since an attacker knows it
# A run tells most of μ where that is about 2.5; but one discrete Gaussian is close to a continuous one only for σ ≥ 1.
RHO = {"gaussian": 0.5, "mst": 3.0, "aim": 3.0}
MOST = {"gaussian": 60_000, "mst": 15_000, "aim": 15_000}  # to find a fault


@dataclass(frozen=True)
class Case:
    """What is audited.

    Attributes:
        release: of a table, with a noise source.
        charged: √(2ρ) of the ρ that is charged for a unit.
        worst: the μ that the same prices can lose at most, exactly (`worst_case_mu`).
    """

    release: Callable[[CodedTable, NoiseSource], Any]
    charged: float
    worst: float


class Remembered:
    """An engine that answers the same question once: the attacker makes each model that the release made."""

    def __init__(self, inner: MirrorDescent) -> None:
        self.inner, self.models = inner, dict[Any, Any]()

    def estimate(self, schema: Schema, measurements: Sequence[Measurement], *more: Any, **strata: Any) -> Any:
        key = tuple((m.columns, m.sigma, m.values.tobytes()) for m in measurements)
        if key not in self.models:
            if len(self.models) > 50:
                self.models.clear()
            self.models[key] = self.inner.estimate(schema, measurements, *more, **strata)
        return self.models[key]


def neighbours(rows: int = 1, spread: bool = False) -> tuple[CodedTable, CodedTable]:
    """A table, and the same with `rows` rows more: all in the first cell, or, `spread`, in turns with A = 0 and 1."""
    codes = np.repeat(np.array(list(product((0, 1), repeat=3)), dtype=np.uint8), ROWS, axis=0)
    more = np.zeros((rows, 3), dtype=np.uint8)
    if spread:
        more[:, 0] = np.arange(rows) % 2
    return CodedTable(codes, SCHEMA), CodedTable(np.vstack([codes, more]), SCHEMA)


def gaussian(table: CodedTable, noise: NoiseSource, rho: Rho) -> Measurement:
    """One measurement of all three columns."""
    return measure_marginal(table, SCHEMA.names, rho, Budget(rho), noise)


def mechanisms() -> dict[str, LoggedMechanism]:
    """MST with one tree and AIM with two or three rounds: their prices do not depend on noise, or hardly."""
    engine: Any = Remembered(MirrorDescent(iterations=ITERATIONS))
    return {
        "mst": MST(engine=engine, trees=1, choice=0.1, readable=1e9),
        "aim": AIM(engine=engine, round_engine=engine, rounds=2, degree=2, readable=1e9),
    }


@cache
def case(name: str, rows: int = 1, rho: float | None = None) -> Case:
    """A case at a charge of `rho` (of RHO, if none) for a unit of so many rows: as a group, so ρ/rows² for each row."""
    whole = rho or RHO[name]
    charge, charged = Rho(whole / rows**2), sqrt(2 * whole)
    if name == "gaussian":
        return Case(partial(gaussian, rho=charge), charged, worst_case_mu([float(charge)], [], rows))
    mechanism, table = mechanisms()[name], neighbours()[0]
    logs = [mechanism.measure_with_log(table, charge, SeededNoise(seed))[1] for seed in range(50)]
    prices = {tuple((float(step.measurement), float(step.selection)) for step in log) for log in logs}
    worst = max(worst_case_mu([m for m, _ in log if m], [s for _, s in log if s], rows) for log in prices)
    return Case(lambda table, noise: mechanism.measure(table, charge, noise), charged, worst)
