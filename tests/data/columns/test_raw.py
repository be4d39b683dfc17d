"""What a raw cell is: a table of cases."""

from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.columns.cells import read_numbers, value_codes
from equistrata.data.columns.column import Column
from equistrata.data.columns.raw import (
    UNREADABLE,
    Values,
    distinct_cells,
    doubles,
    exact_number,
    number_in,
    numbers_of,
    read_cell,
)

CODES = Column("x", values=(0, 1, 10, 0.5, 9007199254740993, -3))
TEXTS = Column("x", values=("1", "01", "True", "NA", "2024-01-01", "10", "other"))
UNKNOWN = None
ZONED = pd.Timestamp("2024-01-01", tz="Asia/Tokyo")

# The cell, the value in a numeric column, the value in CODES and the value in TEXTS.
CASES = [
    (1, 1.0, 1, "1"),
    (1.0, 1.0, 1, "1"),
    (np.int8(1), 1.0, 1, "1"),
    (np.float32(0.5), 0.5, 0.5, UNKNOWN),
    (Decimal("1.00"), 1.0, 1, "1"),
    ("1", 1.0, 1, "1"),
    (" 1 ", 1.0, 1, "1"),
    ("+1", 1.0, 1, "1"),
    ("1.", 1.0, 1, "1"),
    ("1.0", 1.0, 1, "1"),
    (".5", 0.5, 0.5, UNKNOWN),
    ("-3", -3.0, -3, UNKNOWN),
    ("01", 1.0, UNKNOWN, "01"),
    ("010", 10.0, UNKNOWN, UNKNOWN),
    ("1e0", 1.0, UNKNOWN, UNKNOWN),
    ("1E1", 10.0, UNKNOWN, UNKNOWN),
    ("1_0", UNKNOWN, UNKNOWN, UNKNOWN),
    ("\u0661", UNKNOWN, UNKNOWN, UNKNOWN),  # the digit 1 in Arabic
    ("\uff11", UNKNOWN, UNKNOWN, UNKNOWN),  # the full-width digit 1
    ("\u00a01", UNKNOWN, UNKNOWN, UNKNOWN),
    ("0x1", UNKNOWN, UNKNOWN, UNKNOWN),
    ("1,0", UNKNOWN, UNKNOWN, UNKNOWN),
    ("1 0", UNKNOWN, UNKNOWN, UNKNOWN),
    (".", UNKNOWN, UNKNOWN, UNKNOWN),
    ("-", UNKNOWN, UNKNOWN, UNKNOWN),
    ("--1", UNKNOWN, UNKNOWN, UNKNOWN),
    ("1e999", UNKNOWN, UNKNOWN, UNKNOWN),
    ("inf", UNKNOWN, UNKNOWN, UNKNOWN),
    ("nan", UNKNOWN, UNKNOWN, UNKNOWN),
    ("NA", UNKNOWN, UNKNOWN, "NA"),
    (True, UNKNOWN, UNKNOWN, "True"),
    (np.True_, UNKNOWN, UNKNOWN, "True"),
    (False, UNKNOWN, UNKNOWN, UNKNOWN),
    ("True", UNKNOWN, UNKNOWN, "True"),
    ("TRUE", UNKNOWN, UNKNOWN, UNKNOWN),
    ("true", UNKNOWN, UNKNOWN, UNKNOWN),
    (date(2024, 1, 1), UNKNOWN, UNKNOWN, "2024-01-01"),
    (datetime(2024, 1, 1), UNKNOWN, UNKNOWN, "2024-01-01"),
    (np.datetime64("2024-01-01"), UNKNOWN, UNKNOWN, "2024-01-01"),
    (datetime(2024, 1, 1, 1), UNKNOWN, UNKNOWN, UNKNOWN),
    (ZONED, UNKNOWN, UNKNOWN, UNKNOWN),
    (time(0, 1), UNKNOWN, UNKNOWN, UNKNOWN),
    (pd.Timedelta(1), UNKNOWN, UNKNOWN, UNKNOWN),
    (np.timedelta64(1, "ns"), UNKNOWN, UNKNOWN, UNKNOWN),
    (pd.Period("2024-01-01", "D"), UNKNOWN, UNKNOWN, UNKNOWN),
    (1 + 0j, UNKNOWN, UNKNOWN, UNKNOWN),
    (b"1", UNKNOWN, UNKNOWN, UNKNOWN),
    ([1], UNKNOWN, UNKNOWN, UNKNOWN),
    ({1: 1}, UNKNOWN, UNKNOWN, UNKNOWN),
    (9007199254740993, 2.0**53, 9007199254740993, UNKNOWN),
    ("9007199254740993", 2.0**53, 9007199254740993, UNKNOWN),
    (9007199254740992, 2.0**53, UNKNOWN, UNKNOWN),
    (2.0**53, 2.0**53, UNKNOWN, UNKNOWN),  # the number is equal to both
    (10**400, UNKNOWN, UNKNOWN, UNKNOWN),
    (float("inf"), UNKNOWN, UNKNOWN, UNKNOWN),
]


@pytest.mark.parametrize(("cell", "number", "code", "text"), CASES, ids=[repr(case[0]) for case in CASES])
def test_what_a_cell_is(cell, number, code, text):
    series = pd.Series([cell], dtype=object)
    assert number_in(cell) == number
    values, absent, _ = read_numbers(series, Column("x", lower=0, upper=1))
    assert (None if np.isnan(values[0]) else values[0]) == number
    assert not absent[0]
    for column, expected in ((CODES, code), (TEXTS, text)):
        codes, missing = value_codes(series, column)
        assert (None if codes[0] < 0 else column.values[codes[0]]) == expected
        assert not missing[0]


@pytest.mark.parametrize(
    "cell",
    [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN"), "", " ", "\t\n", "\u2003"],
)
def test_missing_cells(cell):
    assert read_cell(cell) is None
    assert value_codes(pd.Series([cell], dtype=object), CODES)[1].tolist() == [True]
    assert read_numbers(pd.Series([cell], dtype=object), Column("x"))[1].tolist() == [True]


def test_of_two_texts_of_one_number_neither_is_another_spelling_of_it():
    declared = Values([("1", 0), ("1.0", 1), ("2", 2)])
    assert [declared.find(cell) for cell in ("1", "1.0", 1, "1.00", "2.0")] == [0, 1, 0, None, 2]


def test_recoded_values_overrule_equal_ones():
    declared = Values([("1", "a"), ("2", "b")], [(1, "b"), ("03", "a")])
    assert [declared.find(cell) for cell in ("1", 1, 1.0, "1.0", "2", "03", "3", 3)] == ["b"] * 5 + ["a", None, None]


@given(
    st.lists(st.text("0123456789.eE+-_ \u0661", max_size=8) | st.floats(width=64).map(repr) | st.integers().map(str))
)
def test_many_texts_are_the_numbers_that_each_of_them_is(texts):
    found, missing = numbers_of(pd.Series(texts, dtype="str").array)
    alone = [number_in(text) for text in texts]
    assert [None if np.isnan(number) else number for number in found] == alone
    assert missing.tolist() == [not text.strip() for text in texts]


def test_categories_of_no_cell_are_no_cells_and_their_order_says_nothing():
    cells = pd.Series(pd.Categorical(["b", None, "a", "b"], categories=["x", "a", "b", "y"]))
    places, distinct = distinct_cells(cells)
    assert (places.tolist(), [*distinct]) == ([0, -1, 1, 0], ["b", "a"])


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32"])
def test_narrow_numbers_are_the_shortest_that_are_stored_so(kind):
    series = pd.Series([0.1, None, 2.5, 1e-4], dtype=kind)
    assert doubles(series)[[0, 2, 3]].tolist() == [0.1, 2.5, 1e-4]
    assert value_codes(series, Column("x", values=(0.1, 2.5, 1e-4)))[0][[0, 2, 3]].tolist() == [0, 1, 2]


def test_a_day_is_that_of_its_own_zone():
    column = Column("d", lower=0, upper=30_000, layout="%Y-%m-%d", also=("%Y-%m-%dT%H:%M:%SZ",))
    cells = [pd.Timestamp("2024-03-31T00:30", tz="Europe/Berlin"), "2024-03-31", "2024-03-31T23:59:59Z", "٢٠٢٤-03-31"]
    days, _, _ = read_numbers(pd.Series(cells, dtype=object), column)
    assert days[:3].tolist() == [19_813] * 3
    assert np.isnan(days[3])
    assert read_numbers(pd.Series(cells[:1]), column)[0].tolist() == [19_813]  # the column has a time zone


def test_what_cannot_be_read_exactly_is_no_other_value_either():
    column = Column("x", values=(1, 2), others=2)
    assert value_codes(pd.Series([7, "x", True, [1], 2.0**60], dtype=object), column)[0].tolist() == [1, 1, 1, -1, -1]
    assert read_cell([1]) is UNREADABLE
    assert exact_number("0" * 200) is None
