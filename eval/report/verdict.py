"""The verdict of a report: which groups have the largest errors and how large they are, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from equistrata.eval.report.findings import DISTANCE, ERROR_OF_MEANS, Comparison, Findings, ReleaseFacts
from equistrata.eval.report.group_errors import known
from equistrata.eval.report.report import About, InternalReport, Report
from equistrata.eval.report.words import count, interval, percent, price, rate, ratio, several
from equistrata.eval.scores.tables import ALL_ROWS

GROUPS_NAMED = 3  # in the verdict on a release
PAPERS = (
    "Parity error, maximum disparity and the error of means are the paper's, and read codes: of nominal columns they "
    "depend on the order in which values are declared."
)
SMALL_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


@dataclass(frozen=True)
class _Measure:
    """How errors of groups are written, and said of a group: in the sentence on the worst, and in short."""

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
    """The verdict on one release, and how it was made and at what price."""

    name: str
    made: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """The opening of a report: what was audited at what price, each release, how they differ, what to keep in mind."""

    opening: tuple[str, ...]
    releases: tuple[ReleaseVerdict, ...]
    comparison: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(report: Report) -> Verdict:
    """What a report says first, in words that follow from its numbers."""
    releases = tuple(
        ReleaseVerdict(each.release.name, _made(each.release), tuple(_on_release(each, report.about)))
        for each in report.findings
    )
    comparison = tuple(_compared(each, report) for each in report.comparisons if each.differences)
    return Verdict((_what(report), _total_price(report)), releases, comparison, tuple(_caveats(report)))


def _what(report: Report) -> str:
    about, releases = report.about, report.releases
    number = SMALL_NUMBERS[len(releases)] if len(releases) < len(SMALL_NUMBERS) else str(len(releases))
    whom = f"{len(about.groups)} groups by {about.grouping}" if about.strata.columns else "everybody together"
    people = f"{_plural('release', len(releases))} of synthetic people, made from private rows ({about.rows})"
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
    """The largest errors first. Where the noise hides some groups, the verdict says how many it is about."""
    judged, name, said = found.judged, found.release.name, _MEASURES[found.measure]
    hidden = [label for label in found.below_noise if label not in found.lost and found.averaged]
    off = {label: said.short.format(interval(error, said.write)) for label, error in found.served.items()}
    if judged:
        first, *rest = judged[:GROUPS_NAMED]
        who = f"{name} serves {about.names[first]} worst"
        if not found.worst_is_certain:
            who = f"none is surely served worse than another by {name}; the largest estimate is that of "
            who += about.names[first]
        if hidden or not found.worst_is_certain:
            who = f"Of the {len(judged)} groups that can be judged, {who}"
        if hidden and not rest:
            who = f"Only one group can be judged of {name}, {about.names[first]}"
        yield f"{who}: {said.of_group.format(interval(found.served[first], said.write))}."
        if rest:
            yield f"Next: {'; '.join(f'{about.names[label]}, {off[label]}' for label in rest)}."
    if found.lost:
        names = "; ".join(about.names[label] for label in found.lost)
        yield f"{len(found.lost)} of the groups {_are(len(found.lost))} without any synthetic person: {names}."
    if len(judged) > GROUPS_NAMED:
        middle = said.write(median(value for label in judged if (value := found.served[label].value) is not None))
        least, these = min(judged, key=lambda label: found.served[label].at_most), " of these" if hidden else ""
        typical = f"The median group{these} is {said.short.format(middle)}"
        yield f"{typical}; best served is {about.names[least]}, {off[least]}."
    if ALL_ROWS in off and found.averaged:
        yield f"Over everybody, {said.of_all.format(interval(found.served[ALL_ROWS], said.write))}."
    if hidden:
        names = "; ".join(about.groups.get(label, label) for label in hidden)
        yield (
            f"{len(hidden)} of the {len(about.groups)} groups cannot be judged at this price (their errors are below "
            f"the noise floor): {names}."
        )
    yield from _on_relations(found, about)
    accuracy = found.numbers["accuracy"]
    if ALL_ROWS in accuracy:
        whole, certain = accuracy[ALL_ROWS], known(accuracy)
        right = f"A classifier trained on its synthetic rows is right for {interval(whole, rate)} of the real people"
        least = min(certain, key=lambda label: accuracy[label].at_most, default="")
        if len(certain) > 1 and certain[least] < (whole.value or 0.0):
            right += f"; least often for {about.names[least]}, {interval(accuracy[least], rate)}"
        yield f"{right}."


def _on_relations(found: Findings, about: About) -> Iterator[str]:
    """The workload error, over everybody and the largest: errors of single columns say nothing of relations."""
    errors = found.numbers["workload error"]
    whole, certain = errors.get(ALL_ROWS), known(errors)
    if whole is None:
        return
    said = (
        f"Relations between columns: the workload error over all marginals of three columns is {interval(whole, ratio)}"
    )
    said += " over everybody (0: every share is right; 2: no combination in common)"
    said += f" [{whole.note}]" if whole.note else ""
    if certain:
        most = min(certain, key=lambda label: errors[label].order)
        said += f"; largest for {about.names[most]}, {interval(errors[most], ratio)}"
    yield f"{said}."


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
        said += f"; for {of - more - fewer} the difference is below the noise floor"
    worst = next((label for found in report.findings if found.release.name == behind for label in found.judged), None)
    if worst is None or worst not in served[ahead]:
        return f"{said}."
    there, here = (measure.short.format(interval(served[name][worst], measure.write)) for name in (behind, ahead))
    group = f"The group with the largest error in {behind}, {report.about.names[worst]},"
    return f"{said}. {group} is {there} there and {here} in {ahead}."


def _caveats(report: Report) -> Iterator[str]:
    seeded = [each.name for each in report.releases if not each.private]
    if seeded:
        was, are = ("was", "it is") if len(seeded) == 1 else ("were", "they are")
        yield f"{several(seeded)} {was} made with a seeded noise source, for tests: {are} not private."
    for each in report.releases:
        yield from (f"{each.name}: {caveat}" for caveat in each.caveats)
    if isinstance(report, InternalReport):
        yield PAPERS
        left = [label for label in report.about.groups if label not in report.findings[0].served]
        if left:
            names = "; ".join(report.about.names[label] for label in left)
            yield f"Left out of errors, because they have too few people: {names}."
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


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _up(epsilon: float) -> str:
    """Rounded up to three digits: a price is never shown lower than it is."""
    if not 0 < epsilon < math.inf:
        return price(epsilon)
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"
