"""What all pictures have in common: a description, one style, the marks of releases, and an SVG for a page.

A picture has words for those who do not see it, and a report puts its numbers into a table below it. Colour is never
alone: series differ by marker too, and what is below the noise floor is hollow, dotted or hatched.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from equistrata.eval.report.theme import LIGHT, SERIES, inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

WIDE, NARROW = 7.6, 3.9  # inches at 100 CSS pixels each
MARKERS = ("o", "s", "D", "^", "v", "P")
INKED = ("axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor", "text.color")
LINED = ("axes.edgecolor", "xtick.color", "ytick.color", "hatch.color")
STYLE: dict[Any, Any] = {
    **dict.fromkeys(INKED, LIGHT["ink"]),
    **dict.fromkeys(LINED, LIGHT["line"]),
    "grid.color": LIGHT["grid"],
    "font.size": 9.5,
    "axes.axisbelow": True,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}


@dataclass(frozen=True, eq=False)
class Picture(ABC):
    """A figure before it is drawn.

    Attributes:
        name: its id in a page, and the stem of its files.
        title: what it shows.
        reading: how to read it, in a sentence.
        description: for those who do not see it, or what must be said next to it.
    """

    name: str
    title: str
    reading: str
    description: str

    @abstractmethod
    def draw(self, narrow: bool = False) -> Canvas:
        """The matplotlib figure, for a wide or a narrow screen, in the style that is set."""

    def svg(self, narrow: bool) -> str:
        """An SVG element for a page."""
        from matplotlib import rc_context

        with rc_context(STYLE):
            width = "narrow" if narrow else "wide"
            return inline_svg(self.draw(narrow), f"{self.name}-{width}", self.title, self.description)


def canvas_of(narrow: bool, height: float, *, width: float | None = None) -> Canvas:
    """An empty figure of this height in inches, as wide as a wide or a narrow screen, or of another width."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width or (NARROW if narrow else WIDE), height), layout="constrained")


def series_mark(
    series: int, label: str, linestyle: Literal["", "-", ":"] = "", marker: str | None = None, size: float = 5.5
) -> Line2D:
    """The mark of a series (a release, a curve), for plots and legends; series -1 is grey."""
    from matplotlib.lines import Line2D

    colour = LIGHT["muted"] if series < 0 else LIGHT[SERIES[series % len(SERIES)]]
    shape = MARKERS[series % len(MARKERS)] if marker is None else marker
    return Line2D([], [], color=colour, linestyle=linestyle, marker=shape, markersize=size, label=label)


def add_legend(canvas: Canvas, releases: Sequence[str], narrow: bool, *more: Any) -> None:
    """A legend of the releases (those with a name) above the figure, where there are several of them."""
    if len(releases) > 1 or more:
        handles = [*(series_mark(k, release) for k, release in enumerate(releases) if release), *more]
        canvas.legend(handles=handles, loc="outside upper left", ncols=1 if narrow else 3)


def legend_height(releases: Sequence[str], narrow: bool) -> float:
    """Of `add_legend`, in inches."""
    return 0.22 * math.ceil(len(releases) / (1 if narrow else 3)) + 0.1 if len(releases) > 1 else 0.0


def shorten(text: str, length: int) -> str:
    """A text cut to a length, with an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
