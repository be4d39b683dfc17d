"""Tests of the rights of the worker on a PostgreSQL server. The worker must be able to charge and to settle, and must
not have other rights.
"""

import math
import re
import secrets
import subprocess
from contextlib import suppress
from fractions import Fraction
from functools import partial

import pytest

from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger import postgres as ledger_postgres
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger, LedgerError
from equistrata.privacy.ledger.transaction import Transaction

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")


@pytest.fixture(scope="module")
def roles(postgres, repo_root, tmp_path_factory):
    """Return the URLs of the steward and the worker, with the roles and rights from docs/deploy/settings.sh."""
    folder = tmp_path_factory.mktemp("deploy") / "settings"
    address = re.search(r"@([^:/]+):(\d+)/", postgres)
    environment = {"PGHOST": address[1], "PGPORT": address[2], "STATE": str(folder / "state"), "PATH": "/usr/bin:/bin"}
    subprocess.run(
        ["sh", repo_root / "docs" / "deploy" / "settings.sh", folder], env=environment, check=True, timeout=60
    )
    mark = f"e{secrets.token_hex(4)}"  # the roles are shared with other tests on the same server
    script = (folder / "databases.sql").read_text("utf-8").replace("equistrata_", f"{mark}_")
    database = "postgres"
    for line in script.splitlines():
        if line.startswith(r"\connect"):
            database = line.split()[1]
        elif not line.startswith(("\\", "CREATE EXTENSION")):  # pg_trgm is used by Prefect and is not in the wheel
            with psycopg.connect(postgres.rsplit("/", 1)[0] + f"/{database}", autocommit=True) as connection:
                connection.execute(line)
    urls = {}
    for name in ("steward", "worker"):
        (url,) = re.findall("EQUISTRATA_LEDGER_URL=(.*)", (folder / f"{name}.env").read_text("utf-8"))
        urls[name] = url.replace("equistrata_", f"{mark}_")
    return urls


@pytest.fixture
def urls(roles):
    """Return the URLs and remove the ledger after the test."""
    yield roles
    with psycopg.connect(roles["steward"]) as connection:
        connection.execute("DROP TABLE IF EXISTS equistrata_entries, equistrata_ledger, equistrata_leases CASCADE")
        connection.execute("DROP FUNCTION IF EXISTS equistrata_only_grows")


@pytest.fixture
def worker(urls):
    """Return the ledger of the worker, with two accounts and two charges."""
    steward = Ledger(urls["steward"])
    steward.create("people", 2, 1e-9, key="k" * 32)
    steward.create("patients", 1, 1e-6, key="k" * 32)
    ledger = Ledger(urls["worker"])
    ledger.commit(
        ledger.reserve("people", Rho(0.001), "first", ChargeDetails(parts=["synthesis"], epsilon=0.1, delta=1e-9))
    )
    ledger.reserve("people", Rho(0.001), "open", ChargeDetails(parts=["synthesis"]))
    return ledger


def print_of(ledger, name, columns="abc", key=b"k" * 32):
    """Return the fingerprint of the given rows in a ledger."""
    seen = {"rows": name, "columns": dict.fromkeys(columns, name)}
    return str(Fingerprint.of(name.encode(), seen, key, ledger.identity))


CHARGE = (
    "SELECT equistrata_charge('people', '{id}', {rho}, NULL, NULL, NULL, NULL, '{relation}', NULL, NULL, NULL, NULL, "
    "NULL, 'me', 'mine')"
)


def charge(rho="'1/1000'", relation="add-remove", id="forged"):
    return CHARGE.format(rho=rho, relation=relation, id=id)


ROW = (
    "NULL, 'now', 'me', '{kind}', '{name}', {id}, '{rho}', '{spent}', NULL, NULL, 'add-remove', NULL, NULL, NULL, "
    "NULL, NULL, NULL, 'x', NULL"
)
INSERT = f"INSERT INTO equistrata_entries SELECT entries + 1, {ROW}, hash, repeat('0', 64) FROM equistrata_ledger"
HOSTILE = {
    "open an account": INSERT.format(kind="create", name="mine", id="NULL", rho="1000", spent="0"),
    "raise a budget": "UPDATE equistrata_entries SET rho = '1000' WHERE kind = 'create'",
    "move the head": "UPDATE equistrata_ledger SET entries = entries + 1, hash = repeat('0', 64)",
    "remove an entry": "DELETE FROM equistrata_entries WHERE entry = 3",
    "cut the ledger": "TRUNCATE equistrata_entries",
    "drop the guards": "DROP TRIGGER equistrata_entries_rows ON equistrata_entries",
    "switch them off": "ALTER TABLE equistrata_entries DISABLE TRIGGER ALL",
    "forge a charge": INSERT.format(kind="reserve", name="people", id="'free'", rho="0", spent="0"),
    "append without a check": "SELECT equistrata_append(e) FROM equistrata_entries e WHERE entry = 3",
    "drop the table": "DROP TABLE equistrata_entries",
    "replace a function": (
        "CREATE OR REPLACE FUNCTION equistrata_above(fraction text) RETURNS numeric LANGUAGE sql AS 'SELECT 0.0'"
    ),
    "shadow a function": "CREATE FUNCTION public.gcd(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1.0'",
    "shadow a table": "CREATE TEMPORARY TABLE equistrata_entries (entry integer)",
    "own the table": "ALTER TABLE equistrata_entries OWNER TO CURRENT_USER",
    "become the steward": (
        "DO $$ BEGIN EXECUTE 'SET ROLE ' || "
        "(SELECT tableowner FROM pg_tables WHERE tablename = 'equistrata_entries'); END $$"
    ),
    "overspend": charge("'1000'"),
    "overspend by a hair": charge(
        "(SELECT split_part(rho, '/', 1) || '/' || split_part(rho, '/', 2) FROM equistrata_entries WHERE entry = 1)"
    ),
    "give back": charge("'-1/1000'"),
    "spend nothing": charge("'0'"),
    "spend nonsense": charge("'NaN'"),
    "spend null": charge("NULL"),
    "divide by nothing": charge("'1/0'"),
    "write numbers that nobody reads": charge("'1/1' || repeat('0', 1999)"),
    "another relation": charge(relation="replace-one within a stratum"),
    "no account": charge().replace("'people'", "'nobody'"),
    "the same release again": charge(id="first"),
    "a name of two lines": charge(id="a\nb"),
    "a price that is no number": charge().replace("NULL, NULL, 'add-remove'", "'1;2', NULL, 'add-remove'"),
    "nobody": charge().replace("'me'", "NULL"),
    "parts in parts": charge().replace("NULL, NULL, NULL, NULL, 'add", "NULL, '{{a},{b}}'::text[], NULL, NULL, 'add"),
    "settle an account": "SELECT equistrata_settle(1, 'commit', NULL, 'me', 'mine')",
    "settle a settlement": "SELECT equistrata_settle(4, 'commit', NULL, 'me', 'mine')",
    "settle twice": "SELECT equistrata_settle(3, 'fail', NULL, 'me', 'mine')",
    "settle what is not there": "SELECT equistrata_settle(99, 'commit', NULL, 'me', 'mine')",
    "reserve by settling": "SELECT equistrata_settle(5, 'reserve', NULL, 'me', 'mine')",
    "create by settling": "SELECT equistrata_settle(5, 'create', NULL, 'me', 'mine')",
    "settle with nothing": "SELECT equistrata_settle(5, NULL, NULL, 'me', 'mine')",
    "end another's lease": "DELETE FROM equistrata_leases",
    "a lease for ever": "SELECT equistrata_lease('people', 'open', 't', 'h', 'infinity')",
    "a lease before all time": "SELECT equistrata_lease('people', 'open', 't', 'h', '-infinity')",
}  # fmt: skip


def test_the_worker_cannot_open_raise_cut_or_spoil_anything(worker, urls):
    before, spent = worker.verify(), worker.spent("people")
    refused = {}
    for session in ((), ("SET standard_conforming_strings = off", "SET search_path = public, pg_catalog")):
        for name, statement in HOSTILE.items():
            with psycopg.connect(urls["worker"]) as connection:
                for setting in session:
                    connection.execute(setting)
                try:
                    connection.execute(statement)
                    connection.commit()
                    refused[name] = None
                except psycopg.Error as error:
                    refused[name] = error.sqlstate
        assert {name: state for name, state in refused.items() if state not in ("42501", ledger_postgres.REFUSED)} == {}
    assert (worker.verify([before]), worker.spent("people")) == (before, spent)
    worker.reserve("people", Rho(0.001), "goes on")
    worker.verify([before])


def test_a_session_cannot_have_the_functions_write_an_entry_that_does_not_verify(worker, urls):
    settings = [
        "standard_conforming_strings = off",
        "search_path = pg_temp",
        "datestyle = 'SQL, DMY'",
        "timezone = 'Asia/Kathmandu'",
        "extra_float_digits = -15",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
        "default_transaction_isolation = 'serializable'",
    ]
    for number, setting in enumerate(settings):
        with psycopg.connect(urls["worker"]) as connection:
            connection.execute(f"SET {setting}")
            connection.execute(
                CHARGE.replace("equistrata_", "public.equistrata_").format(
                    id=f"r{number} × \\ é", rho="'2/6000'", relation="add-remove"
                )
            )
    assert worker.verify().entries == 5 + len(settings)
    assert worker.charges("people")[-1].entry.rho == Rho(Fraction(1, 3000))


def test_the_workers_role_charges_settles_and_is_refused_as_any_ledger_is(worker, urls):
    (_, opened) = worker.charges("people")
    worker.fail(opened.entry, "the disk was full")
    worker.resume(opened.entry)
    worker.commit(opened.entry)
    worker.commit(opened.entry)
    with pytest.raises(LedgerError, match="already"):
        worker.fail(opened.entry)
    with pytest.raises(BudgetExceeded):
        worker.reserve("people", Rho(10), "too much")
    worker.reserve("people", worker.remaining("people"), "all the rest")
    with pytest.raises(BudgetExceeded):
        worker.reserve("people", Rho(Fraction(1, 10**40)), "a hair more")
    for forbidden in (lambda: worker.create("mine", 1, 1e-9), worker.upgrade):
        with pytest.raises(LedgerError, match=r"its steward|another role"):
            forbidden()
    assert [entry.dataset for entry in worker.accounts()] == ["people", "patients"]
    assert Ledger(urls["steward"]).verify() == worker.verify()


@pytest.mark.parametrize(
    "words", ["plain", 'quote " and \\', "tab\tline\nfeed\r\b\f\x01\x7f", "é × 人口 \U0001f600 \ud7ff\ue000", ""]
)
def test_what_is_hashed_in_the_database_is_what_python_hashes(worker, words):
    worker.reserve(
        "people",
        Rho(Fraction(3, 70000)),
        f"r{len(words)}",
        ChargeDetails(
            parts=[words, "b"], epsilon=1e-05, delta=1e-300, mechanism=words, strata=words, config=words, journal=words
        ),
        who=words,
    )
    worker.verify()
    entry = worker.charges("people")[-1].entry
    assert (entry.parts, entry.mechanism, entry.epsilon, entry.delta) == ((words, "b"), words, 1e-05, 1e-300)


def test_a_function_that_writes_another_hash_is_found_before_it_is_kept(worker, urls):
    """Without this check, an error in the JSON function of the database would make the head invalid for all users."""
    before = worker.head
    with psycopg.connect(urls["steward"]) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION equistrata_json(given text) RETURNS text LANGUAGE sql AS 'SELECT ''x'''"
        )
    with pytest.raises(LedgerError, match="does not match its hash; nothing was charged"):
        worker.reserve("people", Rho(0.001), "unlucky")
    assert worker.head == before


def old_ledger(urls):
    """Return a ledger of version 0.x, which has no functions and is writable for the worker."""
    steward = Ledger(urls["steward"])
    steward.create("people", 2, 1e-9)
    worker_role = re.search("//([^:]+):", urls["worker"])[1]
    with psycopg.connect(urls["steward"]) as connection:
        connection.execute("DROP TABLE equistrata_leases")
        for signature, *_ in ledger_postgres.DOORS:
            connection.execute(f"DROP FUNCTION {signature.partition('(')[0]}")
        connection.execute(f"GRANT INSERT, UPDATE ON equistrata_entries, equistrata_ledger TO {worker_role}")
    return steward, Ledger(urls["worker"])


def test_a_ledger_of_an_earlier_version_is_upgraded_by_its_steward(urls):
    steward, worker = old_ledger(urls)
    with pytest.raises(LedgerError, match="may write to them; run equistrata budget upgrade as its steward"):
        worker.verify()
    with pytest.raises(LedgerError, match="earlier version; run equistrata budget upgrade"):
        worker.reserve("people", Rho(0.001), "r")
    head = steward.head
    steward.upgrade()
    assert worker.verify() == head
    worker.commit(worker.reserve("people", Rho(0.001), "r"))
    with psycopg.connect(urls["worker"]) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(HOSTILE["open an account"])


def test_numbers_of_many_digits_leave_room_for_ordinary_charges(worker, urls):
    """A small charge with a very long denominator must not block later charges."""
    for number, prime in enumerate((3, 7, 11, 13, 17)):
        with psycopg.connect(urls["worker"]) as connection, suppress(psycopg.DatabaseError):
            connection.execute(charge(f"'1/{prime ** int(690 / math.log10(prime))}'", id=f"crumb {number}"))
    for number, least in enumerate((0.001, 5e-324, 2.0**-1000 / 3)):
        worker.reserve("people", Rho(least), f"ordinary {number}")
    worker.verify()


def test_a_fingerprint_of_the_workers_own_making_blocks_no_other_account(worker, urls):
    """The worker must not be able to block the charges of the other accounts. The fingerprint is made with another key,
    is missing, or is the fingerprint of the other account.
    """
    steward, rows = Ledger(urls["steward"]), partial(print_of, worker)
    theirs = rows("hospital")
    foreign = rows("nobody", key=b"j" * 32)
    # This is the first charge.
    with psycopg.connect(urls["worker"]) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(charge().replace("NULL, NULL, NULL, 'me'", f"'{foreign}', NULL, NULL, 'me'"))
    assert refused.value.sqlstate == ledger_postgres.OTHER_KEY
    steward.create("panel", 1, 1e-9, same_people_as=["patients"])
    worker.reserve("patients", Rho(0.001), "one", ChargeDetails(fingerprint=theirs))
    forged = {
        "another key": rows("census", key=b"j" * 32),
        "no key": theirs.partition(" ")[2],
        "the file alone": theirs.split()[1].removeprefix("file="),
        "two keys": f"{theirs} key=0",
        "the same file": re.sub("rows=.*", f"rows={'ab' * 32} columns=", theirs),
        "another's": theirs,
        "another's columns": rows("hospital", "abcdef"),
        "nonsense": "rows=1",
        "nothing": "",
    }  # fmt: skip
    for name, fingerprint in forged.items():
        statement = charge().replace("NULL, NULL, NULL, 'me'", f"'{fingerprint}', NULL, NULL, 'me'")
        with psycopg.connect(urls["worker"]) as connection, pytest.raises(psycopg.Error) as refused:
            connection.execute(statement)
        assert refused.value.sqlstate in (ledger_postgres.REFUSED, ledger_postgres.OTHER_KEY), name
    with pytest.raises(LedgerError, match="made with another key; restore that key"):
        worker.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=rows("hospital", key=b"j" * 32)))
    worker.reserve("people", Rho(0.001), "two", ChargeDetails(fingerprint=rows("census")))
    for name in ("patients", "panel"):
        worker.reserve(name, Rho(0.001), "three", ChargeDetails(fingerprint=theirs))
    again = charge(id="one").replace("people", "patients").replace("NULL, NULL", "'again', NULL", 1)
    with psycopg.connect(urls["worker"]) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(again.replace("NULL, NULL, NULL, 'me'", f"'{forged['another key']}', NULL, NULL, 'me'"))
    assert refused.value.sqlstate == ledger_postgres.REFUSED, "a second charge of a release is of the same rows"
    with pytest.raises(LedgerError, match="does not allow this to your role"):
        worker.set_key("j" * 32)
    assert steward.set_key("j" * 32)
    with psycopg.connect(urls["worker"]) as connection:
        connection.execute(again.replace("NULL, NULL, NULL, 'me'", f"'{theirs}', NULL, NULL, 'me'"))
    worker.reserve("patients", Rho(0.001), "four", ChargeDetails(fingerprint=rows("hospital", key=b"j" * 32)))
    worker.verify()


def test_in_a_ledger_of_an_earlier_version_the_database_knows_the_key_of_its_first_charge(urls, monkeypatch):
    append = Transaction.append
    monkeypatch.setattr(
        Transaction, "append", lambda self, *given: append(self, *given[:4], given[4] | {"fingerprint": None})
    )
    Ledger(urls["steward"]).create("people", 2, 1e-9)
    monkeypatch.undo()
    worker = Ledger(urls["worker"])
    mine, foreign = print_of(worker, "census"), print_of(worker, "nobody", key=b"j" * 32)

    def attempt(fingerprint, id):
        with psycopg.connect(urls["worker"]) as connection:
            connection.execute(charge(id=id).replace("NULL, NULL, NULL, 'me'", f"'{fingerprint}', NULL, NULL, 'me'"))

    attempt(mine, "one")
    with pytest.raises(psycopg.Error) as refused:
        attempt(foreign, "two")
    assert refused.value.sqlstate == ledger_postgres.OTHER_KEY
    attempt(mine, "three")
    worker.verify()


def test_a_lease_of_one_worker_is_safe_from_another(worker, urls):
    with worker.lease("people", "open", "a token"), psycopg.connect(urls["worker"]) as connection:
        taken = "SELECT equistrata_lease('people', 'open', %s, 'thief', 10)"
        assert connection.execute(taken, ["another token"]).fetchone() != (None,)
        connection.execute("SELECT equistrata_let_go('people', 'open', 'another token')")
        (sealed,) = connection.execute("SELECT token FROM equistrata_leases").fetchone()
        assert connection.execute(taken, [sealed]).fetchone() != (None,), "what is stored opens nothing"
        connection.commit()
        assert worker.lease_holder("people", "open")


def test_a_database_that_cannot_write_unicode_is_refused(postgres):
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(LedgerError, match="not in UTF-8"):
        Ledger(postgres.rsplit("/", 1)[0] + f"/{name}").create("people", 1, 1e-9)
