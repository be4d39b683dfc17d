"""The command `equistrata audit RELEASE…`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from equistrata.flows.config.audit import AuditConfig, from_release_config
from equistrata.flows.release.inside import for_a_person

out = Console()
err = Console(stderr=True)

AUDIT_HELP = """Audit releases against their private rows: who is served how well, as a page to be opened in a browser.

[bold]--internal[/bold] (the default): exact numbers, at no cost, into a folder that is yours alone. Not to be published.

[bold]--public[/bold]: every number is noisy, is paid for with --epsilon and --delta, and stands with its interval.

[bold]Examples[/bold]

  equistrata audit ny2018 --root-dir acs

  equistrata audit stratified vanilla --config release.yaml --output compared

  equistrata audit ny2018 --public --epsilon 0.5 --root-dir acs --ledger ledger.db --pdf

Where the rows lie is taken from the first release's card, as far as it says so (it holds no path).
"""


def audit_command(
    releases: Annotated[list[Path], typer.Argument(help="Release folders; the first is compared with each other.")],
    public: Annotated[
        bool, typer.Option("--public/--internal", help="Noisy and paid for, or exact and kept inside.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="ε of a public audit [dim]\\[default: 1][/dim].")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of a public audit [dim]\\[default: 1e-9][/dim].")] = None,
    dataset: Annotated[str | None, typer.Option(help="Whose budget is charged (the releases' own).")] = None,
    ledger: Annotated[str | None, typer.Option(help="Path, URL without password, or block:NAME.")] = None,
    strata: Annotated[
        str | None, typer.Option(help="Columns that define groups (the finest of the releases').")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column that classifiers predict (the schema's).")] = None,
    config: Annotated[Path | None, typer.Option(help="The release's configuration file: where its rows lie.")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="sample|folktables|csv|parquet", help="Where the rows are.")
    ] = None,
    input_: Annotated[str | None, typer.Option("--input", help="The table of private rows.")] = None,
    state: Annotated[str | None, typer.Option(help="States, for source folktables.")] = None,
    year: Annotated[int | None, typer.Option(help="Survey year, for source folktables.")] = None,
    horizon: Annotated[str | None, typer.Option(metavar="1-Year|5-Year", help="Survey horizon.")] = None,
    root_dir: Annotated[str | None, typer.Option(help="Folder with the ACS files, for source folktables.")] = None,
    download: Annotated[bool | None, typer.Option("--download/--no-download", help="Let folktables download.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder to make (in the first release, if not given).")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Print the report as PDF too.")] = False,
    seed: Annotated[int | None, typer.Option(help="For tests: reproducible, and therefore NOT private.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own log.")] = False,
) -> None:
    """See AUDIT_HELP."""
    settings: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "dataset": dataset, "ledger": ledger, "strata": strata, "target": target,
        "source": source, "input": input_, "state": state, "year": year, "horizon": horizon, "root_dir": root_dir,
        "download": download, "output": output, "seed": seed,
    }  # fmt: skip
    given = {name: value for name, value in settings.items() if value is not None}
    found = from_release_config(config) if config is not None else {}
    resolved = AuditConfig.build(
        **found | given, releases=tuple(map(str, releases)), mode="public" if public else "internal", pdf=pdf
    )
    from equistrata.flows.audit.plan import AuditPlan
    from equistrata.flows.audit.steps import place
    from equistrata.flows.run.foreground import progress_bars

    plan = AuditPlan.of(resolved)  # everything that can be said to be wrong without the rows is said at once
    if plan.account is None and any(release.ledger is not None for release in plan.releases):
        err.print(
            "[yellow]no ledger is named[/], so whether these are the rows that the releases were made from is not checked; name it "
            "with --ledger"
        )
    with place(plan):
        pass
    with progress_bars(err) as listener:
        folder = run_audit(resolved, listener, verbose)
    report_audit(folder)


def run_audit(config: AuditConfig, listener: Any, verbose: bool = False) -> Path:
    """Run the audit flow in this process, with or without a Prefect server configured."""
    from equistrata.flows.run.foreground import foreground

    with foreground(listener, verbose):
        from equistrata.flows.audit.flow import audit

        return Path(audit(config))


def report_audit(folder: Path) -> None:
    """Print where the report lies, and its verdict; exact numbers to a terminal only."""
    (path,) = folder.glob("*audit.json")
    document = json.loads(path.read_text("utf-8"))
    said = document["verdict"]
    page = path.with_suffix(".html")
    out.print(f"[bold green]audited[/] {escape(str(page))}", soft_wrap=True, highlight=False)
    if document["mode"] == "internal":
        out.print("[bold yellow]internal: computed from private rows[/], not to be published")
        if not for_a_person():
            return
    for sentence in said["opening"]:
        out.print(sentence, markup=False, highlight=False)
    for name, sentences in said["releases"].items():
        out.print(f"[bold]{escape(name)}[/]", highlight=False)
        for sentence in sentences:
            out.print(Padding(sentence, (0, 0, 0, 2)), markup=False, highlight=False)
    for sentence in (*said["comparison"], *said["caveats"]):
        out.print(sentence, markup=False, highlight=False)
