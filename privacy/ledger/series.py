"""Series: releases of one data set that share a budget of their own, as the ledger's entries tell.

The charge of a month names its series among its parts: how many months there are, and (ε, δ) of all of them together.
So the chain covers it, on every database, and what is spent and left follows from the entries alone. A month is a
release: one that was resumed counts once, with all that was charged for it; one that was given up counts, too.

>>> year = Series("people", 12, 1.0, 1e-9)
>>> Series.parse(year.mark) == year, year.mark
(True, 'series people: 12 months at epsilon 1.0, delta 1e-09')
>>> year.standing([]).number, year.standing([]).price == year.total * Fraction(1, 12)
(1, True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from equistrata.errors import InputError
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.chain import Entry
from equistrata.privacy.ledger.store import LedgerError

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}"
_MARK = re.compile(rf"series ({NAME}): ([0-9]+) months at epsilon ([0-9.e+-]+), delta ([0-9.e+-]+)")


@dataclass(frozen=True)
class Series:
    """A series as each of its charges states it.

    Attributes:
        name: of 1 to 60 letters, digits, and . _ -
        horizon: how many months it has at most.
        epsilon, delta: of all of them together, for one unit.
        front: how many times as much as another the first month costs; once that is charged, its charge says it.
    """

    name: str
    horizon: int
    epsilon: float
    delta: float
    front: float = field(default=1.0, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise InputError(
                f"{self.name!r} is no name of a series; give 1 to 60 letters, digits, dots, dashes or underscores"
            )
        if self.horizon < 1:
            raise InputError(f"a series has one month or more, not {self.horizon}; give its horizon")
        if not 1 <= self.front < inf:
            raise InputError(f"the first month of a series costs at least as much as another, not {self.front} times")

    @property
    def mark(self) -> str:
        """The part of a charge that names it."""
        numbers = f"{self.horizon} months at epsilon {float(self.epsilon)!r}, delta {float(self.delta)!r}"
        return f"series {self.name}: {numbers}"

    @classmethod
    def parse(cls, part: str) -> Series | None:
        """What `mark` wrote; None for another part."""
        found = _MARK.fullmatch(part)
        return None if found is None else cls(found[1], int(found[2]), float(found[3]), float(found[4]))

    @property
    def total(self) -> Rho:
        """What all months may cost together."""
        return Rho.from_epsilon_delta(self.epsilon, self.delta)

    def price_of(self, month: int) -> Rho:
        """What a month costs if no noise of an earlier one is drawn again."""
        return self.total * ((Fraction(self.front) if month == 1 else 1) / (Fraction(self.front) + self.horizon - 1))

    def standing(self, charges: Iterable[Entry], release: str | None = None) -> Standing:
        """Where the series stands before a release, by the data set's reservations.

        Raises LedgerError if another horizon or budget was stated before; InputError for a month beyond the horizon, or
        if nothing is left.

        Args:
            release: an id. One that was charged is the month that it was then.
        """
        months: dict[str, Rho] = {}
        first: dict[str, Rho] = {}
        for entry in charges:
            for stated in filter(None, map(Series.parse, entry.parts)):
                if stated.name == self.name:
                    self._check_same(stated)
                    name = str(entry.release_id)
                    first.setdefault(name, entry.rho)
                    months[name] = months.get(name, Rho(0)) + entry.rho
        names = list(months)
        number = names.index(release) + 1 if release in months else len(names) + 1
        spent = sum((rho for name, rho in months.items() if name != release), start=Rho(0))
        earlier = sum((months[name] for name in names[: number - 1]), start=Rho(0))
        own = months.get(str(release), Rho(0))
        if number > self.horizon:
            raise InputError(
                f"series {self.name!r} has all of its {self.horizon} months; begin another one under a new name"
            )
        if release in first:
            return Standing(self, number, first[release], spent, earlier, own, tuple(names[: number - 1]))
        if not spent < self.total:
            raise InputError(
                f"series {self.name!r} has spent all of its budget in {len(names)} months, since noise was drawn "
                "again; begin another one under a new name"
            )
        front = Fraction(self.front) if number == 1 else Fraction(1)
        price = (self.total - spent) * (front / (front + self.horizon - number))
        return Standing(self, number, price, spent, earlier, own, tuple(names))

    def _check_same(self, stated: Series) -> None:
        if stated != self:
            raise LedgerError(
                f"series {self.name!r} was begun with {stated.horizon} months at ε = {stated.epsilon:g}, "
                f"δ = {stated.delta:g}, which never changes; name these, or begin another series"
            )


@dataclass(frozen=True)
class Standing:
    """A month of a series, as the ledger has it.

    Attributes:
        series: its.
        number: of the month, from 1.
        price: what the month costs: what is left, over the months left, the first one counting `front` times; of one
            that was charged, its first charge.
        others: what was spent on other months.
        earlier: of that, on the months before it.
        own: what was spent on this one already.
        before: the releases of the months before it, in order.
    """

    series: Series
    number: int
    price: Rho
    others: Rho
    earlier: Rho
    own: Rho
    before: tuple[str, ...]

    def check(self, charges: Iterable[Entry], release: str, rho: Rho) -> None:
        """Raise as `Series.standing`; LedgerError if another month was charged since; BudgetExceeded beyond the budget.

        Args:
            charges: the data set's reservations by now.
            release, rho: the charge to come.
        """
        now = self.series.standing(charges, release)
        if now.number != self.number:
            raise LedgerError(
                f"another release of series {self.series.name!r} was charged meanwhile as month {self.number}; start "
                f"release {release!r} again"
            )
        left = self.series.total - now.others - now.own
        if rho > left:
            raise BudgetExceeded(rho, left, f"release {release!r} of series {self.series.name!r}")


def series_of(charges: Sequence[Entry]) -> dict[str, Series]:
    """The series that reservations belong to, by name."""
    found = (Series.parse(part) for entry in charges for part in entry.parts)
    return {each.name: each for each in found if each is not None}
