"""Group fairness: how the predictions of a classifier differ between the strata of a test table.

The functions also define what happens if a stratum is small.

>>> fairness = group_fairness([1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 1, 1], ["a", "a", "a", "b", "b", "b"], min_rows=3)
>>> fairness.selection_rate
{'a': 0.3333333333333333, 'b': 1.0}
>>> fairness.false_negative_rate
{'a': 0.5, 'b': 0.0}
>>> round(fairness.dpr, 4), fairness.fnr_diff, round(fairness.accuracy, 4)
(0.3333, 0.5, 0.6667)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from equistrata.errors import InputError

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GroupFairness:
    """The accuracy of predictions and their rates in each stratum.

    Attributes
    ----------
    accuracy : float
        The share of all test rows that are predicted correctly, in [0, 1]. Strata of any size are included.
    dpr : float
        The demographic parity ratio, which is the smallest selection rate divided by the largest one, in [0, 1]. A
        value of 1 means that the rates are equal, and 0 means that no row of some stratum is selected.
    fnr_diff : float
        The largest false negative rate minus the smallest one, in [0, 1]. A value of 0 means that the rates are equal,
        and 1 means that every positive row of one stratum is missed and no positive row of another stratum.
    selection_rate : mapping of str to float
        The share of the rows of each stratum that are predicted to be positive.
    false_negative_rate : mapping of str to float
        The share of the positive rows of each stratum that are predicted to be negative. A stratum without positive
        rows has no entry.
    accuracy_by_stratum : mapping of str to float
        The share of the rows of each stratum that are predicted correctly.
    """

    accuracy: float
    dpr: float
    fnr_diff: float
    selection_rate: Mapping[str, float]
    false_negative_rate: Mapping[str, float]
    accuracy_by_stratum: Mapping[str, float]


def group_fairness(
    truth: npt.ArrayLike, predicted: npt.ArrayLike, strata: npt.ArrayLike, *, positive: object = 1, min_rows: int = 20
) -> GroupFairness:
    """Compute the accuracy over all rows, and the selection rates and false negative rates of the strata.

    The rates are computed for the strata with at least `min_rows` rows. The demographic parity ratio is 1 if no such
    stratum has a positive prediction, or if fewer than two strata are large enough. The difference of the false
    negative rates is 0 if fewer than two of these strata have a positive row.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        The true and the predicted labels, with n ≥ 1. If there are more than two labels, the accuracy compares all of
        them, and the rates compare `positive` with all others.
    strata : array-like of shape (n,)
        The stratum of each row.
    positive : object, default=1
        The label that counts as selected.
    min_rows : int, default=20
        The smallest number of rows of a stratum with rates, at least 1.

    Returns
    -------
    GroupFairness
        The accuracy and the rates.

    Raises
    ------
    InputError
        If the shapes differ, if there are no rows, or if `min_rows` is less than 1.

    Privacy
    -------
    Not private. The scores are exact, so they are internal.

    References
    ----------
    Stratification paper, Figures 4 and 5. The scores are defined as `demographic_parity_ratio` and
    `false_negative_rate` of fairlearn.
    """
    truth, predicted, strata = np.asarray(truth), np.asarray(predicted), np.asarray(strata).astype(str)
    if not truth.ndim == predicted.ndim == strata.ndim == 1 or not len(truth) == len(predicted) == len(strata):
        raise InputError("truth, predictions and strata differ in length; give one of each for every row")
    if not len(truth):
        raise InputError("there is no test row to score; give a test table with at least one row")
    if min_rows < 1:
        raise InputError(f"min_rows is {min_rows}, but a stratum that is scored has at least one row; correct it")
    right = truth == predicted
    actual, selected = truth == positive, predicted == positive
    labels, place, counts = np.unique(strata, return_inverse=True, return_counts=True)

    def by_stratum(events: Flags, among: Flags) -> dict[str, float]:
        """Return the share of events among the given rows, for each large stratum that has such rows."""
        rows = np.bincount(place, weights=among, minlength=len(labels))
        hits = np.bincount(place, weights=events & among, minlength=len(labels))
        kept = np.flatnonzero((counts >= min_rows) & (rows > 0))
        return {str(labels[i]): float(hits[i] / rows[i]) for i in kept}

    every = np.ones(len(truth), dtype=bool)
    rates, misses = by_stratum(selected, every), by_stratum(~selected, actual)
    highest = max(rates.values(), default=0.0)
    return GroupFairness(
        accuracy=float(right.mean()),
        dpr=min(rates.values()) / highest if highest else 1.0,
        fnr_diff=max(misses.values()) - min(misses.values()) if misses else 0.0,
        selection_rate=rates,
        false_negative_rate=misses,
        accuracy_by_stratum=by_stratum(right, every),
    )
