import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from equistrata.analysis.derived import contrasts
from equistrata.stats.distributions import upper_end


def groups(first, second):
    """Return the answers for two groups, each with an estimate, a lower end and an upper end."""
    lines = [
        {"G": place, "estimate": value, "lower": low, "upper": high, "standard_error": 0.1}
        | {"sampling_error": 0.06, "basis": "measured"}
        for place, (value, low, high) in enumerate((first, second))
    ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize("known_first", [True, False])
@pytest.mark.parametrize("real", [0.0, 1.0])
def test_a_share_of_which_nothing_is_known_may_be_0_or_1(known_first, real):
    nothing = (0.4, 0.0, 1.0)
    for off in (-0.02, 0.02):
        known = (0.5 + off, 0.47 + off, 0.53 + off)
        found = contrasts(
            groups(*((known, nothing) if known_first else (nothing, known))), ["G"], 0.95, False, np.array([[0.0, 1.0]])
        ).iloc[0]
        apart = (real - 0.5) if known_first else (0.5 - real)
        assert found["lower"] <= apart <= found["upper"]


def test_a_difference_of_intervals_inside_the_range_is_as_wide_as_the_root_of_their_squares():
    found = contrasts(groups((0.5, 0.47, 0.53), (0.4, 0.36, 0.44)), ["G"], 0.95, False, np.array([[0.0, 1.0]])).iloc[0]
    assert (found["lower"], found["upper"]) == pytest.approx((-0.15, -0.05))
    assert found["sampling_error"] == pytest.approx(0.6 * found["standard_error"])
    assert np.hypot(found["privacy_error"], found["sampling_error"]) == pytest.approx(found["standard_error"])


def test_what_is_cut_off_where_numbers_end_says_nothing_of_a_difference():
    """The two shares are 1 % and 3 % with errors of ± 4 %, so the difference has an error of √2 · 4 %.

    The interval of the difference must not extend beyond the largest possible difference of the two intervals.
    """
    cut = groups((0.01, 0.0, 0.05), (0.03, 0.0, 0.07))
    reach = np.array([[0.01, -0.03, 0.05], [0.03, -0.01, 0.07]])
    found = contrasts(cut, ["G"], 0.95, False, np.array([[0.0, 1.0]]), reach=reach).iloc[0]
    half = np.sqrt(2) * 0.04
    assert (found["lower"], found["upper"]) == pytest.approx((0.02 - half, 0.07))
    assert found["p_value"] == pytest.approx(2 * norm.sf(0.02 / half * norm.ppf(0.975)))
    unknown = contrasts(cut, ["G"], 0.95, False, np.array([[0.0, 1.0]]), reach=np.full((2, 3), np.nan)).iloc[0]
    assert (unknown["lower"], unknown["upper"]) == pytest.approx((-0.05, 0.07))


def test_a_difference_ends_where_differences_end_and_holds_its_estimate():
    reach = np.array([[0.95, 0.7, 1.2], [-0.2, -0.5, 0.1]])  # the second estimate is reported as 0
    found = contrasts(
        groups((0.95, 0.7, 1.0), (0.0, 0.0, 0.1)), ["G"], 0.95, False, np.array([[0.0, 1.0]]), reach=reach
    ).iloc[0]
    assert found["lower"] == -1.0
    assert found["estimate"] == -0.95
    assert found["upper"] == pytest.approx(-1.15 + np.hypot(0.3, 0.25))
    far = np.array([[0.95, 0.94, 0.96], [-0.2, -0.21, -0.19]])
    found = contrasts(
        groups((0.95, 0.94, 0.96), (0.0, 0.0, 0.0)), ["G"], 0.95, False, np.array([[0.0, 1.0]]), reach=far
    ).iloc[0]
    assert found["lower"] <= found["estimate"] <= found["upper"]


def test_changes_of_what_is_not_there_are_covered_as_stated():
    """The test uses 600 pairs of counts. The true counts are 0. The tolerance for the coverage is .035. The probability
    of a false alarm is 0.0001.

    If the ends of the two intervals are added, the coverage is .99.
    """
    rng, sigma, z = np.random.default_rng(7), 10.0, norm.ppf(0.975)
    counts = rng.normal(0, sigma, (2, 600))
    ends = np.maximum(counts - z * sigma, 0.0), upper_end(counts, sigma, 0.95)
    frame = pd.DataFrame(
        {
            "G": np.repeat([0, 1], 600),
            "value": np.tile(np.arange(600), 2),
            "estimate": counts.ravel(),
            "lower": ends[0].ravel(),
            "upper": ends[1].ravel(),
            "standard_error": sigma,
            "sampling_error": 0.0,
            "basis": "measured",
        }
    )
    reach = np.column_stack([counts.ravel(), counts.ravel() - z * sigma, counts.ravel() + z * sigma])
    limits = np.array([[0.0, np.inf]])
    found = contrasts(frame, ["G"], 0.95, False, limits, reach=reach)
    assert np.mean((found["lower"] <= 0) & (found["upper"] >= 0)) == pytest.approx(0.95, abs=0.035)
    assert np.mean(found["p_value"] < 0.05) == pytest.approx(0.05, abs=0.035)
    added = contrasts(frame, ["G"], 0.95, False, limits)
    assert np.mean((added["lower"] <= 0) & (added["upper"] >= 0)) > 0.97
    assert (found["upper"] - found["lower"]).mean() < (added["upper"] - added["lower"]).mean()
