"""How near a group's columns can come by what one release may spend: a bound on the k-marginal score of a group.

    python -m benchmarks.group_bound --data FOLDER --epsilon 1 --bootstrap 0

Of each group of RAC1P in SDNist's excerpts (`benchmarks.nist`). An oracle is given all but the noise on the group's
columns, each measured at an equal part of ρ within all groups at once (parallel composition), in the score's own bins:

- the group's size, and the sizes of all other groups' cells, exactly;
- for each column the mixture of the other groups' shares that is nearest to the group's own, and how far to go from the
  noisy shares to it, the best for the very draw;
- for each pair the relation, raked to those shares: the nearest among all rows' and the other groups' (*others'*), or
  the group's own exact one (*own*). Each pair by itself: no one table needs to have all of them.

*Ages known*: others' relations, and one column of numbers exact, since smoothing may say more of it than its bins do.
A release has to pay for relations, knows no best mixture or weight, and needs one table. So what the oracle cannot do
at all of ρ is not in reach of releases that learn of a group by its columns. Exact scores: for measuring only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from benchmarks.excerpts import dictionary_in, features_named, rows_in
from benchmarks.kmarginal import BINS, binned
from benchmarks.nist import FEWEST, GROUP, NATIONAL_ROWS
from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from equistrata.synth.models.columns.merging import projected_shares

ALL_ROWS = "all rows"
WEIGHTS = np.linspace(0.0, 1.0, 21)  # of the noisy shares, the rest is the mixture's
STEPS = 60  # of raking
Pair = tuple[str, str]


@dataclass(frozen=True)
class Tables:
    """Shares of one group's rows, or of all: of each column, and of each pair of columns."""

    rows: int
    columns: Mapping[str, Floats]
    pairs: Mapping[Pair, Floats]


@dataclass(frozen=True)
class Bound:
    """A group's scores, means over draws: with the others' relations, its own, and the others' with ages known."""

    group: str
    rows: int
    others: float
    own: float
    ages_known: float


def tables_of(frame: pd.DataFrame, by: str) -> dict[str, Tables]:
    """All rows and each group, over the columns that are not `by`."""
    names = [name for name in frame.columns if name != by]
    codes = {name: np.unique(frame[name].to_numpy().astype(str), return_inverse=True)[1] for name in names}
    sizes = {name: int(codes[name].max()) + 1 for name in names}
    groups = frame[by].to_numpy().astype(str)

    def of(chosen: np.ndarray) -> Tables:
        rows = int(chosen.sum())
        columns = {name: np.bincount(codes[name][chosen], minlength=sizes[name]) / rows for name in names}
        pairs = {}
        for a, b in combinations(names, 2):
            cells = codes[a][chosen] * sizes[b] + codes[b][chosen]
            pairs[a, b] = np.bincount(cells, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b]) / rows
        return Tables(rows, columns, pairs)

    found = {ALL_ROWS: of(np.ones(len(frame), dtype=bool))}
    return found | {group: of(groups == group) for group in np.unique(groups).tolist()}


def nearest_mixture(target: Floats, others: Sequence[Floats]) -> Floats:
    """The mixture of these shares with the least squares to the target.

    >>> nearest_mixture(np.array([0.6, 0.4]), [np.array([1.0, 0.0]), np.array([0.0, 1.0])]).round(3).tolist()
    [0.6, 0.4]
    """
    sums = 1e3  # so heavy that weights add up to one
    matrix = np.vstack([np.column_stack(others), np.full(len(others), sums)])
    weights, _ = nnls(matrix, np.append(target, sums))
    return np.asarray(np.column_stack(others) @ (weights / weights.sum()))


def apart(one: Floats, other: Floats) -> float:
    """Total variation distance."""
    return float(np.abs(one - other).sum() / 2)


def shrunk(noisy: Floats, prior: Floats, truth: Floats) -> Floats:
    """Of the way from the noisy shares to a prior, the point that is nearest to the truth."""
    steps = [weight * noisy + (1 - weight) * prior for weight in WEIGHTS]
    return min(steps, key=lambda each: apart(each, truth))


def raked(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The table's relation with these shares of its rows and columns, by iterative proportional fitting.

    >>> raked(np.full((2, 2), 0.25), np.array([0.9, 0.1]), np.array([0.5, 0.5])).round(3).tolist()
    [[0.45, 0.45], [0.05, 0.05]]
    """
    found = table + 1e-9  # where the relation has no row, and the shares want some
    for _ in range(STEPS):
        found = found * _ratio(rows, found.sum(axis=1))[:, None]
        found = found * _ratio(columns, found.sum(axis=0))
    return found


def _ratio(wanted: Floats, held: Floats) -> Floats:
    return np.asarray(np.divide(wanted, held, out=np.zeros_like(held), where=held > 0))


def bound(tables: Mapping[str, Tables], group: str, rho: float, draws: int, seed: int = 0) -> Bound:
    """What the oracle makes of a group.

    Args:
        rho: for the group's columns, in equal parts.
        draws: of their noise.
    """
    own, others = tables[group], [each for name, each in tables.items() if name != group]
    sigma = gaussian_sigma(rho / len(own.columns))
    ages = max(own.columns, key=lambda name: len(own.columns[name]))
    priors = {name: nearest_mixture(own.columns[name], [each.columns[name] for each in others]) for name in own.columns}
    relations = {
        pair: min((raked(each.pairs[pair], *(own.columns[name] for name in pair)) for each in others),
                  key=lambda made, truth=truth: apart(made, truth))
        for pair, truth in own.pairs.items()
    }  # fmt: skip
    rng, scores = np.random.default_rng(seed), dict[str, list[float]]()
    for _ in range(draws):
        shares = {}
        for name, truth in own.columns.items():
            noisy = projected_shares(truth + rng.normal(0, sigma / own.rows, len(truth)))
            shares[name] = shrunk(noisy, priors[name], truth)
        forms = (("others", relations, shares), ("own", own.pairs, shares))
        for form, known, given in (*forms, ("ages", relations, shares | {ages: own.columns[ages]})):
            made = [apart(raked(known[a, b], given[a], given[b]), truth) for (a, b), truth in own.pairs.items()]
            scores.setdefault(form, []).append(1000 * (1 - mean(made)))
    return Bound(group, own.rows, *(mean(scores[form]) for form in ("others", "own", "ages")))


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.group_bound", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--data", type=Path, required=True, help="folder of CSV files with data_dictionary.json")
    made.add_argument("--features", default="demographic", help="as of python -m benchmarks nist")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--shares", default="1,0.5", help="parts of ρ for columns within groups, with commas between")
    made.add_argument("--bootstrap", type=int, help=f"{NATIONAL_ROWS:,} rows drawn with this seed instead of the rows")
    made.add_argument("--draws", type=int, default=10)
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Print the bounds of all groups of FEWEST rows and more; 2 for settings that cannot be served."""
    options = parser().parse_args(words)
    try:
        rows = rows_in(options.data, [], features_named(options.features))
        if GROUP not in rows:
            raise InputError(f"the features lack {GROUP}, whose groups are bounded; name it among --features")
        if options.bootstrap is not None:
            rows = rows.sample(NATIONAL_ROWS, replace=True, random_state=options.bootstrap, ignore_index=True)
        rho = float(Rho.from_epsilon_delta(options.epsilon, options.delta))
        tables = tables_of(binned(rows, rows, dictionary_in(options.data))[0], GROUP)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    title = f"{len(rows):,} rows, ε = {options.epsilon:g}; numbers in at most {BINS} bins; {options.draws} draws"
    shown = Table("group", "rows", "part of ρ", "others' relations", "own", "ages known", title=title)
    for group, each in tables.items():
        for part in map(float, options.shares.split(",")):
            if group != ALL_ROWS and each.rows >= FEWEST:
                found = bound(tables, group, rho * part, options.draws)
                scores = (found.others, found.own, found.ages_known)
                shown.add_row(group, f"{each.rows:,}", f"{part:g}", *(f"{score:.0f}" for score in scores))
    Console(width=100, highlight=False).print(shown)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
