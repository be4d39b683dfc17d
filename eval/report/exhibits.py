"""Which figures a report has, and the tables under them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from equistrata.eval.report.heat_maps import HeatMap, PairMap, PairTables
from equistrata.eval.report.pictures import Picture, shorten
from equistrata.eval.report.plots import AccuracyPlot, BudgetPlot, DotPlot, Dots, ShareBars
from equistrata.eval.report.report import BudgetHistory, InternalReport, PublicReport, Report
from equistrata.eval.report.tables import Table
from equistrata.eval.scores.tables import ALL_ROWS

LONGEST_WORDS = 42  # characters of a group's name in a figure
RATE_PANELS = (("accuracy", "right"), ("selection_rate", "selected"), ("false_negative_rate", "positive, missed"))


@dataclass(frozen=True)
class Exhibit:
    """A figure (None for tables alone), its tables, and the CSV file that holds its numbers."""

    picture: Picture | None
    tables: tuple[Table, ...]
    csv: str

    @property
    def title(self) -> str:
        """Of the figure, else of its table."""
        return self.picture.title if self.picture is not None else self.tables[0].caption


def exhibits(report: Report, tables: Mapping[str, tuple[Table, ...]], said: Mapping[str, str]) -> list[Exhibit]:
    """Every figure of a report, in order; not drawn yet.

    Args:
        tables: as `equistrata.eval.report.tables.figure_tables` makes them.
        said: as `equistrata.eval.report.words.descriptions` puts it.
    """
    words = {label: shorten(report.about.groups[label], LONGEST_WORDS) for label in report.order}
    pictures: list[tuple[Picture, str]] = list(_errors(report, words, said))
    alone: list[Exhibit] = []
    if isinstance(report, InternalReport):
        pictures += [*((each, "marginals.csv") for each in _one_way(report))]
        pictures += [*((each, "pairs.csv") for each in _two_way(report, said))]
        alone = [Exhibit(None, (table,), "means.csv") for table in tables["means"]]
    of_rows = len(pictures)
    pictures += [(each, "groups.csv") for each in _classifier(report, words, said)]
    if report.history is not None:
        pictures.append((_budget(report.history, said), "budget.csv"))
    drawn = [Exhibit(picture, tables.get(picture.name, ()), csv) for picture, csv in pictures]
    return [*drawn[:of_rows], *alone, *drawn[of_rows:]]


def _errors(report: Report, words: Mapping[str, str], said: Mapping[str, str]) -> Iterator[tuple[Picture, str]]:
    noisy = isinstance(report, PublicReport)
    interval = " The line is the interval; a hollow mark on a dotted line is below the noise floor." if noisy else ""
    served = Dots({each.release.name: each.served for each in report.findings}, "error of the means (log scale)")
    title = "How well each group is served"
    reading = "Each mark is the error of a group's means, averaged over the columns: the further left, the better."
    yield DotPlot("served", title, reading + interval, said["served"], [served], words), "groups.csv"
    hatched = "where it is below the noise floor" if noisy else "where too few people are"
    for number, each in enumerate(report.findings, start=1):
        name, title = f"errors{number}", f"Errors by column and group: {each.release.name}"
        reading = f"Each cell is the relative error of a column's mean in a group, in per cent; hatched {hatched}."
        yield HeatMap(name, title, reading, said[name], each.errors, words), "errors.csv"
    numbers, limits = {each.release.name: each.workload for each in report.findings}, (0.0, _workload_limit(report))
    workload = Dots(numbers, "workload error (0 to 2)", "linear", shown=lambda x: f"{x:g}", limits=limits)
    title = "How well relations between columns are kept"
    reading = "Each mark is a group's workload error over all marginals of three columns: 0 is best, 2 is no overlap."
    yield DotPlot("workload", title, reading + interval, said["workload"], [workload], words), "groups.csv"


def _one_way(report: InternalReport) -> Iterator[Picture]:
    """Shares of each value: over all rows for all releases, and in the group that each release serves worst."""
    marginals = [audit.marginals for audit in report.audits]
    shown = [("marginals0", "One-way marginals of all rows", {k: each.columns for k, each in enumerate(marginals)})]
    for k, (release, each) in enumerate(zip(report.releases, marginals, strict=True)):
        if each.group:
            group = report.about.names[each.group]
            title = f"One-way marginals of the group that {release.name} serves worst: {group}"
            shown.append((f"marginals{k + 1}", title, {k: each.in_group}))
    releases = [each.name for each in report.releases]
    titles = {name: words if words == name else f"{words} ({name})" for name, words in report.about.columns.items()}
    reading = (
        "Bars are the private rows' exact shares, marks the synthetic rows': a mark at the end of its bar is best."
    )
    for name, title, sides in shown:
        columns = {column: {k: side[column] for k, side in sides.items()} for column in next(iter(sides.values()))}
        description = f"Bar charts of {len(columns)} columns; the shares are in marginals.csv."
        yield ShareBars(name, title, reading, description, columns, releases, titles)


def _two_way(report: InternalReport, said: Mapping[str, str]) -> Iterator[Picture]:
    """For each release, the distances of all pairs of columns, and the pair with the largest."""
    what = "Each cell is the L1 distance between the private and the synthetic marginal of two columns"
    distance, share = f"{what}: 0 is best, 2 is no overlap.", "Each cell is the share of people, in per cent."
    names = list(report.about.columns)
    for number, (release, audit) in enumerate(zip(report.releases, report.audits, strict=True), start=1):
        each, name = audit.marginals, f"pairs{number}"
        if each.worst is None or each.real is None or each.synthetic is None:
            continue
        yield PairMap(name, f"Two-way marginals: {release.name}", distance, said[name], each.pairs, names)
        name = f"pair{number}"
        title = " × ".join(report.about.columns[column] for column in each.worst)
        title = f"The pair that {release.name} keeps worst: {title}"
        words = (each.columns[each.worst[0]].words, each.columns[each.worst[1]].words)
        tables = {"private rows (exact)": each.real, "synthetic rows": each.synthetic}
        yield PairTables(name, title, share, said[name], each.worst, words, tables)


def _classifier(report: Report, words: Mapping[str, str], said: Mapping[str, str]) -> Iterator[Picture]:
    findings, column, positive = report.findings, report.audits[0].target, report.audits[0].positive
    if column:
        what, name = f"{report.about.columns.get(column, column)} = {positive}", "calibration"
        numbers, axis = (
            {each.release.name: each.calibration for each in findings},
            "predicted over real number (log scale)",
        )
        calibration = Dots(numbers, axis, shown=lambda x: f"{x:g}", reference=1.0)
        reading = f"How many people the classifier expects to have {what}, over how many have: "
        reading += "1 is right, above 1 promises too much."
        yield DotPlot(name, "Calibration by group", reading, said[name], [calibration], words)
        rates = [
            Dots({f.release.name: getattr(f, name) for f in findings}, axis, "linear", limits=(0.0, 1.0), ticks=2)
            for name, axis in RATE_PANELS
        ]
        reading = f"Trained on synthetic rows to find {what}; tried on private rows. Rates of the groups should agree."
        yield DotPlot("rates", "The classifier's rates by group", reading, said["rates"], rates, words)
    if len(findings) > 1 and all(ALL_ROWS in each.accuracy for each in findings):
        points = {each.release.name: (each.release.epsilon, each.accuracy[ALL_ROWS]) for each in findings}
        reading = (
            "The share of real people that each release's classifier predicts right, against the price of the release. "
            "Releases of one price are drawn side by side."
        )
        yield AccuracyPlot("accuracy", "Accuracy against ε", reading, said["accuracy"], points)


def _budget(history: BudgetHistory, said: Mapping[str, str]) -> Picture:
    title = f"The budget of {history.dataset} over time"
    spent = f"What all charges have spent of the lifetime budget, ε = {history.epsilon:g} at δ = {history.delta:g}."
    moments = [datetime.fromisoformat(at) for at in (history.opened, *(each.at for each in history.charges))]
    sums = [0.0, *(each.spent for each in history.charges)]
    mine = [False, *(each.release in history.mine for each in history.charges)]
    return BudgetPlot("budget", title, spent, said["budget"], moments, sums, history.rho, mine)


def _workload_limit(report: Report) -> float:
    """Where the axis of workload errors ends: just after the largest end or value that is above the noise floor."""
    ends: Sequence[float | None] = [
        shown.upper if shown.upper is not None and not shown.note else shown.value
        for each in report.findings
        for shown in each.workload.values()
    ]
    return 1.08 * max((end for end in ends if end is not None), default=1.0)
