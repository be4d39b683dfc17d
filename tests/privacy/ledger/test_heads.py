"""Tests of the heads that are stored outside of the ledger, so that an older copy of the ledger is refused."""

import pickle
import secrets
import shutil
import threading

import pytest

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.heads import head_file, keep_head, load_head
from equistrata.privacy.ledger.ledger import Head, Ledger, LedgerError, OlderCopy

TINY = Rho(0.0001)


@pytest.fixture
def heads(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def copied(request):
    """Return a function that copies a ledger and returns the place of the copy."""

    def copy(place):
        if "://" not in place:
            copy = shutil.copy(place, f"{place}.{secrets.token_hex(4)}")
            shutil.copy(f"{place}.key", f"{copy}.key")
            return copy
        import psycopg

        server, _, name = place.rpartition("/")
        made = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(request.getfixturevalue("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {made} TEMPLATE {name}")
        return f"{server}/{made}"

    return copy


@pytest.fixture
def opened(place, heads):
    """Return a function that opens a ledger with one account."""

    def ledger(where=place, folder=heads):
        return Ledger(where, heads=folder)

    ledger().create("people", 2, 1e-9)
    return ledger


def charge(ledger, name):
    reservation = ledger.reserve("people", TINY, name)
    ledger.commit(reservation)
    return reservation


def disconnected(ledger):
    """Close all connections, because PostgreSQL cannot copy a database that is in use."""
    for engine in ledger._store._engines.values():
        engine.dispose()


def test_an_older_copy_is_refused_by_all_that_writes_and_by_verify(opened, place, copied, heads):
    ledger = opened()
    first = charge(ledger, "one")
    disconnected(ledger)
    old = copied(place)
    open_one = ledger.reserve("people", TINY, "two")
    charge(ledger, "three")
    copy, before = opened(old), Ledger(old).head
    refused = {
        "reserve": lambda: copy.reserve("people", TINY, "four"),
        "create": lambda: copy.create("others", 1, 1e-9),
        "set_key": lambda: copy.set_key("j" * 32),
        "commit": lambda: copy.commit(open_one),
        "fail": lambda: copy.fail(first),
        "verify": copy.verify,
        "in another process": pickle.loads(pickle.dumps(copy)).verify,
    }
    for name, act in refused.items():
        with pytest.raises(OlderCopy, match=r"lacks entry 6, .*an older copy; restore the newest copy") as error:
            act()
        assert error.value.exit_code == 2, name
    assert Ledger(old).head == before
    assert copy.spent("people") == TINY, "it can be looked at"
    assert load_head(heads, ledger.identity) == ledger.head, "and moves nothing"
    charge(ledger, "four")
    assert ledger.verify() == ledger.head


def test_a_copy_that_was_charged_is_another_history(opened, place, copied):
    """The copy was charged by a rehearsal, so the older of the two ledgers must be refused."""
    ledger = opened()
    charge(ledger, "one")
    disconnected(ledger)
    copy = opened(copied(place))
    charge(copy, "rehearsal")
    with pytest.raises(OlderCopy, match="lacks entry 5"):
        ledger.reserve("people", TINY, "two")
    disconnected(copy)
    late = Ledger(place)  # a process without a head can charge the ledger, so that both have the same number of entries
    charge(late, "two")
    with pytest.raises(OlderCopy, match="lacks entry 5"):
        ledger.verify()


def test_what_is_kept_is_never_ahead(opened, place, heads, monkeypatch):
    ledger = opened()
    head = ledger.head
    with pytest.raises(LedgerError, match="no budget"):
        ledger.reserve("nobody", TINY, "one")
    with pytest.raises(LedgerError, match="anchored"):
        ledger.verify([Head(1, "0" * 64)])
    assert load_head(heads, ledger.identity) == head
    # The process is killed at this point.
    monkeypatch.setattr("equistrata.privacy.ledger.ledger.keep_head", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ledger.reserve("people", TINY, "one")
    monkeypatch.undo()
    ledger.verify()  # the same is true for a file that claims to be this ledger
    assert (ledger.head.entries, load_head(heads, ledger.identity)) == (2, head)
    assert ledger.verify(keep=True) == load_head(heads, ledger.identity)
    charge(opened(), "two")
    assert load_head(heads, ledger.identity) == ledger.head == ledger.verify()
    keep_head(heads, ledger.identity, head)  # a slower process is the last to write
    assert load_head(heads, ledger.identity) == ledger.head


def test_of_many_that_charge_at_once_the_newest_head_stays(opened, heads):
    ledger, faults = opened(), []

    def run(racer):
        try:
            for number in range(5):
                charge(opened(), f"{racer}-{number}")
        except LedgerError as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=[racer]) for racer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (faults, ledger.head.entries) == ([], 41)
    assert load_head(heads, ledger.identity) == ledger.head
    assert [path.name for path in heads.iterdir()] == [head_file(heads, ledger.identity).name]


def test_machines_and_ledgers_do_not_hinder_each_other(opened, place, tmp_path, heads):
    """Two machines with the same ledger have different heads, and two ledgers with the same name are different ledgers.

    If the folder is lost or cannot be made, there is no head.
    """
    here, there = opened(), opened(folder=tmp_path / "there")
    for number in range(3):
        charge(here, f"here {number}")
        charge(there, f"there {number}")
    (tmp_path / "rehearsal").mkdir()
    rehearsal = Ledger(tmp_path / "rehearsal" / "ledger.db", heads=heads)
    rehearsal.create("people", 2, 1e-9)
    charge(rehearsal, "here 0")
    charge(here, "one more")
    shutil.rmtree(heads)
    charge(here, "two more")
    (tmp_path / "file").touch()
    charge(opened(folder=tmp_path / "file" / "state"), "three more")
    for ledger in (here, there, rehearsal):
        ledger.verify()


def test_a_head_that_cannot_be_read_is_one_sentence(opened, heads):
    ledger = opened()
    head_file(heads, ledger.identity).write_text("canary")
    with pytest.raises(LedgerError, match="newest head of this ledger, cannot be read") as refused:
        ledger.reserve("people", TINY, "one")
    assert "canary" not in str(refused.value)
