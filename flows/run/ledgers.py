"""Ledgers as runs open them: the newest head that was seen of each is kept in the state folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.config.places import Place
from equistrata.flows.run.journal import state_folder
from equistrata.privacy.ledger.ledger import Ledger


def open_ledger(place: Place) -> Ledger:
    """The ledger of a place. Raises LedgerError for an unusable URL."""
    heads: Path | None = None
    with suppress(InputError):  # there is no home: nothing is kept
        heads = state_folder()
    return Ledger(place.url, heads=heads)
