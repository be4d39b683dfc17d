"""Tests of the budget of a series: months, costs and errors."""

from fractions import Fraction

import pytest

from equistrata.errors import InputError
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger, LedgerError
from equistrata.privacy.ledger.series import Series, series_of

YEAR = Series("people", 12, 1.0, 1e-9)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db")
    made.create("people", 3, 1e-9)
    return made


def standing(ledger, release=None, series=YEAR):
    return series.standing([charge.entry for charge in ledger.charges("people")], release)


def charge(ledger, release, series=YEAR, *, rho=None, now=None, reason=None):
    now = now or standing(ledger, release, series)
    return ledger.reserve("people", rho or now.price, release, ChargeDetails(reason=reason), series=now)


def test_twelve_months_cost_exactly_the_whole(ledger):
    for month in range(1, 13):
        now = standing(ledger, f"month-{month}")
        assert (now.number, now.price) == (month, YEAR.total * Fraction(1, 12))
        charge(ledger, f"month-{month}")
    assert ledger.spent("people") == YEAR.total
    assert now.before == tuple(f"month-{month}" for month in range(1, 12))
    with pytest.raises(InputError, match="series 'people' already has all of its 12 months"):
        standing(ledger)
    with pytest.raises(InputError, match="all of its 12 months"):
        charge(ledger, "month-13", now=now)
    assert ledger.spent("people") == YEAR.total


def test_a_front_month_costs_so_many_times_as_much_and_the_whole_is_the_same(ledger):
    front = Series("people", 12, 1.0, 1e-9, front=4.0)
    prices = []
    for month in range(1, 13):
        # Later releases do not need the setting, because the first charge is in the ledger.
        now = standing(ledger, f"month-{month}", front if month == 1 else YEAR)
        prices.append(now.price)
        charge(ledger, f"month-{month}", YEAR, now=now)
    assert prices[0] == front.total * Fraction(4, 15) == front.price_of(1)
    assert prices[1:] == [front.total * Fraction(1, 15)] * 11 == [front.price_of(2)] * 11
    assert ledger.spent("people") == front.total
    assert Series("one", 1, 1.0, 1e-9, front=4.0).standing([]).price == front.total
    with pytest.raises(InputError, match="at least as much as another"):
        Series("people", 12, 1.0, 1e-9, front=0.5)


def test_a_month_that_was_charged_is_the_same_month_again(ledger):
    for month in (1, 2, 3):
        charge(ledger, f"month-{month}")
    again = standing(ledger, "month-2")
    assert (again.number, again.price, again.before) == (2, YEAR.total * Fraction(1, 12), ("month-1",))
    assert again.others == YEAR.total * Fraction(2, 12)
    assert again.own == again.price


def test_noise_that_is_drawn_again_comes_from_the_months_left(ledger):
    charge(ledger, "month-1")
    charge(ledger, "month-1", rho=YEAR.total * Fraction(1, 12), reason="noise drawn again after a crash: synthesis")
    assert standing(ledger).price == YEAR.total * Fraction(10, 12) * Fraction(1, 11)
    for month in range(2, 13):
        charge(ledger, f"month-{month}")
    assert ledger.spent("people") == YEAR.total
    with pytest.raises(BudgetExceeded, match="release 'month-12' of series 'people'"):
        charge(ledger, "month-12", rho=1e-9, reason="noise drawn again after a crash: synthesis")


def test_more_than_the_series_has_left_is_refused_within_the_transaction(ledger):
    """This is the case if two releases request the cost of the last month at the same time."""
    year = Series("short", 2, 1.0, 1e-9)
    first, last = standing(ledger, "one", year), None
    charge(ledger, "one", year)
    last = standing(ledger, "two", year)
    with pytest.raises(LedgerError, match="another release of series 'short' was charged meanwhile as month 1"):
        charge(ledger, "two", year, now=first)
    charge(ledger, "two", year)
    with pytest.raises(InputError, match="all of its 2 months"):
        charge(ledger, "three", year, now=last)
    other = Series("long", 3, 1.0, 1e-9)
    charge(ledger, "four", other)
    with pytest.raises(BudgetExceeded, match="release 'five' of series 'long'"):
        charge(ledger, "five", other, rho=other.total)
    assert len(ledger.charges("people")) == 3


@pytest.mark.parametrize("other", [Series("people", 11, 1.0, 1e-9), Series("people", 12, 2.0, 1e-9)])
def test_a_series_keeps_its_horizon_and_budget(ledger, other):
    charge(ledger, "month-1")
    with pytest.raises(LedgerError, match="was started with 12 months at ε = 1, δ = 1e-09, which cannot be changed"):
        standing(ledger, None, other)


def test_series_of_a_data_set_are_apart_and_other_releases_are_in_none(ledger):
    charge(ledger, "a-1")
    ledger.reserve("people", Rho(0.001), "single", ChargeDetails(parts=["synthesis"]))
    other = Series("other", 4, 0.5, 1e-9)
    charge(ledger, "b-1", other)
    assert standing(ledger).number == 2
    assert standing(ledger, None, other).price == other.total * Fraction(1, 4)
    assert series_of([each.entry for each in ledger.charges("people")]) == {"people": YEAR, "other": other}
    ledger.verify()


@pytest.mark.parametrize("name", ["", "a b", "-a", "x" * 61, "ä"])
def test_names(name):
    with pytest.raises(InputError, match="not a valid name of a series"):
        Series(name, 12, 1.0, 1e-9)


def test_no_month():
    with pytest.raises(InputError, match="at least 1 month"):
        Series("people", 0, 1.0, 1e-9)
