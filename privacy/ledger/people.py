"""Accounts of the same people, declared by the steward or recognised by the fingerprints of their rows.

A budget protects people, not a name: the prices of two accounts of the same people add up. So the same rows under a
second name are refused, unless that account was opened as the same people's; then both are shown with their sum.
See docs/proofs/budget.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.chain import Entry
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.store import LedgerError


@dataclass(frozen=True)
class SamePeople:
    """Accounts of the same people.

    Attributes:
        datasets: their names, in the order in which they were opened; two at least.
        rho: what their budgets allow together.
        delta: the smallest of theirs.
    """

    datasets: tuple[str, ...]
    rho: Rho
    delta: float

    @property
    def epsilon(self) -> float:
        """What `rho` is at `delta`."""
        return self.rho.epsilon(self.delta)

    def __str__(self) -> str:
        named = ", ".join(self.datasets[:-1]) + f" and {self.datasets[-1]}"
        return (
            f"{named} hold the same people, so their prices add up: all their budgets together are "
            f"ρ = {float(self.rho):.6g} (ε = {self.epsilon:.4g} at δ = {self.delta:g})"
        )


def same_people(accounts: Sequence[Entry]) -> list[SamePeople]:
    """The groups of accounts that were opened as the same people's, in order."""
    groups: list[list[Entry]] = []
    for account in accounts:
        joined = [group for group in groups if any(each.dataset in account.same_people_as for each in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(each for group in joined for each in group), account])
    found = []
    for group in groups:
        if len(group) > 1:
            names = tuple(each.dataset for each in sorted(group, key=lambda each: each.entry))
            delta = min(each.delta for each in group if each.delta is not None)
            found.append(SamePeople(names, sum((each.rho for each in group), start=Rho(0)), delta))
    return sorted(found, key=lambda group: group.datasets)


def check_people(dataset: str, fingerprint: str | None, accounts: Sequence[Entry], charges: Iterable[Entry]) -> None:
    """Raise LedgerError if the rows to be charged to `dataset` are those of an account of other people, or if their
    fingerprint cannot be compared with one of the other accounts' charges."""
    mine: set[str] = {dataset}
    for group in same_people(accounts):
        mine.update(group.datasets if dataset in group.datasets else ())
    told = Fingerprint.parse(fingerprint)
    for charge in charges:
        theirs = Fingerprint.parse(charge.fingerprint)
        if theirs is None or charge.dataset in mine:
            continue
        if theirs.key and (told is None or told.key != theirs.key):
            raise LedgerError(
                f"whether these rows are those of data set {charge.dataset!r} cannot be told, since its fingerprints "
                f"were made with {'a' if told is None else 'another'} key; bring that key back (EQUISTRATA_LEDGER_KEY, "
                "or the file .key beside the ledger)"
            )
        if told is not None and told.alike(theirs):
            raise LedgerError(
                f"these rows are those of data set {charge.dataset!r} (release {charge.release_id!r}), and a budget "
                f"belongs to people, not to a name; charge that account, or open one with equistrata budget create "
                f"NAME --same-people-as {charge.dataset}"
            )
