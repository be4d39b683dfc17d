"""Tests of `equistrata series show` and `verify`, and of the options for a series."""

import json
import shutil
import tempfile

import pandas as pd
import pytest
from in_process import command
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import home_of_people, release

from equistrata.analysis.release import Release
from equistrata.analysis.series.releases import SeriesOfReleases
from equistrata.data.texts.manifest import write_manifest
from equistrata.flows.cli.options import _options, _parameter
from equistrata.flows.config.release import ReleaseConfig
from equistrata.privacy.ledger.ledger import Ledger


@pytest.fixture
def own_places(tmp_path, monkeypatch):
    """Set a temporary state folder, ledger and working folder for this test."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EQUISTRATA_LEDGER_URL", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def two_months(tmp_path_factory):
    """Return a folder that contains two months of a series and the ledger."""
    home = home_of_people(tmp_path_factory.mktemp("two-months"), 1357, 3)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
        monkeypatch.setenv("EQUISTRATA_LEDGER_URL", str(home / "ledger.db"))
        for month in (1, 2):
            release({
                "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"),
                "strata": "SEX", "evaluate": "none", "workers": 1, "dataset": "people",
                "output": str(home / "out" / f"2026-0{month}"), "release_id": f"people-{month}",
                "series": {"name": "year", "horizon": 12},
            })  # fmt: skip
    return home


@pytest.fixture
def releases(two_months, tmp_path, own_places):
    """Return the path of a folder with two months of a series, and copy the ledger."""
    for path in two_months.glob("ledger.db*"):
        shutil.copy2(path, tmp_path)
    return shutil.copytree(two_months / "out", tmp_path / "out")


@pytest.fixture
def series(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: command(monkeypatch, capsys, "series", *arguments)


def test_show_lists_months_and_what_is_left(releases, series):
    code, shown, _ = series("show", "year", "--folder", releases)
    assert code == 0
    for word in ("series year of people: 12 months at ε = 1", "people-1", "2026-02", "committed", "10 more months"):
        assert word in shown
    found = json.loads(series("show", "year", "--folder", releases, "--json")[1])
    assert [line["month"] for line in found["months"]] == [1, 2]
    assert [line["folder"] for line in found["months"]] == [str(releases / f"2026-0{month}") for month in (1, 2)]
    assert found["months"][1]["epsilon_so_far"] > found["months"][0]["epsilon_so_far"]
    assert found["left"]["months"] == 10
    assert found["left"]["rho"] == pytest.approx(10 * found["months"][0]["rho"])
    code, _, said = series("show", "decade")
    assert code == 2
    assert "series 'decade' is in no data set of this ledger" in said


def test_course_is_each_months_estimate_by_group(releases, series, tmp_path):
    asked = ("proportion", "GROUP=b", "--by", "SEX")
    code, shown, _ = series("course", releases, *asked, "--plot", tmp_path / "course.svg")
    assert code == 0
    for word in ("series year: proportion GROUP=b", "month 1 to 2", "95% from"):
        assert word in shown
    drawn = (tmp_path / "course.svg").read_text("utf-8")
    assert drawn.count("<path") > 4
    assert "<!-- 2 -->" in drawn
    assert "<!-- 1.5 -->" not in drawn  # months are integers
    found = pd.DataFrame(json.loads(series("course", "year", *asked, "--folder", releases, "--json")[1]))
    for month in (1, 2):
        own = Release.open(releases / f"2026-0{month}").estimate("proportion", {"GROUP": "b"}, by="SEX")
        lines = found[found["month"] == month]
        assert lines["estimate"].tolist() == own["estimate"].tolist()
        assert (lines["lower"] < lines["estimate"]).all()


def test_a_course_of_medians_is_that_of_a_quantile(releases, series):
    both = [json.loads(series("course", releases, name, "AGE", "--json")[1]) for name in ("median", "quantile")]
    assert both[0] == both[1] != []


def test_course_refuses_what_has_none_and_names_the_month(releases, series):
    assert "'ols' cannot be estimated by month; choose among count" in series("course", releases, "ols", "GROUP")[2]
    code, _, said = series("course", releases, "mean", "WAGE")
    assert code == 2
    assert "month 1" in said
    assert "WAGE" in said
    assert "give equistrata series course SERIES" in series("course", releases, "mean", "A", "B")[2]


def test_course_names_the_months_that_lack_what_is_asked(releases, series, two_months):
    settings = {
        "source": "csv", "input": str(two_months / "people.csv"), "schema": str(two_months / "people.yaml"),
        "columns": "SEX,JOB", "strata": "SEX", "evaluate": "none", "workers": 1, "dataset": "people",
        "series": {"name": "year", "horizon": 12},
    }  # fmt: skip
    release(settings | {"output": str(releases / "2026-03"), "release_id": "people-3"})
    for asked in (("mean", "AGE"), ("proportion", "GROUP=b"), ("count", "--where", "GROUP=b")):
        code, shown, _ = series("course", releases, *asked)
        assert code == 0
        assert "month 1 to 2" in shown
        assert "month 3: the release lacks a column or a value of the question" in shown
    assert "lacks" not in series("course", releases, "proportion", "JOB=yes")[1]


def test_verify_needs_the_folders_alone(releases, series, monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_URL")
    for arguments in ((releases,), sorted(releases.glob("*")), ("year", "--folder", releases)):
        code, shown, said = series("verify", *arguments)
        assert (code, said) == (0, "")
        assert "the series is valid" in shown
    code, shown, _ = series("verify", releases / "2026-02")
    assert code == 0
    assert "missing: month 1" in shown
    code, _, said = series("verify", "decade")
    assert code == 2
    assert "'decade' is not a folder" in said


def test_verify_names_what_does_not_hold(releases, series):
    path = releases / "2026-02" / "series.json"
    path.write_text(path.read_text().replace('"month":2', '"month":3'))
    write_manifest(releases / "2026-02")
    code, _, said = series("verify", releases, "--json")
    assert code == 2
    assert "has a state that does not follow" in " ".join(said.split())


def test_states_of_an_earlier_version_are_not_called_wrong(releases, series):
    """The states are computed with a different filter.

    The series can be continued from these states. The output of `verify` contains a list of the months that are not
    checked.
    """
    path = releases / "2026-02" / "series.json"
    state = json.loads(path.read_text())
    state["known"][0]["values"][0] += 5
    path.write_text(json.dumps(state | {"format": "equistrata series 1"}))
    write_manifest(releases / "2026-02")
    code, shown, said = series("verify", releases)
    assert (code, said) == (0, "")
    assert "month 2: the state was made by an earlier version" in " ".join(shown.split())
    assert json.loads(series("verify", releases, "--json")[1])["not_followed"] == [2]


def test_options_are_called_series_and_horizon():
    flags = {key: _parameter(key, field, None) for key, field in _options(ReleaseConfig)}
    called = [("series_name", "--series"), ("series_horizon", "--horizon"), ("survey", "--survey")]
    for key, flag in called:
        assert flags[key].annotation.__metadata__[0].default == flag


def test_revise_writes_what_all_months_say_and_leaves_releases_as_they_are(releases, series, tmp_path):
    before = {path: path.read_bytes() for path in releases.rglob("*") if path.is_file()}
    code, shown, _ = series("revise", releases, "--output", tmp_path / "revised")
    assert code == 0
    assert "months 1 to 2, revised" in shown
    assert {path: path.read_bytes() for path in releases.rglob("*") if path.is_file()} == before
    about = json.loads((tmp_path / "revised" / "revised.json").read_text("utf-8"))
    assert about["what"].startswith("REVISED")
    assert about["months"] == {"1": "people-1", "2": "people-2"}
    found = pd.read_csv(tmp_path / "revised" / "revised.csv")
    last = found[found["month"] == 2]
    assert last["revised"].tolist() == last["then"].tolist()
    first = found[found["month"] == 1]
    assert (first["revised_error"] <= first["then_error"]).all()
    measured_again = first["revised_error"] < first["then_error"]
    assert measured_again.mean() > 0.5
    assert (first["revised"] != first["then"])[measured_again].mean() > 0.8  # integer noise may be equal
    state = json.loads((releases / "2026-01" / "series.json").read_text("utf-8"))
    assert first["then"].sum() == pytest.approx(sum(sum(each["values"]) for each in state["known"]))
    own = first[(first["columns"] == "SEX") & first["SEX"].notna()]
    assert len(own) == len(set(own["SEX"]))


def test_revised_counts_are_of_all_rows_those_held_out_among_them(own_places, tmp_path):
    """The held-out rows were not included in the revised counts, so that the counts in this example were too small."""
    (tmp_path / "people.yaml").write_text(PEOPLE_SCHEMA.replace("target: JOB\n", ""))
    made_up_people(3000).to_csv("people.csv", index=False)
    Ledger(tmp_path / "ledger.db").create("people", 50, 1e-9)
    release({
        "source": "csv", "input": "people.csv", "schema": "people.yaml", "strata": "SEX", "workers": 1, "epsilon": 20.0,
        "evaluate": "full", "holdout": 1 / 3, "dataset": "people", "output": "out/2026-01", "release_id": "one",
        "series": {"name": "year", "horizon": 1},
    })  # fmt: skip
    answers = Release.open(tmp_path / "out" / "2026-01").estimate("count", by="SEX")
    revised = SeriesOfReleases.open([tmp_path / "out" / "2026-01"]).revised()
    own = revised[revised["columns"].eq("SEX")]
    assert own["revised"].tolist() == pytest.approx(answers["estimate"].tolist(), rel=0.01)
    assert own["revised_error"].tolist() == pytest.approx(answers["standard_error"].tolist(), rel=0.05)


def test_revise_refuses_a_series_that_does_not_hold_and_writes_nothing(releases, series, tmp_path):
    assert "exists already" in series("revise", releases, "--output", releases)[2]
    code, _, said = series("revise", releases / "2026-02", "--output", tmp_path / "alone")
    assert code == 2
    assert "month 2 learned from month 1, which is missing; give its folder as well" in said
    path = releases / "2026-01" / "series.json"
    path.write_text(path.read_text().replace('"month":1', '"month":4'))
    write_manifest(releases / "2026-01")
    code, _, said = series("revise", releases, "--output", tmp_path / "edited")
    assert code == 2
    assert "is not valid, so no estimate was revised" in said
    assert not (tmp_path / "alone").exists()
    assert not (tmp_path / "edited").exists()
