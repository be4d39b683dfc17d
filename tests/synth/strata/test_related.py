"""What a stratum's other columns say of one of its columns: the conditional normal law, and what it is worth."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement
from equistrata.synth.strata import borrowing
from equistrata.synth.strata import related as module
from equistrata.synth.strata.borrowing import borrow
from equistrata.synth.strata.related import related

AGES, JOBS = 4, 3
# Shares of ages and jobs in all rows: the young have the first job, the old the last.
TOGETHER = np.array([[0.20, 0.04, 0.01], [0.12, 0.10, 0.03], [0.04, 0.10, 0.11], [0.01, 0.04, 0.20]])
SCHEMA = Schema(
    "people",
    (
        Column("WARD", values=tuple(range(12))),
        Column("AGE", values=tuple(range(AGES))),
        Column("JOB", values=tuple(range(JOBS))),
        Column("ODD", values=(0, 1)),
    ),
)
STRATA = Strata.over(SCHEMA, ("WARD",))
SIZES = np.array([5000.0] * 3 + [600.0] * 9)


def wards(rng):
    """Shares of ages and jobs by ward: rows weighted by what they are, so both columns are off together."""
    shares = TOGETHER * np.exp(0.2 * rng.normal(size=(12, AGES, JOBS)))
    shares = shares * np.exp(0.5 * rng.normal(size=(12, 1, 1)) * np.linspace(-1, 1, AGES)[:, None])
    return shares / shares.sum((1, 2), keepdims=True)


def counted(rng, shares):
    """Noisy counts of each ward's columns, of ages with less noise, and of both together in all rows."""
    columns = {"AGE": shares.sum(2), "JOB": shares.sum(1), "ODD": np.full((12, 2), 0.5)}
    noisy = {
        key: [
            Measurement((), np.array(SIZES[n]), 1e-3),
            *(
                Measurement((name,), each[n] * SIZES[n] + rng.normal(0, sigma, each.shape[1]), sigma)
                for (name, each), sigma in zip(columns.items(), (20.0, 80.0, 20.0), strict=True)
            ),
        ]
        for n, key in enumerate(STRATA.keys)
    }
    together = (shares * SIZES[:, None, None]).sum(0)
    return noisy, [Measurement(("AGE", "JOB"), together + rng.normal(0, 40.0, together.shape), 40.0)]


def test_it_is_the_conditional_law_of_a_joint_normal_one(monkeypatch):
    """Two columns, one stratum; their joint covariance written out, and conditioned on AGE's own counts by hand."""
    monkeypatch.setattr(module, "_ALIKE_SPREAD", 1e-6)  # else what is seen changes the constant
    rng, sigma = np.random.default_rng(0), 0.03
    ages, jobs = TOGETHER.sum(1), TOGETHER.sum(0)
    spread = [np.sqrt(0.02 * ages), np.sqrt(0.02 * jobs)]
    seen = ages + np.array([0.08, 0.02, -0.04, -0.06])
    told = {"AGE": (ages[None], spread[0][None]), "JOB": (jobs[None], spread[1][None])}
    looks = {"AGE": [(seen, sigma)], "JOB": [(rng.random(JOBS), 0.5)]}
    shares, deviation = related(told, looks, {("AGE", "JOB"): (TOGETHER, 0.0)})["JOB"]
    across = 0.6 * (TOGETHER - np.outer(ages, jobs)) * 0.02
    inner = np.linalg.inv(np.diag(0.02 * ages + sigma**2))
    mean = jobs + across.T @ inner @ (seen - ages)
    variance = 0.02 * jobs - np.diag(across.T @ inner @ across)
    np.testing.assert_allclose(shares[0], mean + (1 - mean.sum()) * variance / variance.sum(), rtol=1e-4)
    np.testing.assert_allclose(deviation[0] ** 2, variance, rtol=1e-4)
    assert shares[0, 0] > jobs[0] + 0.01  # a younger stratum has more of the job of the young


def test_a_column_that_nothing_was_measured_with_is_told_as_before():
    rng = np.random.default_rng(1)
    told = {"AGE": (rng.random((2, 4)), np.full((2, 4), 0.1)), "ODD": (np.full((2, 2), 0.5), np.full((2, 2), 0.1))}
    looks = {"AGE": [(rng.random(4), 0.1)] * 2, "ODD": [(np.array([0.9, 0.1]), 0.01), None]}
    for pairs in ({}, {("AGE", "ODD"): (np.outer(np.full(4, 0.25), [0.5, 0.5]), 0.001)}):
        found = related(told, looks, pairs)
        np.testing.assert_allclose(found["ODD"][0], told["ODD"][0], atol=1e-9)
        np.testing.assert_allclose(found["AGE"][1], told["AGE"][1], rtol=1e-6)


def test_a_relation_that_is_noise_says_little():
    """Rows of which the two columns are unrelated, counted with noise: correlations are shrunk to a tenth."""
    rng = np.random.default_rng(2)
    sizes = []
    for _ in range(50):
        noisy = np.outer(TOGETHER.sum(1), TOGETHER.sum(0)) + rng.normal(0, 0.01, (AGES, JOBS))
        sizes.append([np.abs(module._correlation(noisy, sigma)).mean() for sigma in (0.01, 0.0)])
    shrunk, raw = np.mean(sizes, axis=0)
    assert shrunk < 0.25 * raw
    np.testing.assert_allclose(module._correlation(TOGETHER, 1e-6), module._correlation(TOGETHER, 0.0), rtol=1e-3)


@pytest.mark.parametrize(("sign", "between"), [(1, (0.6, 1.0)), (-1, (0.0, 0.1))])
def test_strata_of_which_columns_go_together_otherwise_than_rows_are_not_told_so(sign, between):
    """Younger strata that have more of the job of the young, or fewer."""
    ages, jobs = TOGETHER.sum(1), TOGETHER.sum(0)
    tilts = np.linspace(-1, 1, 11)[:, None]
    first = ages + 0.1 * tilts * np.array([1, 0.5, -0.5, -1])
    second = jobs + sign * 0.1 * tilts * np.array([1, 0, -1])
    columns = [
        ((np.tile(usual, (11, 1)), np.full((11, len(usual)), 0.1)), [(each, 0.01) for each in seen])
        for usual, seen in ((ages, first), (jobs, second))
    ]
    assert between[0] <= module._alike(module._correlation(TOGETHER, 0.0), columns) <= between[1]


def test_small_strata_are_nearer_by_what_their_other_columns_say(monkeypatch):
    """JOB of wards of 600 rows with noise of 80 in a cell, of 20 in one of ages: mean L1 error of the joined counts
    over that without relations, in ten populations."""
    errors = {True: [], False: []}
    kept = borrowing.related
    for seed in range(10):
        rng = np.random.default_rng(seed)
        shares = wards(rng)
        noisy, wider = counted(rng, shares)
        for heeded, found in errors.items():
            monkeypatch.setattr(borrowing, "related", kept if heeded else lambda told, looks, pairs: dict(told))
            told = borrow(STRATA, noisy, wider)
            for n in range(3, 12):
                own = [m for m in (*noisy[STRATA.keys[n]], *told[STRATA.keys[n]]) if m.columns == ("JOB",)]
                weights = np.array([m.cell_sigma**-2 for m in own])
                joined = np.average([m.values for m in own], axis=0, weights=weights)
                joined += (SIZES[n] - joined.sum()) / weights.sum(0) / (1 / weights.sum(0)).sum()
                found.append(np.abs(joined / SIZES[n] - shares[n].sum(0)).sum())
    assert np.mean(errors[True]) < 0.9 * np.mean(errors[False])
