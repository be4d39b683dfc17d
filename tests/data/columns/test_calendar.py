"""Tests of calendar periods, which must be a union of the bins of a date column."""

import datetime as dt

import pytest

from equistrata.data.columns.calendar import codes_within, is_period, units
from equistrata.data.columns.dates import EVERY, days_of, iso, unit_of
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError


def column(every, lower="2018-11-05", upper="2021-02-17", **more):
    entry = {"type": "date", "lower": lower, "upper": upper, "every": every, **more}
    return Schema.from_dict({"columns": {"SINCE": entry}})["SINCE"]


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize(
    "text", ["2019", "2019-Q4", "2020Q1", "2020-02", "2018-12 to 2020-06", "2019-07-01 to 2019-12"]
)
def test_a_period_is_the_bins_that_hold_its_days_or_is_refused(every, text):
    since, period = column(every), days_of(text)
    days = [since.days(code) for code in range(since.bins)]
    inside = [code for code, (first, last) in enumerate(days) if period[0] <= first and last <= period[1]]
    touched = [code for code, (first, last) in enumerate(days) if first <= period[1] and period[0] <= last]
    if inside == touched:
        assert codes_within(since, text) == inside
        assert sum(days[code][1] - days[code][0] + 1 for code in inside) == period[1] - period[0] + 1
    else:
        with pytest.raises(InputError, match=r"'SINCE': the bin .* is only partly in "):
            codes_within(since, text)


@pytest.mark.parametrize("text", ["2020", "2020-12", "2020-Q2", "2024-02-29", "1999-10 to 2003-Q1"])
def test_days_are_those_of_the_calendar(text):
    first, last = map(iso, days_of(text))
    known = {
        "2020": ("2020-01-01", "2020-12-31"),
        "2020-12": ("2020-12-01", "2020-12-31"),
        "2020-Q2": ("2020-04-01", "2020-06-30"),
        "2024-02-29": ("2024-02-29", "2024-02-29"),
        "1999-10 to 2003-Q1": ("1999-10-01", "2003-03-31"),
    }
    assert (first, last) == known[text]


@pytest.mark.parametrize(
    "text", ["2020-13", "2020-02-30", "0000", "20", "2020-Q5", "2020 to", "a to b", "2020 to 2021 to 2022"]
)
def test_other_texts_are_no_period(text):
    assert days_of(text) is None
    assert not is_period(column("month"), text)


def test_a_year_at_the_ends_of_the_bounds_is_what_there_is_of_it():
    since = column("month")
    assert [since.words(code) for code in codes_within(since, "2018")] == ["2018-11-05 to 2018-11-30", "2018-12"]
    with pytest.raises(InputError, match="'SINCE' has dates from 2018-11-05 to 2021-02-17, so none are in 2022"):
        codes_within(since, "2022")


@pytest.mark.parametrize("unit", ["month", "quarter", "year"])
def test_units_are_those_of_each_day(unit):
    since = column("month", missing="own")
    groups, keys = units(since, unit)
    assert len(groups) == since.size
    assert keys[-1] == "missing"
    for code in range(since.bins):
        for day in since.days(code):
            assert keys[groups[code]] == unit_of(day, unit)
    assert keys[0] == {"month": "2018-11", "quarter": "2018-Q4", "year": "2018"}[unit]


def test_bins_in_two_units_are_refused():
    with pytest.raises(InputError, match="the bin 2018-12-31 to 2019-01-06 is in two years"):
        units(column("week"), "year")
    assert units(column("year"), "year")[1] == ["2018", "2019", "2020", "2021"]
    with pytest.raises(InputError, match="is in two quarters"):
        units(column("year"), "quarter")


def test_only_columns_of_dates_have_periods():
    assert not is_period(Column("X", lower=0, upper=3000), "2020")
    assert is_period(column("month"), "2020")
    assert not is_period(column("month"), 2020)
    assert dt.date.fromisoformat(iso(days_of("2020-02")[1])) == dt.date(2020, 2, 29)
