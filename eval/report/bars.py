"""The first screen of the page of a release, which shows the errors of the groups as bars and describes the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from equistrata.eval.report.tables import Table
from equistrata.eval.report.words import percent

ALL = 6  # the number of bars that fit on the first screen of a phone, together with the sentences
WORST = 4

NOT_KNOWN = "not known"
USE = (
    "You can estimate counts, shares, means and regressions with intervals (equistrata estimate). Intervals that are "
    "computed from the rows alone are too narrow. Do not interpret individual rows; they do not describe real people. "
    "Do not compare groups whose difference is smaller than their expected error, or groups with an unknown error."
)


@dataclass(frozen=True)
class Bar:
    """The bar of a group, or of several groups.

    Attributes
    ----------
    group : str
        The name of the group in words, or the number of groups for which the bar stands.
    rows : str
        The interval of the number of rows, in words. Empty if the bar stands for several groups.
    off : str
        The expected error of the shares in words, or `NOT_KNOWN`. Empty for a gap between the bars.
    width : float
        The length in percent of the longest bar, or 0 if there is no bar.
    people : str
        The sum of the released weights, in words. Empty if there are no weights.
    """

    group: str
    rows: str = ""
    off: str = ""
    width: float = 0.0
    people: str = ""


@dataclass(frozen=True)
class Contents:
    """The content of a release that is shown on its page. It is post-processing of published data.

    Attributes
    ----------
    rows : Table
        Some of the synthetic rows.
    files : Table
        The published files and their sizes.
    means : Table, optional
        The private means with their intervals. None if the release has no means.
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
    """Return the groups as bars, in which groups with an unknown error are first.

    If there are many groups, some of them are replaced by a gap.

    Parameters
    ----------
    unknown : sequence of str
        The groups for which the error is not known.
    known : sequence of str
        The other groups, in decreasing order of the expected error.
    off : mapping of str to float
        The expected error of each known group, in [0, 1].
    rows : mapping of str to str
        The interval of the number of rows of each group, in words.
    people : mapping of str to str
        The sum of the weights of each group, in words. Empty if there are no weights.

    Returns
    -------
    tuple of Bar
        The bars, from top to bottom.
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
