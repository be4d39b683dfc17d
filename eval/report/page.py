"""A report as files: one HTML page that needs nothing else, JSON with its schema, CSV, and, of a public one, Markdown.

What is written depends on the report alone. Names tell the modes apart: `audit.html` and `audit.json` are public,
`internal-audit.html` and `internal-audit.json` are not. Markdown, which goes to the orchestrator, is made of public
reports only. Numbers are put into words and tables first; then each file is written from those.
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
from equistrata.eval.report.group_errors import Shown
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
    """Write a report into an existing folder; return its page."""
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
    """As `audit.schema.json` declares it: plain mappings, lists, texts and finite numbers."""
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
    """As JSON has it: records are mappings, tuples are lists, and an open end is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        heat=HEAT_WORDS,
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
    filters = {"percent": percent, "percents": _percents, "price": price, "data_uri": data_uri}
    page = template(Path(__file__).with_name("templates") / name, **filters)
    given = {"report": report, "about": report.about, "title": report.title, "kind": report.MODE, "verdict": said}
    return page.render(**given, **more)


def _percents(shown: Shown) -> str:
    return interval(shown, percent)


def data_uri(text: str) -> str:
    """A CSV file as an address that holds it."""
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
