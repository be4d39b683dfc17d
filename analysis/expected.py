"""Expected error of a release by group and column, computed from published numbers alone.

All results are post-processing, so they cost no privacy. In a group with n rows, the prior variance of a share p around
the share of all rows is p(1 − p)(1/n + τ²). The first term is due to sampling, and the second term is due to
differences between groups (see `equistrata.analysis.uncertainty.groups`). The measurements within the group have noise
of variance v. The posterior variance of the real share is the product of these two variances divided by their sum. If
replicates are used, as in the report, their mean squared error is used instead if it is larger. The expected total
variation distance is computed for Gaussian errors.

If a part h of the table was held out, then the n measured rows are a sample of the n/(1 − h) rows of the table. The
variance of a measured share around the share of the table is h p(1 − p)/n in addition to the noise, and the prior
variance is p(1 − p)((1 − h)/n + τ²). If units have up to k rows, h p(1 − p)/n is multiplied by k, because the rows of a
unit are held out together and may be similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from equistrata.analysis.answers import Answers
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.groups import (
    GroupShares,
    between_groups,
    counted_sizes,
    group_shares,
    group_sizes,
    least_shares,
    measured_groups,
)
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED
from equistrata.analysis.uncertainty.sizes import measured_sizes
from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.data.strata import MIN_SHARE
from equistrata.stats.distributions import NOISE_L1, upper_end
from equistrata.stats.scales import WORST_DISTANCE, Scale
from equistrata.synth.measurements import Merging

WITHIN = 0.003  # τ² for the position of a stratum's rows within a group of codes (docs/proofs/estimates.md)
_LEAST_LEFT = 1e-6  # the smallest factor for a variance of shares that add up to one
_LEVEL = 0.95  # the level of the intervals of group sizes


def expected_distances(answers: Answers, replicated: bool = True) -> pd.DataFrame:
    """Compute the expected error of each column in each group.

    Parameters
    ----------
    answers : Answers
        The answers of a release.
    replicated : bool
        If True, the variation between replicates is included. If False, no model is fitted again.

    Returns
    -------
    DataFrame
        One row for each group of the strata and each other column except the survey weight. If there are no strata, the
        only group is all rows. The columns that define the strata contain released values. `rows` is the estimated
        number of rows, with a 95 % interval in `rows_lower` and `rows_upper`. `distance` is the expected distance
        between the released distribution of `column` and the real one, in [0, 1], as defined in
        `equistrata.eval.scores.distances.parity_distance`. This is the total variation distance for nominal columns,
        and a transport distance for numbers and ordinal codes. `total_variation` is the total variation distance for
        every column.
    """
    return Expected.of(answers.evidence, answers if replicated else None).frame


@dataclass(frozen=True, eq=False)
class Errors:
    """The expected error of the shares of a column in k groups of rows.

    Attributes
    ----------
    column : Column
        The column, which has c codes.
    groups : tuple of int or None
        The m groups of codes in which the column was measured (see `measured_groups`). None if it was measured by its
        codes, so that m = c.
    error : ndarray of shape (k, m)
        The mean squared error of each share.
    fine : ndarray of shape (k, c) or None
        The shares of the codes, if the column was measured in groups.
    inside : ndarray of shape (k, m)
        The uncertainty of the position of rows within groups of codes. See `Scale.expected_within`.
    """

    column: Column
    groups: Merging
    error: Floats
    fine: Floats | None
    inside: Floats

    @property
    def variation(self) -> Floats:
        """The expected total variation distance of the measured shares, shape (k,)."""
        return _variation(self.error)

    @property
    def distance(self) -> Floats:
        """The expected distance as defined for the parity of distributions, shape (k,)."""
        scale = Scale.of(self.column)
        if scale is None or self.groups is None or self.fine is None:
            return _distance(self.column, self.groups, self.error)
        merged, order = scale.merged(self.groups)
        error = _independent(self.error[:, order], len(merged.places))
        return scale.expected_within(error, self.groups, self.fine, self.inside[:, order])

    def over_all(self, weights: Floats) -> float:
        """Return the expected distance over all rows, given the weight of each group.

        The position of rows within groups of codes is assumed to be known over all rows.
        """
        return float(_distance(self.column, self.groups, weights**2 @ self.error))


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected errors of the released shares of all columns.

    Attributes
    ----------
    evidence : Evidence
        The published measurements.
    names : tuple of str
        The d columns that do not define strata. The survey weight is only included if there is no other column.
    sizes : ndarray of shape (k,)
        The number of rows in each group, which is at least 1.
    errors : sequence of Errors
        The expected errors of each column.
    chances : ndarray of shape (k,)
        The probability that a group has a share of at least MIN_SHARE of the rows. Only these groups are included in
        the parity distance.
    counted : sequence of Errors
        The expected errors of each column, given that the group has at least this share.
    """

    evidence: Evidence
    names: tuple[str, ...]
    sizes: Floats
    errors: Sequence[Errors]
    chances: Floats
    counted: Sequence[Errors]

    @classmethod
    def of(cls, evidence: Evidence, answers: Answers | None = None) -> Expected:
        """Compute the expected errors from the evidence and, if `answers` is given, from its replicates."""
        strata, sizes = evidence.strata, np.maximum(group_sizes(evidence), 1.0)
        inverse = counted_sizes(evidence)[1]
        chances, inverse_counted = counted_sizes(evidence, MIN_SHARE * max(float(sizes.sum()), 1.0))
        others = tuple(name for name in evidence.names if name not in strata.columns)
        names = tuple(name for name in others if name != strata.schema.survey_weight) or others
        columns = [group_shares(evidence, evidence.model, name) for name in names]
        errors: list[Errors] = []
        counted: list[Errors] = []
        spread = between_groups(evidence, columns, inverse)
        for found in columns:
            moved = 0.0 if answers is None else _moved(answers, found)
            shares = found.shares
            if answers is None:  # without replicates, a share of 0 would have no error
                least = least_shares(evidence, found.column)
                shares = np.clip(shares, least, 1 - least)
            noise, held_out = found.noise / sizes[:, None] ** 2, evidence.held_out
            groups = measured_groups(evidence, found.column)
            for kept, of_rows in ((errors, inverse), (counted, inverse_counted)):
                own = np.minimum((1 - held_out) * of_rows + spread[found.column], 1.0)[:, None]
                part = np.minimum(held_out * strata.schema.unit.at_most * of_rows, 1.0)[:, None]
                before, sampled = shares * (1 - shares) * own, shares * (1 - shares) * part
                after = noise + sampled
                heard = before / np.maximum(before + after, 1e-300)  # the weight of the measurements
                error = np.maximum(heard * after, moved + heard**2 * sampled)
                inside = _within(found.shares, sizes, of_rows)
                kept.append(Errors(strata.schema[found.column], groups, error, found.fine, inside))
        return cls(evidence, names, sizes, errors, chances, counted)

    @property
    def variations(self) -> Floats:
        """The expected total variation distances, shape (k, d)."""
        return np.stack([each.variation for each in self.errors], axis=1)

    @property
    def distances(self) -> Floats:
        """The expected distances as defined for the parity of distributions, shape (k, d)."""
        return np.stack([each.distance for each in self.errors], axis=1)

    @property
    def parity_distance(self) -> float:
        """The expected value of `equistrata.eval.scores.distances.parity_distance`.

        Each group is weighted by the probability that it is included. The distance over all rows is divided by the
        number of groups, and it assumes that the errors of groups are independent. As in the score, the distance of a
        group is 1 if none of its rows are released.
        """
        by_group, weights = np.stack([each.distance for each in self.counted], 1).mean(1), self.sizes / self.sizes.sum()
        if not self.evidence.strata.columns:
            return float(by_group[0])
        by_group = np.where(self.released, by_group, WORST_DISTANCE)
        whole = np.mean([each.over_all(weights) for each in self.errors])
        return float(whole / max(self.groups, 1.0) + self.chances @ by_group)

    @property
    def groups(self) -> float:
        """The expected number of groups that are included in the parity distance."""
        return float(self.chances.sum())

    @property
    def released(self) -> npt.NDArray[np.bool_]:
        """A mask of the groups that have released rows, shape (k,).

        The number of released rows is assumed to be equal to the number of rows in the table.
        """
        model = self.evidence.model
        rows = model.weights.allocate(round(model.total))
        return np.array([rows[key] > 0 for key in self.evidence.strata.keys])

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """True for each group that is large enough to be included, shape (k,).

        A group must have at least MIN_SHARE of the rows, and the interval of its number of rows must not contain 0. If
        the sizes were not measured, they are public.
        """
        sizes = group_sizes(self.evidence)
        large = sizes >= MIN_SHARE * max(float(sizes.sum()), 1.0)
        lower, upper = self.limits.T
        return np.asarray(large & ((lower > 0) | np.isinf(upper)))

    @cached_property
    def limits(self) -> Floats:
        """The interval of the number of rows in each group, shape (k, 2).

        It is computed as in `Answers.estimate` for a count. If the size of a group was not measured, the interval is
        from 0 to infinity.
        """
        counts, variance = measured_sizes(self.evidence, self.evidence.strata)
        held_out, alike = self.evidence.held_out, self.evidence.strata.schema.unit.at_most
        known = variance < NOT_MEASURED / 2
        error = np.sqrt(np.where(known, variance, 0.0) + held_out * alike * np.maximum(counts, 0.0))
        lower = np.maximum(counts - float(scipy.special.ndtri((1 + _LEVEL) / 2)) * error, 0.0)
        ends = np.stack([lower, upper_end(counts, error, _LEVEL)], axis=1) / (1 - held_out)
        return np.where(known[:, None], ends, np.array([0.0, np.inf]))

    @property
    def frame(self) -> pd.DataFrame:
        """The data frame that is returned by `expected_distances`."""
        strata, rows = self.evidence.strata, self.sizes / (1 - self.evidence.held_out)
        variations, distances = self.variations, self.distances
        lines = [
            (*key, size, *self.limits[group], name, distances[group, place], variations[group, place])
            for place, name in enumerate(self.names)
            for group, (key, size) in enumerate(zip(strata.keys, rows, strict=True))
        ]
        counts = ["rows", "rows_lower", "rows_upper"]
        return pd.DataFrame(lines, columns=[*strata.columns, *counts, "column", "distance", "total_variation"])


def served(evidence: Evidence) -> dict[str, Any]:
    """Summarise the expected errors of groups for the card of a release.

    The errors are computed in closed form, without replicates.

    Parameters
    ----------
    evidence : Evidence
        The measurements of a release.

    Returns
    -------
    dict
        `parity_distance` is the expected parity distance, and `counted` is the expected number of groups that it
        includes. `covered` is the number of groups that are known to be large enough. `groups` contains for each group
        its `label`, its `words`, the estimated number of `rows`, the ends of the 95 % interval (`lower` and `upper`, or
        None if the interval has no end), whether the group is `covered`, and its `distance`. `distance` is the mean
        over columns of the expected distance between the released distributions and the real ones. `scored` is True,
        which distinguishes the card from earlier cards with other distances.
    """
    expected = Expected.of(evidence)
    strata, kept = evidence.strata, 1 - evidence.held_out
    ends = [[float(f"{end:.6g}") if np.isfinite(end) else None for end in each] for each in expected.limits]
    lines = zip(strata.keys, expected.sizes / kept, ends, expected.covered, expected.distances.mean(1), strict=True)
    groups = [
        {
            "label": strata.label(key),
            "words": strata.words(key),
            "rows": round(float(rows)),
            "lower": lower,
            "upper": upper,
            "covered": bool(covered),
            "distance": float(distance),
        }
        for key, rows, (lower, upper), covered, distance in lines
    ]
    return {
        "parity_distance": expected.parity_distance,
        "counted": expected.groups,
        "covered": int(expected.covered.sum()),
        "groups": groups if strata.columns else [],
        "distance": float(expected.distances.mean()),
        "scored": True,
    }


def _variation(error: Floats) -> Floats:
    return np.asarray(np.minimum(0.5 * NOISE_L1 * np.sqrt(error).sum(-1), 1.0))


def _distance(column: Column, groups: Merging, error: Floats) -> Floats:
    scale = Scale.of(column)
    if scale is None:
        return _variation(error)
    if groups is not None:
        scale, order = scale.merged(groups)
        error = error[..., order]
    return scale.expected_distance(_independent(error, len(scale.places)))


def _within(shares: Floats, sizes: Floats, inverse: Floats) -> Floats:
    """Return the variance of the position of rows within groups of codes, relative to all rows, shape (k, m).

    If a stratum has a part f of all rows in a group, its distribution is closer to that of all rows. Therefore, only
    2(1 − f)² of the variance between strata remains.
    """
    rows = shares * sizes[:, None]
    rest = 1 - rows / np.maximum(rows.sum(0), 1e-300)
    own = WITHIN * np.minimum(2 * rest**2, 1.0)
    return np.asarray(np.minimum(rest * inverse[:, None] / np.maximum(shares, 1e-9) + own, 1.0))


def _independent(error: Floats, present: int) -> Floats:
    """Convert errors of shares, which add up to zero, into independent errors.

    For example, the variance of each share is doubled if there are two codes with the same variance.
    """
    kept = error[..., :present]
    whole = np.maximum(kept.sum(-1, keepdims=True), 1e-300)
    left = np.maximum(1 - ((kept / whole) ** 2).sum(-1, keepdims=True), _LEAST_LEFT)
    return np.concatenate([kept / left, error[..., present:]], axis=-1)


def _moved(answers: Answers, found: GroupShares) -> Floats:
    """Return the mean squared change of the shares across replicates, due to noise, shrinkage and the fit."""
    others = (group_shares(answers.evidence, model, found.column, counted=False) for model, _ in answers.replicated())
    return np.asarray(np.mean([(other.shares - found.shares) ** 2 for other in others], axis=0))
