"""The benchmark of means at two levels, on the embedded sample."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.means_levels import NEW, measure, ratios, read
from equistrata.data.sources import SampleSource


def test_every_place_has_a_ratio():
    schema, table, outcomes = read(SampleSource())
    lines = measure(schema, table, {"WKHP": outcomes["WKHP"]}, ("SEX", "RAC1P"), (0.1,), seeds=3)
    assert len(lines) == 2 * 2 * 6
    assert np.isfinite(lines[["population", "parity"]].to_numpy()).all()
    assert (lines.parity >= lines.population / lines.k).all()
    found = ratios(lines)
    assert found.shape == (4, 4)
    assert (found.to_numpy() > 0).all()
    by_sex = lines[(lines.k == 2) & (lines.sizes == "noisy")].set_index("estimator")
    best = by_sex.population[["own vanilla", "own stratified"]].min()
    assert found.loc["WKHP", 2, 0.1, "noisy"]["population/own"] == pytest.approx(by_sex.population[NEW] / best)
