import numpy as np
import pandas as pd
import pytest

from equistrata.analysis.derived import contrasts


def groups(first, second):
    """Two groups with (estimate, lower, upper) each."""
    lines = [
        {"G": place, "estimate": value, "lower": low, "upper": high, "standard_error": 0.1, "basis": "measured"}
        for place, (value, low, high) in enumerate((first, second))
    ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize("known_first", [True, False])
@pytest.mark.parametrize("real", [0.0, 1.0])
def test_a_share_of_which_nothing_is_known_may_be_0_or_1(known_first, real):
    """A group of a few rows, all of one value, against a large one whose share is a little over- or underestimated."""
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
