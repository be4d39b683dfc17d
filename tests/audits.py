"""A function that runs an audit in this process without Prefect."""

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import equistrata.flows.audit.flow
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.config.audit import AuditConfig


def audit(*releases, **settings):
    """Run an audit and return the folder of its report and the artifacts. The default for a public audit is ε = 1."""
    shown, priced = [], {"epsilon": 1.0} if settings.get("mode") == "public" else {}
    plain = {name: getattr(audit_steps, name) for name in ("load_rows", "examine", "deliver")}
    artifact = {"create_markdown_artifact": lambda text, **about: shown.append((text, about))}
    with ExitStack() as patched:
        # These tests do not check the accuracy of the classifier, and it needs most of the time of an audit.
        patched.enter_context(mock.patch("equistrata.eval.scores.classifiers.TREES", 20))
        patched.enter_context(mock.patch.multiple(equistrata.flows.audit.flow, **plain, **artifact))
        config = AuditConfig.build(releases=releases, **{"input": "people.csv"} | priced | settings)
        return Path(equistrata.flows.audit.flow.audit.fn(config)), shown
