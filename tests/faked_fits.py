"""Tests that nothing is published except noise: if the noise is fixed, the fits to different tables are identical."""

from __future__ import annotations

import numpy as np
from small_tables import fit, schema_of, table_of
from spies import FakeNoise

from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho

SIZES = (2, 3, 4, 2)


def unlike_tables():
    """Return four different tables: an empty table, a table with one row, one with 30,000 random rows, and one with 777
    equal rows.
    """
    tables = [table_of(0, SIZES), table_of(1, SIZES), table_of(30_000, SIZES, seed=9)]
    return [*tables, CodedTable(np.zeros((777, 4), dtype=np.uint8), schema_of(*SIZES))]


def fits_of_the_same_bits(mechanism, level, arrays=lambda model: ()):
    """Check that the fits to the tables of `unlike_tables` have the same measurements, models and samples, and return
    these fits.
    """
    first, *others = fits = [fit(mechanism, table, Rho(0.1), FakeNoise(level)) for table in unlike_tables()]
    for other in others:
        for a, b in zip(first.measurements, other.measurements, strict=True):
            assert (a.columns, a.sigma, a.groups) == (b.columns, b.sigma, b.groups)
            np.testing.assert_array_equal(a.values, b.values)
        assert other.model.total == first.model.total
        for a, b in zip(arrays(first.model), arrays(other.model), strict=True):
            np.testing.assert_array_equal(a, b)
        samples = [each.model.sample(300, np.random.default_rng(1)).codes for each in (first, other)]
        np.testing.assert_array_equal(*samples)
    return fits
