"""Tests of two releases with the same output, where some of the processes are stopped or killed."""

import json
import os
import random
import signal
import time
from contextlib import ExitStack, suppress

import pytest
from forked_cli import forked_cli

from equistrata.data.texts.manifest import check_manifest
from equistrata.privacy.ledger.ledger import Ledger

PAIRS, DISTURBED = 12, 9  # 30 and 20 were tested once as well


class Contest:
    """Two command lines with the same ledger and the same outputs, which may have different state folders."""

    def __init__(self, starts, homes, shared, people):
        self.starts, self.homes, self.shared, self.people = starts, homes, shared, people
        self.ledger = Ledger(shared / "ledger.db")
        self.ledger.create("people", 400, 1e-9)

    def begin(self, runner, name, charged):
        table, schema, _ = self.people
        spelled = (self.shared / name, self.shared / ".." / "shared" / name)[runner]
        account = ("--ledger", self.ledger.path, "--dataset", "people", "--release-id", f"{name}-{runner}")
        return self.starts[runner](
            "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX", "--synthesizer",
            "mst", "--evaluate", "none",
            "--rows", 100 + runner, "--workers", 1, "--output", spelled, *(account if charged else ()),
        )  # fmt: skip

    def at_work(self):
        """Return the number of the first process with rows in its working folder."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for runner, home in enumerate(self.homes):
                if any((home / "tmp").glob("equistrata-*/stratum*.npy")):
                    return runner
            time.sleep(0.005)
        raise AssertionError("nobody came to that")

    def end(self, runner, name):
        """Resume a charged release after it is killed.

        If the output is already used by the other release, a different output is used.
        """
        resumed = self.starts[runner]("resume", f"{name}-{runner}")
        code, (_, error) = resumed.wait(), resumed.told
        if code == 2 and "is not this release" in error:
            resumed = self.starts[runner]("resume", f"{name}-{runner}", "--output", self.shared / f"{name}-{runner}")
            code, (_, error) = resumed.wait(), resumed.told
            assert code == 0, error
            assert check_manifest(self.shared / f"{name}-{runner}")
        assert code == 0 or "is saved in" in error, error  # killed at its very end
        assert {charge.outcome for charge in self.ledger.charges("people", f"{name}-{runner}")} == {"committed"}

    def leftovers(self):
        """Return the temporary files next to the outputs, and the working folders."""
        beside = [path for path in self.shared.iterdir() if path.name.startswith(".")]
        return [*beside, *(path for home in self.homes for path in (home / "tmp").glob("equistrata-*"))]


@pytest.fixture
def contest(tmp_path, people, prefect_server):
    shared = tmp_path / "shared"
    shared.mkdir()
    homes = [tmp_path / name for name in ("one", "two")]
    with ExitStack() as stack:
        starts = []
        for number, home in enumerate(homes):
            (home / "tmp").mkdir(parents=True)
            environment = {
                "PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(home / "prefect"), "TMPDIR": str(home / "tmp"),
                "EQUISTRATA_STATE": str(tmp_path / f"state{number}"),
            }  # fmt: skip
            starts.append(stack.enter_context(forked_cli(home, environment)))
        yield Contest(starts, homes, shared, people)


def disturb(run, kind, rng):
    """Stop or kill a process. If the process is stopped, it is continued after a few seconds."""
    with suppress(ProcessLookupError):
        os.killpg(run.process, kind)
        if kind == signal.SIGSTOP:
            time.sleep(rng.uniform(0, 3))
            os.killpg(run.process, signal.SIGCONT)


@pytest.mark.slow
def test_pairs_of_releases_into_one_output(contest):
    rng, seen, duration = random.Random(3), [], 0.0
    for pair in range(PAIRS):
        name, charged, began = f"out{pair}", pair % 3 != 2, time.monotonic()
        runs = [contest.begin(runner, name, charged) for runner in range(2)]
        if pair >= PAIRS - DISTURBED:
            if pair % 3:  # the process with the claim, while it charges, draws or writes the release
                chosen = runs[contest.at_work()]
                time.sleep(rng.uniform(0, 1))
            else:
                chosen = rng.choice(runs)
                time.sleep(rng.uniform(0, duration))
            disturb(chosen, rng.choice([signal.SIGSTOP, signal.SIGKILL]), rng)
        codes = [run.wait() for run in runs]
        if pair < PAIRS - DISTURBED:
            duration = time.monotonic() - began if pair < 2 else (3 * duration + time.monotonic() - began) / 4
        winners = [runner for runner, code in enumerate(codes) if code == 0]
        assert len(winners) <= 1, [run.told for run in runs]
        output, charges = contest.shared / name, []
        for runner, (run, code) in enumerate(zip(runs, codes, strict=True)):
            charges.append(len(contest.ledger.charges("people", f"{name}-{runner}")))
            lines = [line for line in run.told[1].splitlines() if not line.startswith("release ")]
            if code == 0:
                assert check_manifest(output)
                assert json.loads((output / "card.json").read_text())["config"]["rows"] == 100 + runner
                assert charges[-1] == charged
            elif code != -signal.SIGKILL:
                assert code == 2, run.told
                assert [line.split(":")[0] for line in lines] == ["error"], run.told
                assert "output folder" in lines[0]
                assert charges[-1] == 0, "it lost before it drew anything"
        whole = output.exists() and check_manifest(output)
        seen.append((codes, charges, bool(whole)))
        for runner, code in enumerate(codes):
            if code == -signal.SIGKILL and charges[runner]:
                contest.end(runner, name)
    print(*seen, sep="\n")
    for runner, start in enumerate(contest.starts):  # each resume removes old files
        listed = start("resume")
        assert listed.wait() == 0, runner
    assert contest.leftovers() == []
    assert sum(0 in codes for codes, *_ in seen) >= PAIRS - DISTURBED
    assert any(-signal.SIGKILL in codes for codes, *_ in seen)
