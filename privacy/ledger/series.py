"""Series of releases of one data set that share a budget, as recorded in the ledger.

The charge of each month contains the name of its series, the number of months, and the (ε, δ) of the whole series among
its parts. The hash chain therefore protects this information on every database. The spent and the remaining amount are
computed from the entries alone. Each release is one month. If it was resumed, it counts once and all of its charges are
included. A release that was given up counts as well.

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
    """A series, as it is stated in each of its charges.

    Attributes
    ----------
    name : str
        The name, which has 1 to 60 letters, digits, dots, dashes or underscores.
    horizon : int
        The largest number of months.
    epsilon, delta : float
        Parameters of the guarantee of all months together, for one unit.
    front : float, default=1.0
        The cost of the first month relative to the cost of another month. It is ignored once the first month is
        charged, because its cost is then in the ledger.

    Raises
    ------
    InputError
        If the name, the horizon or `front` is invalid.
    """

    name: str
    horizon: int
    epsilon: float
    delta: float
    front: float = field(default=1.0, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise InputError(
                f"{self.name!r} is not a valid name of a series; give 1 to 60 letters, digits, dots, dashes or "
                "underscores"
            )
        if self.horizon < 1:
            raise InputError(f"the horizon of a series must be at least 1 month, not {self.horizon}")
        if not 1 <= self.front < inf:
            raise InputError(
                f"the first month of a series must cost at least as much as another, not {self.front} times"
            )

    @property
    def mark(self) -> str:
        """The text that identifies the series among the parts of a charge."""
        numbers = f"{self.horizon} months at epsilon {float(self.epsilon)!r}, delta {float(self.delta)!r}"
        return f"series {self.name}: {numbers}"

    @classmethod
    def parse(cls, part: str) -> Series | None:
        """Read a series from the text of `mark`. If the text is another part of a charge, return None."""
        found = _MARK.fullmatch(part)
        return None if found is None else cls(found[1], int(found[2]), float(found[3]), float(found[4]))

    @property
    def total(self) -> Rho:
        """The total cost that all months may have."""
        return Rho.from_epsilon_delta(self.epsilon, self.delta)

    def price_of(self, month: int) -> Rho:
        """Return the cost of a month if no noise of an earlier month was drawn again."""
        return self.total * ((Fraction(self.front) if month == 1 else 1) / (Fraction(self.front) + self.horizon - 1))

    def standing(self, charges: Iterable[Entry], release: str | None = None) -> Standing:
        """Return the state of the series before a release.

        Parameters
        ----------
        charges : iterable of Entry
            The reservations of the data set.
        release : str or None, default=None
            The name of the release. A release that was charged before has the same month as before.

        Returns
        -------
        Standing
            The month of the release and its cost.

        Raises
        ------
        LedgerError
            If an earlier charge states another horizon or budget.
        InputError
            If the month is beyond the horizon, or if nothing is left of the budget.
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
                f"series {self.name!r} already has all of its {self.horizon} months; start another one under a new name"
            )
        if release in first:
            return Standing(self, number, first[release], spent, earlier, own, tuple(names[: number - 1]))
        if not spent < self.total:
            raise InputError(
                f"series {self.name!r} has spent all of its budget in {len(names)} months, because noise was "
                "drawn again; start another one under a new name"
            )
        front = Fraction(self.front) if number == 1 else Fraction(1)
        price = (self.total - spent) * (front / (front + self.horizon - number))
        return Standing(self, number, price, spent, earlier, own, tuple(names))

    def _check_same(self, stated: Series) -> None:
        if stated != self:
            raise LedgerError(
                f"series {self.name!r} was started with {stated.horizon} months at ε = {stated.epsilon:g}, "
                f"δ = {stated.delta:g}, which cannot be changed; give these values, or start another series"
            )


@dataclass(frozen=True)
class Standing:
    """A month of a series, as it is recorded in the ledger.

    Attributes
    ----------
    series : Series
        The series.
    number : int
        The number of the month, starting at 1.
    price : Rho
        The cost of the month. It is the remaining amount divided by the number of remaining months, where the first
        month counts `front` times. For a month that was charged before, it is the amount of its first charge.
    others : Rho
        The amount that was spent on all other months.
    earlier : Rho
        The amount that was spent on the months before this one.
    own : Rho
        The amount that was already spent on this month.
    before : tuple of str
        The names of the releases of the earlier months, in order.
    """

    series: Series
    number: int
    price: Rho
    others: Rho
    earlier: Rho
    own: Rho
    before: tuple[str, ...]

    def check(self, charges: Iterable[Entry], release: str, rho: Rho) -> None:
        """Check that a charge still fits into the series.

        Parameters
        ----------
        charges : iterable of Entry
            The current reservations of the data set.
        release : str
            The name of the release.
        rho : Rho
            The amount to charge.

        Raises
        ------
        LedgerError
            If another release was charged for this month in the meantime, or if an earlier charge states another
            horizon or budget.
        BudgetExceeded
            If the amount is larger than the remaining budget of the series.
        InputError
            If the month is beyond the horizon, or if nothing is left of the budget.
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
    """Return the series to which reservations belong, by name."""
    found = (Series.parse(part) for entry in charges for part in entry.parts)
    return {each.name: each for each in found if each is not None}
