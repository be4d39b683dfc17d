"""Ledgers in PostgreSQL, with triggers that protect the history and functions that are the only way to add a charge.

The functions run with the rights of the owner, who is the steward. They repeat the checks of
`equistrata.privacy.ledger.ledger` in the database. The page docs/ledger.md describes what the role that makes releases
can do. The functions hash the same canonical JSON as `equistrata.privacy.ledger.chain.digest`, and the caller checks
the hash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL

from equistrata.privacy.ledger.tables import ENTRIES as ENTRIES_TABLE
from equistrata.privacy.ledger.tables import HEAD as HEAD_TABLE
from equistrata.privacy.ledger.tables import HEAD_MOVED, LEASES, METADATA

ENTRIES, HEAD = ENTRIES_TABLE.name, HEAD_TABLE.name
SAME_COLUMNS = 3  # this many columns do not have the same values, equally often, by chance
WRITERS = 0x45515354  # the number of the advisory lock for which writers wait
REFUSED = "EQ001"  # the SQLSTATE that is raised if the functions refuse an entry
OTHER_KEY = "EQ002"  # the SQLSTATE that is raised if a fingerprint was made with a different key
FLOATS = 2**1074  # a multiple of the denominator of every float

SENTENCES = {
    "": "cannot be reached, or refuses the login; check its address and credentials",
    "42501": "does not allow this to your role; ask its steward, who creates accounts and runs equistrata "
    "budget upgrade",
    "42883": "was made by an earlier version; run equistrata budget upgrade as its steward",
    "42P01": "holds no ledger; run equistrata budget create",
    REFUSED: "refuses this entry, because it would be inconsistent; check the ledger with equistrata budget verify",
    OTHER_KEY: "has fingerprints that were made with another key, or without one; restore that key "
    "(EQUISTRATA_LEDGER_KEY), or ask its steward to set this one (equistrata budget key)",
}


def _guard(name: str, when: str, each: str = "ROW", condition: str = "true") -> str:
    refuse = "EXECUTE FUNCTION equistrata_only_grows()"
    return f"CREATE TRIGGER {name} BEFORE {when} FOR EACH {each} WHEN ({condition}) {refuse}"


GUARDS = (
    "CREATE FUNCTION equistrata_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the ledger "
    "only grows'; END $$",
    _guard("equistrata_entries_rows", f"UPDATE OR DELETE ON {ENTRIES}"),
    _guard("equistrata_entries_all", f"TRUNCATE ON {ENTRIES}", "STATEMENT"),
    _guard("equistrata_ledger_update", f"UPDATE ON {HEAD}", condition=HEAD_MOVED),
    _guard("equistrata_ledger_delete", f"DELETE ON {HEAD}"),
    _guard("equistrata_ledger_all", f"TRUNCATE ON {HEAD}", "STATEMENT"),
)

_LEASES_TABLE = f"""CREATE TABLE IF NOT EXISTS {LEASES} (dataset text, release_id text, token text NOT NULL,
    host text NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (dataset, release_id))"""

# The values that replace the names in braces in functions.sql.
_NAMES = {"ENTRIES": ENTRIES, "HEAD": HEAD, "LEASES": LEASES, "REFUSED": REFUSED, "OTHER_KEY": OTHER_KEY}
_NUMBERS = {"WRITERS": WRITERS, "SAME_COLUMNS": SAME_COLUMNS, "FLOATS": FLOATS}


def _functions(kind: str) -> Iterator[tuple[str, str, str]]:
    """Yield the signature, the return type and the body of each function of a kind in functions.sql."""
    sql = resources.files("equistrata.privacy.ledger").joinpath("functions.sql").read_text("utf-8")
    for name, value in (_NAMES | _NUMBERS).items():
        sql = sql.replace(f"{{{name}}}", str(value))
    parts = re.split(r"^-- (helper|door): (.*) -> (\w+)$", sql, flags=re.MULTILINE)[1:]
    for found, signature, gives, body in zip(*(parts[i::4] for i in range(4)), strict=True):
        if found == kind:
            yield signature, gives, body


DOORS = tuple(_functions("door"))

# Roles that could write to the entries, such as the workers of an earlier version, may call the functions instead.
_SEAL = f"""DO $$
DECLARE named record; door regprocedure;
BEGIN
    FOR named IN
        SELECT DISTINCT grantee, privilege_type = 'INSERT' AND relname = '{ENTRIES}' AS charges FROM pg_class
        CROSS JOIN LATERAL aclexplode(relacl)
        WHERE pg_class.oid IN ('{ENTRIES}'::regclass, '{HEAD}'::regclass, '{LEASES}'::regclass)
        AND grantee <> relowner AND privilege_type <> 'SELECT'
    LOOP
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON '
            || '{ENTRIES}, {HEAD}, {LEASES} FROM %s',
            CASE named.grantee WHEN 0 THEN 'PUBLIC' ELSE named.grantee::regrole::text END);
        CONTINUE WHEN NOT named.charges OR named.grantee = 0;
        FOR door IN SELECT oid::regprocedure FROM pg_proc WHERE proname IN
            ('equistrata_charge', 'equistrata_settle', 'equistrata_lease', 'equistrata_let_go')
                AND pronamespace = current_schema()::regnamespace
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, named.grantee::regrole);
        END LOOP;
    END LOOP;
END $$"""

OTHERS_WRITE = f"""SELECT count(*) FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
WHERE pg_class.oid IN ('{ENTRIES}'::regclass, '{HEAD}'::regclass) AND grantee <> relowner
AND privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')"""


def postgres_engine(url: URL, lock_seconds: float) -> Engine:
    """Create an engine with connections to the database."""
    arguments: dict[str, Any] = {"application_name": "equistrata", "client_encoding": "utf8"}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = 10
    pool: dict[str, Any] = {"pool_size": 1, "max_overflow": -1, "pool_pre_ping": True}
    engine = create_engine(
        url, connect_args=arguments, isolation_level="READ COMMITTED", use_native_hstore=False, **pool
    )

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, record: object) -> None:
        connection.execute(f"SET lock_timeout = {int(lock_seconds * 1000)}")
        # A server can be configured to lose its last commits in a crash, but a charge must never be lost.
        connection.execute("SET synchronous_commit = on")
        connection.commit()

    return engine


def queue(connection: Connection) -> None:
    """Wait for other writers in order.

    Waiting for the lock of the row alone would take fifty writers ten times as long.
    """
    connection.execute(text(f"SELECT pg_advisory_xact_lock({WRITERS})"))


def create_tables(connection: Connection, first_head: Callable[[str], dict[str, Any]]) -> bool:
    """Create the tables if they do not exist.

    Creators wait for each other, because two of them would otherwise conflict in the system catalogue.

    Parameters
    ----------
    connection : Connection
        A connection of the owner.
    first_head : callable
        Function that returns the first head for the hash of a layout.

    Returns
    -------
    bool
        True if the tables were created, False if they existed.
    """
    queue(connection)
    if inspect(connection).has_table(HEAD):
        return False
    METADATA.create_all(connection)
    for guard in GUARDS:
        connection.execute(text(guard))
    connection.execute(HEAD_TABLE.insert().values(id=1, **first_head("postgresql")))
    return True


def install(connection: Connection) -> None:
    """Create or replace the functions, and revoke the right to write to the tables from all roles except the owner.

    Only the owner of the tables can call this function successfully. The database refuses all other roles.
    """
    run = connection.execution_options(no_parameters=True).exec_driver_sql  # percent signs belong to PL/pgSQL
    run(_LEASES_TABLE)
    schema = run("SELECT quote_ident(current_schema())").scalar_one()
    pinned = f"SET search_path = pg_catalog, {schema}, pg_temp"
    for functions, rights in ((_functions("helper"), "SECURITY INVOKER"), (DOORS, "SECURITY DEFINER")):
        for signature, gives, body in functions:
            run(
                f"CREATE OR REPLACE FUNCTION {signature} RETURNS {gives} LANGUAGE plpgsql {rights} {pinned} AS "
                f"$${body}$$"
            )
            run(f"REVOKE ALL ON FUNCTION {signature.partition('(')[0]} FROM PUBLIC")
    run(_SEAL)
