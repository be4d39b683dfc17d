"""Figures 1 to 9 of the stratification paper: the runs for each figure, and a comparison with the published numbers.

There are two figures with the number 7 in the paper: the mixture by the number of groups in the caption, and the panels
(a) to (c) in the text. Both are reproduced. The rows are public use or simulated, the scores are exact, and the noise
is seeded, so the results are not private.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import resources
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.inference.means.laplace import equal_log_sizes, expected_log_sizes, fit_alpha, least_log_sizes
from paper import means, mixture, synthesizers
from paper.comparison import Comparison, Place, Sample, Settings, compare, read_published
from paper.lines import LineFile, spread
from paper.synthesizers import COMMON, ESP, NATIVITY, REAL, VANILLA, Cell, Line, real_rows, variants

FIGURES = tuple(range(1, 10))
SIZES_2018 = "ny2018_sex_rac1p.csv"
SEEDS, QUICK_SEEDS = 5, 2
MECHANISMS = ("mst", "aim", "gem")
FINEST = "SEX_RAC1P"
QUICK_EPSILONS = (0.01, 0.1, 1.0, 5.0)
QUICK_ALPHAS, QUICK_SIZES = (0.3, 3.0), (4_000, 12_000, 20_000)
QUICK_STRATA = ("SEX", "RAC1P", "SEX_RAC1P", "SEX_RAC1P_AGEP", "SEX_RAC1P_AGEP_DIS")
ONE_SIZE = (12_000,)  # the number of rows in the figure over the number of groups

KINDS: dict[Any, tuple[type[Any], type[Any]]] = {
    synthesizers: (Cell, Line),
    means: (means.MeanCell, means.MeanLine),
    mixture: (mixture.MixtureCell, mixture.MixtureLine),
}
# The title of each figure, and the panel, the score (`Line.score`) and the strata of each score (empty for all strata).
# A score is also the column of its published numbers. For a sum of columns, it is the sum of the published numbers.
SEVEN = "+".join(COMMON)
SCORES: dict[int, tuple[str, list[tuple[str, str, str]]]] = {
    4: ("employment classifier trained on synthetic rows", [("accuracy, {}", "accuracy", "")]),
    5: ("parity error of the means, by SEX × RAC1P", [("sum of seven columns, {}", SEVEN, "")]),
    7: (
        "disparity of means, demographic parity, false negatives",
        [
            ("(a) largest relative error, {}", "maximum_disparity", ""),
            ("(b) ratio of selection rates, {}", "demographic_parity_ratio", ""),
            ("(c) largest FNR difference, {}", "fnr_difference", ""),
        ],
    ),
    9: (
        "parity error of 3-way marginals",
        [
            ("{} by RAC1P", "parity_workload3_rac1p", "RAC1P"),
            ("{} by SEX × RAC1P", "parity_workload3_sex_rac1p", FINEST),
        ],
    ),
}
CLASSIFIED = ("accuracy", "demographic_parity_ratio", "fnr_difference")
# Results for real rows: the error of all rows without noise relative to the training rows, or the scores of a
# classifier that is trained on real rows.
REAL_ARMS = ("all rows, no noise", "trained on real rows")


def compare_figure(figure: int, settings: Settings) -> Iterator[Comparison]:
    """Make the runs for a figure that are missing in the output folder, and compare the results.

    A later call continues with the missing runs.
    """
    if figure == 1:
        yield _theory()
        return
    source, output, seeds = settings.source, settings.output, settings.runs_of(SEEDS, QUICK_SEEDS)
    eighth = ESP if settings.rows.endswith(f"-{ESP}") else NATIVITY
    lines = {}
    for kind, cells in cells_of(figure, seeds, settings.quick).items():
        name = kind.__name__.removeprefix("paper.")
        if kind is not mixture:  # mixtures are simulated; there is one file for each source of rows
            source.check(())
            name += "-" + re.sub(r"\W+", "-", source.describe()).strip("-") + ("-ESP" if eighth == ESP else "")
        file: LineFile[Any, Any] = LineFile(output / "runs" / f"{name}.csv", *KINDS[kind])
        found = file.read()
        measure = partial(kind.measure, source=source, **({"eighth": eighth} if kind is synthesizers else {}))
        for line in spread(measure, [c for c in cells if c not in found], settings.workers):
            file.append([line])
        found = file.read()
        lines[kind] = [found[cell] for cell in cells]
    place = f"-{settings.rows}" if settings.rows else ""
    exact = f"Not private: exact scores of {source.describe()}; noise from seeds."
    if means in lines:
        title = "means by Coinpress, ρ = 0.5, by declared strata"
        numbers = compare(_of_means(lines[means]), _published_means(lines[means]))
        yield Comparison(f"figure-{figure}{place}", f"Figure {figure}: {title}", "k", exact, numbers)
    if synthesizers in lines:
        title, scores = SCORES[figure]
        made = {"": scores}
        if figure == 5:
            eight = [*COMMON, eighth]
            made["-columns"] = [(f"{name}, {{}}", name, "") for name in eight]
            if eighth == ESP:
                made[""] = [*scores, ("sum of the paper's eight columns, {}", "+".join(eight), "")]
        for part, panels in made.items():
            numbers = compare(_of_synthesizers(lines[synthesizers], panels), _published_synthesizers(panels))
            yield Comparison(f"figure-{figure}{part}{place}", f"Figure {figure}: {title}", "ε", exact, numbers)
    if mixture in lines:
        axis, name = ("k", "figure-7-groups") if figure == 7 else ("n", f"figure-{figure}")
        title = f"Figure {figure}: mean absolute error of the mean of k Gaussians, ρ = 0.5"
        numbers = compare(_of_mixture(lines[mixture], axis), _published_mixture(axis))
        yield Comparison(name, title, axis, "Simulated rows, noise from seeds.", numbers)


def cells_of(figure: int, seeds: int, quick: bool) -> dict[Any, Sequence[Any]]:
    """Return the cells that a figure requires, in order, by the module that measures them."""
    alphas, sizes = (QUICK_ALPHAS, QUICK_SIZES) if quick else (mixture.ALPHAS, mixture.SIZES)
    simulated = {
        3: (mixture.GROUPS, (1.0,), sizes),
        6: (mixture.GROUPS, alphas, sizes),
        7: (mixture.GROUPS, alphas, ONE_SIZE),
    }
    cells: dict[Any, Sequence[Any]] = {}
    if figure in (2, 8):
        outcomes = means.OUTCOMES[: 2 if figure == 2 else None]
        cells[means] = [*means.grid(outcomes, QUICK_STRATA if quick else means.STRATA, seeds)]
    if figure in SCORES:
        strata: tuple[str, ...] = (VANILLA, FINEST) if quick else synthesizers.STRATA
        default: tuple[str, ...] = (FINEST,)
        if figure == 9:  # the two halves of the figure are the error by race, and by sex and race
            strata, default = (VANILLA, "RAC1P", FINEST), ("RAC1P", FINEST)
        every = [cell for name in MECHANISMS for cell in variants(name, strata, default)]
        grid = synthesizers.grid(every, QUICK_EPSILONS if quick else synthesizers.EPSILONS, seeds)
        cells[synthesizers] = [*(real_rows(seeds) if figure != 9 else ()), *grid]
    if figure in simulated:
        cells[mixture] = [*mixture.grid(*simulated[figure], seeds * mixture.RUNS_PER_SEED)]
    return cells


def _theory() -> Comparison:
    """Compare Theorem 10 with its bounds for the sizes of New York 2018, which are public."""
    strata = Strata.over(Schema.load("acs_employment").select(["SEX", "RAC1P", "ESR"]), ["SEX", "RAC1P"])
    with resources.as_file(resources.files("equistrata.data") / "public" / SIZES_2018) as path:
        weights = PublicWeights.from_table(pd.read_csv(path), strata, SIZES_2018)
    assert weights.total is not None
    race: dict[Any, float] = {}
    for (_, value), share in weights.shares.items():
        race[value] = race.get(value, 0.0) + share
    shares, n = list(race.values()), weights.total
    k = len(shares)
    bounds = {
        "k ln(n/k), Proposition 9": equal_log_sizes(k, n),
        "ln(n − k + 1), least": least_log_sizes(k, n),
        "New York 2018 itself": float(np.log(np.array(shares) * n).sum()),
    }
    fitted = [fit_alpha(shares, method="moments"), fit_alpha(shares, method="likelihood")]
    places = sorted([*np.linspace(0.1, 1.0, 10).tolist(), *fitted])
    panel = f"E Σ log|Gᵢ|, k = {k}, n = {n:,.0f}"
    samples = [(panel, "Theorem 10", alpha, expected_log_sizes(k, alpha, n)) for alpha in places]
    samples += [(panel, bound, alpha, value) for bound, value in bounds.items() for alpha in places]
    note = "Theory: nothing was read but published sizes, to which moments and likelihood fit the two α between tenths."
    return Comparison("figure-1", "Figure 1: Theorem 10 between its bounds", "α", note, compare(samples, {}))


def _of_means(lines: Iterable[means.MeanLine]) -> Iterator[Sample]:
    for line in lines:
        for score in ("population", "parity"):
            value = getattr(line, f"{score}_error")
            yield f"{line.outcome}: {score} error", line.estimator, line.declared, value


def _published_means(lines: Iterable[means.MeanLine]) -> dict[Place, float]:
    """Average the published means over all choices of columns with the same number of strata."""
    table = read_published("stratification_means")
    table["declared"] = table.strata.map({line.strata: line.declared for line in lines})
    columns = {
        (score, arm): f"{column}_{ending}"
        for score, ending in (("population", "error"), ("parity", "parity"))
        for arm, column in ((means.AS_PUBLISHED, "coinpress"), (means.STRATIFIED_AS_PUBLISHED, "strat_coinpress"))
    }
    averages = table.groupby(["outcome", "declared"])[[*columns.values()]].mean()
    return {
        (f"{outcome}: {score} error", arm, declared): row[column]
        for (outcome, declared), row in zip(averages.index.tolist(), averages.to_dict("records"), strict=True)
        for (score, arm), column in columns.items()
    }


def _of_synthesizers(lines: Sequence[Line], scores: Iterable[tuple[str, str, str]]) -> Iterator[Sample]:
    epsilons = sorted({line.epsilon for line in lines if line.mechanism != REAL})
    for (panel, score, by), mechanism in product(scores, MECHANISMS):
        for line in lines:
            title = panel.format(mechanism.upper())
            if line.mechanism == mechanism and (not by or line.strata in (VANILLA, by)):
                yield title, line.arm, line.epsilon, line.score(score)
            elif line.mechanism == REAL:
                yield from ((title, REAL_ARMS[score in CLASSIFIED], epsilon, line.score(score)) for epsilon in epsilons)


def _published_synthesizers(scores: Iterable[tuple[str, str, str]]) -> dict[Place, float]:
    table = read_published("stratification_synthesizers")
    return {
        (panel.format(row["synthesizer"]), row["strata"], row["epsilon"]): sum(row[name] for name in score.split("+"))
        for panel, score, _ in scores
        for _, row in table.iterrows()
        if score.split("+")[0] in row
    }


def _of_mixture(lines: Iterable[mixture.MixtureLine], axis: str) -> Iterator[Sample]:
    for line in lines:
        for arm, name in mixture.ARMS.items():
            yield _panel(line.k, line.alpha, axis), arm, getattr(line, axis), getattr(line, name)


def _published_mixture(axis: str) -> dict[Place, float]:
    table = read_published("stratification_mixture")
    if axis == "k":
        table = table[table.n.isin(ONE_SIZE)]
    rows = table.to_dict("records")
    return {(_panel(row["k"], row["alpha"], axis), row["method"], row[axis]): row["error"] for row in rows}


def _panel(k: int, alpha: float, axis: str) -> str:
    return f"α = {alpha:g}" if axis == "k" else f"k = {k}, α = {alpha:g}"
