"""Simulated A/B tests over federated holders, with the width and coverage of intervals over many rounds.

`TABLES` contains the settings of the seven tables of the federated-experiments paper. If a table contradicts the text,
then the setting of the table is used (docs/federated.md). The outcomes are simulated, so the results are not private.

>>> setting = Setting(arms=(600, 400), epsilons=(1.0,), trials=(64,), rounds=200)
>>> rows = simulate(setting, seed=1)
>>> [(row.method, row.epsilon, round(row.width, 3)) for row in rows]
[('none', inf, 0.002), ('gaussian', 1.0, 0.094), ('poisson-binomial m = 64', 1.0, 0.098)]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm

from equistrata.arrays import Floats
from equistrata.inference.federated.ab_test import ArmDesign, ArmSettings, private_arm, share_for
from equistrata.inference.federated.arms import Arm, Target, check_rows, combine
from equistrata.inference.federated.renyi import MAX_THETA, ThetaTarget, epsilon_of
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import gaussian_sigma
from paper.comparison import Comparison, Sample, Settings, compare, read_published
from paper.lines import spread

Outcomes = Literal["gaussian", "constant-effect"]
Variances = Literal["exact", "private"]

PAPER_ORDERS = tuple(range(2, 129))
PAPER_EPSILONS = (0.1, 0.4, 0.7, 1.0, 1.3, 1.6, 1.9)
CELLS_AT_ONCE = 200_000
ROUNDS_AT_ONCE = 100
ROUNDS, QUICK_ROUNDS = 10_000, 400


@dataclass(frozen=True)
class Setting:
    """The settings of a simulation.

    The defaults are equal to Table 3 of the paper, except for the privacy of the variances.

    Attributes
    ----------
    outcomes : str
        If "gaussian", the outcomes of the control arm and of the treated arm have the distribution N(∓effect/2,
        sigma²), clipped to ±1. The two outcomes of a person are independent. If "constant-effect", the outcomes are
        uniform on `uniform`, and `effect` is added in the treated arm.
    sigma : float
        The standard deviation of Gaussian outcomes.
    uniform : tuple of float
        The range of uniform outcomes.
    effect : float
        The difference between the treated arm and the control arm.
    arms : tuple of int
        The number of people in the treated arm and in the control arm, at least 2 each.
    target : str
        The estimand, "pate" or "sate".
    epsilons, trials : tuple
        The values of ε and m. Every combination is simulated.
    delta : float
        The privacy parameter δ.
    level : float
        The level of the intervals, in (0, 1).
    mean_share, orders, maximum
        The parameters of `ArmDesign` and its target. None is the default.
    variances : str
        If "private", the variances are computed from noisy second moments. If "exact", the exact sample variances and
        the largest variance of the coins are used, as in the tables of the paper. This is **not** private.
    rounds : int
        The number of rounds.
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
    rounds: int = ROUNDS


_PAPER = Setting(mean_share=0.99, orders=PAPER_ORDERS, maximum=0.21, variances="exact")
_CONSTANT = replace(_PAPER, outcomes="constant-effect")

TABLES: dict[int, Setting] = {
    1: replace(_PAPER, trials=(256, 1024)),
    2: replace(_PAPER, target="sate"),
    3: _PAPER,
    4: replace(_CONSTANT, target="sate"),
    5: _PAPER,  # as printed; all of its numbers are equal to Table 3, which contradicts its caption
    6: replace(_CONSTANT, target="sate", arms=(5000, 5000)),
    7: replace(_CONSTANT, arms=(5000, 5000)),
}


def with_default_settings(setting: Setting) -> Setting:
    """Return the same setting with the defaults of equistrata.

    These are private variances, the best share and order, and θ up to ¼.
    """
    return replace(setting, mean_share=None, orders=None, maximum=MAX_THETA, variances="private")


@dataclass(frozen=True)
class GaussianSettings:
    """Gaussian noise for the mean and the mean square of an arm in the central model.

    A trusted party has n rows with values in ±1, where n ≥ 2 is public. The difference from the Poisson-binomial
    mechanism is the cost of distributed privacy.

    Attributes
    ----------
    rows : int
        The number of rows.
    mean_rho, square_rho : float
        The privacy cost of the mean and of the mean square in zCDP.
    """

    rows: int
    mean_rho: float
    square_rho: float

    @property
    def mean_sigma(self) -> float:
        """The standard deviation of the noise in the mean."""
        return gaussian_sigma(self.mean_rho, 2 / self.rows)

    @property
    def square_sigma(self) -> float:
        """The standard deviation of the noise in the mean square."""
        return gaussian_sigma(self.square_rho, 1 / self.rows)

    def arm(self, noisy: Floats, squares: Floats) -> Arm:
        """Return the arm from the noisy means of the values and of their squares. See `private_arm`."""
        noise, kept = self.mean_sigma**2, 1 - 1 / self.rows
        squared = np.clip(noisy**2 - noise, 0, 1)
        variance: Floats = (squares - noisy**2 + noise) / kept
        uncertain = (self.square_sigma**2 + 4 * squared * noise + 2 * noise**2) / kept**2
        return Arm(self.rows, noisy, variance, noise=noise, variance_noise=uncertain, radius=1.0)


@lru_cache(maxsize=256)
def choose_gaussian_settings(
    rows: int,
    epsilon: float,
    delta: float,
    mean_share: float | None = None,
    orders: tuple[float, ...] | None = None,
) -> GaussianSettings:
    """Compute the noise for which both means of an arm are jointly (ε, δ)-DP.

    Neighbouring arms differ in the values of one person (replace-one), and the number of people n is public. The mean
    has sensitivity 2/n, and the mean square has sensitivity 1/n. Gaussian noise with standard deviation Δ/√(2ρ) costs ρ
    [1]_. The two costs add up to the ρ that corresponds to (ε, δ). If orders are given, only these are used for the
    conversion.

    Parameters
    ----------
    rows : int
        The number of people in the arm, which is public.
    epsilon, delta : float
        The privacy parameters.
    mean_share : float, optional
        The share of ρ for the mean. The default is the best share.
    orders : tuple of float, optional
        The Rényi orders for the conversion.

    Returns
    -------
    GaussianSettings
        The settings.

    References
    ----------
    .. [1] Bun and Steinke (2016), Proposition 1.6.
    """
    rho = high = float(Rho.from_epsilon_delta(epsilon, delta))
    if orders is not None:  # a subset of the orders cannot give a better conversion
        excess = lambda rho: epsilon_of(lambda order: rho * order, delta, orders) - epsilon  # noqa: E731
        rho = float(brentq(excess, 0.0, high * (1 + 1e-6), xtol=high * 1e-12)) * (1 - 1e-9)
    # The noise in ŝ²/n relative to the noise in the mean is √(2ρ)·f/(4√(1 − f)).
    share = share_for(4 / math.sqrt(2 * rho)) if mean_share is None else mean_share
    return GaussianSettings(rows, rho * share, rho * (1 - share))


@dataclass(frozen=True)
class Row:
    """The result of one method at one ε.

    Attributes
    ----------
    method : str
        "none" (no privacy, ε is infinite), "gaussian" (central model) or "poisson-binomial m = …".
    epsilon : float
        The privacy parameter ε.
    coverage : float
        The share of intervals that contain the true effect.
    width : float
        The mean width of the intervals.
    """

    method: str
    epsilon: float
    coverage: float
    width: float


@dataclass(frozen=True)
class _Method:
    name: str
    epsilon: float = math.inf
    settings: tuple[ArmSettings, ArmSettings] | tuple[GaussianSettings, GaussianSettings] | None = None


def compare_table(table: int, settings: Settings) -> Iterator[Comparison]:
    """Simulate a table with the settings of the paper, and with the defaults of equistrata."""
    printed = read_published("federated")
    printed = printed[printed.table == table]
    published = {
        (score, row["method"], row["epsilon"]): row[score]
        for score in ("coverage", "width")
        for _, row in printed.iterrows()
    }
    paper = replace(TABLES[table], rounds=settings.runs_of(ROUNDS, QUICK_ROUNDS))
    samples: list[Sample] = []
    for setting, suffix in ((paper, ""), (with_default_settings(paper), ", private variances")):
        for row in simulate(setting, seed=0, workers=settings.workers):
            samples += [(s, row.method + suffix, row.epsilon, getattr(row, s)) for s in ("coverage", "width")]
    note = f"Made-up people, {paper.rounds:,} rounds. Not private, except for the arms with private variances."
    title = f"Table {table}: intervals for a difference of two arms, {paper.target.upper()}"
    yield Comparison(f"federated-{table}", title, "ε", note, compare(samples, published))


def simulate(setting: Setting, *, seed: int, workers: int = 1) -> list[Row]:
    """Run the rounds of a simulation, and return the result of each method.

    The result only depends on the setting and the seed. It does not depend on the number of workers.
    """
    methods = list(_methods(setting))
    blocks = math.ceil(setting.rounds / ROUNDS_AT_ONCE)
    sizes = [min(ROUNDS_AT_ONCE, setting.rounds - i * ROUNDS_AT_ONCE) for i in range(blocks)]
    streams = np.random.SeedSequence(seed).spawn(blocks)
    parts = spread(partial(_block, setting, methods), list(zip(sizes, streams, strict=True)), workers)
    sums = np.sum([*parts], axis=0) / setting.rounds
    return [Row(method.name, method.epsilon, *line.tolist()) for method, line in zip(methods, sums, strict=True)]


def _methods(setting: Setting) -> Iterator[_Method]:
    yield _Method("none")
    for epsilon in setting.epsilons:
        first, second = (
            choose_gaussian_settings(rows, epsilon, setting.delta, setting.mean_share, setting.orders)
            for rows in setting.arms
        )
        yield _Method("gaussian", epsilon, (first, second))
    for trials, epsilon in product(setting.trials, setting.epsilons):
        target = ThetaTarget(epsilon, setting.delta, setting.orders, setting.maximum)
        design = ArmDesign(1.0, target, trials, setting.mean_share)
        treated, control = (design.settings(rows) for rows in setting.arms)
        yield _Method(f"poisson-binomial m = {trials}", epsilon, (treated, control))


def _block(setting: Setting, methods: Sequence[_Method], part: tuple[int, np.random.SeedSequence]) -> Floats:
    """Return the coverage and the width of each method, summed over some rounds, shape (methods, 2)."""
    rounds, stream = part
    rng = np.random.default_rng(stream)
    sums = np.zeros((len(methods), 2))
    step = max(1, CELLS_AT_ONCE // sum(setting.arms))
    for start in range(0, rounds, step):
        arms, truth = _outcomes(setting, min(step, rounds - start), rng)
        exact = [exact_arm(values) for values in arms]
        for line, method in enumerate(methods):
            found = [_arm(method, i, arms[i], exact[i], setting, rng) for i in range(2)]
            value, half = combine(found, [1, -1], setting.level, target=setting.target)
            sums[line] += (np.abs(value - truth) <= half).sum(), (2 * half).sum()
    return sums


def _outcomes(setting: Setting, rounds: int, rng: np.random.Generator) -> tuple[tuple[Floats, Floats], Floats]:
    """Return the observed outcomes in the two arms, shape (rounds, n_j) each, and the true effect of each round.

    People are exchangeable, so the first n_t people are treated. Counterfactual outcomes are only drawn for the SATE.
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
    """Return the mean of N(mean, σ²) clipped to ±1."""
    low, high = (-1 - mean) / sigma, (1 - mean) / sigma
    inside = mean * (norm.cdf(high) - norm.cdf(low)) - sigma * (norm.pdf(high) - norm.pdf(low))
    return float(inside - norm.cdf(low) + norm.sf(high))


def exact_arm(values: npt.ArrayLike) -> Arm:
    """Return the arm without privacy, from the exact mean and sample variance over the last axis.

    This must not be published.
    """
    x = np.asarray(values, dtype=np.float64)
    rows = check_rows(x.shape[-1])
    return Arm(rows, x.mean(axis=-1), x.var(axis=-1, ddof=1))


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
