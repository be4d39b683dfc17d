"""The tight audit of the steps of a release with one additional unit, from the file to the last measurement.

The rows are read, bounded and coded by `reading.partition` with the same key, and are measured at the prices of the
plan, which `ReleaseRun` charges. All measurements and selections are used by an attacker that knows both tables (see
`tradeoff`). The noise has a seed. Only one of the known faults is included in the fast tests, because all of the faults
are also tested in `test_units.py`.
"""

from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from tightness import mechanisms
from tradeoff import DiscreteNoise, play, runs_to_refute

from equistrata.data.units import bounding
from equistrata.data.units.unit import Unit
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import reading
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget
from equistrata.synth.strata.fitting import measure_stratum

SCHEMA = "name: tiny\ncolumns:\n" + "".join(f"  {name}: {{values: [0, 1]}}\n" for name in "ABC")
AT_MOST, ROWS = 3, (6, 7, 7, 10, 4, 0, 0, 0)
SEED = 20261124


def table(unit_rows, before=False):
    """Return a table of 34 people and an additional home in the first cell.

    There are three people in each of five homes and one person in each of the others.
    """
    cells = np.repeat(np.arange(8), ROWS)
    frame = pd.DataFrame({name: cells >> place & 1 for place, name in enumerate("ABC")})
    frame["HOME"] = np.maximum(np.arange(34) - 19, 0) // 3 + np.minimum(np.arange(34), 19)
    more = pd.DataFrame(0, index=range(unit_rows), columns=list("ABC")).assign(HOME=1000)
    return pd.concat([more, frame] if before else [frame, more])


def work_of(folder, frame, **settings):
    """Return a plan and its working folder after the rows are read. All tables have the same key."""
    folder.mkdir()
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "tiny.yaml").write_text(SCHEMA)
    given = {"input": str(folder / "people.csv"), "schema": str(folder / "tiny.yaml"), "output": str(folder / "out")}
    plan = Plan.of(ReleaseConfig.build(**given, unit="HOME", at_most=AT_MOST, epsilon=9, delta=1e-3, **settings))
    work = Workspace(folder / "work")
    work.root.mkdir()
    (work.root / "unit_key").write_text("ab" * 32)
    reading.partition(plan, work)
    return plan, work


def measured(mechanism, release, noise):
    plan, work = release
    rows = work.load_table(work.stratum(0), plan.modelled)
    drawn = plan.drawn
    return measure_stratum(mechanism, rows, Budget(drawn.counts + drawn.synthesis), drawn.counts, noise)


def audited(folder, name="mst", unit_rows=AT_MOST, before=False, **settings):
    """Return the release, both tables, and √(2ρ) for the charged ρ."""
    one = work_of(folder / "one", table(0), **settings)
    two = work_of(folder / "two", table(unit_rows, before), **settings)
    return partial(measured, mechanisms()[name]), (one, two), sqrt(2 * float(one[0].price.total))


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["rows", "units"])
def test_a_unit_is_as_well_hidden_as_is_charged(tmp_path, weights):
    release, pair, charged = audited(tmp_path, unit_weights=weights)
    game = play(release, pair, DiscreteNoise(SEED), 600)
    # Most of the charge is used, because all rows of this unit are in the same cell, which is the worst case.
    assert 0.6 * charged < game.mu < charged
    assert runs_to_refute(release, pair, DiscreteNoise(SEED), 1.02 * charged, 600) is None


@pytest.mark.parametrize("weights", ["rows", pytest.param("units", marks=pytest.mark.slow)])
def test_rows_of_a_unit_that_are_counted_once_are_caught(tmp_path, monkeypatch, weights):
    """The noise is for a single row, or the weight of each row is the weight of a unit."""
    if weights == "rows":
        monkeypatch.setattr(Unit, "synthesis_cost", 1)
    else:
        monkeypatch.setattr("equistrata.synth.counting.row_parts", lambda schema: np.tile([1024, 0], (AT_MOST, 1)))
    release, pair, charged = audited(tmp_path, unit_weights=weights)
    assert runs_to_refute(release, pair, DiscreteNoise(SEED), 1.02 * charged, 400) is not None


@pytest.mark.slow
def test_truncation_by_place_in_the_file_is_caught(tmp_path, monkeypatch):
    honest = bounding.chosen_rows

    def first_rows(ids, content, at_most, key):
        chosen, sizes = honest(ids, content, at_most, key)
        return chosen & (np.arange(len(ids)) < 26), sizes  # a unit at the start of the file removes rows of other units

    monkeypatch.setattr(bounding, "chosen_rows", first_rows)
    monkeypatch.setattr(bounding, "FILES", 1)
    monkeypatch.setattr(bounding, "id_hashes", lambda ids, key: np.zeros(len(ids), dtype=np.uint64))
    release, pair, charged = audited(tmp_path, before=True, unit_weights="rows")
    assert runs_to_refute(release, pair, DiscreteNoise(SEED), 1.02 * charged, 1500) is not None


@pytest.mark.slow
def test_a_size_of_units_that_is_read_off_is_caught(tmp_path, monkeypatch):
    """The noise depends on the size of the largest unit, so that it reveals a larger unit."""
    honest = Plan.of

    def observed(config, *given, **more):
        plan = honest(config, *given, **more)
        most = int(pd.read_csv(config.input)["HOME"].value_counts().max())
        return replace(plan, unit=replace(plan.unit, at_most=most))

    monkeypatch.setattr(Plan, "of", observed)
    release, pair, charged = audited(tmp_path, unit_rows=9, unit_weights="rows")
    assert runs_to_refute(release, pair, DiscreteNoise(SEED), 1.02 * charged, 400) is not None


def test_a_unit_over_the_bound_is_no_more_than_one_within_it(tmp_path):
    release, (_, within), charged = audited(tmp_path, unit_weights="rows")
    beyond = work_of(tmp_path / "three", table(40), unit_weights="rows")
    assert play(release, (within, beyond), DiscreteNoise(SEED), 40).mu == 0.0
    assert charged > 1


@pytest.mark.slow
def test_a_unit_that_is_replaced_is_as_well_hidden_as_is_charged(tmp_path):
    settings = {"unit_weights": "rows", "relation": "replace-one"}
    one = work_of(tmp_path / "one", table(AT_MOST), **settings)
    other = table(AT_MOST)
    other.loc[other["HOME"] == 1000, list("ABC")] = 1
    two = work_of(tmp_path / "two", other, **settings)
    charged = sqrt(2 * float(one[0].price.total))
    release = partial(measured, mechanisms()["mst"])
    game = play(release, (one, two), DiscreteNoise(SEED), 600)
    assert 0.6 * charged < game.mu < charged
