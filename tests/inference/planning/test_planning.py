"""Tests of plans, which are compared with the results of the estimators."""

from __future__ import annotations

import math

import numpy as np
import pytest
from estimators import (
    coinpress_mean,
    hierarchical_coinpress,
    private_sample_size,
    smallest_epsilon,
    stratified_coinpress,
)

from equistrata.errors import InputError
from equistrata.inference.counts.noisy_counts import noisy_count
from equistrata.inference.counts.proportions import exact_p_value, exact_power
from equistrata.inference.planning.mean_question import MeanQuestion
from equistrata.inference.planning.questions import ProportionQuestion
from equistrata.inference.planning.strata import plan_strata
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import SeededNoise

SIZES = {"large": 50_000, "middle": 900, "small": 250, "tiny": 3, "none": 0}
HOURS = {"lower": 1.0, "upper": 99.0, "bounds": (1.0, 99.0), "sigma": 14.0, "reference": 38.0}
QUESTIONS = [
    ProportionQuestion(reference=0.25, effect=0.1),
    ProportionQuestion(reference=0.7, effect=-0.15, alpha=0.01, beta=0.1, part=0.5),
    ProportionQuestion(reference=0.3, relative_error=0.15),
    ProportionQuestion(reference=0.3, relative_error=0.02, about="rows"),
    MeanQuestion(**HOURS, effect=2.5),
    MeanQuestion(**HOURS, relative_error=0.05, part=0.25),
    MeanQuestion(**HOURS, relative_error=0.05, about="rows"),
    MeanQuestion(**HOURS, relative_error=0.05, about="rows", sizes=tuple(map(float, SIZES.values()))),
]


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_a_plan_agrees_with_itself(asked, epsilon):
    needed = asked.rows(epsilon)
    for part in plan_strata(asked, SIZES, epsilon):
        assert (part.status == "readable") == (part.rows >= needed)
        assert (part.status == "readable") == (part.smallest_epsilon <= epsilon)
        assert (
            (part.status == "too few rows") == (part.rows <= asked.classical_rows) == math.isinf(part.smallest_epsilon)
        )
        assert part.rows_needed == math.ceil(needed)
        if asked.goal == "relative error":
            assert (part.reached <= asked.relative_error) == (part.status == "readable")


@pytest.mark.parametrize("asked", QUESTIONS)
def test_rows_and_epsilon_invert(asked):
    for epsilon in (0.05, 0.7, 3.0):
        rows = asked.rows(epsilon)
        assert asked.smallest_epsilon(rows) == pytest.approx(epsilon, rel=1e-3)
    needed = [asked.rows(epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] >= asked.classical_rows


def test_a_proportions_plan_is_its_sample_size():
    asked = ProportionQuestion(reference=0.25, effect=0.1, beta=0.1, part=0.5)
    settings = {"alpha": 0.05, "beta": 0.1}
    (part,) = plan_strata(asked, {"a": 400}, 0.8)
    assert part.rows_needed == private_sample_size(0.25, 0.1, epsilon=0.4, **settings)
    assert part.smallest_epsilon == pytest.approx(2 * smallest_epsilon(400, 0.25, 0.1, **settings))
    assert part.reached == exact_power(0.35, p0=0.25, rows=400, epsilon=0.4, alpha=0.05)
    assert asked.relation == REPLACE_ONE


def test_the_exact_test_has_the_planned_power_at_the_planned_rows():
    """The test uses 1,500 noisy counts and the planned number of rows. The power must be 0.8, with a tolerance of four
    standard errors.

    In addition, a tolerance of 0.03 is used for the normal approximation.
    """
    asked = ProportionQuestion(reference=0.25, effect=0.1)
    rows = math.ceil(asked.rows(0.2))
    rng = np.random.default_rng(0)
    counts = [noisy_count(rng.random(rows) < 0.35, epsilon=0.2, noise=SeededNoise(seed)).value for seed in range(1500)]
    seen = np.mean(exact_p_value(np.array(counts), rows=rows, p0=0.25, epsilon=0.2) <= 0.05)
    assert abs(seen - 0.8) <= 4 * math.sqrt(0.8 * 0.2 / 1500) + 0.03
    assert asked.reached(rows, 0.2) == pytest.approx(seen, abs=4 * math.sqrt(0.8 * 0.2 / 1500))


@pytest.mark.parametrize("about", ["population", "rows"])
def test_a_planned_relative_error_is_kept(about):
    """In 20,000 runs, the error is within the planned error in 95 % of the runs, up to five standard errors."""
    asked = ProportionQuestion(reference=0.3, relative_error=0.1, about=about)
    rows = math.ceil(asked.rows(0.1))
    rng = np.random.default_rng(1)
    true = 0.3 * rows
    counts = rng.binomial(rows, 0.3, 20_000) if about == "population" else np.full(20_000, true)
    within = np.mean(np.abs(counts + rng.laplace(0, 10, 20_000) - true) <= 0.1 * true)
    assert abs(within - 0.95) <= 5 * math.sqrt(0.95 * 0.05 / 20_000)


COLUMNS = [
    HOURS,
    {"lower": 1.0, "upper": 24.0, "bounds": (1.0, 24.0), "sigma": 6.0, "reference": 17.0},
    {"lower": 0.0, "upper": 500_000.0, "bounds": (-19_998.0, 4_209_995.0), "sigma": 80_000.0, "reference": 45_000.0},
    {"lower": 0.0, "upper": 50.0, "sigma": 1.0, "reference": 25.0},
]


@pytest.mark.parametrize("settings", COLUMNS)
@pytest.mark.parametrize(("rows", "epsilon"), [(300, 2.0), (1000, 1.0), (20_000, 0.3), (20_000, 5.0)])
def test_a_means_deviation_is_the_one_that_coinpress_reports(settings, rows, epsilon):
    """The test uses the median of 11 runs with Gaussian rows. The tolerance is 8 %, with and without the sampling
    error.

    If there are no bounds, the tolerance is 16 %, because some of the clipping intervals are wider due to the noise of
    the five shells on each side.
    """
    rho = Rho.from_epsilon_delta(epsilon, 1e-9)
    bounds = settings.get("bounds", (-math.inf, math.inf))
    rng = np.random.default_rng(0)
    reported: dict[str, list[float]] = {"population": [], "rows": []}
    for seed in range(11):
        values = np.clip(rng.normal(settings["reference"], settings["sigma"], rows), *bounds)
        found = coinpress_mean(
            values, lower=settings["lower"], upper=settings["upper"], sigma=settings["sigma"], rho=rho, sizes="noisy",
            bounds=bounds, noise=SeededNoise(seed)
        )  # fmt: skip
        least = max(found.rows - 2 * found.count_deviation, 1.0)
        reported["population"].append(math.sqrt(found.variance))
        reported["rows"].append(math.sqrt(found.variance - settings["sigma"] ** 2 / least))
    for about, deviations in reported.items():
        asked = MeanQuestion(**settings, relative_error=0.1, about=about)
        assert asked.deviation(rows, rho) == pytest.approx(
            np.median(deviations), rel=0.08 if "bounds" in settings else 0.16
        )
        assert asked.relation == ADD_REMOVE


def test_no_tail_histogram_is_planned_for_where_none_is_bought():
    """If the clipping interval is equal to the bounds, no histogram is needed and the noise of the
    sum is 4 % smaller.
    """
    unit = {"lower": 0.0, "upper": 1.0, "bounds": (0.0, 1.0), "sigma": 0.5}
    rho, values = Rho.from_epsilon_delta(0.1, 1e-9), np.tile([0.0, 1.0], 5000)
    found = [
        coinpress_mean(
            values, lower=0, upper=1, sigma=0.5, rho=rho, sizes="noisy", bounds=(0, 1), noise=SeededNoise(seed)
        )
        for seed in range(15)
    ]
    assert all("tail histogram" not in dict(run.entries) for run in found)
    noise = np.median([math.sqrt(run.variance - 0.25 / (run.rows - 2 * run.count_deviation)) for run in found])
    asked = MeanQuestion(**unit, reference=0.5, relative_error=0.1, about="rows")
    assert asked.deviation(10_000, rho) == pytest.approx(noise, rel=0.015)


@pytest.mark.parametrize("about", ["population", "rows"])
def test_a_planned_mean_is_as_good_as_planned(about):
    """In 400 runs of Coinpress, at least 95 % of the relative errors are within the planned error, up to three standard
    errors.
    """
    asked = MeanQuestion(**HOURS, relative_error=0.03, about=about)
    rows = math.ceil(asked.rows(1.0))
    rho = Rho.from_epsilon_delta(1.0, 1e-9)
    rng = np.random.default_rng(2)
    errors = []
    for seed in range(400):
        values = np.clip(rng.normal(38, 14, rows), 1, 99)
        found = coinpress_mean(
            values, lower=1, upper=99, sigma=14, rho=rho, sizes="noisy", bounds=(1, 99), noise=SeededNoise(seed)
        )
        errors.append(abs(found.value - (38 if about == "population" else values.mean())) / 38)
    assert np.mean(np.array(errors) <= 0.03) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)
    assert np.quantile(errors, 0.95) >= 0.5 * 0.03  # the planned number of rows is less than four times too large


SKEWED = np.array([9000, 4000, 1500, 800, 400, 150, 40, 0])


def people(columns, rng, tail=0.0):
    """Return strata of unequal sizes. If there is a tail, a share of the rows is far from the mean."""
    low, high = columns.get("bounds", (-math.inf, math.inf))
    reach = 4.5 * columns["sigma"]
    return {
        str(i): np.clip(
            rng.normal(columns["reference"], columns["sigma"], n)
            + (rng.random(n) < tail) * rng.uniform(reach, 1.7 * reach, n),
            low, high,
        )
        for i, n in enumerate(SKEWED)
    }  # fmt: skip


@pytest.mark.parametrize(("columns", "tail"), [(COLUMNS[0], 0.0), (COLUMNS[1], 0.0), (COLUMNS[2], 0.007)])
@pytest.mark.parametrize("shrinkage", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", ["rows", pytest.param("population", marks=pytest.mark.slow)])
def test_intervals_are_as_wide_as_planned(columns, tail, shrinkage, target):
    """The planned widths are within 15 % of the median of the widths in 7 runs, for each stratum that is readable.

    At least 90 % of the strata that are planned as readable are readable. At least a third of the readable strata are
    planned as readable. The seeds are fixed.
    """
    given = {name: value for name, value in columns.items() if name != "reference"}
    sizes = dict(zip(map(str, range(len(SKEWED))), SKEWED.astype(float).tolist(), strict=True))
    planned, kept, missed = [], [], []
    for epsilon in (0.5, 2.0):
        asked = MeanQuestion(
            **columns, alpha=0.05, relative_error=0.1, about=target, tail=tail,
            sizes=tuple(sizes.values()) if shrinkage else (),
        )  # fmt: skip
        plans = plan_strata(asked, sizes, epsilon)
        estimator = hierarchical_coinpress if shrinkage else stratified_coinpress
        runs = [
            estimator(
                people(columns, np.random.default_rng(seed), tail), None, **given, target=target, sizes="noisy",
                rho=Rho.from_epsilon_delta(epsilon, 1e-9), noise=SeededNoise(seed),
            ).strata
            for seed in range(7)
        ]  # fmt: skip
        for part in plans:
            widths = [run[part.label].half_width for run in runs]
            read = [width <= 0.1 * columns["reference"] for width in widths]
            if part.half_width <= 0.1 * columns["reference"]:
                planned.append(np.median(widths) / part.half_width)
            if part.status == "readable":
                kept += read
            else:
                missed += read
    assert np.median(np.abs(np.log(planned))) < math.log(1.15)
    assert len(planned) >= 2
    assert np.mean(kept) >= 0.9
    assert 3 * sum(kept) >= sum(kept) + sum(missed)


def test_empty_strata_have_nothing_to_read():
    for asked, nothing in ((QUESTIONS[0], 0.0), (QUESTIONS[2], math.inf)):
        (part,) = plan_strata(asked, {"none": 0}, 1.0)
        assert (part.status, part.smallest_epsilon, part.reached) == ("too few rows", math.inf, nothing)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ProportionQuestion(), "give one of them"),
        (lambda: ProportionQuestion(effect=0.1, relative_error=0.1), "give one of them"),
        (lambda: ProportionQuestion(reference=0.5, effect=0.5), r"p0 \+ effect is 1,"),
        (lambda: ProportionQuestion(reference=1.0, relative_error=0.1), "the reference is 1"),
        (lambda: ProportionQuestion(relative_error=-0.1), "relative error is -0.1"),
        (lambda: ProportionQuestion(effect=0.1, part=0.0), "part is 0"),
        (lambda: ProportionQuestion(effect=0.1, about="rows"), "about the population"),
        (lambda: ProportionQuestion(relative_error=0.1, about="all"), "'all'"),
        (lambda: MeanQuestion(**HOURS), "give one of them"),
        (lambda: MeanQuestion(**HOURS, effect=0), "effect is 0"),
        (lambda: MeanQuestion(**(HOURS | {"reference": 100.0}), effect=1), "outside"),
        (lambda: MeanQuestion(**(HOURS | {"lower": 99.0}), effect=1), "ascend"),
        (lambda: MeanQuestion(**(HOURS | {"sigma": 0.0}), effect=1), "sigma"),
        (lambda: MeanQuestion(**(HOURS | {"lower": -1.0, "reference": 0.0}), relative_error=0.1), "the reference is 0"),
        (lambda: MeanQuestion(**HOURS, effect=1, delta=0.0), "delta"),
        (lambda: MeanQuestion(**HOURS, effect=1, part=1.5), "part is 1.5"),
        (lambda: MeanQuestion(**HOURS, relative_error=1.3), "without any rows"),
        (lambda: MeanQuestion(**HOURS, effect=1, tail=0.5), "tail is 0.5"),
        (lambda: MeanQuestion(**HOURS, effect=1).rows(1e6), "epsilon must be a positive number, at most 500"),
        (lambda: plan_strata(QUESTIONS[0], {"a": -1}, 1.0), "the size of a"),
        (lambda: plan_strata(QUESTIONS[0], {"a": 1}, 0.0), "epsilon"),
    ],
)
def test_bad_questions_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
