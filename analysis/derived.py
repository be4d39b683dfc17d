"""Differences and ratios between groups, and quantiles: from intervals of proportions and means.

Two estimates that do not depend on each other have a difference with the ends d − √((r₁ − l₁)² + (u₂ − r₂)²) and
d + √((u₁ − r₁)² + (r₂ − l₂)²): as good as the intervals [l, u] that it is made of, symmetric or not. Where their errors
have a correlation, twice that times the product of both parts is taken off under the root.

Sources: Zou and Donner (2008), Statistics in Medicine 27, 1693 (MOVER); Woodruff (1952), JASA 47, 635 (quantiles).

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
PARTS = ["privacy_error", "sampling_error"]  # of the standard error: the root of the sum of their squares
ANSWER = [*NUMBERS, *PARTS]
_ENDS = ["_least", "_most"]
_REACH = ["_value", "_lower", "_upper"]
_INNER = [*_ENDS, "_shared", *_REACH]
_BASES = [MEASURED, IMPLIED, REFUSED]  # the weakest counts


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
    """Each group against the first one: differences with p-values, or ratios of numbers that are not negative.

    An interval that ends where numbers end (a share's at 0 or 1) says nothing of chance there: the real number may be
    there as often as not. Such an end is added to the other one's instead of its square to the other's, unless it is
    known where the interval would end without (`reach`).

    Args:
        groups: an estimate by group, and perhaps by value: columns of labels, ANSWER and `basis`.
        by: the columns that define groups.
        ends: the least and the greatest that each number can be, shape (n, 2); none if they have no ends.
        shared: the correlation of each number's error with that of the first group's, shape (n,); none if not known.
        tested: whether differences have p-values; NaN otherwise.
        reach: each number and its interval's ends where nothing cuts them off, shape (n, 3); NaN where only the
            interval is known. The root of squares is then of these, which is right wherever numbers end, and a
            difference is nowhere beyond the ends of both intervals.
    """
    limits = np.broadcast_to([[-np.inf, np.inf]] if ends is None else ends, (len(groups), 2))
    free = np.broadcast_to([[np.nan] * 3] if reach is None else reach, (len(groups), 3))
    hidden = dict(zip([*_ENDS, *_REACH], [*limits.T, *free.T], strict=True))
    groups = groups.assign(**hidden, _shared=0.0 if shared is None else shared)
    others = [name for name in groups.columns if name not in {*by, *ANSWER, *_INNER, "basis"}]
    parts = [part for _, part in groups.groupby(others, sort=False, dropna=False)] if others else [groups]
    if not by or len(parts[0]) < 2:
        raise InputError("a comparison needs groups; name the columns that define them with 'by'")
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
        if ratio:  # on the scale of logarithms; of a number that may be 0 nothing bounds it
            value, lower, upper = (np.log(np.maximum(each, 0.0)) for each in (value, lower, upper))
            start = np.log(np.maximum(start, 0.0)).tolist()
        apart = value - start[0]
        down = _joined(value - lower, start[2] - start[0], at_least | bool(first["upper"] >= first["_most"]), shared)
        up = _joined(upper - value, start[0] - start[1], at_most | bool(first["lower"] <= first["_least"]), shared)
        down = np.nan_to_num(apart - down, nan=-np.inf, neginf=-np.inf)
        up = np.nan_to_num(apart + up, nan=np.inf, posinf=np.inf)
    z = float(scipy.special.ndtri((1 + level) / 2))
    if not ratio:
        away, below, above = apart, apart - down, up - apart  # of the p-value
        free = _free(first, rest, shared)
        known = np.isfinite(free).all(1)
        away, below, above = np.where(known, free.T, [away, below, above])
        box = lower - start[2], upper - start[1]
        down = np.where(known, np.minimum(np.maximum(away - below, box[0]), apart), down)
        up = np.where(known, np.maximum(np.minimum(away + above, box[1]), apart), up)
    rest["against"] = first[by[0]] if len(by) == 1 else ", ".join(str(first[name]) for name in by)
    if ratio:
        apart, down, up = np.exp(apart), np.exp(down), np.exp(up)  # 0 and infinity included
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
    """A standard error in two parts, of which it is the root of the sum of squares; numbers or arrays.

    Args:
        privacy: the variance by noise and the model's misfit.
        sampling: that by the sampling of rows.
    """
    share = np.asarray(sampling / np.maximum(privacy + sampling, 1e-300))
    share = np.clip(np.nan_to_num(share, nan=0.0), 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        found = [np.where(part > 0, error * np.sqrt(part), 0.0)[()] for part in (1 - share, share)]
    return found[0], found[1]


def _parts(first: pd.Series, rest: pd.DataFrame, ratio: bool) -> tuple[Floats, Floats]:
    """The variances of a difference, or of a ratio's logarithm, by privacy and by sampling: samples of two groups are
    independent, and their other errors have the rest of what is shared."""
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
    """A difference, and how far below and above it may be, where nothing cuts numbers off; shape (n, 3)."""
    value, lower, upper = (rest[name].to_numpy(dtype=float) for name in _REACH)
    start, least, most = (float(first[name]) for name in _REACH)
    never = np.zeros(len(value), dtype=bool)
    down = _joined(value - lower, most - start, never, shared)
    return np.column_stack([value - start, down, _joined(upper - value, start - least, never, shared)])


def _joined(one: Floats, other: float, ended: npt.NDArray[np.bool_], shared: Floats) -> Floats:
    """How far a difference may be off by two parts with this correlation of errors; their sum where one has ended."""
    squared = one**2 + other**2 - 2 * shared * one * other
    return np.asarray(np.where(ended, one + other, np.sqrt(np.maximum(squared, 0.0))))


def quantiles(shares: pd.DataFrame, by: Sequence[str], of: str, ends: Floats, q: float, level: float) -> pd.DataFrame:
    """The q-quantile of each group, where a share's interval crosses q.

    Args:
        shares: the share of rows up to each bin: the groups' columns, `of` (the bin's place), ANSWER and `basis`.
        ends: the least and the greatest value of each bin, shape (bins, 2).
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
