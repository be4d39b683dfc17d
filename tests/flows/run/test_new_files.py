"""Tests of the files that commands make, which are complete or absent.

A file that cannot be made is refused in advance.
"""

import errno
import os
import re

import pytest
from in_process import command

from equistrata.errors import InputError
from equistrata.flows.run.disk import DiskFull
from equistrata.flows.run.new_files import check_new_file, new_file


def test_a_new_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "x.json"
    with new_file(path) as beside:
        beside.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "kind", "match"),
    [
        (errno.ENOSPC, DiskFull, "disk full: no space is left on the disk of"),
        (errno.EROFS, InputError, r"x.json' cannot be made \(read-only file system\); name another file"),
    ],
)
def test_what_cannot_be_written_leaves_nothing_and_is_one_sentence(tmp_path, number, kind, match):

    def write():
        with new_file(tmp_path / "x.json") as beside:
            beside.write_text("hal")
            raise OSError(number, os.strerror(number), str(beside))

    with pytest.raises(kind, match=match):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_made_meanwhile_stays(tmp_path):
    path = tmp_path / "x.json"

    def write():
        with new_file(path) as beside:
            beside.write_text("mine")
            path.write_text("another's")

    with pytest.raises(InputError, match="was made meanwhile"):
        write()
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_may_not_be_written_to_is_refused_first(tmp_path, monkeypatch):
    check_new_file(tmp_path / "x.json")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write to any
    with pytest.raises(InputError, match=f"{re.escape(str(tmp_path))}' is not a folder in which you may write"):
        check_new_file(tmp_path / "x.json")


@pytest.mark.parametrize("given", [["verify", "--croissant"], ["verify", "--dcat"], ["verify", "--registry"], []])
def test_commands_that_make_a_file_end_with_a_sentence(tmp_path, monkeypatch, capsys, given):
    """On a read-only file system, the commands used to fail at the end with a traceback."""
    name, *option = given or ["export"]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, _, said = command(monkeypatch, capsys, name, "release", *option, tmp_path / "x.dta")
    assert code == 2
    assert "is not a folder in which you may write" in said
    assert list(tmp_path.iterdir()) == []
