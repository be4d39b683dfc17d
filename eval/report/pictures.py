"""What all pictures have in common: a description, colours and style, the marks of releases, and an SVG for a page.

A picture has words for those who do not see it, and a report puts its numbers into a table below it. Colour is never
alone: series differ by marker too, and what is below the noise floor is hollow, dotted or hatched.

matplotlib draws with the light colours; each is then replaced by the CSS variable of its role, so that one figure
serves light and dark screens and print. Text stays text.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from equistrata.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "raised": "#f6f8fa", "ink": "#1b1f24", "muted": "#57606a", "line": "#c9d1d9", "grid": "#e7ebef",
    "link": "#0a53be", "mark": "#fff4ce", "alarm": "#9a1c1c",
    "series1": "#1f6f8b", "series2": "#b4531a", "series3": "#6b4fa0", "series4": "#3b7a37", "series5": "#a3336b",
    "series6": "#6a6a1c",
    "heat0": "#eef2f5", "heat1": "#fde5d2", "heat2": "#fbc99e", "heat3": "#f2a065", "heat4": "#d97636",
    "heat5": "#a54710", "heat6": "#6b2904",
    "heatink0": "#1b1f25", "heatink1": "#1b1f26", "heatink2": "#1b1f27", "heatink3": "#1b1f28", "heatink4": "#15181c",
    "heatink5": "#fffffe", "heatink6": "#fffffd",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "paper": "#0f1419", "raised": "#192027", "ink": "#e8eaed", "muted": "#a7b1bc", "line": "#3d4853", "grid": "#262e36",
    "link": "#8ab4f8", "mark": "#3d3412", "alarm": "#ffb4ab",
    "series1": "#62b6d1", "series2": "#f0a067", "series3": "#b9a3e3", "series4": "#8cc886", "series5": "#e58ab5",
    "series6": "#c9c567",
    "heat0": "#1b242c", "heat1": "#38291e", "heat2": "#5a381e", "heat3": "#844a1b", "heat4": "#c26e28",
    "heat5": "#eb9a4d", "heat6": "#ffd3a6",
    "heatink0": "#e8eaee", "heatink1": "#f3f4f6", "heatink2": "#f3f4f6", "heatink3": "#ffffff", "heatink4": "#0a0d10",
    "heatink5": "#0f1419", "heatink6": "#0f1419",
}  # fmt: skip
SERIES = tuple(name for name in LIGHT if name.startswith("series"))
HEAT = tuple(name for name in LIGHT if name.startswith("heat") and not name.startswith("heatink"))

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
    "text.parse_math": False,  # names may have dollar signs
}

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}
_REFERRED = re.compile(r"#([\w-]+)")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")
_NUMBERS = ("d", "x", "y", "transform", "width", "height")
_STYLED_BY_THE_PAGE = ("font-family", "stroke-linejoin", "stroke-linecap")
_FONT = re.compile(r"^font: ([\d.]+px).*")
_COLOUR = re.compile("#[0-9a-fA-F]{6}")


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
        """The figure as an SVG element for a page (`inline_svg`)."""
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
    """A text of at most so many characters; dots stand for an end that is cut off."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def literal(text: str) -> str:
    """A name for a figure that has formulas: its dollar signs begin none."""
    return printable(text).replace("$", r"\$")


def variables(palette: Mapping[str, str]) -> str:
    """Colours as CSS variables of their roles."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


def in_plain_colours(html: str) -> str:
    """A page with the light colours in place of CSS variables, for printers that know none inside an SVG."""
    return re.sub(r"var\(--(\w+)\)", lambda found: LIGHT.get(found[1], found[0]), html)


def inline_svg(figure: Canvas, name: str, title: str, description: str) -> str:
    """A matplotlib figure as an SVG element for an HTML page.

    Args:
        figure: it loses its background.
        name: a prefix that makes its ids unique in the page.
        title, description: read out in place of the picture.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure.patch.set(facecolor="none", edgecolor="none")
    for axes in figure.axes:
        for each in (axes, *axes.child_axes):
            each.patch.set(facecolor="none", edgecolor="none")
    buffer, canvas = io.StringIO(), cast(Any, FigureCanvasSVG(figure))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # a browser has fonts of its own
        # Not `figure.savefig`, which draws everything twice: the same picture takes it a third longer.
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None, "Format": None})
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(printable(buffer.getvalue()))  # words of a schema may hold anything
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):  # its style would rule the whole page
                parent.remove(child)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _attribute(key, value, name))
    _slim(root)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"class": "figure", "role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _slim(element: ET.Element) -> None:
    """Leave out what changes nothing in the picture: a wide table has thousands of cells, and a page many figures.

    Groups without attributes, ids that nothing refers to, indentation, fonts (the page has its own), joins (the page's
    style decides), and digits below a hundredth of a CSS pixel.
    """
    used = {name for each in element.iter() for value in each.attrib.values() for name in _REFERRED.findall(value)}
    for each in element.iter():
        each.text = each.text if each.text and each.text.strip() else None
        each.tail = each.tail if each.tail and each.tail.strip() else None
        if each.get("id") not in used:
            each.attrib.pop("id", None)
        for key, value in list(each.attrib.items()):
            if key == "style":
                kept = [part.strip() for part in value.split(";") if not part.strip().startswith(_STYLED_BY_THE_PAGE)]
                value = ";".join(_FONT.sub(r"font-size:\1", part) for part in kept if part).replace(": ", ":")
            elif key in _NUMBERS:
                value = _LONG.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
                value = " ".join(_NO_TURN.sub("", value).split())
            each.attrib.pop(key) if not value else each.set(key, value)
    for each in element.iter():
        while any(_bare(child) for child in each):
            each[:] = [inner for child in each for inner in (child if _bare(child) else (child,))]


def _bare(element: ET.Element) -> bool:
    return element.tag == f"{{{_SVG}}}g" and not element.attrib


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    value = value.replace("url(#", f"url(#{name}-")
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _COLOUR.sub(lambda found: _VARIABLES.get(found[0].lower(), found[0]), value)
