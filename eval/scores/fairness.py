"""Group fairness: how a classifier's predictions treat the strata of a test table, with conventions for small strata.

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
    """How well, and how evenly, predictions serve strata.

    Attributes:
        accuracy: share of all test rows predicted right, strata of any size included; in [0, 1], 1 is best.
        dpr: demographic parity ratio, least over greatest selection rate; in [0, 1], 1 means equal rates, 0 that some
            stratum is never selected.
        fnr_diff: greatest minus least false negative rate; in [0, 1], 0 means equal rates, 1 that every positive row
            of one stratum is missed and none of another.
        selection_rate: stratum → share of its rows predicted positive.
        false_negative_rate: stratum → share of its positive rows predicted negative; strata with no positive row are
            not in it.
        accuracy_by_stratum: stratum → share of its rows predicted right.
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
    """Accuracy over all rows; selection rates and false negative rates over strata with at least `min_rows` rows.

    The demographic parity ratio is 1 when no stratum has a positive prediction or fewer than two strata are large
    enough; the false negative rate difference is 0 when fewer than two of them have a positive row.

    Args:
        truth, predicted: labels, shape (n,), n ≥ 1. With more than two of them, accuracy counts all, and the rates
            are those of `positive` against the rest.
        strata: each row's stratum, shape (n,).
        positive: the label that counts as selected.
        min_rows: at least 1.

    Raises InputError if the shapes differ, there is no row, or `min_rows` is under 1.
    Privacy: EXACT, so internal; not private.
    Source: stratification paper, Figures 4 and 5; defined as fairlearn's `demographic_parity_ratio` and
    `false_negative_rate`.
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
        """The share of events among some rows of each large stratum that has such rows."""
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
