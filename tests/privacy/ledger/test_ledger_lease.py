"""Tests that a release is run by a single process at a time, and that the lease of a dead process ends."""

import sqlite3
import time
from contextlib import closing

import pytest

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger import lease as ledger_lease
from equistrata.privacy.ledger.ledger import Ledger, LedgerError


def test_a_release_is_held_by_one_run_and_free_when_it_ends(ledger, place):
    before, elsewhere = ledger.head, Ledger(place)
    with ledger.lease("people", "november", "mine") as lease:
        with (
            pytest.raises(LedgerError, match=r"'november' is already running on '.*3 minutes"),
            elsewhere.lease("people", "november", "theirs"),
        ):
            pass
        with elsewhere.lease("people", "december", "theirs"), elsewhere.lease("others", "november", "theirs"):
            assert elsewhere.lease_holder("people", "november") == ledger_lease._host()
        lease.check()
        ledger.reserve("people", Rho(0.001), "november")
    assert elsewhere.lease_holder("people", "november") is None
    with elsewhere.lease("people", "november", "theirs"):
        pass
    assert ledger.verify([before]).entries == 2, "leases are no history"


def test_whoever_knows_the_token_takes_a_dead_runs_lease_over_at_once(ledger):
    taken = ledger.lease("people", "november", "of the journal")
    taken.__enter__()  # the process is killed
    with ledger.lease("people", "november", "of the journal"):
        pass


def test_a_dead_runs_lease_ends_and_a_living_ones_is_renewed(ledger, place, monkeypatch):
    monkeypatch.setattr(ledger_lease, "LEASE_SECONDS", 0.8)
    with ledger.lease("people", "alive", "a"):
        time.sleep(1.6)
        with pytest.raises(LedgerError, match="already running"), Ledger(place).lease("people", "alive", "b"):
            pass
    monkeypatch.setattr(ledger_lease.Lease, "_renew", lambda lease: None)
    with ledger.lease("people", "dead", "a"):
        time.sleep(1)
        with Ledger(place).lease("people", "dead", "b"):
            pass


def test_a_run_that_was_silent_for_too_long_learns_that_it_lost_its_lease(ledger, place, monkeypatch):
    monkeypatch.setattr(ledger_lease, "LEASE_SECONDS", 0.4)
    silent = ledger_lease.Lease(ledger._store, "people", "november", "a")
    assert silent._take() is None
    time.sleep(0.5)
    monkeypatch.setattr(ledger_lease, "LEASE_SECONDS", 60.0)
    with Ledger(place).lease("people", "november", "b"):
        monkeypatch.setattr(ledger_lease, "LEASE_SECONDS", 0.04)
        turns = [False, True]
        monkeypatch.setattr(silent._over, "wait", lambda _: turns.pop(0))  # a single renewal
        silent._renew()
    with pytest.raises(LedgerError, match="taken over by another run"):
        silent.check()


def test_the_token_is_not_stored(ledger, place):
    with ledger.lease("people", "november", "canary-token"), ledger._store.transaction() as (connection, _):
        rows = connection.exec_driver_sql("SELECT * FROM equistrata_leases").all()
    assert len(rows) == 1
    assert "canary" not in repr(rows)


def test_leases_come_into_a_ledger_of_an_earlier_version_and_nothing_else_may(tmp_path):
    """The hash of the tables does not include the table of leases."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 1, 1e-9)
    with ledger.lease("people", "november", "a"):
        ledger.verify()
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("CREATE TRIGGER thief AFTER INSERT ON equistrata_leases BEGIN SELECT 1; END")
    with pytest.raises(LedgerError, match="tables or triggers were changed"):
        ledger.verify()
