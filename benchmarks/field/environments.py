"""An environment for each peer, made once: `.venv-peers/NAME`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.field.systems import Environment

CHILD = Path(__file__).with_name("child.py")
FOLDER = Path(".venv-peers")
STAMP = "installed"
LONGEST = 1800  # seconds for an install
_PIP = ("-m", "pip", "install", "-qq", "--disable-pip-version-check")
_ADDRESS = re.compile(r"\b\w+://\S+")


class NotThere(RuntimeError):
    """A peer's environment is not there and could not be made. The message is the reason, one sentence."""


def interpreter(environment: Environment, peer: Path, folder: Path = FOLDER, install: bool = True) -> Path:
    """The environment's Python, after making the environment if it is not there or was made from other pins.

    A stamp is written last, so an install that was interrupted is made anew.

    Args:
        peer: the file whose imports the environment must hold.
        install: whether it may be made.

    Raises NotThere.
    """
    place = folder / environment.name
    # Not resolved: an environment's interpreter is a link, and only by its own path does it find its packages.
    python, stamp, pins = place.absolute() / "bin/python", place / STAMP, _pins(environment)
    if stamp.exists() and stamp.read_text("utf-8") == pins:
        return python
    if not install:
        raise NotThere(f"its environment {str(place)!r} is not there, or older than its pins")
    shutil.rmtree(place, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(place)], "its environment was not made")
    _run([str(python), *_PIP, *environment.requires], "pip did not install it")
    if environment.alone:
        _run([str(python), *_PIP, "--no-deps", *environment.alone], "pip did not install it")
    _check(python, peer)
    stamp.write_text(pins, "utf-8")
    return python


def _pins(environment: Environment) -> str:
    """What the environment is made from, files written out."""
    texts = [Path(text).read_text("utf-8") if text.endswith(".txt") else text for text in environment.requires]
    return "\n".join([sys.version, *texts, *environment.alone])


def _check(python: Path, peer: Path) -> None:
    _run([str(python), "-I", str(CHILD), "--check", str(peer)], "its packages do not import")


def _run(command: list[str], failed: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise NotThere(f"{failed} within {LONGEST // 60} minutes") from None
    if done.returncode:
        raise NotThere(f"{failed}: {reason(done.stderr)}")


def reason(text: str) -> str:
    """The line of a program's errors that says why, without addresses.

    >>> reason("WARNING: x\\nERROR: No matching distribution found for y\\nERROR: again")
    'No matching distribution found for y'
    >>> reason("Traceback\\n  File z\\nModuleNotFoundError: No module named 'y'\\n")
    "ModuleNotFoundError: No module named 'y'"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    matching = [line for line in errors if line.startswith("No matching distribution")]
    return _ADDRESS.sub("…", (matching or errors or lines[-1:] or ["no message"])[0])[:300]
