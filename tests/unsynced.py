"""A function that disables the synchronization of files, because no test simulates a power failure.

The files of a process are also kept if the process is killed. A release synchronizes its files about sixty times, which
takes longer than the rest of the release. Commands in a new interpreter are not affected.
"""

import os
import sqlite3

from sqlalchemy import Engine, event


def no_power_cut():
    """Disable the synchronization of files and of SQLite in this process and in its forks."""
    os.fsync = _checked
    if not event.contains(Engine, "connect", _unsynced):
        event.listen(Engine, "connect", _unsynced)


def _checked(handle):
    """Raise the same errors as `os.fsync` for a handle that is closed or invalid."""
    os.fstat(handle if isinstance(handle, int) else handle.fileno())


def _unsynced(connection, _record):
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
