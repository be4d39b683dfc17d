"""Secure addition of the vectors of several holders, which reveals only the sum.

`SecureAggregator` is the protocol. `InProcessAggregator` adds the vectors in this process. It is a **simulation** for
tests, and for holders who trust this process. The module `equistrata.inference.federated.flower` uses SecAgg+ of
Flower.

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
    """A public question that every holder answers with a vector. It is the same for all holders.

    Attributes
    ----------
    kind : str
        The kind of the sum.
    moduli : tuple of int
        The modulus M ≥ 2 for each element of the vector. The numbers of a holder are in [0, M).
    settings : mapping of str to object
        Other information that the holders need, as JSON values.
    """

    kind: str
    moduli: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Total:
    """The sum of the vectors of all holders that stayed.

    Attributes
    ----------
    sums : ndarray of shape (len(moduli),)
        The sums modulo M.
    holders : int
        The number of holders that stayed.
    """

    sums: Counts
    holders: int


class Holder(Protocol):
    """A holder of rows, which answers a question with a vector of whole numbers."""

    def answer(self, question: SumQuestion) -> Counts:
        """Return one number in [0, M) for each modulus.

        Raise InputError if the question or the rows of the holder do not fit.
        """
        ...


class TooFewHolders(EquistrataError, RuntimeError):
    """Exception that is raised if more holders dropped out than the aggregation allows. In this case no sum was
    computed.

    Attributes
    ----------
    stayed, needed : int
        The number of holders that stayed, and the number that is required.
    """

    def __init__(self, stayed: int, needed: int, why: str = "") -> None:
        because = f" ({why})" * bool(why)
        super().__init__(f"only {stayed} holders stayed{because}, but {needed} are needed, so no sum was computed")
        self.stayed, self.needed = stayed, needed


class SecureAggregator(Protocol):
    """A protocol that adds the answers of several holders.

    Attributes
    ----------
    name : str
        The name of the protocol.
    simulated : bool
        If True, the answers of single holders are visible to some process.
    holders : int
        The number of holders.
    """

    @property
    def name(self) -> str: ...

    @property
    def simulated(self) -> bool: ...

    @property
    def holders(self) -> int: ...

    def total(self, question: SumQuestion) -> Total:
        """Return the sum of the answers of the holders that stay, modulo the moduli of the question.

        Parameters
        ----------
        question : SumQuestion
            The question for all holders.

        Returns
        -------
        Total
            The sum, and the number of holders that stayed.

        Raises
        ------
        TooFewHolders
            If too many holders dropped out.
        InputError
            If a holder refused the question.
        """
        ...


@dataclass(frozen=True)
class InProcessAggregator:
    """A simulation of secure addition. The answers are added in this process without encryption.

    The sums are the same as those of a real aggregation.

    Parameters
    ----------
    members : sequence of Holder
        The holders.
    needed : int, default=1
        The number of holders that must stay.
    dropped : frozenset of int
        The positions of holders that drop out before they answer, for tests.
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
    """Add vectors, with a separate modulus M for each element.

    Parameters
    ----------
    vectors : iterable of ndarray
        The vectors of whole numbers.
    moduli : sequence of int
        The moduli, from 2 to 2^62.

    Returns
    -------
    ndarray
        The sums modulo M.

    Raises
    ------
    InputError
        If a modulus is out of its range, or if a vector has another length or a number outside of [0, M).
    """
    bounds = np.array(moduli, dtype=np.int64)
    if not len(bounds) or (bounds < 2).any() or (bounds > 2**62).any():
        raise InputError("a secure sum needs at least one modulus, and each must be from 2 to 2^62")
    total = np.zeros(len(bounds), dtype=np.int64)
    for vector in vectors:
        numbers = np.asarray(vector)
        if numbers.shape != bounds.shape or numbers.dtype.kind not in "iu":
            raise InputError(f"a holder's answer must be {len(bounds)} whole numbers")
        if (numbers < 0).any() or (numbers >= bounds).any():
            raise InputError("a holder's answer contains a number outside [0, M), where M is the agreed modulus")
        total = (total + numbers.astype(np.int64)) % bounds
    return total
