"""Fixtures that run `python -m paper` in an empty folder."""

import subprocess

import pytest

from paper.__main__ import main


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return an empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def paper(home, capfd):
    """Return a function that runs the command in this process."""

    def run(*arguments):
        code = 0
        try:
            main([*map(str, arguments), "--workers", "1"])
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run
