"""Twelve releases that learn from each other against twelve independent ones, on a simulated panel of real rows.

    python -m benchmarks.series --root-dir ACS --state NY --panels 4

A panel is a part of a state (`benchmarks.populations`), month by month: 3 % of the rows leave and others of the state
come, people fall ill, marry and change work; in month 5 a tenth of those in work lose it; in month 7 one group of RAC1P
triples. All months together cost (ε, δ), a twelfth of ρ each. Errors are those of released rows: total variation
distances, means over columns and pairs, of levels and of changes since the month before; over all rows, within strata
of SEX × RAC1P, within small ones; and numbers of rows by stratum. "At once" is one release at what all months so far
cost: about as far as anything can be learned from them. "Revised" are rows as they would be drawn from what all twelve
months say of each (`equistrata series revise` writes the counts). Each panel's lines are added to the results at once.
Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import COLUMNS, add_source
from benchmarks.populations import Population, population_of
from equistrata.data.columns.column import Value
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import noise_source
from equistrata.synth.measurements import Filtered, Measurement
from equistrata.synth.registry import mechanism
from equistrata.synth.series.choice import usable
from equistrata.synth.series.drift import filtered
from equistrata.synth.series.fitting import SeriesFitting
from equistrata.synth.series.smoothing import smoothed
from equistrata.synth.series.state import State, marginal_of, pooled
from equistrata.synth.strata.fitting import Fitting, cut_strata, measure_stratum
from equistrata.synth.strata.model import StratifiedModel
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE
from paper.synthesizers import DELTA

STRATA = ("SEX", "RAC1P")
MONTHS, SHOCK, TRIPLED = 12, 5, 7
TURNOVER, MOVES, LOSE_WORK = 0.03, 0.005, 0.1
CLASSES = (("strata of 500 rows", 500, np.inf), ("strata of 50 to 500", 50, 500), ("smaller strata", 0, 50))
WAYS, FIELDS = ("independent", "series", "at once", "revised"), ["month", "error", "value", "seconds"]
FIRST = 2_010  # the first seed: none from here on was used while settings were chosen
AT_WORK, NO_WORK = 1, 0  # of ESR


@dataclass(frozen=True, eq=False)
class Panel:
    """The table of each month, the value of RAC1P that triples, and a number for the person of each row, by month."""

    tables: Sequence[CodedTable]
    group: Value
    people: Sequence[np.ndarray]


def panel(population: Population, rows: int, seed: int) -> Panel:
    """Twelve months of a part of the population; the same for the same seed."""
    rng = np.random.default_rng([seed, 5])
    schema = population.table.schema
    now, others = population.draw(rows, seed).codes.copy(), population.draw(5 * rows, seed).codes
    race, work = schema.index("RAC1P"), schema.index("ESR")
    shares = np.bincount(now[:, race], minlength=schema["RAC1P"].size) / len(now)
    group = int(rng.choice(np.flatnonzero((shares > 0.004) & (shares < 0.1))))
    codes = [schema["ESR"].keys.index(value) for value in (AT_WORK, NO_WORK)]
    tables, people, who, known = [], list[np.ndarray](), np.arange(len(now)), len(now)
    for month in range(1, MONTHS + 1):
        if month > 1:
            # Who comes is younger and more often of some places than who leaves: a drift in every column.
            pool = others[np.argsort(others[:, schema.index("AGEP")] + rng.normal(0, 6, len(others)))]
            pool = pool[: 2 * len(pool) // 3]
            leave = rng.random(len(now)) < TURNOVER
            now[leave] = pool[rng.integers(len(pool), size=int(leave.sum()))]
            who = np.where(leave, known + np.cumsum(leave) - 1, who)
            known += int(leave.sum())
            for name in ("DIS", "MAR", "ESR", "SCHL"):
                moved = rng.random(len(now)) < MOVES
                now[moved, schema.index(name)] = others[
                    rng.integers(len(others), size=int(moved.sum())), schema.index(name)
                ]
        if month == SHOCK:
            hit = (now[:, work] == codes[0]) & (rng.random(len(now)) < LOSE_WORK)
            now[hit, work] = codes[1]
        if month == TRIPLED:
            own = np.flatnonzero(now[:, race] == group)
            alike = others[others[:, race] == group]
            alike = alike if len(alike) else now[own]
            now = np.concatenate([now, alike[rng.integers(len(alike), size=2 * len(own))]])
            who, known = np.append(who, known + np.arange(2 * len(own))), known + 2 * len(own)
        tables.append(CodedTable(now.copy(), schema))
        people.append(who)
    return Panel(tables, schema["RAC1P"].keys[group], people)


@dataclass(frozen=True)
class Shares:
    """Of one table: shares of the cells of every column and pair, over all rows and in each stratum, and sizes."""

    whole: Sequence[np.ndarray]
    strata: Sequence[Sequence[np.ndarray]]
    sizes: np.ndarray

    @classmethod
    def of(cls, table: CodedTable, strata: Strata) -> Shares:
        """All of it."""
        inner = [name for name in table.schema.names if name not in STRATA]
        sets = [*((name,) for name in inner), *combinations(inner, 2)]
        every = [*((name,) for name in table.schema.names), *combinations(table.schema.names, 2)]
        whole = [table.marginal(columns) / max(len(table), 1) for columns in every]
        index = strata.index(table)
        within = []
        for columns in sets:
            cells = int(np.prod([table.schema[name].size for name in columns]))
            counts = np.bincount(index * cells + table.index_of(columns), minlength=cells * len(strata.keys))
            counts = counts.reshape(len(strata.keys), cells)
            within.append(counts / np.maximum(counts.sum(1, keepdims=True), 1))
        return cls(whole, within, np.bincount(index, minlength=len(strata.keys)))


def errors(
    real: Shares, made: Shares, before: tuple[Shares, Shares] | None, group: np.ndarray
) -> Iterator[tuple[str, float]]:
    """Named errors of a month: of levels, and of changes since the month before."""

    def parts(of: str, far: list[float], within: np.ndarray, sizes: np.ndarray) -> Iterator[tuple[str, float]]:
        yield f"{of}: all rows", float(np.mean(far))
        there = real.sizes > 0
        for name, least, most in CLASSES:
            some = there & (real.sizes >= least) & (real.sizes < most)
            if some.any():
                yield f"{of}: {name}", float(within[some].mean())
        yield f"{of}: group that triples", float(within[there & group].mean())
        yield f"{of}: sizes", float(np.abs(sizes).sum())
        yield f"{of}: sizes of the group", float(np.abs(sizes[group]).sum())

    def gaps(one: Shares, two: Shares) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        return (
            [a - b for a, b in zip(one.whole, two.whole, strict=True)],
            [a - b for a, b in zip(one.strata, two.strata, strict=True)],
            one.sizes - two.sizes,
        )

    whole, within, sizes = gaps(made, real)
    far = [float(np.abs(gap).sum() / 2) for gap in whole]
    yield from parts("levels", far, np.mean([np.abs(gap).sum(1) / 2 for gap in within], 0), sizes)
    if before is not None:
        whole2, within2, sizes2 = gaps(before[1], before[0])
        far = [float(np.abs(a - b).sum() / 2) for a, b in zip(whole, whole2, strict=True)]
        apart = np.mean([np.abs(a - b).sum(1) / 2 for a, b in zip(within, within2, strict=True)], 0)
        yield from parts("changes", far, apart, sizes - sizes2)


@dataclass(frozen=True, eq=False)
class Setting:
    """How releases are made: the fit of one, what each month costs if all cost the same, and how many times as much as
    another the first month of a series costs."""

    fitting: Fitting
    price: Rho
    front: float = 1.0

    def part(self, month: int) -> float:
        """What a month of the series costs, in months that all cost the same."""
        return MONTHS / (self.front + MONTHS - 1) * (self.front if month == 1 else 1)

    def revised(self, made: Panel, seed: int) -> list[StratifiedModel]:
        """A model of each month, of what all months measured, with the noise of "series"."""
        strata, shared = self.fitting.strata, self.fitting.shared
        assert shared is not None
        measured = list[list[Measurement]]()
        for month, table in enumerate(made.tables, start=1):
            price, noise = self.price * self.part(month), noise_source(1000 * seed + month).spawn(0)
            measured.append(measure_stratum(shared, table, Budget(price), price * DEFAULT_COUNT_SHARE, noise))
        first = state = State.of(1, measured[0])
        months = []
        for month, own in enumerate(measured[1:], start=2):
            months.append(filtered(strata.schema, strata.columns, state, month, own))
            state = months[-1].state
        models = []
        for own, found in zip(measured, smoothed(first, months), strict=True):
            names, joined, others = pooled(own), list[Measurement](), []
            for each in found:
                if marginal_of(each) in names:
                    parts = (each.columns, each.values, each.sigma, each.groups, each.where)
                    joined.append(Filtered(*parts, sigmas=each.sigmas))
                else:
                    others.append(each)
            used = usable(strata.schema, strata.columns, joined, others)
            models.append(cut_strata(strata, [*joined, *used], shared.engine, self.fitting.shrinkage))
        return models

    def lines(self, made: Panel, seed: int, way: str) -> Iterator[tuple[int, str, float, float]]:
        """Month, name and value of each error, and processor seconds of the fit, of all months of one way."""
        strata, known, former = self.fitting.strata, None, None
        group = np.array([key[STRATA.index("RAC1P")] == made.group for key in strata.keys])
        counts, later = self.price * DEFAULT_COUNT_SHARE, self.revised(made, seed) if way == "revised" else []
        for month, table in enumerate(made.tables, start=1):
            noise, rng = noise_source(1000 * seed + month).spawn(0), np.random.default_rng([seed, month])
            start = time.process_time()
            if way == "revised":
                model = later[month - 1]
            elif way != "series":
                times = month if way == "at once" else 1
                _, model = self.fitting.fit(table, Budget(self.price * times), counts * times, noise)
            else:
                month_of, part = SeriesFitting(self.fitting, known, month), self.part(month)
                _, model, known = month_of.fit(table, Budget(self.price * part), counts * part, noise)
            seconds = time.process_time() - start
            now = Shares.of(table, strata), Shares.of(model.sample(None, rng), strata)
            for name, value in errors(*now, former, group):
                yield month, name, value, seconds
            former = now


def main() -> None:
    """Make the panels' releases both ways, and print the ratio of errors, by month and in all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.series", description=(__doc__ or "").splitlines()[0])
    add_source(parser)
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of all months together")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--panels", type=int, default=3)
    parser.add_argument("--front", type=float, default=1.0, help="the first month of a series: times another's ρ")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first panel")
    arguments = parser.parse_args()
    schema = Schema.load("acs_employment").select(COLUMNS)
    population, strata = population_of(arguments, COLUMNS, schema), Strata.over(schema, STRATA)
    own = mechanism(arguments.mechanism)
    price = Rho.from_epsilon_delta(arguments.epsilon, DELTA) * (1 / MONTHS)
    setting = Setting(Fitting(own, strata, shared_selection(own, strata)), price, arguments.front)
    arguments.results.mkdir(parents=True, exist_ok=True)
    named = f"series-{arguments.mechanism}-{arguments.epsilon:g}-{arguments.rows}-{arguments.front:g}"
    file = arguments.results / f"{named}.csv"
    found = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["panel", "way", *FIELDS])
    for seed in range(arguments.first, arguments.first + arguments.panels):
        made = panel(population, arguments.rows, seed)
        for way in arguments.ways.split(","):
            if not ((found["panel"] == seed) & (found["way"] == way)).any():
                new = pd.DataFrame(setting.lines(made, seed, way), columns=FIELDS).assign(panel=seed, way=way)
                found = pd.concat([found, new], ignore_index=True) if len(found) else new
                found.to_csv(file, index=False)
    show(found, Console(width=150))


def show(found: pd.DataFrame, console: Console) -> None:
    """Errors over those of independent releases: means over panels, by month and over all months."""
    sums = found.pivot_table(index="error", columns=["way", "month"], values="value", aggfunc="mean")
    shown = Table(title="error over that of independent releases", title_justify="left")
    for head in ("error", *map(str, range(1, MONTHS + 1)), "all", "independent"):
        shown.add_column(head)
    for name in found["error"].unique():
        alone = sums["independent"].loc[name]
        for way in ("series", "at once", "revised"):
            if way in found["way"].to_numpy() and (way != "at once" or name.startswith("levels")):
                own = sums[way].loc[name]
                cells = [f"{own[month] / alone[month]:.2f}" if month in own.dropna() else "" for month in alone.index]
                named = name if way == "series" else f"  {way}"
                shown.add_row(named, *cells, f"{own.sum() / alone.sum():.2f}", f"{alone.mean():.3g}")
    console.print(shown)
    took = found.groupby(["way", "month"])["seconds"].mean()
    console.print(
        f"seconds of a fit, month 1 and 12: {took['series', 1]:.1f} and {took['series', MONTHS]:.1f}; independent "
        f"{took['independent'].mean():.1f}"
    )


if __name__ == "__main__":
    main()
