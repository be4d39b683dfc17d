"""`equistrata federate`: joint stratum means and differences from holders who keep their rows."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.data.schema import Column
    from equistrata.inference.federated.aggregation import SecureAggregator
    from equistrata.inference.federated.estimate import FederatedPlan, FederatedResult
    from equistrata.privacy.noise import NoiseSource

SIMULATION, FLOWER = "simulation", "flower"


def federate_command(
    tables: Annotated[list[Path], typer.Argument(help="Each holder's own table, CSV or Parquet.")],
    schema: Annotated[str, typer.Option(help="A schema file, or the name of a built-in one.")],
    outcome: Annotated[str, typer.Option(help="The column to average.")],
    strata: Annotated[str, typer.Option(help="Columns that define strata, as SEX,RAC1P.")] = "",
    arm: Annotated[str | None, typer.Option(help="The column that says which arm a row is in.")] = None,
    treated: Annotated[str | None, typer.Option(help="Its value in the treated arm.")] = None,
    control: Annotated[str | None, typer.Option(help="Its value in the control arm.")] = None,
    clip: Annotated[str | None, typer.Option(help="Narrower range of the outcome, as 0,200000.")] = None,
    epsilon: Annotated[float, typer.Option(help="ε, for every person.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ.")] = 1e-6,
    trials: Annotated[int, typer.Option(help="m, the coins of each person; more lose less to noise.")] = 1024,
    level: Annotated[float, typer.Option(help="What the intervals cover.")] = 0.9,
    target: Annotated[str, typer.Option(help="pate: the population's difference; sate: these people's.")] = "pate",
    missing: Annotated[int, typer.Option(help="How many holders may drop out, or tell what they know.")] = 0,
    largest_share: Annotated[
        float | None, typer.Option(help="The most of a cell that one holder has; needed with --missing.")
    ] = None,
    smallest: Annotated[int | None, typer.Option(help="Leave out cells with fewer rows.")] = None,
    aggregator: Annotated[
        str, typer.Option(help="simulation: added up in this process; flower: one process a holder, SecAgg+.")
    ] = SIMULATION,
    timeout: Annotated[float, typer.Option(help="Seconds that Flower waits for a holder in each stage.")] = 60,
    seed: Annotated[int | None, typer.Option(help="Repeatable, and NOT private.", min=0)] = None,
    output: Annotated[Path | None, typer.Option(help="Write the result there, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Joint means and differences by stratum, from several holders' tables, under distributed differential privacy.

    Each table's rows stay in their holder's process; only sums of coins, added up over all holders, come out. What is
    promised, and what is not: docs/federated.md.

    [bold]Examples[/bold]

      equistrata federate north.csv south.csv west.csv --schema people.yaml --outcome PAY --strata SEX --epsilon 1

      equistrata federate a.csv b.csv c.csv d.csv --schema trial.yaml --outcome DAYS --strata SEX --arm NEW --treated 1
      --control 0 --missing 1 --largest-share 0.3 --aggregator flower
    """
    from equistrata.data.schema import Schema
    from equistrata.inference.federated.aggregation import TooFewHolders
    from equistrata.inference.federated.estimate import FederatedPlan, federate

    loaded = Schema.load(schema)
    if aggregator not in (SIMULATION, FLOWER):
        raise InputError(f"unknown aggregator {aggregator!r}; choose {SIMULATION} or {FLOWER}")
    column = None if arm is None else loaded[arm]
    plan = FederatedPlan(
        loaded,
        outcome,
        holders=len(tables),
        strata=tuple(name.strip() for name in strata.split(",") if name.strip()),
        arm=arm,
        treated=_value(treated, column),
        control=_value(control, column),
        clip=_clip(clip),
        epsilon=epsilon,
        delta=delta,
        trials=trials,
        level=level,
        target=target,  # type: ignore[arg-type]  # the plan refuses others
        missing=missing,
        largest_share=largest_share,
        smallest=smallest,
    )
    if output is not None and output.exists():
        raise InputError(f"output {str(output)!r} exists already; name another file")
    try:
        with _aggregator(plan, schema, tables, aggregator, timeout, seed) as adder:
            found = federate(plan, adder)
    except TooFewHolders as error:
        raise InputError(f"{error}; let more of them be missing, or start again when they are there") from None
    document = {**found.to_dict(), "private": seed is None, "plan": plan.to_dict(schema)}
    if output is not None:
        output.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        _show(found, plan, seed)


def federate_answer_command(
    table: Annotated[Path, typer.Option("--input", help="This holder's own table.")],
    plan: Annotated[Path, typer.Option(help="The plan that this holder has agreed to.")],
    state: Annotated[Path, typer.Option(help="A folder to remember in what was answered.")],
    seed: Annotated[int | None, typer.Option(help="Repeatable, and NOT private.", min=0)] = None,
) -> None:
    """One holder's answer to a question of a federated plan: the question on standard input, the numbers on standard output.

    For aggregators to start in the holder's own process; the numbers are for a secure sum, and for nobody's eyes.
    """
    from equistrata.inference.federated.aggregation import SumQuestion
    from equistrata.inference.federated.holder import FileRows, TableHolder
    from equistrata.inference.federated.protocol import FederatedPlan

    try:
        asked = json.loads(sys.stdin.read())
        question = SumQuestion(str(asked["kind"]), tuple(int(m) for m in asked["moduli"]), dict(asked["settings"]))
        document = json.loads(plan.read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError("a holder needs a plan file, and a question as JSON on standard input") from None
    holder = TableHolder(FederatedPlan.from_dict(document), FileRows(str(table)), _noise(seed), state)
    print(json.dumps(holder.answer(question).tolist()))


@contextmanager
def _aggregator(
    plan: FederatedPlan, schema: str, tables: Sequence[Path], kind: str, timeout: float, seed: int | None
) -> Iterator[SecureAggregator]:
    from equistrata.data.sources import check_file
    from equistrata.inference.federated.aggregation import InProcessAggregator
    from equistrata.inference.federated.holder import FileRows, TableHolder

    for table in tables:
        check_file(table, plan.columns)
    seeds = [None if seed is None else seed * len(tables) + place for place in range(len(tables))]
    if kind == SIMULATION:
        holders = [
            TableHolder(plan, FileRows(str(table)), _noise(own)) for table, own in zip(tables, seeds, strict=True)
        ]
        yield InProcessAggregator(holders, needed=plan.holders - plan.missing)
        return
    from equistrata.inference.federated.flower import flower

    folder = Path(tempfile.mkdtemp(prefix="equistrata-federate-"))  # mkdtemp makes it 0700
    try:
        agreed = folder / "plan.json"
        agreed.write_text(json.dumps(plan.to_dict(_absolute(schema))), "utf-8")
        commands = []
        for place, (table, own) in enumerate(zip(tables, seeds, strict=True)):
            command = [
                sys.executable,
                "-m",
                "equistrata.flows.cli.main",
                "federate-answer",
                "--input",
                str(table.absolute()),
            ]
            command += ["--plan", str(agreed), "--state", str(folder / f"holder-{place}")]
            commands.append(command + ([] if own is None else ["--seed", str(own)]))
        with flower(commands, missing=plan.missing, timeout=timeout) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _absolute(schema: str) -> str:
    return os.path.abspath(schema) if Path(schema).exists() else schema


def _noise(seed: int | None) -> NoiseSource:
    from equistrata.privacy.noise import SecureNoise, SeededNoise

    return SecureNoise() if seed is None else SeededNoise(seed)


def _value(text: str | None, column: Column | None) -> Any:
    """A declared value of the arm's column from the command line; itself if none is meant, so that the plan refuses it."""
    if text is None or column is None:
        return text
    return next((key for key in column.keys if str(key) == text), text)


def _clip(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--clip is {text!r}; give two numbers with a comma between them") from None
    return low, high


def _show(found: FederatedResult, plan: FederatedPlan, seed: int | None) -> None:
    out = Console()
    price = f"ε = {found.epsilon:g}, δ = {found.delta:g} for every person (one row replaced by another)"
    title = f"{escape(plan.outcome)}, {found.stayed} of {found.holders} holders, {found.aggregator}"
    grid = Table(title=title, caption=price, title_justify="left", caption_justify="left")
    grid.add_column("stratum")
    parts = list(found.overall.rows)
    for part in parts:
        grid.add_column("rows" if part == "all" else f"rows, {escape(part)}", justify="right")
        grid.add_column("mean" if part == "all" else f"mean, {escape(part)}", justify="right")
    if plan.arm is not None:
        grid.add_column("difference", justify="right")
    for stratum in (*found.strata, found.overall):
        cells = [escape(stratum.label) if stratum is not found.overall else "all strata"]
        for part in parts:
            cells += [f"{stratum.rows[part]:,}", _interval(stratum.means.get(part))]
        grid.add_row(*cells, *([_interval(stratum.difference)] if plan.arm is not None else []))
    out.print(grid)
    if found.simulated:
        out.print("The sums were added up in this process: a [bold]simulation[/] of secure aggregation.")
    if seed is not None:
        out.print("[bold yellow]not private[/]: seeded noise; for tests and benchmarks only")


def _interval(interval: Any) -> str:
    return "—" if interval is None else f"{interval.value:.5g} ± {interval.half_width:.2g}"
