"""A report for machines: `audit.json`, as `audit.schema.json` declares it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.findings import Comparison, Shown
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.words import Verdict

AUDIT_FORMAT = "equistrata audit 1"
SCHEMA = Path(__file__).with_name("audit.schema.json")


def to_json(report: Report, said: Verdict) -> str:
    """The document as text."""
    return json.dumps(to_document(report, said), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_document(report: Report, said: Verdict) -> dict[str, Any]:
    """The report and its verdict as plain mappings, lists, texts and finite numbers."""
    audits: tuple[PublicAudit | InternalAudit, ...] = report.audits
    parts = zip(report.releases, audits, report.findings, strict=True)
    document: dict[str, Any] = {
        "$schema": SCHEMA.name,
        "format": AUDIT_FORMAT,
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
                **asdict(release),
                "worst": list(found.ranking[:3]),
                "untold": list(found.below_noise),
                "lost": list(found.lost),
                "served": _numbers(found.served),
                "errors": {column: _numbers(of) for column, of in found.errors.items()},
                "synthetic": asdict(audit.synthetic),
                "audit": audit.to_dict(),
            }
            for release, audit, found in parts
        ],
        "comparisons": [_comparison(each) for each in report.comparisons],
        "ledger": None if report.history is None else asdict(report.history),
    }
    if isinstance(report, PublicReport):
        document["price"] = asdict(report.price) | {"together": report.together, "private": report.private}
    else:
        document["warning"] = InternalAudit.WATERMARK
        for entry, audit in zip(document["releases"], report.audits, strict=True):
            entry["marginals"] = audit.marginals.to_dict()
    return {key: _finite(value) for key, value in document.items()}


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


def _finite(value: Any) -> Any:
    """As JSON has it: tuples are lists, and an open end is null."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
