"""Console blocks of the documentation, and a place to run them in as a reader would: a clone with its `.venv`."""

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
    """The console blocks of a page, without prompts; output that a page shows among them."""
    path = ROOT / page
    found = [text for kind, text in _BLOCK.findall(path.read_text("utf-8")) if kind in ("", "console", "sh", "bash")]
    return [re.sub(r"^ *\$ ", "", text, flags=re.MULTILINE).strip("\n") for text in found]


def block(page, first):
    """The one block of a page that begins so."""
    (text,) = [text for text in blocks(page) if text.lstrip().startswith(first)]
    return text


def checkout(folder):
    """A copy of the files that git knows or would add here, with the `.venv` that `make install` leaves."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    for name in filter(None, done.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target, follow_symlinks=False)
    return folder


def installed(folder):
    """The `.venv` of a checkout, as if `make install` had just ended: this interpreter's, by links."""
    environment = folder / ".venv"
    environment.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        if (SCRIPTS.parent / name).exists():
            (environment / name).symlink_to(SCRIPTS.parent / name)
    for stamp in (".installed", ".installed-server"):
        (environment / stamp).touch()


def variables(home, **more):
    """The environment of a reader whose home is a folder: nothing of ours is set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OWN)}
    return kept | {"HOME": str(home), "OMP_NUM_THREADS": "1", "COLUMNS": "120", **more}


def run(script, folder, environment, timeout=600):
    """Run lines of bash, the first error ends them; what they printed. What they left running goes on."""
    log = Path(tempfile.mkstemp(prefix="said-", dir=environment["HOME"])[1])  # no pipe: what goes on may keep it open
    with log.open("wb") as out:
        done = subprocess.run(
            ["bash", "-c", f"set -euo pipefail\n{script}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, timeout=timeout, check=False,
        )  # fmt: skip
    said = log.read_text("utf-8")
    assert done.returncode == 0, said[-4000:]
    return said


def end_all(home):
    """End what was started with this folder as its home and still runs, the latest first: the worker before the server,
    for which it would wait."""
    for patience, how in ((30, signal.SIGTERM), (5, signal.SIGKILL)):
        for pid in reversed(told("HOME", home)):
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            deadline = time.monotonic() + patience
            while pid in told("HOME", home) and time.monotonic() < deadline:
                time.sleep(0.1)
