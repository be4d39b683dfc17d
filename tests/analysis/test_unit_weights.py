"""Tests of units with equal weights: the model of the rows and the intervals."""

from dataclasses import replace

import numpy as np
import pytest

from equistrata.analysis.answers import Answers
from equistrata.analysis.cells import noisy_cells
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.replicates import ReplicateGenerator
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import UNIT_ROWS, Unit
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import PARTS, measure_marginal, parts_counted, row_parts
from equistrata.synth.mechanisms.session import GRID
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.model import rows_of_units
from equistrata.synth.synthesizer import StratifiedSynthesizer

PEOPLE = Schema(
    "people",
    (Column("G", values=(0, 1, 2)), Column("AGE", values=(0, 1, 2, 3)), Column("JOB", values=(0, 1))),
    unit=Unit("HOME", 4, weights="units"),
)


def households(rng, units=4000):
    """Return the codes of households. The last code is the number of rows of the household.

    Large households have more young people, and most young people have no job.
    """
    sizes = np.repeat(*[rng.choice([1, 2, 3, 4], units, p=[0.4, 0.3, 0.2, 0.1])] * 2)
    of_unit = rng.choice(3, units, p=[0.6, 0.3, 0.1])
    group = np.repeat(of_unit, np.diff(np.flatnonzero(np.append(_starts(sizes), True))))
    age = np.where(rng.random(len(sizes)) < 0.2 * sizes, 0, rng.integers(1, 4, len(sizes)))
    job = rng.random(len(sizes)) < np.where(age == 0, 0.05, 0.5 + 0.1 * group)
    return np.column_stack([group, age, job, sizes - 1]).astype(np.uint8)


def _starts(sizes):
    """Return the first row of each unit. The rows of a unit are consecutive."""
    starts, place = np.zeros(len(sizes), dtype=bool), 0
    while place < len(sizes):
        starts[place] = True
        place += sizes[place]
    return starts


def fitted(codes, name="mst", epsilon=1.0, seed=0):
    table = CodedTable(codes, PEOPLE.modelled)
    made = StratifiedSynthesizer(name, ["G"], epsilon=epsilon, delta=1e-9, seed=seed).fit(table)
    return Evidence(Strata.over(table.schema, ("G",)), made.measurements_, mechanism(name)), made.model_


def test_a_unit_adds_one_in_all_wherever_its_rows_are():
    rng, table = np.random.default_rng(1), CodedTable(households(np.random.default_rng(0), 200), PEOPLE.modelled)
    assert PARTS == GRID
    for size in range(1, 5):
        unit = np.column_stack([rng.integers(0, [3, 4, 2], (size, 3)), np.full(size, size - 1)]).astype(np.uint8)
        more = CodedTable(np.concatenate([table.codes, unit]), table.schema)
        for columns in [(), ("AGE",), ("AGE", "JOB"), (UNIT_ROWS,), ("G", UNIT_ROWS, "JOB")]:
            apart = parts_counted(more, columns) - parts_counted(table, columns)
            assert apart.shape == tuple(table.schema[name].size for name in columns)
            assert 0.99 * PARTS < apart.sum() <= PARTS
            assert (apart >= 0).all()
    whole = parts_counted(table, ("AGE", UNIT_ROWS)) / PARTS
    rows = table.marginal(["AGE", UNIT_ROWS])  # the second axis is the number of rows, from 1 to 4
    assert whole.sum(1) == pytest.approx((rows / np.arange(1, 5)).sum(1), rel=2e-3)
    assert whole @ [1, 4] == pytest.approx(rows.sum(1), rel=2e-3)
    for k in range(2, 17):
        parts = row_parts(replace(PEOPLE, unit=Unit("HOME", k, weights="units")))
        assert (parts >= 0).all()
        assert (parts.sum(1) == PARTS // np.arange(1, k + 1)).all()
        assert np.abs(parts @ [1, k] - PARTS).max() < k
    noisy = measure_marginal(table, ("AGE",), Rho(0.5), Budget(Rho(0.5)), SeededNoise(0))
    assert noisy.sigma == 1.0
    assert np.abs(noisy.values - whole.sum(1)).max() < 6


@pytest.mark.parametrize("name", ["mst", "aim", pytest.param("gem", marks=pytest.mark.slow)])
def test_rows_are_drawn_by_the_size_of_units(name):
    codes = households(np.random.default_rng(0))
    _, model = fitted(codes, name, epsilon=50)
    rows = rows_of_units(model)
    real = np.bincount(codes[:, 1], minlength=4) / len(codes)
    units, found = (each.marginal(["AGE"]) / each.total for each in (model, rows))
    off = 0.01 if name != "gem" else 0.05
    assert found == pytest.approx(real, abs=off)
    assert abs(units[0] - real[0]) > 0.08
    assert rows.total == pytest.approx(len(codes), rel=0.02)
    drawn = rows.sample(None, np.random.default_rng(1))
    assert np.bincount(drawn.column("AGE"), minlength=4) / len(drawn) == pytest.approx(found, abs=0.01)


def test_what_was_measured_by_the_units_rows_becomes_counts_of_rows():
    codes = households(np.random.default_rng(0))
    evidence, _ = fitted(codes, "aim", epsilon=20)
    assert len(evidence.all) < len(evidence.published)
    assert evidence.names == PEOPLE.names
    real, raw = CodedTable(codes, PEOPLE.modelled), [m for m in evidence.published if UNIT_ROWS in m.columns]
    assert len(evidence.all) == len(raw) >= 2
    for measured, before in zip(evidence.all, raw, strict=True):
        assert measured.columns == tuple(name for name in before.columns if name != UNIT_ROWS)
        assert measured.sigma == pytest.approx(before.sigma * 17**0.5)
        off = measured.values - real.marginal(measured.columns)
        assert np.abs(off).max() < 5 * measured.sigma + 0.003 * len(codes)
    model, values = next(ReplicateGenerator(evidence).models([0]))
    assert [value.shape for value in values] == [m.values.shape for m in evidence.all]
    assert model.total == pytest.approx(len(codes), rel=0.05)
    assert UNIT_ROWS not in noisy_cells(evidence).to_csv()


@pytest.mark.parametrize("releases", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_intervals_hold_for_rows(releases):
    """Each release has 84 intervals. For four releases, the probability of a false alarm is less than 1e-4."""
    held = []
    for seed in range(releases):
        codes = households(np.random.default_rng(seed))
        truth, answers = (
            CodedTable(codes[:, :3], replace(PEOPLE, unit=Unit())),
            Answers(fitted(codes, seed=seed)[0], 0, 6),
        )
        for columns in (["AGE"], ["JOB"], ["G", "AGE"], ["G", "JOB"], ["AGE", "JOB"]):
            table = truth.marginal(columns)
            for statistic, exact in (("count", table), ("proportion", table / table.sum(-1, keepdims=True))):
                found = answers.estimate(statistic, columns[-1], columns[:-1])
                real = np.array([exact[tuple(line)] for line in found[columns].to_numpy()])
                held += ((found["lower"] <= real) & (real <= found["upper"])).tolist()
    assert np.mean(held) > 0.9
