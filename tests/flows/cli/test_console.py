"""A flow that runs in a command's own process, whose Prefect server is gone."""

from contextlib import nullcontext

import httpx
import pytest

from equistrata.errors import InputError
from equistrata.flows.cli import console
from equistrata.flows.cli.console import flow_here


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
