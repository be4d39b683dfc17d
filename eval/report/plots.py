"""The report's plots: dots with intervals by group, and bars of shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equistrata.eval.audit.internal import ColumnShares
from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.pictures import LIGHT, Picture, add_legend, canvas_of, legend_height, series_mark, shorten
from equistrata.eval.report.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

ROW, DODGE = 0.25, 0.13  # inches for a stratum, and for each further release with an interval
NAME_HEIGHT = 0.21  # inches for a stratum's name above its marks
LETTER = 0.6  # the mean width of a number's characters, in sizes of the font (digits .64, comma and blank .32)


@dataclass(frozen=True)
class Dots:
    """What a dot plot shows: for each release, label → number, along one axis.

    Attributes:
        scale: "log" or "linear".
        axis: what the axis says.
        shown: a number as text, for ticks.
        reference: where a line marks the best value, if anywhere.
        limits: the ends of a linear axis.
        ticks: how many parts a linear axis has at most.
    """

    numbers: Mapping[str, Mapping[str, Shown]]
    axis: str
    scale: str = "log"
    shown: Callable[[float], str] = lambda x: f"{100 * x:g}\u00a0%"
    reference: float | None = None
    limits: tuple[float, float] | None = None
    ticks: int = 5


@dataclass(frozen=True, eq=False)
class DotPlot(Picture):
    """Strata (label → name) from top to bottom, a panel for each kind of number: side by side, or below if narrow.

    Narrow figures have the groups' names above their marks, so that the marks get the whole width.
    """

    panels: Sequence[Dots]
    words: Mapping[str, str]

    def draw(self, narrow: bool = False) -> Canvas:
        labels = list(self.words)
        releases = list(self.panels[0].numbers)
        shown = [each for panel in self.panels for of in panel.numbers.values() for each in of.values()]
        noisy = any(each.lower is not None for each in shown)
        dodge = DODGE * (len(releases) - 1) if noisy else 0.0
        row = (NAME_HEIGHT if narrow else 0.0) + ROW + dodge
        rows, columns = (len(self.panels), 1) if narrow else (1, len(self.panels))
        canvas = canvas_of(narrow, (len(labels) * row + 0.8) * rows + legend_height(releases, narrow))
        grid = canvas.subplots(rows, columns, squeeze=False, sharey=not narrow)
        for axes, panel in zip(grid.flat, self.panels, strict=True):
            for i in range(0, len(labels), 2):
                axes.axhspan(i - 0.5, i + 0.5, color=LIGHT["raised"], zorder=0)
            middle = NAME_HEIGHT / row / 2 if narrow else 0.0
            _dots(axes, panel, labels, middle, dodge / row)
            axes.set_ylim(len(labels) - 0.5, -0.5)
            axes.set_yticks(range(len(labels)), self.words.values())
            if narrow:
                across, shades = axes.get_yaxis_transform(), ("raised", "paper")
                names_above(axes, list(self.words.values()), NAME_HEIGHT / row, 0.01, across, shades)
            axes.tick_params(axis="y", length=0, pad=7)  # marks at the axis's end must not touch the names
            axes.set(**{"title" if len(self.panels) > 1 else "xlabel": panel.axis})
        add_legend(canvas, releases, narrow)
        return canvas


@dataclass(frozen=True, eq=False)
class ShareBars(Picture):
    """Shares of each value of each column (titles: column → words): real rows as bars, synthetic rows as marks on them.

    `columns`: column → the shares of each release, by its number among `releases`; they have the same real shares.
    """

    columns: Mapping[str, Mapping[int, ColumnShares]]
    releases: Sequence[str]
    titles: Mapping[str, str]

    def draw(self, narrow: bool = False) -> Canvas:
        from matplotlib.patches import Patch

        across = 1 if narrow else 2
        names = list(self.columns)
        real = {name: next(iter(sides.values())) for name, sides in self.columns.items()}
        heights = {name: 0.2 * len(real[name].words) + 0.55 for name in names}
        lines = [names[i : i + across] for i in range(0, len(names), across)]
        tall = [max(heights[name] for name in line) for line in lines]
        shown = [release if k in self.columns[names[0]] else "" for k, release in enumerate(self.releases)]
        canvas = canvas_of(narrow, sum(tall) + legend_height([*shown, "private rows"], narrow))
        grid = canvas.subplots(len(lines), across, squeeze=False, gridspec_kw={"height_ratios": tall})
        for axes in grid.flat[len(names) :]:
            axes.remove()
        for axes, name in zip(grid.flat, names, strict=False):
            words, exact = real[name].words, real[name].real
            made = {k: side.synthetic for k, side in self.columns[name].items()}
            places = np.arange(len(words))
            axes.barh(places, exact, height=0.72, color=LIGHT["line"], zorder=1)
            for k, shares in made.items():
                for place, share in enumerate(shares):
                    _point(axes, place, Shown(float(share)), k)
            axes.set_yticks(places, [shorten(text, 24) for text in words])
            axes.set_ylim(len(words) - 0.4, -0.6)
            axes.tick_params(axis="y", length=0)
            axes.set_xlim(0, min(1.0, 1.12 * max(0.01, *(float(shares.max()) for shares in (exact, *made.values())))))
            axes.locator_params(axis="x", nbins=4)
            axes.xaxis.set_major_formatter(lambda x, _: percent(x))
            axes.set_title(self.titles[name])
        add_legend(canvas, shown, narrow, Patch(color=LIGHT["line"], label="private rows (exact)"))
        return canvas


def names_above(
    axes: Axes, names: Sequence[str], height: float, x: float, transform: Any = None, shades: Sequence[str] = ()
) -> None:
    """The names of rows above their marks instead of beside them; `height` is a name's part of its row.

    `shades`: the colours of rows, in turn, so that no line of the plot runs through a name.
    """
    axes.set_yticks([])
    for i, name in enumerate(names):
        box = {"facecolor": LIGHT[shades[i % len(shades)]], "edgecolor": "none", "pad": 1.0} if shades else None
        axes.text(
            x, i - 0.5 + height / 2, name, va="center_baseline", transform=transform or axes.transData, bbox=box
        )  # fmt: skip


def _dots(axes: Axes, panel: Dots, labels: Sequence[str], middle: float, dodge: float) -> None:
    every = [numbers[label] for numbers in panel.numbers.values() for label in labels if label in numbers]
    low, high = panel.limits or _reach(every, panel.reference)
    if panel.scale == "log":
        axes.set_xscale("log")
    axes.set_xlim(low, high)
    if panel.reference is not None:
        axes.axvline(panel.reference, color=LIGHT["muted"], linewidth=1.0, zorder=1)
    count = len(panel.numbers)
    for k, numbers in enumerate(panel.numbers.values()):
        offset = middle + (dodge * (k / (count - 1) - 0.5) if count > 1 else 0.0)
        for i, label in enumerate(labels):
            if label in numbers:
                _point(axes, i + offset, numbers[label], k, ends=(low, high))
    _number_ticks(axes, panel, low, high)
    axes.grid(axis="x")


def _point(axes: Axes, place: float, shown: Shown, series: int, ends: tuple[float, float] | None = None) -> None:
    """One number: a filled marker, hollow below the noise floor, with its interval, cut where the axis ends."""
    handle = series_mark(series, "")
    colour = handle.get_color()

    def draw(along: Sequence[float], **style: Any) -> None:
        axes.plot(along, [place] * len(along), color=colour, **style)

    low, high = ends or (-math.inf, math.inf)
    if shown.lower is not None and shown.upper is not None:
        dotted = ":" if shown.note else "-"
        draw([max(shown.lower, low), min(shown.upper, high)], linewidth=1.5, linestyle=dotted, zorder=2)
        if shown.upper > high and not shown.note:
            draw([high], marker=">", markersize=5, clip_on=False, zorder=3)
    if shown.value is not None and (not shown.note or low <= shown.value <= high):
        face = LIGHT["paper"] if shown.note else colour
        value = [min(max(shown.value, low), high)]
        draw(value, marker=handle.get_marker(), ls="", markersize=5.5, markerfacecolor=face, zorder=3, clip_on=False)


def _reach(every: Iterable[Shown], reference: float | None) -> tuple[float, float]:
    """The ends of a log axis: around every estimate, and around the intervals as far as they are of use."""
    every = list(every)
    values = [x for s in every if not s.note for x in (s.value, s.lower, s.upper) if x and math.isfinite(x)]
    values += [reference] if reference else []
    low, high = min(values, default=0.01), max(values, default=1.0)
    low = max(low, high / 10**5)
    spare = 1.4 if high / low > 12 else 1.1
    return low / spare, high * spare


def _number_ticks(axes: Axes, panel: Dots, low: float, high: float) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    class Apart(FixedLocator):
        def __call__(self) -> list[float]:
            return _apart(axes, log_ticks(low, high), panel.shown)

    if panel.scale == "log":
        axes.xaxis.set_major_locator(Apart(log_ticks(low, high)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.locator_params(axis="x", nbins=panel.ticks)
    axes.xaxis.set_major_formatter(lambda x, _: panel.shown(x))


def _apart(axes: Axes, ticks: list[float], shown: Callable[[float], str]) -> list[float]:
    """Ticks of which no two numbers touch, at the axis's present width: while two do, every second is left out."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    points = FontProperties(size=rcParams["xtick.labelsize"]).get_size_in_points()
    figure = axes.get_figure(root=True)
    letter = LETTER * points / 72 * (figure.dpi if figure else 72)
    while len(ticks) > 2:
        places = axes.transData.transform([(x, 0.0) for x in ticks])[:, 0]
        halves = np.array([len(shown(x)) + 1 for x in ticks]) * letter / 2  # with half a letter on each side
        if np.all(np.diff(places) >= halves[1:] + halves[:-1]):
            break
        tens = [math.log10(x).is_integer() for x in ticks]
        ticks = ticks[int(sum(tens[1::2]) > sum(tens[::2])) :: 2]
    return ticks


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers of one or two digits on a log axis, at least two where it has them, so that it has a scale.

    >>> log_ticks(9.0, 90.0), log_ticks(1440.0, 1790.0)
    ([10.0, 20.0, 50.0], [1500.0, 1600.0, 1700.0])
    """
    reach = high / low
    steps = (1,) if reach > 300 else (1, 3) if reach > 12 else (1, 2, 5) if reach > 4 else (1, 1.2, 1.5, 2, 3, 5, 8)
    found = _within(low, high, steps)
    if len(found) < 2:
        fine = _within(low, high, [digits / 10 for digits in range(10, 100)])
        found = fine[:: -(-len(fine) // 4) or 1]
    return found


def _within(low: float, high: float, steps: Sequence[float]) -> list[float]:
    every = (step * 10.0**power for power in range(-6, 12) for step in steps)
    return [x for x in every if low <= x <= high]
