"""Tests that exact numbers are not stored in a release and are only printed to a terminal."""

import json
import os
import stat

import pytest
from in_process import command
from plain_release import release

import equistrata.flows.cli.release
import equistrata.flows.release.flow
from equistrata.data.texts.manifest import listed, write_manifest
from equistrata.errors import InputError
from equistrata.eval.scores.scores import OF_FOREST, OF_TABLES
from equistrata.flows.release.inside import check_place, enclosing_release, keep_scores, private_folder
from equistrata.flows.release.steps import describing, scoring


@pytest.fixture
def settings(people, tmp_path, monkeypatch):
    table, schema, _ = people
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    return {
        "source": "csv", "input": str(table), "schema": str(schema), "columns": "SEX,JOB", "strata": "SEX",
        "workers": 1,
        "output": "out", "seed": 1,
    }  # fmt: skip


def release_folder(place):
    place.mkdir()
    (place / "card.json").write_text("{}")
    write_manifest(place)
    return place


def test_the_private_folder_has_the_releases_name(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "newest").symlink_to("one")
    monkeypatch.chdir(tmp_path / "one")
    assert private_folder(tmp_path / "one") == private_folder(tmp_path / "newest") == tmp_path / "one.internal"
    assert private_folder(type(tmp_path)(".")) == tmp_path / "one.internal"


def test_scores_lie_beside_the_release_and_the_release_is_what_its_manifest_lists(settings):
    run = release(settings)
    folder = run.plan.config.output
    scores = run.work.root.cwd() / "out.internal" / "scores.json"
    assert json.loads(scores.read_text())["workload3"] > 0
    assert stat.S_IMODE(scores.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(scores.stat().st_mode) == 0o600
    assert [path.name for path in scores.parent.iterdir()] == ["scores.json"]
    there = {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}
    assert there == {*listed(type(scores)(folder), "out"), "manifest.json"}
    exact = [repr(value) for value in json.loads(scores.read_text()).values() if isinstance(value, float)]
    assert not any(number in (type(scores)(folder) / name).read_text("latin-1") for number in exact for name in there)
    page = (type(scores)(folder) / "card.md").read_text("utf-8")
    assert "for exactly the files that `manifest.json` lists" in page


def test_what_an_earlier_release_of_that_name_has_left_is_neither_mixed_nor_overwritten(settings, tmp_path):
    release(settings)
    os.rename("out", "moved")
    before = (tmp_path / "out.internal" / "scores.json").read_bytes()
    for evaluate in ("quick", "none"):
        with pytest.raises(InputError, match=r"'out.internal' contains exact results of an earlier release"):
            release(settings | {"evaluate": evaluate})
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "out.internal" / "scores.json").read_bytes() == before


def test_a_release_that_is_killed_before_its_scores_are_kept_is_whole(settings, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(describing, "keep_scores", killed)
    with pytest.raises(KeyboardInterrupt):
        release(settings)
    assert (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out.internal").exists()


def test_a_private_folder_that_appears_meanwhile_is_told_before_anything_lands(settings, tmp_path, monkeypatch):
    real = scoring.evaluate

    def meanwhile(plan, work):
        (tmp_path / "out.internal").mkdir()
        real(plan, work)

    monkeypatch.setattr(scoring, "evaluate", meanwhile)
    with pytest.raises(InputError, match="contains exact results of an earlier release"):
        release(settings)
    assert not (tmp_path / "out").exists()


def test_scores_that_cannot_be_kept_are_told(tmp_path, monkeypatch):
    place = release_folder(tmp_path / "out")
    monkeypatch.setattr(
        "equistrata.flows.release.inside.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space"))
    )
    with pytest.raises(InputError, match=r"the release in .* is complete, .*no space left"):
        keep_scores(place, {"workload3": 0.123456})


def test_an_output_inside_a_release_or_with_too_long_a_name_is_refused(tmp_path):
    host = release_folder(tmp_path / "out")
    (tmp_path / "link").symlink_to(host)
    for output in (host / "second", host / "deep" / "second", tmp_path / "link" / "second"):
        assert enclosing_release(output) == host
        with pytest.raises(InputError, match="is inside release"):
            check_place(output)
    with pytest.raises(InputError, match="file name too long"):
        check_place(tmp_path / ("x" * 250))
    check_place(tmp_path / "beside")
    assert enclosing_release(tmp_path / "beside") is None


@pytest.mark.parametrize("terminal", [True, False])
def test_exact_scores_are_printed_to_a_terminal_only(settings, tmp_path, monkeypatch, capsys, terminal):
    release(settings)
    exact = json.loads((tmp_path / "out.internal" / "scores.json").read_text())["workload3"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(equistrata.flows.cli.release, "run_release", lambda *_: tmp_path / "out")
    config = ["--source", "csv", "--input", settings["input"], "--schema", settings["schema"], "--output", "other"]
    code, out, err = command(monkeypatch, capsys, "release", *config)
    assert code == 0, err
    assert (f"{exact:.4f}" in out) is terminal
    assert "out.internal/scores.json" in out


def test_an_artifact_says_where_scores_lie_and_no_score(settings, tmp_path, monkeypatch):
    release(settings)
    tables, pages = [], []
    monkeypatch.setattr(equistrata.flows.release.flow, "create_table_artifact", lambda table, **_: tables.append(table))
    monkeypatch.setattr(equistrata.flows.release.flow, "create_markdown_artifact", lambda page, **_: pages.append(page))
    equistrata.flows.release.flow._show(tmp_path / "out")
    (table,) = tables
    assert {row["value in"] for row in table} == {str(tmp_path / "out.internal" / "scores.json")}
    scores = json.loads((tmp_path / "out.internal" / "scores.json").read_text())
    assert not any(repr(value) in json.dumps([table, pages]) for value in scores.values() if isinstance(value, float))


def test_scores_that_fail_keep_no_release_from_appearing(settings, tmp_path, monkeypatch):
    """The error depends on the exact rows, so it must not be visible in the release or in Prefect."""

    def score(*given, **settings):
        raise ValueError("731924")

    monkeypatch.setattr(scoring, "score", score)
    release(settings)
    assert (tmp_path / "out" / "manifest.json").exists()
    kept = (tmp_path / "out.internal" / "scores.json").read_text()
    assert json.loads(kept) == {"warning": "not scored: ValueError"}


def test_an_artifact_names_the_same_scores_whatever_the_rows_are(settings, tmp_path, monkeypatch):
    """The number of scores depends on the rows, because it is possible that all rows are held out."""
    release(settings | {"evaluate": "full"})
    kept, tables = tmp_path / "out.internal" / "scores.json", []
    found = json.loads(kept.read_text())
    assert {name for name, value in found.items() if isinstance(value, float)} == {*OF_TABLES, *OF_FOREST}
    monkeypatch.setattr(equistrata.flows.release.flow, "create_table_artifact", lambda table, **_: tables.append(table))
    monkeypatch.setattr(equistrata.flows.release.flow, "create_markdown_artifact", lambda *_, **__: None)
    for scores in (found, found | dict.fromkeys(OF_FOREST), {"warning": "not scored: all rows were held out"}):
        kept.write_text(json.dumps(scores))
        equistrata.flows.release.flow._show(tmp_path / "out")
    assert len(tables[0]) == len({*OF_TABLES, *OF_FOREST})
    assert tables == [tables[0]] * 3
