"""What changed between two releases of the same columns, with intervals.

Their noise is drawn apart, so an estimate of one has nothing in common with one of the other but the rows, which are
given: a change's interval is that of a difference of two independent estimates (`equistrata.analysis.derived`). But
where both follow from models of the same people, as in months of a series, these leave out much the same, and are drawn
to much the same: that is in both, and not in the change. See docs/proofs/estimates.md. Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from equistrata.analysis.axes import Axis, column_by_unit, outer_names
from equistrata.analysis.bases.grounds import Errors
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
    ends = None if statistic == "quantile" else np.tile(_ends(later.answers.asked(statistic, of, by, where)), (2, 1))
    level = asked.get("level", 0.95)
    shares = "proportion" if statistic == "quantile" else statistic  # of the same columns
    tested = all(
        each.answers.tested(each.answers.asked(shares, of, by, where), frame)
        for each, frame in zip((former, later), found, strict=True)
    )
    values = {name: frame["estimate"].to_numpy() for name, frame in zip((FORMER, LATER), found, strict=True)}
    together = pd.concat([frame.assign(release=name) for frame, name in zip(found, (FORMER, LATER), strict=True)])
    together = together.reset_index(drop=True)
    shared = reach = None
    if statistic != "quantile":
        assert ends is not None
        reach, shared = _reach(former, later, (statistic, of, by, where), found, asked)
        inside = np.clip(reach[:, 1:], ends[:, :1], ends[:, 1:])
        own = together["basis"].eq(IMPLIED).to_numpy() & np.isfinite(reach[:, 0])
        together.loc[own, ["lower", "upper"]] = inside[own]
    apart = contrasts(together, ["release"], level, ratio, ends, shared, tested, reach)
    apart = apart.drop(columns=["release", "against"])
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


def _reach(
    former: Release,
    later: Release,
    question: tuple[Any, ...],
    found: Sequence[pd.DataFrame],
    asked: Mapping[str, Any],
) -> tuple[Floats, Floats]:
    """Each number with its interval's ends where nothing cuts them off, shape (2n, 3), the former ones first; and the
    correlation of its error with that of the former one, shape (2n,)."""
    settings = {name: value for name, value in asked.items() if name in ("level", "population", "design_effect")}
    both, count = (former.answers, later.answers), len(found[0])
    reach = np.array([each.free_limits(each.asked(*question), **settings) for each in both])
    shared = np.zeros(2 * count)
    if of_one_series(former.card, later.card):
        modelled = [
            each.modelled(each.asked(*question), frame, **settings) for each, frame in zip(both, found, strict=True)
        ]
        if modelled[0] is not None and modelled[1] is not None:
            own = modelled[0][0] & modelled[1][0]
            common = misfit_in_common(former.answers.dropped, later.answers.dropped)
            far, correlation = implied_change(modelled[0][1], modelled[1][1], common, asked.get("level", 0.95))
            value = np.array([frame["estimate"].to_numpy(dtype=float) for frame in found])
            kept = [1.0 if question[0] != "count" else 1 - each.evidence.held_out for each in both]
            arms = far / np.array(kept)[:, None]
            reach[:, own] = np.stack([value, value - arms, value + arms], axis=2)[:, own]
            shared[count:][own] = correlation[own]
    return reach.reshape(2 * count, 3), shared


def implied_change(former: Errors, later: Errors, common: float, level: float) -> tuple[Floats, Floats]:
    """How far the numbers of two months may be off in their change, shape (2, n), and the correlation of these, (n,).

    What replicates are drawn to in both months alike is in no change: of their distance from the model the variance
    counts, and of its mean what is not alike, beyond chance.

    Args:
        common: see `misfit_in_common`. Of other people models leave out less alike than the measured pairs show, which
            are the strongest (docs/experiments/series.md).
    """
    (_, moved, off, known), (_, moved2, off2, known2) = former, later
    noise = np.array([moved.var(0, ddof=1), moved2.var(0, ddof=1)])
    counts = np.array([[len(moved)], [len(moved2)]])
    chance = noise / counts
    drawn = np.maximum((moved2.mean(0) - moved.mean(0)) ** 2 - chance.sum(0), 0.0)
    misfit = np.array([(off**2).sum(1), (off2**2).sum(1)])
    variance = noise + drawn / 2 + misfit + np.array([known, known2])
    alike = common * np.sqrt(misfit.prod(0))
    change = np.maximum(variance.sum(0) - 2 * alike, 1e-300)
    freedom = change**2 / np.maximum((noise**2 / (counts - 1)).sum(0), 1e-8 * change**2)
    far = stdtrit(np.maximum(freedom, 1.0), (1 + level) / 2) * np.sqrt(variance)
    return far, np.asarray(alike / np.sqrt(np.maximum(variance.prod(0), 1e-300)))


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
