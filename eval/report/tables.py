"""The tables of a report, which are shown below the figures and written as CSV files with all digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from equistrata.eval.report.charts import shade
from equistrata.eval.report.findings import DISTANCE, ERROR_OF_MEANS, NO_ORDER, Findings
from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.report import EVERYBODY, BudgetHistory, InternalReport, Report
from equistrata.eval.report.words import count, interval, largest_in_words, percent, price, rate, ratio
from equistrata.eval.scores.tables import ALL_ROWS

Writer = Callable[[float], str]
WRITTEN: Mapping[str, Writer] = {  # the function that formats each quantity
    DISTANCE: percent,
    ERROR_OF_MEANS: percent,
    "workload error": ratio,
    "calibration": ratio,
    "accuracy": rate,
    "selection rate": rate,
    "false negative rate": rate,
    "rows": count,
}
CALLED = {ERROR_OF_MEANS: "error of the means", "calibration": "calibration ratio"}  # the names that readers see
WEIGHTED = {
    "weighted_parity_error": "parity error, weighted by people",
    "weighted_workload3": "workload error, weighted by people",
}
ENDS = ("value", "lower", "upper")
_ends = attrgetter(*ENDS)


@dataclass(frozen=True)
class Table:
    """A table with a caption and headings. The first cell of each row is a name.

    Attributes
    ----------
    caption : str
        The caption.
    headings : tuple of str
        The headings of the columns.
    rows : tuple of tuple of str
        The cells of each row.
    shades : tuple of tuple of str
        The CSS classes of the cells of each row, except the first, by their errors (see
        `equistrata.eval.report.charts.shade`). Empty if the table is not shaded.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[str, ...], ...] = ()


def summary(report: Report) -> Table:
    """Return a table that compares the releases, with one row for each summary number."""
    rows: dict[str, list[str]] = {
        "mechanism": [each.mechanism for each in report.releases],
        "strata": [
            " × ".join(report.about.titles.get(name, name) for name in each.strata) or "none"
            for each in report.releases
        ],
        "ε, δ": [f"{price(each.epsilon)}, {price(each.delta)}" for each in report.releases],
        "synthetic rows": [count(each.rows) for each in report.releases],
    }
    if people := [each.people for each in report.releases if each.people is not None]:
        rows["people (sum of weights)"] = [count(each.total) for each in people]
    rows["group with the largest error"] = [_worst_group(each, report) for each in report.findings]
    found = [each.by_group for each in report.findings]
    for name in (report.findings[0].measure, "workload error", "accuracy", "calibration"):
        if all(ALL_ROWS in each[name] for each in found):
            rows[f"{CALLED.get(name, name)}, all rows"] = [
                interval(each[name][ALL_ROWS], WRITTEN[name]) for each in found
            ]
    if isinstance(report, InternalReport):
        scores, fairness = [each.scores for each in report.audits], [each.fairness for each in report.audits]
        rows["parity distance"] = [ratio(each.parity_distance or 0.0) for each in scores]
        rows["workload error, mean of groups"] = [ratio(each.workload3_by_stratum) for each in scores]
        if None not in fairness:
            rows["demographic parity ratio"] = [ratio(each.dpr) for each in fairness if each]
            rows["false negative rate difference"] = [ratio(each.fnr_diff) for each in fairness if each]
        rows["parity error (computed from codes)"] = [ratio(each.parity_error) for each in scores]
        for name, words in WEIGHTED.items() if people else ():
            rows[words] = ["–" if (of := getattr(each, name)) is None else ratio(of) for each in scores]
        rows["maximum disparity (computed from codes)"] = [ratio(each.maximum_disparity) for each in scores]
    names = [each.name for each in report.releases]
    return Table("The releases in numbers", ("", *names), tuple((name, *cells) for name, cells in rows.items()))


def _worst_group(found: Findings, report: Report) -> str:
    return largest_in_words(found.served, report.about.names, WRITTEN[found.measure]) if found.averaged else NO_ORDER


def table_by_group(
    report: Report,
    caption: str,
    columns: Mapping[str, Mapping[str, ReportedNumber]],
    write: Writer,
    *,
    shaded: bool = False,
) -> Table:
    """Return a table with one row for each group, and one row for all rows if there is a number for them.

    If `shaded` is True, the cells are shaded by their errors and have no intervals.
    """

    def cell(shown: ReportedNumber | None) -> str:
        if shown is None:
            return "not computed"
        if shaded:
            text = "–" if shown.value is None else write(shown.value)
            return f"{text} ?" if shown.note else text
        text = interval(shown, write)
        return f"{text} [{shown.note}]" if shown.note else text

    whole = [ALL_ROWS] if any(ALL_ROWS in of for of in columns.values()) else []
    labels = dict.fromkeys([*whole, *report.order])
    rows = [(report.about.names[label], *(cell(of.get(label)) for of in columns.values())) for label in labels]
    cells = [[of.get(label) for of in columns.values()] for label in labels if shaded]
    shades = (tuple(shade(None if s is None or s.note else s.value) for s in of) for of in cells)
    return Table(caption, ("group", *columns), tuple(rows), tuple(shades))


def published_means(report: InternalReport) -> Iterator[Table]:
    """Yield one table for each release with the published means and the exact ones."""
    headings = ("mean", "published", "interval", "exact", "relative error", "exact is in the interval")
    for release, audit in zip(report.releases, report.audits, strict=True):
        several = len({column.partition(" ")[2] for column in audit.means}) > 1
        rows = tuple(
            (
                f"{_mean_of(column, report, several)}: {report.about.names[label]}",
                "–" if mean.value is None else f"{mean.value:,.5g}",
                f"{mean.lower:,.5g} to {mean.upper:,.5g}",
                "–" if mean.exact is None else f"{mean.exact:,.5g}",
                "–" if mean.relative_error is None else percent(mean.relative_error),
                "–" if mean.exact is None else "yes" if mean.covered else "no",
            )
            for (column, label), mean in _leaves(audit.means)
        )
        if rows:
            sampled = f" (of a random {percent(1 - release.held_out)} of the rows)" if release.held_out else ""
            yield Table(f"Published means{sampled} and exact means, {release.name}", headings, rows)


def _mean_of(name: str, report: Report, several: bool) -> str:
    """Return the name of a mean in words. The name of the estimator is added if there are several estimators."""
    column, blank, estimator = name.partition(" ")
    words = report.about.titles.get(column) or report.about.called.get(column, column)
    return f"{words}{blank}{estimator}" if several else words


def charges(history: BudgetHistory) -> Table:
    """Return a table with every charge to the account, in order."""
    return Table(
        f"Charges to the privacy budget of {history.dataset} (total budget: ρ = {history.rho:.4g})",
        ("time (UTC)", "charge", "ρ", "total ρ spent", "outcome"),
        tuple(
            (each.at[:16].replace("T", " "), each.release, f"{each.rho:.4g}", f"{each.spent:.4g}", each.outcome)
            for each in history.charges
        ),
    )


def csv_files(report: Report) -> dict[str, str]:
    """Return the name and the text of each CSV file. The files have one row for each number, with all of its digits."""
    names = [each.name for each in report.releases]
    found = dict(zip(names, report.findings, strict=True))
    audits: dict[str, Any] = dict(zip(names, report.audits, strict=True))

    def by_group(what: str, numbers: Mapping[str, Mapping[str, Mapping[str, ReportedNumber]]]) -> str:
        words = report.about.groups
        rows = [(*keys, words.get(keys[-1], EVERYBODY), *_ends(shown), shown.note) for keys, shown in _leaves(numbers)]
        return _csv(("release", what, "group", "words", *ENDS, "note"), rows)

    files = {
        "groups.csv": by_group("quantity", {name: each.by_group for name, each in found.items()}),
        "errors.csv": by_group("column", {name: each.errors for name, each in found.items()}),
    }
    means = list(_leaves({name: audit.means for name, audit in audits.items()}))
    if isinstance(report, InternalReport):
        exact = [(*keys, *_ends(mean), mean.exact, mean.relative_error) for keys, mean in means]
        shares = {
            name: {ALL_ROWS: of.columns, of.group: of.in_group}
            for name, of in ((name, audit.marginals) for name, audit in audits.items())
        }
        marginals = [
            (*keys, *row)
            for keys, of in _leaves(shares)
            for row in zip(of.words, of.real.tolist(), of.synthetic.tolist(), strict=True)
        ]
        pairs = [(name, *pair, error) for name, of in audits.items() for pair, error in of.marginals.pairs.items()]
        files["marginals.csv"] = _csv(("release", "group", "column", "value", "private", "synthetic"), marginals)
        files["pairs.csv"] = _csv(("release", "one", "other", "distance"), pairs)
        if exact:
            headings = ("release", "column", "group", "published", "lower", "upper", "exact", "relative_error")
            files["means.csv"] = _csv(headings, exact)
    else:
        made = dict(_leaves({name: audit.synthetic.means for name, audit in audits.items()}))
        noisy = [(*keys, made[keys], *_ends(mean), mean.note) for keys, mean in means]
        files["means.csv"] = _csv(("release", "column", "group", "synthetic", "private", *ENDS[1:], "note"), noisy)
        measured = _leaves({name: audit.measurements for name, audit in audits.items()})
        sums = [(*keys, *_ends(number)) for keys, number in measured]
        files["measurements.csv"] = _csv(("release", "section", "group", "sum", *ENDS), sums)
    if report.history is not None:
        lines = [(each.at, each.release, each.rho, each.spent, each.outcome) for each in report.history.charges]
        files["budget.csv"] = _csv(("at", "charge", "rho", "spent", "outcome"), lines)
    return files


def _leaves(tree: Any, *keys: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for key, branch in tree.items():
            yield from _leaves(branch, *keys, key)
    else:
        yield keys, tree


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return the rows as CSV text. None and infinite ends of intervals are empty cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([[None if cell == math.inf else cell for cell in row] for row in rows])
    return text.getvalue()
