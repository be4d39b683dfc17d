"""An audit without Prefect: the flow's own code, in this process."""

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import equistrata.flows.audit.flow
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.config.audit import AuditConfig


def audit(*releases, **settings):
    """Run it, a public one by default at ε = 1; the report's folder and the artifacts."""
    shown, priced = [], {"epsilon": 1.0} if settings.get("mode") == "public" else {}
    plain = {name: getattr(audit_steps, name) for name in ("load_rows", "examine", "deliver")}
    artifact = {"create_markdown_artifact": lambda text, **about: shown.append((text, about))}
    with ExitStack() as patched:
        # What is tested here is not how well it predicts, which takes most of an audit's time.
        patched.enter_context(mock.patch("equistrata.eval.scores.classifiers.TREES", 20))
        patched.enter_context(mock.patch.multiple(equistrata.flows.audit.flow, **plain, **artifact))
        config = AuditConfig.build(releases=releases, **{"input": "people.csv"} | priced | settings)
        return Path(equistrata.flows.audit.flow.audit.fn(config)), shown
