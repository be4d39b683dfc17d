"""Without the packages of an extra, what needs them ends with one sentence that names it; everything else works."""

import os
import subprocess
import sys

import pandas as pd
import pytest

import equistrata
from equistrata import extras
from equistrata.data.sources import FolktablesSource
from equistrata.errors import InputError

# As a program: equistrata's command line where the packages named by the first argument cannot be found.
PROGRAM = """
import sys
from importlib.abc import MetaPathFinder
absent = set(sys.argv.pop(1).split(","))
class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in absent else found(name, package)
from equistrata.flows.cli.main import main
main()
"""
ABSENT = ",".join(package for packages in extras.EXTRAS.values() for package in packages)


@pytest.fixture
def bare(tmp_path, repo_root):
    """Runs a command without any of the extras."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env |= {"PYTHONPATH": str(repo_root), "PREFECT_HOME": str(tmp_path / "prefect"), "COLUMNS": "200"}
    env |= {"EQUISTRATA_STATE": str(tmp_path / "state")}

    def run(*arguments):
        command = [sys.executable, "-c", PROGRAM, ABSENT, *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["release", "--evaluate", "full", "--output", "out"], "audit"),
        (["release", "--source", "folktables", "--state", "NY", "--root-dir", "acs", "--output", "out"], "acs"),
        (["audit", "release"], "audit"),
        (["plan", "--plot", "plan.svg"], "audit"),
    ],
)
def test_a_command_says_which_extra_it_needs(bare, tmp_path, arguments, extra):
    done = bare(*arguments)
    assert done.returncode == 2, done.stderr
    assert f"install equistrata[{extra}]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_release_needs_no_extra(bare, tmp_path):
    done = bare("release", "--strata", "SEX", "--means", "WKHP", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "card.json").exists()


def test_the_library_says_so_too(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    rows = pd.DataFrame({"G": [1, 1, 2, 2], "Y": [0, 1, 0, 1]})
    assert equistrata.score(rows, rows, ["G"]).parity_error == 0
    with pytest.raises(InputError, match=r"equistrata\[audit\]"):
        equistrata.score(rows, rows, ["G"], held_out=rows, target="Y")
    with pytest.raises(InputError, match=r"source folktables .* equistrata\[acs\]"):
        FolktablesSource(("NY",)).check(())


def test_the_extras_are_those_of_the_package():
    """What is asked for is what an extra of the same name brings."""
    import tomllib
    from pathlib import Path

    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]
    names = {"sklearn": "scikit-learn"}
    for extra, packages in extras.EXTRAS.items():
        brought = {line.split(">")[0] for line in project["optional-dependencies"][extra]}
        assert brought == {names.get(package, package) for package in packages}
