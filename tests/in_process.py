"""The command line inside the test's own process: quick, and what it imports can be patched."""

from __future__ import annotations

import pytest

from equistrata.flows.cli.main import main


def command(monkeypatch, capsys, *arguments):
    """Run `equistrata` with these arguments; its exit code, and what it wrote to stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["equistrata", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err
