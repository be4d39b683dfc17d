"""What changed between two releases of the same columns, with intervals.

Their noise is drawn apart, so an estimate of one has nothing in common with one of the other but the rows, which are
given: a change's interval is that of a difference of two independent estimates (`equistrata.analysis.derived`). But
where both follow from models of the same people, as in months of a series, these leave out much the same: a part of the
misfit is in both, and not in the change.
Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from equistrata.analysis.axes import Axis, column_by_unit, outer_names
from equistrata.analysis.bases.measured import span
from equistrata.analysis.derived import IMPLIED, contrasts
from equistrata.analysis.questions import Of, Question
from equistrata.analysis.uncertainty.learned import misfit_in_common
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.stats.checks import one_of

if TYPE_CHECKING:
    from equistrata.analysis.release import Release

STATISTICS = ("count", "proportion", "mean", "quantile")
FORMER, LATER = "former", "later"


def changes(
    former: Release,
    later: Release,
    statistic: Literal["count", "proportion", "mean", "quantile"] | str,
    of: Of = None,
    by: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    *,
    ratio: bool = False,
    **asked: Any,
) -> pd.DataFrame:
    """See `equistrata.analysis.release.Release.compare`."""
    one_of("statistic", statistic, STATISTICS)
    if former.manifest == later.manifest:
        raise InputError(
            "both folders are the same release, which shares all of its noise with itself; name another one"
        )
    for name in {*by, *(where or {}), *([] if of is None else [of] if isinstance(of, str) else of)}:
        check_alike(former.schema, later.schema, name)
    found = [each.estimate(statistic, of, by, where, **asked) for each in (former, later)]
    together = pd.concat([frame.assign(release=name) for frame, name in zip(found, (FORMER, LATER), strict=True)])
    together = together.reset_index(drop=True)
    ends = None if statistic == "quantile" else np.tile(_ends(later.answers.asked(statistic, of, by, where)), (2, 1))
    level = asked.get("level", 0.95)
    shares = "proportion" if statistic == "quantile" else statistic  # of the same columns
    tested = all(
        each.answers.tested(each.answers.asked(shares, of, by, where), frame)
        for each, frame in zip((former, later), found, strict=True)
    )
    shared = None if statistic == "quantile" else _shared(former, later, (statistic, of, by, where), found, asked)
    apart = contrasts(together, ["release"], level, ratio, ends, shared, tested).drop(columns=["release", "against"])
    values = {name: frame["estimate"].to_numpy() for name, frame in zip((FORMER, LATER), found, strict=True)}
    place = list(apart.columns).index("estimate")
    for name in (LATER, FORMER):
        apart.insert(place, name, values[name])
    return apart


def check_alike(former: Schema, later: Schema, name: str) -> None:
    """Raise InputError unless a column means the same in both releases."""
    known = [
        list(Axis.of(schema, name).keys)
        for schema in (former, later)
        if name in {*schema.names, *outer_names(schema)} or column_by_unit(schema, name)
    ]
    if len(known) == 2 and known[0] != known[1]:
        raise InputError(
            f"column {name!r} has other values in one of the releases, so what it says cannot be compared; ask about "
            "another one"
        )


def _shared(
    former: Release,
    later: Release,
    question: tuple[Any, ...],
    found: Sequence[pd.DataFrame],
    settings: Mapping[str, Any],
) -> Floats | None:
    """The correlation of each number's error with that of the former one, shape (2n,), by their models' misfit.

    Of other people models leave out less alike than the measured pairs show, which are the strongest
    (docs/experiments/series.md); so none there.
    """
    if not of_one_series(former.card, later.card) or not all(frame["basis"].eq(IMPLIED).any() for frame in found):
        return None
    common = misfit_in_common(former.answers.dropped, later.answers.dropped)
    kept = {name: value for name, value in settings.items() if name in ("level", "population", "design_effect")}
    shares = [
        each.answers.misfit_share(each.answers.asked(*question), frame, **kept)
        for each, frame in zip((former, later), found, strict=True)
    ]
    return np.concatenate([np.zeros(len(found[0])), common * np.sqrt(shares[0] * shares[1])])


def of_one_series(former: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether two releases are months of one series, by their cards: of its name, in one ledger, of one data set."""
    said = []
    for card in (former, later):
        series, books = card.get("series"), card.get("ledger")
        if not isinstance(series, Mapping) or not isinstance(books, Mapping):
            return False
        said.append((series.get("name"), books.get("ledger"), books.get("dataset")))
    return said[0] == said[1] and said[0][0] is not None


def _ends(asked: Question) -> Floats:
    """The least and the greatest that each number can be, shape (n, 2)."""
    if asked.bottom is None:
        return np.tile([0.0, np.inf], (len(asked.top), 1))
    return np.array([span(*parts) for parts in zip(asked.top, asked.bottom, strict=True)])
