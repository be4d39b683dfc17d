"""The newest head that was seen of each ledger, kept outside of it: an older copy in its place lacks that entry.

A head is kept after the entry was committed, so what is kept is never ahead of the ledger. A run that dies in between
leaves an older head, which still holds.
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
    """The file of the head of the ledger with this identity."""
    return folder / f".head-{hashlib.sha256(ledger.encode()).hexdigest()[:32]}"


def kept_head(folder: Path, ledger: str) -> Head | None:
    """The newest head that was kept; None if there is none. Raises LedgerError if it cannot be read."""
    path = head_file(folder, ledger)
    if not os.access(folder, os.R_OK | os.X_OK):  # nothing can be kept there, as where a service has no home
        return None
    try:
        return Head.parse(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise LedgerError(
            f"file {str(path)!r}, the newest head that was seen of this ledger, cannot be read; mend its mode, or "
            "restore it from a copy"
        ) from None


def keep_head(folder: Path, ledger: str, head: Head) -> None:
    """Keep a committed head durably, unless a newer one is kept. A folder that cannot be written keeps none."""
    path = head_file(folder, ledger)
    with suppress(OSError, LedgerError):  # the entry stands by now
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # else of two processes the later could put the older one back
            kept = kept_head(folder, ledger)
            if kept is None or kept.entries < head.entries:
                with NamedTemporaryFile("w", prefix=f"{path.name}-", dir=folder, delete=False) as part:  # mode 0600
                    part.write(f"{head}\n")
                    part.flush()
                    os.fsync(part.fileno())
                os.replace(part.name, path)
                os.fsync(lock)
        finally:
            os.close(lock)
