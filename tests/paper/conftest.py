"""Running `python -m paper` as its users do, from a folder of theirs."""

import os
import subprocess
import sys

import pytest

from paper.program import main


@pytest.fixture
def home(tmp_path):
    """Where the command runs: an empty folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def start(home, repo_root):
    """Starts the command as a process of its own."""

    def begin(*arguments):
        env = os.environ | {"PYTHONPATH": str(repo_root), "COLUMNS": "200"}
        command = [sys.executable, "-m", "paper", *map(str, arguments)]
        return subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return begin


@pytest.fixture
def paper(home, monkeypatch, capfd):
    """Runs the command to its end, in this process."""
    monkeypatch.chdir(home)

    def run(*arguments):
        code = 0
        try:
            main([*map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run
