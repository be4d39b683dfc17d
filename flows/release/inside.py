"""The private folder beside a release, for exact numbers: internal scores and audits.

That of `releases/2026-11` is `releases/2026-11.internal`, mode 0700, so a copy of the release has no exact number.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from equistrata.data.texts.json_documents import read_json
from equistrata.data.texts.manifest import MANIFEST, MANIFEST_FORMAT
from equistrata.errors import InputError
from equistrata.flows.run.disk import write_durably

SUFFIX = ".internal"
SCORES = "scores.json"


def private_folder(release: Path) -> Path:
    """The path of a release's private folder. Nothing is made."""
    named = release.name not in ("", "..") and not release.is_symlink()  # `.`, or a link to the newest release
    release = release if named else release.resolve()
    return release.with_name(release.name + SUFFIX)


def check_place(output: Path) -> None:
    """Raise InputError unless a release may be made there with a new private folder beside it. Nothing is written."""
    host = release_around(output)
    if host is not None:
        raise InputError(f"output folder {str(output)!r} is inside release {str(host)!r}; choose another --output")
    private = private_folder(output)
    try:
        os.lstat(private)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"folder {str(private)!r}, for exact results beside output folder {str(output)!r}, cannot be made "
            f"({os.strerror(error.errno or 0).lower()}); choose another --output"
        ) from None
    raise InputError(
        f"folder {str(private)!r} holds exact results of an earlier release; move it away, or choose another --output"
    )


def release_around(place: Path) -> Path | None:
    """The release folder around a place, links followed; None without one."""
    return next((folder for folder in Path(os.path.realpath(place)).parents if is_release(folder)), None)


def keep_scores(release: Path, document: object) -> Path:
    """Write a landed release's exact scores into its private folder, which is made; the file. Raises InputError."""
    private = private_folder(release)
    try:
        private.mkdir(mode=0o700)
        write_durably(private / SCORES, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(
            f"the release is whole in {str(release)!r}, but its exact scores cannot be kept in {str(private)!r} "
            f"({os.strerror(error.errno or 0).lower()}); equistrata audit computes exact numbers again"
        ) from None
    return private / SCORES


def for_a_person() -> bool:
    """Whether output goes to a terminal. Exact numbers are printed nowhere else: a pipe may end in a log."""
    return sys.stdout.isatty()


def is_release(folder: Path) -> bool:
    """Whether a folder has the manifest of a release; not whether it is whole."""
    try:
        return bool(read_json(folder / MANIFEST, "it", {"format": str})["format"] == MANIFEST_FORMAT)
    except InputError:
        return False
