"""The report's tables: as shown under its figures, and as CSV with all digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equistrata.eval.report.findings import Findings, Shown
from equistrata.eval.report.phrases import count, interval, percent, power, rate, ratio
from equistrata.eval.report.report import EVERYBODY, About, BudgetHistory, InternalReport, PublicReport, Report
from equistrata.eval.scores.tables import ALL_ROWS

Cell = str | float | int | None
WRITTEN: Mapping[str, Callable[[float], str]] = {  # everything by group, and how its numbers are written
    "error of means": percent,
    "workload error": ratio,
    "calibration": ratio,
    "accuracy": rate,
    "selection rate": rate,
    "false negative rate": rate,
    "rows": count,
}


@dataclass(frozen=True)
class Table:
    """A table for people: a caption, headings, and rows whose first cell names them."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def quantities(found: Findings) -> dict[str, Mapping[str, Shown]]:
    """Everything by group, under the names of `WRITTEN`."""
    numbers = (
        found.served, found.workload, found.calibration, found.accuracy, found.selection_rate,
        found.false_negative_rate, found.sizes,
    )  # fmt: skip
    return dict(zip(WRITTEN, numbers, strict=True))


def summary(report: Report) -> Table:
    """The releases side by side, a row for each number that sums one up."""
    rows = [
        ("mechanism", [each.mechanism for each in report.releases]),
        ("strata", [" × ".join(each.strata) or "none" for each in report.releases]),
        ("ε, δ", [f"{power(each.epsilon)}, {power(each.delta)}" for each in report.releases]),
        ("synthetic people", [f"{each.rows:,}" for each in report.releases]),
        ("worst group", [_worst(each, report) for each in report.findings]),
    ]
    for name in ("error of means", "workload error", "accuracy", "calibration"):
        found = [quantities(each)[name].get(ALL_ROWS) for each in report.findings]
        if all(found):
            rows.append((f"{name}, everybody", [interval(each, WRITTEN[name]) for each in found if each]))
    if isinstance(report, InternalReport):
        rows += [
            ("parity error", [ratio(each.scores.parity_error) for each in report.audits]),
            ("maximum disparity", [ratio(each.scores.maximum_disparity) for each in report.audits]),
            ("workload error, mean of groups", [ratio(each.scores.workload3_by_stratum) for each in report.audits]),
        ]
        fairness = [each.fairness for each in report.audits]
        if all(fairness):
            rows.append(("demographic parity ratio", [ratio(each.dpr) for each in fairness if each]))
            rows.append(("false negative rate difference", [ratio(each.fnr_diff) for each in fairness if each]))
    names = tuple(each.name for each in report.releases)
    return Table("The releases in numbers", ("", *names), tuple((name, *cells) for name, cells in rows))


def by_group(report: Report, labels: Sequence[str], name: str, caption: str) -> Table:
    """One quantity of every group, a column for each release."""
    write = WRITTEN[name]
    found = [quantities(each)[name] for each in report.findings]
    lines = _with_whole(labels) if any(ALL_ROWS in each for each in found) else list(labels)
    return Table(
        caption,
        ("group", *(each.name for each in report.releases)),
        tuple((report.about.name_of(label), *(_text(each.get(label), write) for each in found)) for label in lines),
    )


def errors_of(found: Findings, about: About, labels: Sequence[str]) -> Table:
    """The errors of one release: groups by columns."""
    return Table(
        f"Errors of means, {found.release.name}",
        ("group", *found.errors),
        tuple(
            (about.name_of(label), *(_text(of.get(label), percent, short=True) for of in found.errors.values()))
            for label in _with_whole(labels)
        ),
    )


def rates_of(found: Findings, about: About, labels: Sequence[str]) -> Table:
    """The rates of one release's classifier."""
    rates = {"accuracy": found.accuracy, "selected": found.selection_rate, "missed": found.false_negative_rate}
    return Table(
        f"Rates of the classifier, {found.release.name}",
        ("group", *rates),
        tuple(
            (about.name_of(label), *(_text(of.get(label), rate) for of in rates.values()))
            for label in _with_whole(labels)
        ),
    )


def published_means(report: InternalReport) -> list[Table]:
    """The means that came with each release, beside the exact ones."""
    tables = []
    for release, audit in zip(report.releases, report.audits, strict=True):
        rows = tuple(
            (
                f"{column}: {report.about.name_of(label)}",
                "–" if mean.value is None else f"{mean.value:,.5g}",
                f"{mean.lower:,.5g} to {mean.upper:,.5g}",
                "–" if mean.exact is None else f"{mean.exact:,.5g}",
                "–" if mean.relative_error is None else percent(mean.relative_error),
                "yes" if mean.covered else "no",
            )
            for column, means in audit.means.items()
            for label, mean in means.items()
        )
        if rows:
            headings = ("mean", "published", "interval", "exact", "error", "within")
            tables.append(Table(f"Published means against exact ones, {release.name}", headings, rows))
    return tables


def of_budget(history: BudgetHistory) -> Table:
    """The charges of an account."""
    return Table(
        f"Charges to the budget of {history.dataset} (ρ = {history.rho:.4g} in all)",
        ("when (UTC)", "charge", "ρ", "ρ spent", "outcome"),
        tuple(
            (each.at[:16].replace("T", " "), each.release, f"{each.rho:.4g}", f"{each.spent:.4g}", each.outcome)
            for each in history.charges
        ),
    )


def _with_whole(labels: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([ALL_ROWS, *labels]))


def csv_files(report: Report) -> dict[str, str]:
    """File name → CSV: one row for each number, with all its digits."""
    groups = [
        (each.release.name, quantity, label, report.about.groups.get(label, EVERYBODY), *_cells(shown))
        for each in report.findings
        for quantity, numbers in quantities(each).items()
        for label, shown in numbers.items()
    ]
    errors = [
        (each.release.name, column, label, report.about.groups.get(label, EVERYBODY), *_cells(shown))
        for each in report.findings
        for column, of in each.errors.items()
        for label, shown in of.items()
    ]
    ends = ("value", "lower", "upper", "note")
    files = {
        "groups.csv": _csv(("release", "quantity", "group", "words", *ends), groups),
        "errors.csv": _csv(("release", "column", "group", "words", *ends), errors),
    }
    files |= _public_files(report) if isinstance(report, PublicReport) else _internal_files(report)
    if report.history is not None:
        charges = [(c.at, c.release, c.rho, c.spent, c.outcome) for c in report.history.charges]
        files["budget.csv"] = _csv(("at", "charge", "rho", "spent", "outcome"), charges)
    return files


def _worst(found: Findings, report: Report) -> str:
    told = [label for label in found.ranking if label not in found.untold]
    return f"{report.about.name_of(told[0])}: {interval(found.served[told[0]], percent)}" if told else "not told"


def _public_files(report: PublicReport) -> dict[str, str]:
    means = [
        (release.name, column, label, made.means[column][label], mean.value, mean.lower, _finite(mean.upper), mean.note)
        for release, audit, made in zip(report.releases, report.audits, report.synthetic, strict=True)
        for column, of in audit.means.items()
        for label, mean in of.items()
    ]
    sums = [
        (release.name, section, label, name, number.value, number.lower, _finite(number.upper))
        for release, audit in zip(report.releases, report.audits, strict=True)
        for section, measured in audit.measurements.items()
        for label, numbers in measured.items()
        for name, number in numbers.items()
    ]
    headings = ("release", "column", "group", "synthetic", "private", "lower", "upper", "note")
    return {
        "means.csv": _csv(headings, means),
        "measurements.csv": _csv(("release", "section", "group", "sum", "value", "lower", "upper"), sums),
    }


def _internal_files(report: InternalReport) -> dict[str, str]:
    means = [
        (release.name, column, label, mean.value, mean.lower, _finite(mean.upper), mean.exact, mean.relative_error)
        for release, audit in zip(report.releases, report.audits, strict=True)
        for column, of in audit.means.items()
        for label, mean in of.items()
    ]
    marginals = [
        (release.name, group, column, word, a, b)
        for release, each in zip(report.releases, report.marginals, strict=True)
        for group, columns in ((ALL_ROWS, each.columns), (each.group, each.in_group))
        for column, (words, real, made) in columns.items()
        for word, a, b in zip(words, real.tolist(), made.tolist(), strict=True)
    ]
    pairs = [
        (release.name, *pair, error)
        for release, each in zip(report.releases, report.marginals, strict=True)
        for pair, error in each.pairs.items()
    ]
    files = {
        "marginals.csv": _csv(("release", "group", "column", "value", "private", "synthetic"), marginals),
        "pairs.csv": _csv(("release", "one", "other", "distance"), pairs),
    }
    if means:
        headings = ("release", "column", "group", "published", "lower", "upper", "exact", "relative_error")
        files["means.csv"] = _csv(headings, means)
    return files


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return text.getvalue()


def _cells(shown: Shown) -> tuple[Cell, ...]:
    return shown.value, shown.lower, _finite(shown.upper), shown.note


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None


def _text(shown: Shown | None, write: Any, *, short: bool = False) -> str:
    if shown is None:
        return "left out"
    text = ("–" if shown.value is None else write(shown.value)) if short else interval(shown, write)
    return f"{text} [{shown.note}]" if shown.note and not short else f"{text} ?" if shown.note else text
