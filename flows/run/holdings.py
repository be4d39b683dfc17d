"""Which folders this user's runs hold, wherever they lie, so that the next run of anything finds those of the dead.

A working folder may lie in any `--scratch`, and an output takes shape beside its place: the next run may have neither among its
settings. So each such folder is written down in the state folder before it is made, in a file of its own that the run keeps
locked as long as it lives, and removes at its end.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equistrata.flows.run.claims import remove_if_dead
from equistrata.flows.run.journal import state_folder

PREFIX = ".folder-"
FORGOTTEN = 30 * 24 * 3600.0  # seconds after which a folder that cannot be seen from here is looked for no more


@contextmanager
def written_down(folder: Path) -> Iterator[None]:
    """Have a folder known to other runs while the block runs, and as long after it as the process was killed in it.

    Where the state folder cannot be written the folder is not known: then only a run with the same settings finds it.

    Args:
        folder: an absolute path whose parent is there.
    """
    entry = _written(folder)
    try:
        yield
    finally:
        if entry is not None:
            name, handle = entry
            # What could not be removed stays known.
            with suppress(OSError):
                if not folder.exists():
                    os.unlink(name)
            os.close(handle)


def remove_dead_holdings() -> None:
    """Remove the folders that were written down by runs that are dead, as far as they can be seen from here."""
    with suppress(OSError):
        for entry in list(state_folder().glob(f"{PREFIX}*")):
            with suppress(OSError):
                _look_after(entry)


def _written(folder: Path) -> tuple[str, int] | None:
    text = json.dumps({"folder": os.fspath(folder), "parent": folder.parent.stat().st_ino})
    try:
        state = state_folder()
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            handle, name = tempfile.mkstemp(prefix=PREFIX, dir=state)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if os.fstat(handle).st_nlink:  # else another run took it for a dead one's before it was locked
                    os.write(handle, text.encode())
                    return name, handle
            except BaseException:
                os.unlink(name)
                os.close(handle)
                raise
            os.close(handle)
    except OSError:
        return None


def _look_after(entry: Path) -> None:
    handle = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its run is alive
        if _is_settled(os.read(handle, 1 << 16), os.fstat(handle).st_mtime):
            entry.unlink()
    finally:
        os.close(handle)


def _is_settled(text: bytes, written: float) -> bool:
    """Whether an entry has nothing more to say, once the folder is removed if that can be done."""
    try:
        told = json.loads(text)
        folder, parent = Path(told["folder"]), told["parent"]
    except (ValueError, KeyError, TypeError):
        return True  # its run died before it made the folder
    if not remove_if_dead(folder):
        return False
    # A container may have another disk under this name: then the folder is not gone, only out of sight.
    with suppress(OSError):
        if folder.parent.stat().st_ino == parent:
            return True
    return time.time() - written > FORGOTTEN
