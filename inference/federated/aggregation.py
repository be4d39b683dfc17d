"""Secure addition of holders' vectors of whole numbers: only the sum is revealed.

`SecureAggregator` is the protocol. `InProcessAggregator` adds in this process: a **simulation**, for tests and for
holders who trust this process. `equistrata.inference.federated.flower` runs Flower's SecAgg+.

>>> import numpy as np
>>> add_modulo([np.array([3, 4]), np.array([5, 6])], [7, 11]).tolist()
[1, 10]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from equistrata.arrays import Counts
from equistrata.errors import EquistrataError, InputError


@dataclass(frozen=True)
class SumQuestion:
    """What every holder is asked to add up; public, and the same for all.

    `kind` says which sum, `moduli` M ≥ 2 for each place of the vector (a holder's number is in [0, M)), and
    `settings` what else they need, JSON values.
    """

    kind: str
    moduli: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Total:
    """Σ modulo M in each place, shape (len(moduli),), over the holders that stayed; and how many did."""

    sums: Counts
    holders: int


class Holder(Protocol):
    """A holder of rows, who answers questions with a vector of whole numbers."""

    def answer(self, question: SumQuestion) -> Counts:
        """One number in [0, M) for each modulus. Raises InputError if the question or the holder's rows do not fit."""
        ...


class TooFewHolders(EquistrataError, RuntimeError):
    """More holders dropped out than the aggregation allows; no sum was made. Carries `stayed` and `needed`."""

    def __init__(self, stayed: int, needed: int, why: str = "") -> None:
        because = f" ({why})" * bool(why)
        super().__init__(f"only {stayed} holders stayed{because}, and {needed} are needed; nothing was added up")
        self.stayed, self.needed = stayed, needed


class SecureAggregator(Protocol):
    """Adds up the answers of this many `holders`; `simulated` if they pass through the clear somewhere."""

    @property
    def name(self) -> str: ...

    @property
    def simulated(self) -> bool: ...

    @property
    def holders(self) -> int: ...

    def total(self, question: SumQuestion) -> Total:
        """The sum, modulo the question's moduli, of the answers of the holders that stay.

        Raises:
            TooFewHolders: too many dropped out.
            InputError: a holder refused the question.
        """
        ...


@dataclass(frozen=True)
class InProcessAggregator:
    """A simulation: the answers are added here, in the clear. The sums equal those of a real aggregation.

    `needed` holders must stay. `dropped` are positions of those that drop out before answering, for tests.
    """

    members: Sequence[Holder] = field(repr=False)
    needed: int = 1
    dropped: frozenset[int] = frozenset()

    name = "in-process simulation"
    simulated = True

    @property
    def holders(self) -> int:
        return len(self.members)

    def total(self, question: SumQuestion) -> Total:
        stayed = [holder for place, holder in enumerate(self.members) if place not in self.dropped]
        needed = max(self.needed, 1)
        if len(stayed) < needed:
            raise TooFewHolders(len(stayed), needed)
        return Total(add_modulo((holder.answer(question) for holder in stayed), question.moduli), len(stayed))


def add_modulo(vectors: Iterable[Counts], moduli: Sequence[int]) -> Counts:
    """Σ of the vectors, each place modulo its own M. Raises InputError if one has another length or leaves [0, M)."""
    bounds = np.array(moduli, dtype=np.int64)
    if not len(bounds) or (bounds < 2).any() or (bounds > 2**62).any():
        raise InputError("a secure sum needs moduli from 2 to 2^62")
    total = np.zeros(len(bounds), dtype=np.int64)
    for vector in vectors:
        numbers = np.asarray(vector)
        if numbers.shape != bounds.shape or numbers.dtype.kind not in "iu":
            raise InputError(f"a holder's answer must be {len(bounds)} whole numbers")
        if (numbers < 0).any() or (numbers >= bounds).any():
            raise InputError("a holder's answer has a number outside [0, M), M being the modulus agreed on")
        total = (total + numbers.astype(np.int64)) % bounds
    return total
