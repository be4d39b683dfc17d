"""Tests of the messages for output folders that are used by another run, and for file names that are not valid."""

import errno
import os
import sys
import tempfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from plain_release import without_prefect
from prefect.states import Completed

from equistrata.errors import InputError
from equistrata.flows.cli import main as cli
from equistrata.flows.cli import release as command_release
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import flow
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.prepared import ReleaseExists, with_release_id
from equistrata.flows.release.undertaking import under_way
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.landing import claimed_output
from equistrata.flows.run.server import TemporaryServer

LONG = "x" * 300


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command line in this process, in an empty folder, and returns the exit code and
    the output.
    """
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))  # it is absent, so no server starts

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["equistrata", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def refused(told, sentence):
    code, out, err = told
    assert code == 2, err
    assert sentence in err
    assert len(err.strip().splitlines()) == 1, err
    assert out == ""
    assert os.listdir() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output", LONG],
        ["--output", f"{LONG}/out"],
        ["--source", "csv", "--schema", "acs_employment", "--input", LONG],
        ["--source", "csv", "--input", "none.csv", "--schema", LONG],
        ["--strata", "SEX", "--weights", LONG],
        ["--means", "PAY", "--means-schema", LONG],
        ["--source", "folktables", "--state", "VT", "--root-dir", LONG],
        ["--dataset", "people", "--ledger", LONG],
    ],
    ids=lambda arguments: arguments[-2],
)
def test_a_name_of_300_bytes_is_a_sentence(command, arguments):
    refused(command("release", *arguments), "too long")


@pytest.mark.parametrize("arguments", [["audit", LONG], ["schema", "check", LONG], ["score", LONG, LONG, LONG]])
def test_also_for_other_commands(command, arguments):
    refused(command(*arguments), "too long")


def test_a_full_disk_is_a_sentence_wherever_it_is_met(command, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28), "somewhere/file")

    monkeypatch.setattr(command_release, "run_release", full)
    refused(command("release", "--output", "out"), "no space is left on the disk of 'somewhere/file'")


def test_who_comes_second_is_told_at_once(command, monkeypatch):
    """The message is printed before Prefect is started, which takes longer than all other steps."""
    monkeypatch.setattr(command_release, "run_release", lambda *_: pytest.fail("it went on"))
    with claimed_output(Path("out")):
        code, out, err = command("release", "--output", "out")
    assert (code, out) == (2, "")
    assert err.startswith("error: another run is making output folder 'out'")
    assert os.listdir() == []


@pytest.mark.parametrize("arguments", [("release", "--output", "out"), ("audit", "one", "--output", "audited")])
def test_a_command_starts_prefects_server_while_it_plans(command, tmp_path, monkeypatch, arguments):
    """The server is also stopped if there is an error in the plan or in the flow."""
    seen = []

    def refuse(*_):
        seen.append(started[-1].process.poll())
        raise InputError("refused")

    def run(config, verbose, server):
        seen.append(server.process.poll())
        raise InputError("refused")

    start, started = TemporaryServer.start, []
    monkeypatch.setattr(TemporaryServer, "start", lambda server: started.append(server) or start(server))
    for name in [name for name in os.environ if name.startswith("PREFECT_") and name != "PREFECT_HOME"]:
        monkeypatch.delenv(name)
    (tmp_path / "prefect").mkdir()
    monkeypatch.setattr("equistrata.flows.audit.plan.AuditPlan.of", refuse)
    monkeypatch.setattr(command_release, "run_release", run)
    assert command(*arguments) == (2, "", "error: refused\n")
    assert seen == [None]
    assert [server.process.poll() is not None for server in started] == [True]
    assert os.listdir(tmp_path / "prefect") == []


def test_a_release_that_is_made_already_is_no_failure(command, monkeypatch):
    def made(config):
        raise ReleaseExists("it is complete; there is nothing to do")

    monkeypatch.setattr("equistrata.flows.release.prepared.prepare", made)
    assert command("release", "--output", "out") == (0, "it is complete; there is nothing to do\n", "")


def test_a_release_that_another_run_made_meanwhile_is_no_failure(command, monkeypatch):
    """In this case the state of the flow is Completed, and no folder is returned."""
    monkeypatch.setattr(flow, "release", lambda config: Completed())
    monkeypatch.setattr("equistrata.flows.run.foreground.temporary_server", nullcontext)
    code, out, err = command("release", "--output", "out")
    assert (code, err) == (0, "")
    assert "was made by another run in the meantime and is complete" in out


def test_a_release_validates_its_configuration_once_and_makes_one_plan(command, people, monkeypatch):
    validated, plans, validator, plan_of = [], [], ReleaseConfig.__pydantic_validator__, Plan.of

    class Counting:
        def validate_python(self, *given, **settings):
            validated.append(given)
            return validator.validate_python(*given, **settings)

    def run(config, *_):
        made.append((len(validated), len(plans)))
        with without_prefect(), under_way(with_release_id(config.at(datetime.now(UTC)), "run")) as run:
            flow._make(run)
        return Path(run.plan.config.output)

    made = []
    table, schema, _ = people
    monkeypatch.setattr(ReleaseConfig, "__pydantic_validator__", Counting())
    monkeypatch.setattr(Plan, "of", lambda *given, **settings: plans.append(given) or plan_of(*given, **settings))
    monkeypatch.setattr(command_release, "run_release", run)
    given = ("--source", "csv", "--input", table, "--schema", schema, "--output", "{year}", "--evaluate", "none")
    code, out, err = command("release", *given)
    assert (code, err) == (0, ""), err
    assert "released" in out
    assert (made, len(validated), len(plans)) == ([(1, 1)], 1, 1)


def test_nobody_is_told_to_resume_what_another_run_is_at(command, capsys):
    config = ReleaseConfig.build(dataset="people", release_id="monthly")
    journal = Journal.open(config, "ledger")
    command_release._print_what_is_kept(config)
    assert capsys.readouterr().err == "", "nothing was done yet"
    with journal.held():
        journal.next_run()
        command_release._print_what_is_kept(config)
        assert capsys.readouterr().err == ""
    command_release._print_what_is_kept(config)
    assert capsys.readouterr().err == "to continue: equistrata resume monthly\n"


def test_a_working_folder_that_was_removed_is_a_sentence(command, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused(command("release", "--output", str(tmp_path / "out")), "the current folder no longer exists")
    refused(command("resume", "x"), "the current folder no longer exists")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_place_that_nobody_may_write_to_is_a_sentence_wherever_it_is_met(command, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number), "somewhere/file")

    monkeypatch.setattr(command_release, "run_release", refuse)
    refused(command("release", "--output", "out"), "'somewhere/file' cannot be used")
