"""A report in words: its numbers, and the verdict on which groups have the largest errors, and how large they are.

>>> [percent(x) for x in (0, 0.000214, 0.0371, 0.234, 1.83)]
['0\u00a0%', '0.021\u00a0%', '3.7\u00a0%', '23\u00a0%', '183\u00a0%']
>>> interval(Shown(0.049, 0.021, 0.09), percent)
'4.9\u00a0% (2.1\u00a0% to 9.0\u00a0%)'
>>> several(["a", "b", "c"])
'a, b and c'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from equistrata.eval.report.findings import Comparison, Findings, ReleaseFacts, Shown
from equistrata.eval.report.report import About, InternalReport, Report
from equistrata.eval.scores.tables import ALL_ROWS

GROUPS_NAMED = 3  # in the verdict on a release
SMALL_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


@dataclass(frozen=True)
class ReleaseVerdict:
    """The verdict on one release.

    Attributes:
        name: of the release.
        made: how it was made and at what price.
        worst: the labels of the groups with the largest errors, in that order.
        sentences: the verdict.
    """

    name: str
    made: str
    worst: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """The opening of a report.

    Attributes:
        opening: what was audited, and the total price.
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
    releases = []
    for each in report.findings:
        sentences = tuple(_on_release(each, report.about))
        releases.append(ReleaseVerdict(each.release.name, _made(each.release), each.ranking[:GROUPS_NAMED], sentences))
    comparison = tuple(_compared(each, report) for each in report.comparisons)
    return Verdict((_what(report), _total_price(report)), tuple(releases), comparison, tuple(_caveats(report)))


def _what(report: Report) -> str:
    about, releases = report.about, report.releases
    number = SMALL_NUMBERS[len(releases)] if len(releases) < len(SMALL_NUMBERS) else str(len(releases))
    whom = f"{len(about.groups)} groups by {about.grouping}" if about.strata_columns else "everybody together"
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
    by = f"each group of {' × '.join(release.strata)}" if release.strata else "all"
    cost = f"ε = {price(release.epsilon)}, δ = {price(release.delta)}"
    return f"{release.mechanism}, one synthesizer for {by}; {count(release.rows)} rows; {cost}"


def _on_release(found: Findings, about: About) -> Iterator[str]:
    """The largest errors first. Where the noise hides some groups, the verdict says how many it is about."""
    judged = found.judged
    hidden = [label for label in found.below_noise if label not in found.lost]
    off = {label: _off(error) for label, error in found.served.items()}
    if judged:
        first, *rest = judged[:GROUPS_NAMED]
        error = f"the means of this group are off by {off[first]} on average."
        if rest or not hidden:
            among = f"Of the {len(judged)} groups that can be judged, " if hidden else ""
            yield f"{among}{found.release.name} serves {about.names[first]} worst: {error}"
        else:
            yield f"Only one group can be judged of {found.release.name}, {about.names[first]}: {error}"
        if rest:
            yield f"Next: {'; '.join(f'{about.names[label]}, off by {off[label]}' for label in rest)}."
    if found.lost:
        names = "; ".join(about.names[label] for label in found.lost)
        yield f"{len(found.lost)} of the groups {_are(len(found.lost))} without any synthetic person: {names}."
    if len(judged) > GROUPS_NAMED:
        middle = median(value for label in judged if (value := found.served[label].value) is not None)
        least = min(judged, key=lambda label: _at_most(found.served[label]))
        yield (
            f"The median group{' of these' if hidden else ''} is off by {percent(middle)}; best served is "
            f"{about.names[least]}, off by {off[least]}."
        )
    if ALL_ROWS in off:
        yield f"Over everybody, its means are off by {off[ALL_ROWS]} on average."
    if hidden:
        names = "; ".join(about.groups.get(label, label) for label in hidden)
        small = f"{len(hidden)} of the {len(about.groups)} groups {_are(len(hidden))} too small to be judged"
        yield f"{small} at this price (below the noise floor): {names}."
    if ALL_ROWS in found.accuracy:
        yield _on_classifier(found, about)


def _on_classifier(found: Findings, about: About) -> str:
    whole = found.accuracy[ALL_ROWS]
    judged = _certain(found.accuracy)
    said = f"A classifier trained on its synthetic rows is right for {interval(whole, rate)} of the real people"
    least = min(judged, key=lambda label: _at_most(found.accuracy[label]), default="")
    if len(judged) < 2 or judged[least] >= (whole.value or 0.0):
        return f"{said}."
    return f"{said}; least often for {about.names[least]}, {interval(found.accuracy[least], rate)}."


def _compared(each: Comparison, report: Report) -> str:
    found = {of.release.name: of for of in report.findings}
    if not each.compared and each.differences:
        one, other = (_off(found[name].served[ALL_ROWS]) for name in (each.one, each.other))
        return f"The means of {each.one} are off by {one} on average, those of {each.other} by {other}."
    better, worse, of = len(each.better), len(each.worse), each.compared
    exact = isinstance(report, InternalReport)
    surely = "" if exact else "surely "
    if not better and not worse:
        return (
            f"None of the {of} groups is {surely}served better by one of {each.one} and {each.other} than by the other."
        )
    ahead, behind = (each.one, each.other) if better >= worse else (each.other, each.one)
    more, fewer = max(better, worse), min(better, worse)
    said = f"{ahead} serves {more} of the {of} groups {surely}better than {behind}, and {fewer or 'none'} {surely}worse"
    rest = of - more - fewer
    if rest and not exact:
        said += f"; for {rest} the difference is below the noise floor"
    worst = next(iter(found[behind].judged), None)
    if worst is None or worst not in found[ahead].served:
        return f"{said}."
    return (
        f"{said}. The group that {behind} serves worst, {report.about.names[worst]}, is off by "
        f"{_off(found[behind].served[worst])} there and by {_off(found[ahead].served[worst])} in {ahead}."
    )


def _caveats(report: Report) -> Iterator[str]:
    seeded = [each.name for each in report.releases if not each.private]
    if seeded:
        was, are = ("was", "it is") if len(seeded) == 1 else ("were", "they are")
        yield f"{several(seeded)} {was} made with a seeded noise source, for tests: {are} not private."
    for each in report.releases:
        yield from (f"{each.name}: {caveat}" for caveat in each.caveats)
    if isinstance(report, InternalReport):
        left = [label for label in report.about.groups if label not in report.findings[0].served]
        if left:
            names = "; ".join(report.about.names[label] for label in left)
            yield f"Left out of errors, because they have too few people: {names}."
        return
    if not report.private:
        yield "This audit was made with a seeded noise source, for tests: it is not private."
    noisy, level = "Every number from private rows is noisy", percent(report.audits[0].level)
    yield f"{noisy} and has an interval at {level} coverage, each interval by itself."
    if not report.price.charged_as:
        yield "No ledger was charged for this audit: its price must be added to the account of these rows by hand."


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def descriptions(report: Report) -> dict[str, str]:
    """What there is to see in each picture, for those who do not see it: the picture's name → sentences."""
    said = {
        picture: _largest(report, numbers, what)
        for picture, numbers, what in (
            ("served", "served", "the largest error of the means"),
            ("workload", "workload", "the largest workload error"),
            ("calibration", "calibration", "the largest calibration ratio"),
            ("rates", "false_negative_rate", "the highest rate of missed positive people"),
        )
    }
    for number, found in enumerate(report.findings, start=1):
        said[f"errors{number}"] = _largest_cell(found, report.about)
    points = {each.release.name: each.accuracy.get(ALL_ROWS, Shown(None)).value or 0.0 for each in report.findings}
    best = max(points, key=points.__getitem__)
    said["accuracy"] = f"{len(points)} releases; the highest accuracy is {percent(points[best])}, of {best}."
    if report.history is not None:
        used = percent(report.history.spent / report.history.rho)
        said["budget"] = f"{len(report.history.charges)} charges have spent {used} of the budget."
    if isinstance(report, InternalReport):
        for number, audit in enumerate(report.audits, start=1):
            each = audit.marginals
            if each.worst is not None:
                names = " × ".join(report.about.columns[name] for name in each.worst)
                one, other = (len(each.columns[name].words) for name in each.worst)
                far = ratio(each.pairs[each.worst])
                said[f"pairs{number}"] = (
                    f"A triangle of {len(each.pairs)} pairs. The largest distance is {far}, of {names}."
                )
                said[f"pair{number}"] = f"Two tables of {one} by {other} values; their L1 distance is {far}."
    return said


def _largest(report: Report, name: str, what: str) -> str:
    """The group with the largest of some numbers in each release."""
    said = []
    for found in report.findings:
        known = _certain(getattr(found, name))
        if known:
            top = max(known, key=known.__getitem__)
            number = ratio(known[top]) if name in ("workload", "calibration") else percent(known[top])
            said.append(f"{found.release.name}: {what} is {number}, of {report.about.names[top]}")
    largest = "; ".join(said) or "Every group is below the noise floor"
    return f"A dot plot of {len(report.about.groups)} groups. {largest}."


def _certain(numbers: Mapping[str, Shown]) -> dict[str, float]:
    """The values of strata above the noise floor."""
    return {
        label: shown.value
        for label, shown in numbers.items()
        if label != ALL_ROWS and shown.value is not None and not shown.note
    }


def _largest_cell(found: Findings, about: About) -> str:
    """The column and group with the largest error."""
    known = {(column, label): value for column, of in found.errors.items() for label, value in _certain(of).items()}
    said = f"A grid of {len(found.errors)} columns and {len(about.groups)} groups."
    if not known:
        return f"{said} Every cell is below the noise floor."
    column, label = max(known, key=known.__getitem__)
    error = percent(known[column, label])
    return f"{said} The largest error is {error}: {about.columns[column]} of {about.names[label]}."


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
    """Rounded up to three digits: a price is never shown lower than it is."""
    if not 0 < epsilon < math.inf:
        return price(epsilon)
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"


def percent(share: float) -> str:
    """A share in per cent, to two or three digits."""
    x = 100 * share
    if x == 0:
        return "0\u00a0%"
    if abs(x) >= 10:
        return f"{x:,.0f}\u00a0%"
    if abs(x) >= 1:
        return f"{x:.1f}\u00a0%"
    return f"{_significant(x)}\u00a0%"


def rate(share: float) -> str:
    """A rate in per cent, to a tenth: for shares that differ little."""
    return f"{100 * share:.1f}\u00a0%"


def ratio(x: float) -> str:
    """A ratio or an error of order one, to a thousandth."""
    return f"{x:.3f}" if abs(x) < 100 else f"{x:,.0f}"


def short(x: float) -> str:
    """A number for a cell of a heat map: two digits, three decimals at most.

    >>> short(12.3), short(1.23), short(0.0123), short(0.00004)
    ('12', '1.2', '0.012', '0')
    """
    return f"{x:.0f}" if abs(x) >= 9.95 else f"{x:.1f}" if abs(x) >= 0.995 else f"{x:.2g}" if abs(x) >= 0.001 else "0"


def price(x: float) -> str:
    """A δ or an ε.

    >>> price(1e-09), price(0.5)
    ('1e-9', '0.5')
    """
    return f"{x:g}".replace("e-0", "e-").replace("e+0", "e")


def count(x: float) -> str:
    """A number of rows."""
    return f"{x:,.0f}"


def interval(shown: Shown, words: Callable[[float], str]) -> str:
    """A number with its interval, if it has one; a dash if there is none."""
    value = "–" if shown.value is None else words(shown.value)
    if shown.lower is None or shown.upper is None or shown.lower == shown.upper:
        return value
    if math.isinf(shown.upper):
        return f"{value} ({words(shown.lower)} or more)"
    return f"{value} ({words(shown.lower)} to {words(shown.upper)})"


def several(names: Sequence[str]) -> str:
    """A list in words."""
    return " and ".join([*[", ".join(names[:-1])][: len(names) > 1], *names[-1:]])


def _significant(x: float) -> str:
    digits = max(1 - math.floor(math.log10(abs(x))), 0)
    return f"{x:.{min(digits, 8)}f}"
