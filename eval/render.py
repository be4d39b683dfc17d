"""A report as files: one HTML page that needs nothing else, JSON, CSV, and, of a public one, Markdown.

What is written depends on the report alone. Names tell the modes apart: `audit.html` and `audit.json` are public,
`internal-audit.html` and `internal-audit.json` are not; Markdown, which goes to the orchestrator, is made of public reports
only.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.comparison import Comparison
from eval.findings import Findings, Shown
from eval.gallery import exhibits
from eval.internal_audit import InternalAudit
from eval.phrases import interval, percent, power, rate, ratio
from eval.public_audit import SHARES
from eval.report import InternalReport, PublicReport, Report, order_of_groups
from eval.tables import QUANTITIES, Table, csv_files, quantities
from eval.theme import DARK, LIGHT, SERIES, variables
from eval.verdict import Verdict, verdict

FORMAT = "equistrata audit 1"
WATERMARK = InternalAudit.WATERMARK


def write_report(report: Report, folder: Path) -> Path:
    """Write a report into an existing folder; return its page."""
    stem = "audit" if isinstance(report, PublicReport) else "internal-audit"
    page = folder / f"{stem}.html"
    page.write_text(to_html(report), "utf-8")
    text = json.dumps(to_document(report), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / f"{stem}.json").write_text(text + "\n", "utf-8")
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
        loader=PackageLoader("eval", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
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
        watermark=WATERMARK,
        shares=SHARES,
        light=variables(LIGHT),
        dark=variables(DARK),
        series=SERIES,
    )


def to_document(report: Report) -> dict[str, Any]:
    """The report for machines, as docs/audit.schema.json declares it."""
    said = verdict(report)
    parts = zip(report.releases, report.audits, report.findings, report.synthetic, strict=True)
    document: dict[str, Any] = {
        "format": FORMAT,
        "mode": report.MODE,
        "made": report.about.made,
        "software": report.about.software,
        "rows": report.about.rows,
        "schema": report.about.schema,
        "strata": {"columns": list(report.about.strata_columns), "groups": dict(report.about.groups)},
        "columns": dict(report.about.columns),
        "verdict": _verdict(said),
        "releases": [
            {
                **{key: _plain(value) for key, value in asdict(release).items()},
                "worst": list(found.ranking[:3]),
                "untold": list(found.untold),
                "lost": list(found.lost),
                "served": _numbers(found.served),
                "errors": {column: _numbers(of) for column, of in found.errors.items()},
                "synthetic": {"rows": dict(made.rows), "means": {c: dict(of) for c, of in made.means.items()}},
                "audit": audit.to_dict(),
            }
            for release, audit, found, made in parts
        ],
        "comparisons": [_comparison(each) for each in report.comparisons],
        "ledger": None if report.history is None else _plain(asdict(report.history)),
    }
    if isinstance(report, PublicReport):
        document["price"] = asdict(report.price) | {"together": report.together, "private": report.private}
    else:
        document["warning"] = WATERMARK
        for entry, each in zip(document["releases"], report.marginals, strict=True):
            entry["marginals"] = each.to_dict()
    return _finite(document)


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
        lines.append(f"| {report.about.name_of(label)} | {' | '.join(cells)} |")
    lines += [
        "",
        "`?`: the noise is too large to tell.\n",
        "## Keep in mind\n",
        *(f"- {text}" for text in said.caveats),
        "",
    ]
    return "\n".join(lines)


def summary(report: Report) -> Table:
    """The releases side by side, a row for each number that sums one up."""
    rows = [
        ("mechanism", [each.mechanism for each in report.releases]),
        ("strata", [" × ".join(each.strata) or "none" for each in report.releases]),
        ("ε, δ", [f"{power(each.epsilon)}, {power(each.delta)}" for each in report.releases]),
        ("synthetic people", [f"{each.rows:,}" for each in report.releases]),
        ("worst group", [_worst(each, report) for each in report.findings]),
    ]
    for name, write in (
        (QUANTITIES[0], percent),
        (QUANTITIES[1], ratio),
        (QUANTITIES[3], rate),
        (QUANTITIES[2], ratio),
    ):
        found = [quantities(each)[name].get("all") for each in report.findings]
        if all(found):
            rows.append((f"{name}, everybody", [interval(each, write) for each in found if each]))
    if isinstance(report, InternalReport):
        rows += [
            ("parity error", [f"{each.scores.parity_error:.3f}" for each in report.audits]),
            ("maximum disparity", [f"{each.scores.maximum_disparity:.3f}" for each in report.audits]),
            ("workload error, mean of groups", [f"{each.scores.workload3_by_stratum:.3f}" for each in report.audits]),
        ]
        fairness = [each.fairness for each in report.audits]
        if all(fairness):
            rows.append(("demographic parity ratio", [f"{each.dpr:.3f}" for each in fairness if each]))
            rows.append(("false negative rate difference", [f"{each.fnr_diff:.3f}" for each in fairness if each]))
    names = tuple(each.name for each in report.releases)
    return Table("The releases in numbers", ("", *names), tuple((name, *cells) for name, cells in rows))


def _worst(found: Findings, report: Report) -> str:
    told = [label for label in found.ranking if label not in found.untold]
    return f"{report.about.name_of(told[0])}: {interval(found.served[told[0]], percent)}" if told else "not told"


def _title(report: Report) -> str:
    names = [each.name for each in report.releases]
    return f"Fairness audit of {' and '.join(names) if len(names) < 3 else f'{len(names)} releases'}"


def _verdict(said: Verdict) -> dict[str, Any]:
    return {
        "opening": list(said.opening),
        "releases": {each.name: list(each.sentences) for each in said.releases},
        "comparison": list(said.comparison),
        "caveats": list(said.caveats),
    }


def _comparison(each: Comparison) -> dict[str, Any]:
    return {
        "one": each.one,
        "other": each.other,
        "better": list(each.better),
        "worse": list(each.worse),
        "differences": _numbers(each.differences),
    }


def _numbers(numbers: Mapping[str, Shown]) -> dict[str, dict[str, Any]]:
    return {label: asdict(shown) for label, shown in numbers.items()}


def _plain(value: Any) -> Any:
    """Tuples as lists, as they come back from JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _finite(value: Any) -> Any:
    """JSON has no infinity: an open end is null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _data_uri(text: str) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode("ascii")
