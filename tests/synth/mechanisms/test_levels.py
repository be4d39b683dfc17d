"""Tests of the levels: the measurements, and the models of the strata that are computed from
measurements of all rows.
"""

from dataclasses import replace

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.synth.measurements import FilteredMeasurement, Measurement, Prediction, join_level_columns
from equistrata.synth.mechanisms.levels import COARSE_SHARE, LOW_NOISE, NOISE_FLOOR, SIZES_SHARE, Levels, largest_share
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent, stratum_cliques
from equistrata.synth.strata.cutting import (
    _sizes,
    cut,
    fit_to_stratum_sizes,
    predictions,
    slices,
    split_by_strata,
)

SCHEMA = Schema(
    "small",
    (
        Column("A", values=(0, 1, 2)),
        Column("S", values=(1, 2)),
        Column("B", values=(0, 1)),
        Column("R", values=("x", "y")),
    ),
)
STRATA = Strata.over(SCHEMA, ("R", "S"))  # the order is different from the schema
KEYS = (("x", 1), ("x", 2), ("y", 1), ("y", 2))
SIZES = dict(zip(KEYS, (40.0, 30.0, 20.0, 10.0), strict=True))
ENGINE = MirrorDescent(iterations=2000, tolerance=1e-9)


def table_of(rows, seed=0, schema=SCHEMA):
    codes = np.random.default_rng(seed).integers(0, schema.sizes, (rows, 4)).astype(np.uint8)
    for zero in schema.impossible:
        codes = codes[~schema.zero_mask(zero)[tuple(codes[:, schema.index(n)] for n in zero.columns)]]
    return CodedTable(codes, schema)


def exact(table, *groups, sigma=1.0):
    return [Measurement(tuple(names), table.marginal(names).astype(float), sigma) for names in groups]


@pytest.mark.parametrize(
    ("levels", "offered"),
    [
        (Levels(("R", "S")), ((), ("R",), ("S",), ("R", "S"))),
        (Levels(("S",)), ((), ("S",))),
        (Levels(("R", "S"), coarse=False), (("R", "S"),)),
        (Levels(("R", "S"), fine=False), ((),)),
        (Levels(), ((),)),
        (Levels(("A", "R", "S")), ((), ("A",), ("R",), ("S",), ("A", "R", "S"))),
    ],
)
def test_the_levels_that_are_offered(levels, offered):
    assert levels.offered == offered


def test_levels_need_columns_and_something_to_measure():
    for bad in ({"strata": (), "fine": False}, {"strata": ("S",), "coarse": False, "fine": False}):
        with pytest.raises(ValueError, match="coarse, fine or both"):
            Levels(**bad)
    for bad in (0.0, 0.99, -1.0, float("nan")):
        for name in ("columns", "low_noise", "alone"):
            with pytest.raises(ValueError, match="columns"):
                Levels(("S",), **{name: bad})


def test_mst_keeps_a_part_of_rho_for_pairs():
    for levels in (Levels(("S",), columns=0.7, low_noise=0.85), Levels(("S",), columns=0.85, low_noise=0.7)):
        assert levels.first_share == pytest.approx(0.85 + COARSE_SHARE + SIZES_SHARE)
        assert MST(levels=levels, choice=0.09).choice == 0.09
        for bad in (0.0, 0.1, -0.1, float("nan")):
            with pytest.raises(ValueError, match="leaves some"):
                MST(levels=levels, choice=bad)


def test_what_is_measured_first_and_for_which_part():
    singles = [((name,), COARSE_SHARE / 4) for name in "ASBR"]
    again = [((name,), (0.2 - COARSE_SHARE) / 4) for name in "ASBR"]
    sizes, fine = (("S", "R"), SIZES_SHARE), [(("A", "S", "R"), 0.2), (("S", "B", "R"), 0.2)]
    for levels, first, second in (
        (Levels(("R", "S"), columns=0.4), singles, [sizes, *fine]),
        (Levels(("R", "S"), coarse=False, columns=0.4), [], fine),
        (Levels(("R", "S"), fine=False), singles, [sizes, *again]),
        (Levels(("S",), fine=False), singles, again),  # the sizes are already known
        (Levels(("S",), fine=False, alone=COARSE_SHARE), singles, []),
        # With a single level, each column is measured for all rows.
        (Levels(columns=0.4), [], [((name,), 0.1) for name in "ASBR"]),
    ):
        assert levels.over_all(SCHEMA) == first
        assert levels.within_strata(SCHEMA, Rho(0.001), 10_000) == second
    assert Levels(("S",)).inner(SCHEMA) == ("A", "B", "R")
    assert join_level_columns(SCHEMA, ("B", "A"), ("R", "S")) == ("A", "S", "B", "R")
    assert stratum_cliques(SCHEMA, ("R", "S")) == [("A", "S", "R"), ("S", "B", "R")]


def test_columns_are_not_measured_within_strata_where_noise_would_drown_them():
    """The number of cells over all strata is 12 and 8 for the two columns. The share of ρ is 0.2 for each column, so
    the mean of the noise is 10·√(2/π)/√(2·0.2·ρ).

    If there are two stratum columns with two values, the number of cells of the coarser levels is the same as the
    number of strata. If there are four of these columns, it is half of the number of strata.
    """
    levels, rho = Levels(("R", "S"), columns=0.4), Rho(0.5)
    noise = 10 * (2 / np.pi) ** 0.5 / 0.2**0.5
    assert len(levels.within_strata(SCHEMA, rho, noise / NOISE_FLOOR * 1.001)) == 3
    beyond = levels.within_strata(SCHEMA, rho, noise / NOISE_FLOOR * 0.999)
    assert [columns for columns, _ in beyond] == [(name,) for name in SCHEMA.names]
    assert len(replace(levels, coarse=False).within_strata(SCHEMA, rho, 0.0)) == 2  # nothing else can be measured


def test_sizes_are_not_measured_where_their_noise_floor_is_higher_than_asked():
    """The noise of the four sizes is 4·√(2/π)/√(0.04·ρ), because the share of ρ is 0.02. The noise of the columns is
    larger than the limit.
    """
    levels, rho = Levels(("R", "S"), columns=1e-9, low_noise=1e-9, alone=0.5, sizes_noise=0.25), Rho(0.5)
    rows = 4 * (2 / np.pi) ** 0.5 / (0.04 * 0.5) ** 0.5 / 0.25
    for factor, there in ((1.001, True), (0.999, False)):
        found = [columns for columns, _ in levels.within_strata(SCHEMA, rho, rows * factor)]
        assert (("S", "R") in found) == there
        found = [c for c, _ in replace(levels, sizes_noise=np.inf).within_strata(SCHEMA, rho, rows * factor)]
        assert ("S", "R") in found


def test_columns_within_strata_get_more_where_a_cell_has_little_noise():
    """The noise scale of each of the two columns is σ = 1/√(2·0.2·ρ) rows, because the share of ρ is 0.2."""
    levels, rho = Levels(("R", "S"), columns=0.4, low_noise=0.6), 1 / (2 * 0.2 * LOW_NOISE**2)
    for factor, share in ((0.999, 0.4), (1.001, 0.6)):
        parts = dict(levels.within_strata(SCHEMA, Rho(rho * factor), 10_000))
        assert parts[("A", "S", "R")] == parts[("S", "B", "R")] == pytest.approx(share / 2)


def test_beyond_the_most_columns_none_is_measured_within_strata():
    schema = Schema("many", tuple(Column(name, values=(0, 1)) for name in "SABCDEFGH"))
    within = [
        [columns for columns, _ in Levels(("S",), most=most).within_strata(schema, Rho(0.1), 1e6) if len(columns) > 1]
        for most in (8, 7)
    ]
    assert [len(found) for found in within] == [8, 0]
    alone = Levels(("S",), coarse=False, most=7).within_strata(schema, Rho(0.1), 1e6)  # there is no other level
    assert all(len(columns) == 2 for columns, _ in alone)


def test_columns_within_strata_get_less_where_there_are_many():
    """The share decreases with the square of the number of columns, because n² / 2 pairs must be measured."""
    schema = Schema("many", tuple(Column(name, values=(0, 1)) for name in "SABCDEFGH"))
    levels = Levels(("S",), many=4)

    def part(columns):
        within = levels.within_strata(schema.select(("S", *columns)), Rho(0.001), 1e6)
        return sum(share for _, share in within)

    assert part("ABC") == part("ABCD") == pytest.approx(levels.columns)
    assert part("ABCDEFGH") == pytest.approx(levels.columns / 4)


def test_columns_within_strata_get_more_where_they_say_more_of_the_workload():
    """The share must be larger if there are more sets of three columns with at most one column that is not a stratum.

    For example, there are 120 sets if there are ten columns, and 40 of the sets contain at most one other column if
    there are four strata. The odds of the share are then twice as large. They are relative to the value of 8/7 for two
    strata and ten columns, which was used to tune the shares. If there are fewer strata, or if the share is above
    `largest`, it is not increased.
    """
    schema = Schema("many", tuple(Column(name, values=(0, 1)) for name in "STUVABCDEF"))
    for strata, settled in (("S", 0.0), ("ST", 8 / 120), ("STU", 22 / 120), ("STUV", 40 / 120)):
        levels = Levels(tuple(strata), columns=0.45, largest=0.7)
        assert levels.settled(schema) == pytest.approx(settled)
        odds = 0.45 / 0.55 * max(1.0, (1 + settled) / (1 - settled) / (8 / 7))
        for each, part in (
            (levels, odds / (1 + odds)),
            (replace(levels, largest=0.47), min(odds / (1 + odds), 0.47)),
            (replace(levels, columns=0.72), 0.72),
            (replace(levels, largest=0.0), 0.45),
        ):
            within = each.within_strata(schema, Rho(0.0005), 1e9)
            assert sum(share for columns, share in within if not set(columns) <= set(strata)) == pytest.approx(part)
    assert Levels(("S",)).settled(Schema("two", (SCHEMA["S"], SCHEMA["A"]))) == 1.0


def test_a_large_part_for_choices_leaves_columns_within_strata_less_to_grow():
    for choice in (0.05, 0.1, 0.3):
        levels = MST(choice=choice).with_levels(("R", "S"), True, True).levels
        assert levels.largest == largest_share(choice) == pytest.approx(0.9 * (0.95 - choice))
        assert levels.largest + COARSE_SHARE + SIZES_SHARE + choice < 1
    assert largest_share(0.99) == 0.0


def test_rounds_model_sums_of_sizes_below_their_noise_floor():
    """The noise of four sizes is 4·√(2/π)·σ, which is a quarter of 1,000 rows for σ = 78.3."""
    levels = Levels(("R", "S"))
    values, column = np.array([[100.0, 200.0], [300.0, 400.0]]), Measurement(("A",), np.array([1000.0]), 1e-3)
    kept, cut = (Measurement(("R", "S"), values, sigma) for sigma in (78.0, 79.0))
    assert levels.modelled([column, kept]) == [column, kept]
    first, *sums = levels.modelled([column, cut])
    assert first is column
    assert [(m.columns, m.values.tolist()) for m in sums] == [(("R",), [300.0, 700.0]), (("S",), [400.0, 600.0])]
    assert [m.sigma for m in sums] == pytest.approx([79 * 2**0.5] * 2)
    assert Levels().modelled([cut]) == [cut]
    assert levels.modelled([column, cut, cut]) == [column, cut, cut]  # the noise of both together is 79/√2
    public = Measurement(("R", "S"), values, 0.0)
    assert levels.modelled([column, public]) == [column, public]


def test_slices_are_the_strata_s_own_marginals():
    table = table_of(500)
    found = slices(
        exact(table, ("R", "S"), ("A",), ("A", "S"), ("A", "S", "R"), ("A", "S", "B", "R"), sigma=3.0), STRATA
    )
    for key, part in STRATA.partition(table).items():
        assert [m.columns for m in found[key]] == [(), ("A",), ("A", "B")]
        for measurement in found[key]:
            assert measurement.sigma == 3.0
            np.testing.assert_array_equal(measurement.values, part.marginal(measurement.columns))


def test_settled_measurements_sum_to_the_sizes_they_tell_and_change_as_little_as_can_be():
    rng = np.random.default_rng(1)
    given = [
        Measurement(names, rng.normal(10, 5, [SCHEMA[n].size for n in names]), 2.0)
        for names in (("R", "S"), ("A",), ("A", "S"), ("A", "S", "B", "R"), ("B", "R"))
    ]
    settled = fit_to_stratum_sizes(given, STRATA, SIZES)
    np.testing.assert_allclose(settled[0].values, [[40, 30], [20, 10]])
    assert settled[1].values.sum() == pytest.approx(100)
    np.testing.assert_allclose(settled[2].values.sum(0), [60, 40])
    np.testing.assert_allclose(settled[3].values.sum((0, 2)), [[40, 20], [30, 10]])  # S by R
    np.testing.assert_allclose(settled[4].values.sum(0), [70, 30])
    # In least squares, all cells of a sum change by the same amount.
    np.testing.assert_allclose(np.ptp(settled[2].values - given[2].values, axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.ptp(settled[3].values - given[3].values, axis=(0, 2)), 0, atol=1e-9)
    assert [(m.columns, m.sigma) for m in settled] == [(m.columns, m.sigma) for m in given]
    again = fit_to_stratum_sizes(settled, STRATA, SIZES)
    for one, two in zip(settled, again, strict=True):
        np.testing.assert_allclose(one.values, two.values)


def test_predictions_put_each_stratum_in_its_place_and_say_nothing_of_the_others():
    extras = {key: [] for key in KEYS}
    extras["x", 2] = [Measurement(("A",), np.array([1.0, 2.0, 3.0]), 0.5)]
    extras["y", 1] = [
        Measurement(("A",), np.array([4.0, 5.0, 6.0]), 2.0),
        Measurement(("A", "B"), np.ones((3, 2)), 3.0),
    ]
    single, pair = predictions(extras, STRATA, sharpest=1.0)
    assert (single.columns, pair.columns) == (("A", "S", "R"), ("A", "S", "B", "R"))
    np.testing.assert_array_equal(single.values[:, 1, 0], [1, 2, 3])
    np.testing.assert_array_equal(single.values[:, 0, 1], [4, 5, 6])
    assert single.sigma == 1.0  # the value 0.5 is smaller than allowed
    np.testing.assert_array_equal(single.cell_sigma[0], [[np.inf, 2.0], [1.0, np.inf]])
    np.testing.assert_array_equal(np.isfinite(pair.cell_sigma)[0, :, 0], [[False, True], [False, False]])
    assert predictions({key: [] for key in KEYS}, STRATA) == []
    sharp = FilteredMeasurement(("A",), np.array([1.0, 2.0, 3.0]), 2.0, sigmas=np.array([0.5, 2.0, 3.0]))
    [cells] = predictions({**extras, ("x", 2): [sharp], ("y", 1): []}, STRATA, sharpest=1.0)
    np.testing.assert_array_equal(cells.cell_sigma[:, 1, 0], [1.0, 2.0, 3.0])  # each cell has its own noise scale


@pytest.mark.parametrize(
    "impossible", [(), (Impossible(("S", "R"), ((1,), (1,))), Impossible(("A", "B"), ((0,), (1,))))]
)
@pytest.mark.parametrize(
    "names",
    [
        (("A", "B"), ("A", "S"), *stratum_cliques(SCHEMA, STRATA.columns)),
        (("A", "S"), ("S", "R"), ("B",)),
        (("S", "R"), ("A",), ("B",)),
        (("A", "S"), ("A", "B"), ("B", "R")),
    ],
)
def test_a_model_of_all_rows_is_one_of_each_stratum(names, impossible):
    schema = replace(SCHEMA, impossible=impossible)
    strata, table = Strata.over(schema, STRATA.columns), table_of(4000, 3, schema)
    model = ENGINE.estimate(schema, exact(table, *names))
    share = model.marginal(strata.columns)
    sizes = {key: float(share[tuple(strata.codes_of(key).values())]) for key in strata.keys}
    models = split_by_strata(model, strata, sizes)
    assert list(models) == list(strata.keys)
    assert len(models) == 4 - bool(impossible)
    for columns in (("A",), ("B",), ("A", "B"), ("B", "A")):
        whole = model.marginal([*columns, *strata.columns])
        for key, part in models.items():
            np.testing.assert_allclose(part.marginal(columns), whole[(..., *strata.codes_of(key).values())], atol=1e-6)
            assert part.schema == strata.rest(key)
            assert part.total == sizes[key]


@pytest.mark.parametrize("shrinkage", [True, False])
def test_exact_measurements_are_cut_into_exact_strata(shrinkage):
    table = table_of(20_000, 4)
    models, sizes = cut(
        STRATA, exact(table, ("R", "S"), ("A", "S", "R"), ("A", "S", "B", "R"), ("B",), sigma=2.0), ENGINE, shrinkage
    )
    for key, part in STRATA.partition(table).items():
        assert sizes[key] == pytest.approx(len(part), abs=2)
        np.testing.assert_allclose(models[key].marginal(("A", "B")), part.marginal(("A", "B")), atol=6)
    total = sum(model.marginal(("A", "B")) for model in models.values())
    np.testing.assert_allclose(total, table.marginal(("A", "B")), atol=12)


def test_sizes_join_all_levels_and_none_is_nothing():
    """The number of rows by S is also measured by A × S, and no stratum is removed.

    The sum of the strata with S = 2 is measured as 0, with a standard deviation of 0.87. The sum of their sizes must be
    at most a quarter of the standard deviation.
    """
    told = [
        Measurement(("R", "S"), np.array([[900.0, -50.0], [100.0, 50.0]]), 10.0),
        *[Measurement(("A", "S"), np.array([[400.0, 0.0], [400, 0], [200, 0]]), 0.5)],
    ]
    _, sizes = cut(STRATA, told, ENGINE)
    assert sizes["x", 1] + sizes["y", 1] == pytest.approx(1000, rel=0.02)
    for race in ("x", "y"):
        assert 0.05 < sizes[race, 2] < 0.5


def test_sizes_are_estimated_without_relations_of_other_columns():
    """These relations would make the model as large as the model of the release, and have little information about the
    sizes.
    """
    seen = []

    class Watched(MirrorDescent):
        def estimate(self, schema, measurements, warm_start=None):
            seen.append({each.columns for each in measurements})
            return super().estimate(schema, measurements, warm_start)

    table = table_of(5000)
    told = exact(table, ("A",), ("A", "B"), ("A", "R", "S"), ("A", "B", "R", "S"), ("A", "B", "S"))
    assert _sizes(STRATA, told, Watched(), True) == pytest.approx(
        {key: len(part) for key, part in STRATA.partition(table).items()}, rel=0.02
    )
    assert seen == [{("A",), (), ("A", "R", "S"), ("R", "S"), ("S",)}]


def test_least_sizes_do_not_fill_a_value_that_is_known_to_be_rare():
    """There are a hundred strata, and the standard deviation of the noise is 40. One of the values of R has 4 rows with
    a noise of 8.

    If the minimum size of a stratum were five rows, there would be 50 rows for this value.
    """
    ten = tuple(range(10))
    schema = Schema("wide", (Column("R", values=ten), Column("S", values=ten), Column("A", values=(0, 1))))
    by_r = np.array([4.0, *[1111.0] * 9])
    noisy = np.outer(by_r, np.full(10, 0.1)) + np.random.default_rng(3).normal(0, 40, (10, 10))
    told = [Measurement(("R", "S"), noisy, 40.0), Measurement(("R",), by_r, 8.0)]
    strata = Strata.over(schema, ("R", "S"))
    sizes = _sizes(strata, told, ENGINE, True)
    assert min(sizes.values()) > 0
    assert sum(size for (r, _), size in sizes.items() if r == 0) < 15


def test_a_level_is_reached_once_a_column_was_measured_within_strata():
    levels, size = Levels(("R", "S")), Measurement(("S", "R"), np.zeros((2, 2)), 1.0)
    column = Measurement(("A", "S", "R"), np.zeros((3, 2, 2)), 1.0)
    assert levels.reached([size, column]) == levels
    assert levels.reached([size]) == replace(levels, fine=False)
    assert Levels().reached([]) == Levels()
    assert replace(levels, coarse=False).reached([]).fine  # there is no other level


class Sure(MirrorDescent):
    """An engine that returns models in which R is always x."""

    def estimate(self, schema, measurements, warm_start=None):
        model = super().estimate(schema, measurements, warm_start)
        return model.tilted({"R": np.array([1.0, 0.0])})[0] if "R" in schema.names else model


@pytest.mark.parametrize("own", [True, False])
def test_a_stratum_that_noise_leaves_out_is_modelled_by_itself(own):
    """In the model of all rows, all rows are in the stratum with the largest noise."""
    rng = np.random.default_rng(0)
    names = [("A", "S", "R"), ("S", "B", "R")] if own else [("A",), ("S",), ("B",), ("R",)]
    told = [Measurement(n, rng.normal(0, 1000, [SCHEMA[c].size for c in n]), 1000.0) for n in names]
    assert len(split_by_strata(Sure().estimate(SCHEMA, told), STRATA, SIZES)) < 4, "the case is not what it says"
    models, sizes = cut(STRATA, told, Sure())
    assert list(models) == list(KEYS)
    for key, model in models.items():
        assert sizes[key] > 0
        assert model.total == sizes[key]
        assert len(model.sample(50, rng)) == 50
        assert model.marginal(("A",)).sum() == pytest.approx(model.total)


def test_a_prediction_tells_no_number_of_rows_and_weighs_by_cell():
    """A cell with a precise prediction must follow the prediction, and a cell without a prediction must follow the
    measurement.
    """
    measured = Measurement(("A",), np.array([100.0, 100.0, 100.0]), 10.0)
    sharp = Prediction(("A",), np.array([160.0, 0.0, 0.0]), 0.1, sigmas=np.array([0.1, np.inf, np.inf]))
    model = ENGINE.estimate(SCHEMA.select(("A", "B")), [measured, sharp])
    assert model.total == 300
    np.testing.assert_allclose(model.marginal(("A",)), [160, 70, 70], atol=0.5)
