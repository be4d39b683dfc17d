"""Grids of coloured cells: errors by column and group, and two-way marginals.

The colour of a cell is one of seven steps, so that it can be read off the legend; a cell without a number is hatched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equistrata.arrays import Floats
from equistrata.eval.audit.marginals import ColumnPair
from equistrata.eval.report.findings import Shown
from equistrata.eval.report.pictures import Picture, canvas_of, shorten
from equistrata.eval.report.plots import NAME_HEIGHT
from equistrata.eval.report.theme import HEAT, LIGHT
from equistrata.eval.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEAT_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
HEAT_WORDS = ("under 0.1 %", "to 0.3 %", "to 1 %", "to 3 %", "to 10 %", "to 30 %", "over 30 %")
HEAT_WORDS_PLAIN = ("under 0.001", "to 0.003", "to 0.01", "to 0.03", "to 0.1", "to 0.3", "over 0.3")


def heat_level(value: float) -> int:
    """Which of the steps of a heat map a value falls into."""
    return int(np.searchsorted(HEAT_STEPS, value, side="right"))


@dataclass(frozen=True, eq=False)
class HeatMap(Picture):
    """Errors of columns (from left to right) in strata (from top to bottom).

    Attributes:
        errors: column → stratum → error.
        words: stratum → its name, in order.
    """

    errors: Mapping[str, Mapping[str, Shown]]
    words: Mapping[str, str]

    def draw(self, narrow: bool = False) -> Canvas:
        labels = list(self.words)
        columns = list(self.errors)
        row = 0.26 + (NAME_HEIGHT if narrow else 0.0)
        canvas = canvas_of(narrow, row * len(labels) + (1.9 if narrow else 1.3))
        axes = canvas.subplots()
        top = NAME_HEIGHT / row if narrow else 0.0  # narrow: a group's name above its cells
        for i, label in enumerate(labels):
            for j, column in enumerate(columns):
                shown = self.errors[column].get(label, Shown(None, note="left out"))
                _cell(axes, j, i - 0.5 + top, 1 - top, shown, size=7.5 if narrow else 8.5)
        _grid_axes(axes, columns, [] if narrow else [self.words[label] for label in labels], len(labels))
        if narrow:
            axes.xaxis.tick_top()
            for i, label in enumerate(labels):
                axes.text(-0.5, i - 0.5 + top / 2, self.words[label], va="center_baseline")
        _heat_legend(canvas, narrow)
        return canvas


@dataclass(frozen=True, eq=False)
class PairMap(Picture):
    """L1 distances of 2-way marginals of these columns, a triangle of pairs."""

    pairs: Mapping[ColumnPair, float]
    columns: Sequence[str]

    def draw(self, narrow: bool = False) -> Canvas:
        canvas = canvas_of(narrow, 0.27 * len(self.columns) + 1.3 if not narrow else 4.2)
        axes = canvas.subplots()
        for (one, other), error in self.pairs.items():
            _cell(
                axes,
                self.columns.index(one),
                self.columns.index(other) - 1.5,
                1,
                Shown(error),
                size=6.5 if narrow else 8.5,
                plain=True,
            )
        _grid_axes(axes, self.columns[:-1], self.columns[1:], len(self.columns) - 1)
        _heat_legend(canvas, narrow, HEAT_WORDS_PLAIN)
        return canvas


@dataclass(frozen=True, eq=False)
class PairTables(Picture):
    """Several 2-way marginals of one pair of columns, side by side.

    Attributes:
        columns: the pair.
        words: of each one's values.
        tables: title → shares.
    """

    columns: ColumnPair
    words: tuple[Sequence[str], Sequence[str]]
    tables: Mapping[str, Floats]

    def draw(self, narrow: bool = False) -> Canvas:
        across = 1 if narrow else min(len(self.tables), 3)
        rows = math.ceil(len(self.tables) / across)
        height = 0.3 * len(self.words[0]) + 1.4
        canvas = canvas_of(narrow, height * rows)
        grid = canvas.subplots(rows, across, squeeze=False, sharey=not narrow)
        for axes in grid.flat[len(self.tables) :]:
            axes.remove()
        for axes, (title, table) in zip(grid.flat, self.tables.items(), strict=False):
            for i, j in np.ndindex(*table.shape):
                _cell(axes, j, i - 0.5, 1, Shown(float(table[i, j])))
            _grid_axes(
                axes,
                [shorten(text, 14) for text in self.words[1]],
                [shorten(text, 18) for text in self.words[0]],
                len(self.words[0]),
                across,
            )
            axes.set_title(title)
            axes.set_xlabel(self.columns[1])
            axes.set_ylabel(self.columns[0] if axes.get_subplotspec().is_first_col() else "")
        return canvas


def _cell(
    axes: Axes, x: float, top: float, height: float, shown: Shown, *, size: float = 8.5, plain: bool = False
) -> None:
    from matplotlib.patches import Rectangle

    known = shown.value is not None and not shown.note
    level = heat_level(shown.value or 0.0)
    axes.add_patch(
        Rectangle(
            (x - 0.5, top), 1, height, facecolor=LIGHT[HEAT[level]] if known else "none",
            edgecolor=LIGHT["paper"] if known else LIGHT["line"], hatch=None if known else "////", linewidth=1.0,
        )
    )  # fmt: skip
    if known:
        words = short(shown.value or 0.0) if plain else short(100 * (shown.value or 0.0))
        ink = LIGHT[f"heatink{level}"]
        axes.text(x, top + height / 2, words, ha="center", va="center_baseline", color=ink, fontsize=size)


def _grid_axes(axes: Axes, columns: Sequence[str], rows: Sequence[str], count: int, across: int = 1) -> None:
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(count - 0.5, -0.5)
    steep = max(map(len, columns), default=0) * len(columns) * across > 50
    axes.set_xticks(range(len(columns)), columns, rotation=90 if steep else 0)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _heat_legend(canvas: Canvas, narrow: bool, words: Sequence[str] = HEAT_WORDS) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=LIGHT[name], edgecolor=LIGHT["line"], linewidth=0.5) for name in HEAT]
    handles.append(Patch(facecolor="none", edgecolor=LIGHT["line"], hatch="////", linewidth=0.5))
    canvas.legend(
        handles, [*words, "no number"], loc="outside lower center", ncols=4 if not narrow else 2, fontsize=8.5,
        handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip
