"""Tests of the rates by stratum, which are compared with a direct count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equistrata.errors import InputError
from equistrata.eval.scores.fairness import group_fairness


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_counting(seed):
    rng = np.random.default_rng(seed)
    n = 800
    rows = pd.DataFrame(
        {
            "t": rng.integers(0, 2, n),
            "p": rng.integers(0, 2, n),
            "g": rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.095, 0.005]),
        }
    )
    selection, misses, right = {}, {}, {}
    for key, group in rows.groupby("g"):
        if len(group) >= 20:
            selection[key] = (group["p"] == 1).mean()
            misses[key] = (group.loc[group["t"] == 1, "p"] == 0).mean()
            right[key] = (group["t"] == group["p"]).mean()
    result = group_fairness(rows["t"], rows["p"], rows["g"])
    assert "d" not in selection  # the group has about 4 rows, which is not enough
    assert result.selection_rate == pytest.approx(selection)
    assert result.false_negative_rate == pytest.approx(misses)
    assert result.accuracy_by_stratum == pytest.approx(right)
    assert result.dpr == pytest.approx(min(selection.values()) / max(selection.values()))
    assert result.fnr_diff == pytest.approx(max(misses.values()) - min(misses.values()))
    assert result.accuracy == pytest.approx((rows["t"] == rows["p"]).mean())


def test_by_hand():
    # In a, 2 of 4 are selected and 1 of 2 positives is missed. In b, 1 of 4 is selected and 2 of 3 are missed. The
    # group c is too small.
    truth = [1, 1, 0, 0, 1, 1, 1, 0, 1]
    predicted = [1, 0, 1, 0, 1, 0, 0, 0, 0]
    result = group_fairness(truth, predicted, list("aaaabbbbc"), min_rows=4)
    assert (result.dpr, result.accuracy) == (0.5, pytest.approx(4 / 9))
    assert result.fnr_diff == pytest.approx(2 / 3 - 1 / 2)


def test_a_stratum_without_positive_rows_is_left_out_of_the_misses_only():
    result = group_fairness([0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1], list("aabbcc"), min_rows=1)
    assert set(result.selection_rate) == set("abc")
    assert result.false_negative_rate == {"b": 0.5, "c": 0.0}
    assert (result.dpr, result.fnr_diff) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("truth", "predicted", "min_rows", "dpr", "fnr_diff"),
    [
        ([1, 0, 1, 0], [0, 0, 0, 0], 1, 1.0, 0.0),  # no row is selected
        ([1, 0, 1, 0], [1, 1, 0, 0], 1, 0.0, 1.0),  # no row of one stratum is selected
        ([0, 0, 0, 0], [0, 1, 0, 1], 1, 1.0, 0.0),  # no row is positive
        ([1, 1, 1, 1], [1, 1, 1, 1], 1, 1.0, 0.0),
        ([1, 0, 1, 0], [1, 1, 0, 0], 3, 1.0, 0.0),  # no stratum is large enough
    ],
)
def test_degenerate_tables_give_numbers(truth, predicted, min_rows, dpr, fnr_diff):
    result = group_fairness(truth, predicted, ["a", "a", "b", "b"], min_rows=min_rows)
    assert (result.dpr, result.fnr_diff) == (dpr, fnr_diff)
    assert np.isfinite([result.accuracy, result.dpr, result.fnr_diff]).all()


def test_other_labels_count_as_the_rest():
    result = group_fairness(["x", "y", "z", "z"], ["x", "z", "z", "y"], list("aabb"), positive="z", min_rows=1)
    assert result.selection_rate == {"a": 0.5, "b": 0.5}
    assert result.false_negative_rate == {"b": 0.5}
    assert result.accuracy == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1, 0], ["a"]), "differ in length"),
        (([], [], []), "no test row"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        group_fairness(*arguments)
    with pytest.raises(InputError, match="min_rows is 0"):
        group_fairness([1], [1], ["a"], min_rows=0)
