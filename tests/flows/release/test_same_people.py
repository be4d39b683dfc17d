"""Tests that the rows of a budget are recognized under another name or in another format, and that an audit recognizes
the rows of its release.
"""

import tempfile

import pytest
from audits import audit
from in_process import command
from left_in import left_in
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

from equistrata.data.files.formats import kind_of
from equistrata.errors import InputError
from equistrata.flows.release.undertaking import discard, fail_open_charges
from equistrata.flows.run.journal import Journal
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import Ledger, LedgerError

FRAME = made_up_people(900)
WORDS = PEOPLE_SCHEMA.replace("[1, 2]", "[1, 2], label: sex, labels: {1: men, 2: women}")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with two tables in several formats, and a ledger in which a release of the first is charged."""
    home = tmp_path_factory.mktemp("people")
    shuffled = FRAME.sample(frac=1, random_state=3)
    FRAME.to_csv(home / "people.csv", index=False)
    FRAME.to_parquet(home / "people.parquet", index=False)
    FRAME.to_stata(home / "people.dta", write_index=False)
    shuffled.to_csv(home / "shuffled.csv", index=False)
    shuffled[["PAY", "JOB", "AGE", "SEX", "GROUP"]].to_parquet(
        home / "shuffled.parquet", index=False, row_group_size=100
    )
    FRAME.astype({"SEX": str, "AGE": float}).to_parquet(home / "typed.parquet", index=False)
    made_up_people(1800).iloc[900:].to_csv(home / "others.csv", index=False)
    FRAME.iloc[1:].to_csv(home / "less.csv", index=False)
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    (home / "words.yaml").write_text(WORDS.replace("name: people", "name: words"))
    (home / "bins.yaml").write_text(PEOPLE_SCHEMA.replace("17, 39, 64,", "30, 60,"))
    ledger = Ledger(home / "ledger.db")
    ledger.create("people", 10, 1e-9)
    ledger.create("census", 10, 1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUISTRATA_STATE", str(home / "state"))
        patch.delenv("EQUISTRATA_LEDGER_URL", raising=False)
        patch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
        patch.chdir(home)
        release(settings("people", "people.csv", output="one", release_id="one", holdout=0.2, evaluate="full"))
    return home


@pytest.fixture(autouse=True)
def place(home, tmp_path, monkeypatch):
    """Set the working folder and a temporary folder for this test."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
    monkeypatch.delenv("EQUISTRATA_LEDGER_URL", raising=False)
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(home)
    return home


def settings(dataset, table, schema="people.yaml", **more):
    return {
        "source": kind_of(table), "input": table, "schema": schema, "strata": "SEX", "workers": 1, "evaluate": "none",
        "ledger": "ledger.db",
        "dataset": dataset, "output": f"out-{dataset}", "release_id": f"of-{dataset}", "epsilon": 0.1,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("table", "schema", "more"),
    [
        ("people.csv", "people.yaml", {}),
        ("people.dta", "people.yaml", {}),
        ("people.parquet", "people.yaml", {}),
        ("shuffled.csv", "people.yaml", {}),
        ("shuffled.parquet", "people.yaml", {}),
        ("typed.parquet", "words.yaml", {}),
        ("shuffled.csv", "people.yaml", {"columns": "JOB,SEX,GROUP"}),
        ("shuffled.parquet", "bins.yaml", {"strata": ""}),
        ("people.csv", "people.yaml", {"columns": "SEX,JOB"}),
    ],
)
def test_the_same_rows_under_a_second_name_are_refused(home, table, schema, more):
    ledger = Ledger("ledger.db")
    before = ledger.head
    with pytest.raises(LedgerError, match=r"those of data set 'people' \(release 'one'\)"):
        release(settings("census", table, schema, **more))
    assert ledger.head == before
    assert not (home / "out-census").exists()
    assert left_in(home / "state") == []


def test_other_peoples_rows_are_not_and_what_is_not_known_again_is_as_the_docs_say(home):
    """If a row is missing or if only some of the columns are used, the rows are not recognized. See docs/ledger.md."""
    Ledger("ledger.db").create("others", 10, 1e-9)
    for number, (table, more) in enumerate(
        [("others.csv", {}), ("less.csv", {}), ("shuffled.csv", {"columns": "SEX,JOB"})]
    ):
        release(settings("others", table, output=f"others{number}", release_id=f"others{number}", **more))
    prints = [charge.entry.fingerprint for charge in Ledger("ledger.db").charges("others")]
    assert len(set(prints)) == 3


def test_a_lost_key_is_no_way_around(home):
    key = home / "ledger.db.key"
    kept = key.read_text()
    key.unlink()
    try:
        with pytest.raises(LedgerError, match=r"ledger\.db\.key' is gone"):
            release(settings("census", "shuffled.csv"))
        assert not key.exists()
        key.write_text("ab" * 32)
        # Its own account is also refused, otherwise later charges of all other accounts would be refused
        for dataset in ("census", "people"):
            with pytest.raises(LedgerError, match="made with another key"):
                release(settings(dataset, "shuffled.csv"))
    finally:
        key.write_text(kept)


def test_an_audit_knows_the_rows_of_its_release_in_any_form_and_records_them(home):
    ledger = Ledger("ledger.db")
    audit(
        "one",
        mode="public",
        ledger="ledger.db",
        source="parquet",
        input="shuffled.parquet",
        output="audited",
        epsilon=0.1,
    )
    entry = ledger.charges("people")[-1].entry
    assert entry.release_id.startswith("audit-")
    mine, theirs = map(Fingerprint.parse, (entry.fingerprint, ledger.charges("people", "one")[0].entry.fingerprint))
    assert mine.rows == theirs.rows
    assert mine.file != theirs.file


@pytest.mark.parametrize("table", ["others.csv", "less.csv"])
@pytest.mark.parametrize("mode", ["public", "internal"])
def test_an_audit_of_other_rows_is_refused_and_costs_nothing(home, table, mode):
    before = Ledger("ledger.db").head
    with pytest.raises(InputError, match="not the rows that release 'one' was made from"):
        audit("one", mode=mode, ledger="ledger.db", input=table, output="refused")
    assert Ledger("ledger.db").head == before
    assert not (home / "refused").exists()


def test_naming_another_account_or_ledger_is_no_way_around(home):
    """Both used to be accepted, because the account of the release was checked only if it was charged."""
    Ledger("ledger.db").create("untouched", 5, 1e-9)
    Ledger("second.db").create("untouched", 5, 1e-9)
    before = Ledger("ledger.db").head
    with pytest.raises(InputError, match="not the rows that release 'one' was made from"):
        audit("one", mode="public", ledger="ledger.db", dataset="untouched", input="others.csv", output="refused")
    with pytest.raises(LedgerError, match="anchored"):
        audit("one", mode="public", ledger="second.db", dataset="untouched", input="people.csv", output="refused")
    assert (Ledger("ledger.db").head, Ledger("second.db").head.entries) == (before, 1)
    assert not (home / "refused").exists()


def test_an_audit_of_a_release_that_was_not_charged_is_charged_to_these_people_only(home):
    free = settings("people", "shuffled.csv", output="free", release_id=None) | {"ledger": None, "dataset": None}
    release(free)
    with pytest.raises(LedgerError, match="those of data set 'people'"):
        audit("free", mode="public", ledger="ledger.db", dataset="census", input="people.csv", output="refused")
    with pytest.raises(InputError, match="nothing was charged for these rows in data set 'people'"):
        audit("free", mode="public", ledger="ledger.db", dataset="people", input="others.csv", output="refused")


def test_the_command_says_what_it_cannot_check(monkeypatch, capsys):
    monkeypatch.setattr("equistrata.flows.cli.audit.run_audit", lambda *args: None)
    monkeypatch.setattr("equistrata.flows.cli.audit.report_audit", lambda folder: None)
    code, _, error = command(monkeypatch, capsys, "audit", "one", "--input", "others.csv", "--output", "unnamed")
    assert code == 0
    assert "no ledger is named, so it is not checked whether the releases" in " ".join(error.split())
    code, _, error = command(
        monkeypatch, capsys, "audit", "one", "--input", "others.csv", "--output", "unnamed", "--ledger", "ledger.db"
    )
    assert (code, error) == (0, "")


def test_a_release_that_runs_elsewhere_is_neither_run_resumed_nor_given_up(home, monkeypatch):
    ledger = Ledger("ledger.db")
    with ledger.lease("people", "of-people", "of another machine"):
        with pytest.raises(LedgerError, match="is already running on"):
            release(settings("people", "people.csv"))
        assert left_in(home / "state") == [], "nothing of a release that was never begun here"
    release(settings("people", "people.csv"))
    monkeypatch.setattr("equistrata.flows.release.steps.drawing.rows_of_units", lambda *given: 1 / 0)
    with pytest.raises(RuntimeError):
        release(settings("people", "people.csv", output="broken", release_id="broken", evaluate="quick"))
    journal = Journal.find("broken")
    with ledger.lease("people", "broken", "of another machine"), pytest.raises(LedgerError, match="is already running"):
        discard(journal)
    discard(journal)
    assert Journal.find("broken") is None


def test_charges_without_a_journal_are_not_given_up_while_they_run(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 1, 1e-9)
    ledger.reserve("people", Rho(0.001), "lost")
    with ledger.lease("people", "lost", "of another machine"), pytest.raises(InputError, match="'lost' is running on"):
        fail_open_charges(ledger, "lost")
    assert fail_open_charges(ledger, "lost") == 1
