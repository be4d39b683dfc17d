"""A flow that runs in a command's own process, whose Prefect server is gone."""

import io
import json
import sys
from contextlib import nullcontext

import httpx
import pytest

from equistrata.errors import InputError
from equistrata.flows.cli import console
from equistrata.flows.cli.console import flow_here, print_anything, print_json, print_lines


@pytest.fixture(autouse=True)
def no_prefect(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(console, "foreground", lambda *_: nullcontext())


def _fails(error, cause=None):
    with flow_here(False):
        raise error from cause


def test_a_server_that_is_gone_is_said_in_a_sentence():
    """Prefect lets the client's error through where it tells the server how a flow ended: a traceback of 130 lines."""
    refused = httpx.ConnectError("refused")
    for error, cause in ((refused, None), (RuntimeError("flow run"), refused)):
        with pytest.raises(InputError, match="server ended meanwhile"):
            _fails(error, cause)


def test_other_errors_are_let_through():
    with pytest.raises(ZeroDivisionError):
        _fails(ZeroDivisionError())


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "? = 1, ?"), ("latin-1", "? = 1, é"), ("utf-8", "ε = 1, é")])
def test_what_an_encoding_has_not_ends_no_command(monkeypatch, encoding, shown):
    """`estimate` had ended in a traceback, and its JSON too."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, write_through=True))
    print_anything()
    print_lines("ε = 1, é")
    assert written.getvalue().decode(encoding) == f"{shown}\n"
    print_json({"ε": "é"})
    assert json.loads(written.getvalue().decode(encoding)[len(shown) :]) == {"ε": "é"}
