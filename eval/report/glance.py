"""The first screen of a release's page: who is served how well, in a few bars, and the release itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from equistrata.eval.report.tables import Table
from equistrata.eval.report.words import count, percent

ALL = 6  # bars that fit the first screen of a phone, beside the sentences
WORST = 4

USE = (
    "Estimate counts, shares, means and regressions, with error bars. Say nothing of a single row: none is a person. "
    "Do not compare groups that differ by less than they are off."
)


@dataclass(frozen=True)
class Bar:
    """A group's bar.

    Attributes:
        group: in words; of a gap, how many groups it stands for.
        rows: about how many, in words; empty for a gap.
        off: how far its shares are expected to be off, in words; empty for a gap.
        width: in per cent of the longest bar.
    """

    group: str
    rows: str = ""
    off: str = ""
    width: float = 0.0


@dataclass(frozen=True)
class Contents:
    """What is in a release, for a page about it: post-processing of what was published.

    Attributes:
        rows: some of the synthetic people.
        files: what is published, with sizes.
        means: private means, with intervals; None where the release has none.
    """

    rows: Table
    files: Table
    means: Table | None = None


def bars(order: Sequence[str], off: Mapping[str, float], rows: Mapping[str, float]) -> tuple[Bar, ...]:
    """The groups as bars, worst served first: all, or where these are many, the worst and the best ones.

    Args:
        order: groups, worst served first; at least one.
        off: group → how far it is off, in [0, 1].
        rows: group → about how many rows it has.
    """
    longest = max(off[group] for group in order) or 1.0

    def bar(group: str) -> Bar:
        return Bar(group, count(rows[group]), percent(off[group]), round(100 * off[group] / longest, 1))

    if len(order) <= ALL:
        return tuple(map(bar, order))
    best = ALL - WORST
    between = Bar(f"{len(order) - ALL} in between")
    return (*map(bar, order[:WORST]), between, *map(bar, order[-best:]))
