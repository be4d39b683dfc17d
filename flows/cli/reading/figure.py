"""Figures of estimates with intervals, and of the course of a series with a panel for each group.

A dot is filled if its estimate was measured.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from equistrata.errors import InputError
from equistrata.eval.report.pictures import literal, shorten
from equistrata.flows.cli.console import note
from equistrata.flows.cli.reading.asking import noisy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DRAWN = 200
MOST_PANELS, PANELS_ACROSS = 60, 4
LONGEST_NAME = 60  # the largest number of characters of a name
COLOUR = "#1f6f8b"
ENDINGS = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Check that a figure can be written.

    Raises
    ------
    InputError
        If the type of the file is not supported, or if the folder does not exist.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"plot {str(path)!r} must end in {', '.join(ENDINGS)}; choose one")
    if not path.absolute().parent.is_dir():
        raise InputError(f"plot {str(path)!r} is in a folder that does not exist; create the folder first")


def save_plot(figure: Figure, path: Path) -> None:
    """Write a figure to a file in one step. If this is not possible, raise an InputError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            figure.savefig(beside, dpi=130, format=path.suffix[1:].lower())
        beside.replace(path)
    except OSError:
        raise InputError(f"plot {str(path)!r} cannot be written; check its folder's permissions") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    if any("missing from font" in str(each.message) for each in met):
        note(
            "[bold yellow]note:[/]",
            f"the font of plot {str(path)!r} lacks some letters of the names, which are shown as boxes",
        )


def draw_estimates(found: pd.DataFrame, names: Sequence[str], title: str, level: float, path: Path) -> None:
    """Draw at most MOST_DRAWN answers to a file, starting at the top. The labels of the lines are given by `names`."""
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
    whom = f" of {found['counted'].iloc[0]}" if "counted" in found and len(found) else ""
    said = f"estimate{whom}, and its {level:.0%} interval"
    axes.set(title=literal(title), xlabel=said, xlim=(least - edge, most + edge))
    axes.set_yticks(places, [literal(shorten(name, LONGEST_NAME)) for name in names])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower right", frameon=False, ncols=2)
    save_plot(figure, path)


def draw_courses(courses: Mapping[str, pd.DataFrame], title: str, level: float, path: Path) -> None:
    """Draw a panel for each group, using the same axes in all panels.

    The number of panels is at most MOST_PANELS. The horizontal axis shows the months. The estimate is drawn as a line
    and its interval as a band. If the estimate of a month is missing, was refused or is mostly noise, there is no dot.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = dict(list(courses.items())[:MOST_PANELS])
    every = pd.concat(shown.values())
    months = np.arange(every["month"].min(), every["month"].max() + 1)
    known = every.loc[every["estimate"].notna(), ["estimate", "lower", "upper"]].to_numpy(dtype=float)
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    room = 0.06 * ((high - low) or 1.0)
    across = min(PANELS_ACROSS, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(0.6 + 2.6 * max(across, 2), 1.0 + 1.7 * down), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (name, lines) in zip(panels, shown.items(), strict=False):
        course = lines.set_index("month").reindex(months)
        value, lower, upper = (course[each].to_numpy(dtype=float) for each in ("estimate", "lower", "upper"))
        value = np.where(noisy(course), np.nan, value)
        ends = np.clip(lower, low - room, high + room), np.clip(upper, low - room, high + room)
        panel.fill_between(months, *ends, color=COLOUR, alpha=0.2, linewidth=0)
        panel.plot(months, value, color=COLOUR, linewidth=1.2)
        for basis, face in (("measured", COLOUR), ("implied", "white")):
            inside = (course["basis"] == basis).to_numpy()
            panel.scatter(months[inside], value[inside], s=14, facecolor=face, edgecolor=COLOUR, zorder=3)
        panel.set_title(literal(shorten(name, LONGEST_NAME // 2)), fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set(ylim=(low - room, high + room), xlim=(months[0] - 0.4, months[-1] + 0.4))
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))  # ticks are whole months
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.suptitle(literal(title))
    figure.supxlabel(
        f"month; bands are {level:.0%} intervals, filled dots are measured, missing dots are noise", fontsize=9
    )
    save_plot(figure, path)
