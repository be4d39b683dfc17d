"""The command `equistrata plan`, which plans an estimate or a synthesis from public numbers only."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from equistrata.errors import InputError
from equistrata.flows.cli.console import note, print_json
from equistrata.flows.cli.options import command
from equistrata.flows.cli.planning.settings import PlanSettings

if TYPE_CHECKING:
    from equistrata.data.schema import Column, Schema
    from equistrata.data.strata import Key, Strata
    from equistrata.data.weights import PublicWeights
    from equistrata.inference.planning.mean_question import MeanQuestion
    from equistrata.inference.planning.questions import ProportionQuestion

NEW_YORK = "ny2018_sex_rac1p.csv"
NEW_YORK_COLUMNS = ("SEX", "RAC1P")
RELATIVE_ERROR = 0.1  # the default goal
ALPHA = 0.05  # the default value
OF_ESTIMATES = "column", "reference", "effect", "relative_error", "about", "alpha", "beta", "tail", "shrinkage"


@command("plan", PlanSettings)
def plan_command(settings: PlanSettings) -> None:
    """Plan an estimate or a synthesis before any budget is spent. There is no privacy cost.

    The plan shows the smallest ε and the number of rows that an estimate needs in each stratum. It also lists the
    strata in which the estimate is not readable for any ε. If --synthesizer is given, the plan shows the noise of a
    synthesis instead. It consists of the errors of marginals by stratum, and of the ε from which pairs of columns are
    readable. All inputs are public numbers, and no rows are read.

    [bold]Examples[/bold]
      equistrata plan --strata RAC1P --reference 0.25 --effect 0.05 --beta 0.1 --epsilon 0.5
      equistrata plan --column WKHP --reference 38 --relative-error 0.02 --json
      equistrata plan --schema people.yaml --strata SEX --weights sizes.csv
      equistrata plan --synthesizer mst --strata SEX --epsilon 0.1
    """
    if settings.synthesizer is None:
        _plan_estimate(settings)
    else:
        _plan_synthesis(settings)


def plan_document(settings: PlanSettings) -> dict[str, Any]:
    """Return the plan as plain values, which the command prints as JSON. There is no privacy cost.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """
    return planned(settings) if settings.synthesizer is None else _planned_synthesis(settings)[1]


def _plan_estimate(settings: PlanSettings) -> None:
    from equistrata.flows.cli.planning.estimate import print_estimate

    document = planned(settings)
    if settings.as_json:
        print_json(document, allow_nan=False)
    else:
        print_estimate(document)


def planned(settings: PlanSettings) -> dict[str, Any]:
    """Return the plan of an estimate as plain values.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """
    from equistrata.data.schema import Schema
    from equistrata.data.strata import Strata
    from equistrata.data.units.unit import unit_sizes_of
    from equistrata.flows.cli.planning.estimate import estimate_document, finite
    from equistrata.flows.cli.planning.synthesis import BOUNDS, rows_kept
    from equistrata.inference.planning.mean_question import MeanQuestion

    if settings.columns:
        raise InputError(
            "--columns only applies to the plan of a synthesis; give a synthesizer too, such as --synthesizer mst"
        )
    for name in ("unit_weights", "survey_weight"):
        if getattr(settings, name) is not None:
            raise InputError(
                f"setting {name!r} only applies to the plan of a synthesis; give a synthesizer too, or leave this "
                "setting out"
            )
    schema = Schema.load(settings.schema_ or "acs_means")
    at_most = settings.rows_of_unit(schema)
    _check_strata(settings, schema)
    strata = Strata.over(schema, settings.strata)
    if settings.column in strata.columns:
        raise InputError(f"column {settings.column!r} defines strata, so it is constant in each; plan another column")
    column = None if settings.column is None else schema[settings.column]
    asked = _question(settings, column)
    weights = _sizes(settings, strata)
    sizes = _rows(settings, strata, weights)
    unit_sizes = unit_sizes_of(settings.unit_sizes)
    document, others = {}, []
    for bound in (*(BOUNDS if unit_sizes else ()), at_most):
        kept = rows_kept(unit_sizes, bound) if unit_sizes else 1.0
        used = {key: size * kept for key, size in sizes.items()}
        asked = replace(asked, unit_rows=bound)
        if isinstance(asked, MeanQuestion) and settings.shrinkage and len(sizes) > 1:
            asked = replace(asked, sizes=tuple(used.values()))
        document = estimate_document(settings, asked, strata, used, weights.source)
        readable = len(used) - len(document["unreadable"])
        whole = replace(asked, sizes=()) if isinstance(asked, MeanQuestion) else asked
        reached = whole.reached(math.fsum(used.values()), settings.epsilon)
        others.append(
            {
                "at_most": bound,
                "rows_kept": kept,
                "left_out": 1 - kept,
                "readable": readable,
                "reached": finite(reached),
            }
        )
    return document | {"at_most": at_most, "units": others[:-1]}


def _check_strata(settings: PlanSettings, schema: Schema) -> None:
    from equistrata.data.columns.nesting import BETWEEN

    absent = [name for name in settings.strata if name not in (*schema.names, *schema.cells) and BETWEEN not in name]
    if absent:
        raise InputError(
            f"stratum column {absent[0]!r} is not among the columns ({', '.join(schema.names)}); name yours with "
            "--strata, or none with --strata ''"
        )


def _plan_synthesis(settings: PlanSettings) -> None:
    from equistrata.data.columns.column import MOST_FOUND
    from equistrata.flows.cli.planning.synthesis import print_synthesis

    schema, document = _planned_synthesis(settings)
    if settings.as_json:
        print_json(document, allow_nan=False)
        return
    print_synthesis(document)
    if schema.open:
        most = f"planned with {MOST_FOUND} values, the largest number; --part 0.95 sets their cost aside"
        note("open:", f"{', '.join(schema.open)}: {most}")


def _planned_synthesis(settings: PlanSettings) -> tuple[Schema, dict[str, Any]]:
    """Return the declared schema and the plan of a synthesis.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """
    from equistrata.data.schema import Schema
    from equistrata.data.strata import Strata
    from equistrata.flows.cli.planning.synthesis import synthesis_document
    from equistrata.flows.release.inputs import check_weighed

    fields = type(settings).model_fields
    given = [name for name in OF_ESTIMATES if getattr(settings, name) != fields[name].default]
    if given:
        raise InputError(
            f"setting {given[0]!r} only applies to the plan of an estimate; leave out this setting, or the synthesizer"
        )
    declared = Schema.load(settings.schema_ or "acs_employment")
    if settings.survey_weight is not None:
        declared = declared.with_survey_weight(settings.survey_weight)
    raw = declared.released(settings.columns) if settings.columns else declared.selected()
    if raw.survey_weight is not None:
        check_weighed(raw.survey_weight, settings.strata, str(settings.synthesizer))
    schema = raw.largest_possible()
    _ = schema.sizes  # raises an error if a column has no bins
    _check_strata(settings, schema)
    _ = Strata.over(raw, settings.strata)  # raises an error if a column is open
    strata = Strata.over(schema, settings.strata)
    weights = _sizes(settings, strata)
    sizes = _rows(settings, strata, weights)
    return raw, synthesis_document(settings, strata, sizes, weights.source)


def _question(settings: PlanSettings, column: Column | None) -> MeanQuestion | ProportionQuestion:
    from equistrata.inference.planning.mean_question import MeanQuestion
    from equistrata.inference.planning.questions import ProportionQuestion

    reference, error = settings.reference, settings.relative_error
    if settings.effect is None and error is None:
        error = RELATIVE_ERROR
    interval = column is not None and column.numeric and error is not None
    goal: dict[str, Any] = {"effect": settings.effect, "relative_error": error, "beta": settings.beta}
    goal |= {"part": settings.part, "about": settings.about or ("rows" if interval else "population")}
    goal["alpha"] = ALPHA if settings.alpha is None else settings.alpha
    if column is None or not column.numeric:
        return ProportionQuestion(reference=0.5 if reference is None else reference, **goal)
    if column.sigma is None or column.lower is None or column.upper is None:
        raise InputError(
            f"column {column.name!r} is numeric and has no 'sigma' in the schema; declare it to plan the column's "
            "mean, or leave --column out to plan a proportion"
        )
    if reference is None and error is not None:
        raise InputError(
            f"the relative error of the mean of {column.name!r} needs the mean that is expected; give it with "
            "--reference, or a difference to detect with --effect"
        )
    lower, upper = column.mean_bounds
    return MeanQuestion(
        lower=lower,
        upper=upper,
        sigma=column.sigma,
        reference=(lower + upper) / 2 if reference is None else reference,
        bounds=column.bounds,
        delta=settings.delta,
        tail=settings.tail,
        replaced=settings.relation == "replace-one",
        **goal,
    )


def _sizes(settings: PlanSettings, strata: Strata) -> PublicWeights:
    """Return public sizes from a file or, for a built-in schema, from New York.

    With --rows, only their shares are used.
    """
    from equistrata.data.columns.cells import numbers
    from equistrata.data.columns.column import Column
    from equistrata.data.declaration import built_in_schemas
    from equistrata.data.sources import read_frame
    from equistrata.data.strata import WHOLE
    from equistrata.data.weights import ROWS, PublicWeights

    if settings.sizes:
        return _typed(settings, strata)
    if settings.weights is not None:
        if settings.weight_column not in (None, ROWS) and settings.rows is None:
            raise InputError(
                "survey weights add up to people and not to rows; give the total number of rows with --rows"
            )
        return PublicWeights.from_file(settings.weights, strata, settings.weight_column)
    if not strata.columns:
        return PublicWeights({WHOLE: 1.0}, "no table (one stratum)")
    if settings.schema_ not in (None, *built_in_schemas()) or not set(strata.columns) <= set(NEW_YORK_COLUMNS):
        raise InputError(
            f"the groups of {', '.join(strata.columns)} need public sizes; type them with --sizes, in the order "
            f"{_order(strata)}, or give a file with --weights (of counts, shares, or a public sample)"
        )
    with resources.as_file(resources.files("equistrata.data").joinpath("public", NEW_YORK)) as file:
        frame = read_frame(file)
    counted = frame.assign(count=numbers(frame["count"], Column("count"))[0])
    summed = counted.groupby(list(strata.columns))["count"].sum().reset_index()
    return PublicWeights.from_table(summed, strata, f"public table {NEW_YORK!r}")


def _typed(settings: PlanSettings, strata: Strata) -> PublicWeights:
    """Return the sizes that were given on the command line. If they are not valid, raise an InputError."""
    from equistrata.data.weights import PublicWeights

    if settings.weights is not None:
        raise InputError("--sizes and --weights are both given; give one of them")
    try:
        sizes = [float(each) for each in settings.sizes]
    except ValueError:
        raise InputError("setting 'sizes' needs numbers, such as 9000,11000") from None
    if len(sizes) != len(strata.keys) or not all(math.isfinite(size) and size >= 0 for size in sizes):
        raise InputError(
            f"setting 'sizes' has {len(sizes)} numbers, but it needs one for each of {len(strata.keys)} groups, 0 or "
            f"more, in the order {_order(strata)}"
        )
    return PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, "--sizes")


def _order(strata: Strata, most: int = 6) -> str:
    """Return the labels of the first groups in order."""
    labels = [strata.label(key) for key in strata.keys[:most]]
    return "; ".join(labels) + ("; …" if len(strata.keys) > most else "")


def _rows(settings: PlanSettings, strata: Strata, weights: PublicWeights) -> dict[Key, float]:
    """Return the expected number of rows of each stratum. If it is not known, raise an InputError."""
    rows = weights.total if settings.rows is None else settings.rows
    if rows is None:
        raise InputError(f"the sizes from {weights.source} are shares; give the total number of rows with --rows")
    if not (math.isfinite(rows) and rows > 0):
        raise InputError(f"setting 'rows' is {rows:g}, but must be a positive number; give the rows that you expect")
    return {key: weights.shares[key] * rows for key in strata.keys}
