"""Tests of the simulations with a fixed seed, which are compared with the tables of the paper.

The slow tests use the 10,000 rounds of the paper.
"""

from dataclasses import replace

import pytest

from paper.comparison import read_published
from paper.federated import TABLES, Setting, simulate

PRINTED = read_published("federated").set_index(["table", "method", "epsilon"])
LAST_DIGIT = 0.0005  # the widths are printed with three decimals


def check(table, rows, coverage_error):
    """Check that the widths are within 2 % of the printed values and that the coverage is within the given error."""
    compared = 0
    for row in rows:
        printed = PRINTED.loc[table, row.method, row.epsilon]
        if printed.width == printed.width:
            limit = LAST_DIGIT if row.method == "none" else 0.02 * printed.width
            assert row.width == pytest.approx(printed.width, abs=limit)
            compared += 1
        assert row.coverage == pytest.approx(printed.coverage, abs=coverage_error)
    assert compared >= len(rows) - 7  # all except the central widths of the first table


@pytest.mark.parametrize("table", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4, 5))])
def test_widths_are_the_papers(table):
    """The standard error of the coverage is 0.015 for 400 rounds."""
    check(table, simulate(replace(TABLES[table], rounds=400), seed=1), 0.07)


@pytest.mark.slow
@pytest.mark.parametrize("table", [1, 2, 3, 4, 5])
def test_tables_are_the_papers(table):
    """The standard error of the difference between the two coverages is 0.0042 for 10,000 rounds."""
    check(table, simulate(TABLES[table], seed=0, workers=2), 0.0145)


@pytest.mark.slow
@pytest.mark.parametrize("table", [6, 7])
def test_large_tables_are_the_papers(table):
    """The standard error of the difference between the two coverages is 0.0073 for 2,000 rounds."""
    check(table, simulate(replace(TABLES[table], rounds=2000), seed=0, workers=2), 0.026)


@pytest.mark.slow
def test_a_wrong_delta_would_show():
    """If δ is 1e-5, the widths differ from the printed widths by more than 2 %."""
    rows = simulate(replace(TABLES[3], delta=1e-5, trials=(1024,), rounds=20), seed=1)
    with pytest.raises(AssertionError):
        check(3, rows, 1)


GRID = [
    Setting(outcomes="gaussian", sigma=0.01, arms=(300, 700)),
    Setting(outcomes="gaussian", sigma=0.25, arms=(900, 100)),
    Setting(outcomes="constant-effect", arms=(500, 1500)),
    Setting(outcomes="constant-effect", uniform=(0.5, 0.75), arms=(600, 600), target="sate"),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", GRID[:2], ids=["alike", "spread"])
def test_private_intervals_cover_as_they_say(setting):
    """The tolerance of 0.033 is 3.5 standard errors for 1,000 rounds. In contrast to the paper, the variances are also
    private.
    """
    rows = simulate(replace(setting, epsilons=(0.2, 3.0), trials=(2, 300), rounds=1000), seed=2)
    assert len(rows) == 1 + 2 + 4
    for row in rows:
        assert row.coverage == pytest.approx(0.9, abs=0.033), row


@pytest.mark.slow
@pytest.mark.parametrize("setting", GRID, ids=["alike", "spread", "large", "sate"])
def test_private_intervals_cover_between_0_885_and_0_915(setting):
    """The standard error of the coverage is 0.0021 for 20,000 rounds."""
    epsilons, trials = (0.05, 0.25, 0.8, 2.5, 6.0), (1, 8, 100, 4096)
    for row in simulate(replace(setting, epsilons=epsilons, trials=trials, rounds=20_000), seed=3, workers=2):
        assert 0.885 <= row.coverage <= 0.915, row


def test_plugging_in_a_noisy_variance_would_not_cover_as_it_says(monkeypatch):
    """If the noisy variance is used without calibration, the intervals are too wide for a small variance."""
    from equistrata.inference.federated import arms

    monkeypatch.setattr(arms, "variance_factor", lambda w, omega, level: 1 + w.clip(0))
    setting = replace(GRID[0], mean_share=0.99, epsilons=(3.0,), trials=(300,), rounds=1000)
    found = {row.method: row.coverage for row in simulate(setting, seed=2)}
    assert found["poisson-binomial m = 300"] > 0.933


def test_the_truth_is_that_of_the_values_that_are_cut_off():
    """If σ is 0.6, the difference of the clipped values is 15 % smaller, and the intervals must
    cover this difference.
    """
    setting = replace(GRID[0], arms=(700, 700), sigma=0.6, effect=1.2, epsilons=(2.0,), trials=(64,), rounds=1500)
    for row in simulate(setting, seed=6):
        assert row.coverage == pytest.approx(0.9, abs=0.03)  # 3.9 standard errors


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing():
    setting = Setting(arms=(40, 60), epsilons=(1.0,), trials=(16,), rounds=250)
    assert simulate(setting, seed=4, workers=2) == simulate(setting, seed=4) != simulate(setting, seed=5)
