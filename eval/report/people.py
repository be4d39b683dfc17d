"""The number of people for whom the rows of a release stand, if the release has a survey weight.

>>> People("PWGTP", 2000.0, 612345.6, "").sentence.partition(". In the measurements")[0]
'PWGTP is the survey weight, which is the number of people that a row stands for'
"""

from __future__ import annotations

from dataclasses import dataclass

from equistrata.eval.report.words import count


@dataclass(frozen=True)
class People:
    """The information about a survey weight in a report. A survey weight is not a variable of the people.

    Attributes
    ----------
    column : str
        The name of the column.
    upper : float
        The public upper bound of the weights.
    total : float
        The sum of the released weights, which is an estimate of the number of people.
    met : str
        The control totals that the weights meet, in words. Empty if there are none.
    """

    column: str
    upper: float
    total: float
    met: str

    @property
    def sentence(self) -> str:
        """Return sentences about the meaning of the weight, its bound, its sum and its control totals."""
        met = (
            f"agree with the public control totals of {self.met}" if self.met else "were not adjusted to control totals"
        )
        return (
            f"{self.column} is the survey weight, which is the number of people that a row stands for. In the "
            f"measurements, it is limited to {self.upper:,.10g}, a public bound. The released weights add up to "
            f"{count(self.total)} people and {met}."
        )
