"""A function that runs the command line in the process of the test, which is fast and allows patches."""

from __future__ import annotations

import pytest

from equistrata.flows.cli.main import main


def command(monkeypatch, capsys, *arguments):
    """Run `equistrata` with the given arguments and return the exit code, the output and the error output."""
    monkeypatch.setattr("sys.argv", ["equistrata", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err
