"""Grids of coloured cells: errors by column and group.

The colour of a cell is one of seven steps, so that it can be read off the legend; a cell without a number is hatched.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.pictures import HEAT, LIGHT, NARROW, WIDE, Picture, canvas_of, shorten
from equistrata.eval.report.plots import NAME_HEIGHT, names_above
from equistrata.eval.report.words import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEAT_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
HEAT_WORDS = ("under 0.1 %", "to 0.3 %", "to 1 %", "to 3 %", "to 10 %", "to 30 %", "over 30 %")
MOST_LETTERS, NARROW_LETTERS, LETTER = 28, 16, 0.075  # of a name; on a phone; inches
NUMBER = 0.36  # inches that a cell's number takes, and so a column at least
MOST_LINES, LINE = 3, 0.17  # of a name above its column; inches


@dataclass(frozen=True, eq=False)
class HeatMap(Picture):
    """Errors (column → stratum → error) in per cent, columns from left to right, strata (label → name) from top down.

    `called` are the columns' names. They are above, where they are read first and are seen beside many strata, too.
    More columns than have room for their numbers are in several blocks, one below the other.
    """

    errors: Mapping[str, Mapping[str, Shown]]
    words: Mapping[str, str]
    called: Sequence[str]

    def draw(self, narrow: bool = False) -> Canvas:
        row = 0.26 + (NAME_HEIGHT if narrow else 0.0)
        above = [shorten(name, NARROW_LETTERS if narrow else MOST_LETTERS) for name in self.called]
        beside = 0.0 if narrow else max(map(len, self.words.values()), default=0) * LETTER
        inches = (NARROW if narrow else WIDE) - beside
        blocks = max(ceil(len(above) * NUMBER / inches), 1)
        across = max(ceil(len(above) / blocks), 1)
        lines = in_lines(above, int(inches / across / LETTER))
        room = _room(above) if lines is None else LINE * (max(name.count("\n") for name in lines) if lines else 0)
        height = (row * len(self.words) + room + 0.4) * blocks + (1.5 if narrow else 0.9)
        canvas = canvas_of(narrow, height)
        for block, axes in enumerate(canvas.subplots(blocks, 1, squeeze=False).flat):
            these = slice(block * across, (block + 1) * across)
            _grid_axes(axes, (lines or above)[these], list(self.words.values()), steep=lines is None)
            self._block(axes, list(self.errors.values())[these], row, narrow)
            axes.set_xlim(-0.5, across - 0.5)  # the last may have fewer
            axes.xaxis.tick_top()
        _heat_legend(canvas, narrow)
        return canvas

    def _block(self, axes: Axes, errors: Sequence[Mapping[str, Shown]], row: float, narrow: bool) -> None:
        """The cells of some columns; narrow: with a group's name above its cells."""
        top = NAME_HEIGHT / row if narrow else 0.0
        for i, label in enumerate(self.words):
            for j, of in enumerate(errors):
                error = None if label not in of or of[label].note else of[label].value
                shown = "" if error is None else short(100 * error)
                _cell(axes, j, (i - 0.5 + top, i + 0.5), error, shown, 7.5 if narrow else 8.5)
        if narrow:
            names_above(axes, list(self.words.values()), top, -0.5)


_HATCHES = ((-0.5, 0.5), (0, 0), (np.nan, np.nan), (-0.5, 1), (0.5, 0), (np.nan, np.nan), (0, 1), (0.5, 0.5))


def _cell(axes: Axes, x: float, ends: tuple[float, float], value: float | None, words: str, size: float) -> None:
    """A cell in the column at `x`, from its upper to its lower end, coloured by its value, with words of this size."""
    from matplotlib.patches import Rectangle

    top, height = ends[0], ends[1] - ends[0]
    level = int(np.searchsorted(HEAT_STEPS, value or 0.0, side="right"))
    face, edge = (LIGHT[HEAT[level]], "paper") if value is not None else ("none", "line")
    axes.add_patch(Rectangle((x - 0.5, top), 1, height, facecolor=face, edgecolor=LIGHT[edge], linewidth=1.0))
    if value is None:  # lines, not a pattern, of which printers make a bitmap for each cell
        across, down = np.array(_HATCHES).reshape(-1, 2).T
        axes.plot(x + across, top + down * height, color=LIGHT["line"], linewidth=0.6)
        return
    ink = LIGHT[f"heatink{level}"]
    axes.text(x, top + height / 2, words, ha="center", va="center_baseline", color=ink, fontsize=size)


def _steep(columns: Sequence[str]) -> bool:
    """Whether names of columns are too long for one line."""
    return max(map(len, columns), default=0) * len(columns) > 50


def _room(columns: Sequence[str]) -> float:
    """The height in inches that names of columns take beyond that of a line."""
    return max(map(len, columns), default=0) * LETTER if _steep(columns) else 0.0


def in_lines(names: Sequence[str], letters: int) -> list[str] | None:
    """Names broken at blanks into lines of at most so many letters; None if a word is longer, or lines are too many.

    >>> in_lines(["Age", "Days in hospital"], 8), in_lines(["Age", "Days in hospital"], 7)
    (['Age', 'Days in\\nhospital'], None)
    """
    found = [textwrap.wrap(name, max(letters, 1), break_long_words=False, break_on_hyphens=False) for name in names]
    fits = all(len(each) <= MOST_LINES and max(map(len, each), default=0) <= letters for each in found)
    return ["\n".join(each) for each in found] if fits else None


def _grid_axes(axes: Axes, columns: Sequence[str], rows: Sequence[str], *, steep: bool) -> None:
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns, rotation=90 if steep else 0)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _heat_legend(canvas: Canvas, narrow: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=LIGHT[name], edgecolor=LIGHT["line"], linewidth=0.5) for name in HEAT]
    handles.append(Patch(facecolor="none", edgecolor=LIGHT["line"], hatch="////", linewidth=0.5))
    canvas.legend(
        handles, [*HEAT_WORDS, "no number"], loc="outside lower center", ncols=4 if not narrow else 2, fontsize=8.5,
        handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip
