"""The cases of the tight audit, which are releases of MST and AIM and one Gaussian measurement
(docs/proofs/tightness.md).

The attacker has to detect one additional row, or the rows of one unit in the same cell, from all measurements and
selections of a release (see `tradeoff`). The tables are the worst that were found. They have 34 rows and three binary
columns. The first selection is a tie, and the additional row increases one score and decreases two others. For Gaussian
measurements the loss is equal to the charge on all tables.
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
ROWS = (6, 7, 7, 10, 4, 0, 0, 0)  # the count of each cell, where the last column changes fastest
ITERATIONS = 5  # any model is sufficient, because the attacker knows it
# A run gives the most information about μ if μ is about 2.5. However, a single discrete Gaussian is close to a
# continuous one only if σ ≥ 1.
RHO = {"gaussian": 0.5, "mst": 3.0, "aim": 3.0}
MOST = {"gaussian": 60_000, "mst": 15_000, "aim": 15_000}  # the largest number of runs to find a fault


@dataclass(frozen=True)
class Case:
    """A case of the audit.

    Attributes
    ----------
    release : callable
        A function of a table and a noise source that returns a release.
    charged : float
        The value of √(2ρ) for the ρ that is charged for a unit.
    worst : float
        The largest μ that is possible for the same prices (see `worst_case_mu`).
    """

    release: Callable[[CodedTable, NoiseSource], Any]
    charged: float
    worst: float


class Remembered:
    """An engine with a cache, because the attacker fits the same models as the release."""

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
    """Return a table and its neighbour with `rows` additional rows.

    They are all in the first cell, or in turn in the cells A = 0 and A = 1 if `spread` is True.
    """
    codes = np.repeat(np.array(list(product((0, 1), repeat=3)), dtype=np.uint8), ROWS, axis=0)
    more = np.zeros((rows, 3), dtype=np.uint8)
    if spread:
        more[:, 0] = np.arange(rows) % 2
    return CodedTable(codes, SCHEMA), CodedTable(np.vstack([codes, more]), SCHEMA)


def gaussian(table: CodedTable, noise: NoiseSource, rho: Rho) -> Measurement:
    """Measure the joint distribution of all three columns."""
    return measure_marginal(table, SCHEMA.names, rho, Budget(rho), noise)


def mechanisms() -> dict[str, LoggedMechanism]:
    """Return MST with one tree and AIM with two or three rounds.

    The prices of these mechanisms do not depend much on the noise.
    """
    engine: Any = Remembered(MirrorDescent(iterations=ITERATIONS))
    return {
        "mst": MST(engine=engine, trees=1, choice=0.1, readable=1e9),
        "aim": AIM(engine=engine, round_engine=engine, rounds=2, degree=2, readable=1e9),
    }


@cache
def case(name: str, rows: int = 1, rho: float | None = None) -> Case:
    """Return a case with the charge `rho` for a unit of `rows` rows.

    The default is the value in RHO, and each row is charged ρ/rows².
    """
    whole = rho or RHO[name]
    charge, charged = Rho(whole / rows**2), sqrt(2 * whole)
    if name == "gaussian":
        return Case(partial(gaussian, rho=charge), charged, worst_case_mu([float(charge)], [], rows))
    mechanism, table = mechanisms()[name], neighbours()[0]
    logs = [mechanism.measure_with_log(table, charge, SeededNoise(seed))[1] for seed in range(50)]
    prices = {tuple((float(step.measurement), float(step.selection)) for step in log) for log in logs}
    worst = max(worst_case_mu([m for m, _ in log if m], [s for _, s in log if s], rows) for log in prices)
    return Case(lambda table, noise: mechanism.measure(table, charge, noise), charged, worst)
