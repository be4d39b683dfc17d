"""Tests of a flow that runs in the process of a command when its Prefect server has stopped."""

import io
import json
import logging
import sys
import traceback
import unicodedata
import warnings
from contextlib import nullcontext

import httpx
import pytest
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from equistrata.errors import InputError
from equistrata.flows.cli import console
from equistrata.flows.cli.console import flow_here, note, print_anything, print_json, print_lines, print_prose, table
from equistrata.flows.run.foreground import progress_bars


@pytest.fixture(autouse=True)
def no_prefect(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(console, "foreground", lambda *_: nullcontext())


def _fails(error, cause=None):
    with flow_here(False):
        raise error from cause


def test_a_server_that_is_gone_is_said_in_a_sentence():
    """Prefect does not catch the error of its client when it reports the end of a flow, so the user used to see 130
    lines of traceback.
    """
    refused = httpx.ConnectError("refused")
    for error, cause in ((refused, None), (RuntimeError("flow run"), refused)):
        with pytest.raises(InputError, match="server stopped during the run"):
            _fails(error, cause)


def test_other_errors_are_let_through():
    with pytest.raises(ZeroDivisionError):
        _fails(ZeroDivisionError())


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "? = 1, ?"), ("latin-1", "? = 1, é"), ("utf-8", "ε = 1, é")])
def test_what_an_encoding_has_not_ends_no_command(monkeypatch, encoding, shown):
    """The command `estimate` used to end in a traceback, with and without `--json`."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, write_through=True))
    print_anything()
    print_lines("ε = 1, é")
    assert written.getvalue().decode(encoding) == f"{shown}\n"
    print_json({"ε": "é"})
    assert json.loads(written.getvalue().decode(encoding)[len(shown) :]) == {"ε": "é"}


HOSTILE = "A\x1b[8mB\x1b]0;title\x07C\rD\x9bE\u202eF\u2066G\u200bH\ud800I\U000e0041J"
SHOWN = r"A\u001b[8mB\u001b]0;title\u0007C\u000dD\u009bE\u202eF\u2066G\u200bH\ud800I\udb40\udc41J"


def _table(console):
    grid = table(Text(HOSTILE), HOSTILE, ">n")
    grid.add_row(HOSTILE, Text(HOSTILE))
    console.print(grid)


def _traceback(console):
    try:
        raise KeyError(Text(HOSTILE))
    except KeyError:
        traceback.print_exc()


WAYS = {
    "print": lambda console: print(HOSTILE),
    "error": lambda console: print(HOSTILE, file=sys.stderr),
    "log": lambda console: logging.StreamHandler().emit(logging.makeLogRecord({"msg": HOSTILE})),
    "warning": lambda console: sys.stderr.writelines([warnings.formatwarning(HOSTILE, UserWarning, "file", 1)]),
    "json": lambda console: print_json({"label": HOSTILE}),
    "lines": lambda console: print_lines(HOSTILE, console=console),
    "prose": lambda console: print_prose(HOSTILE),
    "note": lambda console: note("[bold]note:[/]", HOSTILE),
    "text": lambda console: console.print(Text(HOSTILE)),
    "assembled": lambda console: console.print(Text.assemble("it is ", (HOSTILE, "bold"))),
    "markup": lambda console: console.print(f"[bold]{escape(HOSTILE)}[/]"),
    "table": _table,
    "traceback": _traceback,
}


def test_a_bar_keeps_its_own_sequences_and_text_beside_it_has_none(monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8", write_through=True)
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    print_anything()
    with progress_bars(Console(stderr=True, force_terminal=True, color_system="standard")) as listener:
        listener(HOSTILE, 1, 2)
        print(HOSTILE, file=sys.stderr)
    text = written.getvalue().decode("utf-8")
    assert "\x1b[2K" in text, "the bar is taken away at its end"
    assert r"\u001b[2K" not in text
    assert text.count(SHOWN) >= 1
    assert not [part for part in ("\x1b[8m", "\x1b]0;", "\u202e", "\x9b") if part in text]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_terminal_would_act_on_is_shown_as_an_escape(way, monkeypatch):
    """The text of a label is also escaped if the terminal has colours."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "utf-8", write_through=True)
    stream.isatty = lambda: True
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    colourful = Console(force_terminal=True, width=400, color_system="standard")
    monkeypatch.setattr(console, "out", colourful)
    monkeypatch.setattr(console, "err", colourful)
    print_anything()
    WAYS[way](colourful)
    text = written.getvalue().decode("utf-8")
    own = text.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[3m", "").replace("\x1b[1;36m", "")
    hidden = [each for each in own if unicodedata.category(each) in ("Cc", "Cf", "Cs") and each not in "\n\t"]
    assert hidden == []
    assert SHOWN in own or way in ("traceback", "json", "prose")
    if way == "json":
        assert json.loads(text) == {"label": HOSTILE}
