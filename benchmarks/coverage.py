"""Coverage of the intervals that a reader computes from releases of tables drawn from a population.

    python -m benchmarks.coverage --root-dir ACS --state NY,VT --releases 25

For each combination of rows, ε, mechanism and strata, a number of releases are made. Each of them has different rows
(`benchmarks.rows`) and different noise. The statistics are all one-way and two-way proportions, over all rows and
within strata, the means and contrasts of groups, and linear and logistic coefficients. The coverage is the share of 95
% intervals that contain the number of the private table. It is reported by basis and by size of the group, together
with the coverage of naive intervals from the synthetic rows. The intervals of one release share noise, so the standard
error of a share is computed over releases. The noise is seeded, so the results are not private.
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

LARGE = 200  # the number of rows of a large group
Z = 1.96
FIRST = 1_000  # the first seed; smaller seeds were used during the development of the intervals
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
    """One interval.

    Attributes
    ----------
    kind : str
        The kind of statistic.
    group : str
        The size of the group.
    basis : str
        The basis of the answer, or "naive".
    inside : bool
        True if the interval contains the real number.
    width : float
        The width of the interval.
    """

    kind: str
    group: str
    basis: str
    inside: bool
    width: float


@dataclass(frozen=True)
class Form:
    """The settings of a release: the columns that define its strata, its mechanism and its ε."""

    strata: tuple[str, ...]
    mechanism: str
    epsilon: float

    @classmethod
    def of(cls, strata: str, mechanism: str, epsilon: float) -> Form:
        """Create a form. The columns of `strata` are joined by +, and the text is empty if there are no strata."""
        return cls(tuple(filter(None, strata.split("+"))), mechanism, epsilon)


def evidence_of(table: CodedTable, form: Form, seed: int) -> Evidence:
    """Make a release, and return the evidence that is available to a reader."""
    own, made = Strata.over(table.schema, form.strata), mechanism(form.mechanism)
    shared = shared_selection(made, own, None)
    if shared is not None:
        rho = Rho.from_epsilon_delta(form.epsilon, DELTA)
        found = measure_stratum(shared, table, Budget(rho), rho * DEFAULT_COUNT_SHARE, noise_source(seed))
        return Evidence(own, {(): found}, made)
    fitted = StratifiedSynthesizer(form.mechanism, form.strata, epsilon=form.epsilon, delta=DELTA, seed=seed).fit(table)
    return Evidence(own, fitted.measurements_, made)


def intervals(table: CodedTable, answers: Answers, rows: CodedTable) -> Iterator[Seen]:
    """Yield all intervals of one release, and the naive intervals of its rows."""
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
    for of, by in product(inner, strata):  # all values are used, so that there is no selection
        for value in table.schema[of].keys:
            yield from differences({of: value}, (by,), answers, table, "contrast, all columns")
    for kind, outcome, on in REGRESSIONS:
        if {*on, *([outcome] if isinstance(outcome, str) else outcome or {})} <= set(names):
            yield from coefficients(kind, outcome, on, answers, table, rows)


def coefficients(
    kind: str, outcome: Of, on: tuple[str, ...], answers: Answers, table: CodedTable, rows: CodedTable
) -> Iterator[Seen]:
    """Yield the intervals of coefficients that are finite in the table."""
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
    """Yield the intervals of differences in proportions between each group and the first group.

    The size of a difference is the smaller size of its two groups.
    """
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
    """Yield the intervals of all proportions (or means) of a column by others, and the naive intervals of the rows."""
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
            # Written after each release, so that results are kept.
            pd.concat(every).to_csv(arguments.results, index=False)
        console.print(shown(pd.concat(every[-arguments.releases :])))


def summed(seen: Sequence[Seen]) -> pd.DataFrame:
    """Count the intervals of a release by kind, group and basis.

    The result has the number of intervals, the number that contain the real number, and the median width.
    """
    frame = pd.DataFrame([vars(each) for each in seen])
    return frame.groupby(["kind", "group", "basis"], as_index=False).agg(
        intervals=("inside", "size"), inside=("inside", "sum"), width=("width", "median")
    )


def shown(results: pd.DataFrame) -> Table:
    """Return the coverage for one set of settings as a table, with a standard error over releases."""
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
    """Return the share of intervals that contain the real number, and its standard error over releases.

    The share is a ratio estimate.
    """
    inside, all_ = (part.groupby("seed")[name].sum().to_numpy(dtype=float) for name in ("inside", "intervals"))
    share, n = inside.sum() / all_.sum(), len(all_)
    spread = np.sqrt(n / max(n - 1, 1) * ((inside - share * all_) ** 2).sum()) / all_.sum()
    return float(share), float(spread) if n > 1 else float("nan")


if __name__ == "__main__":
    main()
