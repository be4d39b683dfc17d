"""Is a release off by as much as its free public audit expects? Releases of tables drawn from a population.

    python -m benchmarks.distances --root-dir ACS --state NY --releases 20

For each release, the expected parity distance and the expected distances of groups (`Release.expected_distances`),
summed up over groups (weighted alike: what parity is about) and by group, beside the exact ones of the scores; and the
rank correlation of groups. Each release's line is added to the results at once, and releases that are there already are
not made again. Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks.__main__ import add_rows
from benchmarks.coverage import FIRST, Form, evidence_of
from benchmarks.kept import Kept
from benchmarks.populations import population_of
from equistrata.analysis.answers import Answers
from equistrata.analysis.expected import Expected
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.eval.scores.distances import parity_distance
from equistrata.eval.scores.tables import Pair

LEAST = 10  # rows of a group that is looked at by itself
FACTOR = 1.25


def compared(table: CodedTable, answers: Answers, seed: int) -> dict[str, Any]:
    """One release's expected distances beside the exact ones of rows that are drawn from its model."""
    strata = answers.evidence.strata
    rows = answers.evidence.model.sample(len(table), np.random.default_rng(seed))
    sizes = np.bincount(strata.index(table), minlength=len(strata.keys))
    expected = Expected.of(answers.evidence, answers)
    every = parity_distance(Pair.of(table, rows, strata.columns, min_share=0.0)).by_stratum
    real = np.array([every.get(strata.label(key), 0.0) for key in strata.keys])
    said = expected.distances.mean(1)
    there, large = sizes > 0, sizes >= LEAST
    ratios = real[large] / said[large]
    return {
        "distance": parity_distance(Pair.of(table, rows, strata.columns)).value / expected.parity_distance,
        "parity": float(real[there].sum() / said[there].sum()),
        "group": float(np.median(ratios)),
        "within": float(np.mean((ratios < FACTOR) & (ratios > 1 / FACTOR))),
        "rank": float(spearmanr(real[there], said[there]).statistic),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rows(parser)
    parser.add_argument("--columns", default="AGEP,SCHL,MAR,DIS,SEX,RAC1P,ESR")
    parser.add_argument("--rows", default="7000")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--mechanisms", default="mst")
    parser.add_argument("--strata", default="SEX+RAC1P")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--first", type=int, default=FIRST, help="the first release's seed")
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/distances.csv"))
    arguments = parser.parse_args()
    names = arguments.columns.split(",")
    population = population_of(arguments, names, Schema.load("acs_employment").select(names))
    kept = Kept(arguments.results)
    asked = product(map(int, arguments.rows.split(",")), arguments.mechanisms.split(","), arguments.epsilons.split(","))
    places = []
    for rows, name, epsilon in asked:
        places.append(f"{name}, {rows:,} rows of {arguments.state} by {arguments.strata}, ε = {float(epsilon):g}")
        for seed in range(arguments.first, arguments.first + arguments.releases):
            if kept.has(places[-1], seed):
                continue
            table = population.draw(rows, seed)
            evidence = evidence_of(table, Form.of(arguments.strata, name, float(epsilon)), seed)
            found = compared(table, Answers(evidence, seed, count=arguments.replicates), seed)
            kept.add(places[-1], seed, pd.DataFrame([found]))
    Console().print(shown(kept.of(places)))


def shown(found: pd.DataFrame) -> Table:
    """Medians over releases, for each place."""
    grid = Table(
        "place", "releases", "parity distance, real/expected", "summed", "median group", "groups within 1.25", "rank"
    )
    for place, part in found.groupby("place", sort=False):
        middle = part[["distance", "parity", "group", "within", "rank"]].median()
        grid.add_row(str(place), str(len(part)), *(f"{value:.2f}" for value in middle))
    return grid


if __name__ == "__main__":
    main()
