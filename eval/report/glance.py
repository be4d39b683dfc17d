"""The first screen of a release's page: who is served how well, in a few bars, and the release itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from equistrata.eval.report.tables import Table
from equistrata.eval.report.words import percent

ALL = 6  # bars that fit the first screen of a phone, beside the sentences
WORST = 4

NOT_KNOWN = "not known"
USE = (
    "Estimate counts, shares, means and regressions, with error bars (equistrata estimate). Intervals from the rows "
    "alone are too narrow. Do not interpret individual rows; they do not describe real people. Do not compare groups "
    "whose difference is smaller than the expected error, nor groups of which it is not known."
)


@dataclass(frozen=True)
class Bar:
    """A group's bar.

    Attributes:
        group: in words; of a gap, how many groups it stands for.
        rows: the interval of how many it has, in words; empty for several groups.
        off: how far its shares are expected to be off, in words, or NOT_KNOWN; empty for a gap.
        width: in per cent of the longest bar; 0 without one.
        people: how many its released weights add up to, in words; empty without weights.
    """

    group: str
    rows: str = ""
    off: str = ""
    width: float = 0.0
    people: str = ""


@dataclass(frozen=True)
class Contents:
    """What is in a release, for a page about it: post-processing of what was published.

    Attributes:
        rows: some of the synthetic rows.
        files: what is published, with sizes.
        means: private means, with intervals; None where the release has none.
    """

    rows: Table
    files: Table
    means: Table | None = None


def bars(
    unknown: Sequence[str],
    known: Sequence[str],
    off: Mapping[str, float],
    rows: Mapping[str, str],
    people: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Bar, ...]:
    """The groups as bars, those that are not known first: all, or where these are many, some with a gap.

    Args:
        unknown: groups of which it is not known how far they are off.
        known: the other groups, the largest expected error first.
        off: known group → how far it is off, in [0, 1].
        rows: group → the interval of its number of rows, in words.
        people: group → how many its weights add up to, in words; empty without weights.
    """
    found = [Bar(group, rows[group], NOT_KNOWN, people=people.get(group, "")) for group in unknown]
    if len(found) > ALL - WORST:
        found = [Bar(f"{len(unknown)} groups", off=NOT_KNOWN)]
    longest, room = max((off[group] for group in known), default=0.0) or 1.0, ALL - len(found)
    every = [
        Bar(each, rows[each], percent(off[each]), round(100 * off[each] / longest, 1), people.get(each, ""))
        for each in known
    ]
    if len(every) > room:
        last = ALL - WORST
        every = [*every[: room - last], Bar(f"{len(every) - room} in between"), *every[-last:]]
    return (*found, *every)
