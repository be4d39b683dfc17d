"""`equistrata experiments …`: the stratification paper's figures, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from equistrata.errors import InputError
from paper.config import ExperimentConfig

out = Console()
err = Console(stderr=True)

experiments_app = typer.Typer(help="Make the stratification paper's figures again.", no_args_is_help=True)


@experiments_app.callback()
def _group() -> None:
    """Make the stratification paper's figures again."""


@experiments_app.command("figure")
def figure_command(
    figure: Annotated[int, typer.Argument(help="1 to 9.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, places and strata: minutes, not hours.")] = False,
    source: Annotated[
        str | None,
        typer.Option(metavar="folktables|sample", help="Where the rows are [dim]\\[default: folktables][/dim]."),
    ] = None,
    state: Annotated[str | None, typer.Option(help="State, for source folktables [dim]\\[default: NY][/dim].")] = None,
    year: Annotated[int | None, typer.Option(help="Survey year [dim]\\[default: 2024][/dim].")] = None,
    root_dir: Annotated[str | None, typer.Option(help="Folder with the ACS files [dim]\\[default: acs][/dim].")] = None,
    download: Annotated[bool, typer.Option("--download", help="Let folktables download what is not there.")] = False,
    output: Annotated[
        str | None, typer.Option(help="Folder for figures and runs [dim]\\[default: experiments][/dim].")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds [dim]\\[default: 5; 2 with --quick][/dim].")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes [dim]\\[default: one for each core][/dim].")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Prefect's own log.")] = False,
) -> None:
    """Make one figure: SVG and PNG with bands, its data as CSV, its tables as Markdown.

    Runs are kept in the output folder and shared by the figures: a command that was stopped goes on where it was. The scores
    are exact and the noise is seeded, so nothing that comes out is private; ACS rows are public use.

    [bold]Examples[/bold]

      equistrata experiments figure 5 --quick --root-dir acs

      equistrata experiments figure 9 --source sample --quick --output tried
    """  # fmt: skip
    given: dict[str, Any] = {
        "source": source, "state": state, "year": year, "root_dir": root_dir, "output": output, "seeds": seeds,
        "workers": workers,
    }  # fmt: skip
    settings = {name: value for name, value in given.items() if value is not None}
    config = ExperimentConfig.build(figure=figure, quick=quick, download=download, **settings)
    from equistrata.flows.run.foreground import foreground, progress_bars
    from paper.steps import check

    check(config)  # before Prefect starts
    try:
        with progress_bars(err) as listener, foreground(listener, verbose):
            from paper.run import run

            folder = run(config)
    except InputError:
        raise
    except BaseException:
        err.print(
            f"kept in {config.output}: what was measured; the same command goes on", markup=False, highlight=False
        )
        raise
    report(config, folder)


def report(config: ExperimentConfig, folder: Path) -> None:
    """Say where the figure lies, and what it is not."""
    for path in sorted(folder.glob(f"figure-{config.figure}[.-]*")):
        out.print(f"[bold green]made[/] {escape(str(path))}", soft_wrap=True, highlight=False)
    if config.figure != 1:
        out.print("[bold yellow]not private[/]: exact scores and seeded noise", highlight=False)
