"""Planned noise against measured noise and against the model's whole error: `python -m benchmarks.noise_plan`.

    python -m benchmarks.noise_plan --root-dir ACS --state VT --strata SEX,RAC1P

A plan has the rows' own sizes of strata, a release does MST with its defaults. Strata are grouped by the finest level
that is planned to be readable there. Errors are exact and noise is seeded (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import inf, isnan, nan
from statistics import mean, median

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import add_rows, source_of
from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.synth.measurements import Columns, Measurement, given
from equistrata.synth.noise_plan import NoisePlan, planned_mechanism
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE, StratifiedSynthesizer
from paper.synthesizers import COLUMNS, DELTA


@dataclass(frozen=True)
class Line:
    """One stratum: total variation distances, means over columns or pairs that define no strata.

    Attributes:
        ways: 1 for columns, 2 for pairs.
        level: the finest that is planned to be readable; None if none is.
        planned: the noise that is expected at that level.
        drawn: the noise of the measurements at that level, over what is expected for as many cells; NaN if none was
            made of so many columns.
        model: from the rows of the stratum to its synthetic rows.
    """

    ways: int
    level: Columns | None
    planned: float
    drawn: float
    model: float


def measure(table: CodedTable, strata: Strata, name: str, epsilon: float, seed: int) -> Iterator[Line]:
    """Plan and release once; a line for each stratum with rows, and for columns and pairs."""
    parts = strata.partition(table)
    sizes = {key: float(len(part)) for key, part in parts.items()}
    fits = planned_mechanism(mechanism(name), strata)
    plan = NoisePlan(fits, strata, sizes, Rho.from_epsilon_delta(epsilon, DELTA), DEFAULT_COUNT_SHARE)
    fitted = StratifiedSynthesizer(name, strata.columns, epsilon=epsilon, delta=DELTA, seed=seed).fit(table)
    found = [each for noisy in fitted.measurements_.values() for each in noisy]
    for ways, floors in ((1, plan.one_way), (2, plan.two_way)):
        sets = list(combinations(strata.rest(strata.keys[0]).names, ways))
        for key, part in parts.items():
            if not len(part):
                continue
            errors = plan.errors(floors(key), key)
            level, model = plan.finest(errors), fitted.model_.models[key]
            far = [_distance(part.marginal(columns) / len(part), model.marginal(columns)) for columns in sets]
            noise = {} if level is None else _noise(table, plan, found, sets, level, key)
            planned = inf if level is None else errors[level]
            alike = _planned(plan, key, ways, noise) / _planned(plan, key, ways, sets) if noise else nan
            drawn = mean(noise.values()) / (planned * alike) if noise else nan
            yield Line(ways, level, planned, drawn, mean(far))


def _planned(plan: NoisePlan, key: Key, ways: int, sets: Iterable[Columns]) -> float:
    """What is planned of these columns or pairs, up to what is the same for all: columns have one σ."""
    schema, pairs = plan.strata.schema, plan.pairs(key) if ways == 2 else {}
    return mean(pairs[columns] if pairs else schema[columns[0]].size for columns in sets)


def _distance(shares: np.ndarray, modelled: np.ndarray) -> float:
    return float(np.abs(shares - modelled / max(float(modelled.sum()), 1e-9)).sum() / 2)


def _noise(
    table: CodedTable,
    plan: NoisePlan,
    found: list[Measurement],
    sets: list[Columns],
    level: Columns,
    key: Key,
) -> dict[Columns, float]:
    """Measured set → half the L1 norm of its noise in the stratum's group of the level, over the group's rows."""
    strata, errors = plan.strata, dict[Columns, float]()
    codes = strata.codes_of(key)
    places = [strata.columns.index(name) for name in level]
    rows = sum(size for other, size in plan.sizes.items() if all(other[place] == key[place] for place in places))
    group = {name: codes[name] for name in level}
    own = [given(m, group) for m in found if not m.where and set(level) <= set(m.columns)]
    own += [m for m in found if m.where and dict(m.where) == group]
    for columns in sets:
        same = [m for m in own if set(m.columns) == set(columns)]
        if same:
            weights = [m.sigma**-2 for m in same]
            names = same[0].columns
            noisy = sum(w * m.values for w, m in zip(weights, same, strict=True)) / sum(weights)
            exact = table.marginal((*names, *level))[(..., *group.values())]
            errors[columns] = float(np.abs(noisy - exact).sum() / 2 / rows)
    return errors


def main() -> None:
    """Measure every ε and seed, and print a table: medians over strata and seeds."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.noise_plan", description=(__doc__ or "").splitlines()[0]
    )
    add_rows(parser)
    parser.add_argument("--strata", default="SEX")
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--epsilons", default="0.1,1,5")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    schema = Schema.load("acs_employment").select(COLUMNS)
    table = CodedTable.encode(source_of(arguments).read(list(COLUMNS)), schema)
    strata = Strata.over(schema, [name for name in arguments.strata.split(",") if name])
    shown = Table(title=f"{arguments.mechanism}, {len(table):,} rows, {arguments.seeds} seeds", title_justify="left")
    for head in ("ε", "columns", "level", "strata", "planned noise", "drawn, of planned", "model's error"):
        shown.add_column(head)
    for epsilon in map(float, arguments.epsilons.split(",")):
        lines = defaultdict(list)
        for seed in range(arguments.seeds):
            for line in measure(table, strata, arguments.mechanism, epsilon, seed):
                lines[line.ways, line.level].append(line)
        for (ways, level), group in sorted(lines.items(), key=lambda each: (each[0][0], str(each[0][1]))):
            cells = []
            for name in ("planned", "drawn", "model"):
                known = [value for line in group if not isnan(value := getattr(line, name))]
                cells.append(f"{median(known):.3g}" if known else "—")
            words = "none readable" if level is None else ", ".join(level) or "all rows"
            shown.add_row(f"{epsilon:g}", str(ways), words, str(len(group) // arguments.seeds), *cells)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
