"""What a run has left on disk."""

from __future__ import annotations

import sqlite3


def traces(*roots):
    """The bytes of every file below these folders, databases checkpointed first: pairs of path and content."""
    for root in roots:
        for database in root.rglob("*.db"):
            with sqlite3.connect(database) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in root.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()
