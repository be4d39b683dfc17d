"""Tests of the planned noise, which is compared with the logs of the mechanisms for simulated tables."""

from itertools import combinations
from math import pi, prod, sqrt

import numpy as np
import pytest
from no_noise import NoNoise
from small_tables import schema_of, table_of

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.foreign.smartnoise import SmartNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.models.mixtures.descent import MixtureDescent
from equistrata.synth.noise_plan import STEPS, NoisePlan, planned_mechanism
from equistrata.synth.strata.selection import shared_selection

QUICK = MirrorDescent(iterations=5)
TREES = {"mst": MST(engine=QUICK), "aim": AIM(engine=QUICK, round_engine=QUICK)}
MECHANISMS = TREES | {"gem": GEM(round_steps=1, engine=MixtureDescent(steps=1, components=5))}
SIZES = (3, 2, 4, 5)


def planned(name, rows, rho, strata=(), sizes=SIZES):
    """Return a table and a plan with a single selection for its sizes. Other plans are in test_large_strata."""
    table = table_of(rows, sizes)
    cut = Strata.over(table.schema, strata)
    counts = np.bincount(cut.index(table), minlength=len(cut.keys)).tolist()
    fits = shared_selection(MECHANISMS[name], cut, "shared") if strata else MECHANISMS[name]
    plan = NoisePlan(fits, cut, dict(zip(cut.keys, counts, strict=True)), Rho(rho))
    return plan, table


def floor_of(steps, columns, cells):
    """Return the expected L1 norm of the noise of the given number of cells, which are measured
    once or several times.
    """
    sigmas = [step.sigma for step in steps if set(step.columns) == set(columns)]
    return sqrt(2 / pi) * cells / sqrt(sum(sigma**-2 for sigma in sigmas))


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("strata", [(), ("A",), ("A", "B")])
@pytest.mark.parametrize(("rows", "rho"), [(200, 1e-4), (5000, 0.002), (20_000, 0.05)])
def test_a_plan_expects_what_is_measured(name, strata, rows, rho):
    plan, table = planned(name, rows, rho, strata)
    _, log = plan.mechanism.measure_with_log(table, Rho(rho), NoNoise())
    unchosen = [step for step in log if not step.selection]
    schema, inner = table.schema, [n for n in table.schema.names if n not in strata]
    one_way, two_way = plan.one_way(plan.strata.keys[0]), plan.two_way(plan.strata.keys[0])
    assert () in one_way
    for level, floor in one_way.items():
        alone = [floor_of(unchosen, (n, *level), schema[n].size) for n in inner]
        assert floor == pytest.approx(np.mean(alone))
    sigmas = [step.sigma for step in log if step.selection and step.columns]
    assert bool(two_way) == bool(plan.choices) == bool(sigmas)
    if not sigmas:
        return
    assert len(sigmas) <= plan.choices
    cells = np.mean([schema[a].size * schema[b].size for a, b in combinations(inner, 2)])
    (floor,) = set(two_way.values())
    assert floor == pytest.approx(np.mean([*plan.pairs(plan.strata.keys[0]).values()]))
    if name != "mst":  # of the first round
        assert sqrt(2 / pi) * sigmas[0] * cells == pytest.approx(floor)


@pytest.mark.parametrize("strata", [(), ("A",)])
@pytest.mark.parametrize("seed", range(3))
def test_msts_pairs_are_planned_with_the_parts_that_they_get(strata, seed):
    """The shares are proportional to the number of cells to the power of 2/3. The ratio of the noise scales for pairs
    of 6 and 240 cells is 3.4.

    The planned noise of a pair is exact up to a constant factor for all pairs of a run. The reason is that the measured
    pairs have a different mean number of cells, and that fewer pairs may be measured. A level in the strata has more
    cells and therefore a larger share.
    """
    sizes, rng = (2, 3, 5, 12, 20), np.random.default_rng(seed)
    alike = rng.integers(0, 60, 20_000)[:, None]
    codes = np.where(rng.random((20_000, 5)) < 0.8, alike, rng.integers(0, 60, (20_000, 5))) * sizes // 60
    table = CodedTable(codes.astype(np.uint8), schema_of(*sizes))
    cut = Strata.over(table.schema, strata)
    counts = np.bincount(cut.index(table), minlength=len(cut.keys)).tolist()
    mst = shared_selection(TREES["mst"], cut, "shared") if strata else TREES["mst"]
    plan = NoisePlan(mst, cut, dict(zip(cut.keys, counts, strict=True)), Rho(0.05))
    _, log = mst.measure_with_log(table, Rho(0.05), SeededNoise(seed))
    schema, floors = table.schema, plan.pairs(cut.keys[0])
    ratios = []
    for step in log:
        if step.selection and step.columns:
            pair = tuple(name for name in schema.names if name in step.columns and name not in strata)
            cells, groups = prod(schema[name].size for name in pair), 2 if set(step.columns) & set(strata) else 1
            ratios.append(sqrt(2 / pi) * step.sigma * cells * groups ** (1 / 3) / floors[pair])
    assert len(ratios) >= 2 * (len(sizes) - len(strata) - 1)
    assert max(floors.values()) > 3 * min(floors.values())
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-6)
    assert 0.7 < ratios[0] < 1.35


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_noise_of_a_table_is_about_the_expected(name):
    """The test uses 50 runs with 4 columns of 5 cells. The tolerance for the mean of the 1,000 absolute values is 10 %,
    which is four standard deviations.
    """
    plan, table = planned(name, 5000, 0.01, sizes=(5, 5, 5, 5))
    far = []
    for seed in range(50):
        found, _ = plan.mechanism.measure_with_log(table, Rho(0.01), SeededNoise(seed))
        far += [np.abs(m.values - table.marginal(m.columns)).sum() / 2 / 5000 for m in found[:4]]
    assert np.mean(far) == pytest.approx(plan.errors(plan.one_way(()), ())[()], rel=0.1)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("strata", [(), ("A",)])
def test_pairs_are_readable_from_where_the_gate_opens(name, strata):
    """All pairs have the same number of cells, so they become readable at the same ρ."""
    plan, table = planned(name, 3000, 1.0, strata, sizes=(4, 4, 4, 4))
    least = {pair: rho for pair, rho in plan.smallest_rho().items() if not set(pair) & set(strata)}
    (rho,) = set(least.values())
    for part, opened in ((1, True), (0.95, False)):
        _, log = plan.mechanism.measure_with_log(table, rho * part, NoNoise())
        assert any(step.selection for step in log) == opened


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_larger_pair_needs_more(name):
    plan, _ = planned(name, 3000, 0.001, sizes=(2, 3, 4, 16))
    least = plan.smallest_rho()
    assert least["A", "B"] <= least["A", "D"] < least["C", "D"]
    for pair, rho in least.items():
        at, below = (NoisePlan(plan.mechanism, plan.strata, plan.sizes, rho * part) for part in (1, 10 ** (-1 / STEPS)))
        assert pair in at.readable_pairs
        assert pair not in below.readable_pairs
    assert NoisePlan(plan.mechanism, plan.strata, {(): 0.0}, Rho(0.001)).smallest_rho() == dict.fromkeys(least)


@pytest.mark.parametrize("strata", [(), ("A",)])
def test_a_round_of_gem_can_be_read_where_a_pair_is_called_readable(strata):
    """A round is measured even if it is pure noise, but a pair is planned as readable only for half of this noise."""
    plan, table = planned("gem", 3000, 1.0, strata)
    bought = plan.smallest_rho()
    for rho in {price for price in bought.values() if price}:
        for part in (1, 1.5, 4, 50):
            _, log = plan.mechanism.measure_with_log(table, rho * part, NoNoise())
            least = {pair for pair, price in bought.items() if price and price <= rho}
            sigma = next(step.sigma for step in log if step.selection)
            cells = max(table.schema[a].size * table.schema[b].size for a, b in least)
            assert sqrt(2 / pi) * sigma * cells <= 3000 / 2
    assert plan.limit == 0.25


def test_errors_are_over_the_rows_of_a_levels_group():
    plan, _ = planned("mst", 8000, 0.01, ("A", "B"))
    floors = dict.fromkeys(plan.mechanism.levels.offered, 100.0)
    rows = dict(plan.sizes)
    key = next(iter(rows))
    assert plan.errors(floors, key) == {
        (): pytest.approx(50 / 8000),
        ("A",): pytest.approx(50 / sum(size for other, size in rows.items() if other[0] == key[0])),
        ("B",): pytest.approx(50 / sum(size for other, size in rows.items() if other[1] == key[1])),
        ("A", "B"): pytest.approx(50 / rows[key]),
    }
    assert plan.limit == 0.25
    assert plan.finest({(): 0.1, ("A",): 0.2, ("B",): 0.15, ("A", "B"): 0.3}) == ("B",)
    assert plan.finest({(): 0.3}) is None
    empty = NoisePlan(plan.mechanism, plan.strata, {**rows, key: 0}, Rho(0.01))
    assert ("A", "B") not in empty.errors(floors, key)


def test_sizes_of_strata_are_paid_from_the_synthesis():
    plan, _ = planned("mst", 5000, 0.01, ("A",))
    less = NoisePlan(plan.mechanism, plan.strata, plan.sizes, Rho(0.01), count_share=0.19)
    for level, floor in plan.one_way((0,)).items():
        assert less.one_way((0,))[level] == pytest.approx(floor / 0.9)


def test_wide_columns_have_merged_codes_in_pairs():
    plan, _ = planned("mst", 4000, 0.001, sizes=(100, 100, 2))
    merged = planned("mst", 4000, 0.001, sizes=(10, 10, 2))[0]
    assert plan.two_way(())[()] < 10 * merged.two_way(())[()]
    assert plan.one_way(())[()] > 5 * merged.one_way(())[()] / 2


def test_the_least_price_of_wide_columns_is_found_without_overflow():
    """Regression test: if the counts are uniform, a ratio to the noise was too large for a float."""
    plan, _ = planned("mst", 3000, 0.001, ("C",), sizes=(100, 60, 5, 5, 5, 5))
    assert all(plan.smallest_rho().values())


def test_what_has_no_plan_is_refused():
    strata = Strata.over(schema_of(*SIZES), ("A",))
    with pytest.raises(InputError, match="cannot be planned; choose mst, aim or gem"):
        planned_mechanism(SmartNoise(), strata)
    wide = Schema("wide", tuple(Column(name, values=tuple(range(200))) for name in "ABC"))
    with pytest.raises(InputError, match="plan one stratum at a time"):
        planned_mechanism(MST(), Strata.over(wide, ("A",)))
    one = Strata.over(schema_of(3), ())
    alone = NoisePlan(planned_mechanism(MST(), one), one, {(): 100}, Rho(0.1))
    assert (alone.choices, alone.two_way(()), alone.smallest_rho()) == (0, {}, {})
