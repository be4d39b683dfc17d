"""Pairs that AIM passed over are off by no more than lets it."""

from dataclasses import replace

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.misfit import unmeasured_pairs, with_known_sums
from equistrata.analysis.uncertainty.passed_over import passed_over
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.registry import mechanism

NAMES = "ABCDEFGH"
USUAL = 0.03


def evidence(rho, rows=8_000, seed=0):
    """Eight columns of four values, each much as the one before, by an AIM that chose and measured by ρ."""
    rng = np.random.default_rng(seed)
    schema = Schema("chain", tuple(Column(name, values=(0, 1, 2, 3)) for name in NAMES))
    codes = [rng.integers(0, 4, rows)]
    for _ in NAMES[1:]:
        codes.append(np.where(rng.random(rows) < 0.6, codes[-1], rng.integers(0, 4, rows)))
    table = CodedTable(np.column_stack(codes).astype(np.uint8), schema)
    aim = AIM(degree=2, readable=1e9, rounds=2)
    measurements = aim.measure(table, Rho(rho), SeededNoise(seed))
    return Evidence.of(Strata.over(schema, []), {(): measurements}, aim), table


def test_what_was_passed_over_is_known_to_be_near_and_not_where_noise_chose():
    for rho, least, most in ((0.05, 0.0, 0.5), (0.00003, 0.85, 1.0)):
        of, table = evidence(rho)
        pairs = unmeasured_pairs(of)
        found = passed_over(of, pairs, USUAL)
        assert set(found) == set(pairs)
        assert len(pairs) >= 8
        assert least * USUAL <= min(found.values()) <= max(found.values()) <= most * USUAL
        far = max(np.sqrt(np.mean((of.model.marginal(pair) - table.marginal(pair)) ** 2)) / 8_000 for pair in pairs)
        assert (far < USUAL / 5) == (rho == 0.05)  # and so it is


def test_a_pair_that_was_not_offered_keeps_what_was_learned_and_so_do_other_mechanisms():
    of, _ = evidence(0.05)
    pairs = unmeasured_pairs(of)
    small = replace(of, mechanism=replace(of.mechanism, max_model_size=0.0001))
    assert passed_over(small, pairs, USUAL) == {}
    assert passed_over(replace(of, mechanism=mechanism("mst")), pairs, USUAL) == {}
    assert passed_over(of, [], USUAL) == {}


def test_intervals_of_such_a_pair_are_narrower_by_it():
    of, _ = evidence(0.05)
    one, other = unmeasured_pairs(of)[-1]
    now, before = (Answers(each, count=4) for each in (of, replace(of, mechanism=mechanism("mst"))))
    before.__dict__["_replicating"] = now._replicating  # the same models
    found, former = (each.estimate("proportion", one, (other,)) for each in (now, before))
    assert set(found["basis"]) == {"implied"}
    assert ((found["upper"] - found["lower"]) < 0.7 * (former["upper"] - former["lower"])).all()


def test_draws_with_known_sums_have_the_covariance_of_cells_given_them():
    """Normal cells, given that sums over rows and columns are zero: Σ − ΣDᵀ(DΣDᵀ)⁺DΣ. 20,000 draws, fixed seed."""
    rng = np.random.default_rng(0)
    variance = rng.random((3, 4)) * 9 + 0.1
    sums = np.concatenate([np.repeat(np.eye(3), 4, axis=1), np.tile(np.eye(4), 3)])
    sigma = np.diag(variance.ravel())
    given = sigma - sigma @ sums.T @ np.linalg.pinv(sums @ sigma @ sums.T) @ sums @ sigma
    draws = with_known_sums(rng.standard_normal((20_000, 3, 4)), variance)
    assert np.abs(draws.sum(1)).max() == pytest.approx(0, abs=1e-8)
    assert np.cov(draws.reshape(20_000, 12).T) == pytest.approx(given, abs=0.15)
