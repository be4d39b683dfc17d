"""Tests of the numbers that are used for the codes of a column."""

import numpy as np
import pytest

from equistrata.analysis.questions import code_numbers, cumulative, question
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError


@pytest.mark.parametrize("bounds", [(35, 42), (0, 42)])
def test_a_bin_of_one_number_stands_for_that_number(bounds):
    """Regression test for the mean of a number with one decimal, which was too small because the middle of a bin was
    used.
    """
    column = Column("TEMP", lower=bounds[0], upper=bounds[1], release="draw", decimals=1, scale="linear")
    values, spread = code_numbers(column)
    expected = np.round(np.arange(bounds[0] * 10, bounds[1] * 10 + 1) / 10, 1)
    np.testing.assert_allclose(values, expected)
    assert not spread.any()


def test_a_bin_of_several_stands_for_their_middle_and_one_of_any_number_for_its_own():
    values, spread = code_numbers(Column("X", lower=0, upper=10_000, release="draw", decimals=0, scale="linear"))
    # The bin contains 11 to 20, because the first bin contains only the bound 0.
    assert (values[2], spread[2]) == (15.5, 1.5)
    values, spread = code_numbers(Column("X", lower=0, upper=10, release="draw", scale="linear"))
    assert values[2] == pytest.approx(0.015)
    assert spread[2] == pytest.approx(0.01 / 6)


def test_a_condition_as_the_command_takes_it_is_named():
    schema = Schema("one", (Column("DX", values=("I10", "J45")),))
    with pytest.raises(InputError, match=r"for rows with this value, write \{'DX': 'I10'\}"):
        question(schema, "proportion", "DX=I10")
    with pytest.raises(InputError, match="no column 'DY=I10'"):
        question(schema, "proportion", "DY=I10")


def test_means_and_quantiles_of_dates_say_what_can_be_asked():
    """Regression test: the error for a quantile asked for a column of numbers, which is wrong for dates."""
    columns = {"D": {"type": "date", "lower": "2000-01-01", "upper": "2001-12-31", "every": "month"}}
    schema = Schema.from_dict({"columns": columns})
    for asked in (lambda: code_numbers(schema["D"]), lambda: cumulative(schema, "D", (), None)):
        with pytest.raises(InputError, match="'D' has dates; ask for the proportion of each of its periods"):
            asked()


def test_a_mean_of_nominal_numbers_is_refused_as_they_are_names():
    """Regression test for the code -9, which was included in the mean."""
    values = {"values": [-9, 1, 2, 3, 4, 5]}
    for more, allowed in (({}, False), ({"type": "ordinal"}, True), ({"values": [0, 1]}, True)):
        schema = Schema.from_dict({"columns": {"Q": values | more}})
        if allowed:
            assert question(schema, "mean", "Q").bottom.shape == (1, len(schema["Q"].values))
        else:
            with pytest.raises(InputError, match=r"column 'Q' is nominal, so its numbers are only names"):
                question(schema, "mean", "Q")
