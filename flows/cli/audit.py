"""`equistrata audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from equistrata.flows.cli.console import err, flow_here, out, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.audit import AuditConfig, from_release_config
from equistrata.flows.config.settings import Flag, Settings, setting
from equistrata.flows.release.inside import for_a_person
from equistrata.flows.run.server import TemporaryServer, server_ahead


class AuditOptions(Settings):
    """Options of the command that are no settings of the audit."""

    config: Path | None = setting(None, "The release's configuration file: where its rows are.")
    verbose: Flag = setting(False, "Show Prefect's own log.")


@command("audit", AuditOptions, AuditConfig)
def audit_command(options: AuditOptions, given: dict[str, Any]) -> None:
    """Audit releases against their private rows: the accuracy of each group's data, as a page to open in a browser.

    [bold]--internal[/bold] (the default): exact numbers, at no cost, in a folder that only you can read. Not to be
    published.

    [bold]--public[/bold]: noisy numbers with intervals, at the privacy cost (--epsilon, --delta).

    [bold]Examples[/bold]
      equistrata audit ny2018 --root-dir acs
      equistrata audit stratified vanilla --config release.yaml --output compared
      equistrata audit ny2018 --public --epsilon 0.5 --root-dir acs --ledger ledger.db --pdf

    Without --epsilon and --delta, --public reads no row and costs nothing: it says from the release's own numbers how
    far each group is expected to be off.

    Source settings that are not given are those of the first release's card (it holds no path).
    """
    found = from_release_config(options.config) if options.config is not None else {}
    config = AuditConfig.build(**found | given)
    if config.mode == "public" and config.epsilon is None and config.delta is None:
        for folder in config.releases:
            expect(Path(folder))
        return
    with server_ahead(options.verbose) as server:
        _check(config)
        report_audit(run_audit(config, options.verbose, server))


def _check(config: AuditConfig) -> None:
    """Refuse what can be refused without the rows."""
    from equistrata.flows.audit.plan import AuditPlan
    from equistrata.flows.audit.steps import place

    plan = AuditPlan.of(config)
    if plan.account is None and any(release.ledger is not None for release in plan.releases):
        err.print(
            "[yellow]no ledger is named[/], so whether these are the rows that the releases were made from is not "
            "checked; name it with --ledger"
        )
    with place(plan):
        pass


def expect(folder: Path) -> None:
    """Print how far each group of a release is expected to be off, the worst first. Nothing is read but the folder."""
    from equistrata.analysis.release import Release

    release = Release.open(folder)
    found = release.expected_distances()
    by = list(release.strata.columns)
    keys = dict.fromkeys(map(tuple, found[by].to_numpy().tolist())) if by else [()]
    called = {column.name: column.label or column.name for column in release.schema.columns}
    lines = []
    for key in keys:
        part = found[(found[by] == list(key)).all(axis=1)] if by else found
        worst = str(part["column"].iloc[int(part["distance"].argmax())])
        words = release.strata.words(key)
        lines.append((float(part["distance"].mean()), words, float(part["rows"].iloc[0]), called[worst]))
    lines.sort(reverse=True)
    grid = table(
        "expected distance of released shares from the real ones (0 best, 1 worst)", "group", ">rows, about",
        ">distance", "worst column", caption="from published numbers alone: no row was read, nothing was charged",
    )  # fmt: skip
    for distance, words, rows, column in lines:
        grid.add_row(words, f"{rows:,.0f}", f"{distance:.3f}", column)
    out.print(grid)
    if len(lines) > 1:
        served = f"served worst: {lines[0][1]}, expected to be off by {lines[0][0]:.1%} of a column's distribution"
        out.print(served, markup=False, highlight=False)


def run_audit(config: AuditConfig, verbose: bool = False, server: TemporaryServer | None = None) -> Path:
    """Run the audit flow in this process, with a server that was started ahead, if one was; its folder."""
    with flow_here(verbose, server):
        from equistrata.flows.audit.flow import audit

        return Path(audit(config))


def report_audit(folder: Path) -> None:
    """Print the report's path and its verdict; exact numbers to a terminal only."""
    (path,) = folder.glob("*audit.json")
    document = json.loads(path.read_text("utf-8"))
    verdict = document["verdict"]
    page = path.with_suffix(".html")
    out.print(f"[bold green]audited[/] {escape(str(page))}", soft_wrap=True, highlight=False)
    if document["mode"] == "internal":
        out.print("[bold yellow]internal: computed from private rows[/], not to be published")
        if not for_a_person():
            return
    lines: list[str | Padding | Text] = [*verdict["opening"]]
    for name, sentences in verdict["releases"].items():
        lines += [Text(name, "bold"), *(Padding(sentence, (0, 0, 0, 2)) for sentence in sentences)]
    for line in (*lines, *verdict["comparison"], *verdict["caveats"]):
        out.print(line, markup=False, highlight=False)
