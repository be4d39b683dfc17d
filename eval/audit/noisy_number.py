"""A number that was paid for: never without an interval.

>>> NoisyNumber(0.4, 0.3, 0.5).informative, NoisyNumber(0.4, 0.0, 1.0).to_dict()["note"]
(True, '± wider than the value')
>>> NoisyNumber(0.9, 0.2, 1.0, possible=1.0).note
'leaves more than half of what is possible'
>>> NoisyNumber(0.4, 0.4, 0.4)
Traceback (most recent call last):
ValueError: a noisy number has an interval with a width, from a finite lower end
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

TOO_SMALL = "± wider than the value"
TOO_WIDE = "leaves more than half of what is possible"


@dataclass(frozen=True)
class NoisyNumber:
    """A number that depends on private rows and was paid for. It may be published.

    Attributes:
        value: the estimate; None where the noise leaves none.
        lower, upper: its interval, lower < upper; `upper` may be infinite.
        possible: the length of the range that the number was known to be in, as 1 for a rate; infinite if there is
            none.

    Raises:
        ValueError: an interval without width (no number that depends on private rows is that exact), or a value outside
            it.
    """

    value: float | None
    lower: float
    upper: float
    possible: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and self.lower < self.upper):
            raise ValueError("a noisy number has an interval with a width, from a finite lower end")
        if self.value is not None and not (math.isfinite(self.value) and self.lower <= self.value <= self.upper):
            raise ValueError("a noisy number lies in its interval")

    @property
    def note(self) -> str:
        """Why the number says nothing, if it does: half its interval is longer than the value, or its interval leaves
        more than half of what was possible. Empty if it says something."""
        if self.value is None or (self.upper - self.lower) / 2 > abs(self.value):
            return TOO_SMALL
        return TOO_WIDE if self.upper - self.lower > self.possible / 2 else ""

    @property
    def informative(self) -> bool:
        """Whether there is no `note`."""
        return not self.note

    def to_dict(self) -> dict[str, Any]:
        """For JSON: value, lower, upper (null where infinite), and the note if there is one."""
        plain = {"value": self.value, "lower": self.lower, "upper": self.upper if math.isfinite(self.upper) else None}
        return plain | {"note": self.note} if self.note else plain


def clipped(value: float | None, interval: tuple[float, float], possible: float = math.inf) -> NoisyNumber:
    """An estimate moved into its interval, if it is outside; None stays None."""
    lower, upper = interval
    return NoisyNumber(None if value is None else min(max(value, lower), upper), lower, upper, possible)
