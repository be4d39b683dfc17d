"""The audit flow: check the releases → load rows → charge → examine → publish the report.

As in the release flow, only settings and the path of a private working folder travel through Prefect. Its artifact is
the public report's Markdown; for an internal report it only says where the report is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from equistrata.errors import InputError
from equistrata.eval.report.templating import plain
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.audit.expected import expected_audit
from equistrata.flows.audit.pdf import print_pdf
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.release.account import unchanged
from equistrata.flows.release.flow import private_task
from equistrata.flows.run.foreground import tell
from equistrata.flows.run.workspace import Workspace, private_workspace
from equistrata.privacy.budget import relation_of
from equistrata.privacy.ledger.ledger import Particulars

load_rows = private_task("load rows")(audit_steps.load_rows)
examine = private_task("examine")(audit_steps.examine)
deliver = private_task("publish report")(audit_steps.deliver)


@flow(name="audit", log_prints=False, persist_result=False, validate_parameters=True)
def audit(config: AuditConfig) -> str:
    """Audit releases against their private rows; return the report's folder.

    Cost: nothing for an internal audit: its numbers are exact and stay in a folder of mode 0700; (ε, δ) of the
    configuration for a public one, all releases together, charged to the ledger (where there is one) after the rows are
    found to be readable, and to be those of the releases, and before noise is drawn. A charge is never taken back;
    noise is never drawn twice for one. A public one without ε and δ reads no row and costs nothing: it says how far the
    releases are expected to be off, each in a folder of its own (that of the first is returned).
    """
    if config.free:
        return _expected(config)
    plan = AuditPlan.of(config)
    # The place comes first: a run that does not get it is charged nothing.
    with audit_steps.place(plan) as landing, private_workspace(landing=landing) as work:
        tell("load rows")
        with charged(plan, work, lambda: load_rows(plan, work)):
            tell("examine")
            examine(plan, work)
            if config.pdf:
                tell("print")
                printed = print_pdf(page_of(work.staging))  # before it lands: a release's manifest lists it too
            tell("publish")
            folder = deliver(plan, work)
    if plan.public:
        text = (folder / "audit.md").read_text("utf-8")
    else:  # exact numbers have no place in Prefect's database
        names = ", ".join(each.name for each in plan.facts)
        text = f"An internal audit of {names} is in `{folder}`. It is exact: not to be published."
    create_markdown_artifact(text, key=f"{config.mode}-audit", description=f"{config.mode} audit")
    if config.pdf and not printed:
        raise InputError(
            f"the report is whole in {str(page_of(folder))!r}, but could not be printed as PDF; print it from a browser"
        )
    return str(folder)


def _expected(config: AuditConfig) -> str:
    tell("replicates")
    found = expected_audit(config, lambda done, of: tell("replicates", done, of))
    text = "\n\n".join(f"`{page}`: " + plain(" ".join(report.sentences)) for page, report in found)
    create_markdown_artifact(text, key="expected-audit", description="expected audit")
    return str(found[0][0].parent)


@contextmanager
def charged(plan: AuditPlan, work: Workspace, read: Callable[[], None]) -> Iterator[None]:
    """Have `read` read the rows, check whose they are, and charge what is done in the block, if it is public and an
    account is known."""
    account, content = plan.account, unchanged(plan.source, read)
    rows = None if account is None else account.check_rows(work, content)
    if account is None or not plan.public:
        yield
        return
    ledger, (epsilon, delta) = account.ledger, plan.config.price
    charge = ledger.reserve(
        account.dataset,
        plan.price,
        account.release,
        Particulars(
            parts=plan.sections,
            epsilon=epsilon,
            delta=delta,
            relation=relation_of(plan.unit.column, plan.unit.relation),
            mechanism="public audit",
            strata=" × ".join(plan.strata.columns) or None,
            fingerprint=None if rows is None else str(rows),
        ),
    )
    try:
        yield
    except BaseException as error:
        ledger.fail(charge, type(error).__name__)
        raise
    ledger.commit(charge)


def page_of(folder: Path) -> Path:
    """The report's page in its folder."""
    return next(folder.glob("*.html"))
