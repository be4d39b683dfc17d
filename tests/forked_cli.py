"""A program that runs each command in a new process with all imports done, for the tests that kill a command.

It reads one JSON object per line, {"arguments", "environment", "folder", "memory", "stdout", "stderr"}. For each line
it forks a child that runs `equistrata ARGUMENTS` in this folder as the leader of a process group. If an environment is
given, it replaces the environment of the child. If a memory limit in bytes is given, the child may also use at most one
minute of processor time. The program prints the process id of the child and later its exit status.

Only the imports are shared, because the child starts the client of Prefect, its threads and its workers. Prefect reads
its settings when it is imported. If a child needs different settings, the program must be started with the argument
"light", so that Prefect is imported by the child.
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
    """A command that was started."""

    process: int
    answers: IO[str]
    stdout: Path
    stderr: Path
    code: int | None = None

    def wait(self):
        """Return the exit status, which is negative for a signal as in `subprocess`."""
        if self.code is None:
            self.code = json.loads(self.answers.readline())
        return self.code

    @property
    def told(self):
        return self.stdout.read_text(), self.stderr.read_text()


@contextmanager
def forked_cli(folder, environment, *words):
    """Return a function `start(*arguments)`. A run must end before the next run is started.

    The function has the optional parameters `folder`, `environment` and `memory`. The environment replaces all
    variables of the program, and the memory limit is in bytes.
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
    """Run the command in this process and never return."""
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
            atexit._run_exitfuncs()  # an interpreter does this at exit, and it stops a server that Prefect has started
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main():
    """Answer each line until the end of the input."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(json.loads(line))
        # Both processes set the group, because a reader may kill the group as soon as it has the id
        with suppress(OSError):
            os.setpgid(process, process)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    gc.disable()  # imported modules are never garbage
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
    gc.freeze()  # a garbage collection in a child would copy this memory
    main()
