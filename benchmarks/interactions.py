"""What does a reader say of relations of three columns that nobody measured? Planted ones, by the hundred.

    python -m benchmarks.interactions --root-dir ACS --state NY,VT --interactions 200

For each, rows are drawn from a population, and one column is drawn anew given two others: by its own shares, tilted up
where codes of the three have an even sum and down where they have an odd one. Pairs of them say little of that, so a
model of pairs does not see it. Each release is then asked for the three-way and all two-way proportions, and for a
logistic and a linear regression of one on the two others. Answers are refused, or hold the table's own number, or not:
by basis. Each relation's answers are added to the results at once, and those that are there already are not made again.
Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import add_rows
from benchmarks.coverage import FIRST, Form, Seen, coefficients, evidence_of, proportions
from benchmarks.kept import Kept
from benchmarks.populations import Population, population_of
from equistrata.analysis.answers import Answers
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable

COLUMNS = ("AGEP", "SCHL", "MAR", "DIS", "NATIVITY", "SEX", "ESR")  # no rule of the schema is about two of these
STRENGTHS = (0.5, 1.0, 2.0)  # log odds of even sums over odd ones, halved


def planted(table: CodedTable, triple: tuple[str, str, str], strength: float, rng: np.random.Generator) -> CodedTable:
    """The table with the third column drawn anew, by its shares tilted by the parity of three codes."""
    first, second, last = triple
    size = table.schema[last].size
    shares = np.bincount(table.column(last), minlength=size) / len(table)
    sums = table.column(first)[:, None].astype(int) + table.column(second)[:, None] + np.arange(size)
    tilted = shares * np.exp(np.where(sums % 2, -strength, strength))
    ends = np.cumsum(tilted, axis=1)
    codes = table.codes.copy()
    drawn = (rng.random(len(table))[:, None] * ends[:, -1:] > ends).sum(1)
    codes[:, table.schema.names.index(last)] = np.minimum(drawn, size - 1)
    return replace(table, codes=codes)


def answers_to(
    population: Population,
    rows: int,
    form: Form,
    seed: int,
    replicates: int,
    explaining: frozenset[str] = frozenset(),
) -> Iterator[Seen]:
    """All intervals of one release of a table with one planted relation; `explaining`: of one given these two."""
    rng = np.random.default_rng([7, seed])
    schema = population.table.schema
    inner = [column for column in schema.names if column not in form.strata]
    triples = [
        triple
        for triple in permutations(inner, 3)
        if schema[triple[-1]].values and (not explaining or explaining == set(triple[:2]))
    ]
    triple = triples[rng.integers(len(triples))]
    table = planted(population.draw(rows, seed), triple, STRENGTHS[seed // 7 % len(STRENGTHS)], rng)
    answers = Answers(evidence_of(table, form, seed), seed, count=replicates)
    first, second, last = triple
    drawn = answers.evidence.model.sample(len(table), rng)
    yield from proportions("three-way", last, (first, second), answers, table, drawn)
    for of, by in permutations(triple, 2):
        yield from proportions("two-way", of, (by,), answers, table, drawn)
    numbers = [column for column in triple if schema[column].size > 2]
    yield from coefficients("logit", {last: schema[last].values[-1]}, (first, second), answers, table)
    if numbers:
        of = numbers[0]
        yield from coefficients("ols", of, tuple(column for column in triple if column != of), answers, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rows(parser)
    parser.add_argument("--rows", type=int, default=7000)
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--strata", default="SEX")
    parser.add_argument("--interactions", type=int, default=200, help="releases, in turn by mechanism and ε")
    parser.add_argument("--explaining", default="", help="two columns, joined by +, that the third is drawn given")
    parser.add_argument("--first", type=int, default=FIRST, help="the first one's seed")
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/interactions.csv"))
    arguments = parser.parse_args()
    explaining = frozenset(filter(None, arguments.explaining.split("+")))
    if explaining and (len(explaining) != 2 or not explaining <= {*COLUMNS}.difference(arguments.strata.split("+"))):
        parser.error(f"--explaining takes two of {', '.join(COLUMNS)}, as AGEP+MAR, none of --strata")
    schema = Schema.load("acs_employment").select(COLUMNS)
    population = population_of(arguments, COLUMNS, schema)
    places = [(name, float(e)) for name in arguments.mechanisms.split(",") for e in arguments.epsilons.split(",")]
    form = f"{arguments.rows:,} rows by {arguments.strata}{' given ' * bool(explaining)}{arguments.explaining}"
    kept = Kept(arguments.results, texts=("group",))
    for seed in range(arguments.first, arguments.first + arguments.interactions):
        name, epsilon = places[seed % len(places)]
        place = f"{name}, ε = {epsilon:g}, {form}"
        if kept.has(place, seed):
            continue
        made = Form.of(arguments.strata, name, epsilon)
        found = answers_to(population, arguments.rows, made, seed, arguments.replicates, explaining)
        kept.add(place, seed, pd.DataFrame([vars(each) for each in found]))
    asked = {f"{name}, ε = {epsilon:g}, {form}" for name, epsilon in places}
    Console().print(shown(kept.of(asked)))


def shown(found: pd.DataFrame) -> Table:
    """Answers by kind and basis: how many, of how many relations, the share that hold the real number, and the share
    of relations of which at least 0.9 of the intervals do."""
    grid = Table("kind", "group", "basis", "answers", "relations", "coverage", "relations ≥ 0.9", "width")
    for (kind, group, basis), part in found.groupby(["kind", "group", "basis"]):
        said, each = basis != "refused", part.groupby("seed")["inside"].mean()
        grid.add_row(
            str(kind), str(group), str(basis), str(len(part)), str(len(each)),
            f"{part['inside'].mean():.3f}" if said else "", f"{(each >= 0.9).mean():.2f}" if said else "",
            f"{part['width'].median():.3f}" if said else "",
        )  # fmt: skip
    return grid


if __name__ == "__main__":
    main()
