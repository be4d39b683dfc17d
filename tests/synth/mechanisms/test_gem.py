"""Tests of GEM: its budget, its decisions, small tables and attempts at refutation.

As in test_refutation.py, the statistic of a release is the log-likelihood ratio of all published values for two
neighbouring tables. Each guarantee is tested with a false alarm rate of 10⁻³, and the seeds are fixed.
"""

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest
from faked_fits import fits_of_the_same_bits
from refutation import HalvedNoise, measured_epsilon
from small_tables import fit, schema_of, table_of
from spies import FakeNoise, Spy, recorded_budgets

import equistrata.synth.mechanisms.gem
import equistrata.synth.mechanisms.session
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise, gaussian_sigma, selection_epsilon
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.registry import mechanism
from equistrata.synth.storage import load_measurements, save_measurements

FAST = GEM(rounds=4, round_steps=4, engine=MixtureDescent(components=6, steps=20))


@pytest.mark.parametrize("rows", [0, 1, 5, 100_000])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (1 / 3, 0.7)])
@pytest.mark.parametrize("rho", [0.1, 1 / 3, 0.0149731])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 2), (3, 2), (3,)])
def test_the_log_adds_up_to_rho_to_the_last_digit(rows, shares, rho, sizes):
    noise, gem = Spy(), replace(FAST, rounds=3, single_share=shares[0], selection_share=shares[1])
    measured, log = gem.measure_with_log(table_of(rows, sizes), Rho(rho), noise)
    assert sum((step.selection + step.measurement for step in log), start=Rho(0)) == Rho(rho)
    # The log must be equal to the calls of the noise source.
    assert [step.columns for step in log] == [m.columns for m in measured]
    assert [gaussian_sigma(step.measurement) for step in log] == noise.sigmas == [m.sigma for m in measured]
    assert [step.selection for step in log if step.selection] == [amount for _, _, amount in noise.selections]
    assert all(sensitivity == 1.0 for _, sensitivity, _ in noise.selections)
    chosen = rows == 100_000 and len(sizes) > 1
    assert len(noise.selections) == (3 if chosen else 0)


def test_every_release_goes_through_the_budget(monkeypatch):
    made = recorded_budgets(monkeypatch, equistrata.synth.mechanisms.session)
    _, log = FAST.measure_with_log(table_of(50_000, (2, 3, 4)), Rho(0.1), SeededNoise(0))
    (budget,) = made
    assert budget.remaining == Rho(0)
    amounts = [amount for step in log for amount in (step.selection, step.measurement) if amount]
    assert [rho for _, rho in budget.entries] == amounts


def test_a_wide_table_has_more_and_noisier_rounds_but_none_where_none_is_readable(monkeypatch):
    wide = Schema("wide", tuple(Column(f"c{n}", values=(0, 1, 2)) for n in range(16)))  # 120 pairs
    narrow, rho, rows = wide.select(wide.names[:5]), Rho(0.01), [100, 300, 1000, 2000, 6000, 100_000]
    gem = GEM(rounds=60)
    assert [gem.rounds_for(narrow, rho, n) for n in rows] == [0, 2, 9, 18, 56, 60]
    assert [gem.rounds_for(wide, rho, n) for n in rows] == [0, 6, 21, 30, 42, 60]
    assert GEM(rounds=25).rounds_for(wide, rho, 2000) == 25
    monkeypatch.setattr(equistrata.synth.mechanisms.gem, "_NOISIER", 1)
    assert [gem.rounds_for(wide, rho, n) for n in rows] == [0, 2, 7, 14, 42, 60]


def test_scores_are_the_l1_distance_less_the_noise_to_come():
    table, noise = table_of(50_000, (2, 3, 4), seed=2), Spy()
    gem = replace(FAST, rounds=1)
    measured, log = gem.measure_with_log(table, Rho(1), noise)
    model = replace(gem.engine, steps=gem.round_steps).estimate(table.schema, measured[:3])
    candidates = [*combinations("ABC", 2), tuple("ABC")]
    assert gem.candidates(table.schema) == candidates
    sigma = gaussian_sigma(log[-1].measurement)
    expected = [
        np.abs(table.marginal(c) - model.marginal(c)).sum() - np.sqrt(2 / np.pi) * sigma * model.marginal(c).size
        for c in candidates
    ]
    np.testing.assert_allclose(
        noise.selections[0][0], expected, atol=25 / 2048
    )  # 24 cells and the noise, each rounded to 1/1024


def test_one_row_moves_no_score_by_more_than_one():
    table = table_of(60, (2, 3, 2), seed=3)
    schema = table.schema
    model = FAST.model(schema, [Measurement((n,), np.full(schema[n].size, 25.0), 3.0) for n in "ABC"])
    candidates, moved = FAST.candidates(schema), []
    before = Session(table, Rho(1), Spy()).scores(candidates, model, 3.0)
    for row in product(range(2), range(3), range(2)):
        more = CodedTable(np.vstack([table.codes, np.array([row], dtype=np.uint8)]), schema)
        after = Session(more, Rho(1), Spy()).scores(candidates, model, 3.0)
        moved.append(np.abs(np.subtract(after, before)).max())
    assert max(moved) == 1.0  # without a rounding error


@pytest.mark.parametrize("level", [60, 5000])
def test_with_faked_noise_two_private_tables_give_the_same_bits(level):
    first, *_ = fits_of_the_same_bits(FAST, level, lambda model: model.factors)
    assert any(len(m.columns) > 1 for m in first.measurements)


@pytest.mark.parametrize(("level", "chosen"), [(5000, True), (1, False)])
def test_the_number_of_rounds_is_decided_from_noisy_numbers_alone(level, chosen):
    """The noisy counts contradict the true size of the table, and the decision must follow the noisy counts."""
    measured = FAST.measure(table_of(1 if chosen else 50_000, (2, 3, 4)), Rho(0.05), FakeNoise(level))
    assert any(len(m.columns) > 1 for m in measured) == chosen


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1,), (1, 1), (1, 2, 1)])
@pytest.mark.parametrize("rows", [0, 1, 5, 5000])
def test_few_columns_and_few_rows(sizes, rows):
    result = fit(FAST, table_of(rows, sizes), Rho(0.2), SecureNoise())
    sample = result.model.sample(20, np.random.default_rng(0))
    assert len(sample) == 20
    assert result.model.marginal(sample.schema.names).sum() == pytest.approx(result.model.total)
    assert len(sizes) > 1 or {len(m.columns) for m in result.measurements} == {1}


def test_the_model_follows_from_the_saved_measurements(tmp_path):
    table = table_of(20_000, (2, 3, 4))
    first = fit(FAST, table, Rho(0.1), SeededNoise(0))
    save_measurements(first.measurements, tmp_path / "m.json")
    again = FAST.model(table.schema, load_measurements(tmp_path / "m.json"))
    for a, b in zip(first.model.factors, again.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    other = replace(FAST, engine=replace(FAST.engine, seed=1)).model(table.schema, first.measurements)
    assert any((a != b).any() for a, b in zip(other.factors, again.factors, strict=True))


def test_a_paid_count_is_kept_and_used():
    known = Measurement((), np.array(100_000.0), 0.5)
    measured = FAST.measure(table_of(5, (2, 3, 4)), Rho(0.01), SeededNoise(0), [known])
    assert measured[0] is known
    assert any(len(m.columns) > 1 for m in measured)


def test_no_measurement_at_all_makes_a_nearly_uniform_model():
    model = FAST.model(schema_of(2, 3), [])
    np.testing.assert_allclose(model.marginal("AB") * 6, 1.0, atol=0.2)


def test_it_learns_a_three_way_dependence():
    """C is the parity of A and B, so all pairs are independent and only a 3-way marginal has information."""
    rng = np.random.default_rng(0)
    a, b, d = rng.integers(0, 2, (3, 30_000))
    table = CodedTable(np.stack([a, b, a ^ b, d], axis=1).astype(np.uint8), schema_of(2, 2, 2, 2))
    gem = GEM(rounds=4, engine=MixtureDescent(components=30, steps=600))
    model = fit(gem, table, Rho(0.05), SeededNoise(0)).model
    # The distance is 1.0 for independent columns.
    assert np.abs(model.marginal("ABC") - table.marginal("ABC")).sum() < 0.08 * len(table)
    sample = model.sample(30_000, rng)
    assert np.abs(sample.marginal("ABC") - table.marginal("ABC")).sum() < 0.1 * len(table)
    assert np.abs(sample.marginal("ABD") - table.marginal("ABD")).sum() < 0.05 * len(table)


def test_by_name_and_settings():
    assert mechanism("GEM").name == mechanism("gem").name == GEM().name == "GEM"
    with pytest.raises(InputError, match="has no engine 'mbi'"):
        mechanism("gem", "mbi")
    with pytest.raises(InputError, match="single_share is 1"):
        GEM(single_share=1)
    with pytest.raises(InputError, match="degree is 1"):
        GEM(degree=1)


# --- Refutation

RHO, DELTA = Rho(0.5), 0.1
CLAIM = RHO.epsilon(DELTA)
SCHEMA = Schema("tiny", (Column("A", values=(0, 1)), Column("B", values=(0, 1, 2)), Column("C", values=(0, 1))))
ROW = (1, 2, 0)  # no other row has B = 2
SEEN = []


@dataclass(frozen=True)
class Remembering(MixtureDescent):
    """An engine that records its models. An attacker could also compute these models, because the measurements are
    published.
    """

    def trained(self, *arguments):
        logits, model = super().trained(*arguments)
        SEEN.append(model)
        return logits, model


class SpentEachRound(GEM):
    """A planted fault, which was in the published code: each round has the budget of all rounds."""

    def measure_with_log(self, table, rho, noise, known=()):
        return super().measure_with_log(table, rho * self.rounds, noise, known)


# Without training, the selections have the same privacy cost and a run takes a millisecond. A slow test uses training.
TINY = GEM(
    rounds=2,
    single_share=0.45,
    readable=1e6,
    round_steps=0,
    degree=2,
    selection_share=0.03,
    engine=Remembering(components=2),
)


def neighbours():
    codes = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(np.uint8)
    return CodedTable(codes, SCHEMA), CodedTable(np.vstack([codes, np.array([ROW], dtype=np.uint8)]), SCHEMA)


def statistics(gem, runs, noise):
    """Return log P(all published values | neighbour) − log P(all published values | table), with shape (2, runs)."""
    both, result = neighbours(), np.zeros((2, runs))
    row = dict(zip("ABC", ROW, strict=True))
    candidates = gem.candidates(SCHEMA)
    truths = [{c: t.marginal(c) for c in [("A",), ("B",), ("C",), *candidates]} for t in both]
    for side, table in enumerate(both):
        for i in range(runs):
            SEEN.clear()
            released, log = gem.measure_with_log(table, RHO, noise.spawn(side * runs + i))
            models = iter(SEEN)
            for m, step in zip(released, log, strict=True):
                if step.selection:
                    scale, model = selection_epsilon(step.selection) / 2, next(models)
                    for sign, truth in zip((-1, 1), truths, strict=True):
                        sigma = gaussian_sigma(step.measurement)
                        told = [
                            equistrata.synth.mechanisms.session.marginal_score(truth[c], model.marginal(c), sigma)
                            for c in candidates
                        ]
                        scores = scale * np.array(told)
                        chosen = scores[candidates.index(step.columns)]
                        result[side, i] += sign * (chosen - np.logaddexp.reduce(scores))
                cell = tuple(row[name] for name in m.columns)
                result[side, i] += (m.values[cell] - truths[0][m.columns][cell] - 0.5) / m.sigma**2
    return result


def bound(found):
    return measured_epsilon(found, CLAIM, DELTA)


@pytest.mark.slow
def test_gem_keeps_its_claim():
    assert 0.1 < bound(statistics(TINY, 1200, SeededNoise(1))) <= CLAIM


@pytest.mark.slow
def test_gem_with_half_the_noise_is_caught():
    assert bound(statistics(TINY, 1200, HalvedNoise(SeededNoise(2)))) > CLAIM


@pytest.mark.slow
def test_gem_that_spends_its_epsilon_in_every_round_is_caught():
    fault = SpentEachRound(**{**vars(TINY), "rounds": 8})
    assert bound(statistics(fault, 400, SeededNoise(3))) > CLAIM


def test_a_round_that_is_not_accounted_for_cannot_be_paid(monkeypatch):
    """If the sum of the costs of the rounds is larger than ρ, an error must be raised by the budget before the rows are
    used.
    """
    monkeypatch.setattr(Rho, "split", lambda self, shares: [self] * len(shares))
    with pytest.raises(BudgetExceeded):
        FAST.measure(table_of(5000, (2, 3, 4)), Rho(0.1), SeededNoise(0))


@pytest.mark.slow
def test_gem_keeps_its_claim_over_many_runs():
    assert 0.5 < bound(statistics(replace(TINY, round_steps=3), 6000, SeededNoise(4))) <= CLAIM
