"""Tests of the journals in the state folder and of their removal."""

import os
import time

import pytest

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.run.journal import MAKING_SECONDS, Journal


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return a state folder that also contains other files."""
    folder = tmp_path / "state"
    monkeypatch.setenv("EQUISTRATA_STATE", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def config(**settings):
    return ReleaseConfig.build(dataset="people", **settings)


def test_an_id_that_is_called_as_the_output_of_another_release_is_its_own(state):
    other = Journal.open(config(release_id="a", output="november"), "ledger")
    (other.paid / "fit_1").mkdir()
    mine = config(release_id="november", output="december")
    assert Journal.begun(mine, "ledger") is None
    opened = Journal.open(mine, "ledger")
    assert opened.root == state / "november"
    assert opened.mark != other.mark
    assert list(opened.paid.iterdir()) == []
    assert Journal.find("november").root == opened.root, "an id comes before a folder"
    assert Journal.find(str(other.output)).root == Journal.find("a").root == other.root
    Journal.begun(config(release_id="november", output="elsewhere"), "ledger")
    with pytest.raises(InputError, match="started with other settings"):
        Journal.begun(config(release_id="november", output="december", epsilon=2), "ledger")


def test_what_is_no_journal_stays_in_the_state_folder(state):
    kept = ["thesis/text", ".ssh/id", "2026-11/card.json", ".out.part/.lock", "equistrata-release-1/.lock"]
    kept += ["tables/paid", ".cache-12345678/x", "project/runs/x"]
    for name in kept:
        (state / name).parent.mkdir(parents=True, mode=0o700)
        (state / name).write_text("mine")
    old = time.time() - 2 * MAKING_SECONDS
    for folder in state.iterdir():
        os.utime(folder, (old, old))
    (state / "link").symlink_to(state / "thesis")
    assert Journal.all() == []
    assert all((state / name).read_text() == "mine" for name in kept)
    assert (state / "link").is_symlink()


def test_a_journal_that_was_cut_off_goes(state):
    for name in ("a", "b", "c"):
        journal = Journal.open(config(release_id=name), "ledger")
        assert journal.next_run() == 1
        (journal.paid / "fit_1").mkdir()
    (state / "a" / "release.json").unlink()
    (state / "c" / "release.json").write_text("{}")
    for age, name in ((0, ".x-12345678"), (2 * MAKING_SECONDS, ".y-12345678"), (2 * MAKING_SECONDS, ".z-z_345678")):
        (state / name).mkdir(mode=0o700)
        if name != ".z-z_345678":
            (state / name / "release.json").write_text("{}")
        os.utime(state / name, (time.time() - age,) * 2)
    assert [journal.root.name for journal in Journal.all()] == ["b"]
    assert sorted(os.listdir(state)) == [".x-12345678", "b", "c"], (
        "one may be being made, and one is of another version"
    )
