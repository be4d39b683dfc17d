"""Functions that run the console blocks of the documentation in a clone of the repository with a `.venv`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from processes import told

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = Path(sys.executable).parent
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_OWN = ("EQUISTRATA", "PREFECT", "PG", "PYTHON")


def blocks(page):
    """Return the console blocks of a page without prompts. The blocks may contain output."""
    path = ROOT / page
    found = [text for kind, text in _BLOCK.findall(path.read_text("utf-8")) if kind in ("", "console", "sh", "bash")]
    return [re.sub(r"^ *\$ ", "", text, flags=re.MULTILINE).strip("\n") for text in found]


def block(page, first):
    """Return the only block of a page that starts with this text."""
    (text,) = [text for text in blocks(page) if text.lstrip().startswith(first)]
    return text


def checkout(folder):
    """Copy all files that git tracks or would add. Without git, copy all files that were not made by tests or tools."""
    for name in _files_of_git() if shutil.which("git") else _files():
        source, target = ROOT / name, folder / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target, follow_symlinks=False)
    return folder


def _files_of_git():
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return filter(None, done.stdout.split("\0"))


def _files():
    made = ("build", "dist", "releases", "__pycache__", "shared")
    for place, folders, files in os.walk(ROOT):
        links = [name for name in folders if Path(place, name).is_symlink()]
        yield from (Path(place, name).relative_to(ROOT) for name in [*files, *links])
        hidden = {name for name in folders if name.startswith(".") and name not in (".ci", ".github")}
        folders[:] = [name for name in folders if name not in {*made, *links, *hidden}]


def installed(folder):
    """Make the `.venv` of a checkout from links to this interpreter, as if `make install` was run."""
    environment = folder / ".venv"
    environment.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        if (SCRIPTS.parent / name).exists():
            (environment / name).symlink_to(SCRIPTS.parent / name)
    for stamp in (".installed", ".installed-server"):
        (environment / stamp).touch()


def variables(home, **more):
    """Return the environment of a reader with this home folder, without the variables of this project."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OWN)}
    return kept | {"HOME": str(home), "OMP_NUM_THREADS": "1", "COLUMNS": "120", **more}


def run(script, folder, environment, timeout=600):
    """Run a bash script until the first error and return its output. Programs in the background continue to run."""
    # A pipe would be kept open by programs that continue to run.
    log = Path(tempfile.mkstemp(prefix="said-", dir=environment["HOME"])[1])
    with log.open("wb") as out:
        done = subprocess.run(
            ["bash", "-c", f"set -euo pipefail\n{script}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, timeout=timeout, check=False,
        )  # fmt: skip
    said = log.read_text("utf-8")
    assert done.returncode == 0, said[-4000:]
    return said


def end_all(home):
    """Stop all processes that have this home folder, the latest first, so that the worker stops before the server."""
    for patience, how in ((30, signal.SIGTERM), (5, signal.SIGKILL)):
        for pid in reversed(told("HOME", home)):
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            deadline = time.monotonic() + patience
            while pid in told("HOME", home) and time.monotonic() < deadline:
                time.sleep(0.1)
