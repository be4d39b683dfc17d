"""Tests between groups by a release's reader: how often they reject what is not there, and find what is.

    python -m benchmarks.power --root-dir ACS --state NY,VT --releases 10

Releases of tables drawn from a population (`benchmarks.populations`). Differences of proportions between two groups of
at least 200 rows, about the population: once of the columns as they are, once of columns that were permuted among the
rows of the table before its release. By ε and mechanism: the share of permuted ones that are rejected at 0.05 (type I
error), of real ones that are rejected, over that by the rows themselves (two-proportion z test; power), and the median
width over that by the rows, and over that by Laplace histograms of the same ρ: of all pairs of columns, as a release
answers them, and of the one pair that is asked for, as if nothing else were. Seeded noise (not private): for measuring
only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.special import ndtr

from benchmarks.__main__ import add_rows
from benchmarks.coverage import FIRST, LARGE, Form, evidence_of
from benchmarks.populations import population_of
from equistrata.analysis.answers import Answers
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from paper.synthesizers import DELTA

LEVEL, Z = 0.05, 1.96
ASKED: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"ESR": 1}, "SEX"), ({"ESR": 1}, "DIS"), ({"ESR": 1}, "RAC1P"), ({"DIS": 1}, "SEX"), ({"DIS": 1}, "RAC1P"),
    ({"MAR": 1}, "SEX"), ({"MAR": 5}, "RAC1P"), ({"MIL": 2}, "SEX"), ({"DREM": 1}, "SEX"),
)  # fmt: skip
PERMUTED = ("ESR", "MAR", "MIL", "DREM")  # of no stratum, and in no rule with a group's column; DIS is in one with DREM


@dataclass(frozen=True)
class Tested:
    """One test: whether it rejects, by the release and by the rows, and four widths of the interval."""

    permuted: bool
    basis: str
    rejected: bool
    by_rows: bool
    width: float
    of_rows: float
    of_pairs: float
    of_one: float


def tests(table: CodedTable, form: Form, seed: int, permuted: bool, replicates: int) -> Iterator[Tested]:
    """Every test of one release."""
    if permuted:
        codes, rng = table.codes.copy(), np.random.default_rng([5, seed])
        for column in {*PERMUTED} & {*table.schema.names}:
            place = table.schema.names.index(column)
            codes[:, place] = rng.permutation(codes[:, place])
        table = CodedTable(codes, table.schema)
    answers = Answers(evidence_of(table, form, seed), seed, count=replicates)
    pairs = len(list(combinations(table.schema.names, 2)))
    pure = sqrt(2 * float(Rho.from_epsilon_delta(form.epsilon, DELTA)))  # ε²/2 is its ρ
    histograms = pure / pairs, pure
    for of, by in ASKED:
        (column,) = of
        if not {column, by} <= set(table.schema.names):
            continue
        if permuted and column not in PERMUTED:
            continue
        value = table.schema[column].values.index(of[column])
        counts = table.marginal((by, column)).astype(float)
        total, hits = counts.sum(1), counts[:, value]
        try:
            found = answers.estimate("difference", of, (by,), population=True).set_index(by)
        except InputError:
            continue
        first = 0
        for group, line in found.iterrows():
            place = table.schema[by].values.index(group)
            if min(total[first], total[place]) < LARGE or np.isnan(line["p_value"]):  # refused, or no test
                continue
            yield _tested(permuted, line, total[[first, place]], hits[[first, place]], counts.shape[1], histograms)


def _tested(permuted: bool, line: Any, n: Floats, hits: Floats, values: int, histograms: tuple[float, float]) -> Tested:
    """A test of two groups of n rows with these hits, beside histograms of so many values at each of two ε."""
    p = hits / n
    sampling = p * (1 - p) / n

    def width(epsilon: float) -> float:
        noise = 2 / epsilon**2  # the variance of Laplace noise of scale 1/ε on each cell
        own = noise * ((1 - p) ** 2 + (values - 1) * p**2) / n**2
        return float(2 * Z * sqrt((sampling + own).sum()))

    pooled = hits.sum() / n.sum()
    z = (p[1] - p[0]) / sqrt(max(pooled * (1 - pooled) * (1 / n).sum(), 1e-12))
    return Tested(
        permuted, line["basis"], bool(line["p_value"] < LEVEL), bool(2 * ndtr(-abs(z)) < LEVEL),
        line["upper"] - line["lower"], float(2 * Z * sqrt(sampling.sum())), *map(width, histograms),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rows(parser)
    parser.add_argument("--rows", default="7000,30000")
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--strata", default="SEX+RAC1P")
    parser.add_argument("--columns", default="AGEP,SCHL,MAR,DIS,SEX,RAC1P,ESR")
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/power.csv"))
    arguments = parser.parse_args()
    names, lines = arguments.columns.split(","), list[dict[str, Any]]()
    schema = Schema.load("acs_employment").select(names)
    population = population_of(arguments, names, Schema(schema.name, schema.columns))  # permuted columns break rules
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    places = [(int(r), float(e)) for r in arguments.rows.split(",") for e in arguments.epsilons.split(",")]
    for rows, epsilon in places:
        for name in arguments.mechanisms.split(","):
            for seed in range(FIRST, FIRST + arguments.releases):
                table = population.draw(rows, seed)
                for permuted in (False, True):
                    found = tests(table, Form.of(arguments.strata, name, epsilon), seed, permuted, arguments.replicates)
                    place = f"{name}, {rows:,} rows, ε = {epsilon:g}"
                    lines += [{"place": place, "seed": seed} | vars(each) for each in found]
                pd.DataFrame(lines).to_csv(arguments.results, index=False)
    Console().print(shown(pd.DataFrame(lines)))


def shown(found: pd.DataFrame) -> Table:
    """A line for each place."""
    grid = Table(
        "place", "permuted tests", "type I", "real tests", "power", "of the rows'", "width/rows'", "/pairs'", "/one's"
    )
    for place, part in found.groupby("place", sort=False):
        real, null = part[~part["permuted"]], part[part["permuted"]]
        ratios = [(real["width"] / real[name]).median() for name in ("of_rows", "of_pairs", "of_one")]
        power = real["rejected"].mean()
        grid.add_row(
            str(place), str(len(null)), f"{null['rejected'].mean():.3f}", str(len(real)), f"{power:.3f}",
            f"{power / max(real['by_rows'].mean(), 1e-9):.3f}", *(f"{ratio:.2f}" for ratio in ratios),
        )  # fmt: skip
    return grid


if __name__ == "__main__":
    main()
