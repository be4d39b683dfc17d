"""The benchmark of counts by place: its bound against measurements that try to pass it, and one small run."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.geography import (
    AGES,
    CELLS,
    OTHERS,
    STATES,
    drawn,
    least_error,
    measure,
    schema_of,
    show,
    ten_states,
)
from equistrata.data.table import CodedTable
from equistrata.synth.mechanisms.levels import NESTED_SHARE


def people(rows, seed=0):
    """Rows of two states with three places each."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 6, rows)
    made = {"ST": place // 3, "PUMA": place, "SEX": rng.integers(1, 3, rows), "RAC1P": rng.integers(1, 10, rows)}
    others = {name: rng.choice(list(values), rows) for name, values in OTHERS.items()}
    return pd.DataFrame(made | {"AGEP": rng.integers(AGES[0], AGES[-1], rows)} | others)


@pytest.mark.parametrize("kind", ["cells", "sums", "both", "random", "differences"])
def test_no_measurement_of_its_price_passes_the_bound(kind):
    """Posterior variances of six Poisson-like counts after measurements in which each cell costs ρ at most."""
    rng, rho = np.random.default_rng(3), 0.02
    expected = np.array([0.1, 1.0, 5.0, 20.0, 60.0, 200.0])
    sums = np.kron(np.eye(2), np.ones(3))
    design = {
        "cells": np.eye(6),
        "sums": sums,
        "both": np.vstack([np.eye(6), 2 * sums]),
        "random": rng.normal(size=(12, 6)),
        "differences": np.eye(6) - np.eye(6, k=1),
    }[kind]
    information = design.T @ design
    information *= 2 * rho / information.diagonal().max()  # the dearest cell costs ρ
    left = np.linalg.inv(np.diag(1 / expected) + information).diagonal()
    bound = expected / (2 * rho) / (expected + 1 / (2 * rho))
    assert np.all(left >= bound * (1 - 1e-9))
    assert least_error(expected, rho) == pytest.approx(np.sqrt(bound.mean()))
    assert np.allclose(left, bound) == (kind == "cells")


def test_sizes_cost_their_share_and_are_about_the_counts():
    frame = people(3000)
    schema, rho = schema_of(frame), 0.5
    counts = np.zeros([schema[name].size for name in CELLS])
    table = CodedTable.encode(frame, schema)
    np.add.at(counts, tuple(table.codes[:, schema.index(name)] for name in CELLS), 1)
    found = drawn(counts, schema, rho, seed=0)
    assert sum(1 / (2 * each.sigma**2) for each in found) == pytest.approx(NESTED_SHARE * rho)
    assert {each.columns for each in found} >= {CELLS, ("PUMA", "SEX")}
    for each in found:  # the whole table, each time: five standard deviations
        assert each.values.sum() == pytest.approx(3000, abs=5 * each.sigma * each.values.size**0.5)


def test_made_up_states_have_places_and_rows():
    frame = ten_states(people(5000), seed=0)
    assert frame["ST"].nunique() == STATES
    assert (frame.groupby("PUMA")["ST"].nunique() == 1).all()
    assert frame.groupby("PUMA").size().median() == pytest.approx(1400, rel=0.1)


def test_a_line_for_the_bound_and_for_each_way(capsys):
    from rich.console import Console

    frame = people(2000)
    table = CodedTable.encode(frame, schema_of(frame))
    lines = [*measure(table, 3.0, 1e-9, seeds=1, fits=[("MST without strata", "mst", ())])]
    sizes = next(line for line in lines if line.way.startswith("sizes alone"))
    least = next(line for line in lines if f"{NESTED_SHARE:g} of" in line.way and line.seed is None)
    assert least.error < sizes.error < 20
    assert lines[-1].way == "MST without strata"
    show(lines, Console(width=120))
    assert "MST without strata" in capsys.readouterr().out
