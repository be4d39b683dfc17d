"""Tests of the folders in which Prefect is found."""

import os
import stat
from unittest import mock

import pytest

from equistrata.errors import InputError
from equistrata.flows.config.places import in_home, prefect_home, prepare_prefect


def test_prefects_home_is_private(tmp_path):
    home = tmp_path / "above" / "prefect"
    with mock.patch.dict(os.environ, PREFECT_HOME=str(home)):
        prepare_prefect(verbose=True)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_home_of_prefect_that_cannot_be_written_to_is_said_in_a_sentence(tmp_path, monkeypatch):
    """In a container with a missing or read-only home folder, a release used to end in a traceback."""
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file" / "prefect"):
        monkeypatch.setenv("PREFECT_HOME", str(home))
        with pytest.raises(InputError, match="set PREFECT_HOME to one where you may write"):
            prepare_prefect(verbose=True)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "new"))
    prepare_prefect(verbose=True)
    assert list((tmp_path / "new").iterdir()) == []


def test_no_home_at_all_is_said_in_a_sentence(monkeypatch):
    """This is the case in a container if the user has no name."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("PREFECT_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", mock.Mock(side_effect=KeyError))
    for where in (prefect_home, lambda: in_home("~/.local/state")):
        with pytest.raises(InputError, match="there is no home folder; set HOME"):
            where()
    assert str(in_home("/state")) == "/state"
