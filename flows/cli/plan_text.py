"""A plan as text for a terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from equistrata.flows.cli.console import out, table

LISTED = 6  # strata named in one line of the foot


def print_plan(plan: dict[str, Any]) -> None:
    """Print a plan document: the question, a row for each stratum, the strata that stay unreadable, the bounds."""
    for part in (*_head(plan), _table(plan), *_foot(plan)):
        out.print(part, highlight=False)


def _head(plan: dict[str, Any]) -> list[str]:
    of = f" of {escape(plan['column'])}" if plan["column"] else ""
    what = f"[bold]{plan['quantity']}{of}[/] near {plan['reference']:g}"
    if plan["goal"] == "power":
        goal = f"to detect a difference of {plan['effect']:g} (level {plan['alpha']:g}, power {1 - plan['beta']:g})"
    else:
        of_what = "the population's" if plan["about"] == "population" else "the rows'"
        goal = f"within a relative {plan['relative_error']:.3g} of {of_what}, with confidence {1 - plan['alpha']:.0%}"
    price = f"ε = {plan['epsilon']:g}" + (f", δ = {plan['delta']:g}" if plan["delta"] is not None else "")
    part = "" if plan["part"] == 1 else f", part {plan['part']:.3g} of it for this"
    factor = "" if plan["correction_factor"] is None else f" (K = {plan['correction_factor']:.2f})"
    return [
        f"{what}, {goal}",
        f"{price}{part}; {plan['relation']}; {plan['mechanism']}",
        f"rows needed: {plan['rows_without_noise']:,} without noise, "
        f"[bold]{plan['rows_needed']:,}[/] at this ε{factor}",
        f"sizes: {plan['sizes']['rows']:,.0f} rows, {escape(plan['sizes']['source'])}",
    ]


def _table(plan: dict[str, Any]) -> Table:
    grid = table(None, "stratum", ">rows", ">smallest ε", f">{plan['goal']} at ε = {plan['epsilon']:g}", "")
    shades = {"readable": "green", "unreadable": "yellow", "too few rows": "red"}
    for part in plan["strata"]:
        least = "—" if part["smallest_epsilon"] is None else f"{part['smallest_epsilon']:.3g}"
        reached = "—" if part["reached"] is None else _shown(part["reached"], plan["goal"])
        status = f"[{shades[part['status']]}]{part['status']}[/]"
        grid.add_row(escape(part["stratum"]), f"{part['rows']:,.0f}", least, reached, status)
    return grid


def _shown(reached: float, goal: str) -> str:
    """A power, or a relative error; beyond ten the number says nothing more."""
    if goal == "power":
        return f"{reached:.3f}"
    return f"{reached:.2g}" if reached < 10 else "> 10"


def _foot(plan: dict[str, Any]) -> list[str]:
    few = plan["too_few_rows"]
    noisy = [label for label in plan["unreadable"] if label not in few]
    lines = [f"[yellow]unreadable at this ε:[/] {_listed(noisy)}"] if noisy else []
    lines += [f"[red]unreadable at any:[/] {_listed(few)}"] if few else []
    bound = plan["bound"]
    if bound["strata"] > 1:
        alpha = "∞" if bound["alpha"] is None else f"{bound['alpha']:.3g}"
        named = {
            "theorem_10": f"for sizes like these (Theorem 10, Dirichlet α = {alpha})",
            "proposition_9": "for equal groups (Proposition 9)",
            "unstratified": "unstratified",
        }
        parts = ", ".join(f"{bound['error'][name]:.3g} {words}" for name, words in named.items())
        lines.append(
            f"error of the overall mean of {bound['strata']} Laplace means, at most, with probability "
            f"{1 - bound['gamma']:.0%}: {parts}"
        )
    return lines


def _listed(labels: list[str]) -> str:
    more = len(labels) - LISTED
    return escape("; ".join(labels[:LISTED])) + (f"; and {more} more" if more > 0 else "")
