"""NIST's board: the k-marginal score of releases of SDNist's excerpts, beside sub-samples of the rows themselves.

    python -m benchmarks nist --data FOLDER --features demographic --epsilon 1

FOLDER holds CSV files and data_dictionary.json, as SDNist's excerpts do. The files are pooled, unless --table names
some. Every release is scored whole and by group (`benchmarks.kmarginal`); means and standard errors are over seeds.
Codes, bounds and impossible combinations are the dictionary's. Scores are exact and noise is seeded (not private): for
measuring only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.excerpts import FEATURES, dictionary_in, features_named, rows_in, schema_for
from benchmarks.kmarginal import Dictionary, binned, score, scores_by, scores_within
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.synthesizer import StratifiedSynthesizer

GROUP, PLACE = "RAC1P", "PUMA"
STRATA = ("none", "RAC1P", "SEX+RAC1P", "PUMA")
FEWEST = 500  # rows of a group that counts for the worst: of fewer, a sub-sample of 40 % is not alike either
NATIONAL_ROWS = 27_253
# Scores of the national excerpt of 2019: SDNist's sample reports, their err_comparison.csv and ui.json.
PUBLISHED = (
    ("demographic", 1.0, "smartnoise-synth AIM", 976),
    ("demographic", 1.0, "smartnoise-synth MST", 958),
    ("demographic", 10.0, "smartnoise-synth PATE-CTGAN", 805),
    ("demographic", None, "k-anonymity (6)", 907),
    ("demographic", None, "20 % of the rows", 977),
    ("demographic", None, "40 % of the rows", 987),
    ("21", None, "CART (synthpop), not private, within PUMAs", 923),
)


@dataclass(frozen=True, eq=False)
class Settings:
    """What is released and scored: the rows, raw and coded, with their dictionary, and the price (ε, δ)."""

    rows: pd.DataFrame
    dictionary: Dictionary
    table: CodedTable
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Run:
    """One release's scores: of all rows, within PUMAs as SDNist has it, and by group; None or empty without a column.

    Seconds are of fitting and drawing, on the clock and of processors.
    """

    name: str
    seed: int
    score: float
    within_places: float | None
    groups: dict[str, float]
    places: dict[str, float]
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def scored(name: str, seed: int, settings: Settings, made: Callable[[], pd.DataFrame]) -> Run:
    """Make a table, and score it."""
    clock, cpu = perf_counter(), process_time()
    released = made()
    clock, cpu = perf_counter() - clock, process_time() - cpu
    target, theirs = binned(settings.rows, released, settings.dictionary)
    by_place = PLACE in target
    return Run(
        name,
        seed,
        score(target, theirs),
        score(target, theirs, PLACE) if by_place else None,
        scores_within(target, theirs, GROUP) if GROUP in target else {},
        scores_by(target, theirs, PLACE) if by_place else {},
        clock,
        cpu,
    )


def release(settings: Settings, mechanism: str, strata: Sequence[str], seed: int) -> pd.DataFrame:
    """Synthetic rows as released values, as many as the noisy number of rows says."""
    epsilon, delta = settings.epsilon, settings.delta
    synthesizer = StratifiedSynthesizer(mechanism, strata, epsilon=epsilon, delta=delta, seed=seed)
    return synthesizer.fit(settings.table).sample().astype(str)


def coded(folder: Path, rows: pd.DataFrame, rules: bool) -> CodedTable:
    """The rows by the drafted schema; without rules, and with a remark, if the rows break what the words declare."""
    try:
        return CodedTable.encode(rows, schema_for(folder, rows, rules))
    except InputError as error:
        if not rules:
            raise
        print(f"without the dictionary's impossible combinations: {error}", file=sys.stderr)
        return coded(folder, rows, rules=False)


def runs(
    settings: Settings, mechanisms: Sequence[str], strata: Sequence[str], seeds: int, parts: Sequence[float]
) -> Iterator[Run]:
    """Sub-samples of the rows first, then all forms of release, seed by seed."""
    for part, seed in product(parts, range(seeds)):
        some = partial(settings.rows.sample, frac=part, random_state=seed)
        yield scored(f"{part:.0%} of the rows", seed, settings, some)
    for seed, mechanism, text in product(range(seeds), mechanisms, strata):
        columns = [] if text == "none" else text.split("+")
        name = f"{mechanism.upper()} {'by ' + ' × '.join(columns) if columns else 'vanilla'}"
        yield scored(name, seed, settings, partial(release, settings, mechanism, columns, seed))


def summary(found: Sequence[Run], sizes: dict[str, int]) -> pd.DataFrame:
    """A line for each name: mean score and standard error; the means of groups, and of the worst with FEWEST rows.

    Args:
        sizes: group → its rows.

    >>> made = [Run("x", seed, 980.0 + 4 * seed, None, {"1": 990.0, "2": 900.0}, {}) for seed in range(2)]
    >>> summary(made, {"1": 600, "2": 501})[["score", "±", "worst group", "RAC1P=1"]].iloc[0].tolist()
    [982.0, 2.0, 900.0, 990.0]
    """
    lines = []
    for name in dict.fromkeys(run.name for run in found):
        own = [run for run in found if run.name == name]
        groups = {group: float(np.mean([run.groups[group] for run in own])) for group in own[0].groups}
        places = {place: float(np.mean([run.places[place] for run in own])) for place in own[0].places}
        counted = [mean for group, mean in groups.items() if sizes.get(group, 0) >= FEWEST]
        line: dict[str, object] = {"name": name, **_mean_and_error("score", [run.score for run in own])}
        if own[0].within_places is not None:
            line |= _mean_and_error("within PUMAs", [run.within_places or 0.0 for run in own])
            line["worst PUMA"] = min(places.values())
        line["worst group"] = min(counted, default=float("nan"))
        line |= {f"{GROUP}={group}": mean for group, mean in groups.items()}
        line |= {f"{PLACE}={place}": mean for place, mean in places.items()}
        line["s"] = float(np.mean([run.seconds for run in own]))
        line["cpu s"] = float(np.mean([run.cpu_seconds for run in own]))
        lines.append(line)
    return pd.DataFrame(lines)


def _mean_and_error(name: str, scores: Sequence[float]) -> dict[str, float]:
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")
    return {name: float(np.mean(scores)), "±" if name == "score" else f"{name} ±": error}


def shown(lines: pd.DataFrame, names: Sequence[str], heads: Sequence[str], title: str) -> Table:
    """Some columns of the summary as a table for a terminal; single groups' without decimals."""
    table = Table("", *heads, title=title)
    for _, line in lines.iterrows():
        table.add_row(str(line["name"]), *(f"{line[name]:.{0 if '=' in name else 1}f}" for name in names))
    return table


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks nist", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--data", type=Path, required=True, help="folder of CSV files with data_dictionary.json")
    made.add_argument("--table", default="", help="names of its CSV files, with commas between; all if not given")
    made.add_argument("--features", default="demographic", help=f"{', '.join(FEATURES)}, or columns: AGEP,SEX,…")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--delta", type=float, default=1e-9)
    made.add_argument("--mechanism", default="aim,mst", help="with commas between")
    made.add_argument("--strata", help=f"columns joined by +, or none; with commas between; of {', '.join(STRATA)}")
    made.add_argument("--seeds", type=int, default=5, help="releases of each form")
    made.add_argument("--parts", default="0.2,0.4", help="sub-samples for comparison")
    made.add_argument("--no-rules", action="store_true", help="forget the impossible combinations that words declare")
    made.add_argument("--results", type=Path, default=Path("benchmarks/results"), help="folder of nist.csv")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Release, score, print the table and write it; 2 for settings that cannot be served."""
    options, found = parser().parse_args(words), list[Run]()
    try:
        features = features_named(options.features)
        rows = rows_in(options.data, [name for name in options.table.split(",") if name], features)
        table = coded(options.data, rows, not options.no_rules)
        settings = Settings(rows, dictionary_in(options.data), table, options.epsilon, options.delta)
        parts = [float(part) for part in options.parts.split(",") if part]
        usual = [text for text in STRATA if text == "none" or set(text.split("+")) < set(features)]
        strata = options.strata.split(",") if options.strata else usual
        for run in runs(settings, options.mechanism.split(","), strata, options.seeds, parts):
            found.append(run)
            print(f"{run.name}, seed {run.seed}: {run.score:.1f}", file=sys.stderr)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    sizes = {str(group): int(size) for group, size in rows[GROUP].value_counts().items()} if GROUP in rows else {}
    lines, path = summary(found, sizes), options.results / "nist.csv"
    options.results.mkdir(parents=True, exist_ok=True)
    lines.to_csv(path, index=False)
    console = Console(width=100, highlight=False)
    what = f"{len(rows):,} rows × {len(features)} features, ε = {options.epsilon:g}, δ = {options.delta:g}"
    whole = [name for name in lines.columns if name != "name" and "=" not in name]
    console.print(shown(lines, whole, whole, f"{what}; means of {options.seeds} seeds"))
    groups = [name for name in lines.columns if name.startswith(f"{GROUP}=")]
    if groups:
        heads = [f"{(code := name.partition('=')[2])}\n{sizes[code]:,}" for name in groups]
        title = f"within groups of {GROUP}, with their rows; the worst is of those of {FEWEST} or more"
        console.print(shown(lines, groups, heads, title))
    for of, epsilon, name, published in PUBLISHED:
        if FEATURES[of] == features and epsilon in (None, options.epsilon) and len(rows) == NATIONAL_ROWS:
            print(f"published for the national excerpt: {name} {published}")
    print(f"every PUMA's mean too: {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
