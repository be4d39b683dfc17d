"""Tight audits, which compute a lower confidence bound on the μ of Gaussian differential privacy (GDP).

In each run, one of two neighbouring tables is selected with a fair coin, and the mechanism is run on this table. An
attacker who knows both tables guesses which table was used. If the mechanism is μ-GDP, the probability of a correct
guess is at most Φ(μ/2), which is (1 + total variation)/2 of N(0, 1) and N(μ, 1) (Dong, Roth and Su, arXiv:1905.02383,
section 2). The number of correct guesses is therefore Binomial(runs, p) with p ≤ Φ(μ/2), and a Clopper-Pearson bound
for p gives a lower bound for μ. The threshold of the guess is fixed at a likelihood ratio of one, so no correction for
multiple tests is needed and all runs can be used.

The guess is the Neyman-Pearson test of a complete run. Each draw is recorded, and the mechanism is run again on the
other table with the same answers. The likelihoods of all answers are then computed for both tables at the claimed noise
and compared. This module does not use any code of the mechanisms.

    game = play(release, (table, neighbour), SecureNoise(), runs=10_000)
    assert game.mu <= claim
    assert runs_to_refute(release, (table, neighbour), SecureNoise(), claim, most=20_000) is None

An event with a very small probability is not detected, because it has almost no effect on μ. See `refutation` for such
events.

Related work: Nasr et al., "Tight Auditing of Differentially Private Machine Learning", arXiv:2302.07956 (audits with
GDP and bounds for both error rates, which need more runs); Koskela and Mohammadi, arXiv:2406.04827 (total variation);
"Tight Auditing of Differential Privacy in MST and AIM", arXiv:2604.18352 (from outputs: 0.43 of 0.45); Steinke, Nasr
and Jagielski, arXiv:2305.08846 (many rows in one run, for mechanisms that are too slow for many runs).
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
FAULTS = (1.1, 1.5)  # factors of the claimed μ
STEP = 1e-4  # the grid of the privacy losses in `worst_case_mu`
LOSSES = 1 << 20


@dataclass(frozen=True)
class Game:
    """The results of the game.

    Attributes
    ----------
    runs : int
        The number of runs of the mechanism, each on a table that is selected with a fair coin.
    right : int
        The number of correct guesses.
    false_alarm : float
        The probability that `mu` is larger than the true μ.
    """

    runs: int
    right: int
    false_alarm: float = FALSE_ALARM

    @property
    def mu(self) -> float:
        """Return the lower confidence bound on μ, which is finite and at least 0."""
        if not self.right:
            return 0.0
        return max(0.0, 2 * float(norm.ppf(beta.ppf(self.false_alarm, self.right, self.runs - self.right + 1))))

    @property
    def estimate(self) -> float:
        """Return the estimate of μ from the proportion of correct guesses, without a margin."""
        return 2 * float(norm.ppf(self.right / self.runs))


@dataclass(frozen=True)
class Draw:
    """A call of a noise source with its input, the scale of the claimed noise and its answer."""

    kind: str
    given: Counts | Floats
    scale: float
    answer: Counts | Floats | int

    def log_probability(self, answer: Counts | Floats | int) -> float:
        """Return the log-probability of another answer to this call."""
        if self.kind == "select":
            scores = np.asarray(self.given) / self.scale
            return float(scores[answer] - np.logaddexp.reduce(scores))
        apart = np.asarray(answer, dtype=np.float64) - self.given
        if self.kind == "laplace":
            return -float(np.abs(apart).sum()) / self.scale - apart.size * log(2 * self.scale)
        return -float((apart**2).sum()) / (2 * self.scale**2) - apart.size * _log_normaliser(self.scale)


class DiscreteNoise(SeededNoise):
    """A noise source with a seed and with the distribution of the secure sampler.

    The class `SeededNoise` rounds its noise, which increases σ² by 1/12 and makes the rows more difficult to detect.
    """

    def _gaussian(self, counts: Counts, sigma: float, sensitivity: float, rho: Rho) -> Counts:
        values, chances = _discrete_gaussian(sigma)
        return counts + values[np.searchsorted(np.cumsum(chances), self._rng.random(counts.shape))]

    def spawn(self, stream: int) -> DiscreteNoise:
        return DiscreteNoise(super().spawn(stream)._sequence)


class Unlike(Exception):
    """An exception for a run that reveals its table, because the calls on the other table are different."""


class Witness(NoiseSource):
    """A noise source that records the calls and the answers of another source. If `answers` is given, these answers are
    returned and no noise is drawn.

    The runs must be in a single thread, because all parts use the same list in the order of their draws.
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
    """Run a release on `table` and return log P(all answers | table) − log P(all answers | other).

    The result is infinite if the run reveals its table. This is the case if the calls on the other table are different,
    or if a different result is published with the same answers.
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
    """Run the game on two tables. One of them may have any number of additional rows, such as the rows of one unit.

    Parameters
    ----------
    release : callable
        A function of a table and a noise source that returns the published result. All information about the rows must
        pass through the noise source.
    tables : tuple
        The two neighbouring tables.
    noise : NoiseSource
        The noise source, of which stream i is used for run i.
    runs : int
        The number of runs.
    false_alarm : float
        The probability that the bound is larger than the true μ.
    seed : int
        The seed of the coin that selects the table.

    Returns
    -------
    Game
        The number of correct guesses.
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
    """Return the number of runs that are needed to refute that a release is `claim`-GDP, or None if `most` runs are not
    sufficient.

    The game stops as soon as the claim is refuted. The test statistic is a likelihood ratio. Its numerator is the mean
    likelihood of the guesses at FAULTS times the claim, and its denominator is the likelihood at the claim. If the
    claim is true, this is a supermartingale, so the probability that it ever exceeds 1/false_alarm is at most
    false_alarm (Wald; Ville). If the noise has 0.9 of its claimed scale, less than half of the runs of `play` are
    needed.
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
    """Generate an infinite sequence of booleans, which are True if the guess of the attacker is correct."""
    coins = np.random.default_rng(seed)
    for run in count():
        coin = int(coins.integers(2))
        found = evidence(release, tables[coin], tables[1 - coin], noise.spawn(run))
        yield found > 0 or (found == 0 and coin == 0)  # in case of a tie the guess is the first table


def worst_case_mu(measured: Sequence[float], chosen: Sequence[float], rows: int = 1) -> float:
    """Compute the largest μ that `play` can find for draws at these prices, if each draw is changed as much as
    possible.

    Parameters
    ----------
    measured : sequence of float
        The ρ of each discrete Gaussian measurement with sensitivity 1.
    chosen : sequence of float
        The ρ of each selection by the exponential mechanism, for scores with sensitivity 1.
    rows : int
        The number of additional rows of the neighbour. They are in the same cell, and each row changes each score by
        one.

    Returns
    -------
    float
        The μ of the exact value of the game. It is computed from the distribution of the privacy loss on a grid and
        rounded up.

    Notes
    -----
    The result is close to rows·√(2ρ), where ρ is the sum of the prices, but it is larger for two reasons. First, a
    discrete Gaussian is ρ-zCDP, but it is not exactly √(2ρ)-GDP if σ is less than a few rows. Second, a selection with
    bounded range ε is ε²/8-zCDP, but its more likely half reveals more than a Gaussian with this ρ.

    The worst case of a selection is one in which the probabilities of the answers increase or decrease with equal
    probability, so that the loss is ±ε/2. This is the generalised randomised response of Dong, Durfee and Rogers
    (arXiv:1909.13830, Lemma 4.1) at its symmetric point. The prices are assumed to be fixed in advance, and their order
    is not relevant.
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
    """Return the privacy losses of a discrete Gaussian that is shifted by `rows`, and their probabilities."""
    noise, chances = _discrete_gaussian(sigma)
    return rows * (noise + rows / 2) / sigma**2, chances


def _choice_losses(epsilon: float) -> tuple[Floats, Floats]:
    likely = 1 / (1 + exp(-epsilon / 2))
    return np.array([epsilon, -epsilon]) / 2, np.array([likely, 1 - likely])


@lru_cache(maxsize=256)
def _discrete_gaussian(sigma: float) -> tuple[Counts, Floats]:
    """Return the integers within nine σ and their probabilities."""
    noise = np.arange(-int(9 * sigma) - 2, int(9 * sigma) + 3)
    chances = np.exp(-(noise**2) / (2 * sigma**2))
    return noise, chances / chances.sum()


@lru_cache(maxsize=256)
def _log_normaliser(sigma: float) -> float:
    """Compute log Σ exp(−k²/(2σ²)) over all integers k.

    For σ > 50 the integral is used, which is the same to the last bit.
    """
    if sigma > 50:
        return log(sigma * sqrt(2 * pi))
    noise, chances = _discrete_gaussian(sigma)
    return -log(float(chances[noise == 0][0]))
