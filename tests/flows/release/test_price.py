"""Tests of the prices of the parts of a release, which sum to the total ρ."""

from fractions import Fraction

import pytest

from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.price import Price, openings_of, total_price

SHARES = {"counts": "count_share", "means": "means_share", "finding": "open_share"}
TOTAL = total_price(1.0, 1e-9)


def price(config, *bought):
    parts = ("counts", "means", "finding")
    return Price.of(config, TOTAL, **{part: part in bought for part in parts})


@pytest.mark.parametrize("part", SHARES)
def test_what_is_bought_has_its_share_and_nothing_else_is_paid(part):
    config = ReleaseConfig(**{SHARES[part]: 0.25})
    bought = price(config, part)
    assert getattr(bought, part) == TOTAL * 0.25
    assert bought.synthesis == TOTAL - TOTAL * 0.25
    assert price(config).synthesis == TOTAL


def test_shares_that_leave_nothing_are_refused_only_where_they_are_bought():
    config = ReleaseConfig(count_share=0.5, means_share=0.5)
    assert price(config, "counts").synthesis == TOTAL * 0.5
    with pytest.raises(InputError, match="leave nothing for the synthesizer"):
        price(config, "counts", "means")


def test_open_columns_share_their_part_and_each_pays_for_its_delta():
    found = openings_of(["JOB", "TOWN", "CLUB"], TOTAL, [(1.0, 1e-9)])
    assert [each.column for each in found.values()] == ["JOB", "TOWN", "CLUB"]
    assert sum((each.rho + each.paid for each in found.values()), start=TOTAL * 0) == TOTAL
    assert {each.paid for each in found.values()} == {(TOTAL * Fraction(1, 3)) * Fraction(1, 5)}
    assert all(0 < each.delta < 1e-9 for each in found.values())


def test_a_unit_of_several_rows_pays_for_all_of_them():
    """The cost of the noise is the charge divided by the cost of all rows in a unit (docs/proofs/units.md)."""
    bought = price(ReleaseConfig(count_share=0.25, means_share=0.25), "counts", "means")
    drawn = bought.drawn(Unit("HOME", 3))
    assert drawn.means * 9 == bought.means
    assert drawn.counts * 9 == bought.counts
    assert drawn.total * 9 == TOTAL
