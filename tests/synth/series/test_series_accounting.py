"""Tests of the privacy cost of a series with a unit that is present in all months.

The tests use `recorder`, which repeats three months on tables with an additional row in each month. The noise source
returns the values of the first run, so the states are the same bytes.
"""

from fractions import Fraction

import numpy as np
import pytest
from recorder import made_twice

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.measurements import FormerEstimate
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.series import fitting
from equistrata.synth.series.drift import filter_month
from equistrata.synth.series.smoothing import smooth_states
from equistrata.synth.series.state import State
from equistrata.synth.strata import fitting as strata_fitting
from equistrata.synth.strata.fitting import model_strata
from equistrata.synth.strata.selection import shared_selection

SIZES = {"A": 3, "S": 2, "B": 2, "R": 2, "C": 2}
SCHEMA = Schema("small", tuple(Column(name, values=tuple(range(size))) for name, size in SIZES.items()))
STRATA = Strata.over(SCHEMA, ("S", "R"))
QUICK = MirrorDescent(iterations=15)
MECHANISMS = {
    "mst": MST(engine=QUICK, readable=1e9),
    "aim": AIM(engine=QUICK, round_engine=QUICK, readable=1e9, rounds=2),
}
TOTAL, MONTHS = Rho(1.5), 3
COUNTS = Fraction(1, 10)  # of the privacy cost of a month


def months(rows=400):
    """Return the tables of three months, and the same tables with an additional row in each of them."""
    first, second = [], []
    for month in range(MONTHS):
        rng = np.random.default_rng([3, month])
        a, s, b, r, c = (rng.integers(0, size, rows) for size in SIZES.values())
        b = np.where(rng.random(rows) < 0.8, a > 0, b)
        codes = np.stack([a, s, b, r, c], axis=1).astype(np.uint8)
        first.append(CodedTable(codes, SCHEMA))
        second.append(CodedTable(np.vstack([codes, np.array([[month, 1, 1, 0, 1]], np.uint8)]), SCHEMA))
    return first, second


def series(name, tables, noise):
    """Return all published values of the months."""
    mechanism = MECHANISMS[name]
    shared, state, found = shared_selection(mechanism, STRATA), None, []
    price = TOTAL * Fraction(1, MONTHS)
    for number, table in enumerate(tables, start=1):
        budget = Budget(price)
        known = fitting.former_groupings(STRATA, state, number)
        measured = strata_fitting.measure_stratum(shared, table, budget, price * COUNTS, noise.spawn(number), known)
        assert not budget.remaining
        joined, state = fitting.after(STRATA, state, number, {(): measured})
        model = model_strata(STRATA, joined[()], shared.engine, True)
        found.append([measured, state.known, dict(state.moments), model.marginal(("A", "S", "B"))])
    return [*found, revised([each[0] for each in found])]


def revised(measured):
    """Return the revised values of all months, which are computed from the published values."""
    first = State.of(1, measured[0])
    state, later = first, []
    for number, own in enumerate(measured[1:], start=2):
        later.append(filter_month(STRATA.columns, state, number, own))
        state = later[-1].state
    return smooth_states(first, later)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_unit_in_every_month_pays_the_series_price_and_nothing_else_is_seen(tmp_path, name):
    found = made_twice(lambda tables, noise: series(name, tables, noise), *months(), tmp_path)
    assert found.keeps(TOTAL)
    assert found.cost > 0.6 * float(TOTAL)
    assert found.pure


def test_former_measurements_are_never_among_what_a_month_publishes():
    tables, _ = months()
    found = series("mst", tables, SeededNoise(1))
    for (measured, *_), price in zip(found[:MONTHS], [TOTAL * Fraction(1, MONTHS)] * MONTHS, strict=True):
        assert not any(isinstance(each, FormerEstimate) for each in measured)
        paid = sum(1 / (2 * each.sigma**2) + each.choices for each in measured)
        assert paid == pytest.approx(float(price), rel=1e-9)


def test_a_month_that_measures_again_for_free_is_caught(monkeypatch, tmp_path):
    honest = strata_fitting.measure_stratum

    def measure(mechanism, table, budget, count_rho, noise, former=()):
        free = measure_marginal(table, ("A",), Rho(0.2), Budget(Rho(0.2)), noise.spawn(99))
        return [*honest(mechanism, table, budget, count_rho, noise, former), free]

    monkeypatch.setattr(strata_fitting, "measure_stratum", measure)
    found = made_twice(lambda tables, noise: series("mst", tables, noise), *months(), tmp_path)
    assert not found.keeps(TOTAL)


def test_a_state_that_holds_an_exact_count_is_caught(monkeypatch, tmp_path):
    honest = fitting.after
    seen = iter([table for tables in months() for table in tables])

    def after(strata, state, month, measured):
        joined, state = honest(strata, state, month, measured)
        exact = next(seen).marginal(("A",)).astype(float)
        wrong = FormerEstimate(("A",), exact, 1.0, (None,), sigmas=np.ones(3))
        known = [wrong if each.columns == ("A",) else each for each in state.known]
        return joined, type(state)(state.month, tuple(known), state.moments)

    monkeypatch.setattr(fitting, "after", after)
    found = made_twice(lambda tables, noise: series("mst", tables, noise), *months(), tmp_path)
    assert not found.pure
