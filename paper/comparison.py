"""Comparisons of published numbers with ours, as a table in the terminal, as a CSV file and as a plot.

Each module of a paper returns a `Comparison`. The output does not depend on the paper.

>>> found = compare([("AIM", "by strata", 0.1, 3.0), ("AIM", "by strata", 0.1, 1.0)], {("AIM", "by strata", 0.1): 2.3})
>>> found[0].ours, found[0].runs, found[0].published
(2.0, 2, 2.3)
"""

from __future__ import annotations

import csv
import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.table import Table

from equistrata.data.sources import Source
from equistrata.eval.report.pictures import LIGHT, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

Place = tuple[str, str, float]
Sample = tuple[str, str, float, float]

BAND = (0.1, 0.9)  # the quantiles of the runs
LOG_SPAN = 10.0  # an axis is logarithmic if its values are positive and span more than this factor
WIDTH, HEIGHT = 4.2, 2.7  # the size of a panel in inches
DPI = 150
MARKERS = "osD^vP"
STYLE: dict[Any, Any] = {
    "font.size": 9.5, "axes.axisbelow": True, "axes.edgecolor": LIGHT["line"], "axes.titlelocation": "left",
    "axes.titlesize": 10.5, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "text.parse_math": False,
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The settings of a reproduction.

    Attributes
    ----------
    source : Source
        The source of the rows.
    output : Path
        The folder to which files are written.
    runs : int or None
        The number of runs. If None, each paper has its own number.
    workers : int
        The number of processes.
    quick : bool
        If True, a smaller number of runs is used.
    rows : str
        The name of the rows in the names of files. If it ends in -ESP, the rows have the column ESP of the
        stratification paper.
    """

    source: Source
    output: Path = Path("experiments")
    runs: int | None = None
    workers: int = 1
    quick: bool = False
    rows: str = ""

    def runs_of(self, whole: int, quick: int) -> int:
        """Return the chosen number of runs, or the default, which is `quick` for a quick run and `whole` otherwise."""
        return self.runs or (quick if self.quick else whole)


@dataclass(frozen=True)
class Number:
    """A published number and our number.

    Attributes
    ----------
    panel : str
        The panel of the figure, or the column of the table.
    arm : str
        The method. Another implementation of a method is a separate arm.
    x : float
        The value of the variable that changes, for example ε. It is infinite for an arm without privacy.
    ours, low, high : float
        The mean of our runs, and their 10 % and 90 % quantiles.
    runs : int
        The number of runs. It is 1 for a number that does not depend on chance.
    published : float or None
        The published number. None if the paper does not print it.
    """

    panel: str
    arm: str
    x: float
    ours: float
    low: float
    high: float
    runs: int
    published: float | None


@dataclass(frozen=True)
class Comparison:
    """All numbers of one figure or table.

    Attributes
    ----------
    name : str
        The name of its files without their endings.
    title, axis : str
        The title, and the name of the variable `x`.
    note : str
        A note on the origin of our numbers, which states that they are not private.
    numbers : tuple of Number
        The numbers.
    """

    name: str
    title: str
    axis: str
    note: str
    numbers: tuple[Number, ...]

    def table(self) -> Table:
        """Create a table for the terminal. Each cell contains our number, with the published number in parentheses."""
        places = sorted({number.x for number in self.numbers})
        cells = {(number.panel, number.arm, number.x): _cell(number) for number in self.numbers}
        shown = Table(title=self.title, title_justify="left", caption=f"ours (published). {self.note}")
        shown.caption_justify = "left"
        for heading in ("panel", "arm"):
            shown.add_column(heading, overflow="fold")
        for x in places:
            shown.add_column(f"{self.axis} = {x:.4g}", justify="right")
        for panel in _each(number.panel for number in self.numbers):
            for row, arm in enumerate(_each(number.arm for number in self.numbers if number.panel == panel)):
                shown.add_row("" if row else panel, arm, *(cells.get((panel, arm, x), "") for x in places))
            shown.add_section()
        return shown

    def write(self, folder: Path) -> list[Path]:
        """Write `<name>.csv` and `<name>.png` to a folder, and return their paths.

        The folder is created if necessary.
        """
        from matplotlib import rc_context

        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{self.name}.csv", folder / f"{self.name}.png"]
        with paths[0].open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*(field.name for field in fields(Number)), "note"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(number) | {"note": self.note} for number in self.numbers)
        with rc_context(STYLE):
            self.draw().savefig(paths[1], dpi=DPI, metadata={"Title": self.title, "Description": self.note})
        return paths

    def draw(self) -> Canvas:
        """Plot each panel with one curve per arm. Published numbers are shown as dotted lines."""
        from matplotlib.figure import Figure as Canvas

        panels, arms = _each(n.panel for n in self.numbers), _each(n.arm for n in self.numbers)
        columns = min(3, len(panels))
        rows = math.ceil(len(panels) / columns)
        height = HEIGHT * rows + 0.7 + 0.2 * math.ceil(len(arms) / columns)
        canvas = Canvas(figsize=(WIDTH * columns, height), layout="constrained")
        grid = canvas.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw([n for n in self.numbers if n.panel == panel and math.isfinite(n.x)], arms, axes)
            axes.set(title=panel, xlabel=self.axis)
        handles = [_mark(series, arm) for series, arm in enumerate(arms)]
        if any(n.published is not None for n in self.numbers):
            handles.append(_mark(-1, "published"))
        canvas.legend(handles=handles, loc="outside upper left", ncols=columns, title=self.title, alignment="left")
        canvas.supxlabel(textwrap.fill(self.note, int(WIDTH * columns * 15)), fontsize=7.5, x=0.01, ha="left")
        return canvas


def compare(samples: Iterable[Sample], published: Mapping[Place, float]) -> tuple[Number, ...]:
    """Average the runs, and combine them with the published numbers.

    Parameters
    ----------
    samples : iterable of (panel, arm, x, value)
        One element for each run.
    published : mapping of (panel, arm, x) to float
        The published numbers. A published number without a run is not shown.

    Returns
    -------
    tuple of Number
        One number for each panel, arm and x.
    """
    values: dict[Place, list[float]] = {}
    for panel, arm, x, value in samples:
        values.setdefault((panel, arm, x), []).append(value)
    return tuple(_number(place, np.array(found), published.get(place)) for place, found in values.items())


def read_published(name: str) -> pd.DataFrame:
    """Read a table of published numbers from `paper/published/<name>.csv`."""
    with resources.as_file(resources.files("paper") / "published" / f"{name}.csv") as path:
        return pd.read_csv(path)


def _number(place: Place, values: np.ndarray[tuple[int], np.dtype[np.float64]], published: float | None) -> Number:
    told = None if published is None or math.isnan(published) else float(published)
    low, high = (float(np.quantile(values, level)) for level in BAND)
    return Number(*place, float(np.mean(values)), low, high, len(values), told)


def _cell(number: Number) -> str:
    ours = f"{number.ours:.3g}"
    return ours if number.published is None else f"{ours} ({number.published:.3g})"


def _each(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _mark(series: int, label: str) -> Line2D:
    """Return the mark of a curve. The series -1 is used for published numbers."""
    from matplotlib.lines import Line2D

    colour = LIGHT["muted"] if series < 0 else LIGHT[SERIES[series % len(SERIES)]]
    marker = "" if series < 0 else MARKERS[series % len(MARKERS)]
    return Line2D([], [], color=colour, linestyle=":" if series < 0 else "-", marker=marker, markersize=4, label=label)


def _draw(numbers: list[Number], arms: list[str], axes: Axes) -> None:
    for arm in _each(number.arm for number in numbers):
        curve = sorted((number for number in numbers if number.arm == arm), key=lambda number: number.x)
        mark = _mark(arms.index(arm), arm)
        colour, x = mark.get_color(), [number.x for number in curve]
        axes.plot(x, [number.ours for number in curve], color=colour, marker=mark.get_marker(), markersize=4)
        axes.fill_between(x, [n.low for n in curve], [n.high for n in curve], color=colour, alpha=0.15, linewidth=0)
        told = [(number.x, number.published) for number in curve if number.published is not None]
        if told:
            axes.plot(*zip(*told, strict=True), color=colour, linestyle=":", linewidth=1.3)
    for axis, values in (
        (axes.xaxis, [number.x for number in numbers]),
        (axes.yaxis, [n for number in numbers for n in (number.ours, number.published) if n is not None]),
    ):
        if values and min(values) > 0 and max(values) > LOG_SPAN * min(values):
            axes.set(**{f"{axis.axis_name}scale": "log"})
            axis.set_major_formatter("{x:g}")  # the default labels are formulas, which `STYLE` does not parse
            axis.set_minor_formatter("")
    axes.grid(color=LIGHT["grid"])
