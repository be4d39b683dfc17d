"""Tests that an older copy of a ledger is found before a charge."""

import shutil
import tempfile

import pytest
from audits import audit
from in_process import command
from left_in import left_in
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

from equistrata.errors import InputError
from equistrata.flows.config.places import Place
from equistrata.flows.run import ledgers
from equistrata.privacy.ledger.ledger import Ledger, OlderCopy

SEEN = r"lacks entry 5, which was seen on this machine, so it is an older copy; restore the newest copy"
BESIDE = r"releases in '.*' were charged to it, so this is an older copy of it, or one of their cards was edited"


def settings(name, **more):
    return {
        "source": "csv", "input": "people.csv", "schema": "people.yaml", "strata": "SEX", "workers": 1,
        "evaluate": "none", "ledger": "ledger.db", "dataset": "people", "output": name, "release_id": name,
        "epsilon": 0.1, "columns": "SEX,JOB",
    } | more  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Make two charged releases.

    The ledger is then replaced by the copy that was made before the second release. The newest copy is in the same
    folder.
    """
    for name in ("EQUISTRATA_LEDGER_URL", "EQUISTRATA_LEDGER_KEY"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / "tmp").mkdir(parents=True)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    monkeypatch.chdir(home)
    made_up_people(600).to_csv("people.csv", index=False)
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    Ledger("ledger.db").create("people", 10, 1e-9)
    release(settings("one"))
    shutil.copy("ledger.db", "old.db")
    release(settings("two"))
    shutil.move("ledger.db", "newest.db")
    shutil.move("old.db", "ledger.db")
    return home


def test_it_is_refused_by_what_was_seen_and_by_the_cards_beside_the_output(home, tmp_path, monkeypatch, capsys):
    before = Ledger("ledger.db").head
    with pytest.raises(OlderCopy, match=SEEN):
        release(settings("three"))
    code, _, error = command(monkeypatch, capsys, "budget", "verify", "--ledger", "ledger.db")
    assert (code, "an older copy; restore the newest copy" in " ".join(error.split())) == (2, True)
    code, _, error = command(monkeypatch, capsys, "resume", "--discard", "one", "--ledger", "ledger.db")
    assert code == 2
    code, said, _ = command(monkeypatch, capsys, "budget", "show", "--ledger", "ledger.db")
    assert (code, "people" in said) == (0, True)
    with pytest.raises(OlderCopy, match=r"lacks entry 5"):
        audit("one", mode="public", ledger="ledger.db", output="report", epsilon=0.1)
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(OlderCopy, match=BESIDE):
        release(settings("three"))
    with pytest.raises(OlderCopy, match=BESIDE):
        audit("one", mode="public", ledger="ledger.db", output="report", epsilon=0.1)
    assert Ledger("ledger.db").head == before
    assert not any((home / name).exists() for name in ("three", "report"))
    assert left_in(tmp_path / "state") == []
    shutil.move("newest.db", "ledger.db")
    release(settings("three"))
    Ledger("ledger.db").verify()


def test_a_copy_put_back_between_plan_and_charge_is_refused_at_the_charge(home, monkeypatch):
    """The last known entry is checked in the same transaction as the charge."""
    shutil.copy("ledger.db", "old.db")
    shutil.copy("newest.db", "ledger.db")
    real = Ledger.reserve

    def reserve(self, *given, **named):
        shutil.move("old.db", "ledger.db")
        return real(self, *given, **named)

    monkeypatch.setattr(Ledger, "reserve", reserve)
    with pytest.raises(OlderCopy, match="older copy"):
        release(settings("three"))
    assert Ledger("ledger.db").charges("people", "three") == []


def test_a_rehearsal_with_a_ledger_of_its_own_hinders_nothing(home, tmp_path):
    """The cards of the rehearsal are in the same folder, and its file may have the same name."""
    (home / "rehearsal").mkdir()
    rehearsal = Ledger("rehearsal/ledger.db")
    rehearsal.create("people", 10, 1e-9)
    release(settings("rehearsed", ledger="rehearsal/ledger.db"))
    shutil.move("newest.db", "ledger.db")
    release(settings("three"))
    release(settings("rehearsed again", release_id="again", ledger="rehearsal/ledger.db"))
    rehearsal.verify()


def test_no_card_but_one_of_this_ledger_with_a_head_counts(home):
    shutil.move("newest.db", "ledger.db")
    for number, text in enumerate(["[]", "{", '{"ledger": 3}', '{"ledger": {"ledger": 1, "head": "9:x"}}', "[" * 9000]):
        (home / f"odd{number}").mkdir()
        (home / f"odd{number}" / "card.json").write_text(text)
    release(settings("three"))
    assert (home / "three" / "card.json").exists()


def test_without_a_home_nothing_is_kept_and_a_ledger_can_be_read(home, monkeypatch):
    def none():
        raise InputError("there is no home folder")

    monkeypatch.setattr(ledgers, "state_folder", none)
    assert ledgers.open_ledger(Place("ledger.db")).verify().entries == 3
