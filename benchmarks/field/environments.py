"""The environment of each peer in `.venv-peers/NAME`, which is created once."""

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
LONGEST = 1800  # the time limit of an installation in seconds
_PIP = ("-m", "pip", "install", "-qq", "--disable-pip-version-check")
_ADDRESS = re.compile(r"\b\w+://\S+")


class PeerUnavailable(RuntimeError):
    """An environment does not exist and could not be created. The message is the reason."""


def interpreter(environment: Environment, peer: Path, folder: Path = FOLDER, install: bool = True) -> Path:
    """Return the Python interpreter of an environment.

    The environment is created if it does not exist or if its pins have changed. A stamp is written at the end, so an
    interrupted installation is repeated.

    Parameters
    ----------
    environment : Environment
        The environment.
    peer : Path
        The peer file, which must be able to import its packages in the environment.
    folder : Path
        The folder of all environments.
    install : bool
        If False, the environment is not created.

    Returns
    -------
    Path
        The interpreter.

    Raises
    ------
    NotThere
        If the environment does not exist and cannot be created.
    """
    place = folder / environment.name
    # The path is not resolved, because the interpreter is a link that only finds its packages by its own path.
    python, stamp, pins = place.absolute() / "bin/python", place / STAMP, _pins(environment)
    if environment.by_hand:
        if not python.exists():
            raise PeerUnavailable(f"its environment {str(place)!r} must be made by hand (docs/experiments/field.md)")
        _check(python, peer)
        return python
    if stamp.exists() and stamp.read_text("utf-8") == pins:
        return python
    if not install:
        raise PeerUnavailable(f"its environment {str(place)!r} is not there, or older than its pins")
    shutil.rmtree(place, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(place)], "its environment was not made")
    _run([str(python), *_PIP, *environment.requires], "pip did not install it")
    if environment.alone:
        _run([str(python), *_PIP, "--no-deps", *environment.alone], "pip did not install it")
    _check(python, peer)
    stamp.write_text(pins, "utf-8")
    return python


def _pins(environment: Environment) -> str:
    """Return the requirements of the environment, including the content of requirement files."""
    texts = [Path(text).read_text("utf-8") if text.endswith(".txt") else text for text in environment.requires]
    return "\n".join([sys.version, *texts, *environment.alone])


def _check(python: Path, peer: Path) -> None:
    _run([str(python), "-I", str(CHILD), "--check", str(peer)], "its packages do not import")


def _run(command: list[str], failed: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"{failed} within {LONGEST // 60} minutes") from None
    if done.returncode:
        raise PeerUnavailable(f"{failed}: {reason(done.stderr)}")


def reason(text: str) -> str:
    r"""Return the line of an error output that contains the reason, without addresses.

    >>> reason("WARNING: x\nERROR: No matching distribution found for y\nERROR: again")
    'No matching distribution found for y'
    >>> reason("Traceback\n  File z\nModuleNotFoundError: No module named 'y'\n")
    "ModuleNotFoundError: No module named 'y'"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    matching = [line for line in errors if line.startswith("No matching distribution")]
    return _ADDRESS.sub("…", (matching or errors or lines[-1:] or ["no message"])[0])[:300]
