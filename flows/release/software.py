"""The software that makes a release: versions, and a digest of equistrata's own files, which change in a checkout."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path

PACKAGE = "equistrata"

# What reads a row decides its stratum, and a row in one stratum before a crash and in another after it would be
# measured twice. OpenDP draws the noise and converts the price.
LIBRARIES = ("equistrata", "folktables", "numpy", "opendp", "pandas", "pyarrow")


def software() -> dict[str, str]:
    """The versions, by name; `code` is a digest of equistrata's own files."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"code": own_code(), "python": python} | {name: version(name) for name in LIBRARIES}


@cache
def own_code() -> str:
    """SHA-256 of the package's Python files and schemas, and of a checkout's `pyproject.toml`; 10 ms."""
    whole, found = hashlib.sha256(), dict[str, Path]()
    package = Path(str(resources.files(PACKAGE)))
    rooms = [place for place in package.iterdir() if place.is_dir()]  # links in a checkout: `rglob` enters none
    for path in (*package.glob("*"), *(path for room in rooms for path in room.rglob("*"))):
        if path.suffix in (".py", ".yaml"):
            found[path.relative_to(package).as_posix()] = path
    declared = package.parent / "pyproject.toml"
    if declared.exists():
        found[declared.name] = declared
    for name in sorted(found):
        whole.update(name.encode() + b"\0" + hashlib.sha256(found[name].read_bytes()).digest())
    return whole.hexdigest()
