"""The measured counts of two columns, from which a statistic of the pair is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equistrata.analysis.derived import ANSWER, MEASURED, REFUSED
from equistrata.arrays import Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """The measured counts of two columns, and the settings of the question.

    Attributes
    ----------
    of, against : str
        The names of the columns.
    counts : ndarray of shape (a, b)
        The unbiased noisy counts.
    covariance : ndarray of shape (a * b, a * b)
        The covariance of the noise of the counts.
    numbers : sequence of tuple of two ndarray
        For each of the two columns, the number of each code and its standard deviation within the code. Empty if the
        statistic does not use numbers.
    seed : int
        The seed of a statistic that simulates its distribution.
    level : float
        The level of the interval, in (0, 1).
    sampled : float
        The factor that multiplies the variance of simple random sampling. It is 0 if the answer is about the rows of
        the table.
    design_effect : float
        The ratio of the sampling variance to that of a simple random sample, which is at least 1.
    """

    of: str
    against: str
    counts: Floats
    covariance: Floats
    numbers: Sequence[tuple[Floats, Floats]] = ()
    seed: int = 0
    level: float = 0.95
    sampled: float = 0.0
    design_effect: float = 1.0

    def line(self, numbers: Sequence[float] | Floats, basis: str = MEASURED) -> pd.DataFrame:
        """Return the answer as a data frame with one row.

        Parameters
        ----------
        numbers : sequence of float
            The estimate, the ends of its interval, its standard error, and the parts of the standard error by noise and
            by sampling.
        basis : str
            The basis of the answer.
        """
        labels = {"column": self.of, "against": self.against}
        return pd.DataFrame([labels | dict(zip(ANSWER, numbers, strict=True)) | {"basis": basis}])

    def refused(self) -> pd.DataFrame:
        """Return the answer if the noise is too large for an estimate."""
        return self.line(np.full(len(ANSWER), np.nan), REFUSED)
