"""The simulation of section 3 of the ratio paper: width and coverage of private intervals.

Scores s ~ Beta(2, 2), labels y ~ Bernoulli(s/1.1), weights Exponential(1) clipped to [1/3, 3], δ = 10⁻⁶: the true
ratio is 1.1. Source: Miao and Li, Privacy-preserving inference on the ratio of two Gaussians using sums (2023),
Tables 1 to 4.

>>> cells = simulate_ratio(1, repetitions=200, sizes=(5000,), epsilons=(0.2,))
>>> [(cell.method, round(cell.width, 2), cell.coverage > 0.91) for cell in cells if not cell.weighted]
[('public', 0.06, True), ('none', 0.06, False), ('monte-carlo', 0.08, True), ('analytical', 0.08, True)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.inference.ratios.design import Composition, Mechanism, PricedDesign, sums_in_unit
from equistrata.inference.ratios.ratio import DRAWS, Correction, value_and_variance, wald
from equistrata.inference.ratios.sums import lattice_sums, noisy_lattice_sums
from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import NoiseSource, SeededNoise
from paper.comparison import Comparison, Sample, Settings, compare, read_published

Method = Literal["public", "none", "monte-carlo", "analytical"]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]

TABLES: Mapping[int, tuple[Mechanism, bool]] = {  # noise, and whether of the log ratio
    1: ("gaussian", False),
    2: ("gaussian", True),
    3: ("laplace", False),
    4: ("laplace", True),
}
SIZES = (5_000, 10_000)
EPSILONS = (0.2, 0.5, 1.0, 4.0)
DELTA = 1e-6
REPETITIONS, QUICK_REPETITIONS = 1000, 100
COMPOSITIONS: Mapping[Composition, str] = {"basic": "", "joint": ", joint noise"}
LEVEL = 0.95
TRUE_RATIO = 1.1
WEIGHT_BOUND = 3.0
NOISES = 10  # draws of the noise for each table of people
PEOPLE, NOISE, MONTE_CARLO = 0, 1, 2  # streams
BLOCK = 400_000  # people that are drawn at once
TABLES_AT_ONCE = 1_000  # of people, that intervals are made for at once


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        n, weighted, epsilon, method: which cell. "public" has no noise and is the same for every ε.
        width: mean length of the 95 % interval (of ln r in Tables 2 and 4).
        coverage: share of intervals that hold the true ratio.
        score: mean interval score, smaller is better (Gneiting and Raftery 2007, eq. 43).

    Without a finite interval (a negative variance, no logarithm) a run is a miss, left out of width and score.
    """

    n: int
    weighted: bool
    epsilon: float
    method: Method
    width: float
    coverage: float
    score: float


def compare_table(table: int, settings: Settings) -> Iterator[Comparison]:
    """Simulate a table with the paper's composition, beside what it printed, and with equistrata's joint noise."""
    printed = read_published("ratio")
    printed = printed[printed.table == table]
    scores, published = ("width", "coverage", "score"), {}
    for score, (_, row) in product(scores, printed.iterrows()):
        published[_panel(score, row["n"], row["weighted"]), row["method"], row["epsilon"]] = row[score]
    repetitions = settings.runs_of(REPETITIONS, QUICK_REPETITIONS)
    cells = {name: simulate_ratio(table, repetitions, name) for name in COMPOSITIONS}
    samples: list[Sample] = [
        (_panel(score, cell.n, cell.weighted), cell.method + suffix, cell.epsilon, getattr(cell, score))
        for score in scores
        for name, suffix in COMPOSITIONS.items()
        for cell in cells[name]
    ]
    mechanism, log = TABLES[table]
    title = f"Table {table}: intervals for {'the logarithm of ' if log else ''}a ratio of means, {mechanism} noise"
    note = f"Made-up people, {repetitions:,} repetitions, ten times noise for each."
    yield Comparison(f"ratio-{table}", title, "ε", note, compare(samples, published))


def simulate_ratio(
    table: int,
    repetitions: int = REPETITIONS,
    composition: Composition = "joint",
    *,
    sizes: Sequence[int] = SIZES,
    epsilons: Sequence[float] = EPSILONS,
    seed: int = 0,
) -> list[Cell]:
    """Simulate a table: 1 (ratio, Gaussian noise), 2 (log ratio, Gaussian), 3 (ratio, Laplace), 4 (log ratio, Laplace).

    `composition` is "basic", the paper's, or "joint". Noise is added ten times to each repetition's table of people,
    and every ε sees the same people and unit noise.
    """
    mechanism, log = TABLES[table]
    cells: list[Cell] = []
    for n in sizes:
        designs = {
            weighted: [
                PricedDesign.of_epsilon_delta(e, DELTA, mechanism, composition, weighted=weighted, binary=True)
                for e in epsilons
            ]
            for weighted in (False, True)
        }
        exact = _exact_sums(n, repetitions, designs, np.random.default_rng([seed, n, PEOPLE]))
        for weighted, designs_of in designs.items():
            for epsilon, priced in zip(epsilons, designs_of, strict=True):
                source = SeededNoise(np.random.SeedSequence([seed, n, weighted, NOISE]))
                rng = np.random.default_rng([seed, n, weighted, MONTE_CARLO])
                intervals = _intervals(exact[weighted], priced, weighted, log, source, rng)
                cells += [Cell(n, weighted, epsilon, *_score(*interval, log)) for interval in intervals]
    return cells


def _panel(score: str, n: int, weighted: bool) -> str:
    return f"{score}, n = {n:,}{', weights' if weighted else ''}"


def _exact_sums(
    n: int, repetitions: int, designs: Mapping[bool, Sequence[PricedDesign]], rng: np.random.Generator
) -> dict[bool, Counts]:
    """Lattice sums of each repetition, shape (repetitions, k), without and with weights: of the same people."""
    parts: dict[bool, list[Counts]] = {False: [], True: []}
    step = max(1, BLOCK // n)
    for start in range(0, repetitions, step):
        shape = (min(step, repetitions - start), n)
        first, second, third = rng.random((3, *shape))
        low, high = np.minimum(first, second), np.maximum(first, second)
        score = np.maximum(low, np.minimum(high, third))  # the median of three uniforms is Beta(2, 2)
        label = (rng.random(shape) < score / TRUE_RATIO).astype(np.float64)
        weight = np.clip(rng.standard_exponential(shape), 1 / WEIGHT_BOUND, WEIGHT_BOUND) / WEIGHT_BOUND
        for weighted, (priced, *_) in designs.items():
            parts[weighted].append(lattice_sums(score, label, weight if weighted else None, priced.design))
    return {weighted: np.concatenate(blocks) for weighted, blocks in parts.items()}


def _intervals(
    exact: Counts, priced: PricedDesign, weighted: bool, log: bool, noise: NoiseSource, rng: np.random.Generator
) -> Iterator[tuple[Method, Floats, Floats]]:
    """Each method's intervals: lower and upper ends, each shape (repetitions,), or (repetitions·NOISES,) with noise."""
    bound = WEIGHT_BOUND if weighted else 1.0
    design = priced.design
    of_noise, draw = _noise_of(priced, bound)
    public = sums_in_unit(design.features_of(exact), design.names, bound)
    yield "public", *_wald_of(public, design.names, of_noise, "none", log)
    blocks: dict[Method, list[tuple[Floats, Floats]]] = {"none": [], "monte-carlo": [], "analytical": []}
    for start in range(0, len(exact), TABLES_AT_ONCE):
        repeated = np.repeat(exact[start : start + TABLES_AT_ONCE], NOISES, axis=0)
        drawn = [noisy_lattice_sums(sums, priced, Budget(priced.rho), noise) for sums in repeated]
        noisy = sums_in_unit(np.array(drawn), design.names, bound)
        again = draw(rng, len(noisy))
        for correction, found in blocks.items():
            assert correction != "public"
            found.append(_wald_of(noisy, design.names, of_noise, correction, log, again))
    for method, found in blocks.items():
        lower, upper = (np.concatenate(ends) for ends in zip(*found, strict=True))
        yield method, lower, upper


def _noise_of(priced: PricedDesign, bound: float) -> tuple[tuple[float, float, float], Draw]:
    """The variances of the noise of Σws and Σwy and their covariance; and what draws that noise, each (DRAWS, n)."""
    maker = priced.noise_maker(bound)
    covariance = maker @ maker.T
    s, y = priced.design.names.index("ws"), priced.design.names.index("wy")

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        shape = (len(maker), DRAWS * n)
        unit = rng.standard_normal(shape) if priced.mechanism == "gaussian" else rng.laplace(0, 0.5**0.5, shape)
        return (maker[s] @ unit).reshape(DRAWS, n), (maker[y] @ unit).reshape(DRAWS, n)

    return (float(covariance[s, s]), float(covariance[y, y]), float(covariance[s, y])), draw


def _wald_of(
    sums: Floats,
    names: Sequence[str],
    of_noise: tuple[float, float, float],
    correction: Correction,
    log: bool,
    draws: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    named = {name: sums[:, i] for i, name in enumerate(names)}
    return wald(*value_and_variance(named, of_noise, correction, log, draws), LEVEL, log)


def _score(method: Method, lower: Floats, upper: Floats, log: bool) -> tuple[Method, float, float, float]:
    truth = float(np.log(TRUE_RATIO)) if log else TRUE_RATIO
    width = upper - lower
    finite = np.isfinite(width)
    missed = np.where(finite, np.maximum(lower - truth, 0) + np.maximum(truth - upper, 0), np.nan)
    score = width + 2 / (1 - LEVEL) * missed
    means = [float(values[finite].mean()) if finite.any() else float("nan") for values in (width, score)]
    return method, means[0], float((missed == 0).mean()), means[1]
