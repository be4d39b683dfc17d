"""The manifest of a release, which contains the size and the SHA-256 of each file.

The manifest covers the files that can be published, which are the files of the release and the public audits that were
added later (see `equistrata.flows.publication`). It detects accidental damage and edits. A deliberate edit can also
change the manifest. It can only be detected if the digest of the manifest was recorded elsewhere, so every audit prints
this digest.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from equistrata.data.texts.documents import read_bytes
from equistrata.data.texts.json_documents import MOST_BYTES, parse_json
from equistrata.errors import InputError

MANIFEST = "manifest.json"
MANIFEST_FORMAT = "equistrata manifest 1"
# The format of a `card.json` that `equistrata.analysis.verify` can check completely. Older cards have 1 or none.
CARD_FORMAT = 2
NEXT = ".next"  # the folder in a release that contains files while they are added
MEND = "download the whole folder again from its publisher, or make the release again"

OWN = {"card.json", "card.md", "cells.csv", "controls.csv", "means.json", "schema.json", "series.json"}
OWN |= {"synthetic.csv", "synthetic.parquet"}
MEASURED, MODELS = "measurements", "models"
FOLDERS = {MEASURED, MODELS}
Entry = dict[str, Any]  # "bytes" and "sha256" of a file
_SHAPE = {"format": str, "files": {str: {"bytes": int, "sha256": str}}}


def write_manifest(folder: Path, others: Mapping[str, Entry] | None = None) -> None:
    """Write `manifest.json` for all files in a folder.

    Parameters
    ----------
    folder : Path
        The folder of the release.
    others : mapping of str to Entry, optional
        The entries of other files that will be added to the folder.
    """
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    here = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": _sha256(folder / name)}
        for name in names
        if name != MANIFEST
    }
    document = {"format": MANIFEST_FORMAT, "files": dict(sorted((dict(others or {}) | here).items()))}
    (folder / MANIFEST).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def check_manifest(folder: Path) -> str:
    """Check that the files of a release have not changed, and return the SHA-256 of the manifest.

    While an audit is being added, a file can already be the new file (see `equistrata.flows.publication.addition`).

    Parameters
    ----------
    folder : Path
        The folder of the release.

    Returns
    -------
    str
        The SHA-256 of the manifest.

    Raises
    ------
    InputError
        If there is no folder or no manifest, if the manifest is damaged, or if a file is missing, cut off, edited or
        not listed.
    """
    where = f"release {str(folder)!r}"
    if zipfile.is_zipfile(folder):  # `equistrata publish` creates a zip file without a top-level folder
        into = f"-d {shlex.quote(str(folder.with_suffix('')))}"
        raise InputError(f"{where} is a zip; unpack it (unzip {shlex.quote(str(folder))} {into}), and give that folder")
    if not folder.is_dir():
        raise InputError(f"{where} is not a folder; check the path")
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{where} has no {MANIFEST}, so it is incomplete or from an early version; {MEND}")
    coming = listed(folder / NEXT, where) if (folder / NEXT / MANIFEST).is_file() else {}
    files = listed(folder, where)
    for name, entry in files.items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{where} lacks its file {name!r}; {MEND}")
        try:
            size = path.stat().st_size
            if name in coming and size == coming[name]["bytes"] and _sha256(path) == coming[name]["sha256"]:
                continue
            digest = _sha256(path) if size == entry["bytes"] else ""
        except OSError:
            raise InputError(f"file {name!r} of {where} cannot be read; check its permissions") from None
        if size < entry["bytes"]:
            raise InputError(
                f"file {name!r} of {where} is cut off ({size:,} of {entry['bytes']:,} bytes are there); {MEND}"
            )
        if digest != entry["sha256"]:
            raise InputError(f"file {name!r} of {where} was edited after the release; {MEND}")
    there = [*folder.iterdir(), *(path for inner in FOLDERS for path in (folder / inner).glob("*"))]
    for name in (path.relative_to(folder).as_posix() for path in there):
        if is_release_file(name) and name not in FOLDERS and name not in files:  # it would be read as the release's
            raise InputError(f"{where} has a file {name!r} that its manifest does not list; {MEND}")
    return _sha256(folder / MANIFEST)


def is_release_file(name: str) -> bool:
    """Return True if the name of a file shows that it belongs to the release and not to an audit that was added."""
    return name in OWN or PurePosixPath(name).parts[0] in FOLDERS


def listed(folder: Path, where: str) -> dict[str, Entry]:
    """Return the size in bytes and the SHA-256 of each file in the manifest of a folder.

    Raises
    ------
    InputError
        If the manifest is damaged.
    """
    return entries(read_bytes(folder / MANIFEST, f"{MANIFEST} of {where}", MOST_BYTES), where)


def entries(content: bytes, where: str) -> dict[str, Entry]:
    """Return the entries of a manifest from its bytes.

    Raises
    ------
    InputError
        If the manifest is damaged, or if it contains a file outside of its folder.
    """
    document = parse_json(content, f"{MANIFEST} of {where}", _SHAPE)
    files: dict[str, Entry] = document["files"]
    if document["format"] == MANIFEST_FORMAT and files and all(map(_is_inside, files)):
        return files
    raise InputError(f"{MANIFEST} of {where} is damaged; {MEND}")


def _is_inside(name: str) -> bool:
    """Return True if a name is the normalized path of a file in the folder.

    The manifest can come from other people, so a name must not lead out of the folder.
    """
    path = PurePosixPath(name)
    inside = path.parts and not path.is_absolute() and ".." not in path.parts and str(path) == name
    return bool(inside) and "\0" not in name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
