"""Tests of `equistrata setup`, in which no package is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from equistrata.environments import FLOWER, SMARTNOISE, STAMP, interpreter_in
from equistrata.errors import InputError
from equistrata.flows.cli import setup as module
from equistrata.flows.cli.setup import SetupSettings, SmartNoiseSettings, setup_flower, setup_smartnoise


@pytest.fixture
def steps(monkeypatch):
    """Return the list of commands that were run and a mapping from each step to its result.

    The steps only make the file of the interpreter.
    """
    done, ends = [], {}

    def run(step, **settings):
        done.append([str(each) for each in step])
        if "venv" in step:
            folder = Path(step[-1])
            interpreter_in(folder).parent.mkdir(parents=True)
            interpreter_in(folder).touch()
            (folder / "pyvenv.cfg").touch()
        assert "PYTHONPATH" not in settings["env"]
        if isinstance(end := ends.get(len(done), 0), BaseException):
            raise end
        return subprocess.CompletedProcess(step, end, "", "first line\nno such package")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    return done, ends


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Set a different working folder and a different environment, so that nothing is set up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    for environment in (FLOWER, SMARTNOISE):
        monkeypatch.delenv(environment.variable, raising=False)
    return tmp_path


def test_smartnoise_is_installed_with_its_pins_checked_and_found(steps, place):
    done, _ = steps
    setup_smartnoise(SmartNoiseSettings())
    venv, pins, alone, check = done
    folder = place / "prefix" / "equistrata-smartnoise"
    assert venv == [sys.executable, "-m", "venv", str(folder)]
    assert pins[0] == alone[0] == check[0] == str(interpreter_in(folder))
    assert "numpy==" in Path(pins[pins.index("-r") + 1]).read_text()
    assert alone[-2:] == ["--no-deps", "smartnoise-synth==1.0.8"]
    assert (check[1], check[3]) == ("-I", "--check")
    assert Path(check[2]).is_file()
    assert SMARTNOISE.interpreter() == interpreter_in(folder)
    setup_smartnoise(SmartNoiseSettings())
    assert len(done) == 4  # the environment is there already


def test_with_neural_it_is_made_anew_and_then_serves_both(steps, place):
    done, _ = steps
    setup_smartnoise(SmartNoiseSettings())
    setup_smartnoise(SmartNoiseSettings(neural=True))
    assert "torch" in done[5]
    setup_smartnoise(SmartNoiseSettings())
    assert len(done) == 8


def test_other_pins_make_it_anew(steps, place, monkeypatch, tmp_path):
    done, _ = steps
    setup_flower(SetupSettings())
    assert len(done) == 3
    pins = tmp_path / "pins.txt"
    pins.write_text("flwr==2\n")
    other = module.Contents(pins, module.flower_contents().worker)
    monkeypatch.setattr(module, "flower_contents", lambda: other)
    setup_flower(SetupSettings())
    assert len(done) == 6


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("end", [1, KeyboardInterrupt()], ids=["failed", "stopped"])
def test_what_was_interrupted_is_not_found_and_is_made_anew(steps, place, step, end):
    _, ends = steps
    ends[step] = end
    folder = place / "here"
    with pytest.raises((InputError, KeyboardInterrupt)) as caught:
        setup_flower(SetupSettings(folder=folder))
    if isinstance(caught.value, InputError):
        assert "no such package" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (folder / STAMP).exists()
    (folder / "left").touch()
    setup_flower(SetupSettings(folder=folder))
    assert (folder / STAMP).exists()
    assert not (folder / "left").exists()


def test_a_folder_of_something_else_stays(steps, place):
    mine = place / "mine"
    mine.mkdir()
    (mine / "thesis").touch()
    with pytest.raises(InputError, match="is not an environment; move it away"):
        setup_flower(SetupSettings(folder=mine))
    assert [each.name for each in mine.iterdir()] == ["thesis"]
    assert steps[0] == []


def test_where_an_environment_is_looked_for(place, monkeypatch):
    with pytest.raises(InputError, match=r"not set up here\); run equistrata setup flower or set EQUISTRATA_FLOWER"):
        FLOWER.interpreter()
    paths = {}
    for name, folder in (("installed", FLOWER.of_installation), ("checkout", FLOWER.of_checkout), ("named", "other")):
        path = interpreter_in(Path(folder).absolute())
        path.parent.mkdir(parents=True)
        path.touch()
        paths[name] = path
    with pytest.raises(InputError, match="was not set up here"):  # the setup was interrupted, so there is no stamp
        FLOWER.interpreter()
    (FLOWER.of_installation / STAMP).touch()
    assert FLOWER.interpreter() == paths["installed"]
    (FLOWER.of_checkout / STAMP).touch()
    assert FLOWER.interpreter() == paths["checkout"]
    monkeypatch.setenv(FLOWER.variable, str(paths["named"]))
    assert FLOWER.interpreter() == paths["named"]
    assert FLOWER.interpreter(sys.executable) == Path(sys.executable)
    monkeypatch.setenv(FLOWER.variable, "none")
    with pytest.raises(InputError, match="no interpreter 'none'"):
        FLOWER.interpreter()
