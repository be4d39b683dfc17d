"""Tests that the folders of killed runs are removed."""

import os
from pathlib import Path

import pytest

from equistrata.flows.run import claims
from equistrata.flows.run.claims import LOCK, claim, remove, remove_dead


@pytest.fixture
def folder(tmp_path):
    """Return a working folder with rows and with a subfolder."""
    made = tmp_path / "equistrata-release-x"
    (made / "release").mkdir(parents=True)
    for name in ("stratum0.npy", "stratum1.npy", "outcome.npz", "release/card.json"):
        (made / name).write_text("rows")
    return made


class Killed(BaseException):
    """An exception that simulates a kill. It is not caught by code that ignores errors."""


@pytest.mark.parametrize("survives", range(5))
def test_a_removal_that_is_killed_is_ended_by_the_next_run(folder, monkeypatch, survives):
    lock, dropped = claim(folder), []
    original = {name: getattr(Path, name) for name in ("unlink", "rmdir")}

    def deadly(name):
        def called(path, *args, **kwargs):
            if len(dropped) == survives:
                raise Killed
            dropped.append(path)
            return original[name](path, *args, **kwargs)

        return called

    for name in original:
        monkeypatch.setattr(Path, name, deadly(name))
    with pytest.raises(Killed):
        remove(folder)
    monkeypatch.undo()
    os.close(lock)  # the operating system does this at the end of a process
    assert folder.exists()
    remove_dead(folder.parent, "equistrata-*")
    assert list(folder.parent.iterdir()) == []


def test_a_folder_that_is_held_stays(folder):
    lock = claim(folder)
    remove_dead(folder.parent, "equistrata-*")
    assert (folder / "stratum0.npy").exists()
    os.close(lock)
    remove_dead(folder.parent, "equistrata-*")
    assert not folder.exists()


def test_a_folder_that_nobody_ever_held_stays_unless_it_is_empty(folder, tmp_path):
    (tmp_path / "equistrata-release-empty").mkdir()
    remove_dead(tmp_path, "equistrata-*")
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_what_cannot_be_removed_keeps_its_lock(folder, monkeypatch):
    lock = claim(folder)
    monkeypatch.setattr(claims, "empty", lambda folder: None)
    remove(folder)
    monkeypatch.undo()
    os.close(lock)
    assert (folder / LOCK).exists()
    remove_dead(folder.parent, "equistrata-*")
    assert not folder.exists()
