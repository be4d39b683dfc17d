"""Trajectories of synthetic people who keep an id: how they change, against the truth and against other matches.

    python -m benchmarks.panel --root-dir ACS --state NY --epsilon 1 --named ESR,MAR

The panels are those of `benchmarks.series`: people who persist, of whom 3 % a month are replaced. A series of MST by
SEX × RAC1P; from month 2 on a part of a month's ρ is for transitions of the named columns. Rates are shares of people
in both months who change their code, for each column, and of those at work who are so no more. "truth" of the real
people; "measured" as the month's joint counts tell them alone; "expected" as all months do; "realised" of synthetic
people; "persistent" without the people who change places; "independent" of rows that are matched at random within
strata. Levels are errors of released rows as in `benchmarks.series`, at what is left of the ρ ("drawn" before they
exchange values) and at all of it.
Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import COLUMNS, add_source
from benchmarks.populations import population_of
from benchmarks.series import AT_WORK, FIRST, MONTHS, STRATA, Panel, panel
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import noise_source
from equistrata.synth.registry import mechanism
from equistrata.synth.series import panel as published
from equistrata.synth.series.fitting import SeriesFitting
from equistrata.synth.series.following import TwoMonths
from equistrata.synth.series.identities import NOBODY, costs_of, partners, realised
from equistrata.synth.series.keeping import pair_noise
from equistrata.synth.series.transitions import CHANGED, measure_transitions, worth_measuring
from equistrata.synth.strata.fitting import Fitting
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE
from paper.synthesizers import DELTA

WAYS = ("truth", "measured", "expected", "realised", "persistent", "independent")
FIELDS = ["panel", "month", "way", "what", "value"]
Line = tuple[int, str, str, float]


@dataclass(frozen=True, eq=False)
class Setting:
    """How a series and its panel are made: the fit, a month's price, the part of it for people, and named columns."""

    fitting: Fitting
    price: Rho
    share: float
    named: tuple[str, ...]

    def lines(self, made: Panel, seed: int) -> Iterator[Line]:
        """Month, way, what and value, for all months."""
        schema, known, whole = self.fitting.strata.schema, None, None
        people, before, rng = published.Panel.beginning(1, 0, 0.0), None, np.random.default_rng([seed, 9])
        for month, table in enumerate(made.tables, start=1):
            noise = noise_source(1000 * seed + month)
            measured, linked = (), [self._joint(made, month, name) for name in self.named] if month > 1 else []
            price = self.price
            if before is not None:
                sizes = {name: schema[name].size for name in self.named}
                rho = price * self.share
                told = worth_measuring(sizes, float(rho), len(before), MONTHS - month + 1)
                if told:
                    counts = [linked[self.named.index(name)] for name in told]
                    budget = Budget(rho)
                    measured = measure_transitions(told, counts.__getitem__, rho, budget, noise.spawn(1))
                    price = price - rho
            _, model, known = self._fit(known, month, table, price, noise.spawn(0))
            _, other, whole = self._fit(whole, month, table, self.price, noise.spawn(0))
            now = model.sample(None, rng)
            yield month, "without", "levels", _error(other.sample(None, rng), table)
            if before is None:
                people = published.Panel.beginning(1, len(now), model.total)
            else:
                noise = pair_noise(known.known, schema.names, schema.sizes)
                months = TwoMonths(schema.names, schema.sizes, before.codes, now.codes, self.named, STRATA, noise=noise)
                yield month, "drawn", "levels", _error(now, table)
                people, partner, rows = months.followed(month, people, {"month": month - 1}, measured, model.total, rng)
                now = CodedTable(rows.astype(now.codes.dtype), schema)
                yield from self._rates(month, linked, people, measured)
                yield from self._others(month, months, people, partner, rng)
            yield month, "with a panel", "levels", _error(now, table)
            before = now

    def _fit(self, known, month, table, price, noise):  # type: ignore[no-untyped-def]
        return SeriesFitting(self.fitting, known, month).fit(table, Budget(price), price * DEFAULT_COUNT_SHARE, noise)

    def _joint(self, made: Panel, month: int, name: str) -> np.ndarray:
        """Exact joint counts of a column, of the people in both months."""
        _, one, two = np.intersect1d(made.people[month - 2], made.people[month - 1], return_indices=True)
        then, now = (made.tables[month - 2].column(name)[one], made.tables[month - 1].column(name)[two])
        size = self.fitting.strata.schema[name].size
        return np.bincount(then.astype(int) * size + now, minlength=size * size).reshape(size, size)

    def _rates(
        self, month: int, linked: Sequence[np.ndarray], people: published.Panel, measured: Sequence
    ) -> Iterator[Line]:
        """Rates of the named columns."""
        schema = self.fitting.strata.schema
        expected = {each.column: each.counts for each in people.transitions}
        for name, counts in zip(self.named, linked, strict=True):
            yield from _lines(month, "truth", schema, name, counts)
            yield from _lines(month, "realised", schema, name, people.realised[name])
            if name in expected:
                yield from _lines(month, "expected", schema, name, expected[name])
        for each in measured:
            yield from _lines(month, "measured", schema, each.columns[1], each.values)
        turnover = 1 - sum(linked[0].ravel()) / max(len(people.realised) and people.stayed + people.left, 1)
        yield month, "truth", "left", float(turnover)
        yield month, "realised", "left", people.left / max(people.stayed + people.left, 1)

    def _others(
        self, month: int, months: TwoMonths, people: published.Panel, partner: np.ndarray, rng: np.random.Generator
    ) -> Iterator[Line]:
        """Rates of other matches of the same rows, and of columns that were not named."""
        schema = self.fitting.strata.schema
        place = {name: at for at, name in enumerate(months.names)}
        changed = {place[name]: CHANGED for name in self.named}
        costs = costs_of(months.sizes, changed, [place[name] for name in STRATA if name not in self.named])
        plain = partners(months.before, months.now, months.sizes, costs, people.stayed, rng)
        alone, strata = partner.copy(), self.fitting.strata.index(CodedTable(months.now, schema))
        for stratum in np.unique(strata):
            own = np.flatnonzero((partner != NOBODY) & (strata == stratum))
            alone[own] = rng.permutation(partner[own])
        for name in self.named:
            at, size = place[name], months.sizes[place[name]]
            for way, match in (("persistent", plain), ("independent", alone)):
                yield from _lines(month, way, schema, name, realised(match, months.before, months.now, at, size))
        for name in sorted(set(place) - set(self.named)):
            yield from _lines(month, "realised", schema, name, people.realised[name])


def _lines(month: int, way: str, schema: Schema, name: str, counts: np.ndarray) -> Iterator[Line]:
    counts = np.asarray(counts, dtype=float)
    yield month, way, name, float(1 - np.trace(counts) / max(counts.sum(), 1.0))
    if name == "ESR":
        at = schema[name].keys.index(AT_WORK)
        yield month, way, "at work → not", float(1 - counts[at, at] / max(counts[at].sum(), 1.0))


def _error(made: CodedTable, real: CodedTable) -> float:
    """Total variation distance, mean over columns and pairs."""
    names = real.schema.names
    sets = [(one,) for one in names] + [(one, two) for at, one in enumerate(names) for two in names[:at]]
    shares = [[each.marginal(columns) / max(len(each), 1) for each in (made, real)] for columns in sets]
    return float(np.mean([np.abs(one - two).sum() / 2 for one, two in shares]))


def main() -> None:
    """Make panels of series, and print rates and errors by way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.panel", description=(__doc__ or "").splitlines()[0])
    add_source(parser)
    parser.add_argument("--epsilon", type=float, default=1.0, help="of all months together")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--panels", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.1, help="of a month's ρ, for transitions")
    parser.add_argument("--named", default="ESR,MAR", help="columns whose changes are measured")
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first panel")
    arguments = parser.parse_args()
    schema = Schema.load("acs_employment").select(COLUMNS)
    population, strata = population_of(arguments, COLUMNS, schema), Strata.over(schema, STRATA)
    own = mechanism("mst")
    price, named = Rho.from_epsilon_delta(arguments.epsilon, DELTA) * (1 / MONTHS), tuple(arguments.named.split(","))
    setting = Setting(Fitting(own, strata, shared_selection(own, strata)), price, arguments.share, named)
    arguments.results.mkdir(parents=True, exist_ok=True)
    lines = []
    for seed in range(arguments.first, arguments.first + arguments.panels):
        made = panel(population, arguments.rows, seed)
        lines += [(seed, *line) for line in setting.lines(made, seed)]
    found = pd.DataFrame(lines, columns=FIELDS)
    words = f"{arguments.rows}-{arguments.epsilon:g}-{arguments.share:g}-{'-'.join(named)}-{arguments.first}"
    found.to_csv(arguments.results / f"panel-{words}.csv", index=False)
    show(found, Console(width=120))


def show(found: pd.DataFrame, console: Console) -> None:
    """Mean rates by way, and root mean square errors against the truth in brackets."""
    grid = Table(title="share of people, mean over months (root mean square error)", title_justify="left")
    for head in ("", *WAYS):
        grid.add_column(head)
    sums = found.pivot_table(index=["panel", "month", "what"], columns="way", values="value")
    for what in dict.fromkeys(found["what"]):
        own = sums.xs(what, level="what")
        cells = []
        for way in WAYS:
            seen = own[way].dropna() if way in own else own.iloc[:0, 0]
            off = (seen - own["truth"].reindex(seen.index)) if "truth" in own else seen * np.nan
            far = f" ({np.sqrt((off**2).mean()):.4f})" if way != "truth" and off.notna().any() else ""
            cells.append(f"{seen.mean():.4f}{far}" if len(seen) else "")
        if any(cells):
            grid.add_row(what, *cells)
    console.print(grid)
    levels = found[found["what"] == "levels"].groupby("way")["value"].mean()
    console.print(f"error of levels: {levels['with a panel']:.5f} with a panel, {levels['without']:.5f} without")


if __name__ == "__main__":
    main()
