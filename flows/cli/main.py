"""The entry point of the command line, which imports the modules of all commands."""

from __future__ import annotations

import errno
import os
import sys

from equistrata.errors import EquistrataError, InputError

# Each module adds its commands to `app`. The order of the imports is the order in `equistrata --help`.
from equistrata.flows.cli import drafting, release, audit, publish  # isort: skip # noqa: F401
from equistrata.flows.cli.reading import estimate, tables, verify  # isort: skip # noqa: F401
from equistrata.flows.cli.planning import plan  # isort: skip # noqa: F401
from equistrata.flows.cli import federate, score, schema, budget  # isort: skip # noqa: F401
from equistrata.flows.cli.reading import series  # isort: skip # noqa: F401
from equistrata.flows.cli import setup  # isort: skip # noqa: F401
from equistrata.flows.cli.console import note, print_anything, print_lines
from equistrata.flows.cli.options import app
from equistrata.flows.run.disk import disk_full, shortened
from equistrata.flows.run.signals import exit_on_sigterm

__all__ = ["app", "main"]

NOT_ALLOWED = errno.EACCES, errno.EPERM, errno.EROFS


def main() -> None:
    """Run the command line. An error of equistrata is printed as one sentence and determines the exit code."""
    print_anything()
    try:
        try:
            os.getcwd()
        except FileNotFoundError:  # relative paths are not valid in this case
            raise InputError("the current folder no longer exists; change to another one") from None
        with exit_on_sigterm():
            app(prog_name="equistrata")  # the name is needed for completion, also with `python -m`
    except EquistrataError as error:
        _end(str(error), error.exit_code)
    except MemoryError:
        _end("there is not enough memory for this; ask for less at a time, or use a machine with more memory", 2)
    except OSError as error:
        sentence: object = disk_full(error)  # errors of the file system that can occur for any file
        if error.errno == errno.ENAMETOOLONG:
            shown = shortened(str(error.filename or ""))
            sentence = f"{shown!r} is too long for a name or path on this system; give a shorter one"
        if sentence is None and error.errno in NOT_ALLOWED and error.filename:
            reason = os.strerror(error.errno).lower()
            sentence = f"{shortened(os.fsdecode(error.filename))!r} cannot be used ({reason}); check its permissions"
        if sentence is None:
            raise
        _end(str(sentence), InputError.exit_code)


def _end(sentence: str, code: int) -> None:
    if code == 0:  # the requested result already exists
        return print_lines(sentence)
    note("[bold red]error:[/]", sentence)
    sys.exit(code)


if __name__ == "__main__":
    main()
