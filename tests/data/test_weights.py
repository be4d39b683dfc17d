"""Tests of public weights: the sources, the errors and the allocation of rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import ROWS, PublicWeights
from equistrata.errors import InputError

SCHEMA = Schema(
    "test",
    (
        Column("sex", values=(1, 2)),
        Column("age", lower=0, upper=99, edges=(0, 19, 99), integer=True, release="index"),
        Column("job", values=(0, 1)),
    ),
)
STRATA = Strata.over(SCHEMA, ["sex", "age"])  # (1, 0), (1, 1), (2, 0), (2, 1)


def frame(sizes, column="count", keys=STRATA.keys):
    return pd.DataFrame([(*key, size) for key, size in zip(keys, sizes, strict=True)], columns=["sex", "age", column])


def test_from_counts_in_the_order_of_the_strata():
    counts = dict(reversed(list(zip(STRATA.keys, [1, 2, 3, 4], strict=True))))
    weights = PublicWeights.from_counts(counts, STRATA, "a census")
    assert weights.shares == {(1, 0): 0.1, (1, 1): 0.2, (2, 0): 0.3, (2, 1): 0.4}
    assert tuple(weights.shares) == STRATA.keys
    assert weights.total == 10
    assert weights.source == "a census"


def test_negative_noisy_counts_count_as_nobody():
    weights = PublicWeights.from_counts(dict(zip(STRATA.keys, [-5, 2, 0, 2], strict=True)), STRATA, "noisy counts")
    assert list(weights.shares.values()) == [0, 0.5, 0, 0.5]
    assert weights.total == 4


@pytest.mark.parametrize("sizes", [[0, 0, 0, 0], [-1, -2, -3, 0], [np.nan, 1, 1, 1], [np.inf, 1, 1, 1]])
def test_sizes_that_are_no_sizes(sizes):
    with pytest.raises(InputError, match="have no positive sum"):
        PublicWeights.from_counts(dict(zip(STRATA.keys, sizes, strict=True)), STRATA, "x")


def test_missing_and_unknown_strata():
    counts = dict.fromkeys(STRATA.keys, 1.0)
    with pytest.raises(InputError, match=r"lack the stratum sex=2,age=1; .*4 of them"):
        PublicWeights.from_counts(dict.fromkeys(STRATA.keys[:-1], 1.0), STRATA, "x")
    with pytest.raises(InputError, match="not declared"):
        PublicWeights.from_counts(counts | {(3, 0): 1.0}, STRATA, "x")


@pytest.mark.parametrize("column", ["count", "share"])
def test_from_table_whatever_the_order_and_type_of_its_cells(column):
    sizes = [0.1, 0.2, 0.3, 0.4]
    table = frame(sizes, column)
    variants = [
        table,
        table.iloc[::-1],
        table.astype({"age": float}),
        table.astype({"sex": float}),
        table.astype({"sex": str, "age": str}),
        table.assign(extra="x"),
    ]
    for variant in variants:
        weights = PublicWeights.from_table(variant, STRATA, "a table")
        assert tuple(weights.shares) == STRATA.keys
        assert list(weights.shares.values()) == pytest.approx(sizes)
        assert weights.total is None  # numbers with a sum of one are shares


def test_text_strata_from_a_table():
    schema = Schema("text", (Column("area", values=("01", "a b")), Column("job", values=(0, 1))))
    strata = Strata.over(schema, ["area"])
    table = pd.DataFrame({"area": ["a b", "01"], "count": [3, 1]})
    assert PublicWeights.from_table(table, strata, "x").shares == {("01",): 0.25, ("a b",): 0.75}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (frame([1, 1, 1], keys=STRATA.keys[:3]), "lack the stratum sex=2,age=1"),
        (frame([1, 1], keys=[(1, 0), (1, 0)]), "lists sex=1,age=0, which is listed twice; .* --weight-column count"),
        (frame([1, 1], keys=[(1, 0), (3, 0)]), "lists sex=3,age=0, which is not a declared stratum"),
        (frame([1, 1, 1, -1]), "'count' of .* a non-negative number in each row, but row 4 has none"),
        (frame([1, 1, 1, "many"]), "non-negative number"),
        (frame([1, 1, 1, None]), "non-negative number"),
        (frame([1, 1, 1, np.inf]), "non-negative number"),
        (frame([0.1, 0.2, 0.3, 0.3], "share"), "sum to 0.9, not to 1"),
        (frame([0, 0, 0, 0], "share"), "sum to 0, not to 1"),
        (frame([10, 20, 30, 40], "share"), "sum to 100, not to 1"),
        (frame([np.inf, 0, 0, 0], "share"), "non-negative number"),
        (frame([1, 1, 1, 1], "people"), "has the columns sex, age, people, of which none .* --weight-column rows"),
        (
            frame([1, 1, 1, 1]).assign(Share=1),
            "has the columns sex, age, count, Share, of which several have a usual name",
        ),
        (frame([1, 1, 1, 1]).drop(columns="age"), "has no column 'age'; its columns are sex, count"),
        (frame([True] * 4), "row 1 has none"),
        (frame([1, 1, 1, 1]).iloc[:0], "lack the stratum sex=1,age=0"),
    ],
)
def test_each_mistake_in_a_table_is_told(table, told):
    with pytest.raises(InputError, match=told):
        PublicWeights.from_table(table, STRATA, "w.csv")


def test_shares_that_are_rounded_are_scaled():
    weights = PublicWeights.from_table(frame([0.333, 0.333, 0.333, 0.0005], "share"), STRATA, "x")
    assert sum(weights.shares.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("shares", [{(1,): -0.5, (2,): 1.5}, {(1,): 0.4, (2,): 0.4}, {(1,): np.nan, (2,): 1.0}, {}])
def test_the_constructor_refuses_what_is_no_distribution(shares):
    with pytest.raises(InputError, match=r"share"):
        PublicWeights(shares, "x")


def test_from_a_public_sample():
    people = pd.DataFrame({"sex": [1, 1, 2, 2, 2], "age": [5, 50, 60, 61, 19], "w": [1.0, 1, 2, 2, 4]})
    plain = PublicWeights.from_sample(people, STRATA, "a sample")
    assert plain.shares == {(1, 0): 0.2, (1, 1): 0.2, (2, 0): 0.2, (2, 1): 0.4}
    assert plain.total == 5
    weighted = PublicWeights.from_sample(people, STRATA, "a sample", "w")
    assert weighted.shares == {(1, 0): 0.1, (1, 1): 0.1, (2, 0): 0.4, (2, 1): 0.4}
    assert weighted.total == 10
    with pytest.raises(InputError, match="has no column 'v'"):
        PublicWeights.from_sample(people, STRATA, "a sample", "v")
    with pytest.raises(InputError, match="'sex', which defines strata"):
        PublicWeights.from_sample(people, STRATA, "a sample", "sex")
    with pytest.raises(InputError, match="non-negative number in each row"):
        PublicWeights.from_sample(people.assign(w=[1, 1, 1, 1, -1]), STRATA, "a sample", "w")
    with pytest.raises(InputError, match="have no positive sum"):
        PublicWeights.from_sample(people.iloc[:0], STRATA, "a sample")


def test_one_stratum_is_everybody():
    whole = Strata.over(SCHEMA, [])
    people = pd.DataFrame({"sex": [1, 2, 2]})
    assert PublicWeights.from_sample(people, whole, "a sample").shares == {(): 1.0}
    assert PublicWeights.from_counts({(): 7}, whole, "x").allocate(3) == {(): 3}
    assert PublicWeights.from_table(pd.DataFrame({"count": [9]}), whole, "x").total == 9


def test_impossible_strata_need_no_weight():
    schema = Schema("test", SCHEMA.columns, impossible=(Impossible(("sex", "age"), ((0,), (0,))),))
    strata = Strata.over(schema, ["sex", "age"])
    weights = PublicWeights.from_table(frame([1, 1, 2], keys=strata.keys), strata, "x")
    assert list(weights.shares) == [(1, 1), (2, 0), (2, 1)]
    with pytest.raises(InputError, match="not a declared stratum"):
        PublicWeights.from_table(frame([1, 1, 1, 1]), strata, "x")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_from_files(tmp_path, ending):
    def saved(table, name):
        path = tmp_path / f"{name}.{ending}"
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        return path

    weights = PublicWeights.from_file(saved(frame([1, 2, 3, 4]), "counts"), STRATA)
    assert list(weights.shares.values()) == [0.1, 0.2, 0.3, 0.4]
    assert weights.source == f"file 'counts.{ending}', column 'count'"
    shares = PublicWeights.from_file(saved(frame([0.25] * 4, "share"), "shares"), STRATA)
    assert shares.allocate(8) == dict.fromkeys(STRATA.keys, 2)
    people = saved(pd.DataFrame({"sex": [1, 2], "age": [5, 50], "w": [1, 3]}), "people")
    assert PublicWeights.from_file(people, STRATA, "w").shares[(2, 1)] == 0.75
    assert PublicWeights.from_file(people, STRATA, ROWS).shares[(2, 1)] == 0.5
    with pytest.raises(InputError, match="none has a usual name for sizes"):
        PublicWeights.from_file(people, STRATA)
    with pytest.raises(InputError, match=r"has no column 'age'; its columns are sex"):
        PublicWeights.from_file(saved(pd.DataFrame({"sex": [1]}), "narrow"), STRATA)


@pytest.mark.parametrize("name", ["count", "Count", "POPULATION", " n ", "Weight", "size", "freq"])
def test_a_column_of_sizes_is_known_by_its_name_in_any_case(name):
    weights = PublicWeights.from_table(frame([900, 50, 30, 20], name), STRATA, "x")
    assert (list(weights.shares.values()), weights.total) == ([0.9, 0.05, 0.03, 0.02], 1000)


def test_a_declared_column_is_the_one_that_is_read(tmp_path):
    """A table of the strata must contain each stratum. If a stratum has several rows, the sizes are added."""
    path = tmp_path / "w.csv"
    frame([1, 2, 3, 4], "count").assign(Einwohner=[10, 10, 10, 70]).to_csv(path, index=False)
    assert PublicWeights.from_file(path, STRATA, "Einwohner").shares[(2, 1)] == 0.7
    frame([1, 2, 3, 4]).iloc[:3].to_csv(path, index=False)
    with pytest.raises(InputError, match="lack the stratum sex=2,age=1"):
        PublicWeights.from_file(path, STRATA, "count")
    people = pd.DataFrame({"sex": [1, 1, 2], "age": [5, 5, 60], "Einwohner": [1, 2, 7]})
    people.to_csv(path, index=False)
    found = PublicWeights.from_file(path, STRATA, "Einwohner")
    assert found.shares == {(1, 0): 0.3, (1, 1): 0.0, (2, 0): 0.0, (2, 1): 0.7}
    assert found.source == "file 'w.csv', column 'Einwohner' over 3 rows"
    people.assign(rows=1).to_csv(path, index=False)
    with pytest.raises(InputError, match=r"each row is one person, and the weights table .* rename the column"):
        PublicWeights.from_file(path, STRATA, ROWS)


def test_text_strata_that_look_like_numbers_from_a_file(tmp_path):
    strata = Strata.over(Schema("areas", (Column("area", values=("01", "1")), Column("job", values=(0, 1)))), ["area"])
    path = tmp_path / "weights.csv"
    path.write_text("area,count\n01,3\n1,1\n")
    assert PublicWeights.from_file(path, strata).shares == {("01",): 0.75, ("1",): 0.25}


@pytest.mark.parametrize("outer", ["9", "'09'"])
def test_places_within_places_are_in_one_column_or_in_two(tmp_path, outer):
    places = f"{{{outer}: ['01', '02'], {outer.replace('9', '8')}: ['01']}}"
    (tmp_path / "s.yaml").write_text(
        f"name: s\ncolumns:\n  PUMA: {{within: ST, values: {places}}}\n  JOB: {{values: [0, 1]}}\n"
    )
    strata, path = Strata.over(Schema.load(tmp_path / "s.yaml"), ["ST/PUMA"]), tmp_path / "w.csv"
    nine, eight = outer.strip("'"), outer.strip("'").replace("9", "8")
    expected = {(f"{nine}/01",): 0.25, (f"{nine}/02",): 0.5, (f"{eight}/01",): 0.25}
    for table in (
        f"PUMA,count\n{nine}/01,1\n{nine}/02,2\n{eight}/01,1\n",
        f"ST,PUMA,count\n{nine},01,1\n{nine},02,2\n{eight},01,1\n",
        f"ST,PUMA,count\n{nine},{nine}/01,1\n{nine},{nine}/02,2\n{eight},{eight}/01,1\n",
    ):
        path.write_text(table)
        assert PublicWeights.from_file(path, strata).shares == expected
    path.write_text(f"ST,PUMA,count\n{nine},01,1\n{nine},02,2\n{eight},02,1\n")
    with pytest.raises(InputError, match=f"lists PUMA={eight}/02, which is not a declared stratum"):
        PublicWeights.from_file(path, strata)


def test_the_published_table_that_comes_along(repo_root):
    strata = Strata.over(Schema.load("acs_employment").selected(), ["SEX", "RAC1P"])
    weights = PublicWeights.from_file(repo_root / "data" / "public" / "ny2018_sex_rac1p.csv", strata)
    assert weights.total == 196_967


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(0, 10**7))
def test_allocation_adds_up_and_is_within_one_of_each_share(sizes, rows):
    assume(sum(sizes) > 1e-6)
    shares = np.array(sizes) / sum(sizes)
    weights = PublicWeights({(i,): share for i, share in enumerate(shares.tolist())}, "x")
    allocated = weights.allocate(rows)
    assert sum(allocated.values()) == rows
    assert tuple(allocated) == tuple(weights.shares)
    quotas = shares / shares.sum() * rows
    assert all(abs(allocated[(i,)] - quota) < 1 + 1e-6 for i, quota in enumerate(quotas))
    assert all(allocated[(i,)] == 0 for i, share in enumerate(shares) if share == 0)


def test_allocation_from_shares_that_are_a_little_off():
    for total in (0.9995, 1.0005):
        weights = PublicWeights({(1,): 0.5 * total, (2,): 0.5 * total}, "x")
        assert weights.allocate(1_000_000) == {(1,): 500_000, (2,): 500_000}
