"""`equistrata simulate …`: runs of published simulations, to be laid beside the papers' own numbers."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from data.errors import InputError

simulate_app = typer.Typer(
    help="Repeat the simulations of the papers that the methods come from.", no_args_is_help=True
)


@simulate_app.command("ratio")
def ratio_command(
    table: Annotated[
        int, typer.Option(help="1: ratio, Gaussian noise; 2: log ratio; 3, 4: the same, Laplace noise.")
    ] = 1,
    repetitions: Annotated[int, typer.Option(help="How many tables of people are simulated.")] = 1000,
    composition: Annotated[str, typer.Option(help="basic: the paper's; joint: one noise vector.")] = "joint",
    seed: Annotated[int, typer.Option(help="Another run, of other people and noise.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Private intervals for the ratio of two means: Tables 1 to 4 of Miao and Li (2023).

    [bold]Example[/bold]: equistrata simulate ratio --table 1 --composition basic --json
    """
    from inference.ratio_simulation import simulate_ratio

    if composition not in ("basic", "joint"):
        raise InputError(f"composition is {composition!r}; choose basic or joint")
    cells = [asdict(cell) for cell in simulate_ratio(table, repetitions, composition, seed=seed)]
    if as_json:
        print(json.dumps([{name: _plain(value) for name, value in cell.items()} for cell in cells], indent=2))
        return
    grid = Table(title=f"ratio, table {table}, composition {composition}", title_justify="left")
    for heading in cells[0]:
        grid.add_column(heading, justify="right")
    for cell in cells:
        grid.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in cell.values()))
    Console().print(grid)


def _plain(value: Any) -> Any:
    """JSON has no NaN: a mean over no interval is null."""
    return None if isinstance(value, float) and math.isnan(value) else value
