"""A report for machines: `audit.json`, as `audit.schema.json` declares it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from equistrata.eval.audit.internal import InternalAudit
from equistrata.eval.audit.public import PublicAudit
from equistrata.eval.report.report import PublicReport, Report
from equistrata.eval.report.words import Verdict

AUDIT_FORMAT = "equistrata audit 1"
SCHEMA = Path(__file__).with_name("audit.schema.json")


def to_json(report: Report, said: Verdict) -> str:
    """The document as text."""
    return json.dumps(to_document(report, said), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_document(report: Report, said: Verdict) -> dict[str, Any]:
    """The report and its verdict as plain mappings, lists, texts and finite numbers."""
    about = report.about
    audits: tuple[PublicAudit | InternalAudit, ...] = report.audits
    releases = [
        asdict(release)
        | {"worst": found.ranking[:3], "untold": found.below_noise, "lost": found.lost}
        | {"served": found.served, "errors": found.errors, "synthetic": audit.synthetic, "audit": audit.to_dict()}
        | ({"marginals": audit.marginals.to_dict()} if isinstance(audit, InternalAudit) else {})
        for release, audit, found in zip(report.releases, audits, report.findings, strict=True)
    ]
    document: dict[str, Any] = {
        "$schema": SCHEMA.name,
        "format": AUDIT_FORMAT,
        "mode": report.MODE,
        "made": about.made,
        "software": about.software,
        "rows": about.rows,
        "schema": about.schema,
        "strata": {"columns": about.strata_columns, "groups": about.groups},
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
