"""Disks: durable writes, and one sentence for a disk that is full."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equistrata.errors import InputError

FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
NO_LOCKS = errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS  # of file systems without file locks


class DiskFull(InputError):
    """There is no space left, none of the user's quota, or a file is larger than it may be (ulimit -f, or FAT)."""


def disk_full(error: BaseException, *folders: str | os.PathLike[str]) -> DiskFull | None:
    """The sentence, if an error says that. It names the folder with the least space, or else the error's own file."""
    if not isinstance(error, OSError) or error.errno not in FULL:
        return None
    place = min((os.fspath(folder) for folder in folders), key=free_bytes, default=error.filename)
    where = f" on the disk of {place!r}" if place else ""
    why, remedy = {
        errno.ENOSPC: ("disk full: no space is left", "free some"),
        errno.EDQUOT: ("your quota is used up", "free some"),
        errno.EFBIG: ("a file would be larger than files may be", "raise that limit (ulimit -f), or take another disk"),
    }[error.errno]
    return DiskFull(
        f"{why}{where}; {remedy}, then run the same command again, or equistrata resume if the release was charged"
    )


def shortened(name: str) -> str:
    """A name for a message, cut in the middle where it is very long."""
    return name if len(name) <= 200 else f"{name[:40]}…{name[-39:]}"


def unusable(what: str, option: str, error: Exception, place: str) -> InputError:
    """Why a folder (`what`, in words) cannot be made or held in a place, and the option that names another."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENAMETOOLONG:
        return InputError(f"{what} has a name or path that is too long; choose a shorter {option}")
    if number in NO_LOCKS:
        return InputError(f"{what} is on a file system without file locks; choose another {option}")
    return disk_full(error, place) or InputError(
        f"{what} cannot be made in {place!r}; choose another {option}, where you may write"
    )


def sync(path: Path) -> None:
    """Have a file, or a folder's own list of names, written to its disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Have everything in a folder written to its disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def write_durably(path: Path, text: str, prefix: str | None = None, new: bool = False) -> None:
    """Write a file durably at once, with a prefix until it is whole; a `new` one replaces none. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix=prefix or f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if new:
            with suppress(FileExistsError):
                os.link(name, path)
        else:
            os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)
    sync(path.parent)


@contextmanager
def telling_full_disk(*folders: str | os.PathLike[str]) -> Iterator[None]:
    """Raise DiskFull instead of the system's error for that, which is dropped (see `equistrata.flows.run.guard`)."""
    try:
        yield
    except OSError as error:
        full = disk_full(error, *folders)
        if full is None:
            raise
    else:
        return
    raise full from None


def free_bytes(folder: str) -> int:
    """Free bytes on the disk of a folder, or of the nearest one above it that exists."""
    for place in (Path(folder), *Path(folder).absolute().parents):
        try:
            status = os.statvfs(place)
        except OSError:
            continue
        return status.f_bavail * status.f_frsize if status.f_favail or not status.f_files else 0
    return 0
