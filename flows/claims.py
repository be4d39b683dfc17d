"""Folders that one living process holds, and the removal of those that dead ones have left.

A claim is an advisory lock on a file in the folder. The system drops it with the process, however that ends, so whoever
gets the lock knows that the owner is gone; a process number would say so only until it is given to somebody else.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"
LANDING = "landing"  # names a half-written folder elsewhere that goes with this one


def claim(folder: Path) -> int | None:
    """Take a folder; the lock's descriptor, or None if another process has it or it is not there (or not ours)."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited by programs that are started
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(folder / LOCK).st_ino == os.fstat(handle).st_ino:  # else it was removed while we waited
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Hold a folder while the block runs; tells whether it could be had."""
    handle = claim(folder)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def remove_dead(parent: Path, pattern: str) -> None:
    """Remove this user's folders of that name whose owner is gone, and the half-written folders they name."""
    for folder in parent.glob(pattern):
        try:
            status = folder.lstat()
        except OSError:
            continue
        if folder.is_symlink() or not folder.is_dir() or status.st_uid != os.geteuid():
            continue
        if not (folder / LOCK).exists():
            # Just made, or left by a process that died right then: either way there is nothing in it, or it stays.
            with suppress(OSError):
                folder.rmdir()
            continue
        with claimed(folder) as dead:
            if dead:
                remove_with_landing(folder)


def remove_with_landing(folder: Path) -> None:
    """Remove a folder and the half-written one that it names. Only for who holds it."""
    try:
        landing = Path((folder / LANDING).read_text("utf-8"))
        if landing.name.startswith(".") and landing.name.endswith(".part"):
            shutil.rmtree(landing, ignore_errors=True)
    except (OSError, UnicodeDecodeError):
        pass
    remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder that one holds, as far as that can be done.

    The lock goes last: whoever is killed meanwhile leaves a folder that is seen to be a dead one's, or is empty.
    """
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name != LOCK:
                _drop(path)
    with suppress(OSError):
        if all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


def _drop(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
