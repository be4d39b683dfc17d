"""Tests of a complete release with nested strata, which are ST/PUMA in a file with both columns."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from in_process import command
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.groups import within_strata
from equistrata.analysis.verify import faults
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.synth.measurements import Measurement, sum_groups

PLACES = {36: [100, 200, 300], 50: [100, 200]}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Return a folder with 4,000 people in five places and their schema, and the table."""
    folder = tmp_path_factory.mktemp("places")
    rng = np.random.default_rng(0)
    places = [(state, place) for state, own in PLACES.items() for place in own]
    found = pd.DataFrame(places, columns=["ST", "PUMA"]).iloc[rng.choice(5, 4000, p=[0.4, 0.25, 0.15, 0.15, 0.05])]
    found = found.assign(SEX=rng.integers(1, 3, 4000), AGE=rng.integers(0, 90, 4000), JOB=rng.integers(0, 2, 4000))
    found.to_csv(folder / "people.csv", index=False)
    columns = {
        "PUMA": {"within": "ST", "values": PLACES},
        "SEX": {"values": [1, 2]},
        "AGE": {"lower": 0, "upper": 90, "edges": [0, 30, 60, 90], "integer": True},
        "JOB": {"values": [0, 1]},
    }
    (folder / "people.yaml").write_text(yaml.safe_dump({"columns": columns}, sort_keys=False))
    return folder, found


def settings_of(folder, **more):
    given = {"input": str(folder / "people.csv"), "schema": str(folder / "people.yaml"), "epsilon": 3.0, "seed": 1}
    return {**given, "strata": ["ST/PUMA", "SEX"], "workers": 1, "evaluate": "quick", **more}


@pytest.mark.parametrize("selection", [None, "per-stratum"])
def test_released_rows_have_declared_places(people, tmp_path, selection):
    folder, found = people
    release(settings_of(folder, output=str(tmp_path / "out"), selection=selection))
    made = Release.open(tmp_path / "out")
    rows = made.rows(labels=False)
    assert list(rows.columns) == ["PUMA", "SEX", "AGE", "JOB"]
    assert set(rows["PUMA"]) <= {f"{state}/{place}" for state, own in PLACES.items() for place in own}
    by_state = rows["PUMA"].str.split("/").str[0].astype(int).value_counts()
    assert (by_state - found["ST"].value_counts()).abs().max() < 100
    assert made.card["strata"]["columns"] == ["PUMA", "SEX"]
    assert faults(made) == ["the noise was seeded, so the release is not private"]
    scores = json.loads((tmp_path / "out.internal" / "scores.json").read_text())
    assert scores  # the rows of the file have both columns and are compared with the released rows


def test_measurements_by_state_are_published(people, tmp_path):
    folder, found = people
    release(settings_of(folder, output=str(tmp_path / "out")))
    made = Release.open(tmp_path / "out")
    levels = made.schema["PUMA"].levels[0]
    assert levels == (0, 0, 0, 1, 1)
    by_state = [each for each in made.evidence.published if each.groups[:1] == (levels,)]
    assert {each.columns for each in by_state} == {("PUMA", "SEX"), ("PUMA", "AGE"), ("PUMA", "JOB")}
    for each in by_state:
        assert each.values.sum(axis=1) == pytest.approx(found["ST"].value_counts().sort_index(), abs=8 * each.sigma)
    fitted = sum_groups(made.evidence.model.marginal(["PUMA"]), 0, levels)
    assert fitted == pytest.approx(found["ST"].value_counts().sort_index().to_numpy(), abs=100)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"strata": ["STATE/PUMA"]}, "'PUMA' lies within 'STATE', but in schema 'people' it lies within ST"),
        ({"strata": ["ST", "SEX"]}, "column 'ST' is derived from 'PUMA', which lies within it; give 'PUMA' instead"),
        ({"strata": ["ST/COUNTY"]}, "unknown column 'COUNTY'"),
        ({"columns": ["ST", "PUMA", "SEX", "JOB"]}, "column 'ST' is derived from 'PUMA'"),
    ],
)
def test_what_the_schema_does_not_nest_is_refused_before_anything_is_charged(people, tmp_path, more, message):
    with pytest.raises(InputError, match=message):
        Plan.of(ReleaseConfig.build(**settings_of(people[0], output=str(tmp_path / "out"), **more)))


def test_a_file_without_states_is_refused(people, tmp_path):
    people[1].drop(columns="ST").to_csv(tmp_path / "people.csv", index=False)
    given = settings_of(people[0], output=str(tmp_path / "out")) | {"input": str(tmp_path / "people.csv")}
    with pytest.raises(InputError, match="has no column 'ST' in its header line"):
        Plan.of(ReleaseConfig.build(**given))


def test_weights_of_too_many_strata_are_not_combined(people, tmp_path, monkeypatch):
    monkeypatch.setattr("equistrata.flows.release.inputs.MOST_STRATA", 9)
    keys = [(f"{s}/{p}", sex) for s, own in PLACES.items() for p in own for sex in (1, 2)]
    weights = tmp_path / "weights.csv"
    pd.DataFrame(keys, columns=["PUMA", "SEX"]).assign(count=1).to_csv(weights, index=False)
    more = {"output": str(tmp_path / "out"), "weights": str(weights)}
    assert Plan.of(ReleaseConfig.build(**settings_of(people[0], **more))).weights is not None
    with pytest.raises(InputError, match="support at most 9 strata, but there are 10"):
        Plan.of(ReleaseConfig.build(**settings_of(people[0], combine_weights=True, **more)))


def test_a_measurement_by_state_says_nothing_of_how_places_differ():
    """It used to be counted as a measurement within strata if the place was the only stratum column."""
    by_state = Measurement(("PUMA", "JOB"), np.ones((2, 2)), 1.0, ((0, 0, 0, 1, 1), None))
    assert not within_strata(by_state, ("PUMA",))
    assert within_strata(Measurement(("PUMA", "JOB"), np.ones((5, 2)), 1.0), ("PUMA",))
    assert not within_strata(Measurement(("PUMA",), np.ones(5), 1.0), ("PUMA",))


def test_a_reader_asks_by_state(people, tmp_path, monkeypatch, capsys):
    """The sizes and the proportions by state are measured.

    The level of the intervals is 0.999999, so that an error by chance is very unlikely.
    """
    folder, found = people
    release(settings_of(folder, output=str(tmp_path / "out"), evaluate="none"))
    words = ("estimate", tmp_path / "out", "proportion", "JOB=1", "--by", "ST", "--level", "0.999999", "--json")
    code, told, _ = command(monkeypatch, capsys, *words)
    assert code == 0
    answers = {line["ST"]: line for line in json.loads(told)}
    for state, share in found.groupby("ST")["JOB"].mean().items():
        assert answers[state]["basis"] == "measured"
        assert answers[state]["lower"] <= share <= answers[state]["upper"]
    made = Release.open(tmp_path / "out")
    assert {("PUMA", "AGE"), ("PUMA", "JOB")} & {*made.not_measured()} == {*made.answers.misfit.unmeasured}
    code, told, _ = command(monkeypatch, capsys, "estimate", tmp_path / "out", "count", "--where", "ST=50", "--json")
    line = json.loads(told)[0]
    assert (code, line["basis"]) == (0, "measured")
    assert line["estimate"] == pytest.approx((found["ST"] == 50).sum(), abs=8 * line["standard_error"])
