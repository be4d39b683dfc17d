"""Do intervals of a release's reader cover what the rows hold? Releases of tables drawn from a population.

    python -m benchmarks.coverage --root-dir ACS --state NY --releases 5

For each rows × ε × mechanism × strata so many releases, each of other rows with other noise. All one-way and two-way
proportions, over all rows and within strata, means and contrasts of groups, linear and logistic coefficients: the share
of 95 % intervals that hold the private table's number, by basis and by size of the group, beside that of naive
intervals from the synthetic rows. Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import COLUMNS, add_rows, source_of
from equistrata.analysis.answers import Answers
from equistrata.analysis.evidence import Evidence
from equistrata.analysis.questions import Of, question
from equistrata.analysis.regression import Regression
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import StratifiedSynthesizer
from paper.synthesizers import DELTA

LARGE = 200  # rows of a group
REGRESSIONS: tuple[tuple[str, Of, tuple[str, ...]], ...] = (
    ("logit", {"ESR": 1}, ("SEX", "DIS", "MAR")),
    ("logit", {"DIS": 1}, ("AGEP", "SEX", "RAC1P")),
    ("ols", "AGEP", ("SEX", "MAR", "ESR")),
    ("ols", "SCHL", ("SEX", "RAC1P", "DREM")),
)


@dataclass(frozen=True)
class Seen:
    """One interval: of what kind, on which basis, whether it covers, and how wide it is."""

    kind: str
    group: str
    basis: str
    inside: bool
    width: float


def release(table: CodedTable, strata: list[str], name: str, epsilon: float, seed: int) -> tuple[Evidence, CodedTable]:
    """A fit, as a reader has it, and rows."""
    fitted = StratifiedSynthesizer(name, strata, epsilon=epsilon, delta=DELTA, seed=seed).fit(table)
    evidence = Evidence(Strata.over(table.schema, strata), fitted.measurements_, mechanism(name))
    return evidence, fitted.model_.sample(len(table), np.random.default_rng(seed))


def intervals(table: CodedTable, strata: list[str], name: str, epsilon: float, seed: int) -> Iterator[Seen]:
    """Every interval of one release."""
    evidence, rows = release(table, strata, name, epsilon, seed)
    answers, names = Answers(evidence), table.schema.names
    inner = [column for column in names if column not in strata]
    asked = [("one-way", of, ()) for of in names] + [("two-way", a, (b,)) for a, b in combinations(names, 2)]
    if strata:
        asked += [("one-way in strata", of, tuple(strata)) for of in inner]
        asked += [("two-way in strata", a, (*strata, b)) for a, b in combinations(inner, 2)]
    for kind, of, by in asked:
        yield from proportions(kind, of, by, answers, table, rows)
    for kind, outcome, on in REGRESSIONS:
        if not {*on, *([outcome] if isinstance(outcome, str) else outcome or {})} <= set(names):
            continue
        yield from coefficients(kind, outcome, on, answers, table)


def coefficients(kind: str, outcome: Of, on: tuple[str, ...], answers: Answers, table: CodedTable) -> Iterator[Seen]:
    """Those that are finite in the table itself."""
    regression = Regression.of(table.schema, kind, outcome, on)
    counts = table.marginal(regression.columns).astype(float).ravel()
    try:
        found = answers.estimate(kind, outcome, on)
    except InputError:
        yield Seen(kind, "", "refused", False, 0.0)
        return
    real = zip(regression.coefficients(counts), regression.settled(counts), strict=True)
    for line, (value, finite) in zip(found.itertuples(index=False), real, strict=True):
        if finite or line.basis == "refused":
            yield Seen(kind, "", line.basis, line.lower <= value <= line.upper, line.upper - line.lower)


def proportions(
    kind: str, of: str, by: tuple[str, ...], answers: Answers, table: CodedTable, rows: CodedTable
) -> Iterator[Seen]:
    """All proportions of a column by others, and the naive ones of the synthetic rows."""
    asked = question(table.schema, "proportion", of, by)
    assert asked.bottom is not None
    counts, drawn = (each.marginal(asked.columns).ravel() for each in (table, rows))
    below, of_rows = asked.bottom @ counts, np.maximum(asked.bottom @ drawn, 1)
    real, naive = asked.top @ counts / np.maximum(below, 1), asked.top @ drawn / of_rows
    far = 1.96 * np.sqrt(naive * (1 - naive) / of_rows)
    try:
        found = answers.estimate("proportion", of, by)
    except InputError:
        yield Seen(kind, "", "refused", False, 0.0)
        return
    for place in np.flatnonzero(below >= 1):
        line, group = found.iloc[place], f"{'≥' if below[place] >= LARGE else '<'} {LARGE}"
        if line["basis"] != "refused":
            inside = bool(line["lower"] - 1e-9 <= real[place] <= line["upper"] + 1e-9)
            yield Seen(kind, group, line["basis"], inside, line["upper"] - line["lower"])
            yield Seen(kind, group, "naive", bool(abs(naive[place] - real[place]) <= far[place]), 2 * far[place])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rows(parser)
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--rows", default="7000,30000")
    parser.add_argument("--epsilons", default="0.1,1,10")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--strata", default="SEX+RAC1P")
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/coverage.csv"))
    arguments = parser.parse_args()
    console, lines, source = Console(), [], source_of(arguments)
    names = [name for name in arguments.columns.split(",") if name]
    population = CodedTable.encode(source.read(names), Schema.load("acs_employment").select(names))
    grid = product(
        map(int, arguments.rows.split(",")),
        map(float, arguments.epsilons.split(",")),
        arguments.mechanisms.split(","),
        arguments.strata.split(","),
    )
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    for rows, epsilon, name, strata in grid:
        seen: list[Seen] = []
        for seed in range(arguments.releases):
            chosen = np.random.default_rng(seed).choice(len(population), min(rows, len(population)), replace=False)
            seen += intervals(population.take(chosen), [c for c in strata.split("+") if c], name, epsilon, seed)
        frame = pd.DataFrame([vars(each) for each in seen])
        found = frame.groupby(["kind", "group", "basis"], as_index=False).agg(
            intervals=("inside", "size"), coverage=("inside", "mean"), width=("width", "median")
        )
        found.insert(0, "place", f"{name}, {rows:,} rows, ε = {epsilon:g}, {strata or 'vanilla'}")
        lines.append(found)
        pd.concat(lines).to_csv(arguments.results, index=False)
        console.print(shown(found))


def shown(found: pd.DataFrame) -> Table:
    """A place's coverage, as a table for people."""
    grid = Table("kind", "group", "basis", "intervals", "coverage", "width", title=str(found["place"].iloc[0]))
    for line in found.to_dict("records"):
        covered = "" if line["basis"] == "refused" else f"{line['coverage']:.3f}"
        grid.add_row(
            line["kind"], line["group"], line["basis"], str(line["intervals"]), covered, f"{line['width']:.4f}"
        )
    return grid


if __name__ == "__main__":
    main()
