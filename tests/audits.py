"""An audit without Prefect: the flow's own code, in this process."""

from pathlib import Path
from unittest import mock

import equistrata.flows.audit.flow
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.config.audit import AuditConfig


def audit(*releases, **settings):
    """Run it; the report's folder and the artifacts."""
    shown = []
    plain = {name: getattr(audit_steps, name) for name in ("load_rows", "examine", "deliver")}
    artifact = {"create_markdown_artifact": lambda text, **about: shown.append((text, about))}
    few_trees = mock.patch(
        "equistrata.eval.scores.classifiers.TREES", 20
    )  # what is tested here is not how well it predicts
    with few_trees, mock.patch.multiple(equistrata.flows.audit.flow, **plain, **artifact):
        config = AuditConfig.build(releases=releases, **{"input": "people.csv"} | settings)
        return Path(equistrata.flows.audit.flow.audit.fn(config)), shown
