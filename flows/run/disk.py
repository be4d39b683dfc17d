"""Durable writes, and an error message of one sentence for a full disk."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equistrata.errors import InputError

FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
NO_LOCKS = errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS  # raised on file systems without file locks


class DiskFull(InputError):
    """Error that is raised if the disk is full, the user's quota is used up, or a file is too large.

    The maximum size of a file can be set by `ulimit -f` or by the file system, such as FAT.
    """


def disk_full(error: BaseException, *folders: str | os.PathLike[str]) -> DiskFull | None:
    """Convert an error to a DiskFull error if the disk is full.

    Parameters
    ----------
    error : BaseException
        The error.
    *folders : str or path-like
        The folders that were written to. The message names the one with the least free space. If no folder is given, it
        names the file of the error.

    Returns
    -------
    DiskFull or None
        The new error. If None, the error has another cause.
    """
    if not isinstance(error, OSError) or error.errno not in FULL:
        return None
    place = min((os.fspath(folder) for folder in folders), key=free_bytes, default=error.filename)
    where = f" on the disk of {place!r}" if place else ""
    why, remedy = {
        errno.ENOSPC: ("disk full: no space is left", "free some space"),
        errno.EDQUOT: ("your quota is used up", "free some space"),
        errno.EFBIG: ("a file would be larger than files may be", "raise that limit (ulimit -f), or take another disk"),
    }[error.errno]
    return DiskFull(
        f"{why}{where}; {remedy}, then run the same command again, or equistrata resume if the release was charged"
    )


def shortened(name: str) -> str:
    """Return a name for a message. If it is very long, the middle is left out."""
    return name if len(name) <= 200 else f"{name[:40]}…{name[-39:]}"


def unusable(what: str, option: str, error: Exception, place: str) -> InputError:
    """Return the error for a folder that cannot be created or locked.

    Parameters
    ----------
    what : str
        Description of the folder.
    option : str
        The option with which the user can choose another folder.
    error : Exception
        The original error.
    place : str
        The parent folder.

    Returns
    -------
    InputError
        The error with its reason.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENAMETOOLONG:
        return InputError(f"{what} has a name or path that is too long; choose a shorter {option}")
    if number in NO_LOCKS:
        return InputError(f"{what} is on a file system without file locks; choose another {option}")
    return disk_full(error, place) or InputError(
        f"{what} cannot be made in {place!r}; choose another {option}, where you may write"
    )


def sync(path: Path) -> None:
    """Write a file, or the list of names in a folder, to disk. An OSError is raised if this fails."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Write all files in a folder to disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def write_durably(path: Path, text: str, prefix: str | None = None, new: bool = False) -> None:
    """Write a text file in one durable step.

    Parameters
    ----------
    path : Path
        The path of the file.
    text : str
        The content.
    prefix : str or None, default=None
        The prefix of the temporary file that is used until the content is complete.
    new : bool, default=False
        If True, an existing file is not replaced.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
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
def raise_disk_full(*folders: str | os.PathLike[str]) -> Iterator[None]:
    """Raise a DiskFull error if the block fails because the disk is full.

    The original error is dropped, because its text could quote a row (see `equistrata.flows.run.guard`).
    """
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
    """Return the number of free bytes on the disk of a folder.

    If it does not exist, the nearest existing parent is used.
    """
    for place in (Path(folder), *Path(folder).absolute().parents):
        try:
            status = os.statvfs(place)
        except OSError:
            continue
        return status.f_bavail * status.f_frsize if status.f_favail or not status.f_files else 0
    return 0
