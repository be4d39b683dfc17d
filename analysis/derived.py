"""Differences and ratios between groups, and quantiles, computed from intervals of proportions and means.

The difference of two independent estimates r₁ and r₂ with intervals [l, u] has the ends d − √((r₁ − l₁)² + (u₂ − r₂)²)
and d + √((u₁ − r₁)² + (r₂ − l₂)²). This interval is as accurate as the intervals that it is computed from, and these do
not need to be symmetric. If the errors have a correlation, then twice the correlation times the product of the two
parts is subtracted under the root.

References
----------
.. [1] Zou and Donner (2008), Statistics in Medicine 27, 1693 (MOVER).
.. [2] Woodruff (1952), JASA 47, 635 (quantiles).

>>> import pandas as pd
>>> groups = pd.DataFrame({"SEX": [1, 2], "estimate": [0.6, 0.5], "lower": [0.55, 0.46], "upper": [0.64, 0.55],
...                        "standard_error": [0.02, 0.02], "sampling_error": 0.0,
...                        "basis": "measured"})
>>> found = contrasts(groups, ["SEX"], level=0.95, ratio=False)
>>> found[["SEX", "against", "estimate", "lower", "upper"]].round(3).values.tolist()
[[2.0, 1.0, -0.1, -0.157, -0.029]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from equistrata.arrays import Floats
from equistrata.errors import InputError

MEASURED, IMPLIED, REFUSED = "measured", "implied", "refused"
NUMBERS = ["estimate", "lower", "upper", "standard_error"]
PARTS = ["privacy_error", "sampling_error"]  # the standard error is the square root of the sum of their squares
ANSWER = [*NUMBERS, *PARTS]
_ENDS = ["_least", "_most"]
_REACH = ["_value", "_lower", "_upper"]
_INNER = [*_ENDS, "_shared", *_REACH]
_BASES = [MEASURED, IMPLIED, REFUSED]  # from the strongest to the weakest


def contrasts(
    groups: pd.DataFrame,
    by: Sequence[str],
    level: float,
    ratio: bool,
    ends: Floats | None = None,
    shared: Floats | None = None,
    tested: bool = True,
    reach: Floats | None = None,
) -> pd.DataFrame:
    """Compare each group with the first one, by differences with p-values or by ratios.

    If an interval ends at the limit of the possible values, such as 0 or 1 for a share, then this end does not describe
    the random error, because the real number may often be at the limit. The lengths of the two arms are then added.
    Otherwise, the root of the sum of their squares is used. This rule is not needed if the ends of the interval before
    clipping are known (`reach`).

    Parameters
    ----------
    groups : DataFrame
        One estimate per group, and optionally per value, with the labels, the columns of `ANSWER` and `basis`.
    by : sequence of str
        The columns that define the groups.
    level : float
        The level of the intervals, in (0, 1).
    ratio : bool
        If True, return ratios. The estimates must then be nonnegative.
    ends : ndarray of shape (n, 2), optional
        The smallest and the largest possible value of each estimate. If None, the values are not limited.
    shared : ndarray of shape (n,), optional
        The correlation of each estimate's error with the error of the first group's estimate. If None, it is 0.
    tested : bool
        If False, the p-values of differences are NaN.
    reach : ndarray of shape (n, 3), optional
        Each estimate and the ends of its interval before clipping, or NaN if only the clipped interval is known. If
        given, these ends are combined by the root of squares, which is valid for any limit. The interval of a
        difference then never exceeds the range that the two intervals allow.

    Returns
    -------
    DataFrame
        One row per group except the first, with the label of the first group in `against`.
    """
    limits = np.broadcast_to([[-np.inf, np.inf]] if ends is None else ends, (len(groups), 2))
    free = np.broadcast_to([[np.nan] * 3] if reach is None else reach, (len(groups), 3))
    hidden = dict(zip([*_ENDS, *_REACH], [*limits.T, *free.T], strict=True))
    groups = groups.assign(**hidden, _shared=0.0 if shared is None else shared)
    others = [name for name in groups.columns if name not in {*by, *ANSWER, *_INNER, "basis"}]
    parts = [part for _, part in groups.groupby(others, sort=False, dropna=False)] if others else [groups]
    if not by or len(parts[0]) < 2:
        raise InputError("a comparison needs groups; give the columns that define the groups in 'by'")
    found = pd.concat([_against_first(part, by, level, ratio) for part in parts], ignore_index=True)
    return found if tested or ratio else found.assign(p_value=np.nan)


def _against_first(part: pd.DataFrame, by: Sequence[str], level: float, ratio: bool) -> pd.DataFrame:
    first, rest = part.iloc[0], part.iloc[1:].copy()
    value, lower, upper = (rest[name].to_numpy(dtype=float) for name in NUMBERS[:3])
    start = [float(first[name]) for name in NUMBERS[:3]]
    parts = _parts(first, rest, ratio)
    shared = rest["_shared"].to_numpy(dtype=float)
    at_least, at_most = (lower <= rest["_least"].to_numpy()), (upper >= rest["_most"].to_numpy())
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if ratio:  # on the logarithmic scale, where a number that may be 0 has no lower bound
            value, lower, upper = (np.log(np.maximum(each, 0.0)) for each in (value, lower, upper))
            start = np.log(np.maximum(start, 0.0)).tolist()
        apart = value - start[0]
        down = _joined(value - lower, start[2] - start[0], at_least | bool(first["upper"] >= first["_most"]), shared)
        up = _joined(upper - value, start[0] - start[1], at_most | bool(first["lower"] <= first["_least"]), shared)
        down = np.nan_to_num(apart - down, nan=-np.inf, neginf=-np.inf)
        up = np.nan_to_num(apart + up, nan=np.inf, posinf=np.inf)
    z = float(scipy.special.ndtri((1 + level) / 2))
    if not ratio:
        away, below, above = apart, apart - down, up - apart  # used for the p-value
        free = _free(first, rest, shared)
        known = np.isfinite(free).all(1)
        away, below, above = np.where(known, free.T, [away, below, above])
        box = lower - start[2], upper - start[1]
        down = np.where(known, np.minimum(np.maximum(away - below, box[0]), apart), down)
        up = np.where(known, np.maximum(np.minimum(away + above, box[1]), apart), up)
    rest["against"] = first[by[0]] if len(by) == 1 else ", ".join(str(first[name]) for name in by)
    if ratio:
        apart, down, up = np.exp(apart), np.exp(down), np.exp(up)  # 0 and infinity are valid here
    rest["estimate"], rest["lower"], rest["upper"], rest["standard_error"] = apart, down, up, (up - down) / (2 * z)
    rest[PARTS[0]], rest[PARTS[1]] = parts_of(rest["standard_error"].to_numpy(), *parts)
    weakest = [max(str(basis), str(first["basis"]), key=_BASES.index) for basis in rest["basis"]]
    rest["basis"] = weakest
    if not ratio:
        near = np.where(away > 0, below, above)  # towards zero
        with np.errstate(divide="ignore", invalid="ignore"):
            rest["p_value"] = 2 * scipy.special.ndtr(-np.abs(np.where(near > 0, away / near, 0.0)) * z)
    rest.loc[rest["basis"] == REFUSED, [*ANSWER, *([] if ratio else ["p_value"])]] = np.nan
    labels = [name for name in part.columns if name not in {*ANSWER, *_INNER, "basis"}]
    tail = [*ANSWER, *([] if ratio else ["p_value"]), "basis"]
    return rest[[*labels, "against", *tail]]


def parts_of(error: Any, privacy: Any, sampling: Any) -> tuple[Any, Any]:
    """Split a standard error into two parts, such that it is the square root of the sum of their squares.

    Parameters
    ----------
    error : float or ndarray
        The standard error.
    privacy : float or ndarray
        The variance due to noise and the misfit of the model.
    sampling : float or ndarray
        The variance due to the sampling of rows.

    Returns
    -------
    tuple
        The privacy part and the sampling part of the standard error.
    """
    share = np.asarray(sampling / np.maximum(privacy + sampling, 1e-300))
    share = np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        found = [np.where(part > 0, error * np.sqrt(part), 0.0)[()] for part in (1 - share, share)]
    return found[0], found[1]


def _parts(first: pd.Series, rest: pd.DataFrame, ratio: bool) -> tuple[Floats, Floats]:
    """Return the privacy and sampling variances of a difference, or of the logarithm of a ratio.

    The samples of two groups are independent, so only the privacy errors are correlated.
    """
    scale, own = (
        (np.ones(len(rest)), 1.0) if not ratio else (rest["estimate"].to_numpy(float), float(first["estimate"]))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        (error, drawn), (start, start_drawn) = (
            [part["standard_error"] / by, part[PARTS[1]] / by] for part, by in ((rest, scale), (first, own or np.nan))
        )
        sampling = np.asarray(drawn**2 + start_drawn**2)
        whole = np.asarray(error**2 + start**2 - 2 * rest["_shared"] * error * start)
    return np.maximum(whole - sampling, 0.0), sampling


def _free(first: pd.Series, rest: pd.DataFrame, shared: Floats) -> Floats:
    """Return differences and the lengths of their lower and upper arms before clipping, shape (n, 3)."""
    value, lower, upper = (rest[name].to_numpy(dtype=float) for name in _REACH)
    start, least, most = (float(first[name]) for name in _REACH)
    never = np.zeros(len(value), dtype=bool)
    down = _joined(value - lower, most - start, never, shared)
    return np.column_stack([value - start, down, _joined(upper - value, start - least, never, shared)])


def _joined(one: Floats, other: float, ended: npt.NDArray[np.bool_], shared: Floats) -> Floats:
    """Combine one arm of each of two estimates, given the correlation of their errors.

    If one of the two intervals ends at the limit of the possible values, the arms are added.
    """
    squared = one**2 + other**2 - 2 * shared * one * other
    return np.asarray(np.where(ended, one + other, np.sqrt(np.maximum(squared, 0.0))))


def quantiles(shares: pd.DataFrame, by: Sequence[str], of: str, ends: Floats, q: float, level: float) -> pd.DataFrame:
    """Estimate the q-quantile of each group from the points where the intervals of cumulative shares cross q.

    Parameters
    ----------
    shares : DataFrame
        The share of rows up to each bin. It has the columns of the groups, the place of the bin in `of`, the columns of
        `ANSWER` and `basis`.
    by : sequence of str
        The columns that define the groups.
    of : str
        The column of `shares` with the place of each bin.
    ends : ndarray of shape (bins, 2)
        The smallest and the largest value of each bin.
    q : float
        The order of the quantile, in (0, 1).
    level : float
        The level of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per group.
    """
    rows = []
    z = float(scipy.special.ndtri((1 + level) / 2))
    for _, part in shares.groupby(list(by), sort=False, dropna=False) if by else [((), shares)]:
        value, lower, upper = (np.maximum.accumulate(part[name].to_numpy(dtype=float)) for name in NUMBERS[:3])
        middle, least, most = (_first(each, q) for each in (value, upper, lower))
        low, high = float(ends[least, 0]), float(ends[most, 1])
        before = value[middle - 1] if middle else 0.0
        inside = (q - before) / max(value[middle] - before, 1e-12)
        estimate = float(ends[middle, 0] + min(max(inside, 0.0), 1.0) * (ends[middle, 1] - ends[middle, 0]))
        basis = max(map(str, part["basis"]), key=_BASES.index)
        labels = {name: part.iloc[0][name] for name in by}
        error, (privacy, sampling) = (high - low) / (2 * z), (part[name].iloc[middle] ** 2 for name in PARTS)
        found = min(max(estimate, low), high), low, high, error, *parts_of(error, privacy, sampling)
        numbers = dict(zip(ANSWER, found, strict=True))
        rows.append(labels | {of: f"quantile {q:g}"} | numbers | {"basis": basis})
    return pd.DataFrame(rows)


def _first(rising: Floats, q: float) -> int:
    return min(int(np.searchsorted(rising, q, side="left")), len(rising) - 1)
