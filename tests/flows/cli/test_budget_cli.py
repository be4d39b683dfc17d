"""Tests of the commands `equistrata budget …`."""

import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from cards import least_card
from in_process import command

from equistrata.errors import InputError
from equistrata.flows.config.places import place_of, without_credentials
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import ChargeDetails, Ledger
from equistrata.privacy.ledger.series import Series

PRICE = Rho.from_epsilon_delta(1, 1e-9)


@pytest.fixture
def budget(tmp_path, monkeypatch, capsys):
    """Return a function that runs `equistrata budget` in this process, in a temporary folder without a ledger in the
    environment.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQUISTRATA_LEDGER_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        return command(monkeypatch, capsys, "budget", *arguments)

    return run


@pytest.fixture
def books(tmp_path):
    """Return a ledger with a budget of ε = 3 and three charges.

    The last charge has failed. It is for noise that is drawn again.
    """
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 3, 1e-9)
    for name in ("monthly-2026-09-1f0c9aa0", "monthly-2026-10-77d1e0b2"):
        ledger.commit(ledger.reserve("people", PRICE, name, ChargeDetails(mechanism="MST", strata="SEX × RAC1P")))
    again = ledger.reserve(
        "people",
        Rho(0.001),
        "monthly-2026-10-77d1e0b2",
        ChargeDetails(reason="noise drawn again after a crash: synthesis"),
    )
    ledger.fail(again)
    return ledger


def as_json(budget, *arguments):
    code, told, error = budget(*arguments, "--json", "--ledger", "ledger.db")
    assert code == 0, error
    return json.loads(told)


def test_create_then_show(budget, tmp_path):
    made = as_json(budget, "create", "people", "--epsilon", 2, "--delta", 1e-6)
    assert made["rho_exact"] == str(Rho.from_epsilon_delta(2, 1e-6).exact)
    shown = as_json(budget, "show")
    assert shown["head"] == made["head"] == str(Ledger(tmp_path / "ledger.db").head)
    (people,) = shown["datasets"]
    assert (people["dataset"], people["epsilon"], people["delta"], people["charges"]) == ("people", 2, 1e-6, 0)
    assert people["left_epsilon"] == pytest.approx(2, rel=1e-9)


def test_names_that_look_like_markup_are_names(budget, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("[/people]", 3, 1e-9)
    ledger.fail(ledger.reserve("[/people]", PRICE, "[red]a[/b]"), "[/] \x1b[2J")
    for words in (["show"], ["history"], ["verify"], ["forecast", "[/people]", "--epsilon", 1]):
        code, told, error = budget(*words, "--ledger", "ledger.db")
        assert code == 0, error
        assert "[/people]" in told or words == ["verify"]
        assert "\x1b[2J" not in told
    assert "[red]a[/b]" in budget("history", "--ledger", "ledger.db")[1]


def test_the_same_in_json_and_in_words(budget, books):
    (people,) = as_json(budget, "show", "people")["datasets"]
    assert people["spent_exact"] == str(books.spent("people").exact)
    assert people["left_exact"] == str(books.remaining("people").exact)
    assert (people["charges"], people["reserved"], people["failed"]) == (3, 0, 1)
    entries = as_json(budget, "history", "people")["entries"]
    assert [entry["kind"] for entry in entries] == [
        "create",
        "reserve",
        "commit",
        "reserve",
        "commit",
        "reserve",
        "fail",
    ]
    assert {"who", "at", "dataset", "fingerprint", "mechanism", "relation", "strata", "config", "software"} <= set(
        entries[1]
    )
    for arguments, words in {
        ("show",): ["people", "ε 3, δ 1e-09", str(books.head)],
        ("history",): ["monthly-2026-10-77d1e0b2", "committed", "failed; noise drawn again", str(books.head)],
        ("verify",): ["whole: 7 entries", str(books.head)],
        ("forecast", "people", "--epsilon", "1"): ["the budget pays for 5 more releases", "For 12 more"],
    }.items():
        code, told, error = budget(*arguments, "--ledger", "ledger.db")
        assert code == 0, error
        joined = " ".join(told.split())
        for word in words:
            assert word in joined
        assert max(len(line) for line in told.splitlines() if not line.startswith("head ")) <= 80


def test_the_charge_of_a_killed_audit_can_be_settled(budget, books, tmp_path, monkeypatch, capsys):
    """This charge used to remain reserved, and the message did not contain the command for it."""
    books.reserve("people", Rho(0.001), "audit-people-77d1e0b2", ChargeDetails(mechanism="public audit"))
    left = books.remaining("people")
    _, told, _ = budget("show", "--ledger", "ledger.db")
    assert "1 of the charges" in told
    assert "equistrata resume --discard ID" in " ".join(told.split())
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    code, told, _ = command(
        monkeypatch, capsys, "resume", "--discard", "audit-people-77d1e0b2", "--ledger", "ledger.db"
    )
    assert (code, "1 of its charges marked failed" in told) == (0, True)
    assert "killed" not in budget("show", "--ledger", "ledger.db")[1]
    assert books.charges("people", "audit-people-77d1e0b2")[0].outcome == "failed"
    assert books.remaining("people") == left


def test_the_command_takes_its_ledger_from_the_environment(equistrata):
    """This is the only test that runs the command in a separate process."""
    environment = {"EQUISTRATA_LEDGER_URL": "sqlite:///ledger.db"}
    done = equistrata("budget", "create", "people", "--epsilon", 1, "--delta", 1e-9, **environment)
    assert done.returncode == 0, done.stderr
    done = equistrata("budget", "show", **environment)
    assert done.returncode == 0, done.stderr
    assert "people" in done.stdout
    refused = equistrata("budget", "show", "nobody", **environment)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'nobody' has no budget" in refused.stderr


def test_a_forecast_tells_no_more_than_the_ledger_grants(budget, books):
    for releases in (1, 7, 24):
        told = as_json(budget, "forecast", "people", "--epsilon", 0.5, "--releases", releases)
        each = Rho.from_epsilon_delta(told["epsilon_each"], 1e-9)
        more = Rho.from_epsilon_delta(told["epsilon_each"] * 1.0001, 1e-9)
        assert each * releases <= books.remaining("people") < more * releases
    price = Rho.from_epsilon_delta(0.5, 1e-9)
    assert price * told["releases_left"] <= books.remaining("people") < price * (told["releases_left"] + 1)


def test_a_forecast_takes_the_price_from_a_release_file(budget, books, tmp_path):
    (tmp_path / "monthly.yaml").write_text("epsilon: 0.5\ndelta: 1e-6\n")
    told = as_json(budget, "forecast", "people", "--config", "monthly.yaml")
    assert (told["epsilon"], told["delta"], told["price"]) == (0.5, 1e-6, float(Rho.from_epsilon_delta(0.5, 1e-6)))


def test_a_forecast_of_a_series_counts_its_months(budget, books, tmp_path):
    """The number of months was too small, because the price of a month was computed from the ε of the series."""
    text = "epsilon: 0.5\ndelta: 1e-9\ndataset: people\nseries: {name: 'year-{year}', horizon: 12}\n"
    (tmp_path / "monthly.yaml").write_text(text)
    month = Rho.from_epsilon_delta(0.5, 1e-9) * Fraction(1, 12)
    found = as_json(budget, "forecast", "--config", "monthly.yaml")
    assert (found["month"], found["months"], found["months_left"]) == (1, 12, 12)
    assert found["price"] == float(month)
    series = Series(found["series"], 12, 0.5, 1e-9)
    books.commit(books.reserve("people", month, "one", ChargeDetails(parts=(series.mark,))))
    books.commit(books.reserve("people", books.remaining("people") - month * 3, "rest"))
    found = as_json(budget, "forecast", "--config", "monthly.yaml")
    assert (found["month"], found["months"], found["months_left"]) == (2, 11, 3)
    shown = budget("forecast", "--config", "monthly.yaml", "--ledger", "ledger.db")[1]
    assert "pays for 3 of the 11 months that are left" in " ".join(shown.split())


def test_verify_finds_an_edit_and_a_forgery(budget, books, tmp_path):
    anchor, card = str(books.head), tmp_path / "card.json"
    assert as_json(budget, "verify", "--anchor", anchor)["anchors"] == 1
    price = {"epsilon": 1, "delta": 1e-9, "rho": 0.1}
    charged = {**price, "dataset": "people", "release_id": "r", "ledger": "x", "charges": [], "budget": price}
    charged |= {"left": price, "head": anchor}
    card.write_text(json.dumps(least_card(ledger=charged)))
    assert as_json(budget, "verify", "--card", card)["anchors"] == 1
    card.write_text(json.dumps(least_card(ledger=charged | {"head": f"3:{'0' * 64}"})))
    code, told, error = budget("verify", "--card", card, "--ledger", "ledger.db")
    assert (code, told) == (2, "")
    assert "not the one that was anchored" in error
    with closing(sqlite3.connect(books.path)) as connection:
        connection.execute("DROP TRIGGER equistrata_entries_update")
        connection.execute("UPDATE equistrata_entries SET rho = '1/1000000' WHERE entry = 2")
        connection.commit()
    code, told, error = budget("verify", "--ledger", "ledger.db")
    assert (code, told) == (2, "")
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "--ledger", "none.db"], r"'none\.db' does not exist"),
        (["show"], "no ledger is named"),
        (["show", "nobody", "--ledger", "ledger.db"], "'nobody' has no budget"),
        (["history", "nobody", "--ledger", "ledger.db"], "'nobody' has no budget"),
        (["forecast", "nobody", "--ledger", "ledger.db"], "'nobody' has no budget"),
        (["forecast", "--ledger", "ledger.db"], "name the data set"),
        (["create", "people", "--epsilon", "1", "--delta", "1e-9", "--ledger", "ledger.db"], "cannot be changed"),
        (
            [
                "create",
                "two",
                "--epsilon",
                "1",
                "--delta",
                "1e-9",
                "--same-people-as",
                "nobody",
                "--ledger",
                "ledger.db",
            ],
            "'nobody' has no",
        ),
        (["upgrade", "--ledger", "none.db"], r"'none\.db' does not exist"),
        (["create", "others", "--epsilon", "0", "--delta", "1e-9", "--ledger", "ledger.db"], "epsilon must be"),
        (["verify", "--anchor", "nonsense", "--ledger", "ledger.db"], "not the head of a ledger"),
        (["verify", "--card", "ledger.db", "--ledger", "ledger.db"], "not UTF-8"),
        (["show", "--ledger", "postgresql://steward:canary-pw@host/db"], "must not be given with a password"),
        (["show", "--ledger", "postgresql://host/db?password=canary-pw"], "must not be given with a password"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(budget, books, arguments, sentence):
    code, told, error = budget(*arguments)
    assert (code, told) == (2, ""), error
    assert re.search(sentence, error), error
    assert len(error.strip().splitlines()) == 1, error
    assert "canary" not in error


def test_accounts_of_the_same_people_are_shown_with_their_sum(budget, books):
    wave = ("create", "wave", "--epsilon", 1, "--delta", 1e-9, "--same-people-as", "people")
    code, told, error = budget(*wave, "--ledger", "ledger.db")
    assert code == 0, error
    together = books.budget("people") + books.budget("wave")
    sentence = (
        "people and wave contain the same people, so their costs add up: all their budgets together are "
        f"ρ = {float(together):.6g}"
    )
    Ledger(books.path).create("others", 1, 1e-9)
    for said in (
        told,
        *(budget(*words, "--ledger", "ledger.db")[1] for words in (["show"], ["show", "wave"], ["verify"])),
    ):
        assert sentence in " ".join(said.split())
    assert "the same people" not in budget("show", "others", "--ledger", "ledger.db")[1]
    for words in (["show", "people"], ["verify"]):
        (group,) = as_json(budget, *words)["same_people"]
        assert group["datasets"] == ["people", "wave"]
        assert (group["rho_exact"], group["epsilon"]) == (str(together.exact), together.epsilon(1e-9))
    assert as_json(budget, "history", "wave")["entries"][0]["parts"] == ["people"]


def test_a_lost_key_is_set_anew_once_and_history_shows_it(budget, books, tmp_path):
    key = tmp_path / "ledger.db.key"
    print_of = Fingerprint.of(b"", {"rows": "", "columns": {}}, books.key(), books.identity)
    books.reserve("people", Rho(1e-6), "old", ChargeDetails(fingerprint=str(print_of)))
    key.unlink()
    code, _, error = budget("create", "others", "--epsilon", 1, "--delta", 1e-9, "--ledger", "ledger.db")
    assert (code, "set a new key: equistrata budget key" in " ".join(error.split())) == (2, True)
    assert not key.exists()
    code, told, error = budget("key", "--ledger", "ledger.db")
    assert (code, told.splitlines()[0]) == (0, "set; 1 charge with another key will not be compared"), error
    before = books.head
    assert budget("key", "--ledger", "ledger.db")[1].splitlines()[0] == "unchanged: the ledger already has this key"
    assert books.head == before == books.verify()
    assert budget("create", "others", "--epsilon", 1, "--delta", 1e-9, "--ledger", "ledger.db")[0] == 0
    code, told, _ = budget("history", "--ledger", "ledger.db")
    assert (code, f"in place of {print_of.key}" in " ".join(told.split())) == (0, True)
    (entry,) = [each for each in as_json(budget, "history")["entries"] if each["kind"] == "key"]
    assert (entry["dataset"], entry["rho"], entry["fingerprint"]) == ("", 0, f"key={books.key_name}")


def test_a_deleted_ledger_is_not_made_anew_over_its_key(budget, books, tmp_path):
    books.path.unlink()
    code, told, error = budget("create", "people", "--epsilon", 3, "--delta", 1e-9, "--ledger", "ledger.db")
    assert (code, told, len(error.strip().splitlines())) == (2, "", 1)
    assert "Restore it from a copy; or, to begin anew though its history is lost, move 'ledger.db.key' away" in error
    code, told, error = budget("show", "--ledger", "ledger.db")
    assert (code, told) == (2, "")
    assert "does not exist, but its key does: it was deleted or moved; restore it from a copy" in error


def test_upgrade_leaves_history_as_it_is(budget, books):
    before = books.head
    code, told, error = budget("upgrade", "--ledger", "ledger.db")
    assert code == 0, error
    assert told.split() == ["up", "to", "date", "head", str(before)]


@pytest.mark.parametrize("named", ["ledger.db", "sqlite:///a/b.db", "postgresql://steward@host/db", "block:ledger"])
def test_addresses_without_a_password_may_be_settings(named):
    assert without_credentials(named) == named


def test_a_secret_block_names_the_ledger_and_its_key(tmp_path, monkeypatch):
    from prefect.blocks.system import Secret

    Ledger(tmp_path / "ledger.db").create("people", 1, 1e-9)
    values = {"plain": f"sqlite:///{tmp_path}/ledger.db", "both": {"url": str(tmp_path / "ledger.db"), "key": "k" * 20}}
    monkeypatch.setattr(Secret, "load", lambda name, _sync: Secret(value=values[name]))
    for name in values:
        assert Ledger(place_of(f"block:{name}").url).accounts()[0].dataset == "people"
    assert place_of("block:both").key == "k" * 20
    assert "k" * 20 not in repr(place_of("block:both"))
    with pytest.raises(InputError, match="'none' cannot be loaded"):
        place_of("block:none")
    values["wrong"] = {"uri": "canary"}
    with pytest.raises(InputError, match="needs a URL") as refused:
        place_of("block:wrong")
    assert "canary" not in str(refused.value)


UNITS = "name: people\nunit: {column: HOME, at_most: 4}\ncolumns:\n  SEX: {values: [1, 2]}\n"


@pytest.mark.parametrize(
    ("own", "given", "relation"),
    [
        ("", [], "add-remove of all rows with one HOME"),
        ("relation: replace-one\n", [], "replace-one of all rows with one HOME"),
        ("unit: PERSON\nat_most: 2\n", [], "add-remove of all rows with one PERSON"),
        ("", ["--unit", "PERSON", "--relation", "replace-one"], "replace-one of all rows with one PERSON"),
    ],
)
def test_a_budget_is_of_the_unit_that_its_releases_are_of(budget, tmp_path, own, given, relation):
    (tmp_path / "people.yaml").write_text(UNITS)
    (tmp_path / "people.csv").write_text("HOME,PERSON,SEX\n1,1,1\n")
    settings = (
        "input: people.csv\nsource: csv\nschema: people.yaml\ndelta: 1.0e-7\ndataset: people\nledger: ledger.db\n"
    )
    (tmp_path / "release.yaml").write_text(settings + own)
    code, _, error = budget("create", "--config", "release.yaml", "--epsilon", 2, *given)
    assert (code, error) == (0, "")
    (account,) = Ledger(tmp_path / "ledger.db").accounts()
    assert (account.dataset, account.epsilon, account.delta, account.relation) == ("people", 2, 1e-7, relation)
    if not given:
        assert Plan.of(ReleaseConfig.load(tmp_path / "release.yaml")).relation == relation


def test_a_budget_reads_a_schema_alone_and_says_what_it_lacks(budget, tmp_path):
    (tmp_path / "people.yaml").write_text(UNITS)
    made = as_json(budget, "create", "people", "--epsilon", 1, "--delta", 1e-9, "--schema", "people.yaml")
    assert made["relation"] == "add-remove of all rows with one HOME"
    for given, lacking in ((["--delta", "1e-9"], "the name of the data set"), (["others"], "δ (--delta)")):
        code, _, error = budget("create", *given, "--epsilon", 1, "--ledger", "ledger.db")
        assert code == 2
        assert f"{lacking} is missing" in error
