"""The snapshot of rows that a run has read: exact digests in the working folder, keyed ones in the ledger."""

from __future__ import annotations

import json
import os
from typing import Any

from equistrata.data.snapshot import Snapshot
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.ledger.fingerprint import KEY_VARIABLE, Fingerprint, ledger_key
from equistrata.privacy.ledger.ledger import Ledger, LedgerError
from equistrata.privacy.ledger.sqlite import key_file

SNAPSHOT = "snapshot.json"


def keep_snapshot(work: Workspace, snapshot: Snapshot) -> None:
    """Keep the digests of the rows, as private as the rows beside them."""
    work.save_json(work.root / SNAPSHOT, snapshot.digests())


def fingerprint_of(work: Workspace, content: bytes, ledger: Ledger, key: str | None) -> Fingerprint | None:
    """The fingerprint, in a ledger, of the snapshot that was kept; None if there is no key.

    Args:
        content: the `content_digest` of the rows' files.
        key: of the ledger's place; else the environment's, or the one beside the ledger.

    Raises LedgerError if the key cannot be used, or is gone from beside a ledger that has fingerprints made with it.
    """
    _check_key_is_there(ledger, key)
    found = ledger_key(ledger.path, key)
    if found is None:
        return None
    seen: dict[str, Any] = json.loads((work.root / SNAPSHOT).read_text("utf-8"))
    return Fingerprint.of(content, seen, found, ledger.identity)


def _check_key_is_there(ledger: Ledger, key: str | None) -> None:
    """A key is made once, for the first charge. Another one in its place would make all rows look new."""
    if key or os.environ.get(KEY_VARIABLE) or ledger.path is None or key_file(ledger.path).exists():
        return
    if any(found.key for found in map(Fingerprint.parse, (entry.fingerprint for entry in ledger.history())) if found):
        raise LedgerError(
            f"key file {str(key_file(ledger.path))!r} is gone, so rows cannot be recognised; restore it from a copy"
        )
