"""Scores of released rows and of readers' intervals. They use plain values, so both checkouts are scored equally."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from benchmarks.guard.tables import LEAST_GROUP, Question, Table

LEAST_SHARE = 0.001  # strata with a smaller share of the rows are not scored
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TRIPLE_BINS = 8  # the number of bins of a numeric column in marginals of three columns
LEAST_TRUTH = 1e-6

Scores = dict[str, float]


def scores_of(table: Table, real: pd.DataFrame, test: pd.DataFrame, made: pd.DataFrame) -> Scores:
    """Compute the errors of the released rows. All errors are 0 if the rows are equal.

    Parameters
    ----------
    table : Table
        The table.
    real, made : pandas.DataFrame
        The private rows and the released rows.
    test : pandas.DataFrame
        The rows that were held out for the classifier.

    Returns
    -------
    dict of str to float
        The parity error, the 3-way workload error over all rows and by stratum, and the misclassification rate. Tables
        with numbers also have the Wasserstein distance over all rows and by stratum, the errors of quantiles and means
        in standard deviations, and the errors of rank and linear correlations.
    """
    made = made[list(real.columns)].astype({name: real[name].dtype for name in real.columns})
    plain = [_coded(table, each, real) for each in (real, made)]
    groups = [each.groupby(list(table.strata)).indices for each in (real, made)]
    kept = {key: rows for key, rows in groups[0].items() if len(rows) >= LEAST_SHARE * len(real)}
    inner = [name for name in real.columns if name not in table.strata]
    worth = [
        each.assign(**{name: rows[name] for name in table.bounds})
        for each, rows in zip(plain, (real, made), strict=True)
    ]
    found = {
        "parity": _parity(worth, kept, groups[1], inner),
        "workload": _workload(plain[0], plain[1], list(real.columns)),
        "by stratum": float(
            np.mean(
                [_workload(plain[0].iloc[rows], _part(plain[1], groups[1], key), inner) for key, rows in kept.items()]
            )
        ),
        "misclassified": _misclassified(table, made, test),
    }
    if table.bounds:
        found |= _of_numbers(table, real, made)
        found["W by stratum"] = float(
            np.mean(
                [_wasserstein(table, real, real.iloc[rows], _part(made, groups[1], key)) for key, rows in kept.items()]
            )
        )
    return found


def intervals_of(
    table: Table, real: pd.DataFrame, question: Question, answer: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield each interval of an answer with its basis, its width, and whether it contains the number of the rows.

    The widths of means are in standard deviations of the column.
    """
    statistic, of, by = question
    kind = f"{statistic}{' by' * bool(by)}"
    if "refused" in answer:
        yield {"kind": kind, "basis": "refused", "rows": 0, "inside": False, "width": np.nan}
        return
    scale = float(real[of].std()) if statistic == "mean" else 1.0
    for line in pd.DataFrame(answer).itertuples(index=False):
        rows = real
        for name in by:
            rows = rows[rows[name].astype(str) == str(getattr(line, name))]
        if not len(rows) or line.basis == "refused" or line.lower is None:
            continue
        values = rows[of] if statistic == "mean" else rows[of].astype(str) == str(getattr(line, of))
        inside = line.lower - 1e-9 <= float(values.mean()) <= line.upper + 1e-9
        size = "≥" if len(rows) >= LEAST_GROUP else "<"
        yield {
            "kind": kind,
            "basis": line.basis,
            "rows": size,
            "inside": inside,
            "width": (line.upper - line.lower) / scale,
        }


def _coded(table: Table, rows: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
    """Return codes for all cells: the places of values, and the bins of numbers by the quantiles of the real rows."""
    found = {}
    for name in rows.columns:
        if name in table.bounds:
            cuts = np.unique(np.quantile(real[name], np.linspace(0, 1, TRIPLE_BINS + 1)[1:-1]))
            found[name] = np.searchsorted(cuts, rows[name], side="left")
        else:
            found[name] = np.searchsorted(np.sort(real[name].unique()), rows[name])
    return pd.DataFrame(found)


def _part(rows: pd.DataFrame, groups: dict[Any, Any], key: Any) -> pd.DataFrame:
    return rows.iloc[groups[key]] if key in groups else rows.iloc[:0]


def _parity(plain: list[pd.DataFrame], kept: dict[Any, Any], groups: dict[Any, Any], inner: list[str]) -> float:
    """Return the sum over strata of the normalised errors of the means.

    The error over all rows, divided by the number of strata, is added.
    """

    def error(real: pd.DataFrame, made: pd.DataFrame) -> float:
        if not len(made):
            return 1.0
        truth = real[inner].mean().to_numpy()
        known = truth > LEAST_TRUTH
        return float(np.mean(np.abs(made[inner].mean().to_numpy() - truth)[known] / truth[known]))

    real, made = plain
    whole = error(real, made) / max(len(kept), 1)
    return whole + sum(error(real.iloc[rows], _part(made, groups, key)) for key, rows in kept.items())


def _workload(real: pd.DataFrame, made: pd.DataFrame, columns: list[str]) -> float:
    """Return the mean L1 distance of normalised marginals of three columns, which is 2 if there are no rows."""
    if not len(made):
        return 2.0
    sizes = {name: 1 + int(max(real[name].max(), made[name].max())) for name in columns}
    found = []
    for triple in combinations(columns, min(3, len(columns))):
        shares = [
            np.bincount(
                np.ravel_multi_index([each[name].to_numpy() for name in triple], [sizes[name] for name in triple]),
                minlength=int(np.prod([sizes[name] for name in triple])),
            )
            / len(each)
            for each in (real, made)
        ]
        found.append(float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def _misclassified(table: Table, made: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the share of held-out rows that are misclassified by a random forest trained on the released rows."""

    def features(rows: pd.DataFrame) -> pd.DataFrame:
        return _coded(table, rows, test).drop(columns=table.target) if table.codes else rows

    if made[table.target].nunique() < 2:
        return float((test[table.target] != made[table.target].iloc[0]).mean())
    forest = RandomForestClassifier(100, random_state=42).fit(features(made), made[table.target])
    return float((forest.predict(features(test)) != test[table.target]).mean())


def _wasserstein(table: Table, whole: pd.DataFrame, real: pd.DataFrame, made: pd.DataFrame) -> float:
    """Return the mean Wasserstein-1 distance of the numeric columns, in standard deviations of all rows."""
    places = np.linspace(0, 1, 2_001)[1::2]
    found = []
    for name in table.bounds:
        spread = float(whole[name].std())
        if not len(made):
            found.append(1.0)
            continue
        ends = [np.quantile(each[name], places, method="inverted_cdf") for each in (real, made)]
        found.append(float(np.abs(ends[0] - ends[1]).mean()) / spread)
    return float(np.mean(found))


def _of_numbers(table: Table, real: pd.DataFrame, made: pd.DataFrame) -> Scores:
    names = list(table.bounds)
    spread = real[names].std()
    quantiles = (made[names].quantile(QUANTILES) - real[names].quantile(QUANTILES)).abs() / spread
    upper = np.triu_indices(len(names), 1)
    apart = {
        how: float(np.abs(made[names].corr(how).fillna(0).to_numpy() - real[names].corr(how).to_numpy())[upper].mean())
        for how in ("spearman", "pearson")
        if len(names) > 1
    }
    return apart | {
        "W": _wasserstein(table, real, real, made),
        "quantiles": float(quantiles.to_numpy().mean()),
        "means": float(((made[names].mean() - real[names].mean()).abs() / spread).mean()),
    }
