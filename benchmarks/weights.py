"""Group weights from a public file, noisy counts, or both by inverse variance: `python -m benchmarks.weights`.

    python -m benchmarks.weights --root-dir ACS --weights data/public/ny2018_sex_rac1p.csv

The file's shares are another year's than the rows': the default, New York's of 2018 for rows of 2024, has a third of
the people of two or more races. For each ε and source of weights, means over seeds of: the L1 error of the shares;
the worst relative error of a stratum with at least 0.1 % of the rows, and which it is most often; the 3-way workload
error of the release; and the relative error of a population mean, once from exact means of the strata (the weights'
part alone), once by the stratified estimator at a quarter of the release's ρ (with noisy counts: its own, as in a
release). Errors are exact and noise is seeded (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import add_rows, source_of
from equistrata.data.columns.cells import numbers
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import MIN_SHARE, Key, Strata
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.eval.scores.parity import relative_error
from equistrata.eval.scores.tables import Pair
from equistrata.eval.scores.workload import workload_error
from equistrata.inference.means.coinpress import Coinpress
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.strata.weights import combined_weights
from equistrata.synth.synthesizer import NOISY, StratifiedSynthesizer
from paper.synthesizers import COLUMNS, DELTA

STRATA = ("SEX", "RAC1P")
EPSILONS = (0.01, 0.1, 1.0, 5.0)
PUBLIC, COUNTS, COMBINED = "public file", "noisy counts", "both"
SOURCES = (PUBLIC, COUNTS, COMBINED)
MEANS_SHARE = 0.25

Groups = Mapping[Key, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Line:
    """What one source's weights did in one release.

    Attributes:
        shares: L1 distance of the shares from the true ones.
        worst: the largest relative error of a share, of strata with at least 0.1 % of the rows.
        stratum: which that is.
        workload: 3-way workload error of as many synthetic rows as the model stands for.
        weighted: |Σ share · mean − truth| / |truth| with exact means of the strata; the truth has the true shares.
        estimated: the same by the stratified estimator.
    """

    shares: float
    worst: float
    stratum: str
    workload: float
    weighted: float
    estimated: float


def measure(
    table: CodedTable, public: PublicWeights, column: Column, groups: Groups, mechanism: str, epsilon: float, seed: int
) -> Iterator[tuple[str, Line]]:
    """One release with the public weights alone, and one with noisy counts, whose weights are then also combined.

    Args:
        table: the coded rows.
        public: shares of SEX × RAC1P.
        column: the outcome, with its bounds and σ.
        groups: stratum → the values of the people who have the outcome.
    """
    strata = Strata.over(table.schema, STRATA)
    counts = np.bincount(strata.index(table), minlength=len(strata.keys))
    true = PublicWeights.from_counts(dict(zip(strata.keys, counts.tolist(), strict=True)), strata, "the rows")
    given, bought = (
        StratifiedSynthesizer(mechanism, STRATA, epsilon=epsilon, delta=DELTA, weights=weights, seed=seed).fit(table)
        for weights in (public, NOISY)
    )
    both = combined_weights(strata, bought.measurements_, public)
    models = (given.model_, bought.model_, replace(bought.model_, weights=both))
    for source, model in zip(SOURCES, models, strict=True):
        drawn = model.sample(None, np.random.default_rng(seed))
        worst, stratum = worst_stratum(true, model.weights, strata)
        estimated = stratified_mean(groups, None if source == COUNTS else model.weights, column, epsilon, seed)
        # Its own counts are of the people who have the outcome, so that is whom it is then about.
        everybody = np.concatenate(list(groups.values()))
        truth = everybody.mean() if source == COUNTS else weighted_mean(groups, true)
        yield (
            source,
            Line(
                shares=l1_error(true, model.weights),
                worst=worst,
                stratum=stratum,
                workload=workload_error(Pair.of(table, drawn)),
                weighted=float(relative_error(weighted_mean(groups, true), weighted_mean(groups, model.weights))),
                estimated=float(relative_error(truth, estimated)),
            ),
        )


def l1_error(true: PublicWeights, found: PublicWeights) -> float:
    """The sum of the absolute errors of the shares, in [0, 2]."""
    return sum(abs(share - found.shares[key]) for key, share in true.shares.items())


def worst_stratum(true: PublicWeights, found: PublicWeights, strata: Strata) -> tuple[float, str]:
    """The largest |share − true share| / true share of strata with at least 0.1 % of the rows, and its stratum."""
    kept = {key: share for key, share in true.shares.items() if share >= MIN_SHARE}
    errors = {key: abs(found.shares[key] - share) / share for key, share in kept.items()}
    worst = max(errors, key=lambda key: errors[key])
    return errors[worst], strata.label(worst)


def weighted_mean(groups: Groups, weights: PublicWeights) -> float:
    """The exact means of the strata, weighed by shares; a stratum of nobody has no mean, and no part."""
    filled = {key: values for key, values in groups.items() if len(values)}
    covered = sum(weights.shares[key] for key in filled)
    return sum(weights.shares[key] * float(values.mean()) for key, values in filled.items()) / covered


def stratified_mean(groups: Groups, weights: PublicWeights | None, column: Column, epsilon: float, seed: int) -> float:
    """PubStratCoinpress, or StratCoinpress without weights, with the settings of a release at this ε."""
    assert column.sigma is not None
    lower, upper = column.mean_bounds
    coinpress = Coinpress(lower, upper, column.sigma, sizes="noisy", bounds=column.bounds)
    rho = Rho.from_epsilon_delta(epsilon, DELTA) * MEANS_SHARE
    return coinpress.by_strata(groups, weights, rho, SeededNoise(seed)).value


def main() -> None:
    """Measure every ε, source and seed, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weights", description=(__doc__ or "").splitlines()[0])
    add_rows(parser)
    parser.add_argument("--weights", default="data/public/ny2018_sex_rac1p.csv", help="sizes or shares by SEX, RAC1P")
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--outcome", default="PINCP", help="a column of schema acs_means")
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    source = source_of(arguments)
    frame = source.read(list(dict.fromkeys([*COLUMNS, arguments.outcome])))
    table = CodedTable.encode(frame, Schema.load("acs_employment").select(COLUMNS))
    strata, column = Strata.over(table.schema, STRATA), Schema.load("acs_means")[arguments.outcome]
    values, absent = numbers(frame[column.name], column)
    index = strata.index(table)
    groups = {key: values[~absent & (index == place)] for place, key in enumerate(strata.keys)}
    public = PublicWeights.from_file(arguments.weights, strata)
    shown = Table(title=f"{arguments.mechanism} by {' × '.join(STRATA)}, {arguments.seeds} seeds", title_justify="left")
    heads = ("ε", "weights", "L1 of shares, %", "worst stratum, %", "which", "3-way workload")
    for head in (*heads, f"{column.name}, exact means, %", f"{column.name}, estimated, %"):
        shown.add_column(head, justify="left" if head in ("weights", "which") else "right")
    console = Console(width=140)
    for epsilon in map(float, arguments.epsilons.split(",")):
        lines: dict[str, list[Line]] = {source: [] for source in SOURCES}
        for seed in range(arguments.seeds):
            for weights, line in measure(table, public, column, groups, arguments.mechanism, epsilon, seed):
                lines[weights].append(line)
            console.print(f"ε = {epsilon:g}, seed {seed} done", highlight=False)
        for weights, found in lines.items():
            shown.add_row(f"{epsilon:g}", weights, *_cells(found))
    console.print(shown)


def _cells(lines: list[Line]) -> list[str]:
    often = Counter(line.stratum for line in lines).most_common(1)[0][0]
    return [
        f"{100 * mean(line.shares for line in lines):.3g}",
        f"{100 * mean(line.worst for line in lines):.3g}",
        often,
        f"{mean(line.workload for line in lines):.4f}",
        f"{100 * mean(line.weighted for line in lines):.3g}",
        f"{100 * mean(line.estimated for line in lines):.3g}",
    ]


if __name__ == "__main__":
    main()
