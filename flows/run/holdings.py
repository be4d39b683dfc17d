"""Folders that are held by the runs of this user, with a record of each folder.

A working folder can be in any `--scratch` folder, and an output is prepared next to its final path. The settings of the
next run may contain neither of these paths. Therefore each folder is recorded in the state folder before it is created.
The record is a separate file, which the run locks and removes at its end. The next run uses the records to remove the
folders of runs that have died.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from equistrata.flows.run.claims import LOCK, remove, remove_if_dead, renew_claim, take
from equistrata.flows.run.journal import state_folder

RECORD_PREFIX = ".folder-"
FORGOTTEN = 30 * 24 * 3600.0  # seconds after which the record of a folder that is not reachable is removed


@contextmanager
def hold_folder(folder: Path, exist_ok: bool = False) -> Iterator[Path]:
    """Create a folder, hold it by a lease while the block runs, and remove it afterwards.

    Parameters
    ----------
    folder : Path
        The absolute path.
    exist_ok : bool, default=False
        If True, the folder of a run that has died is used again.

    Yields
    ------
    Path
        The folder.

    Raises
    ------
    Held
        If another process holds the folder.
    FileNotFoundError, FileExistsError
        If another run has removed the folder at the same time, or if the path is used by other software.
    OSError
        If the folder or its lock cannot be created.
    """
    with ExitStack() as stack:
        stack.enter_context(_recorded(folder))
        folder.mkdir(mode=0o700, exist_ok=exist_ok)
        found = os.listdir(folder)
        if found and LOCK not in found:  # the folder belongs to other software, or it has changed just now
            raise FileExistsError(errno.EEXIST, "in the way", str(folder))
        try:
            handle = take(folder, leased=True)
        except FileNotFoundError:
            raise
        except OSError:
            if not exist_ok:
                remove(folder)
            raise
        stack.callback(os.close, handle)
        stack.callback(remove, folder)
        stack.enter_context(renew_claim(handle))
        yield folder


@contextmanager
def _recorded(folder: Path) -> Iterator[None]:
    """Record a folder while the block runs.

    The record remains if the process is killed or if the folder is not removed.
    """
    entry = _written(folder)
    try:
        yield
    finally:
        if entry is not None:
            name, handle = entry
            with suppress(OSError):
                if not folder.exists():
                    os.unlink(name)
            os.close(handle)


def remove_dead_holdings() -> None:
    """Remove the recorded folders of runs that have died, as far as they are reachable."""
    with suppress(OSError):
        for entry in list(state_folder().glob(f"{RECORD_PREFIX}*")):
            with suppress(OSError):
                _remove_if_dead(entry)


def _written(folder: Path) -> tuple[str, int] | None:
    text = json.dumps({"folder": os.fspath(folder), "parent": folder.parent.stat().st_ino})
    try:
        state = state_folder()
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            handle, name = tempfile.mkstemp(prefix=RECORD_PREFIX, dir=state)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if os.fstat(handle).st_nlink:  # otherwise another run removed the file before it was locked
                    os.write(handle, text.encode())
                    return name, handle
            except BaseException:
                os.unlink(name)
                os.close(handle)
                raise
            os.close(handle)
    except OSError:
        return None


def _remove_if_dead(entry: Path) -> None:
    handle = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises an OSError if the run has not ended
        if _is_done(os.read(handle, 1 << 16), os.fstat(handle).st_mtime):
            entry.unlink()
    finally:
        os.close(handle)


def _is_done(text: bytes, written: float) -> bool:
    """Remove the folder of a record if possible. Return True if the record is no longer needed."""
    try:
        told = json.loads(text)
        folder, parent = Path(told["folder"]), told["parent"]
    except (ValueError, KeyError, TypeError):
        return True  # the run died before it created the folder
    if not remove_if_dead(folder):
        return False
    # In a container, this path may be on another disk. In this case the folder is not reachable but may still exist.
    with suppress(OSError):
        if folder.parent.stat().st_ino == parent:
            return True
    return time.time() - written > FORGOTTEN
