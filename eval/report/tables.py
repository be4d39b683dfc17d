"""The report's tables: under its figures, and as CSV with all digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from equistrata.eval.report.findings import Findings, Shown
from equistrata.eval.report.report import EVERYBODY, BudgetHistory, InternalReport, PublicReport, Report
from equistrata.eval.report.words import count, interval, percent, price, rate, ratio
from equistrata.eval.scores.tables import ALL_ROWS

Digits = str | float | int | None
Writer = Callable[[float], str]
WRITTEN: Mapping[str, Writer] = {  # numbers by group, and how they are written
    "error of means": percent,
    "workload error": ratio,
    "calibration": ratio,
    "accuracy": rate,
    "selection rate": rate,
    "false negative rate": rate,
    "rows": count,
}


@dataclass(frozen=True)
class TableCell:
    """A number in a table: written with its interval when the page is, and marked `?` where it has a note."""

    shown: Shown | None
    write: Writer
    short: bool = False  # without interval and note

    def __str__(self) -> str:
        if self.shown is None:
            return "left out"
        if self.short:
            text = "–" if self.shown.value is None else self.write(self.shown.value)
            return f"{text} ?" if self.shown.note else text
        text = interval(self.shown, self.write)
        return f"{text} [{self.shown.note}]" if self.shown.note else text


@dataclass(frozen=True)
class Table:
    """A table for people: a caption, headings, and rows with a name in their first cell."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str | TableCell, ...], ...]


def quantities(found: Findings) -> dict[str, Mapping[str, Shown]]:
    """All numbers by group, under the names of `WRITTEN`."""
    numbers = (
        found.served, found.workload, found.calibration, found.accuracy, found.selection_rate,
        found.false_negative_rate, found.sizes,
    )  # fmt: skip
    return dict(zip(WRITTEN, numbers, strict=True))


def summary(report: Report) -> Table:
    """The releases side by side, a row for each number that sums one up."""
    rows: list[tuple[str, list[str | TableCell]]] = [
        ("mechanism", [each.mechanism for each in report.releases]),
        ("strata", [" × ".join(each.strata) or "none" for each in report.releases]),
        ("ε, δ", [f"{price(each.epsilon)}, {price(each.delta)}" for each in report.releases]),
        ("synthetic people", [f"{each.rows:,}" for each in report.releases]),
        ("worst group", [_worst_group(each, report) for each in report.findings]),
    ]
    found = [quantities(each) for each in report.findings]
    for name in ("error of means", "workload error", "accuracy", "calibration"):
        if all(ALL_ROWS in each[name] for each in found):
            whole = [TableCell(replace(each[name][ALL_ROWS], note=""), WRITTEN[name]) for each in found]
            rows.append((f"{name}, everybody", [*whole]))
    if isinstance(report, InternalReport):
        scores, fairness = [each.scores for each in report.audits], [each.fairness for each in report.audits]
        exact: dict[str, list[float]] = {
            "parity error": [each.parity_error for each in scores],
            "maximum disparity": [each.maximum_disparity for each in scores],
            "workload error, mean of groups": [each.workload3_by_stratum for each in scores],
        }
        if None not in fairness:
            exact["demographic parity ratio"] = [each.dpr for each in fairness if each]
            exact["false negative rate difference"] = [each.fnr_diff for each in fairness if each]
        rows += [(name, [TableCell(Shown(value), ratio) for value in values]) for name, values in exact.items()]
    names = tuple(each.name for each in report.releases)
    return Table("The releases in numbers", ("", *names), tuple((name, *cells) for name, cells in rows))


def figure_tables(report: Report) -> dict[str, tuple[Table, ...]]:
    """The name of a figure → its tables; "means" are the published ones, without a figure."""
    labels = report.order
    found: dict[str, tuple[Table, ...]] = {
        "served": (_by_group(report, labels, "error of means", "Error of the means by group"),),
        "workload": (_by_group(report, labels, "workload error", "Workload error by group"),),
        "calibration": (_by_group(report, labels, "calibration", "Calibration ratio by group"),),
        "accuracy": (_by_group(report, (), "accuracy", "Accuracy over everybody"),),
        "rates": (),
    }
    for number, each in enumerate(report.findings, start=1):
        of, rates = each.release.name, {"accuracy": each.accuracy, "selected": each.selection_rate}
        rates["missed"] = each.false_negative_rate
        found[f"errors{number}"] = (_of_release(report, f"Errors of means, {of}", each.errors, percent, short=True),)
        found["rates"] += (_of_release(report, f"Rates of the classifier, {of}", rates, rate),)
    if isinstance(report, InternalReport):
        for number, (release, audit) in enumerate(zip(report.releases, report.audits, strict=True), start=1):
            ranked = sorted(audit.marginals.pairs.items(), key=lambda item: -item[1])
            rows = tuple((" × ".join(pair), TableCell(Shown(error), ratio)) for pair, error in ranked)
            found[f"pairs{number}"] = (Table(f"Two-way marginals, {release.name}", ("pair", "L1 distance"), rows),)
        found["means"] = _published(report)
    if report.history is not None:
        found["budget"] = (_charges(report.history),)
    return found


def _by_group(report: Report, labels: Sequence[str], name: str, caption: str) -> Table:
    """One quantity of every group, a column for each release."""
    found = [quantities(each)[name] for each in report.findings]
    lines = [ALL_ROWS, *labels] if any(ALL_ROWS in each for each in found) else labels
    columns = {each.name: numbers for each, numbers in zip(report.releases, found, strict=True)}
    return _group_table(report, caption, columns, WRITTEN[name], lines)


def _of_release(
    report: Report, caption: str, numbers: Mapping[str, Mapping[str, Shown]], write: Writer, *, short: bool = False
) -> Table:
    """Several numbers of every group and of everybody, a column for each."""
    return _group_table(report, caption, numbers, write, [ALL_ROWS, *report.order], short=short)


def _group_table(
    report: Report,
    caption: str,
    columns: Mapping[str, Mapping[str, Shown]],
    write: Writer,
    labels: Sequence[str],
    *,
    short: bool = False,
) -> Table:
    rows: tuple[tuple[str | TableCell, ...], ...] = tuple(
        (report.about.names[label], *(TableCell(of.get(label), write, short) for of in columns.values()))
        for label in dict.fromkeys(labels)
    )
    return Table(caption, ("group", *columns), rows)


def _published(report: InternalReport) -> tuple[Table, ...]:
    """The means that came with each release, and the exact ones."""
    tables = []
    for release, audit in zip(report.releases, report.audits, strict=True):
        rows = tuple(
            (
                f"{column}: {report.about.names[label]}",
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
    return tuple(tables)


def _charges(history: BudgetHistory) -> Table:
    """The charges of an account."""
    return Table(
        f"Charges to the budget of {history.dataset} (ρ = {history.rho:.4g} in all)",
        ("when (UTC)", "charge", "ρ", "ρ spent", "outcome"),
        tuple(
            (each.at[:16].replace("T", " "), each.release, f"{each.rho:.4g}", f"{each.spent:.4g}", each.outcome)
            for each in history.charges
        ),
    )


def _worst_group(found: Findings, report: Report) -> str:
    if not found.judged:
        return "below the noise floor"
    worst = found.judged[0]
    return f"{report.about.names[worst]}: {TableCell(found.served[worst], percent)}"


def csv_files(report: Report) -> dict[str, str]:
    """File name → CSV: one row for each number, with all its digits."""

    def by_group(what: str, numbers: Callable[[Findings], Mapping[str, Mapping[str, Shown]]]) -> str:
        rows = [
            (each.release.name, name, label, report.about.groups.get(label, EVERYBODY), *_cells(shown))
            for each in report.findings
            for name, of in numbers(each).items()
            for label, shown in of.items()
        ]
        return _csv(("release", what, "group", "words", "value", "lower", "upper", "note"), rows)

    files = {
        "groups.csv": by_group("quantity", quantities),
        "errors.csv": by_group("column", lambda found: found.errors),
    }
    files |= _public_files(report) if isinstance(report, PublicReport) else _internal_files(report)
    if report.history is not None:
        charges = [(c.at, c.release, c.rho, c.spent, c.outcome) for c in report.history.charges]
        files["budget.csv"] = _csv(("at", "charge", "rho", "spent", "outcome"), charges)
    return files


def _public_files(report: PublicReport) -> dict[str, str]:
    audits = [(release.name, audit) for release, audit in zip(report.releases, report.audits, strict=True)]
    means = [
        (release, column, label, audit.synthetic.means[column][label], *_cells(Shown.of(mean)))
        for release, audit in audits
        for column, of in audit.means.items()
        for label, mean in of.items()
    ]
    sums = [
        (release, section, label, name, number.value, number.lower, _finite(number.upper))
        for release, audit in audits
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
    audits = [(release.name, audit) for release, audit in zip(report.releases, report.audits, strict=True)]
    means = [
        (release, column, label, mean.value, mean.lower, _finite(mean.upper), mean.exact, mean.relative_error)
        for release, audit in audits
        for column, of in audit.means.items()
        for label, mean in of.items()
    ]
    marginals = [
        (release, group, column, word, real, made)
        for release, audit in audits
        for group, columns in ((ALL_ROWS, audit.marginals.columns), (audit.marginals.group, audit.marginals.in_group))
        for column, of in columns.items()
        for word, real, made in zip(of.words, of.real.tolist(), of.synthetic.tolist(), strict=True)
    ]
    pairs = [(release, *pair, error) for release, audit in audits for pair, error in audit.marginals.pairs.items()]
    files = {
        "marginals.csv": _csv(("release", "group", "column", "value", "private", "synthetic"), marginals),
        "pairs.csv": _csv(("release", "one", "other", "distance"), pairs),
    }
    if means:
        headings = ("release", "column", "group", "published", "lower", "upper", "exact", "relative_error")
        files["means.csv"] = _csv(headings, means)
    return files


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Digits]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return text.getvalue()


def _cells(shown: Shown) -> tuple[Digits, ...]:
    return shown.value, shown.lower, _finite(shown.upper), shown.note


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None
