"""The month of a series that a release is: its price by the ledger, and the former release that it learns from.

Which month it is, what it may cost and which release came before it follow from the ledger's entries alone. The former
release is a published folder, found beside the output or named by the setting `former`; its state of the series
(`equistrata.synth.series`) is made of published noisy numbers, so to learn from it costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equistrata.analysis.contents.card import ledger_of
from equistrata.analysis.release import Release
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.account import Account, cards_in
from equistrata.flows.run.journal import Journal
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.chain import Charge, charges_of
from equistrata.privacy.ledger.series import Series, Standing
from equistrata.synth.series.state import STATE, State, alike

_OPENED = ("sigma", "least", "delta", "drawn")  # of a card's open columns: what the price of groups follows from

Books = tuple[str, str]  # a ledger's identity, and a data set


@dataclass(frozen=True, eq=False)
class FormerRelease:
    """A published release of the series.

    Attributes:
        release: its id in the ledger.
        month: which of the series it is.
        digest: SHA-256 of its state; None where a foreign synthesizer kept no measurements, and so no state.
        schema: of its columns.
        state: of the series after it.
        folder: where it is.
        books: that it was charged to.
        opened: by which thresholds values of open columns were found, in it and in the months that it learned from.
    """

    release: str
    month: int
    digest: str | None
    schema: Schema
    state: State | None
    folder: Path
    books: Books
    opened: tuple[Mapping[str, float], ...] = ()

    @classmethod
    def open(cls, folder: Path, series: str) -> FormerRelease:
        """Read a folder once its manifest was checked. Raises InputError if it is no release of that series."""
        found = Release.open(folder)
        where, said, ledger = f"release {str(folder)!r}", found.card.get("series"), ledger_of(found.card)
        if said is None or said["name"] != series or ledger is None:
            raise InputError(
                f"{where} is no release of series {series!r}; name the folder of its last one with --former"
            )
        month, books = said["month"], (ledger["ledger"], ledger["dataset"])
        path = folder / STATE
        digest, state = (_digest(path), State.load(path)) if path.exists() else (None, None)
        if state is not None and state.month != month:
            raise InputError(f"{where} is of month {month} by its card, and of another by {STATE}; fetch it again")
        every = [*found.card.get("open", ()), *said.get("opened", ())]
        opened = tuple({name: each[name] for name in _OPENED} for each in every)
        return cls(ledger["release_id"], month, digest, found.schema, state, folder, books, opened)


@dataclass(frozen=True, eq=False)
class SeriesMonth:
    """A release as a month of a series.

    Attributes:
        standing: by the ledger.
        former: the last release of the series that is whole; None for the first.
        unfinished: releases of months before it that are charged and may be resumed on this machine.
    """

    standing: Standing
    former: FormerRelease | None
    unfinished: tuple[str, ...] = ()

    @property
    def series(self) -> Series:
        """Its series."""
        return self.standing.series

    @property
    def number(self) -> int:
        """Which month it is, from 1."""
        return self.standing.number

    @property
    def price(self) -> Rho:
        """What it costs."""
        return self.standing.price

    @property
    def warning(self) -> str | None:
        """A sentence about months before it that were charged and not finished, if there are any."""
        if not self.unfinished:
            return None
        return (
            f"of series {self.series.name!r} {', '.join(map(repr, self.unfinished))} was charged and is not finished, "
            f"so month {self.number} learns nothing from it; finish it first: equistrata resume"
        )

    def known(self, strata: Strata) -> State | None:
        """What the series knew before, of marginals that mean the same now; None in the first month."""
        former = self.former
        if former is None or former.state is None:
            return None
        return former.state.fitting(strata, former.schema.modelled)

    def anew(self, schema: Schema) -> list[str]:
        """Columns of a modelled schema that the former release lacks or codes otherwise: of them it says nothing."""
        if self.former is None:
            return []
        before, state = self.former.schema.modelled, self.former.state
        same = alike(schema, before) if state is None else state.alike(schema, before)
        return [name for name in schema.names if name not in same]

    def changed(self, schema: Schema, but: Sequence[str] = ()) -> str | None:
        """A sentence about columns but these that are measured anew, as a slip in a schema would have it, if any."""
        if not (found := [name for name in self.anew(schema) if name not in but]):
            return None
        assert self.former is not None
        return (
            f"of month {self.former.month} of series {self.series.name!r} nothing is learned about "
            f"{', '.join(map(repr, found))}, which it lacks or codes otherwise; if that is a slip, mend the schema"
        )

    def bound(self) -> dict[str, Any]:
        """What a charge is bound to: plain values."""
        former = None if self.former is None else [self.former.release, self.former.month, self.former.digest]
        return {"name": self.series.name, "month": self.number, "former": former}

    def statement(self, own: float, schema: Schema) -> dict[str, Any]:
        """The series' part of a card, for a release that cost so much in ρ and models this schema: its `own` price, and
        that of all months `so_far`, which is the price of its folder."""
        total, so_far = self.series.total, Rho(own) + self.standing.earlier
        delta, former = self.series.delta, self.former
        return {
            "name": self.series.name,
            "month": self.number,
            "horizon": self.series.horizon,
            "unit": "all months together",
            "own": {"rho": own, "epsilon": Rho(own).epsilon(delta), "delta": delta},
            "so_far": {"rho": float(so_far), "epsilon": so_far.epsilon(delta), "delta": delta},
            "at_its_end": {"rho": float(total), "epsilon": self.series.epsilon, "delta": delta},
            "opened": [] if former is None else list(former.opened),
            "former": None
            if former is None
            else {
                "release_id": former.release,
                "month": former.month,
                "state": former.digest,
                "anew": self.anew(schema),
            },
        }


def series_named(config: ReleaseConfig) -> Series | None:
    """The series that a configuration names, if any."""
    named = config.series
    if named.name is None or named.horizon is None:
        return None
    return Series(named.name, named.horizon, config.epsilon, config.delta, named.front)


def month_of(config: ReleaseConfig, account: Account, published: bool = False) -> SeriesMonth | None:
    """The month that a release is, if it is one of a series. Nothing is written or charged.

    Args:
        published: whether the release is whole, and needs no former one any more.

    Raises:
        InputError: a month beyond the horizon or the series' budget, or the former release is not there.
        LedgerError: the series was begun with another horizon or budget.
    """
    series = series_named(config)
    if series is None:
        return None
    history = account.ledger.history(account.dataset)
    reserved = [charge.entry for charge in charges_of(history)]
    standing = series.standing(reserved, config.release_id)
    if published:
        return SeriesMonth(standing, None)
    books = account.ledger.identity, account.dataset
    # One that was charged learns from what was whole then, whatever was finished since.
    begun = next((entry.entry for entry in reserved if entry.release_id == config.release_id), None)
    then = charges_of(entry for entry in history if begun is None or entry.entry < begun)
    whole = [name for name in standing.before if _whole(then, name)]
    left = tuple(name for name in standing.before if name not in whole and Journal.of(name) is not None)
    return SeriesMonth(standing, _former(config, series, whole[-1], books) if whole else None, left)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _whole(charges: Sequence[Charge], release: str) -> bool:
    outcomes = [charge.outcome for charge in charges if charge.entry.release_id == release]
    return bool(outcomes) and all(outcome == "committed" for outcome in outcomes)


def _former(config: ReleaseConfig, series: Series, wanted: str, books: Books) -> FormerRelease:
    if config.former is not None:
        found = FormerRelease.open(Path(config.former), series.name)
        if found.release != wanted:
            raise InputError(
                f"the last release of series {series.name!r} is {wanted!r}, and {config.former!r} is "
                f"{found.release!r}; name the folder of the last one"
            )
        if found.books != books:
            raise InputError(
                f"{config.former!r} was charged to another ledger or data set than series {series.name!r}, so its "
                f"price is not in the series' budget; name the folder of this ledger's {wanted!r}"
            )
        return found
    beside = folders_of(Path(config.output).absolute().parent, series.name, books)
    if wanted in beside:
        return FormerRelease.open(beside[wanted], series.name)
    raise InputError(
        f"the last release of series {series.name!r}, {wanted!r}, is not beside the output {config.output!r}, and the "
        "next month learns from it; name its folder with --former"
    )


def folders_of(place: Path, series: str, books: Books | None = None) -> dict[str, Path]:
    """The releases of a series that are in a folder: id in the ledger → folder. Those of these books, if any are given,
    since a rehearsal with another ledger may have the same ids."""
    found: dict[str, Path] = {}
    for folder, card in cards_in(place):
        ledger, said = ledger_of(card), card.get("series")
        if ledger is None or said is None or said["name"] != series:
            continue
        if books is None or books == (ledger["ledger"], ledger["dataset"]):
            found.setdefault(ledger["release_id"], folder)
    return found
