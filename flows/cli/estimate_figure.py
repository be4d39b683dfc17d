"""Estimates as a picture: a dot and its interval on each line, filled where it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from equistrata.eval.report.pictures import literal, shorten
from equistrata.flows.cli.plan_figure import save_plot

MOST_DRAWN = 200
LONGEST_NAME = 60  # characters
COLOUR = "#1f6f8b"


def draw_estimates(found: pd.DataFrame, names: Sequence[str], title: str, level: float, path: Path) -> None:
    """Draw the answers to a file, the first on top; `names` are those of its lines. At most MOST_DRAWN of them."""
    from matplotlib.figure import Figure

    shown = found[found["estimate"].notna()].head(MOST_DRAWN)
    names = [name for name, known in zip(names, found["estimate"].notna(), strict=True) if known][:MOST_DRAWN]
    places = np.arange(len(shown))
    value, lower, upper = (shown[name].to_numpy(dtype=float) for name in ("estimate", "lower", "upper"))
    finite = np.concatenate([value, lower, upper])
    finite = finite[np.isfinite(finite)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    edge = 0.06 * ((most - least) or 1.0)
    figure = Figure(figsize=(7.2, 1.2 + 0.25 * max(len(shown), 2)), layout="constrained")
    axes = figure.subplots()
    axes.hlines(places, np.maximum(lower, least - edge), np.minimum(upper, most + edge), color=COLOUR, linewidth=1.4)
    for basis, face in (("measured", COLOUR), ("implied", "white")):
        inside = (shown["basis"] == basis).to_numpy()
        if inside.any():
            axes.scatter(value[inside], places[inside], facecolor=face, edgecolor=COLOUR, zorder=2, label=basis)
    if least < 0 < most:
        axes.axvline(0, color="#777777", linewidth=0.8, linestyle="--")
    axes.set(title=literal(title), xlabel=f"estimate, and its {level:.0%} interval", xlim=(least - edge, most + edge))
    axes.set_yticks(places, [literal(shorten(name, LONGEST_NAME)) for name in names])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower right", frameon=False, ncols=2)
    save_plot(figure, path)
