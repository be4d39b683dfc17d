"""The names of the statistics of `Release.estimate`.

To add a statistic of two columns, write a module with the function `answer` in this folder, and add an entry with its
name to PAIRS. This module imports nothing else from the package, so that commands start quickly.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class OfPair:
    """A statistic that is computed from the measured counts of two columns.

    Parameters
    ----------
    title : str
        The name of the statistic in messages.
    numbers : bool
        If True, both columns must have numbers.
    """

    title: str
    numbers: bool = False


PAIRS = {
    "correlation": OfPair("a correlation", numbers=True),
    "independence": OfPair("a test of independence"),
}
REGRESSIONS = ("ols", "logit")
STATISTICS = ("count", "proportion", "mean", "quantile", "median", "difference", "ratio", *PAIRS, *REGRESSIONS)
