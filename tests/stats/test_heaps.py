"""How often people round, from noisy counts: a law with known rounding, one without, and noise alone."""

from __future__ import annotations

import numpy as np
import pytest

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.drawn import drawn_ends, round_numbers
from equistrata.stats.heaps import Rounding, rounding

PAY = Column("PAY", lower=0, upper=500_000, integer=True, scale="rounded")
NUMBERS, DIGITS = round_numbers(PAY)
LOW, HIGH = drawn_ends(PAY)
WIDTHS = HIGH - LOW + 1


def smooth(rows: float, law: str) -> Floats:
    """Expected counts of a law without rounding."""
    middles = (LOW + HIGH) / 2
    density = {
        "log-normal": np.exp(-(np.log(np.maximum(middles, 1) / 40_000) ** 2) / 0.8) / np.maximum(middles, 1),
        "exponential": np.exp(-middles / 30_000),
        "Pareto": np.where(middles > 9_000, np.maximum(middles, 1) ** -2.5, 0.0),
    }[law]
    counts = density * WIDTHS
    return np.asarray(rows * counts / counts.sum())


def rounded(counts: Floats, fives: float, tens: float) -> Floats:
    """Counts where bins that end in 5 and 0 hold so much more that these parts of them are excess."""
    part = np.where(DIGITS % 10 == 0, tens, np.where(DIGITS % 5 == 0, fives, 0.0)) * (DIGITS > 0)
    return counts / (1 - part)


@pytest.mark.parametrize("law", ["log-normal", "exponential", "Pareto"])
def test_a_law_without_rounding_has_none_and_with_it_the_true_one(law: str) -> None:
    counts = smooth(50_000, law)
    none = rounding(counts, 1e-6, DIGITS, NUMBERS, WIDTHS)
    assert max(none.fives, none.tens) < 0.04  # the density is curved between neighbours
    found = rounding(rounded(counts, 0.4, 0.7), 1e-6, DIGITS, NUMBERS, WIDTHS)
    assert (found.fives, found.tens) == pytest.approx((0.4, 0.7), abs=0.05)


def test_noise_alone_is_seldom_taken_for_rounding_and_rounding_is_found_through_noise() -> None:
    """False alarms: 2.3 % of draws for each kind; 12 and more of 200 have a chance below one in a thousand."""
    rng, counts = np.random.default_rng(5), smooth(5_000, "log-normal")
    made = [rounding(counts + rng.normal(0, 30, len(counts)), 30, DIGITS, NUMBERS, WIDTHS) for _ in range(200)]
    assert sum(each.fives > 0 for each in made) < 12
    assert sum(each.tens > 0 for each in made) < 12
    heaped = rounded(smooth(20_000, "log-normal"), 0.4, 0.6)
    again = [rounding(heaped + rng.normal(0, 30, len(counts)), 30, DIGITS, NUMBERS, WIDTHS) for _ in range(100)]
    assert np.mean([each.fives for each in again]) == pytest.approx(0.4, abs=0.06)
    assert np.mean([each.tens for each in again]) == pytest.approx(0.6, abs=0.06)


def test_shares_of_bins() -> None:
    found = Rounding(0.5, 0.8).shares(np.array([0, 10, 11, 35, 90]))
    assert found.tolist() == pytest.approx([0.0, 0.9, 0.5, 0.75, 0.9])
    assert Rounding().shares(DIGITS).max() == 0.0
    assert rounding(np.zeros(len(DIGITS)), 0.0, DIGITS, NUMBERS, WIDTHS) == Rounding()


@pytest.mark.parametrize(
    "column",
    [
        PAY,
        Column("A", lower=-20_000, upper=2_000_000, integer=True, scale="rounded"),
        Column("A", lower=0, upper=500, decimals=2, scale="rounded"),
        Column("A", lower=0, upper=1e6, scale="rounded"),
        Column("A", lower=0, upper=200_000, decimals=0, scale="rounded"),
    ],
)
def test_a_bins_round_number_is_in_it_and_has_two_digits(column: Column) -> None:
    numbers, digits = round_numbers(column)
    low, high = drawn_ends(column)
    around = digits > 0
    assert around.sum() > 100
    assert ((low <= numbers) & (numbers <= high))[around].all()
    for number, two in zip(np.abs(numbers[around]).tolist(), digits[around].tolist(), strict=True):
        assert f"{number:.1e}".partition("e")[0] == f"{two / 10:.1f}"
        assert float(f"{number:.2g}") == number
    assert (low < high)[around].all()


@pytest.mark.parametrize(
    "column",
    [
        Column("A", lower=0, upper=99, integer=True, scale="linear"),
        Column("A", lower=0, upper=90_000, edges=(0, 45_000, 90_000), scale=None),
        Column("A", lower=0, upper=90_000, integer=True, scale="logarithmic"),
    ],
)
def test_other_scales_have_no_round_numbers(column: Column) -> None:
    assert not round_numbers(column)[1].any()
