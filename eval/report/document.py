"""A report for machines: `audit.json`, as `eval/report/audit.schema.json` declares it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.report.comparison import Comparison
from equistrata.eval.report.findings import Shown
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.verdict import Verdict, verdict

FORMAT = "equistrata audit 1"
SCHEMA = Path(__file__).with_name("audit.schema.json")


def to_json(report: Report) -> str:
    """The document as text."""
    return json.dumps(to_document(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_document(report: Report) -> dict[str, Any]:
    """The report as plain mappings, lists, texts and finite numbers."""
    said = verdict(report)
    parts = zip(report.releases, report.audits, report.findings, report.synthetic, strict=True)
    document: dict[str, Any] = {
        "$schema": SCHEMA.name,
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
        document["warning"] = InternalAudit.WATERMARK
        for entry, each in zip(document["releases"], report.marginals, strict=True):
            entry["marginals"] = each.to_dict()
    return _finite(document)


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
