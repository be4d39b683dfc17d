"""Simulation from section 3 of the ratio paper: the width and coverage of private intervals.

The scores are s ~ Beta(2, 2), and the labels are y ~ Bernoulli(s/1.1), so the true ratio is 1.1. The weights have an
Exponential(1) distribution clipped to [1/3, 3], and δ = 10⁻⁶.

References
----------
.. [1] Miao and Li (2023), Privacy-preserving inference on the ratio of two Gaussians using sums, Tables 1 to 4.

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

TABLES: Mapping[int, tuple[Mechanism, bool]] = {  # the mechanism, and True for the log ratio
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
NOISES = 10  # the number of noise draws for each table of people
PEOPLE, NOISE, MONTE_CARLO = 0, 1, 2  # random streams
BLOCK = 400_000  # the number of people that are drawn at once
TABLES_AT_ONCE = 1_000  # the number of tables for which intervals are computed at once


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    If there is no finite interval, because a variance is negative or a logarithm does not exist, then the run counts as
    a miss. It is not included in the width and the score.

    Attributes
    ----------
    n : int
        The number of people.
    weighted : bool
        True if the people have weights.
    epsilon : float
        The privacy parameter ε.
    method : str
        The method. "public" has no noise and is the same for every ε.
    width : float
        The mean length of the 95 % interval. In Tables 2 and 4, it is the interval of ln r.
    coverage : float
        The share of intervals that contain the true ratio.
    score : float
        The mean interval score (Gneiting and Raftery 2007, eq. 43). Smaller values are better.
    """

    n: int
    weighted: bool
    epsilon: float
    method: Method
    width: float
    coverage: float
    score: float


def compare_table(table: int, settings: Settings) -> Iterator[Comparison]:
    """Simulate a table with the composition of the paper, and with the joint noise of equistrata."""
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
    """Simulate a table.

    Table 1 is for the ratio and Table 2 for the log ratio with Gaussian noise. Table 3 is for the ratio and Table 4 for
    the log ratio with Laplace noise. The noise is drawn ten times for each table of people. The people and the unit
    noise are the same for every ε.

    Parameters
    ----------
    table : int
        The number of the table.
    repetitions : int
        The number of tables of people.
    composition : str
        "basic" is the composition of the paper, and "joint" is the composition of equistrata.
    sizes : sequence of int
        The numbers of people.
    epsilons : sequence of float
        The values of ε.
    seed : int
        The seed of the simulation.

    Returns
    -------
    list of Cell
        The cells of the table.
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
    """Return the lattice sums of each repetition with and without weights, shape (repetitions, k) each.

    The sums with and without weights are of the same people.
    """
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
    """Yield the lower and upper ends of each method's intervals.

    The arrays have shape (repetitions,), or (repetitions·NOISES,) for methods with noise.
    """
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
    """Return the variances and the covariance of the noise in Σws and Σwy, and a function that draws it.

    The function returns two arrays of shape (DRAWS, n).
    """
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
