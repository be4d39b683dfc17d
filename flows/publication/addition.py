"""Adding a public audit to the folder of a release.

An addition changes three files of the folder, but no file system can rename three files at once. Therefore the addition
is first written completely to a folder `.next` in the release. This folder is created by a single rename, and the
addition is valid from this time on. Its parts are then moved to their places, with the manifest as the last one. If the
process is killed, the next process that opens the release continues. These steps can be interrupted and repeated at any
time. The function `check_manifest` accepts the files of both manifests, so that the release is always valid. The folder
itself is not replaced, because it may be in use by shells or mounts. Only one process can add files at a time, and all
others wait.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from equistrata.analysis.contents.card import read_card, read_means
from equistrata.data.texts.manifest import MANIFEST, NEXT, check_manifest, listed, write_manifest
from equistrata.errors import InputError
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.run.claims import LOCK, claim
from equistrata.flows.run.disk import sync, sync_tree

ADDING = ".adding-"
PATIENCE = 60.0  # seconds that an addition waits for another one, which only takes a moment

Card = Mapping[str, Any]


def add(release: Path, name: str, made: Path, priced: Callable[[Card, str], Card]) -> Path:
    """Copy a complete folder into a release.

    Parameters
    ----------
    release : Path
        The folder of the release.
    name : str
        The name of the new folder. If it exists by now, a number is appended.
    made : Path
        The folder that is copied.
    priced : callable
        Function that returns the new card for the current card and the name of the folder.

    Returns
    -------
    Path
        The new folder.

    Raises
    ------
    InputError
        If the release is damaged or not writable. In this case it is not changed.
    """
    with held(release):
        _finish(release)
        check_manifest(release)
        name = free_name(release, name)
        try:
            _lay_out(release, name, made, priced)
        except OSError as error:
            raise InputError(
                f"nothing can be added to release {str(release)!r} ({os.strerror(error.errno or 0).lower()}); "
                "correct this, or give the audit a folder of its own with --output"
            ) from None
        _finish(release)
    return release / name


def free_name(release: Path, name: str) -> str:
    """Return the name or, if it exists in the folder, the first of `name-2`, `name-3` and so on that does not exist."""
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, 1_000_000))
    return next(each for each in names if not os.path.lexists(release / each))


def finish_addition(release: Path) -> None:
    """Complete an addition if its process was killed. If this is not possible, raise an InputError."""
    if os.path.lexists(release / NEXT):
        with held(release):
            _finish(release)


def _finish(release: Path) -> None:
    """Move the parts of an addition to their places, and remove incomplete additions.

    The caller must hold the release.
    """
    try:
        for path in release.glob(f"{ADDING}*"):
            shutil.rmtree(path, ignore_errors=True)
        coming = release / NEXT
        if not coming.is_dir():
            return
        for path in sorted(coming.iterdir(), key=lambda path: path.name == MANIFEST):  # the manifest is moved last
            sync(release)
            os.rename(path, release / path.name)
        coming.rmdir()
        sync(release)
    except OSError as error:
        raise InputError(
            f"an audit that was being added to release {str(release)!r} cannot be moved to its place "
            f"({os.strerror(error.errno or 0).lower()}); correct this, and try again as the owner of the "
            "release"
        ) from None


@contextmanager
def held(release: Path) -> Iterator[None]:
    """Hold a release, so that other processes cannot change it.

    Raises
    ------
    InputError
        If the release is not writable, or if another process holds it for too long.
    """
    if not os.access(release, os.W_OK):
        raise InputError(f"release {str(release)!r} cannot be written; correct its permissions, or work as its owner")
    waited = time.monotonic() + PATIENCE
    while (lock := claim(release)) is None:
        if time.monotonic() > waited:
            raise InputError(f"release {str(release)!r} is held by another process; try again when that has ended")
        time.sleep(0.05)
    try:
        yield
    finally:
        try:
            with suppress(OSError):
                (release / LOCK).unlink()
        finally:
            os.close(lock)


def _lay_out(release: Path, name: str, made: Path, priced: Callable[[Card, str], Card]) -> None:
    """Create the folder `.next` in one durable step."""
    card = priced(read_card(release), name)
    page = card_markdown(card, read_means(release))
    coming = Path(tempfile.mkdtemp(prefix=ADDING, dir=release))
    try:
        (coming / name).mkdir()
        shutil.copytree(made, coming / name, copy_function=shutil.copyfile, dirs_exist_ok=True)
        (coming / name).chmod(0o755)
        (coming / "card.json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (coming / "card.md").write_text(page, "utf-8")
        write_manifest(coming, listed(release, f"release {str(release)!r}"))
        coming.chmod(0o755)
        sync_tree(coming)
        os.rename(coming, release / NEXT)
        sync(release)
    finally:
        shutil.rmtree(coming, ignore_errors=True)
