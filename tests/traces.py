"""A function that returns the files of a run."""

from __future__ import annotations

import sqlite3


def traces(*roots):
    """Return the path and the content of each file in these folders, after a checkpoint of all databases."""
    for root in roots:
        for database in root.rglob("*.db"):
            with sqlite3.connect(database) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in root.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()
