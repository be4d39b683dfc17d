"""Pictures of curves with bands: what was measured against what was varied, as SVG, PNG, CSV and a Markdown table.

>>> curve = Curve.of("AIM", {0.1: [3.0, 1.0], 1.0: [0.5, 0.25]})
>>> curve.x, curve.value, curve.runs
((0.1, 1.0), (2.0, 0.375), 2)
>>> [round(end, 2) for end in (curve.lower[0], curve.upper[0])]
[1.2, 2.8]
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equistrata.eval.report.pictures import LIGHT, STYLE, Picture, canvas_of, series_mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

BAND = (0.1, 0.9)  # quantiles of the runs
DPI = 150
PANEL = 2.55  # inches of height
NARROWEST = 0.14  # of a logarithmic axis, between the places of two tick labels


@dataclass(frozen=True)
class Curve:
    """One curve.

    Attributes:
        name: what the legend says. Curves of one name look alike in all panels of a picture.
        x, value: the places, ascending, and what the curve is there.
        lower, upper: the ends of the band; equal to `value` where there is none.
        runs: the least number of runs behind a value; 0 for what was not measured here (a theory, a published number).
        style: "line"; "points"; or "dotted", for numbers of others.
        like: the curve whose colour it takes; its own name if empty.
    """

    name: str
    x: tuple[float, ...]
    value: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    runs: int = 0
    style: str = "line"
    like: str = ""

    @classmethod
    def of(cls, name: str, runs: Mapping[float, Sequence[float]]) -> Curve:
        """The mean of the runs at each place, with a band from the 10 % to the 90 % quantile of them (interpolated)."""
        places = sorted(runs)
        low, high = (tuple(float(np.quantile(runs[x], level)) for x in places) for level in BAND)
        least = min((len(runs[x]) for x in places), default=0)
        return cls(name, tuple(places), tuple(float(np.mean(runs[x])) for x in places), low, high, least)

    @classmethod
    def plain(cls, name: str, points: Mapping[float, float], style: str = "line", like: str = "") -> Curve:
        """A curve without runs or band."""
        places = tuple(sorted(points))
        values = tuple(float(points[x]) for x in places)
        return cls(name, places, values, values, values, style=style, like=like)


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes; `levels` are horizontal lines, by name."""

    title: str
    curves: tuple[Curve, ...]
    x: str
    y: str
    x_log: bool = True
    y_log: bool = True
    levels: Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class CurvePicture(Picture):
    """Panels in rows of `columns`. The description is a note: where the numbers are from and whether they are private.

    Attributes:
        dotted: what the legend says of all dotted curves.
    """

    panels: tuple[Panel, ...]
    columns: int
    dotted: str = ""

    def draw(self, narrow: bool = False) -> Canvas:
        """See `Picture.draw`; as wide as its columns."""
        rows = math.ceil(len(self.panels) / self.columns)
        names = list(dict.fromkeys(c.name for panel in self.panels for c in panel.curves if c.style != "dotted"))
        dotted = [self.dotted] if self.dotted else []
        width = 2.6 + 2.6 * self.columns
        abreast = max(1, int(width / 2.3))
        head = 0.55 + 0.2 * math.ceil((len(names) + len(dotted)) / abreast)
        canvas = canvas_of(narrow, PANEL * rows + head, width=width)
        grid = canvas.subplots(rows, self.columns, squeeze=False, sharey="row")
        positive = all(value > 0 for panel in self.panels if panel.y_log for c in panel.curves for value in c.value)
        for axes in list(grid.flat)[len(self.panels) :]:
            axes.set_visible(False)
        for place, (axes, panel) in enumerate(zip(grid.flat, self.panels, strict=False)):
            _draw_panel(axes, panel, names, log=panel.y_log and positive)
            if place % self.columns == 0:
                axes.set_ylabel(panel.y)
        handles = [_handle(names.index(name), name) for name in names]
        handles += [_handle(-1, name, linestyle=":", marker="") for name in dotted]
        canvas.legend(
            handles=handles, loc="outside upper left", ncols=abreast, fontsize=8.5, title=self.title,
            title_fontsize=11.5, alignment="left",
        )  # fmt: skip
        note = textwrap.fill(self.description, int(width * 15))
        canvas.supxlabel(note, fontsize=7.5, color=LIGHT["alarm"], x=0.01, ha="left")
        return canvas


def save(picture: CurvePicture, folder: Path) -> list[Path]:
    """Write `<name>.svg`, `.png`, `.csv` and `.md`; returns the paths. Raises OSError."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{picture.name}.{ending}" for ending in ("svg", "png", "csv", "md")]
    with rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": picture.name}):
        canvas = picture.draw()
        about = {"Title": picture.title, "Description": picture.description}
        canvas.savefig(paths[0], metadata={**about, "Date": None, "Creator": None})
        canvas.savefig(paths[1], dpi=DPI, metadata=about)
    paths[2].write_text(as_csv(picture), "utf-8")
    paths[3].write_text(as_markdown(picture), "utf-8")
    return paths


def as_csv(picture: CurvePicture) -> str:
    """The numbers in the picture: one line for each point of each curve, each with the note."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["panel", "curve", "x", "value", "lower", "upper", "runs", "note"])
    for panel in picture.panels:
        for curve in panel.curves:
            for point in zip(curve.x, curve.value, curve.lower, curve.upper, strict=True):
                numbers = [f"{number:.6g}" for number in point]
                writer.writerow([panel.title, curve.name, *numbers, curve.runs, picture.description])
        for name, level in (panel.levels or {}).items():
            writer.writerow([panel.title, name, "", *[f"{level:.6g}"] * 3, 0, picture.description])
    return text.getvalue()


def as_markdown(picture: CurvePicture) -> str:
    """The numbers in the picture as tables, one for each panel: means, with the band where there is one."""
    lines = [f"## {picture.title}", "", picture.reading, "", f"*{picture.description}*"]
    for panel in picture.panels:
        places = sorted({x for curve in panel.curves for x in curve.x})
        if len(places) > 12:
            continue  # a drawn function: its points are in the CSV file
        lines += ["", f"**{panel.title}**: {panel.y}", ""]
        lines.append(f"| {panel.x} | " + " | ".join(f"{x:g}" for x in places) + " | runs |")
        lines.append("|---" * (len(places) + 2) + "|")
        for curve in panel.curves:
            cells = {x: _cell(*point) for x, *point in zip(curve.x, curve.value, curve.lower, curve.upper, strict=True)}
            runs = str(curve.runs) if curve.runs else ""
            lines.append(f"| {curve.name} | " + " | ".join(cells.get(x, "") for x in places) + f" | {runs} |")
        lines += [f"| {name} | {level:.3g}" + " |" * (len(places) + 1) for name, level in (panel.levels or {}).items()]
    return "\n".join(lines) + "\n"


def _cell(value: float, lower: float, upper: float) -> str:
    return f"{value:.3g}" if lower == upper else f"{value:.3g} ({lower:.3g} to {upper:.3g})"


def _draw_panel(axes: Axes, panel: Panel, names: Sequence[str], log: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    for curve in panel.curves:
        series = names.index(curve.like or curve.name) if (curve.like or curve.name) in names else -1
        handle = _handle(series, curve.name, marker="" if len(curve.x) > 12 else None)
        style: dict[str, Any] = {"color": handle.get_color(), "marker": handle.get_marker(), "markersize": 4}
        if curve.style == "dotted":
            style |= {"linestyle": ":", "marker": "", "linewidth": 1.3}
        elif curve.style == "points":
            style |= {"linestyle": ""}
        axes.plot(curve.x, curve.value, **style, zorder=3)
        if curve.lower != curve.upper:
            axes.fill_between(curve.x, curve.lower, curve.upper, color=handle.get_color(), alpha=0.15, linewidth=0)
    for name, level in (panel.levels or {}).items():
        axes.axhline(level, color=LIGHT["muted"], linewidth=0.9, linestyle="--", zorder=2)
        axes.annotate(name, (0.99, level), xycoords=("axes fraction", "data"), xytext=(0, 2),
                      textcoords="offset points", ha="right", va="bottom", fontsize=7.5, color=LIGHT["muted"], zorder=4,
                      bbox={"facecolor": LIGHT["paper"], "alpha": 0.75, "linewidth": 0, "pad": 0.6})  # fmt: skip
    axes.set(title=panel.title, xlabel=panel.x)
    if log:
        axes.set_yscale("log", nonpositive="clip")
        _label_decades(axes)
    if panel.x_log:
        axes.set_xscale("log")
        _label_places(axes, sorted({x for curve in panel.curves for x in curve.x}))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.6g}")
    axes.grid(axis="both", zorder=0)
    axes.set_axisbelow(True)


def _label_places(axes: Axes, places: Sequence[float]) -> None:
    """Ticks where there are points, with labels as far as there is room."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if len(places) > 12:
        return
    span = math.log(places[-1] / places[0]) or 1.0
    shown: list[float] = []
    for place in [places[-1], *places[:-1]]:
        if all(abs(math.log(place / other)) / span >= NARROWEST for other in shown):
            shown.append(place)
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}" if any(math.isclose(x, place) for place in shown) else "")


def _label_decades(axes: Axes) -> None:
    """Plain numbers, at 1, 2 and 5 where the axis is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.6 else (1.0,)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")


def _handle(series: int, name: str, linestyle: Literal["-", ":"] = "-", marker: str | None = None) -> Line2D:
    """A line that looks like the curve; series -1 is grey."""
    handle = series_mark(series, name, linestyle, marker, size=4)
    handle.set_linewidth(1.6)
    return handle


def by_place(pairs: Iterable[tuple[float, float]]) -> dict[float, list[float]]:
    """Pairs of a place and a value as place → values.

    >>> by_place([(1, 0.5), (2, 0.1), (1, 0.7)])
    {1: [0.5, 0.7], 2: [0.1]}
    """
    found: dict[float, list[float]] = {}
    for place, value in pairs:
        found.setdefault(place, []).append(value)
    return found
