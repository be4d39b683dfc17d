"""The exhibits of a report: figures with a description for readers who cannot see them, and the tables below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from equistrata.eval.audit.internal import ColumnShares
from equistrata.eval.report.charts import LETTERS, Chart, Panel
from equistrata.eval.report.group_errors import CHANCE, NOTABLE_ERROR, ReportedNumber
from equistrata.eval.report.pictures import shorten
from equistrata.eval.report.relations import relations_measured
from equistrata.eval.report.report import InternalReport, PublicReport, Report
from equistrata.eval.report.tables import WRITTEN, Table, charges, published_means, table_by_group
from equistrata.eval.report.words import largest_in_words, percent, rate, ratio
from equistrata.eval.scores.tables import ALL_ROWS

LONGEST_WORDS = 42  # the largest number of characters of a group name in a figure
CALLED = {"calibration": "calibration ratio"}
RATE_PANELS = {  # the name of a rate above its panel, and its name in the table
    "accuracy": ("right", "accuracy"),
    "selection rate": ("selected", "selected"),
    "false negative rate": ("positive, missed", "missed"),
}


@dataclass(frozen=True)
class Exhibit:
    """A part of a report with a title, an explanation, a chart and tables.

    The chart is None if the exhibit contains only tables. The numbers are also in the CSV file with the name `csv`.
    """

    title: str
    reading: str
    chart: Chart | None
    tables: tuple[Table, ...]
    csv: str


def exhibits(report: Report) -> Iterator[Exhibit]:
    """Yield the exhibits of a report in order, before they are rendered."""
    yield from _errors(report)
    if isinstance(report, InternalReport):
        yield from _one_way(report)
        yield from _two_way(report)
        for table in published_means(report):
            yield _table(table, "means.csv")
    yield from _classifier(report)
    if report.history is not None:
        yield _table(charges(report.history), "budget.csv")


def _errors(report: Report) -> Iterator[Exhibit]:
    noisy = isinstance(report, PublicReport)
    order = " Groups that cannot be judged come first, the others by the lower end of the interval." if noisy else ""
    measure, averaged = report.findings[0].measure, report.findings[0].averaged
    title = "How well each group is served"
    if noisy:
        reading = "Each mark is the error of a group's means, averaged over columns: the further left, the better."
        error = Panel(_numbers(report, measure), "error of the means (log scale)")
        cell = (
            "Each cell is the relative error of the mean of a column's codes in a group, in per cent; hatched where it "
        )
        cell += f"may be chance and over {percent(NOTABLE_ERROR)}. Cells are shrunk, by their noise and what was "
        cell += f"expected of them without looking: one dark cell by chance in some {round(1 / CHANCE)} such maps."
    else:
        reading = (
            "Each mark is the distance of a group's released values, averaged over columns: the further left, the "
        )
        reading += "better; 0 is the same distributions, 100\u00a0% no value in common."
        error = Panel(_numbers(report, measure), "distance of released values (log scale)")
        cell = "Each cell is the distance of a column's released values in a group, in per cent: total variation, or "
        cell += "for numbers the Wasserstein distance over the declared range; hatched where too few rows are."
    if averaged:
        yield _by_group(report, "served", measure, title, reading + order, error)
    about = report.about
    for each in report.findings:
        what = "Errors of means" if noisy else "Distances"
        title = f"{what} by column and group: {each.release.name}"
        columns = {about.titles[column]: of for column, of in each.errors.items()}
        table = table_by_group(report, title, columns, WRITTEN[measure], shaded=True)
        yield Exhibit(title, cell, None, (table,), "errors.csv")
    numbers = _numbers(report, "workload error")
    shown = [each for of in numbers.values() for each in of.values()]
    ends = [each.value if each.note or each.upper is None else each.upper for each in shown]
    limits = (0.0, 1.08 * max([end for end in ends if end is not None], default=1.0) or 1.0)
    overlap = Panel(numbers, "workload error (0 to 2)", False, shown=lambda x: f"{x:g}", limits=limits)
    title = "How far relations between columns are off"
    reading = "Each mark is a group's workload error over all marginals of three columns: 0 is best, 2 is no overlap."
    yield _by_group(report, "workload", "workload error", title, reading + _relations(report), overlap)


def _relations(report: Report) -> str:
    """Return one sentence about the measured relations for each release that has this information on its card."""
    words = report.about.titles
    return "".join(
        f" {each.name}: {relations_measured(each.relations, words)}." for each in report.releases if each.relations
    )


def _one_way(report: InternalReport) -> Iterator[Exhibit]:
    marginals = [audit.marginals for audit in report.audits]
    panels = [("One-way marginals of all rows", {k: each.columns for k, each in enumerate(marginals)})]
    for k, (release, each) in enumerate(zip(report.releases, marginals, strict=True)):
        group = f"the group that {release.name} serves worst: {report.about.names[each.group or ALL_ROWS]}"
        panels.append((f"One-way marginals of {group}", {k: each.in_group} if each.group else {}))
    releases = [each.name for each in report.releases]
    reading = (
        "Bars are the private rows' exact shares, marks the synthetic rows': a mark at the end of its bar is best."
    )
    for number, (title, sides) in enumerate(panels):
        if sides:
            columns = {column: {k: side[column] for k, side in sides.items()} for column in next(iter(sides.values()))}
            sections = {
                shorten(report.about.titles[column], LONGEST_WORDS): _shares(of, releases)
                for column, of in columns.items()
            }
            described = f"Bar charts of {len(columns)} columns; the shares are in marginals.csv."
            bars = "private rows (exact)"
            chart = Chart(f"marginals{number}", title, reading, described, sections, releases, bars)
            yield Exhibit(title, reading, chart, (), "marginals.csv")


def _shares(sides: Mapping[int, ColumnShares], releases: Sequence[str]) -> tuple[Mapping[str, str], tuple[Panel, ...]]:
    """Return the values of a column and a panel with their shares.

    Bars show the private shares, and marks show the released ones.
    """
    first = next(iter(sides.values()))
    words = {str(place): shorten(text, LONGEST_WORDS) for place, text in enumerate(first.words)}
    numbers = {
        name: {str(place): ReportedNumber(float(share)) for place, share in enumerate(sides[k].synthetic)}
        if k in sides
        else {}
        for k, name in enumerate(releases)
    }
    most = max(0.01, float(first.real.max()), *(float(each.synthetic.max()) for each in sides.values()))
    bars = {str(place): float(share) for place, share in enumerate(first.real)}
    return words, (Panel(numbers, log=False, limits=(0.0, min(1.0, 1.12 * most)), bars=bars),)


def _two_way(report: InternalReport) -> Iterator[Exhibit]:
    columns = report.about.titles
    for release, audit in zip(report.releases, report.audits, strict=True):
        ranked = sorted(audit.marginals.pairs.items(), key=lambda item: -item[1])
        if ranked:
            rows = tuple((" × ".join(columns[name] for name in of), ratio(error)) for of, error in ranked)
            caption = f"Two-way marginals, {release.name}: the L1 distance of each, from 0 to 2"
            yield _table(Table(caption, ("pair", "L1 distance"), rows), "pairs.csv")


def _classifier(report: Report) -> Iterator[Exhibit]:
    findings, column, positive = report.findings, report.audits[0].target, report.audits[0].positive
    if column:
        declared = report.about.strata.schema[column]
        positive = next((declared.words(key) for key in declared.keys if str(key) == positive), positive)
        title = report.about.titles.get(column, column)
        equal = "" if positive.startswith(">") else "= "
        what = title if positive == title else f"{title} {equal}{positive}"
        axis = "predicted over real number (log scale)"
        ratios = Panel(_numbers(report, "calibration"), axis, shown=lambda x: f"{x:g}", reference=1.0)
        reading = f"How many rows the classifier expects to have {what}, over how many have: "
        reading += "1 is right, above 1 promises too much."
        yield _by_group(report, "calibration", "calibration", "Calibration by group", reading, ratios)
        panels = [
            Panel(_numbers(report, quantity), above, False, limits=(0.0, 1.0), letters=LETTERS // 3)
            for quantity, (above, _) in RATE_PANELS.items()
        ]
        tables = tuple(
            table_by_group(
                report,
                f"Rates of the classifier, {found.release.name}",
                {heading: found.by_group[quantity] for quantity, (_, heading) in RATE_PANELS.items()},
                rate,
            )
            for found in findings
        )
        reading = f"Trained on synthetic rows to find {what}; tried on private rows. Rates of the groups should agree."
        title = "The classifier's rates by group"
        yield _by_group(report, "rates", "false negative rate", title, reading, *panels, tables=tables)


def _by_group(
    report: Report, name: str, quantity: str, title: str, reading: str, *panels: Panel, tables: tuple[Table, ...] = ()
) -> Exhibit:
    """Return a dot plot of the groups, with its table.

    The description names the group with the largest `quantity`.
    """
    numbers, called = _numbers(report, quantity), CALLED.get(quantity, quantity)
    largest = (
        f"{release}: the largest {called} is {largest_in_words(of, report.about.names, WRITTEN[quantity])}"
        for release, of in numbers.items()
    )
    seen = f"A dot plot of {len(report.about.groups)} groups. {'; '.join(largest)}."
    caption = f"{called.capitalize()} by group"
    tables = tables or (table_by_group(report, caption, numbers, WRITTEN[quantity]),)
    releases = [each.name for each in report.releases]
    level = f"{percent(report.audits[0].level)} interval" if isinstance(report, PublicReport) else ""
    marks = releases if len(releases) > 1 else ["estimate" if level else "exact number"]
    chart = Chart(name, title, reading, seen, {"": (_words(report), panels)}, marks, interval=level)
    return Exhibit(title, reading, chart, tables, "groups.csv")


def _table(table: Table, csv: str) -> Exhibit:
    return Exhibit(table.caption, "", None, (table,), csv)


def _numbers(report: Report, quantity: str) -> dict[str, Mapping[str, ReportedNumber]]:
    return {each.release.name: each.by_group[quantity] for each in report.findings}


def _words(report: Report) -> dict[str, str]:
    return {label: shorten(report.about.groups[label], LONGEST_WORDS) for label in report.order}
