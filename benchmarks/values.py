"""Released values against equal-width public edges, in parts of a state: `python -m benchmarks.values --root-dir ACS`.

Columns of numbers declare bounds alone, or 10, 20, 50 or 100 bins of one width. For each number and each declaration:
the Wasserstein distance and the mean error of five quantiles (10 to 90 %), over all rows and, the largest, in a stratum
of at least 500 rows; the share of the value that most rows hold (0 income, 40 hours), and of round thousands among
incomes of five digits and more. Errors are exact and noise is seeded (not private): for measuring only. Each release
has noise of its own: with one seed for all, the same draws came back in every part and declaration, and a rare one
decided all of them (docs/experiments/coarsening.md).
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import wasserstein_distance

from benchmarks.populations import Population
from equistrata.data.columns.column import Column
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.synth.synthesizer import StratifiedSynthesizer

NUMBERS = {"AGEP": (0, 99), "WKHP": (0, 99), "JWMNP": (0, 200), "PINCP": (-20_000, 2_000_000)}
ATOMS = {"WKHP": 40, "PINCP": 0}
OTHERS = {"SEX": (1, 3), "RAC1P": (1, 10), "MAR": (1, 6), "DIS": (1, 3), "CIT": (1, 6)}
STRATA = ("SEX", "RAC1P")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEWEST_ROWS = 500
EDGES = (0, 10, 20, 50, 100)  # bins of one width; 0: bounds alone
THOUSANDS = {"PINCP": 1_000}  # among numbers of ten times as much and more
DRAWS = (60_000, 8_000, 25_000)  # rows of a table drawn by `benchmarks.populations`, "draw7000" and on, in turn
PARTS = {"part15": 15_000, "part30": 30_000, "part70": 70_000}  # of New York, by area
AREAS = {  # of New York, by the first three digits of their codes of five
    "west": ("009", "010", "011", "012"),
    "hudson": ("007", "008", "018", "019", "020", "021", "022"),
    "westchester": ("029", "030", "031"),
    "queens": ("044",),
    "brooklyn": ("043",),
    "central": ("013", "015", "016", "017", "023", "024", "025", "026"),
}

Numbers = npt.NDArray[np.float64]


def declared(bins: int) -> Schema:
    """The schema with so many bins in each column of numbers; 0 for bounds alone."""
    columns: dict[str, dict[str, object]] = {name: {"values": list(range(*ends))} for name, ends in OTHERS.items()}
    for name, (lower, upper) in NUMBERS.items():
        columns[name] = {"lower": lower, "upper": upper, "integer": True, "missing": "own"}
        if bins:
            columns[name]["edges"] = sorted({float(edge) for edge in np.linspace(lower, upper, bins + 1).round(6)})
            if (upper - lower) < bins:
                columns[name]["edges"] = [lower - 0.5, *(x + 0.5 for x in range(lower, upper)), upper + 0.5]
    return Schema.from_dict({"columns": columns}, "values")


def part_of(people: pd.DataFrame, name: str) -> pd.DataFrame:
    """Some areas of a state: as AREAS names them, or drawn once for all, with about so many rows as PARTS says, or rows
    of a population's draw of this seed (DRAWS)."""
    if name.startswith("draw"):
        seed = int(name.removeprefix("draw"))
        rows = Schema("rows", (Column("ROW", values=tuple(range(len(people)))),))
        places = np.unique(people["PUMA"].to_numpy(), return_inverse=True)[1].astype(np.int64)
        all_rows = CodedTable(np.arange(len(people), dtype=np.uint32)[:, None], rows)
        drawn = Population(all_rows, places).draw(DRAWS[seed % len(DRAWS)], seed)
        return people.iloc[np.sort(drawn.column("ROW").astype(np.int64))]
    if name in AREAS:
        return people[people["PUMA"].astype(int).astype(str).str.zfill(5).str[:3].isin(AREAS[name])]
    if name not in PARTS:
        return people
    areas = people["PUMA"].value_counts().sample(frac=1, random_state=list(PARTS).index(name)).cumsum()
    return people[people["PUMA"].isin(areas.index[areas <= PARTS[name]])]


def errors(real: pd.DataFrame, released: pd.DataFrame, name: str) -> dict[str, float]:
    """What the table of this page has for one column."""
    groups = [key for key, rows in real.groupby(list(STRATA)) if len(rows) >= FEWEST_ROWS]
    theirs = dict(iter(released.groupby(list(STRATA))))
    sides = [(numbers(real, name), numbers(released, name))]
    sides += [(numbers(rows, name), numbers(theirs[key], name)) for key, rows in real.groupby(list(STRATA))
              if key in groups]  # fmt: skip
    apart = [float(wasserstein_distance(*side)) for side in sides]
    quantiles = [float(np.abs(np.subtract(*(np.quantile(x, QUANTILES) for x in side))).mean()) for side in sides]
    found = {"w": apart[0], "q": quantiles[0], "worst_w": max(apart[1:]), "worst_q": max(quantiles[1:])}
    found["sd"] = float(sides[0][1].std() / max(sides[0][0].std(), 1e-12))
    if name in ATOMS:
        found |= {key: float((x == ATOMS[name]).mean()) for key, x in zip(("atom", "drawn"), sides[0], strict=True)}
    if name in THOUSANDS:
        large = [x[np.abs(x) >= 10 * THOUSANDS[name]] for x in sides[0]]
        parts = [float((x % THOUSANDS[name] == 0).mean()) for x in large]
        found |= dict(zip(("round", "drawn_round"), parts, strict=True))
    return found


def numbers(rows: pd.DataFrame, name: str) -> Numbers:
    """A column's present numbers."""
    return np.asarray(pd.to_numeric(rows[name]).dropna(), dtype=np.float64)


def noise_of(state: str, bins: int, seed: int) -> int:
    """The seed of a release's noise: another one for each part, declaration and repeat."""
    return zlib.crc32(f"{state} {bins} {seed}".encode())


def measured(real: pd.DataFrame, bins: int, noise: int, epsilon: float, mechanism: str) -> Iterator[dict[str, object]]:
    """One release with this seed of its noise, a line for each column."""
    fitted = StratifiedSynthesizer(mechanism, STRATA, epsilon=epsilon, delta=1e-9, seed=noise)
    released = fitted.fit(real, declared(bins)).sample()
    for name in NUMBERS:
        yield {"column": name, "bins": bins, **errors(real, released, name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root-dir", type=Path, required=True)
    parser.add_argument("--states", default="VT,part15,part30,part70,NY", help=f"and {', '.join(AREAS)}, draw7000")
    parser.add_argument("--bins", default=",".join(map(str, EDGES)))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--output", type=Path, required=True, help="lines of JSON; what is there is not done again")
    arguments = parser.parse_args()
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    done = {(each["state"], each["bins"], each["seed"]) for each in map(json.loads, lines)}
    for state in arguments.states.split(","):
        file = arguments.root_dir / "2024" / "1-Year" / f"psam_p{'50' if state == 'VT' else '36'}.csv"
        people = part_of(pd.read_csv(file, usecols=["PUMA", *NUMBERS, *OTHERS]), state)
        for seed in range(arguments.seeds):
            for bins in map(int, arguments.bins.split(",")):
                if (state, bins, seed) not in done:
                    noise = noise_of(state, bins, seed)
                    for line in measured(people, bins, noise, arguments.epsilon, arguments.mechanism):
                        with arguments.output.open("a") as file_:
                            print(json.dumps({"state": state, "seed": seed, **line}), file=file_)


if __name__ == "__main__":
    main()
