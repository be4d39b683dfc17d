"""Releases that belong to a series, with the price from the ledger and the former release from which they learn.

The number of the month, its price and the previous releases are determined by the entries of the ledger. The former
release is a published folder, which is next to the output or is named by the setting `former`. Its state of the series
(see `equistrata.synth.series`) only contains published noisy numbers, so that learning from it has no privacy cost.
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

_OPENED = ("sigma", "least", "delta", "drawn")  # the values of an open column that determine the price of groups

AccountKey = tuple[str, str]  # the identity of a ledger and the name of a data set


@dataclass(frozen=True, eq=False)
class FormerRelease:
    """A published release of the series.

    Attributes
    ----------
    release : str
        The id of the release in the ledger.
    month : int
        The number of its month.
    digest : str or None
        The SHA-256 hash of its state. It is None if a foreign synthesizer did not keep any measurements.
    schema : Schema
        The schema of its columns.
    state : State or None
        The state of the series after this release.
    folder : Path
        The folder of the release.
    books : tuple of str
        The ledger and the data set to which it was charged.
    opened : tuple of mapping
        The thresholds for the values of open columns, in this release and in the months from which it has learned.
    """

    release: str
    month: int
    digest: str | None
    schema: Schema
    state: State | None
    folder: Path
    books: AccountKey
    opened: tuple[Mapping[str, float], ...] = ()

    @classmethod
    def open(cls, folder: Path, series: str) -> FormerRelease:
        """Read a release folder and check its manifest.

        Parameters
        ----------
        folder : Path
            The folder.
        series : str
            The name of the series.

        Returns
        -------
        FormerRelease
            The release.

        Raises
        ------
        InputError
            If the folder is not a release of this series.
        """
        found = Release.open(folder)
        where, said, ledger = f"release {str(folder)!r}", found.card.get("series"), ledger_of(found.card)
        if said is None or said["name"] != series or ledger is None:
            raise InputError(
                f"{where} is not a release of series {series!r}; name the folder of its last release with --former"
            )
        month, books = said["month"], (ledger["ledger"], ledger["dataset"])
        path = folder / STATE
        digest, state = (_digest(path), State.load(path)) if path.exists() else (None, None)
        if state is not None and state.month != month:
            raise InputError(
                f"{where} is month {month} on its card, but another month in {STATE}; fetch the release again"
            )
        every = [*found.card.get("open", ()), *said.get("opened", ())]
        opened = tuple({name: each[name] for name in _OPENED} for each in every)
        return cls(ledger["release_id"], month, digest, found.schema, state, folder, books, opened)


@dataclass(frozen=True, eq=False)
class SeriesMonth:
    """A month of a series.

    Attributes
    ----------
    standing : Standing
        The month as recorded in the ledger.
    former : FormerRelease or None
        The last complete release of the series. It is None in the first month.
    unfinished : tuple of str
        The releases of earlier months that were charged and can be resumed on this machine.
    """

    standing: Standing
    former: FormerRelease | None
    unfinished: tuple[str, ...] = ()

    @property
    def series(self) -> Series:
        """The series."""
        return self.standing.series

    @property
    def number(self) -> int:
        """The number of the month, starting at 1."""
        return self.standing.number

    @property
    def price(self) -> Rho:
        """The price of the month."""
        return self.standing.price

    @property
    def warning(self) -> str | None:
        """A sentence about earlier months that were charged but are not complete, or None."""
        if not self.unfinished:
            return None
        return (
            f"series {self.series.name!r} has charged releases that are not finished "
            f"({', '.join(map(repr, self.unfinished))}), so month {self.number} learns nothing from them; finish them "
            "first with equistrata resume"
        )

    def known(self, strata: Strata) -> State | None:
        """Return the earlier measurements of the series for all marginals that still have the same meaning.

        In the first month, return None.
        """
        former = self.former
        if former is None or former.state is None:
            return None
        return former.state.fitting(strata, former.schema.modelled)

    def anew(self, schema: Schema) -> list[str]:
        """Return the columns that the former release does not have or codes in a different way.

        Nothing is learned about these columns.
        """
        if self.former is None:
            return []
        before, state = self.former.schema.modelled, self.former.state
        same = alike(schema, before) if state is None else state.alike(schema, before)
        return [name for name in schema.names if name not in same]

    def changed(self, schema: Schema, but: Sequence[str] = ()) -> str | None:
        """Describe the columns about which nothing is learned, because this may be caused by a mistake in the schema.

        Parameters
        ----------
        schema : Schema
            The schema of the modelled columns.
        but : sequence of str, default=()
            The columns that are ignored.

        Returns
        -------
        str or None
            One sentence. If there are no such columns, it is None.
        """
        if not (found := [name for name in self.anew(schema) if name not in but]):
            return None
        assert self.former is not None
        return (
            f"month {self.former.month} of series {self.series.name!r} is not used for {', '.join(map(repr, found))}, "
            "because it lacks these columns or codes them differently; if this is a mistake, correct the schema"
        )

    def bound(self) -> dict[str, Any]:
        """Return the values to which a charge is bound."""
        former = None if self.former is None else [self.former.release, self.former.month, self.former.digest]
        return {"name": self.series.name, "month": self.number, "former": former}

    def statement(self, own: float, schema: Schema) -> dict[str, Any]:
        """Return the part of the card that describes the series.

        Parameters
        ----------
        own : float
            The cost of this release in ρ.
        schema : Schema
            The schema of its modelled columns.

        Returns
        -------
        dict
            The statement. The entry `own` is the cost of this release. The entry `so_far` is the cost of all months so
            far, which is the cost of the release folder.
        """
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
    """Return the series that a configuration names, or None."""
    named = config.series
    if named.name is None or named.horizon is None:
        return None
    return Series(named.name, named.horizon, config.epsilon, config.delta, named.front)


def month_of(config: ReleaseConfig, account: Account, published: bool = False) -> SeriesMonth | None:
    """Return the month of a release that belongs to a series. Nothing is written or charged.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    account : Account
        The account that is charged.
    published : bool, default=False
        True if the release is complete, so that the former release is not needed any more.

    Returns
    -------
    SeriesMonth or None
        The month. If the release does not belong to a series, it is None.

    Raises
    ------
    InputError
        If the month is beyond the horizon or the budget of the series, or if the former release is not found.
    LedgerError
        If the series was started with another horizon or budget.
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
    # A charged release learns from the releases that were complete when it was charged, even if there are more by now.
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


def _former(config: ReleaseConfig, series: Series, wanted: str, books: AccountKey) -> FormerRelease:
    if config.former is not None:
        found = FormerRelease.open(Path(config.former), series.name)
        if found.release != wanted:
            raise InputError(
                f"the last release of series {series.name!r} is {wanted!r}, but {config.former!r} is "
                f"{found.release!r}; name the folder of the last release with --former"
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
        f"the next month of series {series.name!r} learns from its last release {wanted!r}, which is not "
        f"beside the output {config.output!r}; name its folder with --former"
    )


def folders_of(place: Path, series: str, books: AccountKey | None = None) -> dict[str, Path]:
    """Return the folders of the releases of a series, by their ids in the ledger.

    Parameters
    ----------
    place : Path
        The folder that contains the releases.
    series : str
        The name of the series.
    books : tuple of str or None, default=None
        If given, only return releases that were charged to this ledger and data set. Releases of a test with another
        ledger may have the same ids.

    Returns
    -------
    dict of str to Path
        The folders.
    """
    found: dict[str, Path] = {}
    for folder, card in cards_in(place):
        ledger, said = ledger_of(card), card.get("series")
        if ledger is None or said is None or said["name"] != series:
            continue
        if books is None or books == (ledger["ledger"], ledger["dataset"]):
            found.setdefault(ledger["release_id"], folder)
    return found
