"""Zero-concentrated differential privacy amounts, and budgets that cannot be overspent.

A mechanism is ρ-zCDP if for every pair of neighbouring tables and every order α > 1 the Rényi divergence of its
outputs is at most ρα (Bun and Steinke, arXiv:1605.02065). See docs/proofs/budget.md for composition and groups.

>>> rho = Rho.from_epsilon_delta(1, 1e-9)
>>> round(float(rho), 7)
0.0149731
>>> sum(rho.split([1, 1, 1]), start=Rho(0)) == rho
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

from equistrata.errors import EquistrataError, InputError
from equistrata.privacy.conversion import epsilon_at, rho_within

Relation = Literal["add-remove", "replace-one within a stratum"]
ADD_REMOVE: Relation = "add-remove"
REPLACE_ONE: Relation = "replace-one within a stratum"


def relation_of(unit: str | None, kind: str = ADD_REMOVE) -> str:
    """A neighbouring relation in words: what is added or removed (or replaced) has one value of the column `unit`.

    >>> relation_of(None), relation_of("SERIALNO", "replace-one")
    ('add-remove', 'replace-one of all rows with one SERIALNO')
    """
    return kind if unit is None else f"{kind} of all rows with one {unit}"


K = TypeVar("K", bound=Hashable)
_ROWS = "a group has at least one row, as a whole number"


class BudgetExceeded(EquistrataError, ValueError):
    """More was asked for than is left. Carries the amounts `asked` and `left`."""

    exit_code = 2

    def __init__(self, asked: Rho, left: Rho, what: str) -> None:
        super().__init__(f"{what} asks for ρ = {float(asked):.6g}, but only {float(left):.6g} is left of the budget")
        self.asked = asked
        self.left = left
        self._what = what

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[Rho, Rho, str]]:
        return type(self), (self.asked, self.left, self._what)  # so that it may come out of a worker process


@total_ordering
@dataclass(frozen=True)
class Rho:
    """An amount of zCDP, exact: splits add up to what was split, to the last bit.

    `exact` is a non-negative fraction (a float at its exact value). Raises InputError for what is no such amount.
    """

    exact: Fraction

    def __init__(self, amount: Fraction | float | int) -> None:
        exact = _fraction(amount, "a zCDP amount")
        if exact < 0:
            raise InputError(f"a zCDP amount must not be negative, not {float(amount)}")
        object.__setattr__(self, "exact", exact)

    @classmethod
    def of(cls, amount: Rho | Fraction | float | int) -> Rho:
        """The amount itself, or a number as an amount."""
        return amount if isinstance(amount, Rho) else cls(amount)

    @classmethod
    def of_pure(cls, epsilon: float) -> Rho:
        """What pure ε-DP costs in zCDP: at most ε²/2 (Bun and Steinke, Proposition 1.4), exactly so of the float.

        Raises InputError for what is no finite number, or a negative one.
        """
        if _fraction(epsilon, "epsilon") < 0:
            raise InputError(f"epsilon must not be negative, not {float(epsilon)}")
        return _pure(epsilon)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float) -> Rho:
        """The largest ρ for which ρ-zCDP implies (ε, δ)-DP (`privacy.conversion.rho_within`). Raises InputError."""
        return cls(rho_within(epsilon, delta))

    def epsilon(self, delta: float) -> float:
        """The ε for which this amount implies (ε, δ)-DP, 0 < δ < 1. Tight conversion, rounded up (∞ if past 700)."""
        return epsilon_at(float(self), delta)

    def group(self, rows: int) -> Rho:
        """The cost for a group of `rows` ≥ 1 rows, as of one person or household: rows² times the amount.

        A row that is replaced by another is a group of two. See docs/proofs/budget.md. Raises InputError.

        >>> Rho.from_epsilon_delta(1, 1e-9).group(3).epsilon(1e-9)
        3.183315612047551
        """
        return self * from_one(rows, _ROWS) ** 2

    def per_row(self, rows: int) -> Rho:
        """What may be paid for one row so that a group of `rows` ≥ 1 rows pays this amount: inverse of `group`, exact.

        Raises InputError for fewer.

        >>> Rho(1).per_row(4).group(4) == Rho(1)
        True
        """
        return self * Fraction(1, from_one(rows, _ROWS) ** 2)

    def split(self, shares: Sequence[float | Fraction]) -> list[Rho]:
        """Parts in proportion to non-negative `shares`; they add up exactly.

        Raises InputError where a share is negative or not finite, or all are zero.
        """
        exact = [_fraction(share, "a share") for share in shares]
        total = sum(exact)
        if total <= 0 or min(exact) < 0:
            raise InputError("shares must not be negative and must not all be zero")
        return [Rho(self.exact * share / total) for share in exact]

    def __add__(self, other: Rho) -> Rho:
        return Rho(self.exact + other.exact)

    def __sub__(self, other: Rho) -> Rho:
        return Rho(self.exact - other.exact)

    def __mul__(self, factor: float | Fraction) -> Rho:
        return Rho(self.exact * _fraction(factor, "a factor"))

    def __lt__(self, other: Rho) -> bool:
        return self.exact < other.exact

    def __float__(self) -> float:
        return float(self.exact)

    def __bool__(self) -> bool:
        return self.exact > 0


class Budget:
    """An amount to spend, with a record of what was spent on what. Asking for more than is left raises.

    >>> budget = Budget(Rho(1))
    >>> budget.spend(Rho(0.75), "marginals")
    Rho(exact=Fraction(3, 4))
    >>> budget.spend(Rho(0.5), "selection")
    Traceback (most recent call last):
    equistrata.privacy.budget.BudgetExceeded: selection asks for ρ = 0.5, but only 0.25 is left of the budget
    """

    def __init__(self, rho: Rho) -> None:
        self.total = self._left = _rho(rho)
        self._spent: list[tuple[str, Rho]] = []

    @classmethod
    def of(cls, amount: Budget | Rho | float) -> Budget:
        """The budget itself, or one of this amount."""
        return amount if isinstance(amount, Budget) else cls(Rho.of(amount))

    @property
    def spent(self) -> Rho:
        """What has been spent so far."""
        return self.total - self._left

    @property
    def remaining(self) -> Rho:
        """What is left."""
        return self._left

    @property
    def entries(self) -> tuple[tuple[str, Rho], ...]:
        """What was spent on what, in order."""
        return tuple(self._spent)

    def spend(self, rho: Rho, what: str) -> Rho:
        """Charge `rho`, before any row is read. Raises BudgetExceeded, and InputError for what is no Rho; then nothing
        is charged.

        Noise charges by itself (`equistrata.privacy.noise`); this is for what is drawn elsewhere.
        """
        if _rho(rho) > self._left:
            raise BudgetExceeded(rho, self._left, what)
        self._left -= rho
        self._spent.append((what, rho))
        return rho

    def part(self, rho: Rho, what: str) -> Budget:
        """Charge `rho`, and return it as a budget of its own, which composes in sequence with the rest.

        Raises as `spend`.
        """
        return Budget(self.spend(rho, what))

    def parallel(self, rho: Rho, parts: Iterable[K], what: str) -> Mapping[K, Budget]:
        """Charge `rho` once, and give each disjoint part of the rows a budget of `rho`.

        Cost: `rho`, add/remove one row, by parallel composition. A replaced row costs up to 4ρ (`Rho.group`).
        Raises as `spend`. See docs/proofs/budget.md.
        """
        self.spend(rho, what)
        return {part: Budget(rho) for part in parts}


@lru_cache(maxsize=1 << 10)  # in exact fractions, for every draw of Laplace noise, of which there are many at one ε
def _pure(epsilon: float) -> Rho:
    return Rho(epsilon) * epsilon * 0.5


def _rho(amount: Any) -> Rho:
    """An amount of zCDP, not a number, which might be an ε."""
    if not isinstance(amount, Rho):
        raise InputError(f"a budget is of a Rho, not of {amount!r}; give Rho(…), or Rho.from_epsilon_delta(…)")
    return amount


def _fraction(number: Any, what: str) -> Fraction:
    if isinstance(number, Fraction):
        return number
    if isinstance(number, bool) or not isinstance(number, Real) or not math.isfinite(number):
        raise InputError(f"{what} must be a finite number, not {number!r}")
    # Python's own integer: a NumPy one would overflow inside a fraction.
    return Fraction(int(number) if isinstance(number, Integral) else float(number))


def from_one(value: Any, needed: str) -> int:
    """A whole number of at least one. Raises InputError that says what is `needed`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{needed}, not {value!r}")
    return int(value)
