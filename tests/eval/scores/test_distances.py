"""Tests of the distances between tables, which must not depend on the order or the unit of the values."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.eval.scores.distances import parity_distance, total_variation, wasserstein
from equistrata.eval.scores.scores import score
from equistrata.eval.scores.tables import Pair, in_bins

JOB = Column("JOB", values=("a", "b", "c", "d"))
PAY = Column("PAY", lower=0, upper=1000, edges=(0, 10, 100, 400, 1000), missing="own")
AGE = Column("AGE", lower=0, upper=99, integer=True)
G = Column("G", values=(1, 2, 3))
SCHEMA = Schema("s", (G, JOB, PAY, AGE))


def table_of(rows, seed, schema=SCHEMA, lean=0.0):
    """Return random codes. In G = 3, larger codes have a higher probability, which is given by `lean`."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, schema.sizes, (rows, len(schema.names)))
    more = (codes[:, 0] == 2) & (rng.random(rows) < lean)
    codes[more, 1:] = np.array(schema.sizes)[1:] - 1 - (codes[more, 1:] > 2)
    return CodedTable(codes.astype(np.uint8), schema)


def pair_of(strata=("G",), lean=0.5):
    return Pair.of(table_of(2000, 0), table_of(1500, 1, lean=lean), strata)


def test_by_hand():
    """In G = 1, half of JOB is different (0.5). For half of the rows, PAY is one bin higher (250 of 1000). For the
    other half, it is missing.
    """
    real = pd.DataFrame({"G": [1] * 4 + [2] * 2, "JOB": [*"aabb", *"cc"], "PAY": [5, 5, 5, 5, 50, 50], "AGE": [10] * 6})
    made = pd.DataFrame({"G": [1] * 4, "JOB": [*"aaaa"], "PAY": [250, 250, np.nan, np.nan], "AGE": [20] * 4})
    pair = Pair.of(*(CodedTable.encode(each, SCHEMA) for each in (real, made)), ["G"])
    found = parity_distance(pair)
    pay = 0.5 + 0.5 * (250 - 5) / 1000
    assert found.errors == pytest.approx(np.array([[0.5, pay, 10 / 99], [1, 1, 1]]))
    assert found.value == pytest.approx(found.errors.mean(1).sum() + found.population.mean() / 2)
    assert total_variation(pair).errors[0] == pytest.approx([0.5, 1, 1])
    assert wasserstein(pair) == pytest.approx({"PAY": 250 - (4 * 5 + 2 * 55) / 6, "AGE": 10})


def test_equal_tables_have_none_and_others_at_most_the_most():
    assert parity_distance(Pair.of(table_of(500, 0), table_of(500, 0), ["G"])).value == 0
    ends = [
        CodedTable(np.array([[0, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0]], np.uint8), SCHEMA),
        CodedTable(np.array([[0, 3, 4, 99], [1, 3, 4, 99], [2, 3, 4, 99]], np.uint8), SCHEMA),
    ]
    assert 3.3 < parity_distance(Pair.of(*ends, ["G"])).value <= 3 + 1 / 3  # a number is in the middle of its bin
    assert parity_distance(Pair.of(*ends)).value <= 1


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 3, 0, 2)])
def test_the_order_of_declared_values_does_not_matter(order):
    turned = replace(SCHEMA, columns=(G, replace(JOB, values=tuple(JOB.values[i] for i in order)), PAY, AGE))
    pair = pair_of()
    codes = [np.argsort(order)[table.codes[:, 1]] for table in (pair.real, pair.synthetic)]
    tables = [
        CodedTable(np.column_stack([table.codes[:, 0], new, table.codes[:, 2:]]).astype(np.uint8), turned)
        for table, new in zip((pair.real, pair.synthetic), codes, strict=True)
    ]
    before, after = (score(real, made, ["G"], classifiers=()) for real, made in ((pair.real, pair.synthetic), tables))
    assert after.parity_distance == pytest.approx(before.parity_distance, abs=1e-12)
    assert after.total_variation == pytest.approx(before.total_variation, abs=1e-12)
    assert after.workload3 == pytest.approx(before.workload3, abs=1e-12)
    assert after.parity_error != pytest.approx(before.parity_error, rel=1e-6)  # the parity error depends on the order


def test_the_unit_does_not_matter():
    cents = replace(PAY, lower=0, upper=100_000, edges=tuple(100 * edge for edge in PAY.edges))
    pair = pair_of()
    scaled = [
        CodedTable(table.codes, replace(SCHEMA, columns=(G, JOB, cents, AGE))) for table in (pair.real, pair.synthetic)
    ]
    other = Pair.of(*scaled, ["G"])
    assert parity_distance(other).errors == pytest.approx(parity_distance(pair).errors, abs=1e-12)
    assert wasserstein(other)["PAY"] == pytest.approx(100 * wasserstein(pair)["PAY"])


def test_they_are_those_of_the_rows():
    pair = pair_of(())
    for name in ("PAY", "AGE"):
        column = SCHEMA[name]
        middles = (np.array(column.cuts[1:]) + np.array(column.cuts[:-1])) / 2
        values = [middles[t.column(name)[t.column(name) < column.bins]] for t in (pair.real, pair.synthetic)]
        assert wasserstein(pair)[name] == pytest.approx(wasserstein_distance(*values))


def test_the_group_that_is_served_worst_is_found():
    found = parity_distance(pair_of(lean=0.3)).by_stratum
    assert max(found, key=found.get) == "G=3"
    assert found["G=3"] > 3 * found["G=1"]


def test_frames_that_nobody_declared():
    """A column is numeric if it has many different numbers. Otherwise, the column is nominal."""
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"X": rng.normal(0, 1, 300), "K": rng.integers(0, 3, 300)})
    made = real.assign(X=real["X"] + 0.5)
    found = score(real, made, classifiers=())
    assert found.wasserstein == pytest.approx({"X": 0.5})
    reach = max(made["X"].max(), real["X"].max()) - real["X"].min()
    assert found.distance_by_column == pytest.approx({"X": 0.5 / reach, "K": 0})
    gone = made.assign(X=made["X"].where(made.index < 150))
    assert score(real, gone, classifiers=()).distance_by_column["X"] > 0.5
    assert score(real, real, classifiers=()).parity_distance == 0


def test_fine_bins_of_numbers_are_merged_for_marginals_by_synthetic_rows_alone():
    column = Column("PAY", lower=0, upper=100_000, integer=True, codes=((-9, "refused"),))
    schema = Schema("wide", (G, column, AGE))
    rng = np.random.default_rng(0)
    real, made = (CodedTable(rng.integers(0, schema.sizes, (3000, 3)).astype(np.uint16), schema) for _ in range(2))
    ours, theirs = in_bins(real, made)
    assert ours.schema.sizes == theirs.schema.sizes == (3, 21, 20)
    parts = np.bincount(theirs.column("PAY"))[:20]
    assert parts.max() < 1.3 * parts.min()
    for old, new in ((real, ours), (made, theirs)):
        assert ((old.column("PAY") == column.bins) == (new.column("PAY") == 20)).all()  # the code for missing values
        order = np.argsort(old.column("PAY"), kind="stable")
        assert (np.diff(new.column("PAY")[order].astype(int)) >= 0).all()
    other = CodedTable(real.codes[::-1][:100], schema)
    assert (in_bins(other, made)[1].codes == theirs.codes).all()
    assert score(real, made, ["G"], classifiers=()).workload3 < 1.4  # the value is 1.96 with 1,000 × 100 cells
    narrow = table_of(50, 0, SCHEMA.select(["G", "JOB"]))
    assert in_bins(narrow, narrow)[0] is narrow
