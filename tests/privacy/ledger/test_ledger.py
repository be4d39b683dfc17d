"""Tests that the ledger cannot be overspent, loses no charge, and detects changes of its history."""

import json
import os
import pickle
import random
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from racers import race

from equistrata.privacy.budget import REPLACE_ONE, BudgetExceeded, Rho
from equistrata.privacy.ledger import tables as ledger_tables
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import ChargeDetails, Head, Ledger, LedgerError
from equistrata.privacy.ledger.sqlite import _connect
from equistrata.privacy.ledger.transaction import Transaction


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """Return the path of a SQLite ledger with several charges, which is copied by the tests."""
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    ledger = Ledger(path)
    ledger.create("people", 2, 1e-9)
    ledger.create("patients", 1, 1e-6)
    for number in range(12):
        reservation = ledger.reserve(
            "people" if number % 3 else "patients",
            Rho(0.0007),
            f"release-{number}",
            ChargeDetails(
                mechanism="MST",
                strata="SEX × RAC1P",
                parts=["synthesis", "stratified mean of PAY"],
                epsilon=0.1,
                delta=1e-9,
                config="c" * 64,
            ),
            who="steward@office",
        )
        (ledger.commit if number % 4 else ledger.fail)(reservation)
    return path


@pytest.fixture
def file(made_once, tmp_path):
    """Return the path of a copy of the ledger."""
    return Path(shutil.copy(made_once, tmp_path / "ledger.db"))


@pytest.mark.parametrize("racers", [12, pytest.param(50, marks=pytest.mark.slow)])
def test_many_processes_cannot_overspend_lose_or_double_anything(ledger, place, racers):
    fit = 5 * racers * 11 // 20  # the number of charges that are possible
    amount = float(ledger.budget("people")) / (fit + 0.5)
    told = sorted(entry for granted in race("reserve", place, racers, 5, repr(amount)) for entry in granted)
    charges = ledger.charges("people")
    assert [charge.entry.entry for charge in charges] == told, "every grant is an entry, every entry a grant"
    assert len(set(told)) == len(told) == fit
    assert len({charge.entry.release_id for charge in charges}) == fit
    assert ledger.spent("people") == Rho(Fraction(amount) * fit) <= ledger.budget("people")
    assert ledger.remaining("people") < Rho(amount)
    ledger.verify()


def test_processes_that_create_at_once_make_one_ledger(place):
    assert len(set(race("create", place, 8))) == 1
    assert {entry.dataset for entry in Ledger(place).accounts()} == {f"people {i}" for i in range(8)}
    assert Ledger(place).verify().entries == 8


def test_what_does_not_fit_is_refused_with_what_is_left(ledger):
    left = ledger.budget("people") - Rho(0.01)
    ledger.reserve("people", Rho(0.01), "first")
    before = ledger.head
    with pytest.raises(BudgetExceeded, match=f"only {float(left):.6g} is left") as refused:
        ledger.reserve("people", left + Rho(Fraction(1, 10**40)), "second")
    assert (refused.value.left, ledger.remaining("people"), ledger.head) == (left, left, before)
    ledger.reserve("people", left, "third")
    assert not ledger.remaining("people")


def test_sums_are_exact(ledger):
    for number in range(30):
        ledger.reserve("people", Rho(Fraction(1, 3000 + number)), f"r{number}")
    assert ledger.spent("people").exact == sum(Fraction(1, 3000 + number) for number in range(30))


def test_a_charge_is_spent_whatever_becomes_of_it(ledger):
    first, second, third = (ledger.reserve("people", Rho(0.001), name) for name in "abc")
    ledger.commit(first)
    ledger.fail(second, "the disk was full")
    assert ledger.spent("people") == Rho(0.001) * 3
    assert [charge.outcome for charge in ledger.charges("people")] == ["committed", "failed", "reserved"]
    assert ledger.history("people")[-1].reason == "the disk was full"
    ledger.resume(second)
    ledger.commit(second)
    ledger.commit(third)
    assert {charge.outcome for charge in ledger.charges("people")} == {"committed"}
    assert ledger.spent("people") == Rho(0.001) * 3
    assert [e.kind for e in ledger.history()] == [
        "create", "reserve", "reserve", "reserve", "commit", "fail", "resume", "commit", "commit"
    ]  # fmt: skip


def test_an_outcome_said_twice_is_one_and_a_contradiction_is_refused(ledger):
    one, two = ledger.reserve("people", Rho(0.001), "one"), ledger.reserve("people", Rho(0.001), "two")
    for _ in range(2):
        ledger.commit(one)
        ledger.fail(two)
    assert ledger.head.entries == 5
    for contradict in (lambda: ledger.fail(one), lambda: ledger.resume(one), lambda: ledger.commit(two)):
        with pytest.raises(LedgerError, match="already"):
            contradict()
    assert ledger.head.entries == 5


def test_one_release_is_charged_once_unless_a_reason_is_given(ledger):
    ledger.reserve("people", Rho(0.001), "november")
    with pytest.raises(LedgerError, match="charged already"):
        ledger.reserve("people", Rho(0.001), "november")
    with pytest.raises(LedgerError, match="never charged"):
        ledger.reserve(
            "people", Rho(0.001), "december", ChargeDetails(reason="noise drawn again after a crash: synthesis")
        )
    ledger.create("patients", 1, 1e-9)
    ledger.reserve("patients", Rho(0.001), "november")
    again = ledger.reserve(
        "people", Rho(0.0005), "november", ChargeDetails(reason="noise drawn again after a crash: synthesis")
    )
    charges = ledger.charges("people", "november")
    assert [charge.entry.rho for charge in charges] == [Rho(0.001), Rho(0.0005)]
    assert charges[1].entry == again
    assert "noise drawn again" in charges[1].entry.reason
    assert ledger.spent("people") == Rho(0.001) + Rho(0.0005)


def test_entries_say_what_a_regulator_asks(ledger):
    key = ledger.key()  # None for PostgreSQL, because the steward had no key
    told = key and str(Fingerprint.of(b"", {"rows": "", "columns": {}}, key, ledger.identity))
    ledger.reserve(
        "people",
        Rho.from_epsilon_delta(1, 1e-9),
        "nov",
        ChargeDetails(
            mechanism="MST", strata="SEX", parts=["synthesis"], epsilon=1, delta=1e-9, fingerprint=told, config="cd"
        ),
    )
    (entry,) = [e for e in ledger.history("people") if e.kind == "reserve"]
    assert (entry.dataset, entry.mechanism, entry.strata, entry.parts) == ("people", "MST", "SEX", ("synthesis",))
    assert (entry.epsilon, entry.delta, entry.relation) == (1, 1e-9, "add-remove")
    assert (entry.fingerprint, entry.config, entry.release_id) == (told, "cd", "nov")
    assert "@" in entry.who
    assert entry.at.endswith("+00:00")
    assert entry.software.startswith("equistrata")


def test_amounts_under_another_relation_do_not_add_up(ledger):
    with pytest.raises(LedgerError, match="cannot be added; use the same relation"):
        ledger.reserve("people", Rho(0.001), "r", ChargeDetails(relation=REPLACE_ONE))


@pytest.mark.parametrize("name", ["", " people", "a\nb", "x" * 101])
def test_names_are_checked(ledger, name):
    with pytest.raises(LedgerError, match="printable"):
        ledger.create(name, 1, 1e-9)
    with pytest.raises(LedgerError, match="printable"):
        ledger.reserve("people", Rho(0.001), name)


def test_a_budget_is_never_changed_and_an_unknown_data_set_is_named(ledger):
    with pytest.raises(LedgerError, match="cannot be changed"):
        ledger.create("people", 100, 1e-9)
    with pytest.raises(LedgerError, match=r"'poeple' has no budget in .* \(it has: people\)"):
        ledger.reserve("poeple", Rho(0.001), "r")
    for wrong in ((0, 1e-9), (1, 0), (1, 1), (-1, 0.5)):
        with pytest.raises(ValueError, match=r"epsilon|delta"):
            ledger.create("others", *wrong)
    with pytest.raises(ValueError, match="positive"):
        ledger.reserve("people", Rho(0), "r")


def test_reservations_of_another_ledger_are_refused(ledger, tmp_path):
    other = Ledger(tmp_path / "other.db")
    other.create("people", 2, 1e-9)
    foreign = other.reserve("people", Rho(0.001), "elsewhere")
    ledger.reserve("people", Rho(0.001), "here")
    with pytest.raises(LedgerError, match="no such reservation"):
        ledger.commit(foreign)


def test_a_ledger_and_a_refusal_survive_pickling(ledger):
    again = pickle.loads(pickle.dumps(ledger))
    assert again.identity == ledger.identity
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("people", Rho(10), "r")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (str(copy), copy.left) == (str(refused.value), refused.value.left)


def test_the_database_refuses_to_change_history(ledger, place):
    ledger.reserve("people", Rho(0.001), "r")
    statements = [
        "UPDATE equistrata_entries SET rho = '0' WHERE entry = 2",
        "DELETE FROM equistrata_entries WHERE entry = 2",
        "UPDATE equistrata_ledger SET entries = 1",
        "UPDATE equistrata_ledger SET entries = 3, version = 2",
        "DELETE FROM equistrata_ledger",
    ]
    if "://" in place:
        import psycopg

        for statement in [*statements, "TRUNCATE equistrata_entries", "TRUNCATE equistrata_ledger"]:
            with psycopg.connect(place) as connection, pytest.raises(psycopg.errors.RaiseException, match="only grows"):
                connection.execute(statement)
    else:
        replace = "INSERT OR REPLACE INTO equistrata_entries (entry, rho) VALUES (2, '0')"
        with closing(sqlite3.connect(place)) as connection:
            for statement in [
                *statements,
                replace,
                "INSERT OR REPLACE INTO equistrata_ledger SELECT * FROM equistrata_ledger",
            ]:
                with pytest.raises(sqlite3.IntegrityError, match="only grows"):
                    connection.execute(statement)
    assert ledger.verify().entries == 2


def _without_guards(path):
    """Return a connection that can write to the file, after the triggers are removed.

    The hash of the layout also detects this. The tests restore the triggers to check that the chain of hashes detects
    the change.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    return connection, [sql for _, sql in guards]


@pytest.mark.parametrize("column", [c.name for c in ledger_tables.ENTRIES.c])
def test_an_edit_of_any_field_is_found_and_its_entry_named(file, column):
    connection, guards = _without_guards(file)
    with closing(connection):
        kind = "integer" if column in ("entry", "settles") else "text"
        new = "999" if kind == "integer" else f"coalesce({column}, '') || 'x'"
        connection.execute(f"UPDATE equistrata_entries SET {column} = {new} WHERE entry = 7")
        for guard in guards:
            connection.execute(guard)
    with pytest.raises(LedgerError, match="entry 7"):
        Ledger(file).verify()


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        ("DELETE FROM equistrata_entries WHERE entry = 5", "entry 5 is missing"),
        ("DELETE FROM equistrata_entries WHERE entry = 26", "missing at the end"),
        ("DELETE FROM equistrata_entries WHERE entry = 1", "entry 1 is missing"),
        ("UPDATE equistrata_ledger SET ledger = 'other'", "entry 1 does not follow"),
        ("UPDATE equistrata_ledger SET created = 'other'", "entry 1 does not follow"),
        ("UPDATE equistrata_ledger SET entries = 27", "missing at the end"),
        (f"UPDATE equistrata_ledger SET hash = '{'0' * 64}'", "missing at the end"),
        ("UPDATE equistrata_ledger SET version = 2", "has format 2"),
        ("UPDATE equistrata_ledger SET layout = 'x'", "tables or triggers"),
    ],
)
def test_removed_rows_and_an_edited_head_are_found(file, edit, sentence):
    connection, guards = _without_guards(file)
    with closing(connection):
        connection.execute(edit)
        for guard in guards:
            connection.execute(guard)
    with pytest.raises(LedgerError, match=sentence):
        Ledger(file).verify()


def test_dropped_guards_are_found(file):
    connection, _ = _without_guards(file)
    connection.close()
    with pytest.raises(LedgerError, match="tables or triggers were changed"):
        Ledger(file).verify()


def test_a_new_whole_chain_is_found_by_an_anchor_alone(tmp_path):
    """If a new ledger is made without a charge, its chain is valid. This can only be detected if a
    head is published.
    """
    honest, forged = Ledger(tmp_path / "honest.db"), Ledger(tmp_path / "forged.db")
    for ledger in (honest, forged):
        ledger.create("people", 2, 1e-9)
    honest.reserve("people", Rho(0.01), "embarrassing")
    anchor = honest.head
    for ledger in (honest, forged):
        ledger.reserve("people", Rho(0.001), "harmless")
    forged.verify()
    with pytest.raises(LedgerError, match="entry 2 is not the one that was anchored"):
        forged.verify([anchor])
    with pytest.raises(LedgerError, match="ends before entry 3"):
        forged.verify([honest.head])
    assert honest.verify([anchor, honest.head, Head.parse(str(anchor))]) == honest.head


@pytest.mark.parametrize("text", ["", "3", "x:" + "0" * 64, "3:" + "0" * 63, "3:" + "g" * 64])
def test_what_is_no_head_is_said(text):
    with pytest.raises(LedgerError, match="not the head"):
        Head.parse(text)


def test_a_charge_on_falsified_totals_is_refused(file):
    """A reservation must also check the hash of the totals that it uses."""
    connection, _ = _without_guards(file)
    with closing(connection):
        connection.execute("UPDATE equistrata_entries SET spent = '0' WHERE entry = 26")
    for use in (lambda ledger: ledger.reserve("people", Rho(0.001), "r"), lambda ledger: ledger.remaining("people")):
        with pytest.raises(LedgerError, match="damaged"):
            use(Ledger(file))


def _content(path):
    with closing(sqlite3.connect(path)) as connection:
        tables = [ledger_tables.ENTRIES.name, ledger_tables.HEAD.name]
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def _flip(source, target, offset, bits):
    content = bytearray(source.read_bytes())
    content[offset] ^= bits
    target.write_bytes(content)


def test_a_flipped_byte_anywhere_in_history_is_found(file, tmp_path):
    content, victim = file.read_bytes(), tmp_path / "victim.db"
    texts = {
        str(value).encode() for table in _content(file) for row in table for value in row if isinstance(value, str)
    }
    offsets = set()
    for word in texts:
        start = content.find(word)
        while start >= 0:
            offsets.update(range(start, start + len(word)))
            start = content.find(word, start + 1)
    assert len(offsets) > 5_000
    rng, missed = random.Random(1), []
    for offset in rng.sample(sorted(offsets), 400):
        _flip(file, victim, offset, 1 << rng.randrange(8))
        try:
            Ledger(victim).verify()
        except LedgerError:
            continue
        missed.append(offset)
    assert [offset for offset in missed if not _is_slack(content, offset)] == []


def _is_slack(content, offset):
    """Return True if a byte is in the unused part of a page, between its pointers and its cells."""
    page_size = int.from_bytes(content[16:18], "big")
    page, inside = divmod(offset, page_size)
    head = content[page * page_size + (100 if page == 0 else 0) :][:12]
    pointers = (100 if page == 0 else 0) + (8 if head[0] in (10, 13) else 12) + 2 * int.from_bytes(head[3:5], "big")
    return pointers <= inside < int.from_bytes(head[5:7], "big")


def test_a_flipped_byte_anywhere_in_the_file_is_found_or_changes_nothing(file, tmp_path):
    honest, victim = _content(file), tmp_path / "victim.db"
    size, rng = file.stat().st_size, random.Random(2)
    found = 0
    for _ in range(300):
        _flip(file, victim, rng.randrange(size), 1 << rng.randrange(8))
        try:
            Ledger(victim).verify()
        except LedgerError:
            found += 1
            continue
        assert _content(victim) == honest
    assert found > 100


def test_an_auditor_verifies_a_read_only_copy(file, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(file, copy)
    copy.chmod(0o444)
    assert Ledger(copy).verify() == Ledger(file).head
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "ledger.db"]


def _spoiled(path, kind):
    if kind == "missing":
        path.unlink()
    elif kind == "read-only":
        path.chmod(0o444)  # this is also checked for the superuser
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "not a database":
        path.write_bytes(b"once upon a time " * 1000)
    elif kind == "cut off":
        path.write_bytes(path.read_bytes()[:6000])
    elif kind == "another database":
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE notes (note TEXT)")
    elif kind == "another version":
        connection, _ = _without_guards(path)
        with closing(connection):
            connection.execute("UPDATE equistrata_ledger SET version = 2")
    else:
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("missing", "does not exist"),
        ("read-only", "is read-only"),
        ("empty", "damaged or is not a ledger"),
        ("not a database", "damaged or is not a ledger"),
        ("cut off", "damaged or is not a ledger"),
        ("another database", "damaged or is not a ledger"),
        ("another version", "has format 2, but this version of equistrata reads format 1"),
        ("a folder", "is not a file"),
    ],
)
def test_a_ledger_that_cannot_be_used_is_one_sentence(file, kind, sentence):
    before = file.read_bytes()
    _spoiled(file, kind)
    with pytest.raises(LedgerError, match=sentence) as refused:
        Ledger(file).reserve("people", Rho(0.0001), "r")
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None
    if kind == "read-only":
        assert file.read_bytes() == before


def test_a_locked_ledger_is_one_sentence(ledger, place):
    waiting = Ledger(place, lock_seconds=0.5)
    with Ledger(place)._store.transaction(writes=True), pytest.raises(LedgerError, match="locked by another process"):
        waiting.reserve("people", Rho(0.001), "r")
    waiting.reserve("people", Rho(0.001), "r")


def test_readers_do_not_wait_for_a_writer(ledger, place):
    with Ledger(place)._store.transaction(writes=True):
        assert Ledger(place, lock_seconds=0.5).spent("people") == Rho(0)


def test_what_is_rolled_back_leaves_no_trace(ledger, monkeypatch):
    before = ledger.head
    append = Transaction.append
    monkeypatch.setattr(
        "equistrata.privacy.ledger.transaction.Transaction.append",
        lambda *given, **named: append(*given, **named) and 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        ledger.reserve("people", Rho(0.001), "r")
    monkeypatch.undo()
    assert (ledger.head, ledger.spent("people")) == (before, Rho(0))
    ledger.verify()


def test_threads_share_a_ledger(ledger):
    threads = [threading.Thread(target=ledger.reserve, args=("people", Rho(0.0001), f"thread {i}")) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent("people") == Rho(0.0001) * 10
    ledger.verify()


def test_a_new_file_is_private_and_nothing_else_is_left(tmp_path):
    Ledger(tmp_path / "ledger.db").create("people", 1, 1e-9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "ledger.db.key"]
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with pytest.raises(LedgerError, match="cannot be made"):
        Ledger(tmp_path / "nowhere" / "ledger.db").create("people", 1, 1e-9)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://steward:canary-pw@[nowhere/db", "mysql://steward:canary-pw@host/db", "postgresql:/canary-pw",
        "x://canary-pw", "sqlite://", "sqlite:///:memory:", "",
    ],
)  # fmt: skip
def test_unusable_urls_are_refused_without_quoting_them(url):
    with pytest.raises(LedgerError) as refused:
        Ledger(url).spent("people")
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_no_error_shows_a_password(postgres, monkeypatch):
    import traceback

    password = postgres.split(":")[2].split("@")[0]
    wrong = postgres.replace(password, "canary-wrong")
    nowhere = f"postgresql://steward:{password}@127.0.0.1:9/db"
    missing = postgres.rsplit("/", 1)[0] + f"/none?password={password}"
    for url in (wrong, nowhere, missing):
        ledger = Ledger(url)
        with pytest.raises(LedgerError) as refused:
            ledger.spent("people")
        shown = "".join(traceback.format_exception(refused.value)) + repr(ledger) + str(ledger)
        for secret in (password, "canary-wrong", "steward"):
            assert secret not in shown


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"equistrata\[postgres\]"):
        Ledger("postgresql://host/db")


def test_a_path_and_its_url_are_the_same_ledger(file):
    assert Ledger(f"sqlite:///{file}").identity == Ledger(str(file)).identity == Ledger(Path(file)).identity


def test_entries_in_json_keep_their_meaning(file):
    """The hash is computed from the JSON of the row, so it must be the same if the row is read with another tool."""
    from equistrata.privacy.ledger.chain import digest

    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM equistrata_entries ORDER BY entry")]
    assert all(digest(json.loads(json.dumps(row))) == row["hash"] for row in rows)
    assert os.path.getsize(file) > 0


def test_a_copy_of_the_one_file_has_every_charge_at_any_time(tmp_path):
    """If another process uses the ledger, the copy must also be complete. There must not be a write-ahead log."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 2, 1e-9)
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("SELECT * FROM equistrata_entries").fetchall()
        for number in range(3):
            ledger.reserve("people", Rho(0.001), f"r{number}")
            copy = Path(shutil.copy(ledger.path, tmp_path / f"copy{number}.db"))
            assert len(Ledger(copy).charges("people")) == number + 1
            assert Ledger(copy).verify() == ledger.head


def test_a_ledger_with_a_write_ahead_log_leaves_it_when_it_is_next_written(file, tmp_path):
    """Ledgers of earlier versions have a write-ahead log. The log is kept while another process uses the ledger."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        ledger = Ledger(file)
        connection.execute("SELECT * FROM equistrata_entries").fetchall()
        ledger.reserve("people", Rho(0.0001), "while it is open")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    ledger.reserve("people", Rho(0.0001), "afterwards")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
    assert ledger.verify().entries == 28


@pytest.mark.parametrize("left", ["ledger.db.key", "ledger.db-wal", "ledger.db-journal"])
def test_what_is_left_of_a_deleted_ledger_is_no_invitation(file, left):
    (file.parent / left).write_text("ab" * 32)
    file.unlink()
    with pytest.raises(
        LedgerError, match=f"{left}' lies in its place: the ledger was deleted or moved. Restore it from a copy"
    ):
        Ledger(file).create("people", 2, 1e-9)
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(file).reserve("people", Rho(0.001), "r")
    assert not file.exists()
    (file.parent / left).rename(file.parent / "moved away")
    Ledger(file).create("people", 2, 1e-9)


def test_a_charge_is_on_the_disk_when_it_is_committed(tmp_path):
    """The settings of SQLite are checked. Other tests do not wait for the disk, see `unsynced`."""
    path = tmp_path / "ledger.db"
    Ledger(path).create("people", 1, 1e-9)
    for writes in (True, False):
        with closing(_connect(path, writes, 1.0)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # the value for EXTRA
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
