"""A report as files: one HTML page that needs nothing else, JSON with its schema, CSV, and, of a public one, Markdown.

What is written depends on the report alone. Names tell the modes apart: `audit.html` and `audit.json` are public,
`internal-audit.html` and `internal-audit.json` are not. Markdown, which goes to the orchestrator, is made of public
reports only. Numbers are put into words and tables first; then each file is written from those.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import SECTION_SHARES
from equistrata.eval.report.document import SCHEMA, to_json
from equistrata.eval.report.exhibits import exhibits
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.tables import csv_files, summary
from equistrata.eval.report.templating import template
from equistrata.eval.report.theme import DARK, LIGHT, SERIES, variables
from equistrata.eval.report.words import Verdict, interval, percent, price, verdict


def write_report(report: Report, folder: Path) -> Path:
    """Write a report into an existing folder; return its page."""
    said, files = verdict(report), csv_files(report)
    stem = "audit" if isinstance(report, PublicReport) else "internal-audit"
    page, tables = folder / f"{stem}.html", folder / "tables"
    tables.mkdir()
    for name, text in files.items():
        (tables / name).write_text(text, "utf-8")
    (folder / f"{stem}.json").write_text(to_json(report, said), "utf-8")
    (folder / SCHEMA.name).write_text(SCHEMA.read_text("utf-8"), "utf-8")
    if isinstance(report, PublicReport):
        (folder / "audit.md").write_text(to_markdown(report, said), "utf-8")
    page.write_text(to_html(report, said, files), "utf-8")
    return page


def to_html(report: Report, said: Verdict, files: Mapping[str, str]) -> str:
    """The page: styles and figures inside, no script, and nothing that it would have to fetch."""
    return _filled(
        f"{report.MODE}.html.j2",
        report,
        said,
        summary=summary(report),
        exhibits=exhibits(report),
        files=files,
        watermark=InternalAudit.WATERMARK,
        shares=SECTION_SHARES,
        light=variables(LIGHT),
        dark=variables(DARK),
        series=SERIES,
    )


def to_markdown(report: PublicReport, said: Verdict) -> str:
    """A page for Prefect: the verdict, the price, and the errors of the means by group. Public reports only.

    Raises TypeError for any other: exact numbers have no place in the orchestrator's database.
    """
    if not isinstance(report, PublicReport):
        raise TypeError("only a public report may be shown in the orchestrator")
    return _filled("audit.md.j2", report, said)


def _filled(name: str, report: Report, said: Verdict, **more: Any) -> str:
    filters: dict[str, Callable[..., str]] = {"percent": percent, "price": price, "data_uri": _data_uri}
    filters["percents"] = lambda shown: interval(shown, percent)
    names = [each.name for each in report.releases]
    title = f"Fairness audit of {' and '.join(names) if len(names) < 3 else f'{len(names)} releases'}"
    page = template(Path(__file__).with_name("templates") / name, **filters)
    return page.render(report=report, about=report.about, title=title, verdict=said, **more)


def _data_uri(text: str) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
