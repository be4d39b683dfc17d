"""Tight audits: a lower confidence bound on μ of Gaussian differential privacy (GDP), from a guessing game.

A fair coin picks one of two neighbouring tables, the mechanism runs on it, and an attacker who knows both tables
guesses which it was. Of a μ-GDP mechanism no guess is right with probability above Φ(μ/2), which is (1 + total
variation)/2 of N(0, 1) and N(μ, 1) (Dong, Roth and Su, arXiv:1905.02383, section 2). So the number of right guesses
is Binomial(runs, p) with p ≤ Φ(μ/2), and one Clopper-Pearson bound of p bounds μ from below. The threshold of the
guess is fixed in advance, at a likelihood ratio of one: nothing is paid for multiplicity, no run is set aside to
choose it.

The guess is the Neyman-Pearson test of a whole run: each draw is recorded, the mechanism is run again on the other
table with the same answers, and the likelihoods of all answers under both tables are compared, as they follow from
what each table asks for, at the claimed noise. Nothing here knows what a mechanism measures or how it scores.

    game = play(release, (table, neighbour), SecureNoise(), runs=10_000)
    assert game.mu <= claim
    assert runs_to_refute(release, (table, neighbour), SecureNoise(), claim, most=20_000) is None

What it does not see: an event of so small a probability that μ hardly changes. `refutation` looks for those.

Related: Nasr et al., "Tight Auditing of Differentially Private Machine Learning", arXiv:2302.07956 (audits by GDP;
bounds of both error rates, which take more runs); Koskela and Mohammadi, arXiv:2406.04827 (total variation); "Tight
Auditing of Differential Privacy in MST and AIM", arXiv:2604.18352 (from outputs: 0.43 of 0.45); Steinke, Nasr and
Jagielski, arXiv:2305.08846 (many rows in one run: for mechanisms too slow to run often).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from math import exp, inf, log, pi, sqrt
from typing import Any

import numpy as np
from recorder import as_bytes
from scipy.stats import beta, norm

from equistrata.arrays import Counts, Floats
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import NoiseSource, SeededNoise, selection_epsilon

Release = Callable[[Any, NoiseSource], Any]
Pair = tuple[Any, Any]

FALSE_ALARM = 1e-3
FAULTS = (1.1, 1.5)  # times the claimed μ
STEP = 1e-4  # of privacy losses, in `worst_case_mu`
LOSSES = 1 << 20


@dataclass(frozen=True)
class Game:
    """How often the attacker was right.

    Attributes:
        runs: of the mechanism, each on a table that a fair coin picked.
        right: how many were guessed.
        false_alarm: the probability that `mu` is above the true μ.
    """

    runs: int
    right: int
    false_alarm: float = FALSE_ALARM

    @property
    def mu(self) -> float:
        """The lower confidence bound on μ, at least 0; never infinite."""
        if not self.right:
            return 0.0
        return max(0.0, 2 * float(norm.ppf(beta.ppf(self.false_alarm, self.right, self.runs - self.right + 1))))

    @property
    def estimate(self) -> float:
        """μ without a margin: of the share of right guesses."""
        return 2 * float(norm.ppf(self.right / self.runs))


@dataclass(frozen=True)
class Draw:
    """What was asked of a noise source (the claimed noise, not what it really made), and its answer."""

    kind: str
    given: Counts | Floats
    scale: float
    answer: Counts | Floats | int

    def log_probability(self, answer: Counts | Floats | int) -> float:
        """Of another answer, had it been given to this question."""
        if self.kind == "select":
            scores = np.asarray(self.given) / self.scale
            return float(scores[answer] - np.logaddexp.reduce(scores))
        apart = np.asarray(answer, dtype=np.float64) - self.given
        if self.kind == "laplace":
            return -float(np.abs(apart).sum()) / self.scale - apart.size * log(2 * self.scale)
        return -float((apart**2).sum()) / (2 * self.scale**2) - apart.size * _log_normaliser(self.scale)


class DiscreteNoise(SeededNoise):
    """Seeded noise of the secure sampler's law. `SeededNoise` rounds, which adds 1/12 to σ² and hides rows better."""

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        values, chances = _discrete_gaussian(sigma)
        return counts + values[np.searchsorted(np.cumsum(chances), self._rng.random(counts.shape))]

    def spawn(self, stream: int) -> DiscreteNoise:
        return DiscreteNoise(super().spawn(stream)._sequence)


class Unlike(Exception):
    """The other table asks for other draws: the run gives its table away."""


class Witness(NoiseSource):
    """Notes what is asked of a noise source and what it answers; or answers as it did in `answers`, drawing nothing.

    For runs in one thread: parts share one list, in the order of their draws.
    """

    private = False
    name = "witnessed"

    def __init__(self, inner: NoiseSource, answers: Sequence[Draw] | None = None, draws: list[Draw] | None = None):
        self.inner, self.answers = inner, answers
        self.draws: list[Draw] = [] if draws is None else draws

    def spawn(self, stream: int) -> Witness:
        return Witness(self.inner.spawn(stream), self.answers, self.draws)

    def binomial(self, trials: int, probabilities: Floats) -> Counts:
        raise NotImplementedError("a person's own coin has no part in a central release")

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        return self._noted("gaussian", counts, sigma, lambda: self.inner._gaussian(counts, sigma, sensitivity, rho))

    def _laplace(self, values: Floats, scale: float, sensitivity: float, epsilon: float) -> Floats:
        return self._noted("laplace", values, scale, lambda: self.inner._laplace(values, scale, sensitivity, epsilon))

    def _select(self, scores: Floats, scale: float, sensitivity: float, rho: Rho) -> int:
        return self._noted("select", scores, scale, lambda: self.inner._select(scores, scale, sensitivity, rho))

    def _noted(self, kind: str, given: Any, scale: float, draw: Callable[[], Any]) -> Any:
        if self.answers is None:
            answer = draw()
        else:
            place = len(self.draws)
            like = place < len(self.answers) and self.answers[place].kind == kind
            if not like or np.shape(self.answers[place].given) != np.shape(given):
                raise Unlike
            answer = self.answers[place].answer
        self.draws.append(Draw(kind, given, scale, answer))
        return answer


def evidence(release: Release, table: Any, other: Any, noise: NoiseSource) -> float:
    """Run a release on `table`: log P(all answers | table) − log P(all answers | other).

    Infinite where the run gives its table away: the other asks for other draws, or publishes something else with the
    same answers.
    """
    here = Witness(noise)
    published = release(table, here)
    there = Witness(noise, here.draws)
    try:
        as_if = release(other, there)
    except Unlike:
        return inf
    if len(there.draws) < len(here.draws) or as_bytes(published) != as_bytes(as_if):
        return inf
    pairs = zip(here.draws, there.draws, strict=True)
    return sum(mine.log_probability(mine.answer) - its.log_probability(mine.answer) for mine, its in pairs)


def play(
    release: Release, tables: Pair, noise: NoiseSource, runs: int, false_alarm: float = FALSE_ALARM, seed: int = 0
) -> Game:
    """The game on two tables, of which one may have any number of rows more: those of one unit, say.

    Args:
        release: (table, noise) → what is published; everything of the rows must come through `noise`.
        noise: part number i of it is for run i.
        seed: of the coins that pick the tables.
    """
    return Game(runs, sum(islice(guesses(release, tables, noise, seed), runs)), false_alarm)


def runs_to_refute(
    release: Release,
    tables: Pair,
    noise: NoiseSource,
    claim: float,
    most: int,
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
) -> int | None:
    """How many runs of the game refute that a release is `claim`-GDP; None if so many as `most` do not.

    Stops as soon as it can, at no loss: the likelihood of the game if it is won as often as at FAULTS times the claim
    (the mean over them), over that if it is won as often as at the claim. Where the claim holds this is a
    supermartingale, so it ever passes 1/false_alarm with probability at most false_alarm (Wald; Ville). Against a noise
    of 0.9 it takes less than half the runs of `play`.
    """
    fair, faulty = norm.cdf(claim / 2), norm.cdf(np.multiply(FAULTS, claim / 2))
    win, loss = np.log(faulty / fair), np.log((1 - faulty) / (1 - fair))
    growth = np.full(len(FAULTS), -log(len(FAULTS)))
    for run, right in enumerate(islice(guesses(release, tables, noise, seed), most), start=1):
        growth += win if right else loss
        if np.logaddexp.reduce(growth) > -log(false_alarm):
            return run
    return None


def guesses(release: Release, tables: Pair, noise: NoiseSource, seed: int) -> Iterator[bool]:
    """Whether the attacker is right, run after run, for ever."""
    coins = np.random.default_rng(seed)
    for run in count():
        coin = int(coins.integers(2))
        found = evidence(release, tables[coin], tables[1 - coin], noise.spawn(run))
        yield found > 0 or (found == 0 and coin == 0)  # a tie is guessed to be the first table


def worst_case_mu(measured: Sequence[float], chosen: Sequence[float], rows: int = 1) -> float:
    """The most that `play` can find in truth, as a μ: of draws at these prices, each moved as far as can be.

    Args:
        measured: ρ of each discrete Gaussian measurement of sensitivity 1.
        chosen: ρ of each choice by the exponential mechanism, of scores of sensitivity 1.
        rows: how many rows the neighbour has more, all in one cell, each moving each score by one.

    Returns:
        μ of the game's exact value, from the distribution of the privacy loss on a grid, rounded up. Close to
        rows·√(2ρ), ρ the sum of the prices; above it for two reasons: a discrete Gaussian is ρ-zCDP but not exactly
        √(2ρ)-GDP where σ is below a few rows, and a choice of bounded range ε is ε²/8-zCDP but tells more by its more
        likely half than a Gaussian of that ρ.

    A choice is at its worst where its answers move up or down with equal odds: losses of ±ε/2 (the generalised
    randomised response of Dong, Durfee and Rogers, arXiv:1909.13830, Lemma 4.1, at its symmetric point). Prices are
    taken as fixed in advance; their order does not matter.
    """
    spectrum = np.ones(LOSSES // 2 + 1, dtype=np.complex128)
    for losses, chances in [
        *(_gaussian_losses(1 / sqrt(2 * rho), rows) for rho in measured),
        *(_choice_losses(rows * selection_epsilon(rho)) for rho in chosen),
    ]:
        grid = np.zeros(LOSSES)
        np.add.at(grid, np.ceil(losses / STEP - 1e-9).astype(np.int64) % LOSSES, chances)
        spectrum *= np.fft.rfft(grid)
    chances, losses = np.fft.irfft(spectrum, LOSSES), np.fft.fftfreq(LOSSES, 1 / LOSSES) * STEP
    variation = float(np.maximum(chances, 0) @ -np.expm1(-np.maximum(losses, 0)))
    return 2 * float(norm.ppf((1 + variation) / 2))


def _gaussian_losses(sigma: float, rows: int) -> tuple[Floats, Floats]:
    """Privacy losses of a discrete Gaussian that is moved by `rows`, and their chances."""
    noise, chances = _discrete_gaussian(sigma)
    return rows * (noise + rows / 2) / sigma**2, chances


def _choice_losses(epsilon: float) -> tuple[Floats, Floats]:
    likely = 1 / (1 + exp(-epsilon / 2))
    return np.array([epsilon, -epsilon]) / 2, np.array([likely, 1 - likely])


@lru_cache(maxsize=256)
def _discrete_gaussian(sigma: float) -> tuple[Counts, Floats]:
    """Whole numbers within nine σ, and their chances."""
    noise = np.arange(-int(9 * sigma) - 2, int(9 * sigma) + 3)
    chances = np.exp(-(noise**2) / (2 * sigma**2))
    return noise, chances / chances.sum()


@lru_cache(maxsize=256)
def _log_normaliser(sigma: float) -> float:
    """log Σ exp(−k²/(2σ²)) over whole k; beyond σ = 50 the integral, which is the same to the last bit."""
    if sigma > 50:
        return log(sigma * sqrt(2 * pi))
    noise, chances = _discrete_gaussian(sigma)
    return -log(float(chances[noise == 0][0]))
