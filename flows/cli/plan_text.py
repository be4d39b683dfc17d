"""A plan as text for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape

from equistrata.eval.report.templating import template
from equistrata.flows.cli.console import out, table

LISTED = 6  # strata named in one line of the foot
SHADES = {"readable": "green", "unreadable": "yellow", "too few rows": "red"}


def print_plan(plan: dict[str, Any]) -> None:
    """Print a plan document: the question, a row for each stratum, the strata that stay unreadable, the bounds."""
    words: Any = template(Path(__file__).with_name("plan.txt.j2"), escaped=escape, listed=_listed)
    said = words.make_module({"plan": plan})
    grid = table(None, "stratum", ">rows", ">smallest ε", f">{plan['goal']} at ε = {plan['epsilon']:g}", "")
    for part in plan["strata"]:
        least = "—" if part["smallest_epsilon"] is None else f"{part['smallest_epsilon']:.3g}"
        reached = "—" if part["reached"] is None else _shown(part["reached"], plan["goal"])
        status = f"[{SHADES[part['status']]}]{part['status']}[/]"
        grid.add_row(escape(part["stratum"]), f"{part['rows']:,.0f}", least, reached, status)
    for each in (said.head(), grid, *said.foot().splitlines()):
        out.print(each, highlight=False)


def _shown(reached: float, goal: str) -> str:
    """A power, or a relative error; beyond ten the number says nothing more."""
    if goal == "power":
        return f"{reached:.3f}"
    return f"{reached:.2g}" if reached < 10 else "> 10"


def _listed(labels: list[str]) -> str:
    more = len(labels) - LISTED
    return escape("; ".join(labels[:LISTED])) + (f"; and {more} more" if more > 0 else "")
