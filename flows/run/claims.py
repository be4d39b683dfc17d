"""Locks on folders: one living process holds a folder, and the folders of dead ones are removed.

A claim is an advisory lock on a file in the folder. The system drops it when the process ends, in whatever way, so a
lock that can be had means that the owner is gone (a process number can be reused). A stopped process keeps its lock.

Machines may share a folder and not its locks. So a claim by lease is also signed, with the running kernel's id, which
containers on one machine share, and its holder touches the file every BEAT seconds. A free lock that another kernel has
signed counts as held until it was not touched for LEASE seconds.
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
LANDING = "landing"  # names a half-written folder elsewhere that is removed with this one
HELD_NAMES = re.compile(r"equistrata-release-.+|\..+\.part")  # folders that are removed when their owner is dead
BEAT, LEASE = 20.0, 300.0
TRIES = 100  # to make a folder that another run removes at the same moment

Given = TypeVar("Given")


class Held(EquistrataError):
    """Another process holds the folder."""


def take(folder: Path, leased: bool = False) -> int:
    """Take a folder; the lock's descriptor, which is not inherited by programs that are started.

    By lease, other machines' signatures are respected, and the lock is signed. Raises Held; FileNotFoundError if the
    folder is gone; OSError if its lock cannot be written, or its file system has no locks.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held from None
        if os.stat(folder / LOCK).st_ino != os.fstat(handle).st_ino:
            raise FileNotFoundError(folder)
        if leased:
            signed, silent = os.pread(handle, 100, 0), time.time() - os.fstat(handle).st_mtime
            if signed and signed != _kernel() and silent < LEASE:  # by another machine, lately
                raise Held
            os.pwrite(handle, _kernel(), 0)
            os.utime(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def claim(folder: Path) -> int | None:
    """Take a folder; the lock's descriptor, or None if that is impossible."""
    try:
        return take(folder)
    except (Held, OSError):
        return None


@contextmanager
def beating(handle: int) -> Iterator[None]:
    """Touch a leased lock while the block runs."""
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
    """What an attempt gives; made again where another run removes a folder at the same moment, which raises `lost`."""
    for _ in range(TRIES - 1):
        with suppress(*lost):
            return attempt()
        time.sleep(0.001)
    return attempt()


def remove_dead(parent: Path, pattern: str) -> None:
    """Remove this user's folders of that name whose owner is dead, and the half-written folders that they name."""
    with suppress(OSError):  # no such folder, or a name that no folder can have
        for folder in list(parent.glob(pattern)):
            remove_if_dead(folder)


def remove_if_dead(folder: Path) -> bool:
    """Remove a run's folder of this user if no process holds it; whether it is gone."""
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
        # Just made, or left by a process that died right then: removed if it is empty.
        with suppress(OSError):
            folder.rmdir()
            return True
        return False
    try:
        handle = take(folder, leased=True)
    except FileNotFoundError:
        return True
    except (Held, OSError):
        return False
    try:
        with suppress(OSError, ValueError):
            remove_if_dead(Path((folder / LANDING).read_text("utf-8")))
        remove(folder)
    finally:
        os.close(handle)
    return not folder.exists()


def remove(folder: Path) -> None:
    """Remove a folder that one holds, as far as possible; its lock last, so that a later run can go on."""
    empty(folder)
    with suppress(OSError):
        if all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


def empty(folder: Path) -> None:
    """Remove the content of a folder that one holds, except its lock, as far as possible."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                with suppress(OSError):
                    path.unlink()


@cache
def _kernel() -> bytes:
    """The id of the running kernel, new at each start of the machine; else the machine's name."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return platform.node().encode()
