"""The files of a report: an HTML page, a JSON file with its schema, and CSV files.

A public report also has a Markdown file. The files depend only on the report. The HTML page does not load any other
file. The names of the files show the mode of the report: `audit.html` and `audit.json` are public, but
`internal-audit.html` and `internal-audit.json` are not. The Markdown file is sent to the orchestrator, so it is made
for public reports only. First the numbers are converted to sentences and tables, and then each file is written from
these.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import SECTION_SHARES, PublicAudit
from equistrata.eval.report.charts import HEAT_WORDS
from equistrata.eval.report.exhibits import exhibits
from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.pictures import DARK, LIGHT, SERIES, variables
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.tables import csv_files, summary
from equistrata.eval.report.templating import template
from equistrata.eval.report.verdict import Verdict, verdict
from equistrata.eval.report.words import interval, percent, price

AUDIT_FORMAT = "equistrata audit 1"
NO_PEOPLE = ("people", None)
SCHEMA = Path(__file__).with_name("audit.schema.json")


def write_report(report: Report, folder: Path) -> Path:
    """Write the files of a report.

    Parameters
    ----------
    report : PublicReport or InternalReport
        The report to write.
    folder : Path
        The folder for the files, which must exist.

    Returns
    -------
    Path
        The path of the HTML page.
    """
    said, files = verdict(report), csv_files(report)
    stem = "audit" if isinstance(report, PublicReport) else "internal-audit"
    page, tables = folder / f"{stem}.html", folder / "tables"
    tables.mkdir()
    for name, text in files.items():
        (tables / name).write_text(text, "utf-8")
    document = json.dumps(to_document(report, said), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / f"{stem}.json").write_text(document + "\n", "utf-8")
    (folder / SCHEMA.name).write_text(SCHEMA.read_text("utf-8"), "utf-8")
    if isinstance(report, PublicReport):
        (folder / "audit.md").write_text(to_markdown(report, said), "utf-8")
    page.write_text(to_html(report, said, files), "utf-8")
    return page


def to_document(report: Report, said: Verdict) -> dict[str, Any]:
    """Return the report as a dictionary that conforms to `audit.schema.json`. All numbers in it are finite."""
    about = report.about
    audits: tuple[PublicAudit | InternalAudit, ...] = report.audits
    releases = [
        {name: value for name, value in asdict(release).items() if name != "odds_on" and (name, value) != NO_PEOPLE}
        | {"worst": found.worst, "untold": found.below_noise, "lost": found.lost}
        | {"measure": found.measure, "averaged": found.averaged}
        | {"served": found.served, "errors": found.errors, "synthetic": audit.synthetic, "audit": audit.to_dict()}
        | ({"marginals": audit.marginals.to_dict()} if isinstance(audit, InternalAudit) else {})
        for release, audit, found in zip(report.releases, audits, report.findings, strict=True)
    ]
    document: dict[str, Any] = {
        "$schema": SCHEMA.name,
        "format": AUDIT_FORMAT,
        "mode": report.MODE,
        "report": {"title": report.title, "agency": about.agency, "contact": about.contact},
        "made": about.made,
        "software": about.software,
        "rows": about.rows,
        "schema": about.schema,
        "strata": {"columns": about.strata.columns, "groups": about.groups},
        "columns": about.columns,
        "verdict": asdict(said) | {"releases": {each.name: each.sentences for each in said.releases}},
        "releases": releases,
        "comparisons": [
            {name: getattr(each, name) for name in ("one", "other", "better", "worse", "differences")}
            for each in report.comparisons
        ],
        "ledger": report.history,
    }
    if isinstance(report, PublicReport):
        document["price"] = asdict(report.price) | {"together": report.together, "private": report.private}
    else:
        document["warning"] = InternalAudit.WATERMARK
    return {key: _plain(value) for key, value in document.items()}


def _plain(value: Any) -> Any:
    """Convert a value for JSON.

    Dataclasses become dictionaries, tuples become lists, and infinite numbers become null.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_html(report: Report, said: Verdict, files: Mapping[str, str]) -> str:
    """Return the HTML page. Styles and figures are inside the page, and there are no scripts and no external files."""
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
        heat=HEAT_WORDS,
        series=SERIES,
    )


def to_markdown(report: PublicReport, said: Verdict) -> str:
    """Return a Markdown page for Prefect with the verdict, the privacy cost and the errors of the means of each group.

    The function raises TypeError if the report is not public, because exact numbers must not be stored in the database
    of the orchestrator.
    """
    if not isinstance(report, PublicReport):
        raise TypeError("only a public report may be shown in the orchestrator")
    return _filled("audit.md.j2", report, said)


def _filled(name: str, report: Report, said: Verdict, **more: Any) -> str:
    filters = {"percent": percent, "percents": _percents, "price": price, "data_uri": data_uri}
    page = template(Path(__file__).with_name("templates") / name, **filters)
    given = {"report": report, "about": report.about, "title": report.title, "kind": report.MODE, "verdict": said}
    return page.render(**given, **more)


def _percents(shown: ReportedNumber) -> str:
    return interval(shown, percent)


def data_uri(text: str) -> str:
    """Return the text of a CSV file as a data URI."""
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
