"""Tests of the tables of the scaling benchmark."""

import numpy as np
import pytest

from benchmarks.child import schema_of
from benchmarks.rows import COLUMNS
from benchmarks.scaling import AXES, CUTS, Setting, names, resample, settings
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable


def test_the_cuts_have_as_many_strata_as_they_say():
    for count, columns in CUTS.items():
        assert len(Strata.over(schema_of(COLUMNS), columns).keys) == count


@pytest.mark.parametrize("width", AXES["columns"])
def test_tables_of_every_width_keep_the_columns_that_cut(width):
    assert len(set(names(width))) == width
    assert {"SEX", "RAC1P"} <= set(names(width))


def test_copies_are_not_duplicates_but_keep_their_relations_to_each_other():
    codes = np.random.default_rng(0).integers(0, 2, (500, 1)).repeat(len(COLUMNS), axis=1).astype(np.uint8)
    table = resample(CodedTable(codes, schema_of(COLUMNS)), Setting(rows=2000, columns=12), np.random.default_rng(1))
    assert table.codes.shape == (2000, 12)
    np.testing.assert_array_equal(table.column("AGEP"), table.column("SCHL"))
    np.testing.assert_array_equal(table.column("AGEP~2"), table.column("SCHL~2"))
    assert 0.4 < (table.column("AGEP") == table.column("AGEP~2")).mean() < 0.6


def test_one_thing_changes_at_a_time():
    points = list(settings(list(AXES), 1_000_000))
    assert sum(axis == "rows" for axis, _ in points) == 3
    for axis, setting in points:
        changed = [name for name, value in vars(Setting()).items() if value != getattr(setting, name)]
        assert changed in ([], [axis])
