"""The command `equistrata audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from equistrata.flows.cli.console import err, flow_here, out, print_lines, print_prose, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.audit import AuditConfig, from_release_config
from equistrata.flows.config.settings import Flag, Settings, setting, worker_setting
from equistrata.flows.release.inside import is_terminal_output
from equistrata.flows.run.foreground import progress_bars
from equistrata.flows.run.server import TemporaryServer, server_ahead

if TYPE_CHECKING:
    from equistrata.eval.report.expected import ExpectedReport
    from equistrata.flows.audit.plan import AuditPlan


class AuditOptions(Settings):
    """Options of the command that are not settings of the audit."""

    config: Path | None = setting(None, "Configuration file of the release, which says where its rows are.")
    workers: int = worker_setting("Processes that fit replicates in parallel, for a page from published numbers.")
    verbose: Flag = setting(False, "Show the log of Prefect.")


@command("audit", AuditOptions, AuditConfig)
def audit_command(options: AuditOptions, given: dict[str, Any]) -> None:
    """Audit releases against their private rows. The report shows the accuracy of the data for each group as a page.

    [bold]--internal[/bold] (default): The numbers are exact and have no cost. They are written to a folder that only
    you can read, and must not be published.

    [bold]--public[/bold]: The numbers are noisy and have intervals. The privacy cost is given by --epsilon and --delta.

    [bold]Examples[/bold]
      equistrata audit ny2018 --root-dir acs
      equistrata audit stratified vanilla --config release.yaml --output compared
      equistrata audit ny2018 --public --epsilon 0.5 --root-dir acs --ledger ledger.db --pdf

    If --public is used without --epsilon and --delta, no row is read and there is no cost. The page then shows the
    expected error of each group, which is computed from the published numbers.

    Settings of the source that are not given are taken from the card of the first release, which does not contain
    paths.
    """
    found = from_release_config(options.config) if options.config is not None else {}
    config = AuditConfig.build(**found | given)
    if config.free:
        expect(config, options.workers)
        return
    with server_ahead(options.verbose) as server:
        plan = _check(config)
        try:
            folder = run_audit(config, options.verbose, server)
        except BaseException:
            if plan.journal is not None and plan.journal.kept:
                print_lines(
                    "to continue this audit, run the same command again; saved results cost nothing", console=err
                )
            raise
        report_audit(folder)


def _check(config: AuditConfig) -> AuditPlan:
    """Return the plan after all checks that do not need the rows."""
    from equistrata.flows.audit.plan import AuditPlan
    from equistrata.flows.audit.steps import place

    plan = AuditPlan.of(config)
    if plan.account is None and any(release.ledger is not None for release in plan.releases):
        err.print(
            "[yellow]no ledger is named[/], so it is not checked whether the releases were made from these rows; "
            "name it with --ledger"
        )
    with place(plan):
        return plan


def expect(config: AuditConfig, workers: int = 1) -> None:
    """Print the expected error of each group of each release, and create the pages.

    Groups with unknown errors are printed first.
    """
    for page, report in expected_pages(config, workers):
        grid = table(
            "how far released distributions are expected to be from the real ones", "group", ">rows (95 %)", ">off by",
            "worst column", caption="from published numbers alone: no row was read, nothing was charged",
        )  # fmt: skip
        for place, group in enumerate(report.order):
            if place == len(report.unknown) > 0:
                grid.add_section()
            worst = "" if group in report.unknown else report.called[report.worst_column(group)]
            grid.add_row(Text(group), report.rows[group], report.off(group), Text(worst))
        out.print(f"[bold green]audited[/] {escape(str(page))}", soft_wrap=True, highlight=False)
        out.print(grid)
        for sentence in report.sentences:
            print_prose(sentence)


def expected_pages(config: AuditConfig, workers: int) -> list[tuple[Path, ExpectedReport]]:
    """Create the pages of a free audit with a progress bar."""
    from equistrata.flows.audit.expected import expected_audit

    with progress_bars(err) as bar:
        bar("read", 0, 0)
        return expected_audit(config, lambda done, of: bar("replicates", done, of), workers)


def run_audit(config: AuditConfig, verbose: bool = False, server: TemporaryServer | None = None) -> Path:
    """Run the audit flow in this process and return the folder of the report.

    Parameters
    ----------
    config : AuditConfig
        The settings.
    verbose : bool, default=False
        If True, show the log of Prefect.
    server : TemporaryServer or None, default=None
        A server that was already started.

    Returns
    -------
    Path
        The folder of the report.
    """
    with flow_here(verbose, server):
        from equistrata.flows.audit.flow import audit

        return Path(audit(config))


def report_audit(folder: Path) -> None:
    """Print the path and the verdict of a report. Exact numbers are only printed to a terminal."""
    (path,) = folder.glob("*audit.json")
    document = json.loads(path.read_text("utf-8"))
    verdict = document["verdict"]
    page = path.with_suffix(".html")
    out.print(f"[bold green]audited[/] {escape(str(page))}", soft_wrap=True, highlight=False)
    if document["mode"] == "internal":
        out.print("[bold yellow]internal: computed from private rows[/], not to be published")
        if not is_terminal_output():
            return
    for sentence in verdict["opening"]:
        print_prose(sentence)
    for name, sentences in verdict["releases"].items():
        out.print(Text(name, "bold"))
        for sentence in sentences:
            print_prose(sentence, indent=2)
    for sentence in (*verdict["comparison"], *verdict["caveats"]):
        print_prose(sentence)
