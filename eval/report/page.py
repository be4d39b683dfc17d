"""A report as files: one HTML page that needs nothing else, JSON with its schema, CSV, and, of a public one, Markdown.

What is written depends on the report alone. Names tell the modes apart: `audit.html` and `audit.json` are public,
`internal-audit.html` and `internal-audit.json` are not. Markdown, which goes to the orchestrator, is made of public
reports only. Numbers are put into words and tables first; then each file is written from those.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import SECTION_SHARES
from equistrata.eval.report.document import SCHEMA, to_json
from equistrata.eval.report.exhibits import Exhibit, exhibits
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.tables import Table, csv_files, figure_tables, summary
from equistrata.eval.report.theme import DARK, LIGHT, SERIES, variables
from equistrata.eval.report.words import Verdict, descriptions, interval, percent, price, verdict


@dataclass(frozen=True)
class Content:
    """What the files of a report are written from: its words and tables, and its figures before they are drawn."""

    verdict: Verdict
    summary: Table
    exhibits: Sequence[Exhibit]
    files: Mapping[str, str]  # name → CSV


def content_of(report: Report) -> Content:
    """The content of a report: words first, then tables, then figures, each once."""
    said, seen = verdict(report), descriptions(report)
    overview, tables, files = summary(report), figure_tables(report), csv_files(report)
    return Content(said, overview, exhibits(report, tables, seen), files)


def write_report(report: Report, folder: Path) -> Path:
    """Write a report into an existing folder; return its page."""
    content = content_of(report)
    stem = "audit" if isinstance(report, PublicReport) else "internal-audit"
    page, tables = folder / f"{stem}.html", folder / "tables"
    tables.mkdir()
    for name, text in content.files.items():
        (tables / name).write_text(text, "utf-8")
    (folder / f"{stem}.json").write_text(to_json(report, content.verdict), "utf-8")
    (folder / SCHEMA.name).write_text(SCHEMA.read_text("utf-8"), "utf-8")
    if isinstance(report, PublicReport):
        (folder / "audit.md").write_text(to_markdown(report, content.verdict), "utf-8")
    page.write_text(to_html(report, content), "utf-8")
    return page


def to_html(report: Report, content: Content) -> str:
    """The page: styles and figures inside, no script, and nothing that it would have to fetch."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "price": price, "data_uri": _data_uri}
    return environment.get_template(f"{report.MODE}.html.j2").render(
        report=report,
        about=report.about,
        title=_title(report),
        verdict=content.verdict,
        summary=content.summary,
        exhibits=content.exhibits,
        files=content.files,
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
    lines = [f"# {_title(report)}\n", *(f"{text}\n" for text in said.opening)]
    for each in said.releases:
        lines += [f"## {each.name}\n", f"{each.made}.\n", *(f"- {text}" for text in each.sentences), ""]
    if said.comparison:
        lines += ["## Side by side\n", *(f"- {text}" for text in said.comparison), ""]
    lines += ["## Error of the means by group\n", f"| group | {' | '.join(each.name for each in report.releases)} |"]
    lines.append("|---" * (len(report.releases) + 1) + "|")
    for label in report.order:
        errors = [each.served[label] for each in report.findings]
        cells = [interval(error, percent) + (" ?" if error.note else "") for error in errors]
        name = report.about.names[label].replace("|", "\\|")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "`?`: below the noise floor.\n", "## Keep in mind\n", *(f"- {text}" for text in said.caveats), ""]
    return "\n".join(lines)


def _title(report: Report) -> str:
    names = [each.name for each in report.releases]
    return f"Fairness audit of {' and '.join(names) if len(names) < 3 else f'{len(names)} releases'}"


def _data_uri(text: str) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
