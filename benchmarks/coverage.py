"""Do intervals of a release's reader cover what the rows hold? Releases of tables drawn from a population.

    python -m benchmarks.coverage --root-dir ACS --state NY,VT --releases 25

For each rows × ε × mechanism × strata so many releases, each of other rows (`benchmarks.rows`) with other noise.
All one-way and two-way proportions, over all rows and within strata, means and contrasts of groups, linear and logistic
coefficients: the share of 95 % intervals that hold the private table's number, by basis and by size of the group,
beside that of naive intervals from the synthetic rows. Intervals of one release share noise, so the standard error of a
share is by releases. Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.rows import COLUMNS, add_rows, population_of
from equistrata.analysis.answers import Answers
from equistrata.analysis.derived import contrasts
from equistrata.analysis.questions import Of, has_numbers, question
from equistrata.analysis.regression.design import Regression
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import noise_source
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.fitting import measure_stratum
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE, StratifiedSynthesizer
from paper.synthesizers import DELTA

LARGE = 200  # rows of a group
Z = 1.96
FIRST = 1_000  # the first seed: none below was used while intervals were made
REGRESSIONS: tuple[tuple[str, Of, tuple[str, ...]], ...] = (
    ("logit", {"ESR": 1}, ("SEX", "DIS", "MAR")),
    ("logit", {"DIS": 1}, ("AGEP", "SEX", "RAC1P")),
    ("ols", "AGEP", ("SEX", "MAR", "ESR")),
    ("ols", "SCHL", ("SEX", "RAC1P", "DIS")),
)
CONTRASTS: tuple[tuple[Of, tuple[str, ...]], ...] = (
    ({"ESR": 1}, ("SEX",)),
    ({"ESR": 1}, ("RAC1P",)),
    ({"DIS": 1}, ("RAC1P",)),
    ({"MAR": 1}, ("SEX", "RAC1P")),
)


@dataclass(frozen=True)
class Seen:
    """One interval: of what kind, on which basis, whether it covers, and how wide it is."""

    kind: str
    group: str
    basis: str
    inside: bool
    width: float


@dataclass(frozen=True)
class Form:
    """How a release is made: the columns of its strata, its mechanism, its ε."""

    strata: tuple[str, ...]
    mechanism: str
    epsilon: float

    @classmethod
    def of(cls, strata: str, mechanism: str, epsilon: float) -> Form:
        """With the columns joined by +; an empty text for none."""
        return cls(tuple(filter(None, strata.split("+"))), mechanism, epsilon)


def evidence_of(table: CodedTable, form: Form, seed: int) -> Evidence:
    """What a reader has of a release."""
    own, made = Strata.over(table.schema, form.strata), mechanism(form.mechanism)
    shared = shared_selection(made, own, None)
    if shared is not None:
        rho = Rho.from_epsilon_delta(form.epsilon, DELTA)
        found = measure_stratum(shared, table, Budget(rho), rho * DEFAULT_COUNT_SHARE, noise_source(seed))
        return Evidence(own, {(): found}, made)
    fitted = StratifiedSynthesizer(form.mechanism, form.strata, epsilon=form.epsilon, delta=DELTA, seed=seed).fit(table)
    return Evidence(own, fitted.measurements_, made)


def intervals(table: CodedTable, answers: Answers, rows: CodedTable) -> Iterator[Seen]:
    """Every interval of one release, and the naive ones of its rows."""
    names, strata = table.schema.names, answers.evidence.strata.columns
    inner = [column for column in names if column not in strata]
    asked: list[tuple[str, str, tuple[str, ...]]] = [("one-way", of, ()) for of in names]
    asked += [("two-way", a, (b,)) for a, b in combinations(names, 2)]
    if strata:
        asked += [("one-way in strata", of, tuple(strata)) for of in inner]
        asked += [("two-way in strata", a, (*strata, b)) for a, b in combinations(inner, 2)]
    for kind, of, by in asked:
        yield from proportions(kind, of, by, answers, table, rows)
    for of, by in product([name for name in inner if has_numbers(table.schema[name])], ((), tuple(strata))):
        yield from proportions("mean" + " in strata" * bool(by), of, by, answers, table, rows, "mean")
    for wanted, by in CONTRASTS:
        if {*(wanted or ()), *by} <= set(names):
            yield from differences(wanted, by, answers, table)
    for of, by in product(inner, strata):  # every value, so that no choice of columns is in it
        for value in table.schema[of].keys:
            yield from differences({of: value}, (by,), answers, table, "contrast, all columns")
    for kind, outcome, on in REGRESSIONS:
        if {*on, *([outcome] if isinstance(outcome, str) else outcome or {})} <= set(names):
            yield from coefficients(kind, outcome, on, answers, table, rows)


def coefficients(
    kind: str, outcome: Of, on: tuple[str, ...], answers: Answers, table: CodedTable, rows: CodedTable
) -> Iterator[Seen]:
    """Those that are finite in the table itself."""
    regression = Regression.of(table.schema, kind, outcome, on)
    counts = table.marginal(regression.columns).astype(float).ravel()
    try:
        found = answers.estimate(kind, outcome, on)
    except InputError:
        yield Seen(kind, "", "refused", False, 0.0)
        return
    value, finite = regression.coefficients(counts), regression.settled(counts)
    for line, real, answerable in zip(found.itertuples(index=False), value, finite, strict=True):
        if answerable or line.basis == "refused":
            yield Seen(kind, "", line.basis, line.lower <= real <= line.upper, line.upper - line.lower)
    drawn = rows.marginal(regression.columns).astype(float).ravel()
    naive, settled = regression.coefficients(drawn), regression.settled(drawn)
    far = Z * np.sqrt(regression.sampling(drawn, naive))
    for place in np.flatnonzero(finite & settled & (found["basis"] != "refused").to_numpy()):
        yield Seen(kind, "", "naive", bool(abs(naive[place] - value[place]) <= far[place]), float(2 * far[place]))


def differences(
    of: Of, by: tuple[str, ...], answers: Answers, table: CodedTable, kind: str = "contrast"
) -> Iterator[Seen]:
    """Differences of a proportion between each group and the first, as large as the smaller of the two."""
    asked = question(table.schema, "proportion", of, by)
    assert asked.bottom is not None
    counts = table.marginal(asked.columns).ravel()
    below = asked.bottom @ counts
    real = asked.labels.assign(
        estimate=asked.top @ counts / np.maximum(below, 1),
        lower=0.0,
        upper=0.0,
        standard_error=0.0,
        sampling_error=0.0,
        basis="measured",
    )
    exact = contrasts(real, by, 0.95, ratio=False)["estimate"].to_numpy()
    try:
        found = answers.estimate("difference", of, by)
    except InputError:
        yield Seen(kind, "", "refused", False, 0.0)
        return
    for line, value, rows in zip(found.itertuples(index=False), exact, below[1:], strict=True):
        small = min(rows, below[0])
        if small >= 1 and line.basis != "refused" and np.isfinite(line.estimate):
            inside = bool(line.lower - 1e-9 <= value <= line.upper + 1e-9)
            yield Seen(kind, _size(small), line.basis, inside, line.upper - line.lower)


def _size(rows: float) -> str:
    return f"{'≥' if rows >= LARGE else '<'} {LARGE}"


def proportions(
    kind: str,
    of: str,
    by: tuple[str, ...],
    answers: Answers,
    table: CodedTable,
    rows: CodedTable,
    statistic: str = "proportion",
) -> Iterator[Seen]:
    """All proportions (or means) of a column by others, and the naive ones of the synthetic rows."""
    asked = question(table.schema, statistic, of, by)
    assert asked.bottom is not None
    counts = table.marginal(asked.columns).ravel()
    below = asked.bottom @ counts
    real = asked.top @ counts / np.maximum(below, 1)
    try:
        found = answers.estimate(statistic, of, by)
    except InputError:
        yield Seen(kind, "", "refused", False, 0.0)
        return
    basis, lower, upper = (found[name].to_numpy() for name in ("basis", "lower", "upper"))
    places = np.flatnonzero((below >= 1) & (basis != "refused") & ~np.isnan(lower.astype(float)))
    for place in places:
        inside = bool(lower[place] - 1e-9 <= real[place] <= upper[place] + 1e-9)
        yield Seen(kind, _size(below[place]), basis[place], inside, upper[place] - lower[place])
    drawn = rows.marginal(asked.columns).ravel()
    of_rows = np.maximum(asked.bottom @ drawn, 1)
    naive = asked.top @ drawn / of_rows
    squares = asked.squares @ drawn / of_rows
    far = Z * np.sqrt(np.maximum(squares - naive**2, 0.0) / of_rows)
    for place in places:
        inside = bool(abs(naive[place] - real[place]) <= far[place])
        yield Seen(kind, _size(below[place]), "naive", inside, float(2 * far[place]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rows(parser)
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--rows", default="7000,30000")
    parser.add_argument("--epsilons", default="0.1,1,10")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--strata", default="SEX+RAC1P")
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--first", type=int, default=FIRST, help="the first release's seed")
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/coverage.csv"))
    arguments = parser.parse_args()
    console = Console()
    names = [name for name in arguments.columns.split(",") if name]
    population = population_of(arguments, names, Schema.load("acs_employment").select(names))
    grid = product(
        map(int, arguments.rows.split(",")),
        map(float, arguments.epsilons.split(",")),
        arguments.mechanisms.split(","),
        arguments.strata.split(","),
    )
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    every: list[pd.DataFrame] = []
    for rows, epsilon, name, strata in grid:
        place = f"{name}, {rows:,} rows, ε = {epsilon:g}, {strata or 'vanilla'}"
        for seed in range(arguments.first, arguments.first + arguments.releases):
            table = population.draw(rows, seed)
            evidence = evidence_of(table, Form.of(strata, name, epsilon), seed)
            drawn = evidence.model.sample(len(table), np.random.default_rng(seed))
            seen = list(intervals(table, Answers(evidence, seed, count=arguments.replicates), drawn))
            every.append(summed(seen).assign(place=place, seed=seed))
            pd.concat(every).to_csv(arguments.results, index=False)  # at once: what was measured stays
        console.print(shown(pd.concat(every[-arguments.releases :])))


def summed(seen: Sequence[Seen]) -> pd.DataFrame:
    """A release's intervals by kind, group and basis: how many, how many hold the real number, the median width."""
    frame = pd.DataFrame([vars(each) for each in seen])
    return frame.groupby(["kind", "group", "basis"], as_index=False).agg(
        intervals=("inside", "size"), inside=("inside", "sum"), width=("width", "median")
    )


def shown(results: pd.DataFrame) -> Table:
    """A place's coverage, with a standard error by releases, as a table for people."""
    place = str(results["place"].iloc[0])
    grid = Table("kind", "group", "basis", "releases", "intervals", "coverage", "s.e.", "width", title=place)
    for (kind, group, basis), part in results.groupby(["kind", "group", "basis"]):
        said, (share, error) = basis != "refused", covered(part)
        grid.add_row(
            kind, group, basis, str(part["seed"].nunique()), str(int(part["intervals"].sum())),
            f"{share:.3f}" if said else "", f"{error:.3f}" if said else "", f"{part['width'].median():.4f}",
        )  # fmt: skip
    return grid


def covered(part: pd.DataFrame) -> tuple[float, float]:
    """The share of intervals that hold the real number, and its standard error by releases (a ratio estimate)."""
    inside, all_ = (part.groupby("seed")[name].sum().to_numpy(dtype=float) for name in ("inside", "intervals"))
    share, n = inside.sum() / all_.sum(), len(all_)
    spread = np.sqrt(n / max(n - 1, 1) * ((inside - share * all_) ** 2).sum()) / all_.sum()
    return float(share), float(spread) if n > 1 else float("nan")


if __name__ == "__main__":
    main()
