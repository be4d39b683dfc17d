"""Draw the pictures of docs/how-it-works.md: `python docs/make_how_pictures.py`."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from make_architecture_pictures import (
    FIGURES,
    FREE,
    INK,
    PAID,
    PLAIN,
    PRIVATE,
    SOFT,
    canvas,
    draw_arrow,
    draw_legend,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

COLOURS = ((PRIVATE, "private"), (PAID, "spends privacy budget"), (FREE, "can be published"))


def draw_note(
    axes: Axes, place: tuple[float, float], size: tuple[float, float], words: Sequence[str], colour: str
) -> None:
    """Draw a box with a bold title and one or two lines of text. The place is its lower left corner."""
    (x, y), (width, height) = place, size
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.09", facecolor=colour, edgecolor=INK
        )
    )
    title, *lines = words
    text = "\n".join(lines)
    axes.text(x + width / 2, y + height - 0.25, title, ha="center", va="center", size=11.5, weight="bold", color=INK)
    axes.text(x + width / 2, y + (height - 0.35) / 2, text, ha="center", va="center", size=10, color=INK)


def release() -> Figure:
    """Draw the steps of a release."""
    figure, axes = canvas(2.0)
    boxes = (
        (("Table of people", "one row each,", "stays inside"), PRIVATE),
        (("Count", "some columns and pairs,", "add random noise"), PAID),
        (("Model", "agrees with the", "noisy counts"), FREE),
        (("Folder", "synthetic rows, counts,", "card with ε and δ"), FREE),
    )
    width = 1.83
    for number, (words, colour) in enumerate(boxes):
        x = 0.3 + number * (width + 0.36)
        draw_note(axes, (x, 0.65), (width, 1.2), words, colour)
        if number:
            draw_arrow(axes, (x - 0.36, 1.25), (x, 1.25))
    draw_legend(axes, 0.2, COLOURS)
    return figure


def strata() -> Figure:
    """Draw a table that is divided into strata, and a model for each stratum."""
    figure, axes = canvas(3.5)
    draw_note(axes, (0.3, 0.95), (1.6, 1.7), ("Table", "each row is in", "one stratum"), PRIVATE)
    groups = (("women, north", "2,400 rows"), ("men, north", "2,500 rows"), ("men, west", "90 rows"))
    for number, (name, rows) in enumerate(groups):
        y = 2.45 - number * 0.95
        draw_arrow(axes, (1.9, 1.8), (2.4, y + 0.4))
        draw_note(axes, (2.4, y), (1.7, 0.8), (name, rows), PRIVATE)
        draw_arrow(axes, (4.1, y + 0.4), (4.5, y + 0.4))
        draw_note(axes, (4.5, y), (1.5, 0.8), ("noisy counts", "whole ε"), PAID)
        draw_arrow(axes, (6.0, y + 0.4), (7.1, y + 0.4))
        draw_note(axes, (7.1, y), (1.6, 0.8), ("model", "of this stratum"), FREE)
    axes.text(6.55, 2.03, "borrows a bit", ha="center", va="center", size=9.5, color=SOFT)
    axes.text(6.55, 1.08, "borrows", ha="center", va="center", size=9.5, color=SOFT)
    axes.text(6.55, 0.8, "a lot", ha="center", va="center", size=9.5, color=SOFT)
    draw_legend(axes, 0.12, COLOURS)
    return figure


def budget() -> Figure:
    """Draw a lifetime budget, three charges, and a release that is refused."""
    figure, axes = canvas(1.9)
    left, total = 0.3, 8.4
    axes.text(left, 1.68, "lifetime budget of the data set, in ρ", va="center", size=11, weight="bold", color=INK)
    x = left
    for share, name, colour in (
        (0.27, "release, October", PAID),
        (0.27, "release, November", PAID),
        (0.26, "public audit", PAID),
        (0.2, "left", PLAIN),
    ):
        box = FancyBboxPatch((x, 0.85), share * total, 0.6, boxstyle="square,pad=0", facecolor=colour, edgecolor=INK)
        axes.add_patch(box)
        axes.text(x + share * total / 2, 1.15, name, ha="center", va="center", size=10.5, color=INK)
        x += share * total
    start = left + 0.8 * total
    axes.plot([start, 9.0], [0.6, 0.6], color=INK, lw=2, linestyle="--")
    axes.text(
        start - 0.12, 0.6, "release, December: needs more than is left", ha="right", va="center", size=10, color=INK
    )
    axes.text(8.7, 0.3, "refused before a row is read", ha="right", va="center", size=10, weight="bold", color=INK)
    return figure


def reader() -> Figure:
    """Draw a question to a release, and its answer with an interval."""
    figure, axes = canvas(2.0)
    draw_note(axes, (0.3, 0.35), (1.9, 1.3), ("Question", "share of people", "with a job, by sex"), PLAIN)
    draw_arrow(axes, (2.2, 1.0), (2.7, 1.0))
    draw_note(axes, (2.7, 0.35), (1.9, 1.3), ("Folder", "noisy counts", "and model"), FREE)
    draw_arrow(axes, (4.6, 1.0), (5.1, 1.0))
    draw_note(axes, (5.1, 0.35), (3.6, 1.3), ("Answer with 95 % interval",), PLAIN)
    for name, y, low, value, high in (("men", 1.1, 0.4553, 0.4677, 0.48), ("women", 0.72, 0.4352, 0.4471, 0.4589)):
        axes.text(5.25, y, name, va="center", size=10, color=INK)
        ends = [6.0 + (each - 0.43) / 0.055 * 2.0 for each in (low, high)]
        axes.plot(ends, [y, y], color=INK, lw=1.6)
        axes.plot([6.0 + (value - 0.43) / 0.055 * 2.0], [y], "o", color=INK, ms=6)
        axes.text(8.6, y, f"{100 * value:.1f} %", ha="right", va="center", size=10, color=INK)
    return figure


def main() -> None:
    """Write the four pictures."""
    mpl.rcParams |= {"svg.hashsalt": "equistrata", "svg.fonttype": "none", "font.family": "DejaVu Sans"}
    pictures = {"release": release(), "strata": strata(), "budget": budget(), "reader": reader()}
    for name, figure in pictures.items():
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(FIGURES / f"how-{name}.svg", metadata=metadata)


if __name__ == "__main__":
    main()
