"""Tests of the comparison with other synthesizers: the protocol, failures, resumed runs and tables."""

import importlib.util
import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from small_tables import table_of

from benchmarks.child import schema_of
from benchmarks.field import __main__ as command
from benchmarks.field import environments
from benchmarks.field.__main__ import Field, places, pythons_of, systems_of
from benchmarks.field.calling import PeerFailed, PeerTimeout, call
from benchmarks.field.environments import PeerUnavailable, interpreter
from benchmarks.field.measuring import Line, Place, measured
from benchmarks.field.showing import HEADS, standing, table_at, terminal
from benchmarks.field.standing import cells
from benchmarks.field.systems import CHILDREN, SYSTEMS, Environment, Ours, Peer, named
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.flows.cli.setup import smartnoise_contents
from paper.lines import LineFile

FAKE = '''
import time

import numpy as np


def load():
    return "fake 1.0"


def fit_same(rows, settings):
    """The rows themselves, if all that was promised is there."""
    assert settings["sizes"] and len(settings["names"]) == rows.shape[1] and settings["rho"] > 0
    return rows[np.random.default_rng(settings["seed"]).permutation(len(rows))[: settings["draw"]]]


def fit_worse(rows, settings):
    """Columns apart."""
    rng = np.random.default_rng(settings["seed"])
    return np.stack([rng.permutation(column) for column in rows.T], axis=1)


def fit_fails(rows, settings):
    raise ValueError("a traceback:\\n  no such luck\\n)")


def fit_slow(rows, settings):
    time.sleep(60)


def fit_other(rows, settings):
    return rows + 100


FITS = {"same": fit_same, "worse": fit_worse, "fails": fit_fails, "slow": fit_slow, "other": fit_other}
'''
SETTINGS = {"epsilon": 1.0, "delta": 1e-9, "rho": 0.01, "seed": 0, "draw": 30}


@pytest.fixture
def fake(tmp_path):
    path = tmp_path / "fake.py"
    path.write_text(FAKE, "utf-8")
    return path


def asked(fake, synthesizer, limit=30.0):
    return call(sys.executable, fake, table_of(40, (2, 3, 4)), SETTINGS | {"synthesizer": synthesizer}, limit)


def test_rows_go_to_a_peer_and_come_back_with_what_they_took(fake):
    made = asked(fake, "same")
    assert len(made.rows) == 30
    assert made.rows.schema == table_of(40, (2, 3, 4)).schema
    assert made.software == "fake 1.0"
    assert 0 <= made.seconds < 30
    assert made.cpu_seconds >= 0
    given = {tuple(row) for row in table_of(40, (2, 3, 4)).codes.tolist()}
    assert {tuple(row) for row in made.rows.codes.tolist()} <= given


@pytest.mark.parametrize(
    ("synthesizer", "sentence"),
    [
        ("fails", "^ValueError: no such luck$"),
        ("other", "are not rows of the schema"),
        ("unknown", "KeyError: 'unknown'"),
    ],
)
def test_a_peer_that_fails_says_why_in_one_line(fake, synthesizer, sentence):
    with pytest.raises(PeerFailed, match=sentence):
        asked(fake, synthesizer)


def test_a_peer_that_is_too_slow_is_ended(fake):
    with pytest.raises(PeerTimeout, match="longer than 2 s"):
        asked(fake, "slow", 2.0)


def test_a_peer_file_that_does_not_import_fails_its_check(tmp_path, fake):
    broken = tmp_path / "broken.py"
    broken.write_text("def load():\n    import no_such_package_here\n", "utf-8")
    with pytest.raises(PeerFailed, match="No module named 'no_such_package_here'"):
        asked(broken, "same")


def test_an_environment_is_made_once_for_its_pins(tmp_path, fake, monkeypatch):
    commands = []
    monkeypatch.setattr(environments, "_run", lambda command, failed: commands.append(command))
    (tmp_path / "peers/it").mkdir(parents=True)  # the folder that venv would make
    monkeypatch.setattr("benchmarks.field.environments.shutil.rmtree", lambda path, ignore_errors: None)
    environment = Environment("it", ("a==1",), ("b==2",))
    python = interpreter(environment, fake, tmp_path / "peers")
    assert python == tmp_path / "peers/it/bin/python"
    said = [" ".join(map(str, command)) for command in commands]
    assert [
        "venv" in said[0],
        said[1].endswith(" a==1"),
        said[2].endswith(" --no-deps b==2"),
        "--check" in said[3],
    ] == [True] * 4
    interpreter(environment, fake, tmp_path / "peers")
    assert len(commands) == 4
    with pytest.raises(PeerUnavailable, match="older than its pins"):
        interpreter(replace(environment, requires=("a==2",)), fake, tmp_path / "peers", install=False)
    interpreter(replace(environment, requires=("a==2",)), fake, tmp_path / "peers")
    assert len(commands) == 8


def test_what_does_not_install_leaves_no_stamp_and_gives_pips_reason(tmp_path, fake, monkeypatch):
    def run_here(command, failed):
        """Run pip with this interpreter instead of an environment."""
        if "pip" in command:
            run([sys.executable, *command[1:]], failed)
        else:
            (tmp_path / "nothing").mkdir()

    run = environments._run
    monkeypatch.setattr(environments, "_run", run_here)
    nothing = Environment("nothing", ("--no-index", "no-such-package-here==1"))
    with pytest.raises(
        PeerUnavailable, match="pip did not install it: No matching distribution found for no-such-package"
    ):
        interpreter(nothing, fake, tmp_path)
    assert not (tmp_path / "nothing/installed").exists()


def test_absent_peers_get_one_sentence_each_and_ours_need_no_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = io.StringIO()
    systems = named(["mst", "opendp-mst", "opendp-aim"])
    found = pythons_of(systems, Console(file=stream, width=300), install=False)
    assert not found
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all("is left out: its environment" in line for line in lines)


def test_an_environment_that_is_made_by_hand_is_only_checked(tmp_path, fake):
    environment = Environment("it", by_hand=True)
    with pytest.raises(PeerUnavailable, match=r"made by hand \(docs/experiments/field.md\)"):
        interpreter(environment, fake, tmp_path)
    python = tmp_path / "it/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', "utf-8")
    python.chmod(0o755)
    assert interpreter(environment, fake, tmp_path) == python
    fake.write_text("def load():\n    import no_such_package", "utf-8")
    with pytest.raises(PeerUnavailable, match="do not import"):
        interpreter(environment, fake, tmp_path)


def test_systems_have_files_and_names_of_their_own():
    names = [system.name for system in SYSTEMS]
    assert len(set(names)) == len(names)
    for system in SYSTEMS:
        if isinstance(system, Peer):
            assert f'"{system.synthesizer}"' in system.path.read_text("utf-8"), system.name
    assert {system.path for system in SYSTEMS if isinstance(system, Peer)} == set(CHILDREN.glob("[a-z]*.py"))
    pins = [text for s in SYSTEMS if isinstance(s, Peer) for text in s.environment.requires]
    assert not [text for text in pins if "://" in text]


def test_options_name_systems():
    parse = command.options().parse_args
    assert [system.name for system in systems_of(parse(["--systems", "dpmm-mst,mst"]))] == ["mst", "dpmm-mst"]
    usual = {system.name for system in systems_of(parse([]))}
    assert usual == {system.name for system in SYSTEMS if not system.slow}
    with pytest.raises(InputError, match="'nope' is none of the field's"):
        systems_of(parse(["--systems", "mst,nope"]))


def test_fits_go_repetition_by_repetition():
    systems = named(["mst", "opendp-mst"])
    plan = [(system.name, place.epsilon, place.seed) for system, place in places(systems, "rows", (0.1, 1.0), 2)]
    assert plan[:3] == [("mst", 0.1, 0), ("opendp-mst", 0.1, 0), ("mst", 1.0, 0)]
    assert len(plan) == len(set(plan)) == 2 * 2 * 2


COLUMNS = ("AGEP", "MAR", "SEX", "RAC1P", "ESR")


def people(rows=600):
    schema = schema_of(COLUMNS)
    codes = np.random.default_rng(0).integers(0, schema.sizes, (rows, len(COLUMNS)))
    codes[:, 3] = np.minimum(codes[:, 3], 1)
    codes[:, 4] = (codes[:, 0] == 1) | (codes[:, 2] == 1)
    return CodedTable(codes.astype(np.uint8), schema)


def field_of(tmp_path, fake):
    """Return three fake peers, a comparison of them, and the stream of the console."""
    peers = [Peer(name, f"fake {name}", "fake", name, Environment("fake")) for name in ("same", "worse", "fails")]
    stream = io.StringIO()
    file, console = LineFile(tmp_path / "field.csv", Place, Line), Console(file=stream, width=300)
    return peers, Field(people(), file, console, 60.0, dict.fromkeys(["same", "worse", "fails"], None)), stream


def fit_in_process(monkeypatch, fake, asked_for):
    """Fit the fake peers in this process and record the calls."""
    from benchmarks.field.child import peer
    from benchmarks.field.measuring import Fitted

    fits = peer(fake).FITS

    def fitted(system, rows, place, python, limit):
        asked_for.append((system.name, place.epsilon, place.seed))
        if system.name == "fails":
            raise PeerFailed("ValueError: no such luck")
        settings = SETTINGS | {"seed": place.seed, "draw": len(rows), "names": COLUMNS, "sizes": [1]}
        drawn = CodedTable(fits[system.synthesizer](rows.codes, settings), rows.schema)
        return Fitted(drawn.decode(np.random.default_rng(0)), 1.0, 0.5, "fake 1.0")

    monkeypatch.setattr(command, "measured", lambda *given: measured(*given, fit=fitted))


def test_what_was_measured_is_not_measured_again_and_a_failure_is_one_sentence(tmp_path, fake, monkeypatch):
    asked_for = []
    fit_in_process(monkeypatch, fake, asked_for)
    peers, run, stream = field_of(tmp_path, fake)
    plan = list(places(peers, "people", (1.0,), 2))
    run.run(plan)
    # A peer that failed at a value of ε is not run again at this value.
    assert asked_for == [("same", 1.0, 0), ("worse", 1.0, 0), ("fails", 1.0, 0), ("same", 1.0, 1), ("worse", 1.0, 1)]
    assert stream.getvalue().splitlines() == ["fake fails is left out, ε = 1, repetition 1: ValueError: no such luck"]
    assert len((tmp_path / "field.csv").read_text().splitlines()) == 1 + 4
    same, worse = run.lines[Place("people", "same", 1.0, 0)], run.lines[Place("people", "worse", 1.0, 0)]
    assert (same.pairs, same.triples, same.by_stratum, same.parity, same.distance) == (0, 0, 0, 0, 0)
    assert worse.singles == 0  # the columns are the permuted columns of the rows
    assert worse.pairs > 0.02
    assert same.forest < 0.1 < worse.forest < 1
    asked_for.clear()
    peers, run, stream = field_of(tmp_path, fake)
    run.run(list(places(peers[:2], "people", (1.0,), 3)))
    assert asked_for == [("same", 1.0, 2), ("worse", 1.0, 2)]
    assert len(run.lines) == 6
    run.run(list(places(peers[:2], "other people", (1.0,), 1)))
    assert set(run.lines) == {Place("other people", "same", 1.0, 0), Place("other people", "worse", 1.0, 0)}


def test_a_system_beyond_its_limit_is_left_out_from_there_on(tmp_path, fake, monkeypatch):
    asked_for = []

    def slow(system, table, place, python, limit):
        asked_for.append(place.epsilon)
        raise PeerTimeout("it took longer than 60 s")

    monkeypatch.setattr(command, "measured", slow)
    peers, run, stream = field_of(tmp_path, fake)
    run.run(list(places(peers[1:2], "people", (1.0, 5.0), 2)))
    assert asked_for == [1.0]
    assert stream.getvalue() == "fake worse is left out from here on, ε = 1, repetition 1: it took longer than 60 s\n"


def line(system, epsilon, seed, error):
    return Line("people", system, epsilon, seed, error, error, error, error, error, error, error, 12.3, 4.5, "x 1")


LINES = [
    line("mst", 1.0, 0, 0.02), line("mst", 1.0, 1, 0.04), line("aim", 1.0, 0, 0.05),
    line("opendp-mst", 1.0, 0, 0.06), line("opendp-mst", 1.0, 1, 0.06), line("mst", 10.0, 0, 0.03),
    line("opendp-mst", 10.0, 0, 0.02), line("dpmm-mst", 10.0, 0, 0.9),
]  # fmt: skip


def test_ours_over_the_best_peer_in_every_cell():
    found = {(cell.score, cell.epsilon): cell for cell in cells(LINES, SYSTEMS)}
    assert len(found) == 7 * 2
    ahead, behind = found["pairs", 1.0], found["pairs", 10.0]
    assert (ahead.ours, ahead.peer, ahead.held, behind.held) == ("mst", "opendp-mst", True, False)
    assert ahead.ratio == pytest.approx(0.5)
    assert ahead.error == pytest.approx(0.5 * 0.01 / 0.03)  # relative to the mean of 0.02 and 0.04
    assert behind.ratio == pytest.approx(1.5)
    rows = standing(LINES, SYSTEMS)
    assert rows[1] == ["2-way", "0.50±0.17 opendp-mst", "1.50 opendp-mst ←"]


def test_the_tables_fit_120_columns_and_mark_the_least(tmp_path):
    stream = io.StringIO()
    console = Console(file=stream, width=120)
    console.print(terminal(table_at(LINES, SYSTEMS, 1.0), HEADS, "a title"))
    wide = [["score", *["0.50±0.17 dpmm-mst ←"] * 4]]
    console.print(terminal(wide, ("", "ε = 0.1", "ε = 1", "ε = 5", "ε = 10"), "standing"))
    text = stream.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 120
    rows = [line.strip() for line in text.splitlines() if line.strip().startswith(("ours", "OpenDP"))]
    assert [row.split()[0] for row in rows] == ["ours:", "ours:", "OpenDP"]
    assert "0.0300*" in rows[0]
    assert all("*" not in row for row in rows[1:])


def test_ours_are_fitted_by_the_child_of_the_other_comparison(monkeypatch):
    from benchmarks.child import Cost
    from benchmarks.field import measuring

    jobs = []

    def fake_measure(job, rows, timeout):
        jobs.append((job.mechanism, job.strata, job.epsilon, job.seed, job.rules, timeout))
        return Cost(2.0, 1.0, 100.0), rows.decode(np.random.default_rng(0))

    monkeypatch.setattr(measuring, "measure", fake_measure)
    found = measured(named(["gem"])[0], people(), Place("people", "gem", 5.0, 1), None, 30.0)
    measured(named(["aim-unruled"])[0], people(), Place("people", "aim-unruled", 5.0, 1), None, 30.0)
    assert jobs == [("gem", ("SEX", "RAC1P"), 5.0, 1, True, 30.0), ("aim", (), 5.0, 1, False, 30.0)]
    assert (found.pairs, found.cpu_seconds) == (0, 1.0)
    assert found.software.startswith("equistrata ")
    assert isinstance(named(["gem"])[0], Ours)


def test_smartnoise_is_pinned_as_equistrata_sets_it_up():
    pins = next(s.environment.alone for s in SYSTEMS if s.name == "smartnoise-mst")
    assert set(pins) <= set(smartnoise_contents().alone)


def test_a_command_with_an_unknown_system_ends_with_a_sentence(capsys):
    assert command.main(["--systems", "nope"]) == 2
    assert "'nope' is none of the field's" in capsys.readouterr().out


def test_the_command_makes_its_files_from_what_was_measured(tmp_path, monkeypatch, capsys):
    title = "embedded simulated sample: 20 rows"
    monkeypatch.setattr(command, "table_of", lambda arguments: (people(), title))
    LineFile(tmp_path / "field.csv", Place, Line).append([replace(line, rows=title) for line in LINES])
    arguments = ["--systems", "mst", "--epsilons", "1", "--repetitions", "1", "--results", str(tmp_path)]
    assert command.main(arguments) == 0
    said = capsys.readouterr().out
    assert "drawn from a model of ours" in said
    assert json.dumps("field.csv") not in said


def test_the_peer_of_smartnoise_uses_the_worker_of_the_adapter():
    """Loading the file requires no package of smartnoise-synth, so that this test runs without its environment."""
    spec = importlib.util.spec_from_file_location("smartnoise_peer", CHILDREN / "smartnoise.py")
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    assert set(peer.FITS) <= set(peer.worker().FITS)
