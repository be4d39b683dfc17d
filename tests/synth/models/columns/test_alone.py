"""Tests of single columns: the levels of a tree of bins, the least-squares estimate and the error of sums."""

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import FilteredMeasurement, Measurement, root_mean_square
from equistrata.synth.models.coarsening import Coarsening
from equistrata.synth.models.columns.alone import Alone, tree_of

BMI = Column("BMI", lower=10, upper=80, release="draw")
HOURS = Column("HOURS", lower=0, upper=99, integer=True, missing="own", release="draw")
PAY = Column("PAY", lower=0, upper=1_000_000, integer=True, release="draw")
SEX = Column("SEX", values=(1, 2))


def test_levels_of_the_tree_are_nested_and_the_missing_stand_alone():
    for column in (BMI, HOURS, PAY):
        whole, *levels = tree_of(column)
        assert whole is None
        assert levels
        for level, nodes in enumerate(levels, start=1):
            branches = 4 if column is HOURS else 8
            assert np.bincount(nodes)[: -2 if column.missing else -1].tolist() == [branches**level] * (
                max(nodes) - bool(column.missing)
            )
            assert list(nodes).count(nodes[-1]) == 1 or column.missing is None
    assert tree_of(Column("X", lower=0, upper=3, integer=True)) == (None,)


def measured(column, counts, sigma, seed, levels=None):
    rng, found = np.random.default_rng(seed), []
    for nodes in tree_of(column)[:levels]:
        sums = counts if nodes is None else np.bincount(nodes, counts)
        found.append(Measurement((column.name,), sums + rng.normal(0, sigma, len(sums)), sigma, (nodes,)))
    return found


def test_levels_of_an_earlier_version_are_read():
    counts, rng = np.linspace(0, 50, HOURS.size), np.random.default_rng(0)
    eights = (*(code >> 3 for code in range(HOURS.bins)), (HOURS.bins >> 3) + 1)
    design = np.vstack([np.eye(HOURS.size), np.arange(max(eights) + 1)[:, None] == eights])
    answers = design @ counts + rng.normal(0, 10, len(design))
    found = [Measurement(("HOURS",), answers[: HOURS.size], 10.0), Measurement(("HOURS",), answers[HOURS.size :], 10.0,
             (eights,))]  # fmt: skip
    expected = np.linalg.lstsq(design, answers, rcond=None)[0]
    np.testing.assert_allclose(Alone.of(HOURS, found).raw, expected, atol=1e-8)
    schema = Schema("people", (SEX, HOURS))
    assert Coarsening.of(schema, found).schema.sizes == (2, 1)


def test_counts_of_nodes_keep_the_noise_of_many_bins_from_adding_up():
    """The tail above 50 contains many of the 300 bins, so the error of its noisy sum is √300·σ. If the tree is used,
    the error is a fifth of this.

    The errors are means over 40 draws.
    """
    values = np.random.default_rng(0).normal(27, 5, 5000).clip(10, 80)
    counts = CodedTable.encode(pd.DataFrame({"BMI": values}), Schema("b", (BMI,))).marginal(("BMI",)).astype(float)
    tail = np.array(BMI.cuts[1:]) > 50
    far = [
        np.mean(
            [abs(Alone.of(BMI, measured(BMI, counts, 10.0, seed, n)).raw[tail].sum() - counts[tail].sum())
             for seed in range(40)]
        )
        for n in (1, None)
    ]  # fmt: skip
    assert far[0] == pytest.approx(np.sqrt(tail.sum()) * 10 * np.sqrt(2 / np.pi), rel=0.35)
    assert far[1] < 0.35 * far[0]


def test_sums_over_groups_are_unbiased_and_no_noisier_than_they_say():
    """The test uses 400 draws. The tolerance for the mean is 4 standard errors. The standard deviation must be at most
    1.12 times the stated value.

    The probability of a false alarm is about 1 in 10,000.
    """
    counts = np.linspace(0, 50, HOURS.size)
    groups = (*np.repeat([0, 1, 2, 3], [3, 17, 40, 40]).tolist(), 4)
    sums = [Alone.of(HOURS, measured(HOURS, counts, 10.0, seed)).sums(HOURS, groups) for seed in range(400)]
    values, stated = np.array([each.values for each in sums]), sums[0].sigmas
    assert (np.abs(values.mean(0) - np.bincount(groups, counts)) < 4 * stated / 20).all()
    assert (values.std(0) < 1.12 * stated).all()
    assert (values.std(0) > 0.5 * stated).all()


def test_a_group_may_hold_missing_cells_too():
    counts = np.linspace(0, 50, HOURS.size)
    alone = Alone.of(HOURS, measured(HOURS, counts, 10.0, 0))
    whole, apart = (alone.sums(HOURS, groups) for groups in ((0,) * HOURS.size, (*(0,) * HOURS.bins, 1)))
    assert whole.values[0] == pytest.approx(apart.values.sum())
    assert whole.sigmas[0] ** 2 == pytest.approx((apart.sigmas**2).sum())
    assert not alone.sums(HOURS, None).sigmas[: HOURS.bins].max() > 10


def test_a_part_without_counts_of_its_own_has_the_shape_of_the_whole():
    whole = np.linspace(1, 50, BMI.size)
    np.testing.assert_array_equal(Alone.of(BMI, [], whole).smooth, whole)
    faint = measured(BMI, whole / 1000, 10.0, 0)
    apart = [np.abs(each / each.sum() - whole / whole.sum()).sum() for each in
             (Alone.of(BMI, faint, prior).smooth for prior in (whole, None))]  # fmt: skip
    assert apart[0] < 0.6 * apart[1]


def test_a_count_that_others_know_badly_is_its_own_measurement():
    """The standard deviation of the prediction from the other strata is 300 for the most frequent bin and 2 for the
    other bins.
    """
    column = Column("VISITS", lower=0, upper=40, integer=True, release="draw")
    counts = np.append([400.0], np.full(40, 5.0))
    sigmas = np.append([300.0], np.full(40, 2.0))
    others = FilteredMeasurement(
        ("VISITS",), np.append([900.0], np.full(40, 5.0)), root_mean_square(sigmas), sigmas=sigmas
    )
    for seed in range(20):
        found = Alone.of(column, [*measured(column, counts, 30.0, seed), others])
        assert abs(found.raw[0] - 400) < 100
        assert np.abs(found.raw[1:] - 5).mean() < 3
