"""How close an audit comes to the μ that is charged, and which faults it finds: `python -m benchmarks.tightness`.

    python -m benchmarks.tightness                    # the secure sampler: bounds, faults caught, false alarms
    python -m benchmarks.tightness --rows 4           # the same for a unit of four rows, charged as a group of four
    python -m benchmarks.tightness --noise 0.8 --repeats 3 --cases mst

One row more (or one unit's rows, all in one cell) is to be found out from all that a release measures and chooses, as
`tests/tradeoff.py` says. The tables are the worst that were found: 34 rows over three columns of two values, where a
first choice is even and moves one score up and two down. Gaussian measurements lose all they charge on any tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.base import LoggedMechanism
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent

if (helpers := str(Path(__file__).resolve().parents[1] / "tests")) not in sys.path:
    sys.path.append(helpers)

from refutation import LessNoise
from tradeoff import DiscreteNoise, Game, play, runs_to_refute, worst_case_mu

SCHEMA = Schema("tiny", tuple(Column(name, values=(0, 1)) for name in "ABC"))
ROWS = (6, 7, 7, 10, 4, 0, 0, 0)  # of each cell, the last column's value changing first
ITERATIONS = 5  # of an estimate: any model will do, since an attacker knows it
# A run tells most of μ where that is about 2.5; but one discrete Gaussian is close to a continuous one only for σ ≥ 1.
RHO = {"gaussian": 0.5, "mst": 3.0, "aim": 3.0}
RUNS = {"gaussian": 100_000, "mst": 15_000, "aim": 15_000}
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


def bounded(audited: Case, rows: int, runs: int, noise: NoiseSource) -> tuple[Game, float]:
    """The game of a case, and processor seconds."""
    begun = time.process_time()
    return play(audited.release, neighbours(rows), noise, runs), time.process_time() - begun


def caught(audited: Case, rows: int, most: int, noise: NoiseSource, seed: int) -> tuple[int | None, float]:
    """Runs until the worst case of the honest charge is refuted (None if it is not), and processor seconds."""
    begun = time.process_time()
    found = runs_to_refute(audited.release, neighbours(rows), noise, audited.worst, most, seed=seed)
    return found, time.process_time() - begun


def main() -> None:
    """Print bounds, then how soon the fault was found each time, then false alarms."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tightness", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--rows", type=int, default=1, help="rows of a unit, all in one cell, charged as a group")
    parser.add_argument("--rho", type=float, help="charged for a unit; 0.5 of one measurement, 3 of others")
    parser.add_argument("--runs", type=int, help="of each bound; 100,000 of one measurement, 15,000 of others")
    parser.add_argument("--noise", type=float, default=0.9, help="the planted fault: this much of the noise")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, help="seeded noise of the same law instead of the secure sampler")
    options = parser.parse_args()
    source: NoiseSource = SecureNoise() if options.seed is None else DiscreteNoise(options.seed)
    sampler, console = "secure" if options.seed is None else "seeded", Console(width=110)
    table = Table("case", "runs", "μ charged", "worst case", "lower bound", "of charged", "of worst", "seconds")
    for name in options.cases:
        audited = case(name, options.rows, options.rho)
        game, seconds = bounded(audited, options.rows, options.runs or RUNS[name], source)
        found = game.mu, game.mu / audited.charged, game.mu / audited.worst
        table.add_row(
            name,
            f"{game.runs:,}",
            *(f"{each:.3f}" for each in (audited.charged, audited.worst, *found)),
            f"{seconds:.0f}",
        )
    table.title = f"one unit of {options.rows} rows, {sampler} sampler, false alarms 1 in 1000"
    console.print(table)
    for name in options.cases:
        audited = case(name, options.rows, options.rho)
        for factor in (options.noise, 1.0):
            each = [
                caught(audited, options.rows, MOST[name], LessNoise(source.spawn(1 + seed), factor), 1 + seed)
                for seed in range(options.repeats if factor < 1 else 1)
            ]
            runs = [found for found, _ in each]
            times = sum(seconds for _, seconds in each)
            label = f"noise × {factor:g}" if factor < 1 else "honest noise"
            console.print(
                f"{name}, {label}: caught {sum(found is not None for found in runs)} of {len(runs)}, "
                f"after {runs} runs, {times:.0f} processor seconds",
                soft_wrap=True,
                highlight=False,
            )


if __name__ == "__main__":
    main()
