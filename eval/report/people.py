"""How many people the rows of a release stand for, where it has a survey weight.

>>> People("PWGTP", 2000.0, 612345.6, "").sentence.partition(". As measured")[0]
'PWGTP is the survey weight: how many people a row stands for'
"""

from __future__ import annotations

from dataclasses import dataclass

from equistrata.eval.report.words import count


@dataclass(frozen=True)
class People:
    """What a report says of a survey weight, which is not a variable of the people.

    Attributes:
        column: its name.
        upper: its public bound.
        total: the sum of the released weights, an estimate of the number of people.
        met: the control totals that the weights meet, in words; empty without.
    """

    column: str
    upper: float
    total: float
    met: str

    @property
    def sentence(self) -> str:
        """What the column is, its bound, its sum, and which totals it meets."""
        met = f"meet the public control totals of {self.met}" if self.met else "were not made to meet control totals"
        return (
            f"{self.column} is the survey weight: how many people a row stands for. As measured, it is at most "
            f"{self.upper:,.10g}, a public bound. The released weights add up to {count(self.total)} people, and {met}."
        )
