"""The numbers that codes stand for."""

import numpy as np
import pytest

from equistrata.analysis.questions import code_numbers, cumulative, question
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError


@pytest.mark.parametrize("bounds", [(35, 42), (0, 42)])
def test_a_bin_of_one_number_stands_for_that_number(bounds):
    """Temperatures of one decimal were taken for the middle of a bin, 36.75 for 36.8: each mean was .05 too low."""
    column = Column("TEMP", lower=bounds[0], upper=bounds[1], release="draw", decimals=1, scale="linear")
    values, spread = code_numbers(column)
    expected = np.round(np.arange(bounds[0] * 10, bounds[1] * 10 + 1) / 10, 1)
    np.testing.assert_allclose(values, expected)
    assert not spread.any()


def test_a_bin_of_several_stands_for_their_middle_and_one_of_any_number_for_its_own():
    values, spread = code_numbers(Column("X", lower=0, upper=10_000, release="draw", decimals=0, scale="linear"))
    assert (values[2], spread[2]) == (15.5, 1.5)  # 11 to 20; the bound 0 has a bin of its own
    values, spread = code_numbers(Column("X", lower=0, upper=10, release="draw", scale="linear"))
    assert values[2] == pytest.approx(0.015)
    assert spread[2] == pytest.approx(0.01 / 6)


def test_a_condition_as_the_command_takes_it_is_named():
    schema = Schema("one", (Column("DX", values=("I10", "J45")),))
    with pytest.raises(InputError, match=r"for the rows with that value write \{'DX': 'I10'\}"):
        question(schema, "proportion", "DX=I10")
    with pytest.raises(InputError, match="no column 'DY=I10'"):
        question(schema, "proportion", "DY=I10")


def test_means_and_quantiles_of_dates_say_what_can_be_asked():
    """Of a quantile it had been "name a column of numbers", which one was."""
    columns = {"D": {"type": "date", "lower": "2000-01-01", "upper": "2001-12-31", "every": "month"}}
    schema = Schema.from_dict({"columns": columns})
    for asked in (lambda: code_numbers(schema["D"]), lambda: cumulative(schema, "D", (), None)):
        with pytest.raises(InputError, match="'D' has dates; ask for the proportion of each of its periods"):
            asked()


def test_a_mean_of_nominal_numbers_is_refused_as_they_are_names():
    """Of an item with -9 (refused) among its values the mean was 1.97, where answers from 1 to 5 have 3.0."""
    values = {"values": [-9, 1, 2, 3, 4, 5]}
    for more, allowed in (({}, False), ({"type": "ordinal"}, True), ({"values": [0, 1]}, True)):
        schema = Schema.from_dict({"columns": {"Q": values | more}})
        if allowed:
            assert question(schema, "mean", "Q").bottom.shape == (1, len(schema["Q"].values))
        else:
            with pytest.raises(InputError, match=r"column 'Q' is nominal, so its numbers are names, as codes"):
                question(schema, "mean", "Q")
