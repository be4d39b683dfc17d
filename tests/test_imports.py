"""The core stays light and the arrows between rooms point one way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = [f"equistrata.{room}" for room in ("data", "privacy", "stats", "synth", "inference", "eval", "analysis")]
OPTIONAL = {"equistrata.synth.models.mbi"}  # the reference engine, which needs the extra "reference"
HEAVY = ["prefect", "jax", "mbi", "torch", "dask"]

# One interpreter, which imports more and more, and says after each step what is loaded that should not be.
STEPS = f"""
import importlib, json, pkgutil, sys
def loaded(names):
    return [name for name in names if name in sys.modules]
import equistrata.flows.cli.main
command = loaded(["numpy", "pandas", "scipy", "matplotlib", "prefect"])
found = 0
for room in {CORE}:
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(package.__path__, room + "."):
        if module.name not in {OPTIONAL}:
            importlib.import_module(module.name)
            found += 1
core = loaded({HEAVY})
import equistrata.flows.release.flow
print(json.dumps([command, found, core, loaded(["dask", "distributed", "ray"]), loaded(["prefect"])]))
"""


@pytest.fixture(scope="module")
def steps(repo_root):
    done = subprocess.run([sys.executable, "-c", STEPS], cwd=repo_root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_commands_import_what_they_need_when_they_run(steps):
    """`equistrata --help` takes twice as long with pandas."""
    assert steps[0] == []


def test_importing_the_core_loads_none_of_the_heavy_packages(steps):
    count, heavy = steps[1:3]
    assert heavy == []
    assert count > 8  # data and privacy alone have eight modules: the walk did not come up empty


def test_no_cluster_is_imported_unless_it_is_asked_for(steps):
    clusters, prefect = steps[3:]
    assert clusters == []
    assert prefect == ["prefect"]  # the flow itself was imported


def test_the_arrows_between_rooms(repo_root):
    command = Path(sys.executable).with_name("lint-imports")
    found = str(command) if command.exists() else shutil.which("lint-imports")
    if not found:
        pytest.skip("import-linter is not installed (extra 'dev')")
    done = subprocess.run([found, "--no-cache"], cwd=repo_root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
