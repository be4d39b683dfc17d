"""Tests that kill a release at random times in Prefect and then run `equistrata resume`."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from forked_cli import forked_cli
from left_in import left_in

from equistrata.flows.run.workspace import unit_name
from equistrata.privacy.ledger.ledger import Ledger

KILLS = 30
MEANS = ("stratified mean of PAY", "vanilla mean of PAY")


class Shop:
    """A command line that can be killed, with its ledger, state folder and temporary folder."""

    def __init__(self, start, home, people):
        self.start, self.home, self.people = start, home, people
        self.state, self.tmp = home / "state", home / "tmp"
        self.ledger = Ledger(home / "ledger.db")
        self.ledger.create("people", 100, 1e-9)

    def release(self, name, workers=1):
        """Start a charged release of the small table with this name as its folder."""
        table, schema, _ = self.people
        return self.start(
            "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX,GROUP",
            "--synthesizer", "aim", "--selection", "per-stratum",
            "--means", "PAY", "--means-estimator", "both", "--workers", workers, "--dataset", "people", "--output",
            name,
            "--release-id", f"id-{name}",
        )  # fmt: skip

    def finish(self, name):
        """Resume a release.

        If there is nothing to resume, check the message. If the release does not exist, it is started again.
        """
        resumed = self.start("resume", f"id-{name}")
        code, (_, error) = resumed.wait(), resumed.told
        if code == 2:
            assert "is saved in" in error, error
            assert len(error.strip().splitlines()) == 1, error
            if (self.home / name).exists():
                return
            assert self.charges(name) == [], "charged, not whole, and nothing to resume it from"
            anew = self.release(name)
            code, (_, error) = anew.wait(), anew.told
        assert code == 0, error

    def charges(self, name):
        return self.ledger.charges("people", f"id-{name}")

    def paid(self, name):
        return self.state / f"id-{name}" / "paid"

    def kept(self, name):
        """Return the number of stored files, which increases during a release."""
        # Folders may be removed during the loop
        return sum(len(files) for *_, files in os.walk(self.state / f"id-{name}"))

    def in_doubt(self, name):
        """Return the parts with noise that was drawn but not saved."""
        paid = self.paid(name)
        # If the file is empty, it was opened before any noise was drawn.
        begun = {path.name.removeprefix("started_") for path in paid.glob("started_*") if path.stat().st_size}
        means = {unit_name(part): part for part in MEANS}
        fits = any(not (paid / f"fit_{unit}").exists() for unit in begun - set(means))
        lost = [part for unit, part in means.items() if unit in begun and not (paid / f"mean_{unit}.json").exists()]
        return ["synthesis"] * fits + lost

    def working(self):
        """Return the names of working folders and of incomplete releases."""
        return sorted(path.name for path in [*self.tmp.glob("equistrata-*"), *self.home.glob(".*.part")])

    def leftovers(self):
        return [*self.working(), *(path.name for path in left_in(self.state))]

    def check(self, name, files, again):
        """Check that a release is complete. There is a second charge if the noise is drawn again."""
        assert {str(path.relative_to(self.home / name)) for path in (self.home / name).rglob("*")} == files
        charges = self.charges(name)
        assert [list(charge.entry.parts) for charge in charges] == [["synthesis", *MEANS], *([again] if again else [])]
        assert {charge.outcome for charge in charges} == {"committed"}
        reasons = [charge.entry.reason for charge in charges]
        assert reasons == [None, *([f"noise drawn again after a crash: {', '.join(again)}"] if again else [])]
        card = json.loads((self.home / name / "card.json").read_text())
        assert card["guarantee"]["rho"] == float(sum(charge.entry.rho.exact for charge in charges))
        assert len(card["ledger"]["charges"]) == len(charges)
        assert self.leftovers() == []


@pytest.fixture
def shop(tmp_path, people, prefect_server):
    home = tmp_path / "shop"
    (home / "tmp").mkdir(parents=True)
    environment = {
        "PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(home / "prefect"), "TMPDIR": str(home / "tmp"),
        "EQUISTRATA_STATE": str(home / "state"), "EQUISTRATA_LEDGER_URL": str(home / "ledger.db"),
    }  # fmt: skip
    with forked_cli(home, environment) as start:
        yield Shop(start, home, people)


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.002)


def kill(run, whole_group=True):
    """Kill the command with SIGKILL, with or without its child processes."""
    with suppress(ProcessLookupError):  # it has just ended
        (os.killpg if whole_group else os.kill)(run.process, signal.SIGKILL)
    assert run.wait() in (-signal.SIGKILL, 0), run.told


@pytest.mark.slow
def test_thirty_kills_at_random_points_end_in_whole_releases(shop):
    """Half of the kills are at a random time, and half are after a random number of files, which does not depend on the
    speed of the machine.

    The releases are resumed by their ids, and a tenth of them have worker processes.
    """
    began = time.monotonic()
    whole, most = shop.release("whole"), 0
    while not (shop.home / "whole").exists():
        most = max(most, shop.kept("whole"))
        time.sleep(0.002)
    assert whole.wait() == 0, whole.told
    duration = time.monotonic() - began  # the first run is the slowest
    files = {str(path.relative_to(shop.home / "whole")) for path in (shop.home / "whole").rglob("*")}
    shop.check("whole", files, [])

    rng, seen = random.Random(9), []
    for number in range(KILLS):
        name = f"out{number}"
        run = shop.release(name, workers=2 if number % 10 == 9 else 1)
        if number % 2:
            target = rng.randrange(1, most + 1)
            ready = lambda: shop.kept(name) >= target or (shop.home / name).exists()  # noqa: B023, E731
            wait_until(ready)
            time.sleep(rng.uniform(0, 0.02))
        else:
            time.sleep(rng.uniform(0, duration * 0.8))
        kill(run)
        charged, again = len(shop.charges(name)), shop.in_doubt(name)
        saved, working = len(list(shop.paid(name).glob("fit_*/measurements.json"))), bool(shop.working())
        shop.finish(name)
        shop.check(name, files, again)
        seen.append((charged, saved, again, working))
    shop.ledger.verify()
    print(
        f"\n{duration:.1f} s each, {time.monotonic() - began:.0f} s in all; "
        "(charged, strata saved, drawn again, left over):"
    )
    print(*sorted(map(str, seen)), sep="\n")
    assert len({(charged, saved) for charged, saved, _, _ in seen}) >= 5, "the kills did not spread over the release"
    assert any(saved and not again for _, saved, again, _ in seen), "no release was resumed from what was saved alone"
    assert any(again for _, _, again, _ in seen), "no kill fell between drawing and saving"
    assert any(working for *_, working in seen), "no kill left a working folder to be removed"


@pytest.mark.slow
def test_a_kill_of_the_parent_alone_ends_as_well(shop):
    """The workers continue to run and may save their draws. If both save, the first result is used."""
    run = shop.release("out", workers=2)
    wait_until(lambda: list(shop.paid("out").glob("started_*")) or (shop.home / "out").exists())
    kill(run, whole_group=False)
    shop.finish("out")
    charges = shop.charges("out")
    assert len(charges) in (1, 2)
    assert {charge.outcome for charge in charges} == {"committed"}
    assert all(charge.entry.reason == "noise drawn again after a crash: synthesis" for charge in charges[1:])
    assert json.loads((shop.home / "out" / "card.json").read_text())["ledger"]["rho"] == sum(
        float(charge.entry.rho) for charge in charges
    )
    with suppress(ProcessLookupError):  # the workers have already stopped
        os.killpg(run.process, signal.SIGKILL)
    assert shop.leftovers() == []
    shop.ledger.verify()


@pytest.mark.slow
def test_the_next_run_of_another_release_cleans_up_and_leaves_what_was_paid_for(shop):
    run = shop.release("killed")
    wait_until(lambda: list(shop.paid("killed").glob("fit_*/measurements.json")))
    kill(run)
    before = {path: path.read_bytes() for path in shop.paid("killed").glob("fit_*/measurements.json")}
    again = shop.in_doubt("killed")
    rows, place = "equistrata-release-", ".killed.part"
    assert [name for name in shop.working() if name.startswith(rows)], "rows of the killed run"
    assert [name for name in shop.working() if not name.startswith(rows)] in ([], [place])
    other = shop.release("other")
    assert other.wait() == 0, other.told
    assert shop.working() == []
    assert len(shop.charges("other")) == 1
    assert {path: path.read_bytes() for path in shop.paid("killed").glob("fit_*/measurements.json")} == before
    assert not (shop.home / "killed").exists()
    listed = shop.start("resume")
    assert listed.wait() == 0
    assert listed.told[0].startswith("id-killed")
    shop.finish("killed")
    files = {str(path.relative_to(shop.home / "other")) for path in (shop.home / "other").rglob("*")}
    shop.check("killed", files, again)


@pytest.mark.slow
def test_a_killed_resume_is_resumed(shop):
    """Several runs are killed in turn.

    Each charge has a list of the noise that was drawn again, and the last run completes the release.
    """
    rng = random.Random(4)
    run = shop.release("out")
    wait_until(lambda: list(shop.paid("out").glob("started_*")))
    kill(run)
    for _ in range(3):
        run, before = shop.start("resume", "id-out"), shop.kept("out")
        wait_until(lambda: shop.kept("out") > before + rng.randrange(8) or (shop.home / "out").exists())  # noqa: B023
        kill(run)
    shop.finish("out")
    charges = shop.charges("out")
    assert 1 <= len(charges) <= 5
    assert {charge.outcome for charge in charges} == {"committed"}
    assert all(charge.entry.reason.startswith("noise drawn again after a crash: ") for charge in charges[1:])
    assert shop.leftovers() == []
    shop.ledger.verify()


@pytest.mark.slow
def test_a_killed_release_whose_output_was_taken_goes_on_into_another_folder(shop):
    run = shop.release("out")
    wait_until(lambda: list(shop.paid("out").glob("fit_*/measurements.json")))
    kill(run)
    (shop.home / "out").mkdir()
    resumed = shop.start("resume", "id-out")
    assert resumed.wait() == 2
    assert resumed.told[1].splitlines()[0] == "to continue: equistrata resume id-out"
    assert "equistrata resume id-out --output FOLDER" in resumed.told[1].splitlines()[1]
    resumed = shop.start("resume", "id-out", "--output", "new")
    assert resumed.wait() == 0, resumed.told
    assert json.loads((shop.home / "new" / "card.json").read_text())["ledger"]["release_id"] == "id-out"
    assert {charge.outcome for charge in shop.charges("out")} == {"committed"}
    assert shop.leftovers() == []


def test_sigterm_ends_a_release_which_says_how_to_go_on(shop):
    """A container or a service is stopped with this signal."""
    run = shop.release("out")
    wait_until(lambda: list(shop.paid("out").glob("fit_*/measurements.json")))
    os.kill(run.process, signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM, run.told
    assert run.told[1].splitlines()[-2:] == ["stopped", "to continue: equistrata resume id-out"]
    assert shop.working() == []
    shop.finish("out")
    assert {charge.outcome for charge in shop.charges("out")} == {"committed"}


@pytest.mark.slow
def test_sigterm_ends_the_server_that_prefect_started_for_the_release(shop):
    left = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "EQUISTRATA_"))}
    state = {"PREFECT_HOME": str(shop.home / "own"), "EQUISTRATA_STATE": str(shop.state), "TMPDIR": str(shop.tmp)}
    ledger = {"EQUISTRATA_LEDGER_URL": str(shop.home / "ledger.db")}
    given = "release --source sample --synthesizer aim --selection per-stratum --strata SEX,RAC1P --dataset people"
    command = [
        sys.executable,
        "-m",
        "equistrata.flows.cli.main",
        *given.split(),
        "--release-id",
        "id-out",
        "--output",
        "out",
    ]
    with subprocess.Popen(command, cwd=shop.home, env=left | state | ledger, start_new_session=True) as run:
        wait_until(lambda: list(shop.paid("out").glob("fit_*/measurements.json")))
        run.terminate()
        assert run.wait() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):  # no process of the group is left
        wait_until(lambda: os.killpg(run.pid, 0), seconds=5)
