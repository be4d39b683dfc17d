"""A report as files: one HTML page that needs nothing else, JSON with its schema, CSV, and, of a public one, Markdown.

What is written depends on the report alone. Names tell the modes apart: `audit.html` and `audit.json` are public,
`internal-audit.html` and `internal-audit.json` are not; Markdown, which goes to the orchestrator, is made of public reports
only.
"""

from __future__ import annotations

import base64
from pathlib import Path

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import SECTION_SHARES
from equistrata.eval.report.document import SCHEMA, to_json
from equistrata.eval.report.exhibits import exhibits
from equistrata.eval.report.phrases import interval, percent, power, ratio
from equistrata.eval.report.report import PublicReport, Report, order_of_groups
from equistrata.eval.report.tables import csv_files, summary
from equistrata.eval.report.theme import DARK, LIGHT, SERIES, variables
from equistrata.eval.report.verdict import verdict


def write_report(report: Report, folder: Path) -> Path:
    """Write a report into an existing folder; return its page."""
    stem = "audit" if isinstance(report, PublicReport) else "internal-audit"
    page = folder / f"{stem}.html"
    page.write_text(to_html(report), "utf-8")
    (folder / f"{stem}.json").write_text(to_json(report), "utf-8")
    (folder / SCHEMA.name).write_text(SCHEMA.read_text("utf-8"), "utf-8")
    tables = folder / "tables"
    tables.mkdir()
    for name, content in csv_files(report).items():
        (tables / name).write_text(content, "utf-8")
    if isinstance(report, PublicReport):
        (folder / "audit.md").write_text(to_markdown(report), "utf-8")
    return page


def to_html(report: Report) -> str:
    """The page: styles and figures inside, no script, and nothing that it would have to fetch."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("equistrata.eval.report", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"percent": percent, "ratio": ratio, "power": power, "data_uri": _data_uri}
    files = csv_files(report)
    return environment.get_template(f"{report.MODE}.html.j2").render(
        report=report,
        about=report.about,
        title=_title(report),
        verdict=verdict(report),
        summary=summary(report),
        exhibits=exhibits(report),
        files=files,
        watermark=InternalAudit.WATERMARK,
        shares=SECTION_SHARES,
        light=variables(LIGHT),
        dark=variables(DARK),
        series=SERIES,
    )


def to_markdown(report: PublicReport) -> str:
    """A page for Prefect: the verdict, the price, and how each group is served. Public reports only.

    Raises TypeError for any other: exact numbers have no place in the orchestrator's database.
    """
    if not isinstance(report, PublicReport):
        raise TypeError("only a public report may be shown in the orchestrator")
    said = verdict(report)
    lines = [f"# {_title(report)}\n", *(f"{text}\n" for text in said.opening)]
    for each in said.releases:
        lines += [f"## {each.name}\n", f"{each.made}.\n", *(f"- {text}" for text in each.sentences), ""]
    if said.comparison:
        lines += ["## Side by side\n", *(f"- {text}" for text in said.comparison), ""]
    head = "| group | " + " | ".join(each.name for each in report.releases) + " |"
    lines += ["## Error of the means by group\n", head, "|---" * (len(report.releases) + 1) + "|"]
    for label in order_of_groups(report):
        cells = [
            interval(each.served[label], percent) + (" ?" if each.served[label].note else "")
            for each in report.findings
        ]
        name = report.about.name_of(label).replace("|", "\\|")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "`?`: the noise is too large to tell.\n",
        "## Keep in mind\n",
        *(f"- {text}" for text in said.caveats),
        "",
    ]
    return "\n".join(lines)


def _title(report: Report) -> str:
    names = [each.name for each in report.releases]
    return f"Fairness audit of {' and '.join(names) if len(names) < 3 else f'{len(names)} releases'}"


def _data_uri(text: str) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
