"""The verdict: what was released, at what price, and which groups are served worst and by how much, in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from equistrata.eval.report.comparison import Comparison
from equistrata.eval.report.findings import Findings, ReleaseFacts, Shown
from equistrata.eval.report.phrases import count, groups, interval, percent, power, rate, several
from equistrata.eval.report.report import About, InternalReport, PublicReport, Report
from equistrata.eval.scores.tables import ALL_ROWS

WORST = 3
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


@dataclass(frozen=True)
class ReleaseVerdict:
    """What is said of one release.

    Attributes:
        name: of the release.
        made: how it was made and at what price.
        worst: the labels of the groups served worst, the worst first.
        sentences: the verdict on it.
    """

    name: str
    made: str
    worst: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """The opening of a report.

    Attributes:
        opening: what was audited, and the price of it all.
        releases: the verdict on each release.
        comparison: how the releases differ.
        caveats: what the reader must keep in mind.
    """

    opening: tuple[str, ...]
    releases: tuple[ReleaseVerdict, ...]
    comparison: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(report: Report) -> Verdict:
    """Put a report's findings into words."""
    about = report.about
    return Verdict(
        opening=(_what(report), _price(report)),
        releases=tuple(
            ReleaseVerdict(each.release.name, _made(each.release), each.ranking[:WORST], tuple(_served(each, about)))
            for each in report.findings
        ),
        comparison=tuple(_compared(each, report) for each in report.comparisons),
        caveats=tuple(_caveats(report)),
    )


def _what(report: Report) -> str:
    about, releases = report.about, report.releases
    number = NUMBERS[len(releases)] if len(releases) < len(NUMBERS) else str(len(releases))
    kind = f"{number} release{'s' * (len(releases) != 1)}"
    whom = f"{len(about.groups)} groups by {about.grouping}" if about.strata_columns else "everybody together"
    return f"{kind} of synthetic people, made from private rows ({about.rows}), audited for {whom}."


def _price(report: Report) -> str:
    prices = {(each.epsilon, each.delta) for each in report.releases}
    if len(report.releases) == 1:
        ((epsilon, delta),) = prices
        said = f"The release cost ε = {power(epsilon)} at δ = {power(delta)}"
    elif len(prices) == 1:
        ((epsilon, delta),) = prices
        said = f"Each release cost ε = {power(epsilon)} at δ = {power(delta)}"
    else:
        said = "The releases cost " + several([f"ε = {power(each.epsilon)} ({each.name})" for each in report.releases])
    if isinstance(report, InternalReport):
        return f"{said}. This audit is internal: its numbers are exact, so it cost nothing and may not be published."
    price = report.price
    which = "release" if len(report.releases) == 1 else "releases"
    audits = f"{which} and audit"
    if report.earlier:
        whose = "its folder" if len(report.releases) == 1 else "their folders"
        audits = f"{which}, {report.earlier} earlier audit{'s' * (report.earlier > 1)} in {whose} and this audit"
    return (
        f"{said}; this audit cost ε = {power(price.epsilon)} at δ = {power(price.delta)}. Together, {audits} cost at most "
        f"ε = {_up(report.together)} at δ = {power(price.delta)}."
    )


def _made(release: ReleaseFacts) -> str:
    how = (
        f"one synthesizer for each group of {' × '.join(release.strata)}"
        if release.strata
        else "one synthesizer for all"
    )
    return f"{release.mechanism}, {how}; {count(release.rows)} rows; ε = {power(release.epsilon)}, δ = {power(release.delta)}"


def _served(found: Findings, about: About) -> list[str]:
    """Worst first. Where the noise leaves some groups untold, the verdict says of how many it speaks."""
    told = [label for label in found.ranking if label not in found.untold]
    unknown = [label for label in found.untold if label not in found.lost]
    name, sentences = found.release.name, []
    if told:
        first, *rest = told[:WORST]
        whom = about.name_of(first)
        off = f"the means of this group are off by {_off(found.served[first])} on average."
        if rest or not unknown:
            among = f"Of the {len(told)} groups that can be judged, {name}" if unknown else name
            sentences.append(f"{among} serves {whom} worst: {off}")
        else:
            sentences.append(f"One group alone can be judged of {name}, {whom}: {off}")
        if rest:
            sentences.append(
                f"Next: {groups([f'{about.name_of(label)}, off by {_off(found.served[label])}' for label in rest])}."
            )
    if found.lost:
        lost = groups([about.name_of(label) for label in found.lost])
        sentences.append(f"No synthetic person at all is in {len(found.lost)} of the groups: {lost}.")
    values = [value for label in told if (value := found.served[label].value) is not None]
    if len(told) > WORST:
        least = min(told, key=lambda label: _at_most(found.served[label]))
        sentences.append(
            f"The typical group{' of these' if unknown else ''} is off by {percent(median(values))}; best served is "
            f"{about.name_of(least)}, off by {_off(found.served[least])}."
        )
    if ALL_ROWS in found.served:
        sentences.append(f"Over everybody, its means are off by {_off(found.served[ALL_ROWS])} on average.")
    if unknown:
        sentences.append(
            f"{len(unknown)} of the {len(about.groups)} groups {'is' if len(unknown) == 1 else 'are'} too small to be judged at this price, for the noise is larger "
            f"than the errors that one looks for: {groups([about.groups.get(label, label) for label in unknown])}."
        )
    if ALL_ROWS in found.accuracy:
        sentences.append(_classifier(found, about))
    return sentences


def _classifier(found: Findings, about: About) -> str:
    told = {
        label: shown
        for label, shown in found.accuracy.items()
        if label != ALL_ROWS and shown.value is not None and not shown.note
    }
    said = f"A classifier trained on its synthetic rows is right for {interval(found.accuracy[ALL_ROWS], rate)} of the real people"
    if len(told) < 2:
        return f"{said}."
    least = min(told, key=lambda label: _at_most(told[label]))
    if (told[least].value or 0.0) >= (found.accuracy[ALL_ROWS].value or 0.0):
        return f"{said}."
    return f"{said}; least often for {about.name_of(least)}, {interval(told[least], rate)}."


def _compared(each: Comparison, report: Report) -> str:
    exact = isinstance(report, InternalReport)
    better, worse, of = len(each.better), len(each.worse), each.compared
    surely = "" if exact else "surely "
    if not of and each.differences:
        by = {f.release.name: _off(f.served[ALL_ROWS]) for f in report.findings}
        return (
            f"The means of {each.one} are off by {by[each.one]} on average, those of {each.other} by {by[each.other]}."
        )
    if not better and not worse:
        return f"For none of the {of} groups can it be told which of {each.one} and {each.other} serves it better."
    ahead, behind = (each.one, each.other) if better >= worse else (each.other, each.one)
    more, fewer = max(better, worse), min(better, worse)
    sentence = (
        f"{ahead} serves {more} of the {of} groups {surely}better than {behind}, and {fewer or 'none'} {surely}worse"
    )
    rest = of - more - fewer
    if rest and not exact:
        sentence += f"; for {'the other one' if rest == 1 else f'the other {rest}'} it cannot be told"
    found = {f.release.name: f for f in report.findings}
    worst = next((label for label in found[behind].ranking if label not in found[behind].untold), None)
    if worst is None or worst not in found[ahead].served:
        return f"{sentence}."
    return (
        f"{sentence}. The group that {behind} serves worst, {report.about.name_of(worst)}, is off by "
        f"{_off(found[behind].served[worst])} there and by {_off(found[ahead].served[worst])} in {ahead}."
    )


def _caveats(report: Report) -> list[str]:
    found = []
    unprivate = [each.name for each in report.releases if not each.private]
    if unprivate:
        found.append(
            f"{several(unprivate)} {'was' if len(unprivate) == 1 else 'were'} made with a seeded noise source, for tests: "
            f"{'it is' if len(unprivate) == 1 else 'they are'} not private."
        )
    for each in report.releases:
        found += [f"{each.name}: {caveat}" for caveat in each.caveats]
    if isinstance(report, PublicReport):
        if not report.private:
            found.append("This audit was made with a seeded noise source, for tests: it is not private.")
        found.append(
            f"Every number from private rows is noisy and stands with its interval, made to hold the truth in "
            f"{percent(report.audits[0].level)} of cases, one at a time."
        )
        if not report.price.charged_as:
            found.append(
                "No ledger was charged for this audit: whoever keeps the account of these rows must add its price."
            )
    else:
        left = [label for label in report.about.groups if label not in report.findings[0].served]
        if left:
            names = groups([report.about.name_of(label) for label in left])
            found.append(f"Left out of errors, for they hold too few people for one to mean anything: {names}.")
    return found


def _off(shown: Shown) -> str:
    """An error in words: what is certain first, where it is noisy."""
    if shown.lower is None or shown.upper is None or percent(shown.lower) == percent(shown.upper):
        return percent(shown.value or 0.0)
    estimate = "" if shown.value is None else f", estimate {percent(shown.value)}"
    if math.isinf(shown.upper):
        return f"at least {percent(shown.lower)} ({estimate[2:] or 'no upper bound'})"
    if shown.lower <= 0:
        return f"at most {percent(shown.upper)}" + (f" ({estimate[2:]})" if estimate else "")
    return f"{percent(shown.lower)} to {percent(shown.upper)}" + (f" ({estimate[2:]})" if estimate else "")


def _at_most(shown: Shown) -> float:
    """The upper end, or the exact value."""
    found = shown.value if shown.upper is None else shown.upper
    return math.inf if found is None else found


def _up(epsilon: float) -> str:
    """Rounded up to three digits: a price is never told lower than it is."""
    if not 0 < epsilon < math.inf:
        return f"{power(epsilon)}"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"
