"""Tests of deployed flows with a Prefect server, a work pool and a worker, which run on schedule and are charged.

The steps and the settings are the same as in docs/deploy.md. The tests are run with SQLite files and with PostgreSQL.
The time limits are long. A release takes a few seconds, but a process on a busy machine may need a minute to import
Prefect.
"""

import json
import os
import signal
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import yaml
from postgres import NoPostgres, postgres_server
from processes import told
from stack import Stack

from equistrata.flows.release.inside import private_folder
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger

pytestmark = pytest.mark.slow

PRICE = Rho.from_epsilon_delta(1, 1e-9)
CANARY = "canary-row-8841"
BLOCK = """
from prefect.blocks.notifications import CustomWebhookNotificationBlock
CustomWebhookNotificationBlock(
    name="steward", url="{url}", allow_private_urls=True,
    json_data={{"subject": "{{{{subject}}}}", "body": "{{{{body}}}}"}},
).save("steward")
"""


def with_more_deployments(checkout):
    """Add three deployments to prefect.yaml.

    There is one release every minute, one with invalid rows, and one that is killed.
    """
    path = checkout / "prefect.yaml"
    document = yaml.safe_load(path.read_text("utf-8"))
    monthly = document["deployments"][0]

    def like_monthly(name, schedules=None, **config):
        settings = monthly["parameters"]["config"] | {"workers": 1, "evaluate": "none", "series": {}} | config
        more = {"name": name, "schedules": schedules or [], "parameters": {"config": settings}, "tags": [name]}
        return monthly | more

    every_minute = [{"cron": "* * * * *", "timezone": "America/New_York"}]
    document["deployments"] += [
        like_monthly(
            "minutely", every_minute, dataset="minutely", release_id="minutely-{time}",
            output="releases/minutely/{time}",
            evaluate="quick",
        ),
        like_monthly(
            "broken", source="csv", input="people.csv", schema="people.yaml", strata=["SEX"], means=[],
            release_id="broken", output="releases/broken",
        ),
        like_monthly("killed", release_id="killed", output="releases/killed"),
    ]  # fmt: skip
    path.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    (checkout / "people.csv").write_text(f"SEX,JOB\n1,yes\n2,no\n{CANARY},no\n", "utf-8")
    (checkout / "people.yaml").write_text(
        "name: people\ncolumns:\n  SEX: {values: [1, 2]}\n  JOB: {values: ['no', 'yes']}\n", "utf-8"
    )


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stack(request, tmp_path_factory):
    """Return a stack with its work pool, deployments and worker, and with two accounts in its ledger."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        yield from deployed(Stack(folder))
    else:
        pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
        try:
            with postgres_server(extension="pg_trgm") as superuser:
                yield from deployed(Stack(folder, superuser))
        except NoPostgres as reason:
            pytest.skip(str(reason))


def deployed(made):
    """Run the remaining steps of docs/deploy.md."""
    with_more_deployments(made.checkout)
    with made:
        made.run(
            made.steward, "equistrata.flows.cli.main", "budget", "create", "sample", "--epsilon", "3", "--delta", "1e-9"
        )
        minutely = ("--epsilon", "1.2", "--delta", "1e-9", "--same-people-as", "sample")
        made.run(made.steward, "equistrata.flows.cli.main", "budget", "create", "minutely", *minutely)
        for pool in made.run(made.worker, "equistrata.flows.watch.deployments").split():
            made.run(made.worker, "prefect", "work-pool", "create", pool, "--type", "process")
        made.run(made.worker, "prefect", "--no-prompt", "deploy", "--all")
        made.start("worker", made.worker, "prefect", "worker", "start", "--pool", "equistrata")
        yield made


@pytest.fixture(scope="module")
def messages(stack):
    """Return the messages of the automations in docs/deploy.md as a mapping from subject to body."""
    received = {}

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            received[message["subject"]] = message["body"]
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        (stack.checkout / "block.py").write_text(BLOCK.format(url=f"http://127.0.0.1:{server.server_port}/"), "utf-8")
        stack.run(stack.worker, "block")
        stack.run(stack.worker, "equistrata.flows.watch.automations", "custom-webhook/steward")
        yield received
        server.shutdown()


@pytest.fixture
def ledger(stack):
    return Ledger(stack.worker["EQUISTRATA_LEDGER_URL"])


def test_everything_listed_is_deployed_as_it_is_written(stack):
    document = yaml.safe_load((stack.checkout / "prefect.yaml").read_text("utf-8"))
    for written in document["deployments"]:
        found = stack.deployment(written["name"])
        assert found["entrypoint"] == written["entrypoint"]
        assert found["tags"] == written["tags"]
        assert found["work_pool_name"] == "equistrata"
        assert found["job_variables"] == written["work_pool"]["job_variables"]
        assert found["global_concurrency_limit"]["limit"] == 1
        assert found["concurrency_options"]["collision_strategy"] == written["concurrency_limit"]["collision_strategy"]
        assert found["parameters"] == written["parameters"]
        assert found["pull_steps"] == [
            {"prefect.deployments.steps.set_working_directory": {"directory": str(stack.checkout.resolve())}}
        ]
        times = [
            (each["schedule"]["cron"], each["schedule"]["timezone"], each["active"]) for each in found["schedules"]
        ]
        assert times == [(each["cron"], each["timezone"], True) for each in written.get("schedules", [])]
    runs = stack.until(lambda: stack.runs("sample-monthly"), "the scheduler")  # the scheduler runs once a minute
    at_six = [datetime.fromisoformat(run["expected_start_time"]) for run in runs]
    assert all(when.day == 1 and when.hour in (10, 11) for when in at_six), "6 in New York, in UTC"


def test_a_scheduled_release_fires_by_itself_and_is_charged_and_the_next_one_is_refused(stack, ledger):
    def ended(number):
        runs = stack.runs("minutely")
        return runs[number] if len(runs) > number and runs[number]["end_time"] else None

    first = stack.until(lambda: ended(0), "the first scheduled release has ended")
    assert first["auto_scheduled"]
    assert first["state_type"] == "COMPLETED"
    when = datetime.fromisoformat(first["expected_start_time"])
    assert when.second == 0
    name = f"minutely-{when:%Y%m%dT%H%M%SZ}"

    folder = stack.checkout / "releases" / "minutely" / f"{when:%Y%m%dT%H%M%SZ}"
    card = json.loads((folder / "card.json").read_text("utf-8"))
    assert card["ledger"]["release_id"] == name
    assert (folder / "synthetic.csv").stat().st_size > 100_000

    (charge,) = ledger.charges("minutely", name)
    assert charge.entry.rho == PRICE
    assert charge.outcome == "committed"
    stack.run(stack.worker, "equistrata.flows.cli.main", "budget", "verify", "--card", str(folder / "card.json"))

    shown = stack.artifacts(first["id"])
    assert shown["release-card"] == (folder / "card.md").read_text("utf-8")
    assert shown["fit-strata"] == 100
    scores = json.loads(private_folder(folder).joinpath("scores.json").read_text("utf-8"))
    told = json.loads(shown["release-scores"])
    assert {row["score"] for row in told} <= set(scores)
    assert not any(str(value) in shown["release-scores"] for value in scores.values() if isinstance(value, float))

    second = stack.until(lambda: ended(1), "the second scheduled release has ended")
    (schedule,) = stack.deployment("minutely")["schedules"]
    # No more runs are needed
    stack.ask("PATCH", f"/deployments/{first['deployment_id']}/schedules/{schedule['id']}", {"active": False})
    assert second["state_type"] == "FAILED"
    assert "BudgetExceeded" in second["state"]["message"]
    page = stack.artifacts(second["id"])["release-failure"]
    assert f"{datetime.fromisoformat(second['expected_start_time']):%Y%m%dT%H%M%SZ}" in page
    assert "is left" in page
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, private_folder(folder).name]
    assert len(ledger.charges("minutely")) == 1


def test_the_monthly_release_and_its_check_run_as_they_are_listed(stack, ledger):
    made = stack.ended(stack.ask_for("sample-monthly"))
    assert made["state_type"] == "COMPLETED", made["state"]["message"]
    month = f"{datetime.fromisoformat(made['expected_start_time']):%Y-%m}"
    assert (stack.checkout / "releases" / "sample" / month / "card.md").is_file()
    (charge,) = ledger.charges("sample", f"sample-{month}")
    assert charge.outcome == "committed"
    checked = stack.ended(stack.ask_for("sample-budget"))
    assert checked["state_type"] == "COMPLETED", checked["state"]["message"]
    assert checked["state"]["message"].startswith("The next 3 scheduled releases fit into the budget")
    shown = stack.artifacts(checked["id"])
    assert "sample-" in shown["budget-sample"]
    assert json.loads(shown["ledger-head-sample"])[0]["head"] == str(ledger.head)


def test_a_release_that_breaks_on_its_rows_tells_what_happened_and_no_row(stack, ledger, messages):
    broken = stack.ended(stack.ask_for("broken"))
    assert broken["state_type"] == "FAILED"
    page = stack.artifacts(broken["id"])["release-failure"]
    assert "releases/broken" in page
    assert "InputError" not in page
    assert "SEX" in page, "our own sentence names the column"
    body = stack.until(lambda: messages.get("equistrata: broken failed"), "the steward is told")
    assert "column 'SEX'" in body
    assert "What to do: " in body
    assert CANARY not in body
    assert ledger.charges("sample", "broken") == []
    assert not (stack.checkout / "releases" / "broken").exists()
    # The release that is scheduled every minute may have a private folder while it runs.
    stack.until(lambda: not list((stack.folder / "tmp").glob("equistrata*")), "no private folder is left")
    everything = json.dumps([broken, stack.find("logs"), stack.find("artifacts"), stack.find("task_runs")])
    assert CANARY not in everything
    assert CANARY not in stack.logs()


def test_a_killed_release_tells_what_to_do_and_the_next_run_ends_it(stack, ledger, messages):
    run = stack.ask_for("killed")
    stack.until(lambda: ledger.charges("sample", "killed"), "the release is charged", every=0.05)
    process, *_ = told("PREFECT__FLOW_RUN_ID", run)  # the other processes are its children
    os.kill(process, signal.SIGKILL)
    killed = stack.ended(run)
    assert killed["state_type"] == "CRASHED"
    page = stack.until(lambda: stack.artifacts(run).get("release-failure"), "the worker has left the page")
    assert "run equistrata resume killed" in page
    stack.until(lambda: messages.get("equistrata: killed crashed"), "the steward is told")
    resumed = stack.ended(stack.ask_for("killed"))
    assert resumed["state_type"] == "COMPLETED", resumed["state"]["message"]
    card = json.loads((stack.checkout / "releases" / "killed" / "card.json").read_text("utf-8"))
    charges = ledger.charges("sample", "killed")
    assert {charge.outcome for charge in charges} == {"committed"}
    assert [charge.entry.entry for charge in charges] == [charge["entry"] for charge in card["ledger"]["charges"]]
    assert all("drawn again" in charge.entry.reason for charge in charges[1:])
    assert list((stack.folder / "tmp").glob("equistrata*")) == [], "the killed run's folder of rows is gone"


def test_a_release_that_is_late_is_told(stack, messages):
    pool = "no worker looks here"
    stack.ask("POST", "/work_pools/", {"name": pool, "type": "process"})
    late = stack.deployment("killed")
    stack.ask("PATCH", f"/deployments/{late['id']}", {"work_pool_name": pool})
    run = stack.ask_for("killed")
    body = stack.until(lambda: messages.get("equistrata: killed is late"), "the steward is told")
    stack.ask("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLED"}})
    assert f"prefect worker start --pool {pool}" in body


def test_who_runs_the_worker_cannot_rewrite_the_ledger(stack):
    url = stack.worker["EQUISTRATA_LEDGER_URL"]
    if "://" not in url:
        pytest.skip("a file is its owner's")
    import psycopg

    for statement, words in [
        ("DELETE FROM equistrata_entries", "permission denied"),
        ("TRUNCATE equistrata_entries", "permission denied"),
        ("UPDATE equistrata_entries SET rho = '0'", "permission denied"),
        ("INSERT INTO equistrata_entries SELECT * FROM equistrata_entries", "permission denied"),
        ("ALTER TABLE equistrata_entries DISABLE TRIGGER ALL", "must be owner"),
        ("CREATE TABLE mine (x int)", "permission denied"),
    ]:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.Error, match=words):
            connection.execute(statement)


def test_no_password_is_shown_by_anything(stack):
    """After all tests above, this searches logs, states, pages, parameters, releases, and the files of Prefect."""
    stored = json.dumps([stack.find(kind) for kind in ("flow_runs", "deployments", "logs", "artifacts", "work_pools")])
    for secret in stack.secrets:
        assert secret not in stored
        assert secret not in "\n".join(path.read_text("utf-8") for path in stack.folder.glob("*.log"))
        for place in (stack.checkout, stack.folder / "state"):
            holding = [path for path in place.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
            assert holding == []
