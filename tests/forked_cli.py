"""The command line again and again, each time in a new process with all imports done: for tests that kill it.

As a program it reads lines of JSON, {"arguments", "environment", "folder", "memory", "stdout", "stderr"}. For each it
forks a child that leads a process group and is `equistrata ARGUMENTS` in that folder, with that environment if one is
given, and at most so many bytes of memory, and then a minute of a processor. It
answers with the child's number, and with its exit status when it has ended. Nothing but the imports is shared: the
child starts Prefect's client, its threads and its worker processes itself. Prefect reads its settings when it is
imported, so where a child is to have settings of its own the program is started with the word "light", and leaves
Prefect to the child.
"""

import atexit
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass
class Run:
    """One started command."""

    process: int
    answers: IO[str]
    stdout: Path
    stderr: Path
    code: int | None = None

    def wait(self):
        """Its exit status, as `subprocess` has it: negative for a signal."""
        if self.code is None:
            self.code = json.loads(self.answers.readline())
        return self.code

    @property
    def told(self):
        return self.stdout.read_text(), self.stderr.read_text()


@contextmanager
def forked_cli(folder, environment, *words):
    """Gives `start(*arguments)`; of its runs, wait for one before the next is started.

    `start` takes another `folder` to run in, another `environment`, which then is the whole of it, and how many bytes
    of `memory` the command may have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script, home = Path(__file__).resolve(), folder
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "EQUISTRATA_"))}
    with subprocess.Popen(
        [sys.executable, script, *words], cwd=script.parents[1], env=kept | environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip

        def start(*arguments, folder=home, environment=None, memory=None):
            stdout, stderr = home / "stdout", home / "stderr"
            order = {"arguments": [*map(str, arguments)], "folder": str(folder), "environment": environment}
            order["memory"] = memory
            server.stdin.write(json.dumps(order | {"stdout": str(stdout), "stderr": str(stderr)}) + "\n")
            server.stdin.flush()
            return Run(json.loads(server.stdout.readline()), server.stdout, stdout, stderr)

        yield start
        server.stdin.close()


def child(order):
    """Be the command; never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(order["folder"])
        if order["memory"]:
            resource.setrlimit(resource.RLIMIT_AS, (order["memory"], order["memory"]))
            resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        if order["environment"] is not None:
            os.environ.clear()
            os.environ.update(order["environment"])
            tempfile.tempdir = None
        for name, number in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.argv = ["equistrata", *order["arguments"]]
        equistrata.flows.cli.main.main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()  # as an interpreter does that ends: a server of Prefect's own ends with it
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main():
    """Answer until the input ends."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(json.loads(line))
        with suppress(OSError):  # both sides do it: whoever reads the number may kill the group at once
            os.setpgid(process, process)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    gc.disable()  # nothing of what is imported is garbage
    from unsynced import no_power_cut

    import equistrata.analysis.series.releases
    import equistrata.flows.audit.expected
    import equistrata.flows.cli.main
    import equistrata.flows.publication.verified
    import equistrata.flows.release.plan
    import equistrata.flows.release.undertaking
    import equistrata.inference.means.hierarchical
    import equistrata.privacy.ledger.ledger

    no_power_cut()
    if "light" in sys.argv:
        assert "prefect" not in sys.modules
    else:
        import equistrata.flows.run.foreground

        equistrata.flows.config.places.prepare_prefect(verbose=False)
        import equistrata.flows.release.flow

    gc.enable()
    gc.freeze()  # a child that looks through all that was imported copies the memory it lies in
    main()
