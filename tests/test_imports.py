"""The core stays light and the arrows between rooms point one way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = [f"equistrata.{room}" for room in ("data", "privacy", "stats", "synth", "inference", "eval", "analysis")]
OPTIONAL = {"equistrata.synth.models.mbi"}  # the reference engine, which needs the extra "reference"
HEAVY = ["prefect", "jax", "mbi", "torch", "dask"]

IMPORT_ALL = f"""
import importlib, pkgutil, sys
found = []
for room in {CORE}:
    package = importlib.import_module(room)
    names = [module.name for module in pkgutil.walk_packages(package.__path__, room + ".")]
    for name in names:
        if name not in {OPTIONAL}:
            importlib.import_module(name)
            found.append(name)
print(len(found), *[name for name in {HEAVY} if name in sys.modules])
"""


def test_importing_the_core_loads_none_of_the_heavy_packages(repo_root):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], cwd=repo_root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    count, *heavy = done.stdout.split()
    assert heavy == []
    assert int(count) > 8  # data and privacy alone have eight modules: the walk did not come up empty


def test_no_cluster_is_imported_unless_it_is_asked_for(repo_root):
    imports = "import sys, equistrata.flows.cli.main, equistrata.flows.release.flow"
    program = f"{imports}; print([n for n in ('dask', 'distributed', 'ray') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repo_root, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


def test_commands_import_what_they_need_when_they_run(repo_root):
    """`equistrata --help` takes twice as long with pandas."""
    heavy = ("numpy", "pandas", "scipy", "matplotlib", "prefect")
    program = f"import sys, equistrata.flows.cli.main; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repo_root, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_arrows_between_rooms(repo_root):
    command = Path(sys.executable).with_name("lint-imports")
    found = str(command) if command.exists() else shutil.which("lint-imports")
    if not found:
        pytest.skip("import-linter is not installed (extra 'dev')")
    done = subprocess.run([found, "--no-cache"], cwd=repo_root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
