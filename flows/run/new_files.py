"""Single files that are created by commands.

The path is checked before the work starts, and the file is created in one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.run.disk import disk_full, shortened
from equistrata.flows.run.landing import rename_to_new


def check_new_file(path: Path) -> None:
    """Check that a new file can be created in an existing folder.

    Raises
    ------
    InputError
        If the file exists, or if its folder does not exist or is not writable.
    """
    folder = path.absolute().parent
    if os.path.lexists(path) or not folder.is_dir():
        raise InputError(f"{str(path)!r} exists already or has no folder; name a new file in one that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{str(path)!r} cannot be made: {str(folder)!r} is not a folder in which you may write")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Create a file in one step.

    Parameters
    ----------
    path : Path
        The path of the new file.

    Yields
    ------
    Path
        A hidden file next to the new file. It is renamed if the block succeeds, and removed if it fails.

    Raises
    ------
    InputError
        If the file cannot be written, or if it was created by another process in the meantime.
    """
    check_new_file(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        rename_to_new(beside, path)
    except FileExistsError:
        raise InputError(f"{str(path)!r} was made meanwhile; name a new file") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise disk_full(error, path.absolute().parent) or InputError(
            f"{shortened(str(path))!r} cannot be made ({reason}); name another file"
        ) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
