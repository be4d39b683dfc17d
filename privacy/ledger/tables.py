"""The tables of a ledger, and the names that are used for both SQLite and PostgreSQL.

Numbers are stored as text. The text of a fraction, or the shortest text of a float, is the same on every database.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Integer, MetaData, Table, Text

VERSION = 1  # the version of the format
METADATA = MetaData()
ENTRY_TEXTS = (
    "at", "who", "kind", "dataset", "release_id", "rho", "spent", "epsilon", "delta", "relation", "mechanism", "strata",
    "parts", "fingerprint", "config", "journal", "software", "reason", "previous", "hash",
)  # fmt: skip
ENTRIES = Table(
    "equistrata_entries",
    METADATA,
    Column("entry", Integer, primary_key=True, autoincrement=False),
    Column("settles", Integer),
    *(Column(name, Text) for name in ENTRY_TEXTS),
)
Index("equistrata_entries_dataset", ENTRIES.c.dataset, ENTRIES.c.entry)
Index("equistrata_entries_settles", ENTRIES.c.settles)
Index("equistrata_entries_kind", ENTRIES.c.kind, ENTRIES.c.dataset)
Index("equistrata_entries_release", ENTRIES.c.release_id)
HEAD = Table(
    "equistrata_ledger",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("ledger", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("layout", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)
LEASES = "equistrata_leases"  # not part of the history and not covered by a hash

HEAD_MOVED = """new.entries <> old.entries + 1 OR new.id <> old.id OR new.version <> old.version
    OR new.ledger <> old.ledger OR new.created <> old.created OR new.layout <> old.layout"""
