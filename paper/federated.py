"""Simulated A/B tests over federated holders: width and coverage of the intervals over many rounds.

`TABLES` holds the settings of the federated-experiments paper's seven tables, read off the tables where these
contradict the text (docs/federated.md). Outcomes are made up: nothing here is private.

>>> setting = Setting(arms=(600, 400), epsilons=(1.0,), trials=(64,), rounds=200)
>>> rows = simulate(setting, seed=1)
>>> [(row.method, row.epsilon, round(row.width, 3)) for row in rows]
[('none', None, 0.002), ('gaussian', 1.0, 0.094), ('poisson-binomial', 1.0, 0.098)]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from equistrata.arrays import Floats
from equistrata.errors import InputError
from equistrata.inference.federated.ab_test import ArmDesign, ArmSettings, private_arm
from equistrata.inference.federated.arms import Arm, Target, check_rows, combine
from equistrata.inference.federated.renyi import MAX_THETA, ThetaTarget
from paper.gaussian_arms import GaussianSettings, settle_gaussian

Outcomes = Literal["gaussian", "constant-effect"]
Variances = Literal["exact", "private"]

PAPER_ORDERS = tuple(range(2, 129))
PAPER_EPSILONS = (0.1, 0.4, 0.7, 1.0, 1.3, 1.6, 1.9)
CELLS_AT_ONCE = 200_000
ROUNDS_AT_ONCE = 100


@dataclass(frozen=True)
class Setting:
    """What to simulate. The defaults are those of the paper's Table 3, except for the privacy of the variances.

    Attributes:
        outcomes: "gaussian": N(∓effect/2, σ²) in the control and the treated arm, clipped to ±1, a person's two
            outcomes independent; "constant-effect": uniform on `uniform`, plus `effect` in the treated arm.
        sigma, uniform: of these.
        effect: the true difference in the population; for "gaussian", before clipping (intervals are for that after).
        arms: people in the treated and in the control arm, at least 2 each.
        target: what the intervals are for.
        epsilons, trials: every ε is simulated with every m.
        delta, level: δ, and the nominal coverage.
        mean_share, orders, maximum: as `ArmDesign` and its target; None for the defaults.
        variances: "private": from noisy second moments. "exact": the exact sample variances and the coins' largest
            variance, as in the paper's tables, which is **not** private.
        rounds: how many experiments.
    """

    outcomes: Outcomes = "gaussian"
    sigma: float = 0.01
    uniform: tuple[float, float] = (-1.0, 0.8)
    effect: float = 0.2
    arms: tuple[int, int] = (500, 500)
    target: Target = "pate"
    epsilons: tuple[float, ...] = PAPER_EPSILONS
    trials: tuple[int, ...] = (256, 1024, 2048)
    delta: float = 1e-6
    level: float = 0.9
    mean_share: float | None = None
    orders: tuple[float, ...] | None = None
    maximum: float = MAX_THETA
    variances: Variances = "private"
    rounds: int = 10_000

    def __post_init__(self) -> None:
        choices = (
            ("outcomes", self.outcomes, ("gaussian", "constant-effect")),
            ("variances", self.variances, ("exact", "private")),
            ("target", self.target, ("pate", "sate")),
        )
        for name, value, known in choices:
            if value not in known:
                raise InputError(f"unknown {name} {value!r}; choose {' or '.join(known)}")
        low, high = self.uniform
        inside = low < high and min(low, low + self.effect) >= -1 and max(high, high + self.effect) <= 1
        if self.outcomes == "constant-effect" and not inside:
            raise InputError("the uniform outcomes need two ascending ends in [-1, 1], also after the effect is added")
        if not (math.isfinite(self.sigma) and self.sigma > 0) or not -2 < self.effect < 2:
            raise InputError("the outcomes need a positive sigma and an effect between -2 and 2")
        if self.rounds < 1:
            raise InputError(f"a simulation needs at least one round, not {self.rounds}")


_PAPER = Setting(mean_share=0.99, orders=PAPER_ORDERS, maximum=0.21, variances="exact")
_CONSTANT = replace(_PAPER, outcomes="constant-effect")

TABLES: dict[int, Setting] = {
    1: replace(_PAPER, trials=(256, 1024)),
    2: replace(_PAPER, target="sate"),
    3: _PAPER,
    4: replace(_CONSTANT, target="sate"),
    5: _PAPER,  # as printed: its numbers are Table 3's to the last digit, whatever its caption says
    6: replace(_CONSTANT, target="sate", arms=(5000, 5000)),
    7: replace(_CONSTANT, arms=(5000, 5000)),
}


def as_users_would(setting: Setting) -> Setting:
    """The same people and target by equistrata's defaults: private variances, the best share and order, θ up to ¼."""
    return replace(setting, mean_share=None, orders=None, maximum=MAX_THETA, variances="private")


@dataclass(frozen=True)
class Row:
    """One method at one ε.

    Attributes:
        method: "none" (no privacy), "gaussian" (central) or "poisson-binomial".
        trials: m, for the last.
        epsilon: None without privacy.
        coverage: how often the interval held the true effect, 0 to 1.
        width, width_deviation: mean and standard deviation of the intervals' widths.
        thetas: θ of the two arms' means, for "poisson-binomial".
    """

    method: str
    trials: int | None
    epsilon: float | None
    coverage: float
    width: float
    width_deviation: float
    thetas: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Method:
    name: str
    epsilon: float | None = None
    trials: int | None = None
    settings: tuple[ArmSettings, ArmSettings] | tuple[GaussianSettings, GaussianSettings] | None = None


def simulate(setting: Setting, *, seed: int, workers: int = 1) -> list[Row]:
    """Run the rounds and sum up. The result follows from the setting and the seed, whatever the number of workers.

    Raises:
        InputError: a setting out of its range, before anything is drawn.
    """
    methods = list(_methods(setting))
    blocks = math.ceil(setting.rounds / ROUNDS_AT_ONCE)
    sizes = [min(ROUNDS_AT_ONCE, setting.rounds - i * ROUNDS_AT_ONCE) for i in range(blocks)]
    streams = np.random.SeedSequence(seed).spawn(blocks)
    if min(workers, blocks) > 1:
        from loky import get_reusable_executor

        executor = get_reusable_executor(max_workers=min(workers, blocks))
        parts = list(executor.map(_block, [setting] * blocks, [methods] * blocks, sizes, streams))
    else:
        parts = [_block(setting, methods, size, stream) for size, stream in zip(sizes, streams, strict=True)]
    sums = np.sum(parts, axis=0)  # coverage, width, width², shape (methods, 3)
    return [_row(method, *(line / setting.rounds)) for method, line in zip(methods, sums, strict=True)]


def _row(method: _Method, coverage: float, width: float, square: float) -> Row:
    chosen = [arm.mean.theta for arm in method.settings or () if isinstance(arm, ArmSettings)]
    thetas = (chosen[0], chosen[1]) if chosen else None
    deviation = math.sqrt(max(square - width**2, 0.0))
    return Row(method.name, method.trials, method.epsilon, float(coverage), float(width), deviation, thetas)


def _methods(setting: Setting) -> Iterator[_Method]:
    yield _Method("none")
    for epsilon in setting.epsilons:
        central = [
            settle_gaussian(
                rows,
                radius=1.0,
                epsilon=epsilon,
                delta=setting.delta,
                mean_share=setting.mean_share,
                orders=setting.orders,
            )
            for rows in setting.arms
        ]
        yield _Method("gaussian", epsilon, settings=(central[0], central[1]))
    for trials in setting.trials:
        for epsilon in setting.epsilons:
            target = ThetaTarget(epsilon, setting.delta, setting.orders, setting.maximum)
            design = ArmDesign(1.0, target, trials, setting.mean_share)
            both = [design.settings(rows) for rows in setting.arms]
            yield _Method("poisson-binomial", epsilon, trials, (both[0], both[1]))


def _block(
    setting: Setting, methods: Sequence[_Method], rounds: int, stream: np.random.SeedSequence
) -> npt.NDArray[np.float64]:
    """Coverage, width and squared width of each method, summed over some rounds. Shape (methods, 3)."""
    rng = np.random.default_rng(stream)
    sums = np.zeros((len(methods), 3))
    step = max(1, CELLS_AT_ONCE // sum(setting.arms))
    for start in range(0, rounds, step):
        arms, truth = _outcomes(setting, min(step, rounds - start), rng)
        exact = [exact_arm(values) for values in arms]
        for line, method in enumerate(methods):
            found = [_arm(method, i, arms[i], exact[i], setting, rng) for i in range(2)]
            value, half = combine(found, [1, -1], setting.level, target=setting.target)
            covered = np.abs(value - truth) <= half
            sums[line] += covered.sum(), (2 * half).sum(), (4 * half**2).sum()
    return sums


def _outcomes(setting: Setting, rounds: int, rng: np.random.Generator) -> tuple[tuple[Floats, Floats], Floats]:
    """The outcomes observed in the two arms, each (rounds, n_j), and the true effect of each round.

    People are exchangeable, so the first n_t are the treated. Counterfactuals are drawn only for the SATE.
    """
    treated, control = setting.arms
    if setting.outcomes == "constant-effect":
        base = rng.uniform(*setting.uniform, (rounds, treated + control))
        return (base[:, :treated] + setting.effect, base[:, treated:]), np.full(rounds, setting.effect)

    def draw(mean: float, count: int) -> Floats:
        return np.clip(rng.normal(mean, setting.sigma, (rounds, count)), -1, 1)

    half = setting.effect / 2
    seen = draw(half, treated), draw(-half, control)
    if setting.target == "pate":
        return seen, np.full(rounds, _clipped_mean(half, setting.sigma) - _clipped_mean(-half, setting.sigma))
    unseen = draw(half, control), draw(-half, treated)
    totals = [seen[arm].sum(axis=1) + unseen[arm].sum(axis=1) for arm in (0, 1)]
    return seen, (totals[0] - totals[1]) / (treated + control)


def _clipped_mean(mean: float, sigma: float) -> float:
    """The mean of N(mean, σ²) clipped to ±1."""
    low, high = (-1 - mean) / sigma, (1 - mean) / sigma
    inside = mean * (norm.cdf(high) - norm.cdf(low)) - sigma * (norm.pdf(high) - norm.pdf(low))
    return float(inside - norm.cdf(low) + norm.sf(high))


def exact_arm(values: npt.ArrayLike) -> Arm:
    """The arm without privacy: exact mean and sample variance over the last axis. Not for publication."""
    x = np.asarray(values, dtype=np.float64)
    rows = check_rows(x.shape[-1])
    return Arm(rows, x.mean(axis=-1), x.var(axis=-1, ddof=1), (x**2).mean(axis=-1))


def _arm(method: _Method, place: int, values: Floats, exact: Arm, setting: Setting, rng: np.random.Generator) -> Arm:
    if method.settings is None:
        return exact
    chosen = method.settings[place]
    private = setting.variances == "private"
    if isinstance(chosen, GaussianSettings):
        mean = values.mean(axis=1) + rng.normal(0, chosen.mean_sigma, len(values))
        if not private:
            return replace(exact, mean=mean, noise=chosen.mean_sigma**2)
        return chosen.arm(mean, (values**2).mean(axis=1) + rng.normal(0, chosen.square_sigma, len(values)))
    mechanism, squares = chosen.mean, chosen.squares
    totals = rng.binomial(mechanism.trials, 0.5 + mechanism.theta * values).sum(axis=1)
    if not private:
        return replace(exact, mean=mechanism.mean(totals, chosen.rows), noise=mechanism.noise(chosen.rows))
    squared = rng.binomial(squares.trials, 0.5 + squares.theta * (2 * values**2 - 1)).sum(axis=1)
    return private_arm(np.stack([totals, squared]), chosen)
