"""A ledger in PostgreSQL: triggers that let it only grow, and functions that are the only way to charge it.

The functions run as the owner (the steward), and check in the database what `equistrata.privacy.ledger.ledger` checks
outside of it; docs/ledger.md says what the role that makes releases can do and what it cannot. The hash is over the
same canonical JSON as in `equistrata.privacy.ledger.chain.digest`, and the caller checks it.
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
SAME_COLUMNS = 3  # columns with exactly the same values, equally often, are no chance
WRITERS = 0x45515354  # an advisory lock of the database, in which writers queue
REFUSED = "EQ001"  # the SQLSTATE of an entry that the functions do not make
OTHER_KEY = "EQ002"  # of a fingerprint made with another key than the ledger's others
FLOATS = 2**1074  # the denominator of every float divides it

SENTENCES = {
    "": "cannot be reached, or refuses the login; check its address and credentials",
    "42501": "does not let this role do that; its steward opens accounts and runs equistrata budget upgrade",
    "42883": "was made by an earlier version; run equistrata budget upgrade as its steward",
    "42P01": "holds no ledger; run equistrata budget create",
    REFUSED: "refuses that entry, which would not fit; check it with equistrata budget verify",
    OTHER_KEY: "knows its rows by fingerprints that were made with another key, or with none; bring that key back "
    "(EQUISTRATA_LEDGER_KEY), or have its steward set this one (equistrata budget key)",
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

# What the names in braces of functions.sql stand for.
_NAMES = {"ENTRIES": ENTRIES, "HEAD": HEAD, "LEASES": LEASES, "REFUSED": REFUSED, "OTHER_KEY": OTHER_KEY}
_NUMBERS = {"WRITERS": WRITERS, "SAME_COLUMNS": SAME_COLUMNS, "FLOATS": FLOATS}


def _functions(kind: str) -> Iterator[tuple[str, str, str]]:
    """Signature, type and body of each function of a kind, from functions.sql."""
    sql = resources.files("equistrata.privacy.ledger").joinpath("functions.sql").read_text("utf-8")
    for name, value in (_NAMES | _NUMBERS).items():
        sql = sql.replace(f"{{{name}}}", str(value))
    parts = re.split(r"^-- (helper|door): (.*) -> (\w+)$", sql, flags=re.MULTILINE)[1:]
    for found, signature, gives, body in zip(*(parts[i::4] for i in range(4)), strict=True):
        if found == kind:
            yield signature, gives, body


DOORS = tuple(_functions("door"))

# Who could write to the entries, as the worker of an earlier version could, gets the functions instead.
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
    """Connections to the database."""
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
        # A server may be set to forget its last commits in a crash; a charge must not be forgotten.
        connection.execute("SET synchronous_commit = on")
        connection.commit()

    return engine


def queue(connection: Connection) -> None:
    """Wait, in order, for other writers. On the row's own lock alone, fifty writers would take ten times as long."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({WRITERS})"))


def create_tables(connection: Connection, first_head: Callable[[str], dict[str, Any]]) -> bool:
    """Make the tables; whether they were missing. Two creators at once would trip over each other in the catalogue."""
    queue(connection)
    if inspect(connection).has_table(HEAD):
        return False
    METADATA.create_all(connection)
    for guard in GUARDS:
        connection.execute(text(guard))
    connection.execute(HEAD_TABLE.insert().values(id=1, **first_head("postgresql")))
    return True


def install(connection: Connection) -> None:
    """Make the functions, or make them anew, and take from everyone but the owner what lets one write to the tables.

    Only for the tables' owner: the database refuses everyone else.
    """
    run = connection.execution_options(no_parameters=True).exec_driver_sql  # per cent signs are PL/pgSQL's
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
