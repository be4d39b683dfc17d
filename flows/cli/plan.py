"""`equistrata plan`: what can be read in each stratum at which price, from public numbers alone.

No source is opened: a plan knows a schema, public group sizes, and what the asker expects to see.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equistrata.errors import InputError

if TYPE_CHECKING:
    from equistrata.data.schema import Column, Schema
    from equistrata.data.strata import Strata
    from equistrata.data.weights import PublicWeights
    from equistrata.inference.planning.questions import MeanQuestion, ProportionQuestion

NEW_YORK = "ny2018_sex_rac1p.csv"
NEW_YORK_COLUMNS = ("SEX", "RAC1P")
RELATIVE_ERROR = 0.1  # what is asked for when nothing is


def plan_command(
    schema: Annotated[str, typer.Option(help="Schema file or built-in name.")] = "acs_means",
    strata: Annotated[str, typer.Option(help="Columns that define strata.", metavar="A,B,…")] = "SEX,RAC1P",
    weights: Annotated[
        str | None, typer.Option(help="File of public group sizes (New York's of 2018 for SEX, RAC1P or both).")
    ] = None,
    weight_column: Annotated[str | None, typer.Option(help="Survey weight in the weights file, as PWGTP.")] = None,
    rows: Annotated[
        float | None, typer.Option(help="Rows in all that are expected (the sum of the sizes if not given).")
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="A numeric column: plan its mean. A categorical one, or none: plan a proportion."),
    ] = None,
    reference: Annotated[
        float | None, typer.Option(help="The mean or proportion expected: a public guess (proportion: 0.5).")
    ] = None,
    effect: Annotated[float | None, typer.Option(help="Goal: see this difference from the reference.")] = None,
    relative_error: Annotated[
        float | None, typer.Option(help="Goal: an interval this wide on either side, over the reference (0.1).")
    ] = None,
    about: Annotated[
        str,
        typer.Option(
            help="Relative error about the population that rows are a sample of, or about the rows themselves.",
            metavar="population|rows",
        ),
    ] = "population",
    alpha: Annotated[float, typer.Option(help="Level of the test, or failure probability of the interval.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Type II error of the test (its power is 1 − beta).")] = 0.2,
    epsilon: Annotated[float, typer.Option(help="The ε that is planned.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ, for means.")] = 1e-9,
    part: Annotated[
        float, typer.Option(help="Part of the price that buys this estimate: of ρ for a mean, of ε for a proportion.")
    ] = 1.0,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan: a file ending in .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan before spending: the smallest ε of each stratum, the rows it needs, and which will stay unreadable.

    Needs public numbers only, and reads no rows.

    [bold]Examples[/bold]

      equistrata plan --strata RAC1P --reference 0.25 --effect 0.05 --beta 0.1 --epsilon 0.5

      equistrata plan --column WKHP --reference 38 --relative-error 0.02 --json

      equistrata plan --schema people.yaml --strata SEX --weights sizes.csv --plot plan.svg
    """
    from equistrata.data.schema import Schema
    from equistrata.data.strata import Strata
    from equistrata.flows.cli.plan_document import plan_document
    from equistrata.flows.cli.plan_text import print_plan

    if plot is not None:
        from equistrata.flows.cli.plan_figure import check_plot

        check_plot(plot)
    loaded = Schema.load(schema)
    cut = Strata.over(loaded, [name.strip() for name in strata.split(",") if name.strip()])
    goal = {
        "effect": effect,
        "relative_error": relative_error,
        "alpha": alpha,
        "beta": beta,
        "part": part,
        "about": about,
    }
    asked = _question(_column(column, loaded, cut), reference, delta, goal)
    document = plan_document(asked, cut, _sizes(weights, weight_column, cut, rows), rows, epsilon, column)
    if plot is not None:
        from equistrata.flows.cli.plan_figure import draw

        draw(asked, document, plot)
    if as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_plan(document)


def _column(name: str | None, schema: Schema, strata: Strata) -> Column | None:
    if name is None:
        return None
    if name in strata.columns:
        raise InputError(f"column {name!r} defines strata, so it is the same for all in one; plan another column")
    return schema[name]


def _question(
    column: Column | None, reference: float | None, delta: float, goal: dict[str, Any]
) -> MeanQuestion | ProportionQuestion:
    """The mean of a numeric column, else a proportion; without a goal, a relative error of a tenth."""
    from equistrata.inference.planning.questions import MeanQuestion, ProportionQuestion

    if goal["effect"] is None and goal["relative_error"] is None:
        goal = goal | {"relative_error": RELATIVE_ERROR}
    if column is None or not column.numeric:
        return ProportionQuestion(reference=0.5 if reference is None else reference, **goal)
    if column.sigma is None or column.lower is None or column.upper is None:
        raise InputError(
            f"column {column.name!r} is numeric and has no 'sigma' in the schema; declare it to plan the column's mean, or "
            "leave --column out to plan a proportion"
        )
    if reference is None and goal["relative_error"] is not None:
        raise InputError(
            f"the relative error of the mean of {column.name!r} needs the mean that is expected; give it with --reference, "
            "or a difference to be seen with --effect"
        )
    lower, upper = column.mean_bounds
    return MeanQuestion(
        lower=lower,
        upper=upper,
        sigma=column.sigma,
        reference=(lower + upper) / 2 if reference is None else reference,
        bounds=column.bounds,
        delta=delta,
        **goal,
    )


def _sizes(path: str | None, weight_column: str | None, strata: Strata, rows: float | None) -> PublicWeights:
    """Public sizes from a file, or New York's; with --rows, only their shares count."""
    from equistrata.data.sources import read_frame
    from equistrata.data.strata import WHOLE
    from equistrata.data.weights import PublicWeights

    if path is not None:
        if weight_column is not None and rows is None:
            raise InputError(
                "survey weights count the people behind a sample, not rows; give the rows in all with --rows"
            )
        return PublicWeights.from_file(path, strata, weight_column)
    if not strata.columns:
        return PublicWeights({WHOLE: 1.0}, "no table (one stratum)")
    if not set(strata.columns) <= set(NEW_YORK_COLUMNS):
        raise InputError(
            f"a plan needs public sizes of the groups of {', '.join(strata.columns)}; give a file with --weights"
        )
    with resources.as_file(resources.files("equistrata.data").joinpath("public", NEW_YORK)) as file:
        frame = read_frame(file)
    summed = frame.groupby(list(strata.columns), as_index=False)["count"].sum()
    return PublicWeights.from_table(summed, strata, f"public table {NEW_YORK!r}")
