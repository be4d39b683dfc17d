"""The plan as a picture: each stratum's size against the smallest ε at which it can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equistrata.eval.report.pictures import literal
from equistrata.flows.cli.plots import save_plot

if TYPE_CHECKING:
    from equistrata.inference.planning.mean_question import MeanQuestion
    from equistrata.inference.planning.questions import ProportionQuestion

CURVE = 40  # points
NAMED = 16  # strata of a kind that get their name; more would cover the picture
GAP = 0.024  # between names, of an axis
COLOURS = {"readable": "#1f6f8b", "unreadable": "#b5541c", "too few rows": "#8b1f2f"}


def draw(asked: MeanQuestion | ProportionQuestion, plan: dict[str, Any], path: Path) -> None:
    """Draw a plan document to a file; both axes logarithmic. Strata that no ε helps stand at the top."""
    from matplotlib.figure import Figure

    parts = sorted((part for part in plan["strata"] if part["rows"] > 0), key=lambda part: part["rows"])
    least = [part["smallest_epsilon"] for part in parts if part["smallest_epsilon"] is not None]
    fewest = asked.classical_rows * 1.002 or 1.0
    left = min([part["rows"] for part in parts] + [fewest]) / 2
    right = 2 * max([part["rows"] for part in parts] + [2 * plan["rows_needed"]])
    bottom, top = min([plan["epsilon"], *least]) / 3, 12 * max([plan["epsilon"], *least])

    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.subplots()
    sizes = np.geomspace(fewest, right, CURVE)
    needed = [asked.smallest_epsilon(float(size), plan["epsilon"]) for size in sizes]
    axes.plot(sizes, needed, color="#777777", linewidth=1, zorder=1)
    axes.axhline(plan["epsilon"], color="black", linewidth=0.8, linestyle="--")
    at = (1, plan["epsilon"])
    axes.annotate(f"ε = {plan['epsilon']:g}", at, xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axes.axvspan(left, max(asked.classical_rows, left), color=COLOURS["too few rows"], alpha=0.07, linewidth=0)
    for status, colour in COLOURS.items():
        shown = [part for part in parts if part["status"] == status]
        few = status == "too few rows"
        heights = [top / 1.2 if few else part["smallest_epsilon"] for part in shown]
        if shown:
            across = [part["rows"] for part in shown]
            axes.scatter(across, heights, color=colour, marker="x" if few else "o", label=status, zorder=2)
        if status == "readable":
            continue
        low, high = (left, right) if few else (bottom, top)
        order = range(len(shown)) if few else range(len(shown) - 1, -1, -1)  # both ascend along their axis
        named = [shown[i] for i in order][:NAMED]
        places = _apart([part["rows"] if few else part["smallest_epsilon"] for part in named], low, high)
        for part, place in zip(named, places, strict=True):
            spot, away = ((place, top / 1.2), (0, -6)) if few else ((part["rows"], place), (6, 0))
            turned: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "top"} if few else {"va": "center"}
            axes.annotate(literal(part["stratum"]), spot, away, textcoords="offset points", fontsize=7, **turned)
    what = f"{plan['quantity']} of {plan['column']}" if plan["column"] else plan["quantity"]
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.set(xlabel="rows in the stratum (public)", ylabel="smallest ε", title=literal(f"{what}: {plan['goal']}"))
    axes.legend(frameon=False, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    save_plot(figure, path)


def _apart(places: Sequence[float], low: float, high: float) -> list[float]:
    """Ascending places on a logarithmic axis from `low` to `high`, moved up so that names do not cover each other.

    >>> [round(place, 2) for place in _apart([1, 1, 5], 1, 10)]
    [1, 1.06, 5]
    """
    factor = (high / low) ** GAP
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] * factor) if moved else place)
    return moved
