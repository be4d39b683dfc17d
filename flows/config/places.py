"""The places of a ledger and of Prefect's files.

Credentials are read from the environment or from a Prefect block, and never from settings.
"""

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
    """Check that the name of a ledger does not contain a password, and return it.

    Settings are stored by the orchestrator and shown by `ps`, so they must not contain a secret. The error does not
    quote the name.

    Raises
    ------
    InputError
        If the name contains a password.
    """
    if "://" in named:
        try:
            parts = urlsplit(named)
            open_secret = parts.password is not None or SECRETS.search(parts.query) is not None
        except ValueError:
            open_secret = True
        if open_secret:
            raise InputError(
                f"a ledger's URL must not be given with a password in the settings; use {URL_VARIABLE} or block:NAME"
            )
    return named


LedgerPlace = Annotated[str, AfterValidator(without_credentials)]


@dataclass(frozen=True)
class Place:
    """The place of a ledger. Both attributes may be secret and are never shown.

    Attributes
    ----------
    url : str
        The URL of the ledger.
    key : str or None
        The key for fingerprints, if it is given.
    """

    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)


def place_of(named: str | None) -> Place:
    """Return the place of a ledger.

    Parameters
    ----------
    named : str or None
        A path, a URL without a password, or "block:NAME" for a Prefect Secret block. A block contains a URL or {"url":
        …, "key": …}. If None, the variable EQUISTRATA_LEDGER_URL is used, which may contain a password.

    Returns
    -------
    Place
        The URL and the key.

    Raises
    ------
    InputError
        If no ledger is named, if the name contains a password, or if the block does not exist.
    """
    url = without_credentials(named) if named else os.environ.get(URL_VARIABLE)
    if not url:
        raise InputError(f"no ledger is named; give one with --ledger, or set {URL_VARIABLE}")
    return _from_block(url.removeprefix(BLOCK)) if url.startswith(BLOCK) else Place(url)


def prepare_prefect(verbose: bool) -> None:
    """Set up Prefect and its private home folder. Call this function before Prefect is imported.

    Raises
    ------
    InputError
        If the home folder is not writable.
    """
    set_prefect(verbose)
    home = prefect_home()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=home):  # an existing folder may be on a disk that is read-only by now
            pass
    except OSError as error:
        if error.errno in _FULL:  # the command reports this error
            raise
        raise InputError(
            f"Prefect's folder {str(home)!r} cannot be made or written to; set PREFECT_HOME to one where you may write"
        ) from None


def prefect_home() -> Path:
    """Return the folder in which Prefect stores its files. If there is no home folder, raise an InputError."""
    return in_home(os.environ.get("PREFECT_HOME", "~/.prefect"))


def in_home(path: str) -> Path:
    """Expand a path that may begin with ~.

    Raises
    ------
    InputError
        If there is no home folder, for example in a container for a user without a name.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError("there is no home folder; set HOME to one where you may write") from None


def set_prefect(verbose: bool) -> None:
    """Set the options of Prefect for this process and its child processes.

    Telemetry is disabled, the server of Prefect has more time to start, and the log is hidden unless `verbose` is True.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    if not verbose:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
        # The queue workers of Prefect use loggers with their class names, which are outside its own hierarchy.
        for worker in ("EventsWorker", "APILogWorker"):
            logging.getLogger(worker).setLevel(logging.CRITICAL)


def _from_block(name: str) -> Place:
    prepare_prefect(verbose=False)
    from prefect.blocks.system import Secret

    try:
        value = Secret.load(name, _sync=True).get()  # type: ignore[call-arg, union-attr]
    except Exception:  # the message of Prefect may contain the address of the server or the content of the block
        raise InputError(
            f"Prefect Secret block {name!r} cannot be loaded; create it, and set PREFECT_API_URL to its server"
        ) from None
    found = value if isinstance(value, Mapping) else {"url": value}
    url, key = found.get("url"), found.get("key")
    if not isinstance(url, str) or not isinstance(key, str | None):
        raise InputError(f'Prefect Secret block {name!r} needs a URL as its value, or {{"url": …, "key": …}}')
    return Place(url, key)
