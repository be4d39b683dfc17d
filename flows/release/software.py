"""Which software makes a release: the versions that decide what is drawn, and a digest of equistrata's own files.

In a checkout the version that is installed stays as it was while the code changes, so the files are looked at too.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path

PACKAGE = "equistrata"

# What reads a row decides in which stratum it falls, and a row that fell in one stratum before a crash and in another after it
# would be measured twice. OpenDP draws the noise and converts the price.
LIBRARIES = ("equistrata", "folktables", "numpy", "opendp", "pandas", "pyarrow")


def software() -> dict[str, str]:
    """The versions, by name; `code` is a digest of equistrata's own files."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"code": own_code(), "python": python} | {name: version(name) for name in LIBRARIES}


@cache
def own_code() -> str:
    """SHA-256 of the package's Python files and schemas, and of its `pyproject.toml` in a checkout, as they were when first asked.

    10 ms or so.
    """
    whole, found = hashlib.sha256(), dict[str, Path]()
    package = Path(str(resources.files(PACKAGE)))
    rooms = [
        place for place in package.iterdir() if place.is_dir()
    ]  # links in a checkout, which `rglob` does not enter
    for path in (*package.glob("*"), *(path for room in rooms for path in room.rglob("*"))):
        if path.suffix in (".py", ".yaml"):
            found[path.relative_to(package).as_posix()] = path
    declared = package.parent / "pyproject.toml"
    if declared.exists():
        found[declared.name] = declared
    for name in sorted(found):
        _add(whole, name, found[name])
    return whole.hexdigest()


def _add(whole: hashlib._Hash, name: str, path: Path) -> None:
    whole.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
