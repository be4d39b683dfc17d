"""Attempts to refute the privacy of shared selection and levels, each shown to catch planted faults.

Two neighbouring tables (one added row), thousands of whole releases of each, and one number per release: the logarithm
of the likelihood ratio of all that was published. It is found by playing a release again on the other table, with the
same noisy numbers and the same choices: what the noise source was given then, on either side, decides the ratio, and no
other statistic tells the tables apart better. Nothing in here knows how a mechanism scores or what it measures, so a
fault cannot hide by being in both.

False alarms: each claim is tested once at 10⁻³. Seeds are fixed, so a test that has passed keeps passing. The choices
alone are tested exactly, by their Rényi divergence, with no false alarms.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from independent_model import Independent
from refutation import HalvedNoise, measured_epsilon

import equistrata.synth.mechanisms.session
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.levels import Levels
from equistrata.synth.mechanisms.mst import MST

RHO, DELTA = Rho(0.5), 0.1
CLAIM = RHO.epsilon(DELTA)  # 1.66; one Gaussian that uses all of ρ has an exact ε of 1.16, of four times that ρ 3.8
SCHEMA = Schema(
    "tiny",
    (Column("A", values=(0, 1)), Column("B", values=(0, 1, 2)), Column("G", values=(0, 1)), Column("C", values=(0, 1))),
)
ROW = (1, 2, 1, 0)  # nobody else has B = 2
LEVELS = Levels(("G",))
SMALL_CHOICE = 0.03  # the Gaussian part uses up what it pays for; the exponential mechanism does not


def tables(seed=0):
    """30 rows, and the same with one more: the row to be found out."""
    codes = np.random.default_rng(seed).integers(0, 2, (30, 4)).astype(np.uint8)
    return CodedTable(codes, SCHEMA), CodedTable(np.vstack([codes, np.array([ROW], dtype=np.uint8)]), SCHEMA)


class Tape(SeededNoise):
    """A noise source that writes down what it was given and what it answered."""

    def __init__(self, source):
        self.source, self.answers, self.given = source, [], []

    def _gaussian(self, counts, sigma, *claim):
        return self._keep(("gaussian", np.array(counts), sigma), self.source._gaussian(counts, sigma, *claim))

    def _select(self, scores, scale, *claim):
        return self._keep(("select", np.array(scores), scale), self.source._select(scores, scale, *claim))

    def spawn(self, stream):
        return self

    def _keep(self, given, answer):
        self.given.append(given)
        self.answers.append(answer)
        return answer


class Played:
    """Answers as a tape did, so that a mechanism does on another table what it did on the first."""

    def __init__(self, answers):
        self.left = list(answers)

    def _gaussian(self, *given):
        return self.left.pop(0)

    def _select(self, *given):
        return self.left.pop(0)


def log_likelihood(given, answer):
    if given[0] == "gaussian":
        _, counts, sigma = given
        return -float(((answer - counts) ** 2).sum()) / (2 * sigma**2)
    _, scores, scale = given
    weights = scores / scale
    return weights[answer] - np.logaddexp.reduce(weights)


def log_ratio(mechanism, ran_on, other, noise):
    """log P(what was published | other) − log P(it | ran_on), for one release."""
    tape = Tape(noise)
    mechanism.measure(ran_on, RHO, tape)
    again = Tape(Played(tape.answers))
    mechanism.measure(other, RHO, again)
    assert not again.source.left
    assert len(again.given) == len(tape.given)
    return sum(
        log_likelihood(theirs, answer) - log_likelihood(ours, answer)
        for ours, theirs, answer in zip(tape.given, again.given, tape.answers, strict=True)
    )


@dataclass(frozen=True)
class Cheap:
    """An engine that takes no time: a thousand releases a second."""

    def estimate(self, schema, measurements, warm_start=None):
        return Independent(measurements)


SHARED_MST = MST(levels=LEVELS, readable=1e9, choice=SMALL_CHOICE, engine=Cheap())
SHARED_AIM = AIM(
    levels=LEVELS, readable=1e9, rounds=2, measured=1 - SMALL_CHOICE, max_model_size=1000.0, round_engine=Cheap()
)
ONE_LEVEL_MST = replace(SHARED_MST, levels=Levels())
LARGE_MST = replace(SHARED_MST, levels=Levels(("G",), large_noise=1e9))  # each stratum is measured by itself
MECHANISMS = pytest.mark.parametrize("mechanism", [SHARED_MST, SHARED_AIM], ids=["MST", "AIM"])
AND_ONE_LEVEL = pytest.mark.parametrize(
    "mechanism",
    [SHARED_MST, SHARED_AIM, ONE_LEVEL_MST, LARGE_MST],
    ids=["MST", "AIM", "MST, one level", "MST, large strata"],
)


@dataclass(frozen=True)
class OffTheBooks:
    """The planted fault: a marginal within strata that is measured and not charged, `times` at the whole price."""

    mechanism: MST | AIM
    times: int = 3
    columns: tuple[str, ...] = field(default=("A", "B", "G"))

    def measure(self, table, rho, noise):
        found = self.mechanism.measure(table, rho, noise)
        for _ in range(self.times):
            found.append(measure_marginal(table, self.columns, rho, Budget(rho), noise))
        return found


def statistics(mechanism, runs, noise):
    """The statistic over `runs` releases of each table, oriented the same way, shape (2, runs)."""
    one, two = tables()
    return np.array(
        [
            [sign * log_ratio(mechanism, ran_on, other, noise.spawn(side * runs + i)) for i in range(runs)]
            for side, (ran_on, other, sign) in enumerate([(one, two, 1), (two, one, -1)])
        ]
    )


def bound(mechanism, runs, noise):
    return measured_epsilon(statistics(mechanism, runs, noise), CLAIM, DELTA)


@pytest.mark.slow
@AND_ONE_LEVEL
def test_a_release_keeps_its_claim(mechanism):
    assert 0.3 < bound(mechanism, 2500, SeededNoise(1)) <= CLAIM  # the lower end shows that we do look


@pytest.mark.slow
@AND_ONE_LEVEL
def test_a_release_with_half_the_noise_is_caught(mechanism):
    assert bound(mechanism, 3000, HalvedNoise(SeededNoise(2))) > CLAIM


@pytest.mark.slow
@MECHANISMS
def test_a_marginal_within_strata_that_is_not_charged_is_caught(mechanism):
    assert bound(OffTheBooks(mechanism), 3500, SeededNoise(3)) > CLAIM


@pytest.mark.slow
@MECHANISMS
def test_a_release_keeps_its_claim_over_many_runs(mechanism):
    assert 0.6 < bound(mechanism, 25_000, SeededNoise(4)) <= CLAIM


# The choices alone.


class Stop(Exception):
    pass


class FirstChoice(SeededNoise):
    """Stops at the first choice, and keeps the probabilities that the exponential mechanism gives to it."""

    def _select(self, scores, scale, sensitivity, rho):
        weights = scores / scale
        self.rho, self.logs = float(rho), weights - np.logaddexp.reduce(weights)
        raise Stop


@dataclass(frozen=True)
class Fixed:
    """An engine whose model is given: made from noisy numbers, it might be any."""

    table: np.ndarray

    def estimate(self, schema, measurements, warm_start=None):
        return self

    def marginal(self, columns):
        axes = [SCHEMA.index(name) for name in columns]
        return np.einsum(self.table, range(4), axes)


def first_choice(mechanism, table, model):
    noise = FirstChoice(0)
    changed = {"round_engine" if isinstance(mechanism, AIM) else "engine": Fixed(model)}
    with pytest.raises(Stop):
        replace(mechanism, **changed).measure(table, RHO, noise)
    return noise.logs, noise.rho


def dearest_choice(mechanism, order):
    """The largest Rényi divergence of the first choice, as a part of what was charged, over models and both directions.
    Exact.

    The models lie close to the table, on all sides of it, so that marginals are worth about the same and a row pulls
    some apart.
    """
    rng, worst = np.random.default_rng(5), 0.0
    for seed in range(60):
        tables_ = tables(seed)
        model = tables_[0].marginal(SCHEMA.names) + rng.normal(0, 0.6, SCHEMA.sizes) + rng.choice([-0.3, 0.3])
        sides = [first_choice(mechanism, table, model) for table in tables_]
        (p, rho), (q, _) = sides
        for a, b in ((p, q), (q, p)):
            divergence = np.logaddexp.reduce(order * a + (1 - order) * b) / (order - 1)
            worst = max(worst, divergence / (rho * order))
    return worst


TIGHT_AIM = AIM(
    levels=Levels(("G",), coarse=False),
    workload={("A", "B"): 1.0, ("A", "C"): 1.0},
    readable=1e9,
    rounds=2,
    max_model_size=1000.0,
)
CHOOSERS = {
    "MST": replace(SHARED_MST, choice=0.2),
    "MST, one level": replace(ONE_LEVEL_MST, choice=0.2),
    "AIM": replace(TIGHT_AIM, levels=LEVELS, workload=None),
    "AIM within strata": TIGHT_AIM,
}


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("name", CHOOSERS)
def test_a_choice_costs_what_is_charged(name, order):
    """zCDP says that the divergence of order α is at most ρα."""
    assert 0.1 < dearest_choice(CHOOSERS[name], order) <= 1


@pytest.mark.parametrize("name", ["MST", "AIM within strata"])
def test_a_score_that_counts_a_row_twice_is_caught(monkeypatch, name):
    """As a score would that adds up what every stratum says of a marginal over all rows."""
    honest = equistrata.synth.mechanisms.session.marginal_score
    monkeypatch.setattr(equistrata.synth.mechanisms.session, "marginal_score", lambda *given: 2 * honest(*given))
    assert dearest_choice(CHOOSERS[name], 2.0) > 1.5
