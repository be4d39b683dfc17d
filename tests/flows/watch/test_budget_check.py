"""Tests of the budget check, which must fail before the budget is used up."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.sorting import ArtifactSort
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Running, Scheduled

from equistrata.errors import InputError
from equistrata.flows.release.flow import release
from equistrata.flows.run.journal import state_folder
from equistrata.flows.watch.budget_check import artifact_key, upcoming_releases
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.heads import head_file
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.synth.foreign.promise import Promise

PRICE = Rho.from_epsilon_delta(1, 1e-9)


class Steward:
    """A ledger and a server for a separate data set, with methods that schedule releases and run the check."""

    def __init__(self, client, checker, folder, dataset):
        self.client, self.checker, self.dataset, self.path = client, checker, dataset, folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.budget = self.ledger.create(dataset, 3, 1e-9)

    def schedule(self, months, epsilon=1.0, state=None, **settings):
        """Schedule one run of the release flow per month, starting in 2130."""
        config = {
            "source": "csv", "input": "nowhere.csv", "schema": "nowhere.yaml", "dataset": self.dataset,
            "ledger": str(self.path),
            "epsilon": epsilon, "delta": 1e-9, "output": "out/{month}", "release_id": self.dataset + "-{month}",
        }  # fmt: skip
        for month in months:
            when = datetime(2130 + month // 12, 1 + month % 12, 1, 6, tzinfo=UTC)
            self.client.create_flow_run(
                release, parameters={"config": config | settings}, state=state or Scheduled(scheduled_time=when)
            )

    def check(self, **arguments):
        """Return the type and the message of the final state of the check."""
        return self.checker({"dataset": self.dataset, "ledger": str(self.path)} | arguments)

    def upcoming(self):
        return upcoming_releases(self.client, self.dataset, str(self.path))

    def artifact(self, kind):
        key = ArtifactFilter(key=ArtifactFilterKey(any_=[f"{kind}-{artifact_key(self.dataset)}"]))
        return self.client.read_artifacts(artifact_filter=key, sort=ArtifactSort.CREATED_DESC)[0].data

    def page(self):
        return self.artifact("budget")

    def head(self):
        (row,) = json.loads(self.artifact("ledger-head"))
        return row


@pytest.fixture(scope="module")
def checker(prefect_server):
    """Return a function that runs the check in a separate process."""
    script = Path(__file__).parents[2] / "checks.py"
    environment = os.environ | {"PREFECT_API_URL": prefect_server, "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, script], cwd=script.parents[1], text=True, env=environment, **pipes
    ) as process:

        def check(arguments):
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                pytest.fail(process.stderr.read())
            return Ended(*json.loads(answer))

        yield check


class Ended(NamedTuple):
    type: str
    message: str


@pytest.fixture
def steward(prefect_server, checker, tmp_path, request):
    name = request.node.name.split("[")[0][:60]
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        yield Steward(client, checker, tmp_path, name)


def numbers(page):
    """Return a mapping from each release in the table on the page to the remaining budget."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| 21")]
    return {row[1]: row[4] for row in rows}


def test_it_completes_while_the_next_releases_fit(steward):
    steward.schedule(range(8))  # at ε = 1, the budget of ε = 3 is sufficient for eight releases
    state = steward.check(ahead=8)
    assert state.type == "COMPLETED"
    assert state.message.startswith("The next 8 scheduled releases fit into the budget of data set")
    left = float(steward.budget.exact)
    for month in range(8):
        left -= float(PRICE)
        assert float(numbers(steward.page())[f"{steward.dataset}-2130-{month + 1:02}"]) == pytest.approx(left, rel=1e-5)
    assert "pays for 8 releases in total" in steward.page()
    assert steward.head() | {"checked": None} == {
        "ledger": steward.ledger.identity, "head": str(steward.ledger.head), "checked": None,
    }  # fmt: skip


def test_it_fails_as_soon_as_one_of_the_next_releases_does_not_fit(steward):
    steward.schedule(range(12))
    assert steward.check().type == "COMPLETED", "three fit, and the ninth is nine months away"
    for month in range(6):
        steward.ledger.commit(steward.ledger.reserve(steward.dataset, PRICE, f"{steward.dataset}-2130-{month + 1:02}"))
    assert steward.check(ahead=2).type == "COMPLETED", "two are left and two are paid for"
    state = steward.check(ahead=3)
    assert state.type == "FAILED"
    left = steward.budget - PRICE * 6
    assert (
        f"InsufficientBudget: The budget of data set {steward.dataset!r} does not pay for 1 of its next 3 scheduled "
        "releases: "
        f"'{steward.dataset}-2130-09' on 2130-09-01 needs ρ = {float(PRICE):.6g}, but too little will "
        f"remain of the ρ = {float(left):.6g}"
    ) in state.message
    assert numbers(steward.page())[f"{steward.dataset}-2130-09"] == "**refused**"
    assert numbers(steward.page())[f"{steward.dataset}-2130-08"] != "**refused**"


def test_a_cheaper_release_after_one_that_is_refused_still_fits(steward):
    steward.schedule(range(1), epsilon=2.9)
    steward.schedule(range(1, 2), epsilon=1)
    steward.schedule(range(2, 3), epsilon=0.1)
    state = steward.check()
    assert "1 of its next 3" in state.message
    assert [rest == "**refused**" for rest in numbers(steward.page()).values()] == [False, True, False]


def test_only_what_will_be_charged_counts(steward, tmp_path):
    elsewhere = tmp_path / "other.db"
    Ledger(elsewhere).create(steward.dataset, 3, 1e-9)
    steward.schedule([0], state=Completed())  # this run has ended
    steward.schedule([1], dataset="another")
    steward.schedule([2], ledger=str(elsewhere))
    steward.schedule([3], dataset=None, release_id=None, ledger=None)  # this run is not charged
    steward.schedule([4])
    # The charge has failed
    steward.ledger.fail(steward.ledger.reserve(steward.dataset, PRICE, f"{steward.dataset}-2130-05"))
    assert steward.upcoming() == []
    assert steward.check().message.startswith("No release of data set")
    steward.schedule([5, 5, 5], state=None)  # the runs have the same id, so there is one charge
    steward.schedule([6], release_id=None)  # the id depends on the flow run
    steward.schedule([7], state=Running())
    found = steward.upcoming()
    assert [release.price for release in found] == [PRICE] * 3
    ids = {release.release_id for release in found}
    assert f"{steward.dataset}-2130-06" in ids
    assert [name for name in ids if name.startswith("2130-07-")]


def test_a_month_of_a_series_has_the_price_of_a_month(steward):
    steward.schedule([0, 1], series={"name": "year", "horizon": 12})
    found = steward.upcoming()
    assert [release.price for release in found] == [PRICE * Fraction(1, 12)] * 2
    assert found[0].epsilon == pytest.approx(0.2749, abs=1e-4)
    steward.schedule([2, 3], series={"name": "front", "horizon": 12, "front": 4})
    assert [release.price for release in steward.upcoming()[2:]] == [PRICE * Fraction(4, 15), PRICE * Fraction(1, 15)]


def test_a_class_that_promises_epsilon_has_the_price_of_its_promise(steward, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def __init__(self, epsilon): pass\n    def fit(self, frame): pass\n"
        "    def sample(self, rows): pass"
    )
    steward.schedule([0], synthesizer=f"{path}:Mine", strata=["SEX"])
    (found,) = steward.upcoming()
    assert (found.epsilon, found.price) == (1.0, Promise(0.98, 0.0, 0.02).rho)
    steward.schedule([1], synthesizer=f"{path}:Other")
    with pytest.raises(InputError, match=r"will fail: synthesizer .* has no class 'Other'"):
        steward.upcoming()


def test_every_page_of_a_long_schedule_is_read(steward, monkeypatch):
    monkeypatch.setattr("equistrata.flows.watch.budget_check.PAGE", 3)
    steward.schedule(range(7), epsilon=0.1)
    assert [release.when for release in steward.upcoming()] == sorted(release.when for release in steward.upcoming())
    assert len(steward.upcoming()) == 7


def test_a_run_that_ends_while_pages_are_read_hides_no_other(steward, monkeypatch):
    monkeypatch.setattr("equistrata.flows.watch.budget_check.PAGE", 3)
    steward.schedule(range(8), epsilon=0.1)
    read, pages = steward.client.read_flow_runs, []

    def ended_meanwhile(**asked):
        page = read(**asked)
        pages.append(page)
        if len(pages) == 1:
            steward.client.set_flow_run_state(page[0].id, Completed(), force=True)
        return page

    monkeypatch.setattr(steward.client, "read_flow_runs", ended_meanwhile)
    assert [release.release_id[-2:] for release in steward.upcoming()] == [f"{month:02}" for month in range(1, 9)]


def test_a_scheduled_release_with_wrong_settings_is_told_before_it_fails(steward):
    steward.schedule([0], strata="SEX", colour="blue")
    state = steward.check()
    assert state.type == "FAILED"
    assert "the release scheduled for 2130-01-01 06:00 UTC will fail: unknown setting 'colour'" in state.message
    assert "The check failed" in steward.page()


def test_a_ledger_that_grew_passes_and_one_that_was_rewritten_does_not(steward):
    assert steward.check().type == "COMPLETED"
    before = steward.head()["head"]
    charged = steward.ledger.reserve(steward.dataset, PRICE, "first")
    assert steward.check().type == "COMPLETED"
    assert steward.head()["head"] != before
    steward.ledger.commit(charged)
    assert steward.check().type == "COMPLETED"
    anchored = steward.head()
    with closing(sqlite3.connect(steward.path)) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        # The last two entries are deleted, so that the first release seems to be unpaid. The ledger is valid but
        # shorter than before.
        connection.execute("DELETE FROM equistrata_entries WHERE entry > 1")
        connection.execute(
            "UPDATE equistrata_ledger SET entries = 1, hash = (SELECT hash FROM equistrata_entries WHERE entry = 1)"
        )
        for _, sql in triggers:
            connection.execute(sql)
    assert steward.ledger.verify().entries == 1, "by itself it looks whole"
    for _ in ("on this machine", "on another"):
        state = steward.check()
        assert state.type == "FAILED"
        assert "ends before entry 3, which was anchored" in state.message
        # Another machine does not have this file
        head_file(state_folder(), steward.ledger.identity).unlink(missing_ok=True)
    assert steward.head() == anchored, "the anchor stays"


def test_a_ledger_made_anew_in_place_of_the_old_one_is_found(steward):
    assert steward.check().type == "COMPLETED"
    for path in steward.path.parent.glob("ledger.db*"):
        path.unlink()
    steward.ledger.create(steward.dataset, 3, 1e-9)
    state = steward.check()
    assert state.type == "FAILED"
    assert "is not the one of the last check" in state.message
    assert f"prefect artifact delete ledger-head-{artifact_key(steward.dataset)}" in state.message


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"ahead": 0}, "at least one scheduled release"),
        ({"ledger": "postgresql://steward:canary-2291@127.0.0.1/x"}, "must not be given with a password"),
        ({"ledger": "missing.db"}, "does not exist"),
    ],
)
def test_a_wrong_setting_gets_one_sentence_without_a_password(steward, arguments, sentence):
    state = steward.check(**arguments)
    assert state.type == "FAILED"
    assert sentence in state.message, state.message
    assert "canary-2291" not in state.message


def test_an_unknown_data_set_fails(steward):
    steward.dataset = "nobody's"
    state = steward.check()
    assert state.type == "FAILED"
    assert "nobody" in state.message


def test_names_of_data_sets_become_keys_that_prefect_takes():
    names = ["people", "People", "people ", "PEOPLE", "人口", "a/b", "a-b", "---", "a--b", "-a"]
    keys = [artifact_key(name) for name in names]
    assert len(set(keys)) == len(names)
    for key in keys:
        assert key.strip("-") == key
        assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
