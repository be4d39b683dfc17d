"""Tests of Coinpress, which is compared with a direct implementation of the paper: cost, intervals and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimators import coinpress_mean, stratified_coinpress
from no_noise import NoNoise

from equistrata.errors import InputError
from equistrata.inference.means.coinpress import RowCount
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise

SETTINGS = {"lower": 0.0, "upper": 100.0, "sigma": 10.0, "rho": 0.5}


def normal(rows: int, mean: float = 40.0, sigma: float = 10.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, sigma, rows)


def paper(values, lower, upper, sigma, rho, beta, steps):
    """Return the result of Algorithms 1 and 2 without noise. Each interval is cut to the previous interval."""
    n = len(values)
    shares = [1.0] if steps == 1 else [0.25 / (steps - 1)] * (steps - 1) + [0.75]
    for step, share in enumerate(shares, start=1):
        step_beta = beta / 4 if step == steps else beta / (4 * (steps - 1))
        reach = sigma * math.sqrt(2 * math.log(2 * n / step_beta))
        delta = (upper - lower + 2 * reach) / n
        z = np.clip(values, lower - reach, upper + reach).mean()
        half = math.sqrt(2 * (sigma**2 / n + delta**2 / (2 * rho * share)) * math.log(2 / step_beta))
        if step < steps:
            lower, upper = max(lower, z - half), min(upper, z + half)
    return z, z - half, z + half


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [1, 5, 300])
def test_gaussian_form_is_the_papers(steps, rows):
    values = np.append(normal(rows - 1), 500.0)
    found = coinpress_mean(values, **SETTINGS, steps=steps, tail="gaussian", noise=NoNoise())
    expected = paper(values, 0.0, 100.0, 10.0, 0.5, 0.01, steps)
    assert (found.value, found.lower, found.upper) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize("tail", ["adaptive", "gaussian"])
@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("rows", [0, 1, 5, 3000])
def test_spends_exactly_its_budget(sizes, tail, steps, rows):
    found = coinpress_mean(normal(rows), **SETTINGS, sizes=sizes, tail=tail, steps=steps, noise=SeededNoise(1))
    assert found.rho == Rho(0.5)
    assert sum((amount for _, amount in found.entries), start=Rho(0)) == Rho(0.5)
    assert found.relation == (REPLACE_ONE if sizes == "public" else ADD_REMOVE)
    assert found.lower <= found.value <= found.upper


def test_steps_share_a_quarter_and_the_last_has_the_rest():
    found = coinpress_mean(normal(50), **SETTINGS, steps=3, tail="gaussian", noise=SeededNoise(1))
    assert [(what, float(rho)) for what, rho in found.entries] == [
        ("step 1", 0.0625), ("step 2", 0.0625), ("step 3", 0.375),
    ]  # fmt: skip


def test_histogram_is_bought_only_where_it_can_help():
    def bought(rows, **more):
        found = coinpress_mean(normal(rows), **(SETTINGS | more), noise=SeededNoise(1))
        return "tail histogram" in dict(found.entries)

    assert bought(5)
    assert not bought(1000, tail="gaussian")
    assert not bought(1000, bounds=(20, 60))
    assert bought(1000, bounds=(20, 600))


def test_noise_has_the_stated_deviation():
    """For a single step with public n, the noise is N(0, (w/n)²/(2ρ)), where w is the width of the
    clipping interval.
    """
    values = normal(100)
    runs = [
        coinpress_mean(values, **SETTINGS, steps=1, tail="gaussian", noise=SeededNoise(i)).value for i in range(4000)
    ]
    width = 100 + 2 * 10 * math.sqrt(2 * math.log(800 / 0.01))
    assert np.std(runs) == pytest.approx(width / 100, rel=0.05)
    assert np.mean(runs) == pytest.approx(values.mean(), abs=4 * width / 100 / math.sqrt(4000))


def test_leaves_the_callers_array_alone():
    values = normal(2000)
    values[0] = np.inf
    before = values.copy()
    values.flags.writeable = False
    coinpress_mean(values, **SETTINGS, noise=SeededNoise(1))
    stratified_coinpress({"a": values}, {"a": 1.0}, **SETTINGS, sizes="noisy", noise=SeededNoise(1))
    assert np.array_equal(values, before)


@pytest.mark.parametrize("tail", ["adaptive", "gaussian"])
def test_no_rows_is_no_information(tail):
    found = coinpress_mean([], **SETTINGS, tail=tail, noise=SeededNoise(1))
    assert (found.value, found.lower, found.upper, found.raw) == (50, 0, 100, None)
    assert found.rho == Rho(0.5)
    assert coinpress_mean([], **SETTINGS, tail=tail, sizes="noisy", noise=SeededNoise(1)).rho == Rho(0.5)


def test_a_mean_outside_its_declared_interval_does_not_crash():
    found = coinpress_mean(normal(5000, mean=400.0), **SETTINGS, noise=SeededNoise(1))
    assert 90 <= found.value <= 100
    coinpress_mean(normal(50), **SETTINGS, bounds=(200, 300), noise=SeededNoise(1))


def within(misses, runs, beta, most=5.0):
    """Return True if the number of misses of intervals at level 1 − β is within five standard errors."""
    return abs(misses - beta * runs) <= most * math.sqrt(beta * (1 - beta) * runs)


@pytest.mark.parametrize("target", ["rows", "population"])
@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize("rows", [5, 100, 2000])
def test_intervals_cover_as_often_as_they_say(sizes, rows, target):
    """The miss rate at β = 0.2 is within five standard errors, with a false alarm rate of 10⁻⁶.

    With few rows, the interval is the declared interval. If a count is smaller than the noise, the miss rate can be 2.2
    times larger.
    """
    misses, runs = 0, 400
    for i in range(runs):
        values = normal(rows, seed=i)
        found = coinpress_mean(
            values,
            **SETTINGS,
            bounds=(-50, 150),
            beta=0.2,
            level=0.8,
            sizes=sizes,
            target=target,
            noise=SeededNoise(i),
        )
        misses += not found.lower <= (40 if target == "population" else values.mean()) <= found.upper
    assert within(misses, runs, 0.2)


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_intervals_for_a_population_of_units_allow_for_rows_that_are_alike(sizes):
    """Each unit has one row or four equal rows. The test uses 400 intervals at level 90 %. The probability that fewer
    than 342 of the intervals cover the mean is less than 10⁻³.
    """
    rng, hits = np.random.default_rng(0), np.zeros(2)
    for run in range(400):
        each = rng.normal(40, 10, 300)
        rows = np.concatenate([each[:60], np.repeat(each[60:], 4)])
        for place, alike in enumerate((4, 1)):
            settings = SETTINGS | {"sizes": sizes, "beta": 0.1, "level": 0.9, "target": "population", "alike": alike}
            found = coinpress_mean(rows, noise=SeededNoise(run), **settings)
            hits[place] += found.lower <= 40 <= found.upper
    assert hits[0] >= 342
    assert hits[1] < 300  # the interval treats the rows as independent


def test_noisy_sizes_are_right_without_rows():
    groups, confident = {"full": normal(5000), "empty": np.empty(0)}, 0
    for i in range(50):
        found = stratified_coinpress(
            groups, {"full": 1.0, "empty": 0.0}, **SETTINGS, sizes="noisy", noise=SeededNoise(i)
        )
        confident += found.strata["empty"].half_width < 10
        assert found.value == pytest.approx(40, abs=1)
    assert confident <= 3  # at β = 0.01, the count of an empty stratum is sometimes large


@pytest.mark.parametrize("sizes", ["public", "noisy"])
@pytest.mark.parametrize("rows", [500, 2000, 20_000])
def test_adaptive_loses_little_on_gaussian_rows(rows, sizes):
    """If there are no bounds, a histogram of ten shells is measured. It is not needed for Gaussian rows."""
    values = normal(rows)
    mean = values.mean()
    error = {
        tail: np.sqrt(np.mean([
            (coinpress_mean(values, **SETTINGS, tail=tail, sizes=sizes, noise=SeededNoise(i)).value - mean) ** 2
            for i in range(100)
        ]))
        for tail in ("adaptive", "gaussian")
    }  # fmt: skip
    assert error["adaptive"] <= 1.25 * error["gaussian"]


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_adaptive_expects_a_tail_that_noise_hides(sizes):
    """One in a hundred of the 3,000 rows is seven standard deviations from the centre.

    The standard deviation of the noise is 8 rows (11 if the size is public). The 30 rows change the mean by 0.7.
    """
    values = np.append(normal(2970), np.full(30, 110.0))
    found = [
        coinpress_mean(values, **SETTINGS | {"rho": 0.1}, bounds=(0, 200), sizes=sizes, noise=SeededNoise(i)).raw
        for i in range(200)
    ]
    assert abs(np.mean(found) - values.mean()) < 0.1
    assert np.sqrt(np.mean((np.array(found) - values.mean()) ** 2)) < 0.2


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_adaptive_keeps_a_heavy_tail(sizes):
    """The column is log-normal. With the clipping interval for Gaussian rows, the error is more than 1 % of the mean.

    With the adaptive interval, the error is a fifth of this.
    """
    values = np.exp(np.random.default_rng(0).normal(10, 1.4, 100_000))
    settings = {"lower": 0.0, "upper": 1e6, "sigma": 50_000.0, "rho": 0.5, "sizes": sizes}
    error = {
        tail: np.median([
            abs(coinpress_mean(values, **settings, tail=tail, noise=SeededNoise(i)).value / values.mean() - 1)
            for i in range(10)
        ])
        for tail in ("adaptive", "gaussian")
    }  # fmt: skip
    assert error["gaussian"] > 0.01
    assert error["adaptive"] < error["gaussian"] / 5


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_a_sigma_declared_far_too_small_is_noticed(sizes):
    """The standard deviation of the rows is σ = 10. If the value of σ is correct, less than 2 % of the rows are in the
    tail of the histogram.

    If the value of σ is a third of this, at least 5 % of the rows are in the tail. The test uses 20 seeds.
    """
    for i in range(20):
        right, wrong = (
            coinpress_mean(normal(3000, seed=i), **SETTINGS | {"sigma": sigma}, sizes=sizes, noise=SeededNoise(i))
            for sigma in (10.0, 3.3)
        )
        assert right.clip.beyond < 0.02
        assert wrong.clip.beyond > 0.05


def test_a_small_stratum_of_a_column_declared_too_narrow_keeps_its_mean():
    """The standard deviation of the 900 rows is 18 instead of the declared value of 10. Since a histogram is measured,
    the intervals cover the mean.

    The test uses 60 runs at level 99 %. The probability of more than 4 misses is less than 0.001. The seeds are fixed.
    """
    rng, missed = np.random.default_rng(0), 0
    values = np.abs(rng.standard_t(3, 900)) * 16.0
    settings = SETTINGS | {"rho": 0.1}
    for i in range(60):
        found = coinpress_mean(values, **settings, bounds=(0, 4000), sizes="noisy", noise=SeededNoise(i))
        missed += not found.lower <= values.mean() <= found.upper
    assert missed <= 4


def test_a_secure_source_works_and_is_marked():
    found = coinpress_mean(normal(2000), **SETTINGS, noise=SecureNoise())
    assert found.private
    assert found.value == pytest.approx(40, abs=2)
    assert not coinpress_mean(normal(20), **SETTINGS, noise=SeededNoise(1)).private
    noisy = stratified_coinpress([normal(2000)], [1.0], **SETTINGS, sizes="noisy", noise=SecureNoise())
    assert noisy.private


# --- Strata

GROUPS = {(1, 2): normal(4000, 30), (2, 1): normal(1500, 60, seed=1), (1, 1): normal(7, 50, seed=2)}
SHARES = {(1, 2): 0.7, (2, 1): 0.25, (1, 1): 0.05}


def test_strata_do_not_depend_on_their_order():
    first = stratified_coinpress(GROUPS, SHARES, **SETTINGS, noise=SeededNoise(3))
    second = stratified_coinpress(
        dict(reversed(GROUPS.items())), dict(sorted(SHARES.items())), **SETTINGS, noise=SeededNoise(3)
    )
    assert first.strata == dict(second.strata)
    ends = (first.value, first.lower, first.upper)
    # The order of the sums is different.
    assert ends == pytest.approx((second.value, second.lower, second.upper), rel=1e-12)


def test_population_is_the_weighted_sum_of_the_strata():
    found = stratified_coinpress(GROUPS, SHARES, **SETTINGS, target="population", noise=SeededNoise(3))
    assert found.value == pytest.approx(sum(SHARES[key] * found.strata[key].raw for key in GROUPS))
    assert found.rho == Rho(0.5)
    assert all(stratum.rho == Rho(0.5) for stratum in found.strata.values())
    variance = sum(SHARES[key] ** 2 * found.strata[key].variance for key in GROUPS)
    clips = sum(SHARES[key] * found.strata[key].clip.deviation for key in GROUPS)
    assert found.half_width == pytest.approx(1.959964 * math.sqrt(variance + clips**2))


def test_a_stratum_alone_is_a_plain_mean():
    found = stratified_coinpress([GROUPS[1, 2]], [1.0], **SETTINGS, noise=SeededNoise(3))
    assert found.strata[0] == coinpress_mean(GROUPS[1, 2], **SETTINGS, noise=SeededNoise(3).spawn(0))


def test_strata_of_a_few_rows_add_their_noise_and_no_more():
    """The mean of a small stratum is nearly unknown. Its error must not be larger than the stated error in the
    population.
    """
    rng = np.random.default_rng(0)
    groups = {i: np.clip(rng.exponential(25, 30 if i else 20_000), 1, 170) for i in range(13)}
    exact = np.concatenate(list(groups.values())).mean()
    settings = {"lower": 1, "upper": 200, "sigma": 27, "bounds": (1, 200), "rho": 0.01, "sizes": "noisy"}
    found = [stratified_coinpress(groups, None, **settings, noise=SeededNoise(i)) for i in range(60)]
    stated = np.mean([one.variance for one in found]) - 27**2 / 20_000
    assert np.mean([(one.value - exact) ** 2 for one in found]) < 2 * stated < 0.3


def test_a_declared_stratum_without_rows_counts_as_empty():
    found = stratified_coinpress({"a": normal(3000)}, {"a": 0.9, "b": 0.1}, **SETTINGS, noise=SeededNoise(3))
    assert (found.strata["b"].value, found.strata["b"].rows) == (50, 0)
    assert found.value == pytest.approx(40, abs=1)
    assert found.half_width > 10  # the mean of the empty stratum can be any number in [0, 100]
    nobody = stratified_coinpress({"a": []}, {"a": 1.0}, **SETTINGS, noise=SeededNoise(3))
    assert nobody.value == 50


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1.0}, "group 'b' has no weight"),
        ({"a": 1.5, "b": -0.5}, "negative"),
        ({"a": math.nan, "b": 0.5}, "finite"),
        ({"a": 0.5, "b": 0.4}, "sum to 0.9"),
        ({"a": 0.5, "b": 0.5 + 2e-6}, "sum to 1.000002"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        stratified_coinpress({"a": normal(9), "b": normal(9)}, weights, **SETTINGS, noise=SeededNoise(1))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"lower": 200.0}, "interval"),
        ({"upper": math.inf}, "interval"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": math.nan}, "sigma"),
        ({"rho": 0.0}, "rho"),
        ({"rho": -1.0}, "negative"),
        ({"beta": 1.0}, "beta"),
        ({"steps": 0}, "steps"),
        ({"sizes": "secret"}, "sizes"),
        ({"tail": "fat"}, "tail"),
        ({"bounds": (5, 5)}, "bounds"),
        ({"bounds": 5}, "bounds must be two ascending numbers, not 5"),
        ({"bounds": ("a", 5)}, "an end of the bounds is 'a', but must be a finite number"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        coinpress_mean(normal(9), **SETTINGS | setting, noise=SeededNoise(1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0]], "one-dimensional"),
        ([1.0, math.nan], "NaN"),
        ([1.0, "8841 St. Mary"], "values must be numbers"),
        ([1.0, {"8841": 1}], "values must be numbers"),
    ],
)
def test_bad_values_are_refused_without_being_quoted(values, message):
    with pytest.raises(InputError, match=message) as raised:
        coinpress_mean(values, **SETTINGS, noise=SeededNoise(1))
    assert "8841" not in str(raised.value)


@pytest.mark.parametrize("sizes", ["public", "noisy"])
def test_without_weights_the_strata_s_own_sizes_are_the_shares(sizes):
    rng = np.random.default_rng(3)
    groups = {"a": rng.normal(10, 1, 6000), "b": rng.normal(20, 1, 2000), "c": np.empty(0)}
    whole = stratified_coinpress(
        groups, None, lower=0, upper=100, sigma=1.5, rho=1.0, noise=SeededNoise(4), sizes=sizes
    )
    assert whole.value == pytest.approx(12.5, abs=0.1)
    assert whole.weights == pytest.approx({"a": 0.75, "b": 0.25, "c": 0.0}, abs=0.005)
    assert sum(whole.weights.values()) == pytest.approx(1)


def test_a_count_that_was_paid_for_elsewhere_costs_nothing_here():
    found = coinpress_mean(
        normal(400), **SETTINGS, sizes="noisy", rows=RowCount(380.0, 20.0), bounds=(0, 100), noise=SeededNoise(1)
    )
    assert "count" not in dict(found.entries)
    assert sum((amount for _, amount in found.entries), start=Rho(0)) == Rho(0.5)
    assert (found.relation, found.rows, found.count_deviation) == (ADD_REMOVE, 380.0, 20.0)


def test_it_divides_by_the_count_that_was_paid_for():
    values = normal(400)
    found = coinpress_mean(
        values, **SETTINGS, steps=1, sizes="noisy", rows=RowCount(380.0, 20.0), bounds=(0, 100), noise=NoNoise()
    )
    assert found.raw == pytest.approx(50 + (values.clip(0, 100) - 50).sum() / 380, rel=1e-6)
    negative = coinpress_mean(values, **SETTINGS, sizes="noisy", rows=RowCount(-7.0, 20.0), noise=SeededNoise(1))
    assert negative.rows == 1.0


@pytest.mark.parametrize(("sizes", "rows"), [("public", RowCount(380.0, 20.0)), ("noisy", RowCount(380.0))])
def test_a_count_without_noise_or_beside_public_sizes_is_refused(sizes, rows):
    with pytest.raises(ValueError, match="'rows' is a noisy count"):
        coinpress_mean(normal(400), **SETTINGS, sizes=sizes, rows=rows, noise=SeededNoise(1))
