"""A program that forks processes which compete for the same output folder or are killed while they use it.

It reads one JSON object per line, {"kind", "folder", "environment", …}, and prints one answer for each. There are three
kinds:

- "race": RUNNERS processes write their files to the same output folder. The answer has the exit codes, the messages,
the owners of the files and the names of other files.
- "workspace": A process is killed while its private working folder contains rows.
- "claim": A process is killed while it has a claim on the output folder.
"""

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from unsynced import no_power_cut

from equistrata.errors import InputError
from equistrata.flows.run.landing import claimed_output, land
from equistrata.flows.run.workspace import Workspace, private_workspace, remove_dead_workspaces

RUNNERS, FILES, LOST = 4, 12, 2


def stage(home, number):
    """Make a working folder with staged files that contain the given number."""
    root = home / f"work{number}"
    (root / "release" / "measurements").mkdir(parents=True)
    for file in range(FILES):
        (root / "release" / ("measurements" if file % 2 else ".") / f"{file}.txt").write_text(str(number) * 3000)
    return Workspace(root)


def spellings(home):
    """Return the different names of one output folder that the RUNNERS use."""
    (home / "link").symlink_to(home)
    return [home / "out", Path("out"), home / "link" / "out", home / "sub" / ".." / "out"]


def runner(work, output, gate, told):
    """Move the files to the output as soon as the gate is closed, and never return."""
    with suppress(BaseException):
        os.read(gate, 1)
        try:
            land(work, output)
            os._exit(0)
        except InputError as refused:
            os.write(told, f"{refused}\n".encode())
            os._exit(LOST)
    os._exit(1)


def race(home, deadly, rng):
    """Run one race and return its results.

    All processes start when the gate is closed, and some are stopped or killed at random times.
    """
    home.mkdir()
    (home / "sub").mkdir()
    os.chdir(home)
    works = [stage(home, number) for number in range(RUNNERS)]
    gate, opener = os.pipe()
    listener, told = os.pipe()
    children = []
    for work, output in zip(works, spellings(home), strict=True):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.setpgid(0, 0)
            runner(work, output, gate, told)
        children.append(child)
    os.close(gate)
    os.close(told)
    os.close(opener)
    stopped = []
    if deadly:
        for child in rng.sample(children, 2):
            time.sleep(rng.uniform(0, 0.012))
            with suppress(ProcessLookupError):
                number = rng.choice([signal.SIGKILL, signal.SIGSTOP])
                os.kill(child, number)
                if number == signal.SIGSTOP:
                    stopped.append(child)
    time.sleep(0.02 if stopped else 0)
    for child in stopped:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGCONT)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    with os.fdopen(listener) as lines:
        sentences = lines.read().splitlines()
    out = home / "out"
    files = sorted(path for path in out.rglob("*") if path.is_file())
    remove_dead_workspaces()
    beside = sorted(set(os.listdir(home)) - {"out", "link", "sub", *(f"work{n}" for n in range(RUNNERS))})
    contents = {path.read_text()[:1] for path in files}
    return {
        "codes": codes, "there": os.path.lexists(out), "files": len(files), "owners": sorted(contents),
        "sentences": sentences, "beside": beside,
    }  # fmt: skip


def dying(kind, folder):
    """Run the process that is killed, and never return."""
    with suppress(BaseException):
        if kind == "workspace":
            with private_workspace(str(folder)) as work:
                (work.root / "stratum0.npy").write_text("rows")
                os._exit(9)
        with claimed_output(folder) as place:
            (place / "half").mkdir()
            (place / "half" / "synthetic.csv").write_text("half")
            os._exit(9)
    os._exit(1)


def main():
    """Answer each line until the end of the input."""
    no_power_cut()
    for line in sys.stdin:
        order = json.loads(line)
        kind, folder = order["kind"], Path(order["folder"])
        os.environ.update(order["environment"])
        if kind == "race":
            answer = race(folder, order["deadly"], random.Random(order["seed"]))
        else:
            child = os.fork()
            if child == 0:
                dying(kind, folder)
            answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
