"""Where a ledger and Prefect are: credentials come from the environment or a Prefect block, never from settings."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from equistrata.errors import InputError

URL_VARIABLE = "EQUISTRATA_LEDGER_URL"
BLOCK = "block:"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SECRETS = re.compile("pass|secret|key|token", re.IGNORECASE)


def without_credentials(named: str) -> str:
    """The name of a ledger as it may be written into a configuration or on a command line. Nothing of it is quoted.

    Raises InputError if it holds a password: settings are stored by the orchestrator and shown by `ps`.
    """
    if "://" in named:
        try:
            parts = urlsplit(named)
            open_secret = parts.password is not None or SECRETS.search(parts.query) is not None
        except ValueError:
            open_secret = True
        if open_secret:
            raise InputError(
                f"a ledger's URL with a password must not stand among the settings; use {URL_VARIABLE} or block:NAME"
            )
    return named


LedgerPlace = Annotated[str, AfterValidator(without_credentials)]


@dataclass(frozen=True)
class Place:
    """A ledger's URL, and the key for its fingerprints if there is one. Both may be secrets: never shown."""

    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)


def place_of(named: str | None) -> Place:
    """What the name of a ledger stands for: a path, a URL without a password, or "block:NAME" for a Prefect Secret
    block, which holds a URL or {"url": …, "key": …}. Without a name, EQUISTRATA_LEDGER_URL, which may hold a password.

    Raises InputError if none is named, the name holds a password, or the block is not there.
    """
    url = without_credentials(named) if named else os.environ.get(URL_VARIABLE)
    if not url:
        raise InputError(f"no ledger is named; give one with --ledger, or set {URL_VARIABLE}")
    return _from_block(url.removeprefix(BLOCK)) if url.startswith(BLOCK) else Place(url)


def prepare_prefect(verbose: bool) -> None:
    """Prefect's settings, and a private home for it; call it before Prefect is imported.

    Raises InputError if it may not write there.
    """
    set_prefect(verbose)
    home = prefect_home()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=home):  # an old home may be on a disk that is read-only now
            pass
    except OSError as error:
        if error.errno in _FULL:  # which the command says
            raise
        raise InputError(
            f"Prefect's folder {str(home)!r} cannot be made or written to; set PREFECT_HOME to one where you may write"
        ) from None


def prefect_home() -> Path:
    """Where Prefect keeps what it keeps. Raises InputError where there is no home."""
    return in_home(os.environ.get("PREFECT_HOME", "~/.prefect"))


def in_home(path: str) -> Path:
    """A path that may begin with ~. Raises InputError where that is nothing: in a container for a user without a name,
    say."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError("there is no home folder; set HOME to one where you may write") from None


def set_prefect(verbose: bool) -> None:
    """No telemetry, patience with Prefect's own server, and its log if wanted, for this process and those it starts."""
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    if not verbose:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
        # Prefect's queue workers log by their class names, outside its own hierarchy.
        for worker in ("EventsWorker", "APILogWorker"):
            logging.getLogger(worker).setLevel(logging.CRITICAL)


def _from_block(name: str) -> Place:
    prepare_prefect(verbose=False)
    from prefect.blocks.system import Secret

    try:
        value = Secret.load(name, _sync=True).get()  # type: ignore[call-arg, union-attr]
    except Exception:  # Prefect's own words may show the server's address or the block's content
        raise InputError(
            f"Prefect Secret block {name!r} cannot be loaded; create it, and set PREFECT_API_URL to its server"
        ) from None
    found = value if isinstance(value, Mapping) else {"url": value}
    url, key = found.get("url"), found.get("key")
    if not isinstance(url, str) or not isinstance(key, str | None):
        raise InputError(f'Prefect Secret block {name!r} needs a URL as its value, or {{"url": …, "key": …}}')
    return Place(url, key)
