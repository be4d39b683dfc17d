"""The manifest of a release: which files it has, how long they are, and their SHA-256.

It covers what may be published; `internal/` and what is made later from a release (its audits) are left out. It finds
damage and edits by accident. Whoever edits a file on purpose can edit the manifest as well, unless its own digest was
noted elsewhere: every audit prints it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

from data.errors import InputError

NAME = "manifest.json"
FORMAT = "equistrata manifest 1"
LEFT_OUT = "internal"
MEND = "bring the whole folder back from where it was published, or make the release again"


def write_manifest(folder: Path) -> None:
    """Write `manifest.json` over every file below a finished release folder but those in `internal/`."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in (LEFT_OUT, NAME)
    )
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": _sha256(folder / name)} for name in names}
    document = {"format": FORMAT, "files": files}
    (folder / NAME).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def check_manifest(folder: Path) -> str:
    """Check that every file of a release is there as it was written; return the manifest's own SHA-256.

    Raises:
        InputError: no such folder, no manifest or a damaged one, or the first file that is missing, cut off or edited.
    """
    where = f"release {str(folder)!r}"
    if not folder.is_dir():
        raise InputError(f"{where} is not a folder; check the path")
    if not (folder / NAME).is_file():
        raise InputError(f"{where} has no {NAME}, so it is incomplete or made before there was one; {MEND}")
    for name, entry in _files(folder, where).items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{where} lacks its file {name!r}; {MEND}")
        try:
            size = path.stat().st_size
            digest = _sha256(path) if size == entry["bytes"] else ""
        except OSError:
            raise InputError(f"file {name!r} of {where} cannot be read; check its permissions") from None
        if size < entry["bytes"]:
            raise InputError(
                f"file {name!r} of {where} is cut off ({size:,} of {entry['bytes']:,} bytes are there); {MEND}"
            )
        if digest != entry["sha256"]:
            raise InputError(f"file {name!r} of {where} was edited after the release; {MEND}")
    return _sha256(folder / NAME)


def _files(folder: Path, where: str) -> dict[str, dict[str, Any]]:
    damaged = InputError(f"{NAME} of {where} is damaged; {MEND}")
    try:
        document = json.loads((folder / NAME).read_text("utf-8"))
        files = document["files"]
        whole = document["format"] == FORMAT and bool(files) and all(_is_entry(*each) for each in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged from None
    if not whole:
        raise damaged
    return dict(files)


def _is_entry(name: str, entry: Any) -> bool:
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts  # a manifest from elsewhere must not lead out
    return inside and isinstance(entry["bytes"], int) and isinstance(entry["sha256"], str)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
