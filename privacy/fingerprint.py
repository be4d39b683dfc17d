"""Fingerprints of snapshots: whether two releases used the same rows, told by a keyed hash that nobody can turn back.

A plain hash of a small table could be guessed by trying tables. HMAC-SHA256 under a key that is not in the ledger
can't, and since the ledger's own name goes in, the same rows have unrelated fingerprints in two ledgers.

>>> digest = hashlib.sha256(b"rows").digest()
>>> fingerprint(digest, b"k" * 32, "one ledger") == fingerprint(digest, b"k" * 32, "another")
False
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from privacy.ledger_store import LedgerError

KEY_VARIABLE = "EQUISTRATA_LEDGER_KEY"
SHORTEST_KEY = 16  # characters


def content_digest(paths: Iterable[Path]) -> bytes:
    """SHA-256 of the files' bytes, in order, whatever they are called. Not to be shown: it can be guessed at."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.digest()


def fingerprint(digest: bytes, key: bytes, ledger: str) -> str:
    """The fingerprint, 64 hexadecimal digits, of a `content_digest` in the ledger of that name (`Ledger.identity`)."""
    own = hmac.digest(key, b"equistrata snapshot " + ledger.encode(), "sha256")
    return hmac.digest(own, digest, "sha256").hex()


def ledger_key(ledger_file: Path | None, given: str | None = None) -> bytes | None:
    """The key: `given`, or from EQUISTRATA_LEDGER_KEY, or a random one kept beside a SQLite ledger (mode 0600).

    Returns None for a ledger on PostgreSQL where none is given: its releases carry no fingerprint.

    Raises LedgerError if the key is shorter than 16 characters, or the key file can be neither read nor made.
    """
    given = given or os.environ.get(KEY_VARIABLE)
    if given:
        if len(given) < SHORTEST_KEY:
            raise LedgerError(
                f"the key for fingerprints ({KEY_VARIABLE}) is too short; give {SHORTEST_KEY} characters or more"
            )
        return given.encode()
    if ledger_file is None:
        return None
    path = ledger_file.with_name(ledger_file.name + ".key")
    try:
        if not path.exists():
            _make(path)
        return bytes.fromhex(path.read_text("ascii"))
    except (OSError, ValueError):
        raise LedgerError(
            f"key file {str(path)!r} cannot be used; mend its permissions, or set {KEY_VARIABLE}"
        ) from None


def _make(path: Path) -> None:
    """Complete or not at all, and never in place of another process's."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()
