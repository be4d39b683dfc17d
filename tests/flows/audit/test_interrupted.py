"""Tests of paid audits that are stopped or killed.

If the same command is run again, the audit is completed. The same noise is never charged twice.
"""

import json
import os
import shutil
import signal
from pathlib import Path
from pkgutil import resolve_name
from unittest import mock

import pytest
from audits import audit
from made_up_people import made_up_people
from plain_release import home_of_people, release

from equistrata.analysis.release import Release
from equistrata.errors import InputError
from equistrata.flows.audit import journal
from equistrata.flows.run.signals import exit_on_sigterm
from equistrata.privacy.budget import BudgetExceeded
from equistrata.privacy.ledger.ledger import Ledger

FLOW, STEPS, JOURNAL = ("equistrata.flows.audit." + name for name in ("flow", "steps", "journal.AuditJournal"))
# Each point is a call, the side on which the audit is stopped, and a flag. The flag is True if a killed audit may have
# drawn noise that is not saved.
POINTS = {
    "rows read": (f"{STEPS}.load_rows", "after", False),
    "before the charge": ("equistrata.privacy.ledger.ledger.Ledger.reserve", "before", False),
    "charged": ("equistrata.privacy.ledger.ledger.Ledger.reserve", "after", False),
    "before noise": (f"{JOURNAL}.begin", "before", False),
    "begun": (f"{JOURNAL}.begin", "after", True),
    "drawn": (f"{STEPS}.public_audits", "after", True),
    "half written": (f"{STEPS}.write_report", "after", True),
    "half saved": ("equistrata.flows.audit.journal.sync_tree", "before", True),
    "saved": (f"{JOURNAL}.save", "after", False),
    "before the ledger is told": ("equistrata.privacy.ledger.ledger.Ledger.commit", "before", False),
    "committed": ("equistrata.privacy.ledger.ledger.Ledger.commit", "after", False),
    "half in its place": ("equistrata.flows.publication.addition.sync_tree", "before", False),
    "in its place": (f"{STEPS}.deliver", "after", False),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = home_of_people(tmp_path_factory.mktemp("made"), 600, 4)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
        release({
            "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"), "strata": "SEX",
            "columns": "SEX,JOB", "workers": 1, "ledger": str(home / "ledger.db"), "dataset": "people",
            "release_id": "one", "output": str(home / "one"), "evaluate": "none",
        })  # fmt: skip
    return home


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    home = Path(shutil.copytree(made, tmp_path / "home"))
    (home / "tmp").mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(home / "tmp"))
    return home


def paid(**settings):
    return audit("one", mode="public", ledger="ledger.db", **settings)[0]


def charges():
    return [each for each in Ledger("ledger.db").charges("people") if each.entry.release_id.startswith("audit-")]


def left(home):
    """Return a list of the temporary files that are left after an interruption."""
    kept = home / "state" / journal.AUDITS
    hidden = [path.name for path in home.rglob("*") if path.name.startswith(".") and path.name.endswith(".part")]
    return [*hidden, *(path.name for path in (home / "tmp").iterdir()), *(kept.iterdir() if kept.exists() else ())]


def stopping(target, side, stop):
    """Stop the command when the target is called for the first time."""
    owner, name = target.rsplit(".", 1)
    original, calls = getattr(resolve_name(owner), name), []

    def called(*args, **kwargs):
        calls.append(None)
        if len(calls) == 1 and side == "before":
            stop()
        found = original(*args, **kwargs)
        if len(calls) == 1 and side == "after":
            stop()
        return found

    return mock.patch(target, called)


def whole_once(home, charged):
    """Check that the audit is complete, that the number of charges is correct, and that there are no other files."""
    found = charges()
    assert [each.outcome for each in found] == ["committed"] * charged
    card = json.loads((home / "one" / "card.json").read_text("utf-8"))
    assert [each["folder"] for each in card["audits"]] == ["audit"]
    assert card["audits"][0]["charged_as"] == found[0].entry.release_id
    Release.open(home / "one")
    Ledger("ledger.db").verify()
    assert left(home) == []


FEW = ("charged", "drawn", "in its place")
SOME = [pytest.param(each, marks=() if each in FEW else pytest.mark.slow) for each in POINTS]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["SIGTERM", "SIGINT"]
)
@pytest.mark.parametrize("point", SOME)
def test_a_stopped_audit_goes_on_at_no_second_price(place, point, number):
    target, side, _ = POINTS[point]
    with stopping(target, side, lambda: os.kill(os.getpid(), number)), exit_on_sigterm():
        with pytest.raises(SystemExit if number == signal.SIGTERM else KeyboardInterrupt):
            paid()
        assert "reserved" not in {each.outcome for each in charges()}
    paid()
    whole_once(place, 1)


@pytest.mark.parametrize("point", SOME)
def test_a_killed_audit_pays_again_for_unsaved_noise_alone(place, point):
    target, side, unsaved = POINTS[point]
    child = os.fork()
    if child == 0:
        with stopping(target, side, lambda: os._exit(9)):
            paid()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    paid()
    whole_once(place, 2 if unsaved else 1)


def test_an_audit_in_a_folder_of_its_own_goes_on_elsewhere_and_of_all_that_is_left(place):
    """The rest of the budget was already charged before the interruption."""
    left_over = Ledger("ledger.db").remaining("people").epsilon(1e-9) * 0.999
    with stopping(f"{JOURNAL}.save", "after", lambda: os.kill(os.getpid(), signal.SIGTERM)), exit_on_sigterm():
        with pytest.raises(SystemExit):
            paid(epsilon=left_over, output="there")
        with pytest.raises(BudgetExceeded):
            paid(epsilon=left_over, strata="JOB", output="other")  # another audit
    assert paid(epsilon=left_over, output="here") == Path("here")
    assert [each.outcome for each in charges()] == ["committed"]
    assert left(place) == []


def test_other_rows_are_another_audit(place):
    os.environ.pop("EQUISTRATA_LEDGER_KEY", None)
    stopped = stopping(f"{JOURNAL}.save", "after", lambda: os.kill(os.getpid(), signal.SIGTERM))
    with stopped, exit_on_sigterm(), pytest.raises(SystemExit):
        paid()
    made_up_people(601).to_csv("people.csv", index=False)
    with pytest.raises(InputError, match="not the rows that release 'one' was made from"):
        paid()
    assert len(charges()) == 1


def test_two_at_once_are_one(place):
    with stopping(f"{STEPS}.load_rows", "before", _second):
        paid()
    whole_once(place, 1)


def _second():
    with pytest.raises(InputError, match="running already"):
        paid()


def test_what_is_refused_keeps_nothing(place):
    with stopping(f"{FLOW}.charged", "before", _spend), pytest.raises(BudgetExceeded):
        paid()
    assert charges() == []
    assert left(place) == []


def _spend():
    books = Ledger("ledger.db")
    books.reserve("people", books.remaining("people"), "another")
