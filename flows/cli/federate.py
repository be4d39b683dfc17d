"""The command `equistrata federate`, which estimates stratum means and differences from holders who keep their rows."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator
from rich.markup import escape

from equistrata.data.files.formats import NAMES
from equistrata.errors import InputError
from equistrata.flows.cli.console import SEEDED, out, print_json, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, UnitColumn, setting

if TYPE_CHECKING:
    from equistrata.inference.federated.aggregation import SecureAggregator
    from equistrata.inference.federated.estimate import FederatedResult
    from equistrata.inference.federated.protocol import FederatedPlan
    from equistrata.inference.means.estimate import Interval


def _two_numbers(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--clip is {text!r}; give two numbers with a comma between them") from None
    return low, high


class PlannedSettings(Settings):
    """Settings of the plan on which the holders agree. The names are the same as in `FederatedPlan`."""

    outcome: str = setting(..., "Column to average.")
    strata: Names = setting((), "Columns that define strata, such as SEX,RAC1P.")
    arm: str | None = setting(None, "Column that contains the arm of each row.")
    treated: str | None = setting(None, "Value of --arm in the treated arm.")
    control: str | None = setting(None, "Value of --arm in the control arm.")
    clip: Annotated[tuple[float, float] | None, BeforeValidator(_two_numbers)] = setting(
        None, "Narrower range to which the outcome is clipped, such as 0,200000. If not given, its declared bounds."
    )
    epsilon: float = setting(1.0, "ε for every unit.")
    delta: float = setting(1e-6, "δ for every unit.")
    trials: int = setting(1024, "Number of coins of each person. The noise is smaller if there are more coins.")
    level: float = setting(0.95, "Coverage of the intervals.")
    target: Literal["pate", "sate"] = setting(
        "pate", "Difference to estimate: that of the population (pate) or of these people (sate)."
    )
    missing: int = setting(0, "Number of holders that may drop out or collude.")
    largest_share: float | None = setting(
        None, "Largest share of the rows of a cell that one holder may have. Needed with --missing."
    )
    smallest: int | None = setting(None, "Leave out cells with fewer rows than this.")
    unit: UnitColumn = setting(
        None, "Column that identifies the unit of privacy. If not given, the unit of the schema, or else one row."
    )
    at_most: int | None = setting(
        None,
        "Largest number of rows of a unit that each holder uses. If not given, the number in the schema. If it "
        "has none, each unit must have one row only.",
    )


class FederateSettings(PlannedSettings):
    tables: ByPlace[tuple[Path, ...]] = setting(..., f"Table of each holder ({NAMES}).")
    schema_: str = setting(..., "Schema file, or name of a built-in schema.", alias="schema")
    aggregator: Literal["simulation", "flower"] = setting(
        "simulation", "Compute the sums in this process, or run a process for each holder (SecAgg+)."
    )
    timeout: float = setting(60, "Number of seconds that Flower waits for a holder in each stage.")
    seed: int | None = setting(None, "Seed for tests. The result is reproducible, and therefore NOT private.", ge=0)
    output: Path | None = setting(None, "JSON file to write the result to.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


class AnswerSettings(Settings):
    table: Path = setting(..., "Table of this holder.", alias="input")
    plan: Path = setting(..., "Plan that this holder has agreed to.")
    state: Path = setting(..., "Folder in which answers are recorded.")
    seed: int | None = setting(None, "Seed for tests. The answer is reproducible, and therefore NOT private.", ge=0)


@command("federate", FederateSettings)
def federate_command(settings: FederateSettings) -> None:
    """Estimate means and differences by stratum from the tables of several holders.

    The estimates satisfy distributed differential privacy. The rows of each table stay in the process of their holder.
    Only sums of coins over all holders are published. See docs/federated.md for the guarantee and its limits.

    [bold]Examples[/bold]
      equistrata federate north.csv south.csv west.csv --schema people.yaml --outcome PAY --strata SEX --epsilon 1
      equistrata federate a.csv b.csv c.csv d.csv --schema trial.yaml --outcome DAYS --strata SEX --arm NEW --treated 1
      --control 0 --missing 1 --largest-share 0.3 --aggregator flower
    """
    from equistrata.data.schema import Schema
    from equistrata.flows.run.new_files import check_new_file, new_file
    from equistrata.inference.federated.aggregation import TooFewHolders
    from equistrata.inference.federated.estimate import federate
    from equistrata.inference.federated.protocol import FederatedPlan

    schema = Schema.load(settings.schema_)
    same = {name: getattr(settings, name) for name in PlannedSettings.model_fields}
    if schema.unit.column is not None and settings.unit in (None, schema.unit.column):
        own = None if schema.unit.unique else schema.unit.at_most
        same |= {"unit": schema.unit.column, "at_most": own if settings.at_most is None else settings.at_most}
    declared = {str(key): key for key in (() if settings.arm is None else schema[settings.arm].keys)}
    # The plan refuses values that are not declared.
    same |= {name: declared.get(same[name], same[name]) for name in ("treated", "control")}
    plan = FederatedPlan(schema, holders=len(settings.tables), **same)
    if settings.output is not None:
        check_new_file(settings.output)
    try:
        with _aggregator(plan, settings) as adder:
            found = federate(plan, adder)
    except TooFewHolders as error:
        raise InputError(f"{error}; allow more of them to be missing, or start again when they are there") from None
    private = settings.seed is None
    document = {**found.to_dict(), "private": private, "plan": plan.to_dict(settings.schema_)}
    if settings.output is not None:
        with new_file(settings.output) as made:
            made.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    if settings.as_json:
        print_json(document)
    else:
        _show(found, plan, private)


@command("federate-answer", AnswerSettings, hidden=True)
def federate_answer_command(settings: AnswerSettings) -> None:
    """Answer a query of a federated plan for one holder.

    The query is read from standard input and the numbers are printed.

    Aggregators start this command in the process of the holder. The numbers are not private, so they must only be used
    in a secure sum.
    """
    from equistrata.inference.federated.aggregation import SumQuestion
    from equistrata.inference.federated.holder import TableHolder
    from equistrata.inference.federated.protocol import FederatedPlan
    from equistrata.privacy.noise import noise_source

    try:
        asked = json.loads(sys.stdin.read())
        question = SumQuestion(str(asked["kind"]), tuple(int(m) for m in asked["moduli"]), dict(asked["settings"]))
        document = json.loads(settings.plan.read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError("a holder needs a plan file, and a question as JSON on standard input") from None
    noise = noise_source(settings.seed)
    holder = TableHolder(FederatedPlan.from_dict(document), settings.table, noise, settings.state)
    print(json.dumps(holder.answer(question).tolist()))


@contextmanager
def _aggregator(plan: FederatedPlan, settings: FederateSettings) -> Iterator[SecureAggregator]:
    from equistrata.data.repeats import require_unique
    from equistrata.data.sources import FileSource
    from equistrata.inference.federated.aggregation import InProcessAggregator
    from equistrata.inference.federated.holder import TableHolder
    from equistrata.privacy.noise import noise_source

    tables, schema, seed = settings.tables, settings.schema_, settings.seed
    require_unique(map(os.path.realpath, tables), "file")
    for each in tables:
        FileSource(str(each)).check([*plan.columns, *([] if plan.unit is None else [plan.unit])])
    seeds = [None if seed is None else seed * len(tables) + place for place in range(len(tables))]
    if settings.aggregator == "simulation":
        holders = [TableHolder(plan, each, noise_source(own)) for each, own in zip(tables, seeds, strict=True)]
        yield InProcessAggregator(holders, needed=plan.holders - plan.missing)
        return
    from equistrata.inference.federated.flower import flower

    with tempfile.TemporaryDirectory(prefix="equistrata-federate-", ignore_cleanup_errors=True) as folder:  # mode 0700
        agreed = Path(folder) / "plan.json"
        absolute = os.path.abspath(schema) if Path(schema).exists() else schema
        agreed.write_text(json.dumps(plan.to_dict(absolute)), "utf-8")
        answer = [sys.executable, "-m", "equistrata.flows.cli.main", "federate-answer", "--plan", str(agreed)]
        commands = [
            [*answer, "--input", str(each.absolute()), "--state", os.path.join(folder, f"holder-{place}")]
            + ([] if own is None else ["--seed", str(own)])
            for place, (each, own) in enumerate(zip(tables, seeds, strict=True))
        ]
        with flower(commands, missing=plan.missing, timeout=settings.timeout) as running:
            yield running


def _show(found: FederatedResult, plan: FederatedPlan, private: bool) -> None:
    whom = "for every person (one row replaced by another)"
    if plan.unit is not None:
        whom = f"for every unit at one holder ({found.unit}; outcomes replaced)"
    price = f"ε = {found.epsilon:g}, δ = {found.delta:g} {whom}"
    title = f"{escape(plan.outcome)}, {found.stayed} of {found.holders} holders, {found.aggregator}"
    parts = list(found.overall.rows)
    headings = [f">{what}" + ("" if part == "all" else f", {part}") for part in parts for what in ("rows", "mean")]
    headings += [">difference"] * (plan.arm is not None)
    grid = table(title, "stratum", *map(escape, headings), caption=price, caption_justify="left")
    for stratum in (*found.strata, found.overall):
        cells = [escape(stratum.label) if stratum is not found.overall else "all strata"]
        for part in parts:
            cells += [f"{stratum.rows[part]:,}", _interval(stratum.means.get(part))]
        grid.add_row(*cells, *([_interval(stratum.difference)] if plan.arm is not None else []))
    out.print(grid)
    if found.simulated:
        out.print("The sums were computed in this process, as a [bold]simulation[/] of secure aggregation.")
    if not private:
        out.print(SEEDED)


def _interval(interval: Interval | None) -> str:
    return "—" if interval is None else f"{interval.value:.5g} ± {interval.half_width:.2g}"
