"""The newest known head of each ledger, stored outside the ledger to detect an older copy.

An older copy of a ledger does not contain the entry of the newest head. A head is stored after its entry is committed,
so that it is never ahead of the ledger. If a run dies in between, an older head remains, which is still valid.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from equistrata.privacy.ledger.chain import Head
from equistrata.privacy.ledger.store import LedgerError


def head_file(folder: Path, ledger: str) -> Path:
    """Return the path of the file that stores the head of a ledger."""
    return folder / f".head-{hashlib.sha256(ledger.encode()).hexdigest()[:32]}"


def load_head(folder: Path, ledger: str) -> Head | None:
    """Return the newest head that was stored for a ledger.

    Parameters
    ----------
    folder : Path
        The folder of the heads.
    ledger : str
        The identity of the ledger.

    Returns
    -------
    Head or None
        The head. If None, no head was stored.

    Raises
    ------
    LedgerError
        If the file cannot be read.
    """
    path = head_file(folder, ledger)
    if not os.access(folder, os.R_OK | os.X_OK):  # nothing can be stored, for example if a service has no home folder
        return None
    try:
        return Head.parse(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise LedgerError(
            f"file {str(path)!r}, which contains the newest head of this ledger, cannot be read; correct its "
            "permissions, or restore it from a copy"
        ) from None


def keep_head(folder: Path, ledger: str, head: Head) -> None:
    """Store a committed head durably, unless a newer one is stored.

    If the folder is not writable, nothing is stored.

    Parameters
    ----------
    folder : Path
        The folder of the heads. It is created if it does not exist.
    ledger : str
        The identity of the ledger.
    head : Head
        The head to store.
    """
    path = head_file(folder, ledger)
    with suppress(OSError, LedgerError):  # the entry is already committed, so this must not fail
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # otherwise another process could replace this head by an older one
            kept = load_head(folder, ledger)
            if kept is None or kept.entries < head.entries:
                with NamedTemporaryFile("w", prefix=f"{path.name}-", dir=folder, delete=False) as part:  # mode 0600
                    part.write(f"{head}\n")
                    part.flush()
                    os.fsync(part.fileno())
                os.replace(part.name, path)
                os.fsync(lock)
        finally:
            os.close(lock)
