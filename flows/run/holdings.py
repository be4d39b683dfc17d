"""Folders that this user's runs hold, and a record of them, so that the next run removes those of dead runs.

A working folder may be in any `--scratch`, and an output takes shape beside its place: the next run may have neither
among its settings. So each such folder is recorded in the state folder before it is made, in a file of its own that the
run keeps locked while it lives, and removes at its end.
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

from equistrata.flows.run.claims import LOCK, beating, remove, remove_if_dead, take
from equistrata.flows.run.journal import state_folder

RECORD_PREFIX = ".folder-"
FORGOTTEN = 30 * 24 * 3600.0  # seconds after which the record of a folder that is out of reach is dropped


@contextmanager
def held_folder(folder: Path, exist_ok: bool = False) -> Iterator[Path]:
    """Make a folder (an absolute path; a dead run's, if `exist_ok`), hold it by lease in the block, then remove it.

    Raises Held; FileNotFoundError or FileExistsError if another run removed it at this moment, or something else is in
    its place; OSError if it or its lock cannot be made.
    """
    with ExitStack() as stack:
        stack.enter_context(_recorded(folder))
        folder.mkdir(mode=0o700, exist_ok=exist_ok)
        found = os.listdir(folder)
        if found and LOCK not in found:  # not ours, unless the list was read while it changed
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
        stack.enter_context(beating(handle))
        yield folder


@contextmanager
def _recorded(folder: Path) -> Iterator[None]:
    """Record a folder while the block runs, and beyond it if the process is killed or the folder stays."""
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
    """Remove the recorded folders of dead runs, as far as they are in reach."""
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
                if os.fstat(handle).st_nlink:  # else another run removed it before it was locked
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
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its run is alive
        if _is_done(os.read(handle, 1 << 16), os.fstat(handle).st_mtime):
            entry.unlink()
    finally:
        os.close(handle)


def _is_done(text: bytes, written: float) -> bool:
    """Remove the folder of a record if possible; whether the record is of no more use."""
    try:
        told = json.loads(text)
        folder, parent = Path(told["folder"]), told["parent"]
    except (ValueError, KeyError, TypeError):
        return True  # its run died before it made the folder
    if not remove_if_dead(folder):
        return False
    # A container may have another disk under this name: then the folder is not gone, but out of reach.
    with suppress(OSError):
        if folder.parent.stat().st_ino == parent:
            return True
    return time.time() - written > FORGOTTEN
