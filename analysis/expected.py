"""How far a release is expected to be off, by group and column, from published numbers alone. Post-processing, no cost.

Before anything was measured within a group, a share p of its n rows has variance p(1 − p)(1/n + τ²) about what the
other groups and the whole table say of it: its rows are a sample, and groups differ by more than that
(`equistrata.analysis.uncertainty.heterogeneity`). What was measured within the group has noise of variance v. The
posterior variance of the real share is their product over their sum; where noise, shrinkage and the fit alone
(replicates) move the share by more, that counts. The expected total variation follows as for Gaussian errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.analysis.answers import Answers
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.heterogeneity import (
    GroupShares,
    between_groups,
    group_shares,
    group_sizes,
    inverse_sizes,
    least_shares,
    measured_groups,
    size_deviations,
)
from equistrata.arrays import Floats
from equistrata.data.schema import Column
from equistrata.data.strata import MIN_SHARE
from equistrata.stats.laws import NOISE_L1
from equistrata.stats.scales import Scale
from equistrata.synth.measurements import Merging

_FEW = 2  # replicates for a card: a release waits for them
_SEEN = 2.0  # standard deviations of its noise: what a group's size must be for the group to count


def expected_distances(answers: Answers, replicated: bool = True) -> pd.DataFrame:
    """A row for each group of the strata (one of all rows without any) and each other column.

    Columns: those that define strata, by released values; `rows`, as estimated; `column`; `distance`, the expected
    total variation distance of the released shares from the real ones, in [0, 1]; `parity_distance`, the same as
    `equistrata.eval.scores.distances.parity_distance` has it: of numbers and ordinal codes, how far they are moved.

    Args:
        replicated: whether what replicates move by counts too; without, no model is fitted anew for it.
    """
    return Expected.of(answers.evidence, answers if replicated else None).frame


@dataclass(frozen=True, eq=False)
class Expected:
    """How far the released shares of columns are expected to be off.

    Attributes:
        evidence: what was published.
        names: the d columns that do not define strata.
        sizes: the rows of the k groups, at least 1, shape (k,).
        errors: by column, the mean square error of the share of each code in each group, shape (k, codes), or of each
            group of codes that was measured (`measured_groups`).
    """

    evidence: Evidence
    names: tuple[str, ...]
    sizes: Floats
    errors: Sequence[Floats]

    @classmethod
    def of(cls, evidence: Evidence, answers: Answers | None = None) -> Expected:
        """From the evidence, and from the replicates of `answers` if they are given."""
        strata, sizes = evidence.strata, np.maximum(group_sizes(evidence), 1.0)
        inverse = inverse_sizes(evidence)
        names = tuple(name for name in evidence.names if name not in strata.columns)
        columns = [group_shares(evidence, evidence.model, name) for name in names]
        spread, errors = between_groups(evidence, columns, inverse), []
        for found in columns:
            shares = found.shares
            if answers is None:  # replicates say how far a share may be from 0
                least = least_shares(evidence, found.column)
                shares = np.clip(shares, least, 1 - least)
            before = shares * (1 - shares) * np.minimum(inverse + spread[found.column], 1.0)[:, None]
            after = found.noise / sizes[:, None] ** 2
            error = before * after / np.maximum(before + after, 1e-300)
            errors.append(error if answers is None else np.maximum(error, _moved(answers, found)))
        return cls(evidence, names, sizes, errors)

    @property
    def variations(self) -> Floats:
        """Expected total variation distances, shape (k, d)."""
        return np.stack([_variation(error) for error in self.errors], axis=1)

    @property
    def distances(self) -> Floats:
        """Expected distances as parity of distributions has them, shape (k, d)."""
        return np.stack([self._distance(name, error) for name, error in zip(self.names, self.errors, strict=True)], 1)

    @property
    def parity_distance(self) -> float:
        """The expected `equistrata.eval.scores.distances.parity_distance`, of `covered` groups alone.

        Of the k-th part for all rows, errors of groups are taken to be independent.
        """
        by_group, weights = self.distances.mean(1), self.sizes / self.sizes.sum()
        if not self.evidence.strata.columns:
            return float(by_group[0])
        whole = [
            float(self._distance(name, weights**2 @ error)) for name, error in zip(self.names, self.errors, strict=True)
        ]
        return float(np.mean(whole) / max(self.covered.sum(), 1) + by_group[self.covered].sum())

    @cached_property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Which groups are known to be large enough to count, shape (k,): MIN_SHARE of the rows, and _SEEN of noise."""
        sizes, sigmas = group_sizes(self.evidence), size_deviations(self.evidence)
        least = MIN_SHARE * max(float(sizes.sum()), 1.0)
        return np.asarray(sizes >= (least if sigmas is None else np.maximum(least, _SEEN * sigmas)))

    @property
    def frame(self) -> pd.DataFrame:
        """See `expected_distances`."""
        strata, rows = self.evidence.strata, self.sizes / (1 - self.evidence.held_out)
        variations, distances = self.variations, self.distances
        lines = [
            (*key, size, name, variations[group, place], distances[group, place])
            for place, name in enumerate(self.names)
            for group, (key, size) in enumerate(zip(strata.keys, rows, strict=True))
        ]
        return pd.DataFrame(lines, columns=[*strata.columns, "rows", "column", "distance", "parity_distance"])

    def _distance(self, name: str, error: Floats) -> Floats:
        column, groups = self.evidence.strata.schema[name], measured_groups(self.evidence, name)
        return _distance(column, groups, error)


def served(evidence: Evidence) -> dict[str, Any]:
    """How groups are expected to be served, for a card: `parity_distance`, how many groups it covers, and each group.

    Of _FEW replicates: with none at all, small tables are expected to be a quarter to a half nearer than they are.
    Groups are as `label`, in `words`, with `rows`, as estimated, whether it is `covered`, and its `distance`: the
    expected total variation distance of its released shares from the real ones, a mean over columns. It is `heeded`
    that models are made with columns' counts over all rows, strata unlike all others have `shifts`, and numbers that
    were measured with no other column count (`unpaired`): cards of earlier versions lack these words.
    """
    expected = Expected.of(evidence, Answers(evidence, count=_FEW))
    strata, kept = evidence.strata, 1 - evidence.held_out
    lines = zip(strata.keys, expected.sizes / kept, expected.covered, expected.variations.mean(1), strict=True)
    groups = [
        {
            "label": strata.label(key),
            "words": strata.words(key),
            "rows": round(float(rows)),
            "covered": bool(covered),
            "distance": float(distance),
        }
        for key, rows, covered, distance in lines
    ]
    return {
        "parity_distance": expected.parity_distance,
        "covered": int(expected.covered.sum()),
        "groups": groups if strata.columns else [],
        "distance": float(expected.variations.mean()),
        "heeded": True,
        "shifts": True,
        "unpaired": True,
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
    return scale.expected_distance(error)


def _moved(answers: Answers, found: GroupShares) -> Floats:
    """The mean square of what noise, shrinkage and the fit move the shares by."""
    others = (group_shares(answers.evidence, model, found.column, counted=False) for model, _ in answers.replicated())
    return np.asarray(np.mean([(other.shares - found.shares) ** 2 for other in others], axis=0))
