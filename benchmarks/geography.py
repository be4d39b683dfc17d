"""Counts by place, sex, race and age, and how far off they must be: `python -m benchmarks.geography --root-dir ACS`.

    python -m benchmarks.geography --root-dir ACS --state NY,VT           # seconds: sizes alone, and the bound
    python -m benchmarks.geography --root-dir ACS --state NY,VT --fit     # whole fits too, some minutes of processor
    python -m benchmarks.geography --root-dir ACS --state NY --ten        # ten states made up of New York's places

A line for each way to count: root mean squared error over all cells of PUMA × SEX × RAC1P × AGEP, as numbers of rows.
The bound is for any measurements by normal noise (docs/experiments/geography.md). Seeded noise and exact scores (not
private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.synth.measurements import Columns, Measurement, Merging, sum_groups
from equistrata.synth.mechanisms.levels import NESTED_SHARE, Levels
from equistrata.synth.strata.hierarchy import nested_sizes
from equistrata.synth.synthesizer import StratifiedSynthesizer

CELLS = ("PUMA", "SEX", "RAC1P", "AGEP")
AGES = [0, 18, 35, 50, 65, 100]
OTHERS = {"SCHL": range(1, 25), "MAR": range(1, 6), "DIS": (1, 2), "ESR": range(1, 7), "CIT": range(1, 6)}
FITS = (
    ("AIM without strata", "aim", ()),
    ("MST, PUMA,SEX,RAC1P", "mst", ("PUMA", "SEX", "RAC1P")),
    ("MST, ST/PUMA,SEX,RAC1P", "mst", ("ST/PUMA", "SEX", "RAC1P")),
    ("MST, ST/PUMA,SEX,RAC1P,AGEP", "mst", ("ST/PUMA", "SEX", "RAC1P", "AGEP")),
)
PARTS = (1.0, 0.5, NESTED_SHARE, 0.15)  # of ρ, for the bound
STATES, PLACES = 10, 30  # made up: states, and places of each
ROWS, SPREAD = 1400.0, 0.35  # of a made-up place: rows, and the standard deviation of their logarithm
DONORS = 12  # places that those of one made-up state are drawn from


class Line(NamedTuple):
    """A way to count, its seed (None where there is none), and its root mean squared error, in rows."""

    way: str
    seed: int | None
    error: float


def least_error(counts: Floats, rho: float) -> float:
    """Root mean squared error of the best estimate of counts when all of ρ buys their table, and what else is known
    says only what each is expected to be: √ of the mean of e·σ²/(e + σ²), with the counts for e and σ² = 1/(2ρ).

    That is concave in e, so by counts it is at most what it is by their expectations.

    >>> round(least_error(np.array([0.0, 10.0]), 0.05), 2)  # √((0 + 10·10/20) / 2)
    1.58
    """
    variance = 1 / (2 * rho)
    return float(np.sqrt((counts * variance / (counts + variance)).mean()))


def error_of(found: Floats, counts: Floats) -> float:
    """Root mean squared error."""
    return float(np.sqrt(((found - counts) ** 2).mean()))


def places_of(root: str, states: Sequence[str], year: int) -> pd.DataFrame:
    """The rows of some states, with ST and PUMA."""
    frames = []
    for number, state in enumerate(states):
        frame = FolktablesSource((state,), year, root_dir=root).read(["PUMA", *CELLS[1:], *OTHERS])
        frames.append(frame.assign(ST=number))
    return pd.concat(frames, ignore_index=True)


def ten_states(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Made-up states: a place is a bootstrap of two of the frame's places in random parts, those of one state from a
    dozen; sizes are log-normal."""
    rng = np.random.default_rng(seed)
    own = list(frame.groupby(["ST", "PUMA"]).indices.values())
    found, states, names = [], [], []
    for state in range(STATES):
        donors = rng.choice(len(own), min(DONORS, len(own)), replace=False)
        for place in range(PLACES):
            rows = int(ROWS * np.exp(SPREAD * rng.standard_normal()))
            one, other = (own[each] for each in rng.choice(donors, 2))
            first = rng.binomial(rows, rng.random())
            found.append(np.concatenate([rng.choice(one, first), rng.choice(other, rows - first)]))
            states.append(np.full(rows, state))
            names.append(np.full(rows, 100 * state + place))
    made = frame.iloc[np.concatenate(found)].reset_index(drop=True)
    return made.assign(ST=np.concatenate(states), PUMA=np.concatenate(names))


def schema_of(frame: pd.DataFrame) -> Schema:
    """The columns that are modelled, places as the rows have them: for measuring only."""
    places = {int(state): sorted({int(place) for place in own}) for state, own in frame.groupby("ST")["PUMA"]}
    coded = {name: {"values": [0, *values], "missing": 0} for name, values in OTHERS.items()}
    return Schema.from_dict(
        {
            "columns": {
                "PUMA": {"within": "ST", "values": places},
                "SEX": {"values": [1, 2]},
                "RAC1P": {"values": [*range(1, 10)]},
                "AGEP": {"lower": AGES[0], "upper": AGES[-1], "edges": AGES, "integer": True},
                **coded,
            }
        },
        "the places of a benchmark",
    )


def drawn(counts: Floats, schema: Schema, rho: float, seed: int, share: float = NESTED_SHARE) -> list[Measurement]:
    """Sizes at all levels as a release buys them with a share of ρ, of these counts by `CELLS`; not private."""
    rng, found = np.random.default_rng(seed), []
    levels: list[tuple[Columns, tuple[Merging, ...], float]] = Levels(strata=CELLS).hierarchy(schema)
    for columns, groups, part in levels:
        if not set(columns) <= set(CELLS):
            continue
        table = counts.sum(tuple(axis for axis, name in enumerate(CELLS) if name not in columns))
        for axis, merged in enumerate(groups):
            table = table if merged is None else sum_groups(table, axis, merged)
        sigma = (1 / (2 * rho * part * share / NESTED_SHARE)) ** 0.5
        found.append(Measurement(columns, table + rng.normal(0, sigma, table.shape), sigma, groups))
    return found


def measure(
    table: CodedTable, epsilon: float, delta: float, seeds: int, fits: Sequence[tuple[str, str, Columns]] = ()
) -> Iterator[Line]:
    """A line for the bound at each part of ρ, for sizes alone by each seed, and for each fit and seed."""
    schema, rho = table.schema, float(Rho.from_epsilon_delta(epsilon, delta))
    counts = np.zeros([schema[name].size for name in CELLS])
    np.add.at(counts, tuple(table.codes[:, schema.index(name)] for name in CELLS), 1)
    for part in PARTS:
        yield Line(f"no less is possible with {part:g} of ρ", None, least_error(counts, part * rho))
    strata = Strata.over(schema, ["ST/PUMA", *CELLS[1:]])
    for seed in range(seeds):
        sizes = nested_sizes(strata, drawn(counts, schema, rho, seed))
        yield Line(f"sizes alone, {NESTED_SHARE:g} of ρ", seed, error_of(sizes, counts))
    for (way, mechanism, by), seed in ((fit, seed) for fit in fits for seed in range(seeds)):
        fitted = StratifiedSynthesizer(mechanism, by, epsilon=epsilon, delta=delta, seed=seed).fit(table)
        yield Line(way, seed, error_of(fitted.model_.marginal(CELLS), counts))


def show(lines: Sequence[Line], console: Console) -> None:
    """A row for each way: the mean over seeds, their range, and the part of AIM's error."""
    errors = pd.DataFrame(lines).groupby("way", sort=False)["error"].agg(["mean", "min", "max"])
    aim = errors["mean"].get(FITS[0][0])
    shown = Table("way", "RMSE", "range", "of AIM's", title="rows of a cell of PUMA × SEX × RAC1P × AGEP")
    for way, (mean, low, high) in zip(errors.index, errors.to_numpy(), strict=True):
        shown.add_row(str(way), f"{mean:.2f}", f"{low:.2f} to {high:.2f}", "" if aim is None else f"{mean / aim:.2f}")
    console.print(shown)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root-dir", required=True, help="ACS files")
    parser.add_argument("--state", default="NY,VT", help="postal codes, joined by commas")
    parser.add_argument("--year", type=int, default=2024)
    parser.add_argument("--ten", action="store_true", help="ten states made up of these places instead")
    parser.add_argument("--fit", action="store_true", help="whole fits as well")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seeds", type=int, default=3)
    arguments: Any = parser.parse_args()
    frame = places_of(arguments.root_dir, arguments.state.split(","), arguments.year)
    frame = ten_states(frame, 0) if arguments.ten else frame
    schema, console = schema_of(frame), Console()
    fits = FITS if arguments.fit else ()
    table = CodedTable.encode(frame, schema)
    console.print(f"{len(table):,} rows, {schema['PUMA'].size} places")
    show([*measure(table, arguments.epsilon, arguments.delta, arguments.seeds, fits)], console)


if __name__ == "__main__":
    main()
