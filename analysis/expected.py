"""How far a release is expected to be off, by group and column, from published numbers alone. Post-processing, no cost.

A share p of a group's n rows has variance p(1 − p)(1/n + τ²) about that of all rows: its rows are a sample, and groups
differ by more than that (`equistrata.analysis.uncertainty.groups`). What was measured within the group has noise of
variance v. The posterior variance of the real share is their product over their sum, in closed form; on a page, where
noise, shrinkage and the fit alone (replicates) move the share by more, that counts. The expected total variation
follows as for Gaussian errors.

Of a table of which a part h was held out, n rows were measured, a sample of its n/(1 − h). So a measured share has h
p(1 − p)/n besides its noise about the table's, and the table's own has p(1 − p)((1 − h)/n + τ²); with units of up to k
rows, which are held out together and may be alike, k times h.
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
    size_deviations,
)
from equistrata.analysis.uncertainty.least_squares import NOT_MEASURED
from equistrata.analysis.uncertainty.sizes import measured_sizes
from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.data.strata import MIN_SHARE
from equistrata.stats.laws import NOISE_L1, upper_end
from equistrata.stats.scales import WORST_DISTANCE, Scale
from equistrata.synth.measurements import Merging

WITHIN = 0.003  # τ² of where a stratum's rows are in a group of codes (docs/experiments/estimates.md)
_LEAST_LEFT = 1e-6  # of a variance, once shares add up
_LEVEL = 0.95  # of the intervals of groups' sizes
_SEEN = 2.0  # standard deviations of its noise: what a group's size must be for the group to count


def expected_distances(answers: Answers, replicated: bool = True) -> pd.DataFrame:
    """A row for each group of the strata (one of all rows without any) and each other column but the survey weight.

    Columns: those that define strata, by released values; `rows`, as estimated, and their interval at 95 %,
    `rows_lower` and `rows_upper`; `column`; `distance`, how far the released distribution is expected to be from the
    real one, in [0, 1], as
    `equistrata.eval.scores.distances.parity_distance` has it: of names total variation, of numbers and ordinal codes
    how far they are moved; `total_variation`, that distance of every column's shares.

    Args:
        replicated: whether what replicates move by counts too; without, no model is fitted anew for it.
    """
    return Expected.of(answers.evidence, answers if replicated else None).frame


@dataclass(frozen=True, eq=False)
class Errors:
    """How far a column's shares are expected to be off in k groups of rows.

    Attributes:
        column: of c codes.
        groups: of codes, m of them, in which it was measured (`measured_groups`); None where it is by its m = c codes.
        error: the mean square error of each share, shape (k, m).
        fine: the shares of the codes, where they are in groups, shape (k, c).
        inside: where rows are within groups of codes: see `Scale.expected_within`; shape (k, m).
    """

    column: Column
    groups: Merging
    error: Floats
    fine: Floats | None
    inside: Floats

    @property
    def variation(self) -> Floats:
        """Expected total variation distance of what was measured, shape (k,)."""
        return _variation(self.error)

    @property
    def distance(self) -> Floats:
        """Expected distance as parity of distributions has it, shape (k,)."""
        scale = Scale.of(self.column)
        if scale is None or self.groups is None or self.fine is None:
            return _distance(self.column, self.groups, self.error)
        merged, order = scale.merged(self.groups)
        error = _independent(self.error[:, order], len(merged.places))
        return scale.expected_within(error, self.groups, self.fine, self.inside[:, order])

    def over_all(self, weights: Floats) -> float:
        """The same of all rows, by the groups' shares of them; where rows are within groups of codes is known there."""
        return float(_distance(self.column, self.groups, weights**2 @ self.error))


@dataclass(frozen=True, eq=False)
class Expected:
    """How far the released shares of columns are expected to be off.

    Attributes:
        evidence: what was published.
        names: the d columns that do not define strata, without the survey weight (unless it is the only one).
        sizes: the rows of the k groups, at least 1, shape (k,).
        errors: of each column.
        chances: that a group has MIN_SHARE of the rows, so that it counts in parity distance, shape (k,).
        counted: as `errors`, if it does.
    """

    evidence: Evidence
    names: tuple[str, ...]
    sizes: Floats
    errors: Sequence[Errors]
    chances: Floats
    counted: Sequence[Errors]

    @classmethod
    def of(cls, evidence: Evidence, answers: Answers | None = None) -> Expected:
        """From the evidence, and from the replicates of `answers` if they are given."""
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
            if answers is None:  # replicates say how far a share may be from 0
                least = least_shares(evidence, found.column)
                shares = np.clip(shares, least, 1 - least)
            noise, held_out = found.noise / sizes[:, None] ** 2, evidence.held_out
            groups = measured_groups(evidence, found.column)
            for kept, of_rows in ((errors, inverse), (counted, inverse_counted)):
                own = np.minimum((1 - held_out) * of_rows + spread[found.column], 1.0)[:, None]
                part = np.minimum(held_out * strata.schema.unit.at_most * of_rows, 1.0)[:, None]
                before, sampled = shares * (1 - shares) * own, shares * (1 - shares) * part
                after = noise + sampled
                heard = before / np.maximum(before + after, 1e-300)  # the weight of what was measured
                error = np.maximum(heard * after, moved + heard**2 * sampled)
                inside = _within(found.shares, sizes, of_rows)
                kept.append(Errors(strata.schema[found.column], groups, error, found.fine, inside))
        return cls(evidence, names, sizes, errors, chances, counted)

    @property
    def variations(self) -> Floats:
        """Expected total variation distances, shape (k, d)."""
        return np.stack([each.variation for each in self.errors], axis=1)

    @property
    def distances(self) -> Floats:
        """Expected distances as parity of distributions has them, shape (k, d)."""
        return np.stack([each.distance for each in self.errors], axis=1)

    @property
    def parity_distance(self) -> float:
        """The expected `equistrata.eval.scores.distances.parity_distance`: of each group as far as it may count in it.

        Of the k-th part for all rows, errors of groups are taken to be independent. A group of which no row is released
        has distance 1, as in the score.
        """
        by_group, weights = np.stack([each.distance for each in self.counted], 1).mean(1), self.sizes / self.sizes.sum()
        if not self.evidence.strata.columns:
            return float(by_group[0])
        by_group = np.where(self.released, by_group, WORST_DISTANCE)
        whole = np.mean([each.over_all(weights) for each in self.errors])
        return float(whole / max(self.groups, 1.0) + self.chances @ by_group)

    @property
    def groups(self) -> float:
        """How many groups are expected to count in parity distance."""
        return float(self.chances.sum())

    @property
    def released(self) -> npt.NDArray[np.bool_]:
        """Which groups have rows among as many as the table has, shape (k,)."""
        model = self.evidence.model
        rows = model.weights.allocate(round(model.total))
        return np.array([rows[key] > 0 for key in self.evidence.strata.keys])

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Which groups are known to be large enough to count, shape (k,): MIN_SHARE of the rows, and _SEEN of noise."""
        sizes, sigmas = group_sizes(self.evidence), size_deviations(self.evidence)
        least = MIN_SHARE * max(float(sizes.sum()), 1.0)
        return np.asarray(sizes >= (least if sigmas is None else np.maximum(least, _SEEN * sigmas)))

    @cached_property
    def limits(self) -> Floats:
        """The interval of each group's rows in the table, shape (k, 2); from 0 without an end where none was measured.

        As `Answers.estimate` has it for a count.
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
        """See `expected_distances`."""
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
    """How groups are expected to be served, for a card: `parity_distance`, over how many groups (`counted`), and each.

    In closed form, without replicates. Groups have their `label`, `words`, `rows`, as estimated, and the ends of their
    interval at 95 % (`lower`, `upper`; None without an end), whether they are `covered`, and their `distance`: how far
    the released distributions are expected to be from the real ones, a mean over columns. `scored` tells them
    from cards with distances other than those of the scores.
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
    """How far rows of k strata may be elsewhere in each of m groups of codes than all rows (`bases.grouped`).

    A part f of all rows in a group is nearer to these: of the strata's own spread, 2(1 − f)² is left. Shape (k, m).
    """
    rows = shares * sizes[:, None]
    rest = 1 - rows / np.maximum(rows.sum(0), 1e-300)
    own = WITHIN * np.minimum(2 * rest**2, 1.0)
    return np.asarray(np.minimum(rest * inverse[:, None] / np.maximum(shares, 1e-9) + own, 1.0))


def _independent(error: Floats, present: int) -> Floats:
    """Errors of shares as they were if they did not add up to zero: of two codes, each had twice the variance."""
    kept = error[..., :present]
    whole = np.maximum(kept.sum(-1, keepdims=True), 1e-300)
    left = np.maximum(1 - ((kept / whole) ** 2).sum(-1, keepdims=True), _LEAST_LEFT)
    return np.concatenate([kept / left, error[..., present:]], axis=-1)


def _moved(answers: Answers, found: GroupShares) -> Floats:
    """The mean square of what noise, shrinkage and the fit move the shares by."""
    others = (group_shares(answers.evidence, model, found.column, counted=False) for model, _ in answers.replicated())
    return np.asarray(np.mean([(other.shares - found.shares) ** 2 for other in others], axis=0))
