"""The verdict of a report: sentences about the groups with the largest errors and the size of these errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from equistrata.data.strata import MIN_SHARE
from equistrata.eval.report.findings import DISTANCE, ERROR_OF_MEANS, Comparison, Findings, ReleaseFacts
from equistrata.eval.report.group_errors import ReportedNumber, judged, may_be_largest, may_be_least
from equistrata.eval.report.report import About, InternalReport, Report
from equistrata.eval.report.words import (
    GROUPS_NAMED,
    count,
    first_names,
    interval,
    odds_change,
    percent,
    price,
    rate,
    ratio,
    several,
)
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.privacy.conversion import round_up

PAPERS = (
    "Parity error, maximum disparity and the error of the means are computed from codes. For columns without an order, "
    "they depend on the order in which the values are declared."
)
SMALL_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


@dataclass(frozen=True)
class _Measure:
    """The phrases for the error of a group.

    Attributes
    ----------
    write : callable
        The function that formats the error.
    of_group : str
        The phrase for the group with the largest error.
    short : str
        The short phrase for a group.
    of_all : str
        The phrase for all rows.
    """

    write: Callable[[float], str]
    of_group: str
    short: str
    of_all: str


_MEASURES = {
    DISTANCE: _Measure(
        percent,
        "its columns are off by {} on average (0\u00a0%: same distributions; 100\u00a0%: no values in common)",
        "off by {}",
        "the columns are off by {} on average",
    ),
    ERROR_OF_MEANS: _Measure(
        percent,
        "its means are off by {} on average",
        "off by {}",
        "the means are off by {} on average",
    ),
}


@dataclass(frozen=True)
class ReleaseVerdict:
    """The verdict on one release.

    Attributes
    ----------
    name : str
        The name of the release.
    made : str
        The mechanism, the number of rows and the privacy cost.
    served : tuple of str
        The sentences about the groups with unknown errors and with the largest error.
    others : tuple of str
        The other sentences.
    """

    name: str
    made: str
    served: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences of the verdict."""
        return (*self.served, *self.others)


@dataclass(frozen=True)
class Verdict:
    """The first sentences of a report.

    Attributes
    ----------
    opening : tuple of str
        The sentences about the audited tables, the privacy cost and the uncertainty.
    releases : tuple of ReleaseVerdict
        The verdict on each release.
    comparison : tuple of str
        The sentences that compare the releases.
    caveats : tuple of str
        The limits of the report.
    """

    opening: tuple[str, ...]
    releases: tuple[ReleaseVerdict, ...]
    comparison: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(report: Report) -> Verdict:
    """Return the first sentences of a report, which are computed from its numbers."""
    called = "the release" if len(report.releases) == 1 else ""
    releases = tuple(
        ReleaseVerdict(
            each.release.name,
            _made(each.release),
            _on_groups(each, report.about, called),
            tuple(_others(each, report.about)),
        )
        for each in report.findings
    )
    comparison = tuple(_compared(each, report) for each in report.comparisons if each.differences)
    opening = (_what(report), _total_price(report), _how_sure(report))
    return Verdict(opening, releases, comparison, tuple(_caveats(report)))


def _what(report: Report) -> str:
    about, releases = report.about, report.releases
    number = SMALL_NUMBERS[len(releases)] if len(releases) < len(SMALL_NUMBERS) else str(len(releases))
    whom = (
        f"for {len(about.groups)} groups, defined by {about.grouping}"
        if about.strata.columns
        else "for all rows together"
    )
    rows = f"{several([count(each.rows) for each in releases])} synthetic rows"
    what = rows if len(releases) == 1 else f"{number} releases ({rows})"
    return f"{what}, made from private rows ({about.rows}). Errors are stated {whom}."


def _total_price(report: Report) -> str:
    prices = {(each.epsilon, each.delta) for each in report.releases}
    one, on = len(report.releases) == 1, report.releases[0].odds_on
    if len(prices) == 1:
        ((epsilon, delta),) = prices
        said = f"{'The' if one else 'Each'} release cost ε = {price(epsilon)} at δ = {price(delta)}"
    else:
        said = "The releases cost " + several([f"ε = {price(each.epsilon)} ({each.name})" for each in report.releases])
    if isinstance(report, InternalReport):
        odds = odds_change(*max(prices), on)
        alone = ": " if one else ". For each release alone, "
        return f"{said}{alone}{odds}. This audit cost nothing, but it must not be published."
    paid, which = report.price, _plural("release", len(report.releases))
    audits = f"the {which} and this audit"
    if report.earlier:
        where = "its folder" if one else "their folders"
        audits = f"the {which}, {report.earlier} earlier {_plural('audit', report.earlier)} in {where} and this audit"
    together = round_up(report.together)
    return (
        f"{said}; this audit cost ε = {price(paid.epsilon)} at δ = {price(paid.delta)}. Together, {audits} cost at "
        f"most ε = {together:,.10g}: {odds_change(together, paid.delta, on)}."
    )


def _how_sure(report: Report) -> str:
    if isinstance(report, InternalReport):
        return "Every number is exact for these private rows, so there are no intervals."
    level = percent(report.audits[0].level)
    return f"Every number from the private rows contains noise. Each {level} interval is valid for one number only."


def _made(release: ReleaseFacts) -> str:
    cost = f"ε = {price(release.epsilon)}, δ = {price(release.delta)}"
    how = f"{release.mechanism}, {release.how}" if release.how else release.mechanism
    return f"{how}; {count(release.rows)} synthetic rows; {cost}"


def _on_groups(found: Findings, about: About, called: str = "") -> tuple[str, ...]:
    """Return sentences about the groups that are not known, and then about the worst of the other groups."""
    return (*_not_known(found, about), *_worst(found, about, called or found.release.name))


def _others(found: Findings, about: About) -> Iterator[str]:
    """Yield sentences about all unknown groups, all rows, the relations between columns, and the classifier."""
    said = _MEASURES[found.measure]
    for sentence, labels in _unknown(found, about).items():
        if len(labels) > GROUPS_NAMED:
            named = "; ".join(about.names[label] for label in labels)
            yield sentence.format(f"these {len(labels)} groups ({named})")
    if ALL_ROWS in found.served and found.averaged:
        yield f"Over all rows, {said.of_all.format(interval(found.served[ALL_ROWS], said.write))}."
    yield from _on_relations(found, about)
    accuracy = found.numbers["accuracy"]
    if ALL_ROWS in accuracy:
        right = interval(accuracy[ALL_ROWS], rate)
        least = _extreme("it is right least often for", accuracy, may_be_least(accuracy), about, rate)
        yield f"A classifier that was trained on the synthetic rows is right for {right} of the private rows.{least}"


def _unknown(found: Findings, about: About) -> dict[str, Sequence[str]]:
    """Return the groups that cannot be judged, by a sentence with the reason."""
    hidden = [label for label in found.below_noise if label not in found.lost and found.averaged]
    left = [label for label in about.groups if label not in found.served]
    return {
        "There are no synthetic rows for {}.": found.lost,
        "The error is not known for {}, because the noise is too large.": hidden,
        f"The error is not computed for {{}}, because each has less than {100 * MIN_SHARE:g}\u00a0% of the rows.": left,
    }


def _not_known(found: Findings, about: About) -> Iterator[str]:
    """Yield sentences about the groups that cannot be judged, with the reason."""
    for sentence, labels in _unknown(found, about).items():
        if labels:
            names = first_names([about.names[label] for label in labels])
            yield sentence.format(f"{len(labels)} of the {len(about.groups)} groups ({names})")


def _worst(found: Findings, about: About, name: str) -> Iterator[str]:
    """Yield a sentence about the group with the largest error.

    If the intervals overlap, the sentence names all groups that can have the largest error.
    """
    seen, worst, said = found.judged, found.worst, _MEASURES[found.measure]
    off = {label: interval(found.served[label], said.write) for label in seen}
    among = f"Of the {len(seen)} groups that can be judged, " if len(seen) < len(about.groups) else ""
    if len(seen) == 1 and among:
        only = f"Only {about.names[seen[0]]} can be judged, which is {said.short.format(off[seen[0]])} on average"
        yield f"It is not known for which group {name} is least accurate. {only}."
    elif len(worst) == 1:
        whole = among + name if among or name == found.release.name else name.capitalize()
        yield f"{whole} is least accurate for {about.names[worst[0]]}: {said.of_group.format(off[worst[0]])}."
    elif worst:
        named = first_names([f"{about.names[label]}, {said.short.format(off[label])}" for label in worst])
        start = f"{among}it is not known for which one" if among else "It is not known for which group"
        which = f"{start} {name} is least accurate"
        yield f"{which}. It may be any of these {len(worst)} groups: {named}."


def _extreme(
    what: str, numbers: Mapping[str, ReportedNumber], found: Sequence[str], about: About, write: Callable[[float], str]
) -> str:
    """Return a sentence about the group with the largest or smallest number, after a space.

    It is an empty string if this group is not known.
    """
    of = len(judged(numbers))
    if len(found) != 1 or of < 2:
        return ""
    said = f"of the {of} groups that can be judged, {what}" if of < len(about.groups) else what
    return f" {said[0].upper()}{said[1:]} {about.names[found[0]]}: {interval(numbers[found[0]], write)}."


def _on_relations(found: Findings, about: About) -> Iterator[str]:
    """Yield a sentence about the workload error of all rows, and about the largest one of a group.

    The errors of single columns contain no information about relations.
    """
    errors = found.numbers["workload error"]
    whole = errors.get(ALL_ROWS)
    if whole is None:
        return
    said = (
        "Relations between columns: over all rows, the mean error of all tables of three columns (workload error) is "
    )
    said += f"{interval(whole, ratio)}{f' [{whole.note}]' if whole.note else ''}. "
    said += "0 means no error, and 2 means no combination of values in common."
    yield f"{said}{_extreme('the error is largest for', errors, may_be_largest(errors), about, ratio)}"


def _compared(each: Comparison, report: Report) -> str:
    served, measure = {of.release.name: of.served for of in report.findings}, _MEASURES[report.findings[0].measure]
    if not each.strata and each.differences:
        one, other = (interval(served[name][ALL_ROWS], measure.write) for name in (each.one, each.other))
        return (
            f"{each.one} is {measure.short.format(one)} on average, and {each.other} is {measure.short.format(other)}."
        )
    better, worse, of = len(each.better), len(each.worse), len(each.strata)
    exact = isinstance(report, InternalReport)
    surely = "" if exact else "significantly "
    if not better and not worse:
        return f"The errors of {each.one} and {each.other} do not differ {surely}for any of the {of} groups."
    ahead, behind = (each.one, each.other) if better >= worse else (each.other, each.one)
    more, fewer = max(better, worse), min(better, worse)
    said = (
        f"{ahead} is {surely}more accurate than {behind} for {more} of the {of} groups, and {surely}less accurate for "
    )
    said += f"{fewer or 'none'}"
    if of > more + fewer and not exact:
        rest = of - more - fewer
        said += f". For {rest} {_plural('group', rest)}, noise hides the difference"
    (found,) = (each for each in report.findings if each.release.name == behind)
    if len(found.worst) != 1 or len(found.judged) < 2:
        return f"{said}."
    (worst,) = found.worst
    there, here = (measure.short.format(interval(served[name][worst], measure.write)) for name in (behind, ahead))
    return (
        f"{said}. {behind} is least accurate for {report.about.names[worst]}: {there} in {behind}, {here} in {ahead}."
    )


def _caveats(report: Report) -> Iterator[str]:
    seeded = [each.name for each in report.releases if not each.private]
    if seeded:
        was, are = ("was", "it is") if len(seeded) == 1 else ("were", "they are")
        yield f"{several(seeded)} {was} made with a seeded noise source, which is for tests only, so {are} not private."
    for each in report.releases:
        yield from (f"{each.name}: {caveat}" for caveat in each.caveats)
        if each.people is not None:
            but = "Except for the weighted scores, all" if isinstance(report, InternalReport) else "All"
            yield f"{each.name}: {each.people.sentence} {but} numbers of this audit are about rows, not people."
    if isinstance(report, InternalReport):
        yield PAPERS
        return
    if not report.private:
        yield "This audit was made with a seeded noise source, which is for tests only, so it is not private."
    found = report.findings[0]
    unordered = [name for name in found.errors if name not in found.averaged]
    if unordered:
        named = several([report.about.titles[name] for name in unordered])
        yield (
            f"The error of the means is computed from codes. The codes of {named} have no order, so they are not "
            "included in the errors of groups. Only an internal audit measures their distances."
        )
    if not report.price.charged_as:
        yield "No ledger was charged for this audit. Add its cost to the privacy account of these rows by hand."


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"
