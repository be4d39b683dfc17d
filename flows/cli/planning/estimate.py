"""The plan of an estimate as plain values and as text, with the strata in which the estimate is not readable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from equistrata.flows.cli.console import out, table

if TYPE_CHECKING:
    from equistrata.data.strata import Key, Strata
    from equistrata.data.units.unit import Neighbours
    from equistrata.flows.cli.planning.settings import PlanSettings
    from equistrata.inference.planning.mean_question import MeanQuestion
    from equistrata.inference.planning.questions import ProportionQuestion

PLANNED = "rows", "smallest_epsilon", "rows_needed", "reached", "half_width", "half_width_at_most"
MECHANISMS = (
    "count with Laplace noise, declared size", "Coinpress, noisy size", "Coinpress at two levels, noisy sizes"
)  # fmt: skip
LISTED = 6  # the largest number of strata that are named in a line
SHADES = {"readable": "green", "unreadable": "yellow", "too few rows": "red"}


def estimate_document(
    settings: PlanSettings,
    asked: MeanQuestion | ProportionQuestion,
    strata: Strata,
    sizes: Mapping[Key, float],
    source: str,
) -> dict[str, Any]:
    """Return the plan of an estimate as plain values.

    Parameters
    ----------
    settings : PlanSettings
        The settings.
    asked : MeanQuestion or ProportionQuestion
        The planned estimate.
    strata : Strata
        The strata.
    sizes : mapping of Key to float
        The expected number of rows of each stratum, which is public.
    source : str
        The source of the sizes.

    Returns
    -------
    dict
        The plan. A value is None if it does not apply, or if no ε is sufficient.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """
    from equistrata.inference.planning.forecast import CONFIDENCE
    from equistrata.inference.planning.mean_question import MeanQuestion
    from equistrata.inference.planning.strata import plan_strata

    epsilon = settings.epsilon
    parts = plan_strata(asked, {strata.label(key): size for key, size in sizes.items()}, epsilon)
    mean = isinstance(asked, MeanQuestion)
    return {
        "column": settings.column,
        "quantity": "mean" if mean else "proportion",
        "mechanism": MECHANISMS[isinstance(asked, MeanQuestion) and 1 + bool(asked.sizes)],
        **{name: getattr(asked, name) for name in ("reference", "goal", "effect", "relative_error", "about", "alpha")},
        "beta": asked.beta if asked.goal == "power" else None,
        "epsilon": epsilon,
        "delta": settings.delta if mean else None,
        "part": asked.part,
        "confidence": CONFIDENCE if mean else None,
        "relation": _relation(asked, settings.relation),
        "sizes": {"source": source, "rows": math.fsum(sizes.values())},
        "rows_without_noise": math.ceil(asked.classical_rows),
        "rows_needed": parts[0].rows_needed,
        "correction_factor": asked.rows(epsilon) / asked.classical_rows if asked.classical_rows else None,
        "strata": [
            {"stratum": part.label, "key": dict(zip(strata.columns, key, strict=True))}
            | {name: finite(getattr(part, name)) for name in PLANNED}
            | {"status": part.status}
            for part, key in zip(parts, strata.keys, strict=True)
        ],
        "unreadable": [part.label for part in parts if part.status != "readable"],
        "too_few_rows": [part.label for part in parts if part.status == "too few rows"],
    }


def _relation(asked: MeanQuestion | ProportionQuestion, neighbours: Neighbours) -> str:
    from equistrata.privacy.budget import ADD_REMOVE

    relation = neighbours if asked.relation == ADD_REMOVE else asked.relation
    return relation if asked.unit_rows == 1 else f"{relation} of units of up to {asked.unit_rows} rows"


def finite(number: float) -> float | None:
    """Return the number, or None if it cannot be represented in JSON."""
    return number if math.isfinite(number) else None


def print_estimate(plan: dict[str, Any]) -> None:
    """Print the plan as text."""
    from equistrata.eval.report.templating import template

    words: Any = template(Path(__file__).with_name("plan.txt.j2"), escaped=escape, listed=_listed)
    said = words.make_module({"plan": plan})
    grid = table(None, "stratum", ">rows", ">smallest ε", f">{plan['goal']} at ε = {plan['epsilon']:g}", "")
    for part in plan["strata"]:
        least = "—" if part["smallest_epsilon"] is None else f"{part['smallest_epsilon']:.3g}"
        reached = "—" if part["reached"] is None else _shown(part["reached"], plan["goal"])
        status = f"[{SHADES[part['status']]}]{part['status']}[/]"
        grid.add_row(escape(part["stratum"]), f"{part['rows']:,.0f}", least, reached, status)
    bounds = table(
        None, ">at most", ">used", ">left out", ">readable strata", f">{plan['goal']}, all rows",
        caption="leaving out a part of the rows shifts a mean or a share by less than that part, if it is like "
"the rest",
    )  # fmt: skip
    for each in plan["units"]:
        reached = "—" if each["reached"] is None else _shown(each["reached"], plan["goal"])
        kept, left = f"{each['rows_kept']:.1%}", f"{each['left_out']:.2g}"
        bounds.add_row(str(each["at_most"]), kept, left, f"{each['readable']} of {len(plan['strata'])}", reached)
    for line in (said.head(), grid, *said.foot().splitlines(), *([bounds] if plan["units"] else [])):
        out.print(line, highlight=False)


def _shown(reached: float, goal: str) -> str:
    """Return a power or a relative error as text. Errors above ten are not distinguished."""
    if goal == "power":
        return f"{reached:.3f}"
    return f"{reached:.2g}" if reached < 10 else "> 10"


def _listed(labels: list[str]) -> str:
    more = len(labels) - LISTED
    return escape("; ".join(labels[:LISTED])) + (f"; and {more} more" if more > 0 else "")
