"""Single files that commands make: refused before anything is worked out, and whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.run.disk import disk_full, shortened
from equistrata.flows.run.landing import rename_to_new


def check_new_file(path: Path) -> None:
    """Raise InputError unless a file can be made there, in a folder that exists and may be written to."""
    folder = path.absolute().parent
    if os.path.lexists(path) or not folder.is_dir():
        raise InputError(f"{str(path)!r} exists already or has no folder; name a new file in one that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{str(path)!r} cannot be made: {str(folder)!r} is no folder that you may write to")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A hidden file beside a new one, which becomes it when the block ends well; else nothing is left.

    Raises InputError if it cannot be written, or if the file is there meanwhile.
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
