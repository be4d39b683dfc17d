"""Running `python -m paper` as its users do, from a folder of theirs."""

import subprocess

import pytest

from paper.__main__ import main


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where the command runs: an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def paper(home, capfd):
    """Runs the command to its end, in this process."""

    def run(*arguments):
        code = 0
        try:
            main([*map(str, arguments), "--workers", "1"])
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run
