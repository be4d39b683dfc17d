"""The report's colours, light and dark, and figures in them: an SVG with CSS variables as colours.

matplotlib draws with the light colours; each is then replaced by the variable of its role, so that one figure serves
light and dark screens and print. Text stays text.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_VARIABLES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}
_COLOUR = re.compile("#[0-9a-fA-F]{6}")


def variables(palette: Mapping[str, str]) -> str:
    """A palette as CSS declarations."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


def in_plain_colours(html: str) -> str:
    """A page with the light colours in place of CSS variables, for printers that know none inside an SVG."""
    return re.sub(r"var\(--(\w+)\)", lambda found: LIGHT.get(found[1], found[0]), html)


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """A matplotlib figure as an SVG element for an HTML page.

    Args:
        name: a prefix that makes its ids unique in the page.
        title, description: read out in place of the picture.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None})
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):  # its style would rule the whole page
                parent.remove(child)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _attribute(key, value, name))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"class": "figure", "role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    value = value.replace("url(#", f"url(#{name}-")
    if key.endswith("href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _COLOUR.sub(lambda found: _VARIABLES.get(found[0].lower(), found[0]), value)
