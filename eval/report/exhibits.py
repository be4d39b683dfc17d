"""Which figures a report has, what each shows, and the tables under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from equistrata.eval.report import figures, heat_maps
from equistrata.eval.report.figures import Dots, Picture, picture
from equistrata.eval.report.findings import Findings, Shown
from equistrata.eval.report.phrases import percent, ratio
from equistrata.eval.report.report import BudgetHistory, InternalReport, PublicReport, Report, order_of_groups
from equistrata.eval.report.tables import Table, by_group, errors_of, of_budget, published_means, rates_of
from equistrata.eval.scores.tables import ALL_ROWS

LONGEST = 42  # characters of a group's name beside a figure


@dataclass(frozen=True)
class Exhibit:
    """A figure with its tables, and the CSV file that holds its numbers."""

    picture: Picture | None
    title: str
    tables: tuple[Table, ...]
    csv: str


def exhibits(report: Report) -> list[Exhibit]:
    """Every figure of a report, in order."""
    labels = order_of_groups(report)
    words = {label: _short(report.about.groups[label]) for label in labels}
    found = [*_served(report, labels, words)]
    if isinstance(report, InternalReport):
        found += _marginals(report)
        found += [Exhibit(None, table.caption, (table,), "means.csv") for table in published_means(report)]
    found += _classifier(report, labels, words)
    if len(report.releases) > 1 and all(ALL_ROWS in each.accuracy for each in report.findings):
        found.append(_accuracy(report))
    if report.history is not None:
        found.append(_budget(report.history))
    return found


def _served(report: Report, labels: Sequence[str], words: Mapping[str, str]) -> list[Exhibit]:
    noisy = isinstance(report, PublicReport)
    interval = " The line is the interval; a hollow mark on a dotted line tells nothing." if noisy else ""
    served = Dots({each.release.name: each.served for each in report.findings}, "error of the means (log scale)")
    shown = [
        Exhibit(
            picture(
                "served",
                "How well each group is served",
                "Each mark is the error of a group's means, averaged over the columns: the further left, the better."
                + interval,
                _worst_of(report, "the largest error of the means"),
                lambda narrow: figures.dot_plot([served], labels, words, narrow),
            ),
            "How well each group is served",
            (by_group(report, labels, "error of means", "Error of the means by group"),),
            "groups.csv",
        )
    ]
    for number, each in enumerate(report.findings, start=1):
        title = f"Errors by column and group: {each.release.name}"
        shown.append(
            Exhibit(
                picture(
                    f"errors{number}",
                    title,
                    "Each cell is the relative error of a column's mean in a group, in per cent"
                    f"; hatched where {'the noise leaves nothing to say' if noisy else 'too few people are'}.",
                    _worst_cell(each, report),
                    partial(heat_maps.heat_map, each.errors, labels, words),
                ),
                title,
                (errors_of(each, report.about, labels),),
                "errors.csv",
            )
        )
    workload = Dots(
        {each.release.name: each.workload for each in report.findings},
        "workload error (0 to 2)",
        scale="linear",
        shown=lambda x: f"{x:g}",
        limits=(0.0, _upper(report, "workload")),
    )
    shown.append(
        Exhibit(
            picture(
                "workload",
                "How well relations between columns are kept",
                "Each mark is a group's workload error over all marginals of three columns: 0 is best, 2 is no overlap."
                + interval,
                _worst_of(report, "the largest workload error", "workload"),
                lambda narrow: figures.dot_plot([workload], labels, words, narrow),
            ),
            "How well relations between columns are kept",
            (by_group(report, labels, "workload error", "Workload error by group"),),
            "groups.csv",
        )
    )
    return shown


def _classifier(report: Report, labels: Sequence[str], words: Mapping[str, str]) -> list[Exhibit]:
    if not report.target[0]:
        return []
    column, positive = report.target
    what = f"{report.about.columns.get(column, column)} = {positive}"
    findings = report.findings
    calibration = Dots(
        {each.release.name: each.calibration for each in findings},
        "predicted over real number (log scale)",
        shown=lambda x: f"{x:g}",
        reference=1.0,
    )
    rates = [
        Dots({f.release.name: getattr(f, name) for f in findings}, axis, "linear", limits=(0.0, 1.0), ticks=2)
        for name, axis in (
            ("accuracy", "right"),
            ("selection_rate", "selected"),
            ("false_negative_rate", "positive, missed"),
        )
    ]
    return [
        Exhibit(
            picture(
                "calibration",
                "Calibration by group",
                f"How many people the classifier expects to have {what}, over how many have: 1 is right, above 1 promises "
                "too much.",
                _worst_of(report, "the largest calibration ratio", "calibration"),
                lambda narrow: figures.dot_plot([calibration], labels, words, narrow),
            ),
            "Calibration by group",
            (by_group(report, labels, "calibration", "Calibration ratio by group"),),
            "groups.csv",
        ),
        Exhibit(
            picture(
                "rates",
                "The classifier's rates by group",
                f"Trained on synthetic rows to find {what}; tried on private rows. Rates of the groups should agree.",
                _worst_of(report, "the highest rate of missed positive people", "false_negative_rate"),
                lambda narrow: figures.dot_plot(rates, labels, words, narrow),
            ),
            "The classifier's rates by group",
            tuple(rates_of(each, report.about, labels) for each in findings),
            "groups.csv",
        ),
    ]


def _marginals(report: InternalReport) -> list[Exhibit]:
    everybody = [_one_way(report, "marginals0", "One-way marginals of all rows", "", range(len(report.releases)))]
    worst = [
        _one_way(
            report,
            f"marginals{number}",
            f"One-way marginals of the group that {release.name} serves worst: {report.about.name_of(each.group)}",
            each.group,
            [number - 1],
        )
        for number, (release, each) in enumerate(zip(report.releases, report.marginals, strict=True), start=1)
        if each.group
    ]
    return [*everybody, *worst, *_two_way(report)]


def _one_way(report: InternalReport, name: str, title: str, group: str, releases: Sequence[int]) -> Exhibit:
    """Shares of each value, of private rows and of these releases (by number), over all rows or in a group."""
    sides = {k: (each.in_group if group else each.columns) for k, each in enumerate(report.marginals) if k in releases}
    first = sides[releases[0]]
    shown = {
        column: (words, real, {k: side[column][2] for k, side in sides.items()})
        for column, (words, real, _) in first.items()
    }
    names = [each.name for each in report.releases]
    titles = {
        column: words if words == column else f"{words} ({column})" for column, words in report.about.columns.items()
    }
    return Exhibit(
        picture(
            name,
            title,
            "Bars are the private rows' exact shares, marks the synthetic rows': a mark at the end of its bar is best.",
            f"Bar charts of {len(shown)} columns; the shares are in marginals.csv.",
            lambda narrow: figures.bars(shown, names, titles, narrow),
        ),
        title,
        (),
        "marginals.csv",
    )


def _two_way(report: InternalReport) -> Iterator[Exhibit]:
    """For each release, the distances of all pairs of columns, and the pair that it keeps worst."""
    columns = list(report.about.columns)
    for number, (release, each) in enumerate(zip(report.releases, report.marginals, strict=True), start=1):
        if each.worst is None or each.real is None or each.synthetic is None:
            continue
        worst = " × ".join(report.about.columns[name] for name in each.worst)
        distance = ratio(each.pairs[each.worst])
        title = f"Two-way marginals: {release.name}"
        yield Exhibit(
            picture(
                f"pairs{number}",
                title,
                "Each cell is the L1 distance between the private and the synthetic marginal of two columns: 0 is best, 2 is "
                "no overlap.",
                f"A triangle of {len(each.pairs)} pairs. The largest distance is {distance}, of {worst}.",
                partial(heat_maps.pair_map, each.pairs, columns),
            ),
            title,
            (_pairs(release.name, each.pairs),),
            "pairs.csv",
        )
        title = f"The pair that {release.name} keeps worst: {worst}"
        words = each.columns[each.worst[0]][0], each.columns[each.worst[1]][0]
        sides = {"private rows (exact)": each.real, "synthetic rows": each.synthetic}
        yield Exhibit(
            picture(
                f"pair{number}",
                title,
                "Each cell is the share of people, in per cent.",
                f"Two tables of {len(words[0])} by {len(words[1])} values; their L1 distance is {distance}.",
                partial(heat_maps.pair_tables, words, sides, each.worst),
            ),
            title,
            (),
            "pairs.csv",
        )


def _accuracy(report: Report) -> Exhibit:
    points = {each.release.name: (each.release.epsilon, each.accuracy[ALL_ROWS]) for each in report.findings}
    best = max(points, key=lambda name: points[name][1].value or 0.0)
    return Exhibit(
        picture(
            "accuracy",
            "Accuracy against ε",
            "The share of real people that each release's classifier predicts right, against the price of the release. "
            "Releases of one price stand beside each other.",
            f"{len(points)} releases; the highest accuracy is {percent(points[best][1].value or 0.0)}, of {best}.",
            lambda narrow: figures.accuracy_by_epsilon(points, narrow),
        ),
        "Accuracy against ε",
        (by_group(report, (), "accuracy", "Accuracy over everybody"),),
        "groups.csv",
    )


def _budget(history: BudgetHistory) -> Exhibit:
    moments = [datetime.fromisoformat(at) for at in (history.opened, *(each.at for each in history.charges))]
    spent = [0.0, *(each.spent for each in history.charges)]
    mine = [False, *(each.release in history.mine for each in history.charges)]
    return Exhibit(
        picture(
            "budget",
            f"The budget of {history.dataset} over time",
            f"What all charges have spent of the lifetime budget, ε = {history.epsilon:g} at δ = {history.delta:g}.",
            f"{len(history.charges)} charges have spent {percent(history.spent / history.rho)} of the budget.",
            lambda narrow: figures.budget_over_time(moments, spent, history.rho, mine, narrow),
        ),
        f"The budget of {history.dataset} over time",
        (of_budget(history),),
        "budget.csv",
    )


def _pairs(release: str, pairs: Mapping[tuple[str, str], float]) -> Table:
    ranked = sorted(pairs.items(), key=lambda item: -item[1])
    rows = tuple((" × ".join(pair), ratio(error)) for pair, error in ranked)
    return Table(f"Two-way marginals, {release}", ("pair", "L1 distance"), rows)


def _worst_of(report: Report, what: str, name: str = "served") -> str:
    said = []
    for each in report.findings:
        numbers: Mapping[str, Shown] = getattr(each, name)
        told = [label for label, s in numbers.items() if label != ALL_ROWS and s.value is not None and not s.note]
        if told:
            top = max(told, key=lambda label: numbers[label].value or 0.0)
            write = ratio if name in ("workload", "calibration") else percent
            said.append(
                f"{each.release.name}: {what} is {write(numbers[top].value or 0.0)}, of {report.about.name_of(top)}"
            )
    return f"A dot plot of {len(report.about.groups)} groups. {'; '.join(said) or 'Nothing is told of any group'}."


def _worst_cell(found: Findings, report: Report) -> str:
    told = {
        (column, label): shown.value
        for column, of in found.errors.items()
        for label, shown in of.items()
        if label != ALL_ROWS and shown.value is not None and not shown.note
    }
    said = f"A grid of {len(found.errors)} columns and {len(report.about.groups)} groups."
    if not told:
        return f"{said} Nothing is told of any cell."
    column, label = max(told, key=lambda cell: told[cell] or 0.0)
    return (
        f"{said} The largest error is {percent(told[column, label] or 0.0)}: {report.about.columns[column]} of "
        f"{report.about.name_of(label)}."
    )


def _upper(report: Report, name: str) -> float:
    ends = [
        s.upper if s.upper is not None and not s.note else s.value
        for each in report.findings
        for s in getattr(each, name).values()
    ]
    return 1.08 * max((end for end in ends if end is not None), default=1.0)


def _short(words: str) -> str:
    return words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + "…"
