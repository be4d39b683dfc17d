"""Tests of the command line with an invalid ledger, which prints one sentence and makes no release."""

import os
import re
import secrets
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from forked_cli import forked_cli
from left_in import left_in

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger
from equistrata.privacy.ledger.sqlite import key_file


@pytest.fixture(scope="module")
def equistrata(tmp_path_factory, prefect_server):
    """Return a function that starts the command line, and its folder."""
    home = tmp_path_factory.mktemp("refusals")
    (home / "tmp").mkdir()
    environment = {
        "PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(home / "prefect"), "TMPDIR": str(home / "tmp"),
        "EQUISTRATA_STATE": str(home / "state"),
    }  # fmt: skip
    with forked_cli(home, environment) as start:
        yield start, home


@pytest.fixture
def release(equistrata, people):
    """Return a function that tries to make a release with a ledger and returns the exit code and the output.

    No files may be left.
    """
    start, home = equistrata
    table, schema, _ = people

    def attempt(ledger, during=lambda: None):
        output = f"out-{secrets.token_hex(4)}"
        run = start(
            "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX", "--workers", 1,
            "--dataset", "people", "--ledger", ledger, "--output", output, "--evaluate", "none",
        )  # fmt: skip
        during()
        code, (said, error) = run.wait(), run.told
        assert "released" not in said
        assert not (home / output).exists()
        assert list(home.glob(".out*")) == []
        assert left_in(home / "state") == []
        assert list(home.glob("tmp/equistrata-*")) == []
        return code, [line for line in error.strip().splitlines() if not line.startswith("release out-")]

    return attempt


@pytest.fixture
def books(tmp_path):
    """Return the path of a SQLite ledger with several charges."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 3, 1e-9)
    for name in ("september", "october"):
        ledger.commit(ledger.reserve("people", Rho(0.001), name, ChargeDetails(mechanism="MST"), who="steward@office"))
    return ledger.path


def _forge(path, statement):
    """Edit the file of the ledger. The triggers are removed for the edit and then restored."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for _, sql in guards:
            connection.execute(sql)


def _flip(path):
    content = bytearray(path.read_bytes())
    content[content.find(b"steward@office")] ^= 1
    path.write_bytes(content)


def _another_database(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (note TEXT)")


def _another_data_set(path):
    path.unlink()
    key_file(path).unlink()
    Ledger(path).create("others", 1, 1e-9)


def _a_folder(path):
    path.unlink()
    path.mkdir()


SPOIL = {
    "missing": (lambda path: path.unlink(), "does not exist, but its key does: it was deleted or moved; restore it"),
    "read-only": (lambda path: path.chmod(0o444), "is read-only, so nothing can be charged; make it writable"),
    "another version": (
        lambda path: _forge(path, "UPDATE equistrata_ledger SET version = 7"),
        "has format 7, but this version of equistrata reads format 1; use a version that fits",
    ),
    "empty": (lambda path: path.write_bytes(b""), "is damaged or is not a ledger; restore it from a copy"),
    "garbage": (lambda path: path.write_bytes(secrets.token_bytes(30_000)), "is damaged or is not a ledger"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "is damaged or is not a ledger"),
    "cut off": (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    "one byte short": (lambda path: os.truncate(path, path.stat().st_size - 1),
    "damaged|its head does not fit its last entry"),
    "a changed byte": (_flip, "entry [24] does not match its hash"),
    "last entry gone": (
        lambda path: _forge(path, "DELETE FROM equistrata_entries WHERE entry = 5"),
        "its head does not fit its last entry; entries are missing at the end",
    ),
    "a smaller charge": (
        lambda path: _forge(path, "UPDATE equistrata_entries SET rho = '1/1000000' WHERE entry = 2"),
        "entry 2 does not match its hash",
    ),
    "another database": (_another_database, "is damaged or is not a ledger"),
    "a folder": (_a_folder, "is not a file; correct the path"),
    "another data set": (_another_data_set, "'people' has no budget"),
}  # fmt: skip


# Only two kinds are tested with the complete command, because the messages are checked in the tests of the ledger.
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("missing", "a smaller charge"))) for kind in SPOIL],
)
def test_a_release_on_a_spoiled_ledger_is_refused_in_one_sentence(release, books, kind):
    spoil, sentence = SPOIL[kind]
    spoil(books)
    before = books.read_bytes() if books.is_file() else None
    code, error = release(books)
    assert code == 2, error
    assert len(error) == 1, error
    assert re.search(sentence, error[0]), error
    assert (books.read_bytes() if books.is_file() else None) == before
    if books.exists() and not books.is_dir():
        books.chmod(0o600)


@pytest.mark.parametrize("kind", [kind for kind in SPOIL if kind not in ("read-only", "another data set")])
def test_verify_finds_it_too(equistrata, books, kind):
    start, _ = equistrata
    SPOIL[kind][0](books)
    run = start("budget", "verify", "--ledger", books)
    assert run.wait() == 2
    said, error = run.told
    assert said == ""
    assert len(error.strip().splitlines()) == 1


def test_an_older_copy_is_found_by_an_anchor_alone(equistrata, books, tmp_path):
    """This cannot be detected with the chain of hashes alone."""
    start, _ = equistrata
    older = tmp_path / "older.db"
    shutil.copy(books, older)
    ledger = Ledger(books)
    ledger.reserve("people", Rho(0.001), "november")
    assert start("budget", "verify", "--ledger", older).wait() == 0
    run = start("budget", "verify", "--ledger", older, "--anchor", ledger.head)
    assert run.wait() == 2
    assert "ends before entry 6, which was anchored, so its end is missing" in run.told[1]
    assert start("budget", "verify", "--ledger", books, "--anchor", Ledger(older).head).wait() == 0


def test_a_refusal_for_want_of_budget_says_what_is_left(release, tmp_path):
    ledger = Ledger(tmp_path / "small.db")
    ledger.create("people", 0.5, 1e-9)
    code, error = release(ledger.path)
    assert code == 2
    assert len(error) == 1
    assert f"only {float(ledger.remaining('people')):.6g} is left" in error[0]
    assert ledger.head.entries == 1


@pytest.mark.slow
def test_a_ledger_that_stays_locked_is_refused(release, books):
    """The first lock is set after the ledger is read but before the charge. The second lock also blocks all readers."""
    for mode in ("IMMEDIATE", "EXCLUSIVE"):
        with closing(sqlite3.connect(books, isolation_level=None)) as other:
            other.execute(f"PRAGMA locking_mode = {'EXCLUSIVE' if mode == 'EXCLUSIVE' else 'NORMAL'}")
            other.execute(f"BEGIN {mode}")
            code, error = release(books)
            other.execute("ROLLBACK")
        assert code == 2, error
        assert len(error) == 1, error
        assert re.search("has been locked by another process for over 20 s; try again when it is done", error[0])
    assert Ledger(books).verify().entries == 5


@pytest.mark.slow
def test_a_locked_ledger_is_waited_for(equistrata, people, books):
    start, home = equistrata
    table, schema, _ = people
    with closing(sqlite3.connect(books, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        run = start(
            "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX", "--workers", 1,
            "--dataset", "people", "--ledger", books, "--output", "waited", "--release-id", "waited", "--evaluate",
            "none",
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not list(home.glob("state/**/*")) and time.monotonic() < deadline:  # the journal is made before the lease
            time.sleep(0.01)
        time.sleep(1)
        assert not (home / "waited").exists()
        os.kill(run.process, signal.SIGCONT)  # the process exists and is waiting
        other.execute("ROLLBACK")
    assert run.wait() == 0, run.told
    assert [charge.outcome for charge in Ledger(books).charges("people", "waited")] == ["committed"]
