"""Tests of the comparison of tables: errors, equal values, and the strata that are used."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equistrata.errors import InputError
from equistrata.eval.scores.tables import Pair, code_with_same_schema, numbers_of, row_keys, strata_of


def both(real, synthetic):
    return {"real": pd.DataFrame({"A": real}), "synthetic": pd.DataFrame({"A": synthetic})}


def joint_codes(tables, column):
    """Return the codes of a column in each table, and the declared values."""
    coded = code_with_same_schema(tables)
    levels = next(iter(coded.values())).schema[column].values
    return [table.column(column).astype(int) for table in coded.values()], levels


def joint_numbers(tables, column):
    coded = code_with_same_schema(tables).values()
    return [numbers_of(table.schema[column])[table.column(column)] for table in coded]


@pytest.mark.parametrize(
    ("real", "synthetic"),
    [
        ([1, 2, 2], [1.0, 2.0, 2.0]),
        ([1, 2, 2], pd.array([1, 2, 2], dtype="Int64")),
        ([1, 2, 2], pd.Categorical([1, 2, 2], categories=[2, 1])),
        ([1, 0, 0], [True, False, False]),
        ([1, 2, 2], pd.Series([1, 2, 2], dtype=object)),
        (["b", "a", "a"], pd.Categorical(["b", "a", "a"])),
        (["b", None, "a"], pd.Series(["b", None, "a"], dtype="string")),
        ([1, None, 2], pd.array([1, None, 2], dtype="Int8")),
    ],
)
def test_the_same_values_in_another_type_are_the_same(real, synthetic):
    (left, right), _ = joint_codes(both(real, synthetic), "A")
    assert left.tolist() == right.tolist()
    left, right = joint_numbers(both(real, synthetic), "A")
    np.testing.assert_array_equal(left, right)


def test_an_absent_cell_is_a_value_of_its_own_in_codes_and_skipped_in_numbers():
    tables = both([3.0, None], [None, 3.0])
    (real, synthetic), levels = joint_codes(tables, "A")
    assert levels[0] == 3.0
    assert np.isnan(levels[1])
    assert (real.tolist(), synthetic.tolist()) == ([0, 1], [1, 0])
    assert np.isnan(joint_numbers(tables, "A")[0][1])


def test_a_column_without_any_value_agrees_with_numbers_and_with_text():
    for other in ([1, 2], ["a", "b"], [None, None]):
        (real, synthetic), levels = joint_codes(both([None, None], other), "A")
        assert set(real) == {len(levels) - 1}
        assert len(synthetic) == 2


def test_text_counts_as_its_sorted_place():
    real, synthetic = joint_numbers(both(["no", "yes"], ["yes", "maybe"]), "A")
    assert (real.tolist(), synthetic.tolist()) == ([1.0, 2.0], [2.0, 0.0])


def test_bad_tables_are_refused_without_quoting_a_row():
    good = pd.DataFrame({"A": [1, 2], "B": [3, 4]})
    cases = [
        (good.iloc[:0], [], "holds no rows"),
        (good[["A"]], [], "has no column 'B'"),
        (good.assign(C=1), [], "has columns that the real table has not"),
        (pd.DataFrame([[1, 2]], columns=["A", "A"]), [], "two columns of one name"),
        (good, ["D"], "has no column 'D'"),
        (good, ["A", "A"], "given twice"),
        (good, "A", "not the text"),
    ]
    for synthetic, named, message in cases:
        with pytest.raises(InputError, match=message):
            code_with_same_schema({"real": good, "synthetic": synthetic}, named)
    for real, synthetic, message in [([77, 2], ["77", "b"], "numbers in one"), ([77, 2], [np.inf, 1], "infinite")]:
        with pytest.raises(InputError, match=message) as caught:
            joint_codes(both(real, synthetic), "A")
        assert "77" not in str(caught.value)


def test_keys_stay_apart_and_in_order_when_the_cross_product_overflows():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2**20, 500) for _ in range(5)]
    columns = [np.concatenate([column, column[:100]]) for column in columns]
    key, bound = row_keys(columns, [2**20] * 5)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert key.max() < bound < 2**63
    assert [rows[i] for i in np.argsort(key, kind="stable")] == sorted(rows)
    assert len(np.unique(key)) == len(set(rows))


def test_strata_carry_their_keys_whatever_the_order_of_rows():
    real = pd.DataFrame({"S": [2, 1, 1, 2], "R": ["x", "y", None, "x"]})
    synthetic = real.iloc[::-1]
    labels, (in_real, in_synthetic) = strata_of(
        list(code_with_same_schema({"real": real, "synthetic": synthetic}).values()), ["S", "R"]
    )
    assert labels == ("S=1,R=y", "S=1,R=missing", "S=2,R=x")
    assert in_real.tolist() == [2, 0, 1, 2]
    assert in_synthetic.tolist() == in_real.tolist()[::-1]


def test_the_real_table_alone_decides_which_strata_are_kept():
    real = pd.DataFrame({"S": [1] * 998 + [2] + [3]})
    synthetic = pd.DataFrame({"S": [2] * 500 + [9] * 500})
    strata = Pair.of(real, synthetic, ["S"], min_share=0.002)
    assert strata.labels == ("S=1",)
    assert set(strata.synthetic_place) == {-1}
    # A stratum with exactly the minimum share is kept. A stratum without a real row is never kept.
    assert Pair.of(real, synthetic, ["S"], min_share=0.001).labels == ("S=1", "S=2", "S=3")
    assert Pair.of(real, synthetic, ["S"], min_share=0).labels == ("S=1", "S=2", "S=3")
    assert Pair.of(real, synthetic, [], min_share=0.5).labels == ("all",)


def test_a_share_that_cannot_be_is_refused():
    real = pd.DataFrame({"S": [1, 2, 3]})
    with pytest.raises(InputError, match=r"min_share is 1\.5"):
        Pair.of(real, real, ["S"], min_share=1.5)
    with pytest.raises(InputError, match="no stratum holds"):
        Pair.of(real, real, ["S"], min_share=0.9)
