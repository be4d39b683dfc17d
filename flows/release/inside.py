"""The private folder next to a release, which contains exact numbers such as internal scores and audits.

The private folder of `releases/2026-11` is `releases/2026-11.internal` and has mode 0700. A copy of the release
therefore does not contain any exact number.
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
    """Return the path of the private folder of a release. The folder is not created."""
    # This is False for `.` and for a link to the newest release.
    named = release.name not in ("", "..") and not release.is_symlink()
    release = release if named else release.resolve()
    return release.with_name(release.name + SUFFIX)


def check_place(output: Path) -> None:
    """Check that a release can be made at a path, with a new private folder next to it. Nothing is written.

    Raises
    ------
    InputError
        If the path is inside another release, or if the private folder exists or cannot be created.
    """
    host = enclosing_release(output)
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
        f"folder {str(private)!r} contains exact results of an earlier release; move it away, or choose "
        "another --output"
    )


def enclosing_release(place: Path) -> Path | None:
    """Return the release folder that contains a path, after following links. If there is none, return None."""
    return next((folder for folder in Path(os.path.realpath(place)).parents if is_release(folder)), None)


def keep_scores(release: Path, document: object) -> Path:
    """Write the exact scores of a complete release to its private folder, and return the path of the file.

    Raises
    ------
    InputError
        If the folder or the file cannot be created.
    """
    private = private_folder(release)
    try:
        private.mkdir(mode=0o700)
        write_durably(private / SCORES, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(
            f"the release in {str(release)!r} is complete, but its exact scores cannot be saved in "
            f"{str(private)!r} ({os.strerror(error.errno or 0).lower()}); equistrata audit computes exact "
            "numbers again"
        ) from None
    return private / SCORES


def is_terminal_output() -> bool:
    """Return True if the output is a terminal.

    Exact numbers are not printed elsewhere, because a pipe may end in a log.
    """
    return sys.stdout.isatty()


def is_release(folder: Path) -> bool:
    """Return True if a folder has the manifest of a release. The release may be incomplete."""
    try:
        return bool(read_json(folder / MANIFEST, "it", {"format": str})["format"] == MANIFEST_FORMAT)
    except InputError:
        return False
