"""The audit flow: check the releases, load the rows, charge, examine, and publish the report.

As in the release flow, Prefect only receives settings and the path of a private working folder. The artifact of a
public audit is the report in Markdown. The artifact of an internal audit only contains the path of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from equistrata.errors import InputError
from equistrata.eval.report.templating import plain
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.audit.account import AuditAccount
from equistrata.flows.audit.expected import expected_audit
from equistrata.flows.audit.journal import AuditJournal
from equistrata.flows.audit.pdf import print_pdf
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.release.account import unchanged
from equistrata.flows.release.flow import private_task
from equistrata.flows.run.foreground import report_progress
from equistrata.flows.run.signals import finish_before_stopping
from equistrata.flows.run.workspace import Workspace, private_workspace
from equistrata.privacy.budget import relation_of
from equistrata.privacy.ledger.fingerprint import Fingerprint
from equistrata.privacy.ledger.ledger import ChargeDetails

load_rows = private_task("load rows")(audit_steps.load_rows)
examine = private_task("examine")(audit_steps.examine)
deliver = private_task("publish report")(audit_steps.deliver)


@flow(name="audit", log_prints=False, persist_result=False, validate_parameters=True)
def audit(config: AuditConfig) -> str:
    """Audit releases against their private rows.

    If an audit was interrupted, it is continued by a run with the same settings. If the report was saved, or if no
    noise was started, this is free. Otherwise the audit is charged again. Noise is never drawn twice for one charge,
    and a charge is never refunded.

    Parameters
    ----------
    config : AuditConfig
        The settings.

    Returns
    -------
    str
        The folder of the report. A public audit without ε and δ has a folder for each release, and the first one is
        returned.

    Privacy
    -------
    An internal audit has no cost, because its exact numbers remain in a folder with mode 0700. A public audit costs the
    (ε, δ) in the settings for all releases together. If there is a ledger, this cost is charged after the rows were
    read and compared with the releases, and before noise is drawn. A public audit without ε and δ does not read any row
    and has no cost. It reports the expected errors of the releases.
    """
    if config.free:
        return _expected(config)
    plan = AuditPlan.of(config)
    # The output is reserved first, so that nothing is charged if this fails.
    printed = not config.pdf
    with ExitStack() as stack:
        landing = stack.enter_context(audit_steps.place(plan))
        if plan.journal is not None:
            stack.enter_context(plan.journal.held())
        work = stack.enter_context(private_workspace(landing=landing))
        report_progress("load rows")
        with charged(plan, work, lambda: load_rows(plan, work)):
            report_progress("examine")
            examine(plan, work)
        if config.pdf:
            report_progress("print")
            # Print the page first, because the manifest of a release includes the PDF file.
            printed = print_pdf(report_page_path(work.staging))
        report_progress("publish")
        folder = deliver(plan, work)
        if plan.journal is not None:
            plan.journal.remove()
    if plan.public:
        text = (folder / "audit.md").read_text("utf-8")
    else:  # exact numbers must not be stored in Prefect's database
        names = ", ".join(each.name for each in plan.facts)
        text = f"An internal audit of {names} is in `{folder}`. It contains exact numbers, so do not publish it."
    create_markdown_artifact(text, key=f"{config.mode}-audit", description=f"{config.mode} audit")
    if not printed:
        raise InputError(
            f"the report in {str(report_page_path(folder))!r} is complete, but it could not be printed as PDF; print "
            "it from a browser"
        )
    return str(folder)


def _expected(config: AuditConfig) -> str:
    report_progress("replicates")
    found = expected_audit(config, lambda done, of: report_progress("replicates", done, of))
    text = "\n\n".join(f"`{page}`: " + plain(" ".join(report.sentences)) for page, report in found)
    create_markdown_artifact(text, key="expected-audit", description="expected audit")
    return str(found[0][0].parent)


@contextmanager
def charged(plan: AuditPlan, work: Workspace, read: Callable[[], None]) -> Iterator[None]:
    """Read the rows, check that they belong to the releases, and charge the audit that is done in the block.

    The audit is charged if it is public and an account is known.
    """
    account, content = plan.account, unchanged(plan.source, read)
    rows = None if account is None else account.check_rows(work, content)
    if account is None or plan.journal is None:
        yield
        return
    ledger, before = account.ledger, account.charges()
    try:
        if plan.journal.due(account, content):
            _charge(plan, account, plan.journal, content, rows)
        for charge in before:
            if charge.outcome != "committed":
                ledger.resume(charge.entry)
        yield
        with finish_before_stopping():
            for charge in account.charges():
                ledger.commit(charge.entry)
    except BaseException as error:
        for charge in account.charges():
            if charge.outcome == "reserved":
                ledger.fail(charge.entry, type(error).__name__)
        if not account.charges():
            plan.journal.remove()
        raise


def _charge(
    plan: AuditPlan, account: AuditAccount, journal: AuditJournal, content: bytes, rows: Fingerprint | None
) -> None:
    (epsilon, delta), again = plan.config.price, bool(account.charges())
    journal.bind(content, again)
    particulars = ChargeDetails(
        parts=plan.sections,
        reason="noise drawn again after a crash" if again else None,
        epsilon=None if again else epsilon,
        delta=None if again else delta,
        relation=relation_of(plan.unit.column, plan.unit.relation),
        mechanism="public audit",
        strata=" × ".join(plan.strata.columns) or None,
        fingerprint=None if rows is None else str(rows),
    )
    account.ledger.reserve(account.dataset, plan.price, account.release, particulars)
    journal.paid()


def report_page_path(folder: Path) -> Path:
    """Return the path of the page of a report."""
    return next(folder.glob("*.html"))
