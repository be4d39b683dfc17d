"""The benchmark of planned noise: one small run, in which drawn noise is about the planned."""

from math import isnan

import numpy as np
import pytest

from benchmarks.noise_plan import main, measure
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable

SCHEMA = Schema("people", tuple(Column(name, values=(0, 1, 2, 3)) for name in ("S", "A", "B", "C")))


def test_drawn_noise_is_about_the_planned():
    """40 cells of noise or more at a time: a mean within 40 % (four standard deviations), seeded."""
    codes = np.random.default_rng(0).integers(0, (3, 4, 4, 4), (6000, 4)).astype(np.uint8)
    codes[:, 2] = codes[:, 1]
    lines = list(measure(CodedTable(codes, SCHEMA), Strata.over(SCHEMA, ("S",)), "mst", 1.0, seed=0))
    assert len(lines) == 2 * 3  # a stratum has no row
    one = [line for line in lines if line.ways == 1]
    assert np.mean([line.drawn for line in one]) == pytest.approx(1, abs=0.4)
    assert all(0 < line.planned < 0.1 and line.model < 0.1 for line in one)
    assert all(isnan(line.drawn) or line.drawn < 3 for line in lines)


def test_the_help_names_it(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["noise_plan", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "noise_plan" in capsys.readouterr().out
