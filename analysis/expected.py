"""How far a release is expected to be off, by group and column, from published numbers alone. Post-processing, no cost.

Before anything was measured within a group, a share p of its n rows has variance p(1 − p)(1/n + τ²) about what the
other groups and the whole table say of it: its rows are a sample, and groups differ by more than that
(`equistrata.analysis.heterogeneity`). What was measured within the group has noise of variance v. The posterior
variance of the real share is their product over their sum; where noise, shrinkage and the fit alone (replicates) move
the share by more, that counts. The expected total variation follows as for Gaussian errors.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pandas as pd

from equistrata.analysis.answers import Answers
from equistrata.analysis.heterogeneity import (
    GroupShares,
    between_groups,
    group_shares,
    group_sizes,
    inverse_sizes,
)


def expected_distances(answers: Answers, replicated: bool = True) -> pd.DataFrame:
    """A row for each group of the strata (one of all rows without any) and each other column.

    Columns: those that define strata, by released values; `rows`, as estimated; `column`; `distance`, the expected
    total variation distance of the released shares from the real ones, in [0, 1].

    Args:
        replicated: whether what replicates move by counts too; without, no model is fitted anew for it.
    """
    evidence = answers.evidence
    strata, sizes = evidence.strata, np.maximum(group_sizes(evidence), 1.0)
    inverse, frames = inverse_sizes(evidence), []
    columns = [group_shares(evidence, evidence.model, name) for name in evidence.names if name not in strata.columns]
    spread = between_groups(evidence, columns, inverse)
    for found in columns:
        before = found.shares * (1 - found.shares) * np.minimum(inverse + spread[found.column], 1.0)[:, None]
        after = found.noise / sizes[:, None] ** 2
        error = before * after / np.maximum(before + after, 1e-300)
        if replicated:
            error = np.maximum(error, _moved(answers, found))
        distances = np.minimum(0.5 * sqrt(2 / pi) * np.sqrt(error).sum(1), 1.0)
        for key, rows, distance in zip(strata.keys, sizes, distances, strict=True):
            frames.append((*key, rows / (1 - evidence.held_out), found.column, distance))
    return pd.DataFrame(frames, columns=[*strata.columns, "rows", "column", "distance"])


def _moved(answers: Answers, found: GroupShares) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The mean square of what noise, shrinkage and the fit move the shares by."""
    others = (group_shares(answers.evidence, model, found.column, counted=False) for model, _ in answers.replicated())
    return np.asarray(np.mean([(other.shares - found.shares) ** 2 for other in others], axis=0))
