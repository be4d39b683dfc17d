"""An audit without Prefect: the flow's own code, in this process."""

from pathlib import Path
from unittest import mock

import flows.audit
from flows import audit_steps
from flows.audit_config import AuditConfig


def audit(*releases, **settings):
    """Run it; the report's folder and the artifacts."""
    shown = []
    plain = {name: getattr(audit_steps, name) for name in ("load_rows", "examine", "publish")}
    artifact = {"create_markdown_artifact": lambda text, **about: shown.append((text, about))}
    few_trees = mock.patch("eval.release_classifier.TREES", 20)  # what is tested here is not how well it predicts
    with few_trees, mock.patch.multiple(flows.audit, **plain, **artifact):
        config = AuditConfig.build(releases=releases, **{"input": "people.csv"} | settings)
        return Path(flows.audit.audit.fn(config)), shown
