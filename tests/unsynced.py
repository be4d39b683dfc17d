"""Nothing waits for the disk: what a killed process has written stays, only a power cut loses it, and no test cuts it.

A release syncs some sixty times, and a disk takes longer over that than the release over all else. Commands that a test
starts as interpreters of their own sync as they do for a user.
"""

import os
import sqlite3

from sqlalchemy import Engine, event


def no_power_cut():
    """From now on, this process and its forks do not wait for the disk, nor does SQLite in them."""
    os.fsync = _checked
    if not event.contains(Engine, "connect", _unsynced):
        event.listen(Engine, "connect", _unsynced)


def _checked(handle):
    """Only what `os.fsync` raises for a handle that is closed, or is none."""
    os.fstat(handle if isinstance(handle, int) else handle.fileno())


def _unsynced(connection, _record):
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
