"""Tests of the bound on the number of rows in a unit.

The bound is applied first, so that the other rows have no effect.
"""

import json

import numpy as np
import pandas as pd
import pytest
from found_texts import FoundTexts
from made_up_people import PEOPLE_SCHEMA, made_up_people
from models_once import models_once
from recorder import Recorder, true_cost
from replay import MORE, here, released

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults
from equistrata.data.units.bounding import UsedRows
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import reading
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Rho

OPEN = PEOPLE_SCHEMA.replace("[a, b, c]", "open")
BORN = "  BORN: {type: date, lower: '1930-01-01', upper: '2010-12-31'}\n"
KEY = b"k" * 32


def households(rows=300):
    """Return a table in which each household has up to three people."""
    return made_up_people(rows).assign(HOME=np.sort(np.random.default_rng(5).integers(0, rows // 2, rows)))


def plan_of(folder, frame, kind, **settings):
    """Write a table and return a plan for it."""
    folder.mkdir()
    path = folder / f"people.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    (folder / "people.yaml").write_text(OPEN + BORN)
    given = {"input": str(path), "schema": str(folder / "people.yaml"), "output": str(folder / "out")}
    shown = {"columns": "SEX,GROUP,AGE,JOB,BORN", "strata": "SEX", "means": "PAY", "evaluate": "full"}
    return Plan.of(ReleaseConfig.build(**given, **shown, unit="HOME", seed=1, **settings))


def kept(folder, plan):
    """Return the content of all files that a release stores after it has read the rows."""
    work = Workspace(folder / "work")
    work.root.mkdir()
    (work.root / "unit_key").write_text(KEY.hex())
    reading.partition(plan, work)
    return {path.name: path.read_bytes() for path in work.root.iterdir() if path.name != "used.npy"}


def homes_with_misfits():
    """Return a table with households of up to three people and a household of 40 rows.

    Three of these rows have values that are not valid.
    """
    more = pd.DataFrame([MORE] * 40).assign(HOME=10**6, GROUP=[f"text {i}" for i in range(40)])
    more.loc[:2, ["AGE", "SEX"]] = 999
    frame = pd.concat([households().astype({"PAY": float}), more], ignore_index=True)
    days = pd.date_range("1950-01-01", periods=len(frame)).strftime("%Y-%m-%d").to_numpy(dtype=object)
    days[frame["AGE"] == 999] = "never"
    return frame.assign(BORN=days).sample(frac=1, random_state=0, ignore_index=True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_kept_is_as_if_rows_beyond_the_bound_were_not_in_the_file(tmp_path, kind):
    """All files are identical, such as texts, codes, dates, outcomes, digests and held-out rows.

    An invalid value in an unused row does not cause an error.
    """
    frame = homes_with_misfits()
    plan = plan_of(tmp_path / "all", frame, kind, at_most=2)
    (tmp_path / "ids").mkdir()
    rows = UsedRows(lambda: plan.source.batches(plan.columns), plan.unit, KEY, tmp_path / "ids")
    used = np.load(tmp_path / "ids" / "used.npy") > 0
    assert frame["HOME"][used].value_counts().max() == 2
    assert not (frame["AGE"][used] == 999).any()  # this is true for most keys
    assert rows.sizes[:3].tolist() == np.bincount(households()["HOME"].value_counts())[1:4].tolist()
    found = kept(tmp_path / "all", plan)
    assert any(name.startswith("vocabulary_") for name in found)
    assert found == kept(tmp_path / "used", plan_of(tmp_path / "used", frame[used], kind, at_most=2))
    with pytest.raises(InputError, match="column 'SEX' holds a value that the schema does not declare"):
        kept(tmp_path / "more", plan_of(tmp_path / "more", frame, kind, at_most=40))


def test_a_table_that_changes_between_the_passes_is_refused(tmp_path):
    tables = iter([households(300), households(299), households(300), households(301)])
    for _ in range(2):
        rows = UsedRows(lambda: iter([next(tables)]), Unit("HOME", 2), KEY, tmp_path)
        with pytest.raises(InputError, match="the input changed while it was read"):
            list(rows.batches())


UNITS = {
    "1,000 rows, each with a text of its own": [f"text {i}" for i in range(1000)],
    "4 rows, each with a text of its own": [f"text {i}" for i in range(4)],
    "1,000 rows of one text": ["text"] * 1000,
    "1,000 rows of a text that others hold": ["c"] * 1000,
}


def released_with_texts(tmp_path, texts):
    """Make a release with and without a unit that has these texts.

    Return the files of both releases and the cost of the unit.
    """
    frame, unit = households(), pd.DataFrame([MORE] * len(texts)).assign(HOME=10**6, GROUP=texts)
    folders, found = (tmp_path / "first", tmp_path / "second"), FoundTexts()
    settings = {"declared": OPEN, "strata": "SEX", "unit": "HOME", "at_most": 4, "epsilon": 12, "bound_share": 0.02}
    files = []
    with models_once():
        for table, answers in ((frame, ()), (pd.concat([unit, frame], ignore_index=True), folders[:1])):
            noise = Recorder(folders[len(answers)], *answers)
            with found.recorded(again=bool(answers)):
                files.append(released(tmp_path, table, noise, here, **settings)[0])
    return files, true_cost(*folders, 4)[0] + found.rho, found


@pytest.mark.parametrize("unit", UNITS)
def test_texts_of_a_unit_cost_at_most_what_the_card_states(tmp_path, unit):
    (one, two), cost, found = released_with_texts(tmp_path, UNITS[unit])
    card = json.loads(one["card.json"])
    (column,), stated = card["open"], card["guarantee"]
    assert found.rho <= column["rho"] * (1 + 1e-9)
    assert found.delta <= column["delta"]
    if "others" not in unit:
        assert found.delta > column["delta"] / 100  # some texts are only in this unit
    assert 0.1 * stated["rho"] < cost <= (stated["rho"] - column["rho_of_delta"]) * (1 + 1e-9)
    assert Rho(cost).epsilon(stated["delta"] - found.delta) <= stated["epsilon"]
    assert [name for name in one if one[name] != two[name]] == []


def test_texts_of_rows_beyond_the_bound_that_may_be_found_are_caught(monkeypatch, tmp_path):
    """Before 2026-11-27, the vocabulary was computed from all of the rows, but only the rows that are used were
    counted.
    """
    honest = reading.encode_open

    def encode(frame, schema, known):
        known["GROUP"].code(pd.read_csv(tmp_path / "people.csv")["GROUP"])
        return honest(frame, schema, known)

    monkeypatch.setattr(reading, "encode_open", encode)
    _, _, found = released_with_texts(tmp_path, UNITS["1,000 rows, each with a text of its own"])
    assert found.delta > 5 * found.stated


@pytest.mark.parametrize("at_most", [None, 3])
def test_the_unit_of_a_setting_is_the_schema_s_where_values_are_found(tmp_path, at_most):
    """The unit used to be removed after the values were found.

    As a result, `verify` checked the price of rows, and the intervals were for rows.
    """
    frame = households() if at_most else households().assign(HOME=range(300))
    files, _ = released(
        tmp_path, frame, Recorder(tmp_path / "noise"), here, declared=OPEN, strata="SEX", unit="HOME", at_most=at_most
    )
    unit = json.loads(files["schema.json"])["unit"]
    assert (unit["column"], unit["at_most"], unit["unique"]) == ("HOME", at_most or 1, at_most is None)
    release = Release.open(tmp_path / "out" / "noise")
    assert release.unit == Unit("HOME", at_most or 1, unique=at_most is None)
    assert [fault for fault in faults(release) if "seeded" not in fault] == []
