"""Tests of a ledger with several accounts. The same rows must not be charged to two accounts unless this is allowed by
the steward.
"""

import threading
from functools import partial

import pytest

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger, LedgerError
from equistrata.privacy.ledger.transaction import Transaction

KEY, FOREIGN = "k" * 32, "j" * 32


def print_of(ledger, name, columns="abc", key=KEY):
    """Return the fingerprint of the given rows in a ledger."""
    seen = {"rows": name, "columns": dict.fromkeys(columns, name)}
    return str(Fingerprint.of(name.encode(), seen, key.encode(), ledger.identity))


@pytest.fixture
def ledger(place, monkeypatch):
    """Return a ledger with a key and two accounts. The rows of `people` have been released."""
    monkeypatch.setenv("EQUISTRATA_LEDGER_KEY", KEY)
    made = Ledger(place)
    made.create("people", 2, 1e-9)
    made.create("patients", 1, 1e-6)
    made.reserve("people", Rho(0.001), "one", ChargeDetails(fingerprint=print_of(made, "census")))
    return made


@pytest.fixture
def rows(ledger):
    """Return a function that makes fingerprints for the ledger."""
    return partial(print_of, ledger)


def test_the_same_rows_under_a_second_name_are_refused_and_nothing_is_charged(ledger, rows):
    before = ledger.head
    with pytest.raises(LedgerError, match=r"those of data set 'people' \(release 'one'\).*--same-people-as people"):
        ledger.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=rows("census")))
    with pytest.raises(LedgerError, match="those of data set 'people'"):
        ledger.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=rows("census", "abcdef")))
    assert (ledger.head, ledger.spent("patients")) == (before, Rho(0))
    ledger.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=rows("hospital")))
    ledger.reserve("people", Rho(0.001), "three", ChargeDetails(fingerprint=rows("census")))
    ledger.reserve("people", Rho(0.001), "four", ChargeDetails(fingerprint=rows("census of another month")))
    with pytest.raises(LedgerError, match="'patients'"):
        ledger.reserve("people", Rho(0.001), "five", ChargeDetails(fingerprint=rows("hospital")))
    ledger.verify()


def test_a_steward_may_say_that_they_are_the_same_people_and_then_their_budgets_add_up(ledger, rows):
    ledger.create("panel", 1, 1e-7, same_people_as=["people"])
    ledger.create("wave", 1, 1e-9, same_people_as=["panel"])
    assert ledger.account("panel").same_people_as == ("people",)
    for name in ("panel", "wave"):
        ledger.reserve(name, Rho(0.001), name, ChargeDetails(fingerprint=rows("census")))
    with pytest.raises(LedgerError, match="'people'"):
        ledger.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=rows("census")))
    (group,) = ledger.same_people()
    together = sum((ledger.budget(name) for name in group.datasets), start=Rho(0))
    assert (group.datasets, group.rho, group.delta) == (("people", "panel", "wave"), together, 1e-9)
    assert group.epsilon == together.epsilon(1e-9) > 2
    assert str(group).startswith("people, panel and wave contain the same people, so their costs add up")
    ledger.create("joined", 1, 1e-9, same_people_as=["patients", "wave"])
    assert [group.datasets for group in ledger.same_people()] == [("people", "patients", "panel", "wave", "joined")]
    ledger.verify()


def test_who_is_the_same_is_part_of_the_chain_and_must_be_there(ledger):
    with pytest.raises(LedgerError, match="'nobody' has no budget"):
        ledger.create("panel", 1, 1e-9, same_people_as=["nobody"])
    assert len(ledger.accounts()) == 2


def test_fingerprints_that_cannot_be_compared_are_no_way_around(ledger, rows):
    """If there is no key, or if the key is different, the same rows could be charged to another account.

    If the first charge had a different key, the later charges would fail.
    """
    before = ledger.head
    with pytest.raises(LedgerError, match="made with a key that is missing; restore the key"):
        ledger.reserve("patients", Rho(0.001), "two")
    for dataset in ("people", "patients"):
        with pytest.raises(LedgerError, match=r"made with another key; restore that key.*equistrata budget key"):
            ledger.reserve(dataset, Rho(1e-6), "two", ChargeDetails(fingerprint=rows("nobody", key=FOREIGN)))
    assert ledger.head == before
    ledger.reserve("people", Rho(0.001), "two")


def test_the_key_is_set_with_an_account_and_a_foreign_one_is_refused_before_any_charge(place, monkeypatch):
    """The key is also checked if there are no charges, and the key of the first account is needed for the second
    account.
    """
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    ledger = Ledger(place)
    ledger.create("people", 1, 1e-9, key=KEY)
    foreign = ChargeDetails(fingerprint=print_of(ledger, "census", key=FOREIGN))
    for name in ("people", "again"):
        with pytest.raises(LedgerError, match="another key"):
            ledger.reserve("people", Rho(1e-6), name, foreign)
    with pytest.raises(LedgerError, match="another key"):
        ledger.create("patients", 1, 1e-9, key=FOREIGN)
    assert [account.dataset for account in ledger.accounts()] == ["people"]
    ledger.create("patients", 1, 1e-9, key=KEY)
    ledger.reserve("patients", Rho(0.001), "two", ChargeDetails(fingerprint=print_of(ledger, "hospital")))
    if ledger.path is None:  # a key is made for a file
        ledger.create("third", 1, 1e-9)
        assert ledger.key_name == print_of(ledger, "x")[4:20], "a steward without it changes nothing"
    ledger.verify()


def test_a_ledger_whose_steward_has_no_key_takes_no_fingerprint_until_he_sets_one(new_database, monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    ledger = Ledger(new_database())
    ledger.create("people", 1, 1e-9)
    told = ChargeDetails(fingerprint=print_of(ledger, "census"))
    with pytest.raises(LedgerError, match=r"made without a key; use no key.*equistrata budget key"):
        ledger.reserve("people", Rho(1e-6), "one", told)
    with pytest.raises(LedgerError, match="there is no key for fingerprints"):
        ledger.set_key()
    assert ledger.set_key(KEY)
    ledger.reserve("people", Rho(1e-6), "one", told)
    ledger.verify()


def test_a_release_that_is_charged_again_has_the_rows_of_its_first_charge(ledger, rows):
    """A second charge must not be able to add another key or other rows."""
    for other in (rows("nobody", key=FOREIGN), rows("hospital"), None):
        with pytest.raises(LedgerError, match="charged for other rows"):
            ledger.reserve("people", Rho(1e-6), "one", ChargeDetails(fingerprint=other, reason="noise drawn again"))
    ledger.set_key(FOREIGN)
    ledger.reserve("people", Rho(1e-6), "one", ChargeDetails(fingerprint=rows("census"), reason="noise drawn again"))


@pytest.fixture
def legacy(place, monkeypatch):
    """Return a ledger of an earlier version, in which the key is set by the first charge."""
    append = Transaction.append

    def stated_nothing(self, kind, dataset, rho, spent, texts, settles=None):
        return append(self, kind, dataset, rho, spent, dict(texts) | {"fingerprint": None}, settles)

    monkeypatch.setattr(Transaction, "append", stated_nothing)
    monkeypatch.setenv("EQUISTRATA_LEDGER_KEY", KEY)
    made = Ledger(place)
    made.create("people", 2, 1e-9)
    made.create("patients", 1, 1e-6)
    monkeypatch.setattr(Transaction, "append", append)
    assert made.key_name is None
    return made


@pytest.mark.parametrize("later", [False, True])
def test_a_ledger_with_a_foreign_charge_is_repaired_by_an_entry_of_the_steward(legacy, later, monkeypatch):
    """In an earlier version, the key of the first charge was not checked, and the keys of the later charges were not
    compared.
    """
    ledger, rows = legacy, partial(print_of, legacy)
    honest, census = ChargeDetails(fingerprint=rows("hospital")), ChargeDetails(fingerprint=rows("census"))
    if later:
        ledger.reserve("people", Rho(0.001), "one", census)
        monkeypatch.setattr("equistrata.privacy.ledger.ledger.check_people", lambda *given: None)
    ledger.reserve("people", Rho(1e-6), "forged", ChargeDetails(fingerprint=rows("nobody", key=FOREIGN)))
    monkeypatch.undo()
    monkeypatch.setenv("EQUISTRATA_LEDGER_KEY", KEY)
    if not later:
        with pytest.raises(LedgerError, match=r"another key; restore that key.*equistrata budget key"):
            ledger.reserve("patients", Rho(0.001), "two", honest)
        with pytest.raises(LedgerError, match="another key"):
            ledger.create("third", 1, 1e-9)
    spent = ledger.spent("people")
    assert ledger.set_key() == (not later)
    assert not ledger.set_key(), "once"
    ledger.reserve("patients", Rho(0.001), "two", honest)
    if later:  # charges with the same key are still compared
        with pytest.raises(LedgerError, match="those of data set 'people'"):
            ledger.reserve("patients", Rho(0.001), "three", census)
    with pytest.raises(LedgerError, match="another key"):
        ledger.reserve("people", Rho(1e-6), "forged again", ChargeDetails(fingerprint=rows("nobody", key=FOREIGN)))
    assert ledger.spent("people") == spent, "a repair refunds nothing"
    (entry,) = [entry for entry in ledger.history() if entry.kind == "key"]
    assert (entry.dataset, entry.rho, entry.fingerprint) == ("", Rho(0), f"key={ledger.key_name}")
    ledger.verify()


def test_charges_without_fingerprints_are_no_hindrance(place, monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    ledger = Ledger(place)
    for name in ("people", "patients"):
        ledger.create(name, 1, 1e-9)
        ledger.reserve(name, Rho(0.001), "one")
    if ledger.path is not None:
        told = Fingerprint.of(b"", {"rows": "", "columns": {}}, ledger.key(), ledger.identity)
        ledger.reserve("people", Rho(0.001), "two", ChargeDetails(fingerprint=str(told)))


def test_of_names_that_charge_the_same_rows_at_once_one_wins(place):
    ledger, told = Ledger(place), []
    for racer in range(6):
        ledger.create(f"people {racer}", 1, 1e-9, key=KEY)
    census = ChargeDetails(fingerprint=print_of(ledger, "census"))
    start = threading.Barrier(6)

    def charge(racer):
        mine = Ledger(place)
        mine.spent("people 0")  # the connection is open
        start.wait()
        try:
            mine.reserve(f"people {racer}", Rho(0.001), "release", census)
            told.append("charged")
        except LedgerError as error:
            told.append("refused" if "those of data set" in str(error) else str(error))

    threads = [threading.Thread(target=charge, args=[racer]) for racer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["charged", *["refused"] * 5]
    ledger.verify()
