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
from equistrata.eval.report.tables import CALLED, WRITTEN, Table, charges, published_means, table_by_group
from equistrata.eval.report.words import largest_in_words, percent, rate, ratio
from equistrata.eval.scores.tables import ALL_ROWS

LONGEST_WORDS = 42  # the largest number of characters of a group name in a figure
RATES = ("accuracy", "selection rate", "false negative rate")


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
    order = (
        " Groups that cannot be judged come first. The others are sorted by the lower ends of the intervals."
        if noisy
        else ""
    )
    measure, averaged = report.findings[0].measure, report.findings[0].averaged
    title = "Error of each group"
    if noisy:
        reading = "Each mark is the error of the means of a group, averaged over columns. Smaller errors are better."
        error = Panel(_numbers(report, measure), "error of the means (log scale)")
        cell = "Each cell is the relative error of the mean of a column's codes in a group. A cell is hatched if its "
        cell += (
            f"error may be larger than {percent(NOTABLE_ERROR)} and may be due to chance. The errors are shrunk toward "
        )
        cell += (
            f"the expected errors, so that only about one in {round(1 / CHANCE)} such maps has a dark cell by chance."
        )
    else:
        reading = (
            "Each mark is the distance between the released and the real values of a group, averaged over columns. "
        )
        reading += "0 means the same distributions, and 100\u00a0% means no values in common."
        error = Panel(_numbers(report, measure), "distance (log scale)")
        cell = "Each cell is the distance between the released and the real values of a column in a group. It is the "
        cell += "total variation distance, or for numbers the Wasserstein distance divided by the declared range. "
        cell += "A cell is hatched if the group has too few rows."
    if averaged:
        yield _by_group(report, "served", measure, title, reading + order, error)
    about = report.about
    for each in report.findings:
        what = "Errors of the means" if noisy else "Distances"
        title = f"{what} by column and group: {each.release.name}"
        columns = {about.titles[column]: of for column, of in each.errors.items()}
        table = table_by_group(report, title, columns, WRITTEN[measure], shaded=True)
        yield Exhibit(title, cell, None, (table,), "errors.csv")
    numbers = _numbers(report, "workload error")
    shown = [each for of in numbers.values() for each in of.values()]
    ends = [each.value if each.note or each.upper is None else each.upper for each in shown]
    limits = (0.0, 1.08 * max([end for end in ends if end is not None], default=1.0) or 1.0)
    overlap = Panel(numbers, "workload error (0 to 2)", False, shown=lambda x: f"{x:g}", limits=limits)
    title = "Errors of the relations between columns"
    reading = (
        "Each mark is the workload error of a group, which is the mean error of all tables of three columns. 0 means "
    )
    reading += "no error, and 2 means no combination of values in common."
    yield _by_group(report, "workload", "workload error", title, reading + _relations(report), overlap)


def _relations(report: Report) -> str:
    """Return one sentence about the measured relations for each release that has this information on its card."""
    words = report.about.titles
    return "".join(
        f" {each.name}: {relations_measured(each.relations, words)}." for each in report.releases if each.relations
    )


def _one_way(report: InternalReport) -> Iterator[Exhibit]:
    marginals = [audit.marginals for audit in report.audits]
    panels = [("Distributions of single columns: all rows", {k: each.columns for k, each in enumerate(marginals)})]
    for k, (release, each) in enumerate(zip(report.releases, marginals, strict=True)):
        group = report.about.names[each.group or ALL_ROWS]
        title = f"Distributions of single columns: {group}, for which {release.name} is least accurate"
        panels.append((title, {k: each.in_group} if each.group else {}))
    releases = [each.name for each in report.releases]
    reading = (
        "Bars are the exact shares in the private rows, and marks are the shares in the synthetic rows. A mark at the "
        "end of its bar has no error."
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
            caption = f"Errors of the pairs of columns, {release.name}: L1 distances, from 0 to 2"
            yield _table(Table(caption, ("pair of columns", "L1 distance"), rows), "pairs.csv")


def _classifier(report: Report) -> Iterator[Exhibit]:
    findings, column, positive = report.findings, report.audits[0].target, report.audits[0].positive
    if column:
        declared = report.about.strata.schema[column]
        positive = next((declared.words(key) for key in declared.keys if str(key) == positive), positive)
        title = report.about.titles.get(column, column)
        equal = "" if positive.startswith(">") else "= "
        what = title if positive == title else f"{title} {equal}{positive}"
        axis = "expected / real number (log scale)"
        ratios = Panel(_numbers(report, "calibration"), axis, shown=lambda x: f"{x:g}", reference=1.0)
        reading = f"The number of rows with {what} that the classifier expects, divided by the real number. 1 is best. "
        reading += "Above 1, the classifier expects too many."
        yield _by_group(report, "calibration", "calibration", "Calibration of the classifier by group", reading, ratios)
        panels = [
            Panel(_numbers(report, quantity), quantity, False, limits=(0.0, 1.0), letters=LETTERS // 3)
            for quantity in RATES
        ]
        tables = tuple(
            table_by_group(
                report,
                f"Rates of the classifier, {found.release.name}",
                {quantity: found.by_group[quantity] for quantity in RATES},
                rate,
            )
            for found in findings
        )
        reading = (
            f"The classifier was trained on the synthetic rows to predict {what}, and was applied to the private rows. "
        )
        reading += "The rates should be similar in all groups."
        title = "Rates of the classifier by group"
        yield _by_group(report, "rates", "false negative rate", title, reading, *panels, tables=tables)


def _by_group(
    report: Report, name: str, quantity: str, title: str, reading: str, *panels: Panel, tables: tuple[Table, ...] = ()
) -> Exhibit:
    """Return a dot plot of the groups, with its table.

    The description names the group with the largest `quantity`.
    """
    numbers, called = _numbers(report, quantity), CALLED.get(quantity, quantity)
    largest = (
        f"{release}, group with the largest {called}: {largest_in_words(of, report.about.names, WRITTEN[quantity])}"
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
