"""Tests of commands on forged release folders, which must end with a message in bounded time and memory."""

import os
import random
import shutil
import signal
import threading
import unicodedata
from pathlib import Path

import pytest
from forged_releases import commands, forged
from plain_release import home_of_people, release

SECONDS, MEMORY = 300, 6 << 30  # a command needs one minute of processor time, but the machine may be busy


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    """Return a folder that contains the ledger and two months of a series with means."""
    home = home_of_people(tmp_path_factory.mktemp("honest"), 1357, 3)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("EQUISTRATA_STATE", str(home / "state"))
        for month in (1, 2):
            release({
                "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"),
                "strata": "SEX", "evaluate": "none", "workers": 1, "dataset": "people", "means": "PAY",
                "output": str(home / "months" / f"2026-0{month}"), "release_id": f"people-{month}",
                "series": {"name": "year", "horizon": 12}, "ledger": str(home / "ledger.db"),
            })  # fmt: skip
    return home


def run(light, home, arguments):
    """Return the exit code and the two outputs of a command."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "EQUISTRATA_"))}
    environment |= {"EQUISTRATA_STATE": str(home / "state"), "EQUISTRATA_LEDGER_URL": str(home / "ledger.db")}
    environment |= {"PREFECT_HOME": str(home / "prefect"), "TMPDIR": str(home)}
    under_way = light(*arguments, folder=home, environment=environment, memory=MEMORY)
    late = threading.Timer(SECONDS, os.killpg, (under_way.process, signal.SIGKILL))
    late.start()
    code = under_way.wait()
    late.cancel()
    return code, *under_way.told


def faults_of(light, honest, place, seed):
    """Return the faults of a command on a forged folder, and a description of the forgery."""
    rng = random.Random(seed)
    home = Path(shutil.copytree(honest, place / str(seed)))
    one, other = rng.sample(["2026-01", "2026-02"], 2)
    folder = home / "months" / one
    what = forged(folder, rng)
    (home / "made").mkdir()
    arguments = rng.choice(commands(folder, home / "months" / other, home / "made"))
    code, out, err = run(light, home, arguments)
    told, wrong = out + err, []
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        wrong.append("took too long")
    elif "Traceback" in told or code not in (0, 1, 2):
        wrong.append("ended in a traceback")
    elif code and not err.strip().splitlines()[-1:]:
        wrong.append("said nothing")
    if arguments[:1] == ("verify",) and code == 0:
        wrong.append("was accepted")
    if any(unicodedata.category(each) in ("Cc", "Cf", "Cs") and each not in "\n\t" for each in told):
        wrong.append("wrote escapes")
    if code and any((home / "made").iterdir()):
        wrong.append("left " + ", ".join(path.name for path in (home / "made").iterdir()))
    shutil.rmtree(home, ignore_errors=True)
    return [f"seed {seed}: {' '.join(map(str, arguments))} on {what}: {each}\n{told[-1500:]}" for each in wrong]


@pytest.mark.parametrize("seed", range(12))
def test_a_forged_folder_gets_a_sentence(seed, light, honest, tmp_path):
    found = faults_of(light, honest, tmp_path, seed)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_six_hundred_commands_on_forged_folders(light, honest, tmp_path):
    found = [fault for seed in range(1000, 1600) for fault in faults_of(light, honest, tmp_path, seed)]
    assert not found, "\n\n".join(found)
