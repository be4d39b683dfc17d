"""Changes of statistics between two releases with the same columns, with intervals.

The noise of the two releases is independent, so the interval of a change is that of a difference of two independent
estimates (see `equistrata.analysis.derived`). If both models leave out the same relation, then this error is included
in both intervals, and the interval of the change is too wide. See docs/proofs/estimates.md. All results are
post-processing, so they cost no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from equistrata.analysis.answers import COUNTED, PEOPLE, ROWS, Answers
from equistrata.analysis.axes import Axis, column_by_unit, outer_column_names
from equistrata.analysis.derived import MEASURED, contrasts
from equistrata.analysis.questions import Of
from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.stats.checks import one_of

STATISTICS = ("count", "proportion", "mean", "quantile")
FORMER, LATER = "former", "later"


@dataclass(frozen=True, eq=False)
class ComparedRelease:
    """One of the two releases.

    Attributes
    ----------
    manifest : str
        The SHA-256 of the manifest.
    schema : Schema
        The schema of the release.
    answers : Answers
        The answers of the release.
    """

    manifest: str
    schema: Schema
    answers: Answers


def changes(
    former: ComparedRelease,
    later: ComparedRelease,
    statistic: str,
    of: Of = None,
    by: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    *,
    ratio: bool = False,
    level: float = 0.95,
    population: bool = False,
    design_effect: float | None = None,
    q: float = 0.5,
    weighted: bool | None = None,
) -> pd.DataFrame:
    """Estimate the change of a statistic. See `equistrata.analysis.release.Release.compare`."""
    one_of("statistic", statistic, STATISTICS)
    if former.manifest == later.manifest:
        raise InputError("both folders are the same release; give two different releases")
    for name in {*by, *(where or {}), *([] if of is None else [of] if isinstance(of, str) else of)}:
        check_same_values(former.schema, later.schema, name)
    about = {each.answers.people(weighted) for each in (former, later)}
    if len(about) == 2:
        raise InputError(
            "one of the releases counts people, but the other has no survey weight and counts rows of the file; "
            "compare rows in both (weighted=False, or --unweighted)"
        )
    sides, ends, reach = (former.answers, later.answers), None, None
    if statistic == "quantile":
        frames = [
            each.estimate(statistic, of, by, where, level, population, design_effect, q, weighted) for each in sides
        ]
        frames = [frame.drop(columns=COUNTED, errors="ignore") for frame in frames]
        tested = all(frame["basis"].eq(MEASURED).all() for frame in frames)
    else:
        found = [each.answer(statistic, of, by, where, level, population, design_effect, weighted) for each in sides]
        frames, ends = [each.frame for each in found], np.tile(found[1].ends, (2, 1))
        reach, tested = np.concatenate([each.limits for each in found]), all(each.tested for each in found)
    values = {name: frame["estimate"].to_numpy() for name, frame in zip((FORMER, LATER), frames, strict=True)}
    together = pd.concat([frame.assign(release=name) for name, frame in zip((FORMER, LATER), frames, strict=True)])
    apart = contrasts(together.reset_index(drop=True), ["release"], level, ratio, ends, None, tested, reach)
    apart = apart.drop(columns=["release", "against"])
    if population or any(each.schema.survey_weight is not None for each in (former, later)):
        apart.insert(list(apart).index("basis"), COUNTED, PEOPLE if about == {True} else ROWS)
    place = list(apart.columns).index("estimate")
    for name in (LATER, FORMER):
        apart.insert(place, name, values[name])
    return apart


def check_same_values(former: Schema, later: Schema, name: str) -> None:
    """Raise InputError unless a column has the same values in both releases."""
    known = [
        list(Axis.of(schema, name).keys)
        for schema in (former, later)
        if name in {*schema.names, *outer_column_names(schema)} or column_by_unit(schema, name)
    ]
    if len(known) == 2 and known[0] != known[1]:
        raise InputError(
            f"column {name!r} has different values in the two releases, so it cannot be compared; ask about "
            "another column"
        )
