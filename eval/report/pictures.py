"""The colours of pages, in a light and a dark version, and functions for the text in figures.

A figure uses the CSS variable of a colour, so that the same figure can be used on light and dark screens and in print.
"""

from __future__ import annotations

from collections.abc import Mapping

from equistrata.printable import printable

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


def shorten(text: str, length: int) -> str:
    """Return the text, cut off after `length` characters. If it is cut off, it ends with an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def literal(text: str) -> str:
    """Return a name for a figure that renders formulas.

    The dollar signs are escaped, so that they do not begin a formula.
    """
    return printable(text).replace("$", r"\$")


def variables(palette: Mapping[str, str]) -> str:
    """Return the colours as CSS variables."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())
