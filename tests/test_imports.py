"""Tests of the imports of the core and of the dependencies between its packages."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = [f"equistrata.{room}" for room in ("data", "privacy", "stats", "synth", "inference", "eval", "analysis")]
OPTIONAL = {"equistrata.synth.models.mbi"}  # the reference engine, which needs the extra "reference"
HEAVY = ["prefect", "jax", "mbi", "torch", "dask"]

# Each step is an import in the same interpreter, with the packages of WATCHED that it may load in addition.
WATCHED = (
    "numpy", "pandas", "scipy", "scipy.special", "scipy.optimize", "scipy.stats", "opendp", "sqlalchemy", "jinja2",
    "matplotlib", "sklearn", "prefect", "dask", "distributed", "ray", "jax", "mbi", "torch",
)  # fmt: skip
READING = {"numpy", "pandas", "scipy"}
COMMANDS = {
    "import equistrata.flows.cli.main": set(),
    "import equistrata; equistrata.Release, equistrata.Schema.load('acs_employment'), equistrata.score": READING,
    "from equistrata.flows.publication.verified import release_faults": READING | {"scipy.special"},
    "from equistrata.flows.cli.budget import LedgerSettings": set(),
    "LedgerSettings(ledger='ledger.db').open()": {"opendp", "sqlalchemy"},
    "from equistrata.api import plan; plan(), plan(synthesizer='mst')": {"scipy.optimize", "scipy.stats"},
    "import equistrata.flows.release.prepared, equistrata.flows.audit.expected, equistrata.data.drafting.draft": set(),
}  # fmt: skip

STEPS = f"""
import importlib, json, pkgutil, sys
def loaded(names):
    return [name for name in names if name in sys.modules]
commands = []
for step in {[*COMMANDS]}:
    exec(step)
    commands.append(loaded({WATCHED}))
found = 0
for room in {CORE}:
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(package.__path__, room + "."):
        if module.name not in {OPTIONAL}:
            importlib.import_module(module.name)
            found += 1
core = loaded({HEAVY})
import equistrata.flows.release.flow
print(json.dumps([commands, found, core, loaded(["dask", "distributed", "ray"]), loaded(["prefect"])]))
"""


@pytest.fixture(scope="module")
def steps(repo_root, tmp_path_factory):
    environment = {**os.environ, "PYTHONPATH": str(repo_root)}
    done = subprocess.run(
        [sys.executable, "-c", STEPS], cwd=tmp_path_factory.mktemp("steps"), env=environment, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_commands_import_what_they_need_when_they_run(steps):
    """The import of these packages is slow, and the time to start a command should be less than two seconds."""
    allowed = set()
    for (step, more), loaded in zip(COMMANDS.items(), steps[0], strict=True):
        allowed |= more
        assert set(loaded) <= allowed, step


def test_importing_the_core_loads_none_of_the_heavy_packages(steps):
    count, heavy = steps[1:3]
    assert heavy == []
    assert count > 8  # the packages data and privacy alone have eight modules, so the list is not empty


def test_no_cluster_is_imported_unless_it_is_asked_for(steps):
    clusters, prefect = steps[3:]
    assert clusters == []
    assert prefect == ["prefect"]  # the flow was imported


def test_the_arrows_between_rooms(repo_root):
    command = Path(sys.executable).with_name("lint-imports")
    found = str(command) if command.exists() else shutil.which("lint-imports")
    if not found:
        pytest.skip("import-linter is not installed (extra 'dev')")
    done = subprocess.run([found, "--no-cache"], cwd=repo_root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
