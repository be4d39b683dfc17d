"""Locks on folders, so that each folder is used by one running process and folders of ended processes can be removed.

A lock is an advisory lock on a file in the folder. The system releases it when the process ends, for any reason.
Therefore, if the lock is free, its owner has ended. A process id would not be reliable, because it can be reused. A
suspended process keeps its lock.

Several machines can share a folder but not its locks. A lease therefore also contains the id of the running kernel,
which is the same for all containers on one machine. The holder of a lease touches the file every BEAT seconds. If a
free lock contains the id of another kernel, it counts as held until the file has not been touched for LEASE seconds.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from equistrata.errors import EquistrataError

LOCK = ".lock"
LANDING = "landing"  # contains the path of an incomplete output folder, which is removed together with this folder
HELD_NAMES = re.compile(r"equistrata-release-.+|\..+\.part")  # folders that are removed after their run has ended
BEAT, LEASE = 20.0, 300.0
TRIES = 100  # the number of attempts to create a folder while other runs remove it

Given = TypeVar("Given")


class FolderInUse(EquistrataError):
    """Error that is raised if another process holds the folder."""


def take(folder: Path, leased: bool = False) -> int:
    """Lock a folder.

    Parameters
    ----------
    folder : Path
        The folder.
    leased : bool, default=False
        If True, respect the leases of other machines and write the id of this machine.

    Returns
    -------
    int
        The file descriptor of the lock. Programs that are started later do not inherit it.

    Raises
    ------
    Held
        If another process holds the folder.
    FileNotFoundError
        If the folder was removed.
    OSError
        If the lock file is not writable, or if the file system does not support locks.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse from None
        if os.stat(folder / LOCK).st_ino != os.fstat(handle).st_ino:
            raise FileNotFoundError(folder)
        if leased:
            signed, silent = os.pread(handle, 100, 0), time.time() - os.fstat(handle).st_mtime
            if signed and signed != _kernel() and silent < LEASE:  # another machine still renews it
                raise FolderInUse
            os.pwrite(handle, _kernel(), 0)
            os.utime(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def claim(folder: Path) -> int | None:
    """Lock a folder and return the file descriptor of the lock. If this is not possible, return None."""
    try:
        return take(folder)
    except (FolderInUse, OSError):
        return None


@contextmanager
def renew_claim(handle: int) -> Iterator[None]:
    """Touch the file of a lease at regular intervals while the block runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT):
            with suppress(OSError):
                os.utime(handle)

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def tried(attempt: Callable[[], Given], *lost: type[Exception]) -> Given:
    """Call a function again if another run removes its folder at the same time.

    Parameters
    ----------
    attempt : callable
        The function.
    *lost : type of Exception
        The errors that the function raises in this case.

    Returns
    -------
    object
        The result of the function.
    """
    for _ in range(TRIES - 1):
        with suppress(*lost):
            return attempt()
        time.sleep(0.001)
    return attempt()


def remove_dead(parent: Path, pattern: str) -> None:
    """Remove this user's folders of ended processes that match a pattern.

    The incomplete output folders that they name are removed as well.
    """
    with suppress(OSError):  # the folder does not exist, or its name is not valid
        for folder in list(parent.glob(pattern)):
            remove_if_dead(folder)


def remove_if_dead(folder: Path) -> bool:
    """Remove a folder of this user if no process holds it.

    Returns
    -------
    bool
        True if the folder does not exist any more.
    """
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not ours or not HELD_NAMES.fullmatch(folder.name):
        return False
    if not (folder / LOCK).exists():
        # The folder is new, or its process died before it could create the lock. Remove it if it is empty.
        with suppress(OSError):
            folder.rmdir()
            return True
        return False
    try:
        handle = take(folder, leased=True)
    except FileNotFoundError:
        return True
    except (FolderInUse, OSError):
        return False
    try:
        with suppress(OSError, ValueError):
            remove_if_dead(Path((folder / LANDING).read_text("utf-8")))
        remove(folder)
    finally:
        os.close(handle)
    return not folder.exists()


def remove(folder: Path) -> None:
    """Remove a locked folder as far as possible. The lock is removed last, so that a later run can continue."""
    empty(folder)
    with suppress(OSError):
        if all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


def empty(folder: Path) -> None:
    """Remove the content of a locked folder as far as possible, except for the lock."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                with suppress(OSError):
                    path.unlink()


@cache
def _kernel() -> bytes:
    """Return the id of the running kernel, which changes when the machine is started, or the name of the machine."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return platform.node().encode()
