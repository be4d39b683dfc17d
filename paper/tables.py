"""`equistrata simulate …`: runs of published simulations, to be laid beside the papers' own numbers."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equistrata.errors import InputError

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
    from paper.ratio import simulate_ratio

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


@simulate_app.command("experiments")
def experiments_command(
    table: Annotated[int, typer.Option(help="The paper's table, 1 to 7, whose setting the options below change.")] = 3,
    rounds: Annotated[int | None, typer.Option(help="How many experiments.  [default: 10,000]")] = None,
    arms: Annotated[str | None, typer.Option(help="People in the treated and in the control arm, as 300,700.")] = None,
    epsilons: Annotated[str | None, typer.Option("--epsilon", help="One ε or more, as 0.5,1,2.")] = None,
    trials: Annotated[str | None, typer.Option(help="m, one or more, as 256,1024.")] = None,
    outcomes: Annotated[str | None, typer.Option(help="gaussian or constant-effect.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the gaussian outcomes.")] = None,
    effect: Annotated[float | None, typer.Option(help="The true difference.")] = None,
    target: Annotated[str | None, typer.Option(help="pate or sate.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ.")] = None,
    level: Annotated[float | None, typer.Option(help="Nominal coverage.")] = None,
    variances: Annotated[
        str | None,
        typer.Option(help="private: from noisy second moments; exact: as the paper's tables, which is not private."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another run, of other people and coins.", min=0)] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Processes; they change no number.  [default: one for each core]", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Widths and coverage of private intervals for a difference of two arms: Tables 1 to 7 of Chen et al. (2024).

    Without --variances, --arms or any other change of the setting, a table is run as the paper ran it. With
    --variances private, it is run as equistrata would: with private variances, every order, and θ up to 1/4.

    [bold]Examples[/bold]: equistrata simulate experiments --table 6 --json

    equistrata simulate experiments --variances private --arms 300,900 --epsilon 0.5,3 --trials 64
    """
    from paper.federated import TABLES, as_users_would, simulate

    if table not in TABLES:
        raise InputError(f"the paper has no table {table} of widths and coverage; choose 1 to {max(TABLES)}")
    given: dict[str, Any] = {
        "rounds": rounds,
        "outcomes": outcomes,
        "sigma": sigma,
        "effect": effect,
        "target": target,
        "delta": delta,
        "level": level,
        "variances": variances,
        "arms": _numbers(arms, "--arms", int, 2),
        "epsilons": _numbers(epsilons, "--epsilon", float),
        "trials": _numbers(trials, "--trials", int),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    base = as_users_would(TABLES[table]) if changes.get("variances") == "private" else TABLES[table]
    setting = replace(base, **changes)
    rows = [asdict(row) for row in simulate(setting, seed=seed, workers=workers or os.cpu_count() or 1)]
    if as_json:
        described = asdict(setting)
        described["orders"] = None if setting.orders is None else [min(setting.orders), max(setting.orders)]
        print(json.dumps({"table": table, "seed": seed, "setting": described, "rows": rows}, indent=2))
        return
    kind = "exact variances (not private)" if setting.variances == "exact" else "private variances"
    grid = Table(title=f"table {table}: {setting.target.upper()}, {kind}", title_justify="left")
    for heading in ("method", "m", "ε", "coverage", "width", "its deviation"):
        grid.add_column(heading, justify="left" if heading == "method" else "right")
    for row in rows:
        grid.add_row(
            row["method"],
            "" if row["trials"] is None else str(row["trials"]),
            "∞" if row["epsilon"] is None else f"{row['epsilon']:g}",
            f"{row['coverage']:.3f}",
            f"{row['width']:.4f}",
            f"{row['width_deviation']:.2e}",
        )
    Console().print(grid)


def _numbers(text: str | None, option: str, kind: type, count: int | None = None) -> tuple[Any, ...] | None:
    """ "1,2,3" as numbers; None if it was not given. Raises InputError on anything else."""
    if text is None:
        return None
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        wanted = "numbers" if count is None else f"{count} numbers"
        raise InputError(f"{option} is {text!r}; give {wanted} with commas between them")
    return numbers
