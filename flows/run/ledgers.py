"""Ledgers as they are opened by runs, with the newest head of each ledger in the state folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.config.places import Place
from equistrata.flows.run.journal import state_folder
from equistrata.privacy.ledger.ledger import Ledger


def open_ledger(place: Place) -> Ledger:
    """Open a ledger. An unusable URL raises a LedgerError."""
    heads: Path | None = None
    with suppress(InputError):  # there is no home folder, so heads are not stored
        heads = state_folder()
    return Ledger(place.url, heads=heads)
