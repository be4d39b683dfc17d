"""Tests of commands that are stopped by SIGTERM or Ctrl-C."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from unittest import mock

import pytest
from in_process import command
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

from equistrata.errors import InputError
from equistrata.flows.cli import release as cli
from equistrata.flows.run.foreground import WHOLE, report_progress

PUBLISH, LANDING, NEW = (f"equistrata.flows.{name}" for name in ("publication.publish", "run.landing", "run.new_files"))
# Each entry is a command, and the call before or after which it is stopped.
STOPPED = {
    "publish, copied": (("publish", "out", "made"), f"{PUBLISH}._Files.copy", "after"),
    "publish, before its place": (("publish", "out", "made"), f"{PUBLISH}.rename_to_new", "before"),
    "zip, copied": (("publish", "out", "made.zip"), f"{PUBLISH}._Files.copy", "after"),
    "zip, before its place": (("publish", "out", "made.zip"), f"{PUBLISH}.rename_to_new", "before"),
    "replicate": (
        ("replicate", "out", "--replicates", "3", "--workers", "1", "--output", "made"),
        "equistrata.analysis.release.replicate_rows", "after",
    ),
    "replicate, before its place": (
        ("replicate", "out", "--replicates", "2", "--workers", "1", "--output", "made/in"),
        f"{LANDING}.rename_to_new", "before",
    ),
    "export": (("export", "out", "made.dta"), "equistrata.analysis.interchange.exports._write_stata", "after"),
    "free audit": (
        ("audit", "out", "--public", "--output", "made"), "equistrata.flows.audit.expected.write_expected", "after",
    ),
    "plot": (
        ("estimate", "out", "mean", "AGE", "--by", "SEX", "--plot", "made.svg"),
        "matplotlib.figure.Figure.savefig", "after",
    ),
    "registry": (("verify", "out", "--registry", "made.yaml"), f"{NEW}.rename_to_new", "before"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    made_up_people(600).to_csv(home / "people.csv", index=False)
    release({
        "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"), "strata": "SEX",
        "workers": 1, "output": str(home / "out"), "evaluate": "none",
    })  # fmt: skip
    return home


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(made)
    return made


@contextmanager
def stopping(target, side, number):
    """Send a signal to this process before or after a call."""
    owner, name = target.rsplit(".", 1)
    original = getattr(resolve_name(owner), name)

    def called(*args, **kwargs):
        if side == "before":
            os.kill(os.getpid(), number)
        found = original(*args, **kwargs)
        if side == "after":
            os.kill(os.getpid(), number)
        return found

    with mock.patch(target, called):
        yield


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("what", STOPPED)
def test_a_stopped_command_leaves_nothing(place, monkeypatch, capsys, what, number):
    arguments, target, side = STOPPED[what]
    before = sorted(place.rglob("*"))
    with stopping(target, side, number):
        code, _, said = command(monkeypatch, capsys, *arguments)
    assert code == 143 if number == signal.SIGTERM else code in (1, 130)
    assert "Traceback" not in said
    assert sorted(place.rglob("*")) == before
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def _stop(number):
    return lambda *args, **kwargs: os.kill(os.getpid(), number)


def _raise(error):
    def call(*args, **kwargs):
        raise error

    return call


@contextmanager
def _failing_server(verbose=False):
    yield None
    raise OSError("no such process")


# Each entry is a step that fails after the release is complete.
AFTER = {
    "the page fails": ("equistrata.flows.cli.release_page.write_release_page", _raise(ValueError("row 5"))),
    "no page": ("equistrata.flows.cli.release_page.expected_pages", _raise(InputError("no page can be made"))),
    "a chart fails": ("equistrata.eval.report.charts.Panel.strip", _raise(RuntimeError("font"))),
    "SIGTERM in the page": ("equistrata.flows.cli.release_page.expected_pages", _stop(signal.SIGTERM)),
    "Ctrl-C in the page": ("equistrata.flows.cli.release_page.expected_pages", _stop(signal.SIGINT)),
    "it cannot be printed": ("equistrata.flows.cli.release.print_release", _raise(BrokenPipeError())),
    "the server does not stop": ("equistrata.flows.cli.release.server_ahead", _failing_server),
    "SIGTERM at once": ("equistrata.flows.cli.release.print_release", _stop(signal.SIGTERM)),
}


@pytest.fixture
def no_prefect(monkeypatch):
    def run_release(config, verbose=False, server=None):
        release(config.model_dump(exclude_none=True), served=False)
        report_progress(WHOLE)
        return Path(config.output)

    @contextmanager
    def server_ahead(verbose=False):
        yield None

    monkeypatch.setattr(cli, "run_release", run_release)
    monkeypatch.setattr(cli, "server_ahead", server_ahead)


@pytest.mark.parametrize("what", AFTER)
def test_a_finished_release_ends_well_whatever_comes_after(what, place, tmp_path, monkeypatch, capsys, no_prefect):
    target, call = AFTER[what]
    monkeypatch.setattr(target, call)
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # the standard output of pytest must stay open
    given = ("--source", "csv", "--input", "people.csv", "--schema", "people.yaml", "--columns", "SEX,JOB")
    monkeypatch.setattr("sys.argv", ["equistrata"])
    output = tmp_path / "made"
    code, _, said = command(
        monkeypatch, capsys, "release", *given, "--evaluate", "none", "--workers", "1", "--output", output, "--page"
    )
    assert code == 0, said
    assert "row 5" not in said
    assert "no page" in said or "the release in" in said.replace("\n", " ")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "state") in (
        ["made"],
        ["made", "made-expected"],
    )


def test_a_release_that_is_not_whole_does_not_end_well(place, tmp_path, monkeypatch, capsys, no_prefect):
    monkeypatch.setattr(cli, "run_release", _raise(InputError("no server")))
    given = ("--source", "csv", "--input", "people.csv", "--schema", "people.yaml", "--columns", "SEX,JOB")
    code, _, said = command(monkeypatch, capsys, "release", *given, "--output", tmp_path / "made", "--page")
    assert (code, "no server" in said) == (2, True)
