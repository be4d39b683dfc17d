"""Tests of the bins of numeric columns that are declared with bounds only."""

from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.columns.cells import encoded
from equistrata.data.columns.drawn import drawn_ends, drawn_numbers
from equistrata.data.columns.grid import FINE_BINS, Scale, fine_edges, scale_of
from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

BOUNDS = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(BOUNDS, st.sampled_from(get_args(Scale)), st.booleans())
def test_edges_ascend_from_bound_to_bound(bounds, scale, integer):
    edges = fine_edges(*bounds, scale, integer)
    assert edges[0] in (bounds[0], np.nextafter(bounds[0], -np.inf))
    assert edges[-1] == bounds[1]
    assert all(low < high for low, high in pairwise(edges))
    assert len(edges) <= (FINE_BINS if scale == "linear" else 2 * 1000) + 4


@given(BOUNDS, st.booleans())
def test_the_scale_that_follows_from_bounds_leaves_no_column_in_a_few_bins(bounds, integer):
    """Regression test for a column of dates in the form 20230101, in which all of the values were in the same bin."""
    edges = fine_edges(*bounds, scale_of(*bounds, integer), integer)
    assert len(edges) > min(100, bounds[1] - bounds[0] if integer else np.inf)


def test_real_numbers_agree_in_two_digits_on_a_logarithmic_scale_or_in_a_hundredth_of_the_range():
    edges = np.array(fine_edges(-3_000, 250_000, "logarithmic"))
    wide, near = np.diff(edges), np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
    assert wide.max() == 5000
    assert (wide <= np.maximum(0.1 * near, 1) + 1e-9).all()
    assert {-3000.0, -1100.0, -1.0, 0.0, 1.0, 99.0, 110.0, 9900.0, 100_000.0, 105_000.0} <= set(edges.tolist())
    assert {1050.0, 10_500.0, 101_000.0}.isdisjoint(edges.tolist())


ROUND = np.array([1_200.0, 34_000.0, 34_000.0, 87_000.0, 150_000.0])


@pytest.mark.parametrize("integer", [True, False])
def test_rounded_numbers_are_drawn_around_what_they_say(integer):
    """Regression test for bins that end at a multiple of 1,000, so that the sampled values are too small."""
    column = Column("x", lower=-5_000, upper=160_000, integer=integer, release="draw", scale="rounded")
    numbers = np.concatenate([np.repeat(ROUND, 2000), [0.0] * 50])
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    back = table.decode(np.random.default_rng(0))["x"].to_numpy()
    assert back[-50:].tolist() == [0.0] * 50
    drawn = back[:-50].reshape(-1, 2000).mean(1)
    assert drawn == pytest.approx(ROUND, rel=0.001 if not integer else 0.002)
    older = CodedTable.encode(
        pd.DataFrame({"x": ROUND}), Schema("one", (replace(column, scale="logarithmic"),))
    ).decode(np.random.default_rng(0))["x"]
    assert (older.to_numpy() < ROUND + 1).all()


@pytest.mark.parametrize("scale", ["logarithmic", "rounded"])
@pytest.mark.parametrize("bounds", [(-5_000, 1_000_000), (0, 250_000), (120, 90_000), (-700, -3)])
@pytest.mark.parametrize("integer", [True, False])
def test_every_number_is_in_a_bin_of_its_digits(bounds, scale, integer):
    rng = np.random.default_rng(0)
    numbers = np.append(rng.uniform(*bounds, 2000), bounds)
    numbers = np.rint(numbers) if integer else numbers
    column = Column("x", lower=bounds[0], upper=bounds[1], integer=integer, release="draw", scale=scale)
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    back = table.decode(rng)["x"].to_numpy()
    hundredth = (bounds[1] - bounds[0]) / 50 * (not integer)
    assert (np.abs(back - numbers) <= np.maximum(0.1 * np.abs(numbers) + 1, hundredth)).all()
    assert back.min() >= bounds[0]
    assert back.max() <= bounds[1]


@pytest.mark.parametrize("bounds", [(0, 99), (1, 999), (-20, 30), (-0.5, 4.5)])
def test_few_whole_numbers_have_a_bin_each_and_come_back(bounds):
    column = Column("x", lower=bounds[0], upper=bounds[1], integer=True, release="draw")
    numbers = np.arange(np.ceil(bounds[0]), np.floor(bounds[1]) + 1)
    assert column.size == len(numbers)
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    assert table.codes[:, 0].tolist() == list(range(len(numbers)))
    assert table.decode(np.random.default_rng(0))["x"].tolist() == numbers.tolist()
    assert [column.words(code) for code in column.keys] == [f"{int(number)}" for number in numbers]


@pytest.mark.parametrize("bounds", [(0, 200_000), (-50, 200_000), (-900, 0)])
def test_a_zero_of_real_numbers_stands_alone_on_a_logarithmic_scale(bounds):
    """Regression test for a column with many zeros, which were released as numbers between 0 and 200."""
    column = Column("x", lower=bounds[0], upper=bounds[1], release="draw", scale="logarithmic")
    numbers = np.array([bounds[0], 0.0, 0.0, bounds[1], np.sum(bounds) / 4])
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    zero = int(table.codes[1, 0])
    assert column.words(zero) == "0"
    for seed in range(5):
        back = table.decode(np.random.default_rng(seed))["x"].to_numpy()
        assert back[1:3].tolist() == [0, 0]
        assert (np.abs(back - numbers) <= 0.1 * np.abs(numbers) + 1).all()
        assert ((back == 0) == (table.codes[:, 0] == zero)).all()


@pytest.mark.parametrize(("decimals", "bins"), [(0, 91), (1, 901), (2, 902), (None, 902)])
def test_decimals_are_those_declared_and_no_bin_is_narrower_than_the_last(decimals, bins):
    """Regression test for a column with one decimal. The values must not have more than one decimal if they are
    released.
    """
    column = Column("x", lower=10, upper=100, release="draw", decimals=decimals)
    assert column.bins == bins
    numbers = np.append(np.random.default_rng(0).uniform(10, 100, 1000).round(1), [10.0, 10.1])
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    back = table.decode(np.random.default_rng(0))["x"].to_numpy()
    assert (back == back.round(3 if decimals is None else decimals)).all()
    assert (back == numbers).all() == (decimals == 1)
    assert (np.abs(back - numbers) <= (1 if decimals == 0 else 0.1)).all()


@pytest.mark.parametrize(
    ("declared", "numbers"),
    [
        ({"lower": 1, "upper": 5, "decimals": 1}, [1.0, 1.1, 5.0]),
        ({"lower": 0, "upper": 1, "decimals": 2, "scale": "linear"}, [0.0, 0.01, 1.0]),
        ({"lower": 1, "upper": 1000, "decimals": 1, "scale": "logarithmic"}, [1.0, 1.1, 9.9]),
    ],
)
def test_the_lower_bound_has_a_bin_as_narrow_as_all_others(declared, numbers):
    """Regression test for values that are equal to the lower bound. The values must not be changed."""
    column = Column("x", release="draw", **declared)
    table = CodedTable.encode(pd.DataFrame({"x": numbers * 50}), Schema("one", (column,)))
    assert table.decode(np.random.default_rng(0))["x"].tolist() == numbers * 50
    assert column.words(0) == f"{declared['lower']}"


def test_numbers_of_a_bin_are_drawn_alike():
    """Regression test for two values in the same bin. The probability of each of the values must be the same."""
    column = Column("x", lower=49, upper=51, decimals=3, release="draw")
    numbers = 50 + np.arange(1, 11).repeat(4000) / 1000
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    back = table.decode(np.random.default_rng(0))["x"].to_numpy()
    found, times = np.unique(back, return_counts=True)
    assert found.tolist() == np.unique(numbers.round(3)).tolist()
    assert (np.abs(times - 4000) < 6 * np.sqrt(4000)).all()
    assert back.mean() == pytest.approx(numbers.mean(), abs=1e-4)


@pytest.mark.parametrize("decimals", [3, None])
def test_no_draw_has_more_digits_than_a_number_may(decimals):
    """Regression test for the value -5e-324, which was released because there is no number between zero and the largest
    decimal below zero.
    """
    column = Column("x", lower=-20, upper=50, decimals=decimals, scale="logarithmic", release="draw")
    codes = np.arange(column.bins, dtype=np.uint16)[:, None].repeat(20, axis=0)
    back = CodedTable(codes, Schema("one", (column,))).decode(np.random.default_rng(0))["x"].to_numpy()
    assert (back == back.round(decimals or 6)).all()
    assert ((back == 0) <= ~np.signbit(back)).all()
    assert not any("e-" in column.words(code) for code in range(column.bins))


@pytest.mark.parametrize(
    "declared",
    [
        {"lower": 0, "upper": 1e6},
        {"lower": 0, "upper": 90_000, "integer": True},
        {"lower": 0, "upper": 120, "integer": True},
        {"lower": 10, "upper": 60, "decimals": 1},
        {"lower": -5, "upper": 500, "edges": [-5, 0, 500]},
    ],
)
def test_a_column_made_in_code_has_the_bins_of_one_in_a_file(declared):
    """If the scale is not given, the default must be the same as in a file. The default was 1,000 bins of equal width
    before 2026-11-25.
    """
    of_file = Schema.from_dict({"columns": {"x": declared}})["x"]
    in_code = {name: tuple(given) if isinstance(given, list) else given for name, given in declared.items()}
    assert Column("x", **in_code).cuts == of_file.cuts
    assert Column("x", **in_code).coding == of_file.coding | {"release": "value"}


def test_many_whole_numbers_agree_in_two_digits_and_zero_stands_alone():
    column = Column("x", lower=-20_000, upper=2_000_000, integer=True, release="draw", scale="logarithmic")
    numbers = np.array([-19_998, -1_234, -1, 0, 1, 98, 99, 100, 101, 110, 111, 40_000, 40_001, 1_999_999, 2_000_000])
    table = CodedTable.encode(pd.DataFrame({"x": numbers}), Schema("one", (column,)))
    for seed in range(20):
        back = table.decode(np.random.default_rng(seed))["x"].to_numpy()
        assert back[2:7].tolist() == [-1, 0, 1, 98, 99]
        assert (np.abs(back - numbers) <= 0.1 * np.abs(numbers)).all()
        assert column.lower <= back.min() <= back.max() <= column.upper
    words = [column.words(code) for code in table.codes[:, 0].tolist()]
    assert words[3] == "0"
    assert (words[8], words[9]) == ("101 to 110", "101 to 110")


@pytest.mark.parametrize(
    ("bounds", "width"), [((10, 60), 0.05), ((0, 1), 0.001), ((-3.7, 8.2), 0.02), ((0, 1e6), 1000)]
)
def test_real_numbers_have_bins_of_a_round_width(bounds, width):
    edges = np.array(fine_edges(*bounds, "linear"))
    assert np.diff(edges[1:-1]) == pytest.approx(width)
    assert edges[1:-1] / width == pytest.approx(np.rint(edges[1:-1] / width))
    assert (np.diff(edges) <= width * (1 + 1e-9)).all()


def test_bins_do_not_change_with_the_unit():
    for bounds in ((0, 250), (10, 60), (-2, 40)):
        thousands = (1000 * bounds[0], 1000 * bounds[1])
        assert scale_of(*bounds) == scale_of(*thousands)
        for scale in get_args(Scale):
            edges = np.array(fine_edges(*bounds, scale))
            assert edges * 1000 == pytest.approx(np.array(fine_edges(*thousands, scale)))


@given(
    st.sampled_from([(0, 99), (0, 200), (-20_000, 2_000_000), (0, 1), (5, 60), (-7, 13), (0, 1200)]),
    st.integers(-6, 6),
    st.sampled_from(get_args(Scale)),
)
def test_numbers_are_in_the_same_bins_in_another_unit(bounds, power, scale):
    """If the value is multiplied by 0.001, it can be larger than the upper bound because of rounding."""
    rows = np.unique(
        np.linspace(*bounds, 997).round(2).tolist()
        + list(range(int(bounds[0]), int(bounds[1]), 1 + int(bounds[1]) // 500))
    )
    found = []
    for unit in (1.0, 10.0**power):
        lower, upper = (unit * bound for bound in bounds)
        column = Column("X", lower=lower, upper=upper, scale=scale)
        found.append((column.bins, encoded(pd.Series(rows * unit), column)[0].tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("column", "number"),
    [
        (Column("X", lower=0, upper=1e12, integer=True, scale="rounded"), -9),
        (Column("X", lower=0, upper=1e10), -1),
        (Column("X", lower=0, upper=1e9, integer=True), 1_000_000_001),
    ],
)
def test_room_for_rounding_is_none_for_codes_beside_wide_bounds(column, number):
    """Regression test for a large tolerance. The value -9 was used as 0 because the difference is less than the
    tolerance.
    """
    with pytest.raises(InputError, match="outside its declared bounds"):
        encoded(pd.Series([number]), column)


def test_wide_bounds_keep_the_bins_near_zero():
    """Regression test for numbers that are less than a billionth of the range, which were in the same bin."""
    column = Column("X", lower=0, upper=1e12, integer=True, scale="logarithmic")
    assert column.cuts[:4] == (0.0, 0.5, 1.5, 2.5)
    assert encoded(pd.Series([1, 2, 1_000_000_000_000]), column)[0].tolist() == [1, 2, column.bins - 1]
    linear = Column("X", lower=0, upper=1e12, integer=True, scale="linear")
    assert encoded(pd.Series([1_000_000_000, 1_000_000_001]), linear)[0].tolist() == [1, 2]


def test_a_number_that_a_rule_cuts_off_is_not_drawn_beyond_the_cut():
    """The first number of the bin is 0.3, which is not greater than 0.3."""
    declared = "{X: {lower: 0, upper: 1, scale: logarithmic}, JOB: {values: [a, b]}}"
    text = f"columns: {declared}\nimpossible: [{{X: '>0.3', JOB: a}}]"
    schema = Schema.from_dict(yaml.safe_load(text))
    column = schema["X"]
    assert 0.3 in column.splits
    codes = np.full(200, column.cuts.index(0.3), dtype=np.uint16)
    table = CodedTable(np.column_stack([codes, np.ones(200, dtype=np.uint16)]), schema)
    drawn = table.decode(np.random.default_rng(1))["X"].to_numpy()
    assert (drawn > 0.3).all()


@pytest.mark.parametrize("integer", [True, False])
def test_rules_on_values_cut_fine_bins(integer):
    pay = f"{{lower: -500, upper: 100000, integer: {str(integer).lower()}}}"
    text = f"columns: {{PAY: {pay}, JOB: {{values: [no, yes]}}}}\nimpossible: [{{PAY: '>12345', JOB: 'no'}}]"
    schema = Schema.from_dict(yaml.safe_load(text.replace("[no, yes]", "['no', 'yes']")))
    assert schema["PAY"].fine
    (zero,) = schema.impossible
    (codes, _) = zero.codes
    table = CodedTable(np.array([[code, 1] for code in range(schema["PAY"].size)], dtype=np.uint16), schema)
    for seed in range(20):
        drawn = table.decode(np.random.default_rng(seed))["PAY"].to_numpy()
        assert ((drawn > 12345) == np.isin(np.arange(len(drawn)), codes)).all()
    assert CodedTable.encode(pd.DataFrame({"PAY": [12345, 12346], "JOB": ["no", "yes"]}), schema).codes[
        :, 0
    ].tolist() == [
        codes[0] - 1,
        codes[0],
    ]
    with pytest.raises(InputError, match="impossible"):
        CodedTable.encode(pd.DataFrame({"PAY": [12346], "JOB": ["no"]}), schema)


def test_bins_of_so_many_decimals_are_called_by_their_numbers():
    """The edges of the bins are halfway between two numbers, so the labels must not use the edges."""
    cost = Column("COST", lower=0, upper=5000, decimals=2, scale="rounded")
    words = [cost.words(key) for key in cost.keys]
    assert words[:3] + words[98:102] == ["0", "0.01", "0.02", "0.98", "0.99", "1 to 1.05", "1.06 to 1.15"]
    assert words[-2:] == ["4975.01 to 4999.99", "5000"]
    low, high = drawn_ends(cost)
    named = [tuple(map(float, (each.split(" to ") * 2)[:2])) for each in words]
    for (first, last), *ends in zip(named, low, high, strict=True):
        assert (first, last) == pytest.approx(ends)
    near = Column("BAL", lower=-5, upper=10**9, decimals=1, scale="rounded")
    assert [near.words(key) for key in near.keys[:4]] == ["-5", "-4.9 to -0.1", "0", "0.1 to 1500"]
    older = replace(cost, scale="logarithmic", bounds_apart=False)
    assert older.words(1) == "over 0 to 0.01"


LIMITS = [
    ({"lower": 45, "upper": 2000}, [45.0, 45.3, 800.25, 1999.5, 2000.0]),
    ({"lower": 45, "upper": 2000, "decimals": 1}, [45.0, 45.1, 800.3, 1999.9, 2000.0]),
    ({"lower": 45, "upper": 2000, "integer": True}, [45, 46, 800, 1999, 2000]),
    ({"lower": 44.5, "upper": 2000.2, "integer": True}, [45, 46, 800, 1999, 2000]),
    ({"lower": 0.021, "upper": 40.073, "decimals": 2, "scale": "linear"}, [0.03, 0.04, 8.0, 40.06, 40.07]),
    ({"lower": 0, "upper": 500_000}, [0.0, 0.25, 30_000.0, 499_999.0, 500_000.0]),
    ({"lower": 0, "upper": 500_000, "integer": True}, [0, 1, 30_000, 499_999, 500_000]),
    ({"lower": 0, "upper": 1, "scale": "linear"}, [0.0, 0.0004, 0.3, 0.9996, 1.0]),
    ({"lower": -273.15, "upper": 0}, [-273.15, -273.1, -20.0, -1e-4, 0.0]),
    ({"lower": 0.1234567, "upper": 3.7654321}, [0.1234567, 0.1235, 2.0, 3.765, 3.7654321]),
    (
        {"lower": 45, "upper": 2000, "integer": True, "missing": "own", "codes": {-9: "refused"}},
        [45, 46, 47, 1999, 2000],
    ),
]


@pytest.mark.parametrize(("declared", "numbers"), LIMITS)
def test_values_at_bounds_are_cells_of_their_own_and_come_back(declared, numbers):
    """Regression test for values that are equal to a limit of detection.

    The share of these rows was .8 % instead of 93 %, and 46 % for integers.
    """
    schema = Schema.from_dict({"columns": {"x": declared}})
    column = schema["x"]
    codes, _, _ = encoded(pd.Series(numbers), column)
    assert (codes[0], codes[-1]) == (0, column.bins - 1)
    assert ((codes[1:-1] > 0) & (codes[1:-1] < column.bins - 1)).all()
    assert (column.words(0), column.words(column.bins - 1)) == (f"{numbers[0]:g}", f"{numbers[-1]:g}")
    table = CodedTable(np.arange(column.bins, dtype=np.uint16)[:, None].repeat(20, axis=0), schema)
    for release in ("draw", "midpoint"):
        if release == "draw" or "decimals" not in declared:
            own = Schema("own", (replace(column, release=release),))
            back = CodedTable(table.codes, own).decode(np.random.default_rng(0))["x"].to_numpy(dtype=float)
            at = np.isin(back, [numbers[0], numbers[-1]])
            assert (at == np.isin(table.codes[:, 0], [0, column.bins - 1])).all()
            assert (encoded(pd.Series(back), own["x"])[0] == table.codes[:, 0]).all()
            low, high = drawn_ends(own["x"])
            assert (low[[0, -1]] == high[[0, -1]]).all()
            assert (drawn_numbers(own["x"])[[0, -1]] == [numbers[0], numbers[-1]]).all()


def test_no_other_column_has_cells_for_its_bounds():
    """The cases are whole numbers with one bin each, dates, declared edges, and schemas of earlier releases."""
    bounds = {"lower": 0, "upper": 99}
    dates_ = {"type": "date", "lower": "2020-01-01", "upper": "2024-12-31"}
    for declared in ({**bounds, "integer": True}, {**bounds, "edges": [0, 50, 99]}, dates_, {"values": [0, 1]}):
        column = Schema.from_dict({"columns": {"x": declared}})["x"]
        assert not column.bounds_apart
        assert "bounds_apart" not in column.coding
    older = replace(Column("x", **bounds), bounds_apart=False)
    assert older.cuts == fine_edges(0, 99, older.scale or "linear")
    with pytest.raises(InputError, match="unknown key 'bounds_apart'"):
        Schema.from_dict({"columns": {"x": {**bounds, "bounds_apart": False}}})


def test_a_bound_in_another_unit_is_the_bound():
    """Due to rounding, 0.7 · 0.1 is less than 0.07 and 9 · 0.001 is greater than 0.009."""
    for lower, upper, rows in ((0.07, 0.9, [0.7 * 0.1, 9 * 0.1]), (0.009, 0.07, [9 * 0.001, 0.7 * 0.1])):
        column = Column("x", lower=lower, upper=upper)
        assert encoded(pd.Series(rows), column)[0].tolist() == [0, column.bins - 1]


def test_rules_that_cut_at_a_bound_find_its_cell():
    columns = {"X": {"lower": 45, "upper": 2000}, "J": {"values": ["a", "b"]}}
    rules = [{"X": "45", "J": "a"}, {"X": ">=2000", "J": "b"}]
    schema = Schema.from_dict({"columns": columns, "impossible": rules})
    column = schema["X"]
    assert (column.splits, column.bins) == ((), Column("X", lower=45, upper=2000).bins)
    assert [zero.codes[0] for zero in schema.impossible] == [(0,), (column.bins - 1,)]
    CodedTable.encode(pd.DataFrame({"X": [45.5, 1999.5], "J": ["a", "b"]}), schema)
    for x, j in ((45, "a"), (2000, "b")):
        with pytest.raises(InputError, match="impossible"):
            CodedTable.encode(pd.DataFrame({"X": [x], "J": [j]}), schema)
