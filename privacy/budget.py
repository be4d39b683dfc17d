"""Privacy costs in zero-concentrated differential privacy (zCDP), and budgets that cannot be overspent.

A mechanism is ρ-zCDP if the Rényi divergence of order α between its outputs on two neighbouring tables is at most ρα,
for every pair of neighbours and every α > 1 (Bun and Steinke, arXiv:1605.02065). See docs/proofs/budget.md for
composition and group privacy.

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
    """Return the name of a neighbouring relation.

    Parameters
    ----------
    unit : str or None
        Column that identifies the unit of privacy. If None, the unit is a single row.
    kind : str, default="add-remove"
        How two neighbouring tables differ.

    Returns
    -------
    str
        The name of the relation, as the ledger and the release card show it.

    Examples
    --------
    >>> relation_of(None), relation_of("SERIALNO", "replace-one")
    ('add-remove', 'replace-one of all rows with one SERIALNO')
    """
    return kind if unit is None else f"{kind} of all rows with one {unit}"


K = TypeVar("K", bound=Hashable)
_ROWS = "the number of rows of a group must be a whole number of at least 1"


class BudgetExceeded(EquistrataError, ValueError):
    """Error that is raised if the cost of a step is larger than the remaining budget.

    Attributes
    ----------
    asked : Rho
        Cost of the step.
    left : Rho
        Amount that is left in the budget.
    """

    exit_code = 2

    def __init__(self, asked: Rho, left: Rho, what: str) -> None:
        super().__init__(f"{what} asks for ρ = {float(asked):.6g}, but only {float(left):.6g} is left of the budget")
        self.asked = asked
        self.left = left
        self._what = what

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[Rho, Rho, str]]:
        return type(self), (self.asked, self.left, self._what)  # so that a worker process can pass the error on


@total_ordering
@dataclass(frozen=True)
class Rho:
    """An exact amount of zCDP.

    The amount is stored as a fraction, so that the parts of a split add up to the original amount exactly.

    Parameters
    ----------
    amount : Fraction, float or int
        The amount, which must not be negative. A float is converted at its exact value.

    Attributes
    ----------
    exact : Fraction
        The amount as a non-negative fraction.

    Raises
    ------
    InputError
        If the amount is negative or not a finite number.
    """

    exact: Fraction

    def __init__(self, amount: Fraction | float | int) -> None:
        exact = _fraction(amount, "a zCDP amount")
        if exact < 0:
            raise InputError(f"a zCDP amount is {float(amount)}, but must not be negative")
        object.__setattr__(self, "exact", exact)

    @classmethod
    def of(cls, amount: Rho | Fraction | float | int) -> Rho:
        """Convert a number to an amount of zCDP. If it is already a Rho, return it unchanged."""
        return amount if isinstance(amount, Rho) else cls(amount)

    @classmethod
    def of_pure(cls, epsilon: float) -> Rho:
        """Return the zCDP cost of a mechanism that is ε-differentially private.

        The cost is ε²/2, computed exactly from the given float.

        Parameters
        ----------
        epsilon : float
            Parameter of pure differential privacy, ε ≥ 0.

        Returns
        -------
        Rho
            The cost, which is an upper bound for every ε-DP mechanism.

        Raises
        ------
        InputError
            If `epsilon` is negative or not a finite number.

        References
        ----------
        Bun and Steinke (2016), arXiv:1605.02065, Proposition 1.4.
        """
        if _fraction(epsilon, "epsilon") < 0:
            raise InputError(f"epsilon is {float(epsilon)}, but must not be negative")
        return _pure(epsilon)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float) -> Rho:
        """Return the largest ρ for which ρ-zCDP implies (ε, δ)-differential privacy.

        Parameters
        ----------
        epsilon : float
            Parameter of the guarantee, 0 < ε ≤ 500.
        delta : float
            Parameter of the guarantee, 0 < δ < 1.

        Returns
        -------
        Rho
            The amount, rounded down as described in `privacy.conversion.rho_within`.

        Raises
        ------
        InputError
            If `epsilon` or `delta` is out of its range.
        """
        return cls(rho_within(epsilon, delta))

    def epsilon(self, delta: float) -> float:
        """Return the ε for which this amount of zCDP implies (ε, δ)-differential privacy.

        Parameters
        ----------
        delta : float
            Parameter of the guarantee, 0 < δ < 1.

        Returns
        -------
        float
            The value of ε from a tight conversion, rounded up. It is infinite if it is larger than about 700.
        """
        return epsilon_at(float(self), delta)

    def group(self, rows: int) -> Rho:
        """Return the cost for a group of rows, such as all rows of one person or household.

        The cost is `rows` squared times this amount. Replacing one row by another counts as a group of two rows. See
        docs/proofs/budget.md.

        Parameters
        ----------
        rows : int
            The number of rows in the group, at least 1.

        Returns
        -------
        Rho
            The cost for the whole group.

        Raises
        ------
        InputError
            If `rows` is not a positive integer.

        Examples
        --------
        >>> Rho.from_epsilon_delta(1, 1e-9).group(3).epsilon(1e-9)
        3.183315612047551
        """
        return self * from_one(rows, _ROWS) ** 2

    def per_row(self, rows: int) -> Rho:
        """Return the cost per row for which a group of rows has this cost.

        This is the exact inverse of `group`.

        Parameters
        ----------
        rows : int
            The number of rows in the group, at least 1.

        Returns
        -------
        Rho
            The cost for a single row.

        Raises
        ------
        InputError
            If `rows` is not a positive integer.

        Examples
        --------
        >>> Rho(1).per_row(4).group(4) == Rho(1)
        True
        """
        return self * Fraction(1, from_one(rows, _ROWS) ** 2)

    def split(self, shares: Sequence[float | Fraction]) -> list[Rho]:
        """Split the amount in proportion to the given shares.

        Parameters
        ----------
        shares : sequence of float or Fraction
            Non-negative shares. At least one of them must be positive.

        Returns
        -------
        list of Rho
            The parts, one per share. Their sum is exactly this amount.

        Raises
        ------
        InputError
            If a share is negative or not finite, or if all shares are zero.
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
    """A privacy budget with a record of all charges.

    A charge that is larger than the remaining amount raises an error and leaves the budget unchanged.

    Parameters
    ----------
    rho : Rho
        The total amount that can be spent.

    Examples
    --------
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
        """Create a budget of the given amount. If it is already a Budget, return it unchanged."""
        return amount if isinstance(amount, Budget) else cls(Rho.of(amount))

    @property
    def spent(self) -> Rho:
        """The amount that has been spent so far."""
        return self.total - self._left

    @property
    def remaining(self) -> Rho:
        """The amount that is left."""
        return self._left

    @property
    def entries(self) -> tuple[tuple[str, Rho], ...]:
        """The name and the amount of each charge, in order."""
        return tuple(self._spent)

    def spend(self, rho: Rho, what: str) -> Rho:
        """Charge an amount before any row is read.

        The methods of `equistrata.privacy.noise.NoiseSource` call this method. Call it directly only if the noise is
        drawn by other code.

        Parameters
        ----------
        rho : Rho
            The amount to charge.
        what : str
            Name of the charge, for the record and for error messages.

        Returns
        -------
        Rho
            The amount that was charged.

        Raises
        ------
        BudgetExceeded
            If the amount is larger than the remaining budget. In this case nothing is charged.
        InputError
            If `rho` is not a Rho. In this case nothing is charged.
        """
        if _rho(rho) > self._left:
            raise BudgetExceeded(rho, self._left, what)
        self._left -= rho
        self._spent.append((what, rho))
        return rho

    def part(self, rho: Rho, what: str) -> Budget:
        """Charge an amount and return it as a separate budget.

        The new budget composes sequentially with the rest of this budget.

        Parameters
        ----------
        rho : Rho
            The amount to charge.
        what : str
            Name of the charge.

        Returns
        -------
        Budget
            A budget with the total `rho`.

        Raises
        ------
        BudgetExceeded
            If the amount is larger than the remaining budget.
        InputError
            If `rho` is not a Rho.
        """
        return Budget(self.spend(rho, what))

    def parallel(self, rho: Rho, parts: Iterable[K], what: str) -> Mapping[K, Budget]:
        """Charge an amount once and return a budget of that amount for each disjoint part of the rows.

        Parameters
        ----------
        rho : Rho
            The amount to charge.
        parts : iterable of hashable
            Names of the parts. Each row must belong to one part only.
        what : str
            Name of the charge.

        Returns
        -------
        mapping of hashable to Budget
            A budget with the total `rho` for each part.

        Raises
        ------
        BudgetExceeded
            If the amount is larger than the remaining budget.
        InputError
            If `rho` is not a Rho.

        Privacy
        -------
        The cost is `rho` under adding or removing one row, by parallel composition. Replacing one row costs up to 4
        `rho` (see `Rho.group`). The proof is given in docs/proofs/budget.md.
        """
        self.spend(rho, what)
        return {part: Budget(rho) for part in parts}


@lru_cache(maxsize=1 << 10)  # the fractions are exact and slow, and many Laplace draws use the same ε
def _pure(epsilon: float) -> Rho:
    return Rho(epsilon) * epsilon * 0.5


def _rho(amount: Any) -> Rho:
    """Return the amount if it is a Rho. A plain number is refused, because it could be an ε."""
    if not isinstance(amount, Rho):
        raise InputError(f"a budget must be a Rho, not {amount!r}; give Rho(…), or Rho.from_epsilon_delta(…)")
    return amount


def _fraction(number: Any, what: str) -> Fraction:
    if isinstance(number, Fraction):
        return number
    if isinstance(number, bool) or not isinstance(number, Real) or not math.isfinite(number):
        raise InputError(f"{what} must be a finite number, not {number!r}")
    # A NumPy integer would overflow inside a fraction, so it is converted to a Python integer.
    return Fraction(int(number) if isinstance(number, Integral) else float(number))


def from_one(value: Any, needed: str) -> int:
    """Return a whole number that is at least 1.

    Parameters
    ----------
    value : object
        The number to check.
    needed : str
        Description of the valid values, which starts the error message.

    Returns
    -------
    int
        The number as a Python integer.

    Raises
    ------
    InputError
        If the value is not a whole number or is smaller than 1.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{needed}, not {value!r}")
    return int(value)
