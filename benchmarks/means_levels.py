"""Means at two levels against the better of vanilla and stratified: `python -m benchmarks.means_levels --root-dir ACS`.

For each outcome, choice of strata (k = 2, 9, 18, 90, 180) and ρ: the mean error over seeds of
`Coinpress.hierarchical`, divided by that of the better of a vanilla and a stratified estimate, for the population's
mean and for the parity error (Definition 11, strata of 0.1 % of the rows or more). Against the paper's algorithms
(Gaussian clip), and against this package's own (adaptive clip, declared bounds); each with public sizes (replace-one)
and with noisy ones (add-remove), and like is set against like. Errors are against the means of the rows themselves.
Seeded noise and exact scores (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import add_rows, source_of
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import Source
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable
from equistrata.inference.means.coinpress import Coinpress
from equistrata.privacy.noise import NoiseSource, SeededNoise
from paper.means import CODED, OUTCOMES, SCHEMA, errors, read_outcomes

STRATA = ("SEX", "RAC1P", "SEX_RAC1P", "SEX_RAC1P_AGEP", "SEX_RAC1P_AGEP_DIS")
RHOS = (0.001, 0.01, 0.1, 0.5)
SIZES = ("noisy", "public")
PAPER, OWN, NEW, PLAIN = "paper", "own", "levels", "levels, no shrinkage"

Groups = Mapping[Key, Floats]
Answer = tuple[float, Floats]  # the population's mean, and each stratum's, shape (k,)


def answers(sizes: str, bounds: tuple[float, float]) -> dict[str, Callable[..., Answer]]:
    """Every estimator under its name; "… vanilla" answers for every stratum with the population's mean."""
    forms: dict[str, dict[str, Any]] = {PAPER: {"tail": "gaussian"}, OWN: {"tail": "adaptive", "bounds": bounds}}

    def vanilla(groups: Groups, rho: float, noise: NoiseSource, **settings: Any) -> Answer:
        value = Coinpress(**settings).mean(np.concatenate(list(groups.values())), rho, noise).value
        return value, np.full(len(groups), value)

    def by_strata(groups: Groups, rho: float, noise: NoiseSource, **settings: Any) -> Answer:
        shares = None if sizes == "noisy" else own_shares(groups)
        found = Coinpress(**settings).by_strata(groups, shares, rho, noise)
        return found.value, np.array([found.strata[key].value for key in groups])

    def levels(groups: Groups, rho: float, noise: NoiseSource, shrinkage: bool = True, **settings: Any) -> Answer:
        shares = None if sizes == "noisy" else own_shares(groups)
        coinpress = Coinpress(**settings, sizes=sizes, bounds=bounds)
        found = coinpress.hierarchical(groups, shares, rho, noise, shrinkage=shrinkage)
        return found.value, np.array([found.strata[key].value for key in groups])

    def named(form: str) -> dict[str, Callable[..., Answer]]:
        more = forms[form] | {"sizes": sizes}
        return {f"{form} vanilla": partial(vanilla, **more), f"{form} stratified": partial(by_strata, **more)}

    return {**named(PAPER), **named(OWN), NEW: levels, PLAIN: partial(levels, shrinkage=False)}


def own_shares(groups: Groups) -> dict[Key, float]:
    """Shares of the rows.

    >>> own_shares({(1,): np.zeros(3), (2,): np.zeros(1)})
    {(1,): 0.75, (2,): 0.25}
    """
    rows = sum(map(len, groups.values()))
    return {key: len(values) / rows for key, values in groups.items()}


def read(source: Source) -> tuple[Schema, CodedTable, dict[str, Floats]]:
    """The schema, the columns that strata are made of, and the outcomes, NaN where absent."""
    schema = Schema.load(SCHEMA)
    coded = schema.select(CODED)
    frame = source.read([*coded.names, *OUTCOMES])
    return schema, CodedTable.encode(frame, coded), read_outcomes(frame, schema)


def measure(
    schema: Schema,
    table: CodedTable,
    outcomes: Mapping[str, Floats],
    strata: tuple[str, ...],
    rhos: tuple[float, ...],
    seeds: int,
) -> pd.DataFrame:
    """One line for each outcome, strata, ρ, kind of sizes and estimator: mean errors over the seeds."""
    lines: list[dict[str, Any]] = []
    for outcome, by in ((outcome, by) for outcome in outcomes for by in strata):
        column, cut = schema[outcome], Strata.over(table.schema, by.split("_"))
        index, values = cut.index(table), outcomes[outcome]
        groups = {key: values[~np.isnan(values) & (index == i)] for i, key in enumerate(cut.keys)}
        lower, upper = column.mean_bounds
        for rho, sizes in ((rho, sizes) for rho in rhos for sizes in SIZES):
            settings = {"lower": lower, "upper": upper, "sigma": column.sigma, "rho": rho}
            for name, answer in answers(sizes, column.bounds).items():
                found = [
                    errors(groups, *answer(groups, **settings, noise=SeededNoise(seed).spawn(len(name))))
                    for seed in range(seeds)
                ]
                _, population, parity = np.mean(found, axis=0)
                place = {"outcome": outcome, "k": len(cut.keys), "rho": rho, "sizes": sizes, "estimator": name}
                lines.append(place | {"population": population, "parity": parity})
    return pd.DataFrame(lines)


def ratios(lines: pd.DataFrame) -> pd.DataFrame:
    """For each place, the error of two levels over the better of vanilla and stratified, by form and score.

    >>> place = {"outcome": "PAY", "k": 2, "rho": 0.1, "sizes": "noisy"}
    >>> errors = {"paper vanilla": 4, "paper stratified": 8, "own vanilla": 1, "own stratified": 2, "levels": 2,
    ...           "levels, no shrinkage": 3}
    >>> lines = [place | {"estimator": name, "population": e, "parity": 1 / e} for name, e in errors.items()]
    >>> ratios(pd.DataFrame(lines)).iloc[0].tolist()
    [0.5, 4.0, 2.0, 1.0]
    """
    wide = lines.pivot(index=["outcome", "k", "rho", "sizes"], columns="estimator", values=["population", "parity"])
    found = {
        f"{score_name}/{form}": wide[score_name][NEW]
        / wide[score_name][[f"{form} vanilla", f"{form} stratified"]].min(axis=1)
        for form in (PAPER, OWN)
        for score_name in ("population", "parity")
    }
    return pd.DataFrame(found)


def main() -> None:
    """Measure, write every mean error as CSV, and print the ratios."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.means_levels", description=(__doc__ or "").split("\n")[0]
    )
    add_rows(parser)
    parser.add_argument("--outcomes", default=",".join(OUTCOMES))
    parser.add_argument("--strata", default=",".join(STRATA))
    parser.add_argument("--rhos", default=",".join(map(str, RHOS)))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/means_levels.csv"))
    given = parser.parse_args()
    source = source_of(given)
    schema, table, outcomes = read(source)
    outcomes = {name: outcomes[name] for name in given.outcomes.split(",")}
    rhos = tuple(map(float, given.rhos.split(",")))
    lines = measure(schema, table, outcomes, tuple(given.strata.split(",")), rhos, given.seeds)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    lines.to_csv(given.output, index=False)
    console, found = Console(width=124), ratios(lines)
    for sizes in SIZES:
        shown = found.xs(sizes, level="sizes")
        grid = Table(title=f"{sizes} sizes: error over the better of vanilla and stratified, {given.seeds} seeds")
        for head in ("outcome", "k", "ρ", *shown.columns):
            grid.add_column(head)
        for (outcome, k, rho), row in zip(shown.index.tolist(), shown.to_numpy(), strict=True):
            grid.add_row(outcome, str(k), f"{rho:g}", *(f"[bold]{x:.2f}[/]" if x > 1.02 else f"{x:.2f}" for x in row))
        console.print(grid)
        missed = {name: int((shown[name] > 1.02).sum()) for name in shown.columns}
        console.print(f"places above 1.02, of {len(shown)}: {missed}; largest: {shown.max().round(2).to_dict()}\n")


if __name__ == "__main__":
    main()
