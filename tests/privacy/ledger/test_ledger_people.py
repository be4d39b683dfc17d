"""A budget belongs to people: their rows under a second name are refused, unless the steward said so when he opened
it."""

import threading

import pytest

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import Ledger, LedgerError, Particulars

KEY = b"k" * 32


def rows(name, columns="abc", key=KEY):
    """A fingerprint of those rows."""
    return str(Fingerprint.of(name.encode(), {"rows": name, "columns": dict.fromkeys(columns, name)}, key, "ledger"))


@pytest.fixture
def ledger(place):
    """Two accounts; people's rows were released."""
    made = Ledger(place)
    made.create("people", 2, 1e-9)
    made.create("patients", 1, 1e-6)
    made.reserve("people", Rho(0.001), "one", Particulars(fingerprint=rows("census")))
    return made


def test_the_same_rows_under_a_second_name_are_refused_and_nothing_is_charged(ledger):
    before = ledger.head
    with pytest.raises(LedgerError, match=r"those of data set 'people' \(release 'one'\).*--same-people-as people"):
        ledger.reserve("patients", Rho(0.001), "two", Particulars(fingerprint=rows("census")))
    with pytest.raises(LedgerError, match="those of data set 'people'"):
        ledger.reserve("patients", Rho(0.001), "two", Particulars(fingerprint=rows("census", "abcdef")))
    assert (ledger.head, ledger.spent("patients")) == (before, Rho(0))
    ledger.reserve("patients", Rho(0.001), "two", Particulars(fingerprint=rows("hospital")))
    ledger.reserve("people", Rho(0.001), "three", Particulars(fingerprint=rows("census")))
    ledger.reserve("people", Rho(0.001), "four", Particulars(fingerprint=rows("census of another month")))
    with pytest.raises(LedgerError, match="'patients'"):
        ledger.reserve("people", Rho(0.001), "five", Particulars(fingerprint=rows("hospital")))
    ledger.verify()


def test_a_steward_may_say_that_they_are_the_same_people_and_then_their_budgets_add_up(ledger):
    ledger.create("panel", 1, 1e-7, same_people_as=["people"])
    ledger.create("wave", 1, 1e-9, same_people_as=["panel"])
    assert ledger.account("panel").same_people_as == ("people",)
    for name in ("panel", "wave"):
        ledger.reserve(name, Rho(0.001), name, Particulars(fingerprint=rows("census")))
    with pytest.raises(LedgerError, match="'people'"):
        ledger.reserve("patients", Rho(0.001), "two", Particulars(fingerprint=rows("census")))
    (group,) = ledger.same_people()
    together = sum((ledger.budget(name) for name in group.datasets), start=Rho(0))
    assert (group.datasets, group.rho, group.delta) == (("people", "panel", "wave"), together, 1e-9)
    assert group.epsilon == together.epsilon(1e-9) > 2
    assert str(group).startswith("people, panel and wave hold the same people, so their prices add up")
    ledger.create("joined", 1, 1e-9, same_people_as=["patients", "wave"])
    assert [group.datasets for group in ledger.same_people()] == [("people", "patients", "panel", "wave", "joined")]
    ledger.verify()


def test_who_is_the_same_is_part_of_the_chain_and_must_be_there(ledger):
    with pytest.raises(LedgerError, match="'nobody' has no budget"):
        ledger.create("panel", 1, 1e-9, same_people_as=["nobody"])
    assert len(ledger.accounts()) == 2


def test_fingerprints_that_cannot_be_compared_are_no_way_around(ledger):
    """Another key, or none at all, would let the same rows pass under any name."""
    for told, key in ((None, "a key"), (rows("census", key=b"j" * 32), "another key")):
        with pytest.raises(LedgerError, match=f"made with {key}; bring that key back"):
            ledger.reserve("patients", Rho(0.001), "two", Particulars(fingerprint=told))
    ledger.reserve("people", Rho(0.001), "two")
    ledger.create("panel", 1, 1e-9, same_people_as=["people"])
    ledger.reserve("panel", Rho(0.001), "three", Particulars(fingerprint=rows("census", key=b"j" * 32)))


def test_charges_without_fingerprints_are_no_hindrance(place):
    ledger = Ledger(place)
    for name in ("people", "patients"):
        ledger.create(name, 1, 1e-9)
        ledger.reserve(name, Rho(0.001), "one")
    ledger.reserve("people", Rho(0.001), "two", Particulars(fingerprint=rows("census")))


def test_of_names_that_charge_the_same_rows_at_once_one_wins(place):
    ledger, told = Ledger(place), []
    for racer in range(6):
        ledger.create(f"people {racer}", 1, 1e-9)
    start = threading.Barrier(6)

    def charge(racer):
        mine = Ledger(place)
        mine.spent("people 0")  # connected
        start.wait()
        try:
            mine.reserve(f"people {racer}", Rho(0.001), "release", Particulars(fingerprint=rows("census")))
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
