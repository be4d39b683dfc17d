"""The verdict of a report: sentences about the groups with the largest errors and the size of these errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from equistrata.data.strata import MIN_SHARE
from equistrata.eval.report.findings import DISTANCE, ERROR_OF_MEANS, Comparison, Findings, ReleaseFacts
from equistrata.eval.report.group_errors import Shown, judged, may_be_largest, may_be_least
from equistrata.eval.report.report import About, InternalReport, Report
from equistrata.eval.report.words import GROUPS_NAMED, count, interval, percent, price, rate, ratio, several
from equistrata.eval.scores.tables import ALL_ROWS

PAPERS = (
    "Parity error, maximum disparity and the error of means are the paper's, and read codes: of nominal columns they "
    "depend on the order in which values are declared."
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
        "this group's columns are off by {} on average (0: distributed alike; 100\u00a0%: no value in common)",
        "off by {}",
        "its columns are off by {} on average",
    ),
    ERROR_OF_MEANS: _Measure(
        percent,
        "the means of this group are off by {} on average",
        "off by {}",
        "its means are off by {} on average",
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
        A line about its mechanism and its privacy cost.
    sentences : tuple of str
        The sentences of the verdict.
    """

    name: str
    made: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """The first sentences of a report.

    Attributes
    ----------
    opening : tuple of str
        Sentences about the audited releases and the privacy cost.
    releases : tuple of ReleaseVerdict
        The verdict on each release.
    comparison : tuple of str
        Sentences about the differences between the releases.
    caveats : tuple of str
        Sentences about the limits of the audit.
    """

    opening: tuple[str, ...]
    releases: tuple[ReleaseVerdict, ...]
    comparison: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(report: Report) -> Verdict:
    """Return the first sentences of a report, which are computed from its numbers."""
    releases = tuple(
        ReleaseVerdict(each.release.name, _made(each.release), tuple(_on_release(each, report.about)))
        for each in report.findings
    )
    comparison = tuple(_compared(each, report) for each in report.comparisons if each.differences)
    return Verdict((_what(report), _total_price(report)), releases, comparison, tuple(_caveats(report)))


def _what(report: Report) -> str:
    about, releases = report.about, report.releases
    number = SMALL_NUMBERS[len(releases)] if len(releases) < len(SMALL_NUMBERS) else str(len(releases))
    whom = f"{len(about.groups)} groups by {about.grouping}" if about.strata.columns else "all rows together"
    people = f"{_plural('release', len(releases))} of synthetic rows, made from private rows ({about.rows})"
    return f"{number} {people}, audited for {whom}."


def _total_price(report: Report) -> str:
    prices = {(each.epsilon, each.delta) for each in report.releases}
    one = len(report.releases) == 1
    if len(prices) == 1:
        ((epsilon, delta),) = prices
        said = f"{'The' if one else 'Each'} release cost ε = {price(epsilon)} at δ = {price(delta)}"
    else:
        said = "The releases cost " + several([f"ε = {price(each.epsilon)} ({each.name})" for each in report.releases])
    if isinstance(report, InternalReport):
        return f"{said}. This audit is internal: its numbers are exact, so it cost nothing and may not be published."
    paid, which = report.price, _plural("release", len(report.releases))
    audits = f"{which} and audit"
    if report.earlier:
        where = "its folder" if one else "their folders"
        audits = f"{which}, {report.earlier} earlier {_plural('audit', report.earlier)} in {where} and this audit"
    return (
        f"{said}; this audit cost ε = {price(paid.epsilon)} at δ = {price(paid.delta)}. Together, {audits} cost at "
        f"most ε = {_up(report.together)} at δ = {price(paid.delta)}."
    )


def _made(release: ReleaseFacts) -> str:
    cost = f"ε = {price(release.epsilon)}, δ = {price(release.delta)}"
    how = f"{release.mechanism}, {release.how}" if release.how else release.mechanism
    return f"{how}; {count(release.rows)} rows; {cost}"


def _on_release(found: Findings, about: About) -> Iterator[str]:
    """Yield sentences about the groups that are not known, and then about the worst of the other groups."""
    said = _MEASURES[found.measure]
    yield from _not_known(found, about)
    yield from _worst(found, about)
    if ALL_ROWS in found.served and found.averaged:
        yield f"Over all rows, {said.of_all.format(interval(found.served[ALL_ROWS], said.write))}."
    yield from _on_relations(found, about)
    accuracy = found.numbers["accuracy"]
    if ALL_ROWS in accuracy:
        right = f"A classifier trained on its synthetic rows is right for {interval(accuracy[ALL_ROWS], rate)} of "
        right += "the real rows"
        right += _extreme("least often for", accuracy, may_be_least(accuracy), about, rate)
        yield f"{right}."


def _not_known(found: Findings, about: About) -> Iterator[str]:
    """Yield sentences about the groups that cannot be judged, with the reason."""
    hidden = [label for label in found.below_noise if label not in found.lost and found.averaged]
    left = [label for label in about.groups if label not in found.served]
    reasons = {
        "Without any synthetic row": found.lost,
        "Not known at this price, because noise hides their errors": hidden,
        f"Not known, because each has under {100 * MIN_SHARE:g}\u00a0% of the rows": left,
    }
    for reason, labels in reasons.items():
        if labels:
            names = "; ".join(about.names[label] for label in labels)
            yield f"{reason}: {len(labels)} of the {len(about.groups)} groups ({names})."


def _worst(found: Findings, about: About) -> Iterator[str]:
    """Yield a sentence about the group with the largest error.

    If the intervals do not show which group it is, the sentence names the groups that it may be.
    """
    seen, worst, name, said = found.judged, found.worst, found.release.name, _MEASURES[found.measure]
    off = {label: interval(found.served[label], said.write) for label in seen}
    among = f"Of the {len(seen)} groups that can be judged, " if len(seen) < len(about.groups) else ""
    if len(seen) == 1 and among:
        first = about.names[seen[0]]
        only = f"only {first} can be judged, {said.short.format(off[seen[0]])}"
        yield f"Which group is served worst is not known: {only}."
    elif len(worst) == 1:
        yield f"{among}{name} serves {about.names[worst[0]]} worst: {said.of_group.format(off[worst[0]])}."
    elif worst:
        named = "; ".join(f"{about.names[label]}, {said.short.format(off[label])}" for label in worst[:GROUPS_NAMED])
        more = f"; {len(worst) - GROUPS_NAMED} more" if len(worst) > GROUPS_NAMED else ""
        which = f"{among}{'which' if among else 'Which'} group {name} serves worst is not known"
        yield f"{which}. Their intervals leave {len(worst)} of them: {named}{more}."


def _extreme(
    what: str, numbers: Mapping[str, Shown], found: Sequence[str], about: About, write: Callable[[float], str]
) -> str:
    """Return the end of a sentence about the group with the largest or smallest number.

    It is an empty string if this group is not known.
    """
    of = len(judged(numbers))
    if len(found) != 1 or of < 2:
        return ""
    among = f"of the {of} groups that can be judged, " if of < len(about.groups) else ""
    return f"; {among}{what} {about.names[found[0]]}, {interval(numbers[found[0]], write)}"


def _on_relations(found: Findings, about: About) -> Iterator[str]:
    """Yield a sentence about the workload error of all rows, and about the largest one of a group.

    The errors of single columns contain no information about relations.
    """
    errors = found.numbers["workload error"]
    whole = errors.get(ALL_ROWS)
    if whole is None:
        return
    said = (
        f"Relations between columns: the workload error over all marginals of three columns is {interval(whole, ratio)}"
    )
    said += " over all rows (0: every share is right; 2: no combination in common)"
    said += f" [{whole.note}]" if whole.note else ""
    yield f"{said}{_extreme('largest for', errors, may_be_largest(errors), about, ratio)}."


def _compared(each: Comparison, report: Report) -> str:
    served, measure = {of.release.name: of.served for of in report.findings}, _MEASURES[report.findings[0].measure]
    if not each.strata and each.differences:
        one, other = (interval(served[name][ALL_ROWS], measure.write) for name in (each.one, each.other))
        return f"{each.one} is {measure.short.format(one)} on average, {each.other} {measure.short.format(other)}."
    better, worse, of = len(each.better), len(each.worse), len(each.strata)
    exact = isinstance(report, InternalReport)
    surely = "" if exact else "surely "
    if not better and not worse:
        pair = f"one of {each.one} and {each.other}"
        return f"None of the {of} groups is {surely}served better by {pair} than by the other."
    ahead, behind = (each.one, each.other) if better >= worse else (each.other, each.one)
    more, fewer = max(better, worse), min(better, worse)
    said = f"{ahead} serves {more} of the {of} groups {surely}better than {behind}, and {fewer or 'none'} {surely}worse"
    if of > more + fewer and not exact:
        said += f"; for {of - more - fewer} noise hides the difference"
    (found,) = (each for each in report.findings if each.release.name == behind)
    if len(found.worst) != 1 or len(found.judged) < 2:
        return f"{said}."
    (worst,) = found.worst
    there, here = (measure.short.format(interval(served[name][worst], measure.write)) for name in (behind, ahead))
    return f"{said}. {report.about.names[worst]}, which {behind} serves worst, is {there} there and {here} in {ahead}."


def _caveats(report: Report) -> Iterator[str]:
    seeded = [each.name for each in report.releases if not each.private]
    if seeded:
        was, are = ("was", "it is") if len(seeded) == 1 else ("were", "they are")
        yield f"{several(seeded)} {was} made with a seeded noise source, for tests: {are} not private."
    for each in report.releases:
        yield from (f"{each.name}: {caveat}" for caveat in each.caveats)
        if each.people is not None:
            but = ", but the weighted scores" if isinstance(report, InternalReport) else ""
            yield f"{each.name}: {each.people.sentence} All numbers of this audit are of rows{but}."
    if isinstance(report, InternalReport):
        yield PAPERS
        return
    if not report.private:
        yield "This audit was made with a seeded noise source, for tests: it is not private."
    found = report.findings[0]
    unordered = [name for name in found.errors if name not in found.averaged]
    if unordered:
        named = several([report.about.titles[name] for name in unordered])
        yield (
            f"Errors of means read codes. Those of {named} have no order, so they are in no group's error: only "
            "an internal audit measures their distances."
        )
    noisy, level = "Every number from private rows is noisy", percent(report.audits[0].level)
    yield f"{noisy} and has an interval at {level} coverage, each interval by itself."
    if not report.price.charged_as:
        yield "No ledger was charged for this audit: its price must be added to the account of these rows by hand."


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _up(epsilon: float) -> str:
    """Return an ε with three digits. It is rounded up, so that the cost is not larger than the number that is shown."""
    if not 0 < epsilon < math.inf:
        return price(epsilon)
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"
