"""Draw the pictures of docs/architecture.md: `python docs/make_architecture_pictures.py`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

FIGURES = Path(__file__).parent / "figures"
WIDTH = 9.0  # inches: 900 pixels at 100 dots an inch
PRIVATE, PAID, FREE, PLAIN = "#fbe3dc", "#fff2c9", "#dff0e3", "#e9edf3"
INK, SOFT = "#1d2733", "#5b6876"

Box = tuple[str, str, str, str]  # title, what happens, where, colour

ROWS_IN: Sequence[Box] = (
    ("1  source", "raw rows, in batches", "data/sources.py", PRIVATE),
    ("2  coded table", "small integers,\ncoded by the schema", "data/table.py", PRIVATE),
    ("3  strata", "partition by\ndeclared values", "data/strata.py", PRIVATE),
    ("4  charge", "the whole cost,\none transaction", "privacy/ledger/", PAID),
    ("5  measure", "choose marginals,\nadd noise", "synth/mechanisms/", PAID),
    ("6  model", "one distribution\nper stratum", "synth/models/, strata/", FREE),
    ("7  rows", "drawn by\ngroup weights", "synth/models/rounding.py", FREE),
    ("8  folder", "card, manifest,\none rename", "flows/release/", FREE),
)
NUMBER_OUT: Sequence[Box] = (
    ("1  rows and release", "private table,\nsynthetic table", "flows/audit/", PRIVATE),
    ("2  charge", "once, for all\nreleases shown", "flows/audit/account.py", PAID),
    ("3  audit", "sums per stratum,\nwith noise", "eval/audit/public.py", PAID),
    ("4  noisy number", "value, lower, upper;\nnever without a width", "eval/audit/noisy_number.py", FREE),
    ("5  words and tables", "findings, rankings,\nverdict: each once", "eval/report/verdict.py", FREE),
    ("6  page", "figures, HTML,\nJSON, CSV", "eval/report/page.py", FREE),
)
SELECTION: Sequence[Box] = (
    ("1  measure first", "columns over all rows,\nsizes, columns in strata", "mechanisms/levels.py", PAID),
    ("2  model", "maximum entropy,\nfrom noisy numbers", "engine.estimate", FREE),
    ("3  score", "‖true − model‖₁ − noise:\nsensitivity 1", "Session.score", PRIVATE),
    (
        "4  choose",
        "exponential mechanism;\n3 and 4 again per pair",
        "Session.choose",
        PAID,
    ),
    ("5  measure", "the chosen marginals,\nGaussian noise", "Session.measure", PAID),
    ("6  cut", "one model, cut into\na model per stratum", "synth/strata/cutting.py", FREE),
)
FLOORS: Sequence[Sequence[tuple[str, str]]] = (
    (("paper/", "figures and tables of the papers; in no wheel"),),
    (("flows/", "command line, configuration, releases, audits, schedules"),),
    (("eval/", "scores, audits, reports"), ("analysis/", "a reader: estimates, replicates")),
    (("synth/", "mechanisms, models, strata"), ("inference/", "means, ratios, counts, planning, federated")),
    (("stats/", "laws, intervals, random effects: knows no private row"),),
    (("data/", "schema, sources, tables, strata"), ("privacy/", "budget, noise, ledger")),
)


def canvas(height: float) -> tuple[Figure, Axes]:
    """A page `WIDTH` × `height` inches, in these units, without axes."""
    figure = Figure((WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def draw_box(axes: Axes, x: float, y: float, width: float, height: float, box: Box) -> None:
    """A box with its lower left corner at (x, y)."""
    title, text, where, colour = box
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.09", facecolor=colour, edgecolor=INK, linewidth=1
    )
    axes.add_patch(patch)
    middle = x + width / 2
    axes.text(middle, y + height - 0.24, title, ha="center", va="center", size=11.5, weight="bold", color=INK)
    axes.text(middle, y + height / 2 - 0.02, text, ha="center", va="center", size=10, color=INK, linespacing=1.25)
    axes.text(middle, y + 0.19, where, ha="center", va="center", size=8.5, color=SOFT, family="monospace")


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: str = "arc3") -> None:
    """An arrow between two places."""
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=INK, linewidth=1.2, connectionstyle=bend)
    )


def draw_legend(axes: Axes, y: float, keys: Sequence[tuple[str, str]]) -> None:
    """What the colours mean, in one line."""
    x = 0.3
    for colour, text in keys:
        axes.add_patch(
            FancyBboxPatch((x, y), 0.2, 0.16, boxstyle="square,pad=0", facecolor=colour, edgecolor=INK, lw=0.7)
        )
        axes.text(x + 0.29, y + 0.08, text, va="center", size=9.5, color=INK)
        x += 0.62 + 0.078 * len(text)


def walk(boxes: Sequence[Box], per_row: int) -> Figure:
    """Boxes in reading order, joined by arrows."""
    rows = -(-len(boxes) // per_row)
    height, gap = 1.22, 0.62
    width = (WIDTH - 0.6 - (per_row - 1) * 0.36) / per_row
    total = 0.55 + rows * height + (rows - 1) * gap + 0.15
    figure, axes = canvas(total)
    places = []
    for number, box in enumerate(boxes):
        row, column = divmod(number, per_row)
        x = 0.3 + column * (width + 0.36)
        y = total - 0.13 - height - row * (height + gap)
        places.append((x, y))
        draw_box(axes, x, y, width, height, box)
    for (x, y), (to_x, to_y) in pairwise(places):
        if y == to_y:
            draw_arrow(axes, (x + width, y + height / 2), (to_x, to_y + height / 2))
        else:
            level = y - gap / 2
            axes.plot([x + width / 2, x + width / 2, to_x + width / 2], [y, level, level], color=INK, lw=1.2)
            draw_arrow(axes, (to_x + width / 2, level), (to_x + width / 2, to_y + height))
    draw_legend(
        axes, 0.12, [(PRIVATE, "holds private rows"), (PAID, "spends privacy budget"), (FREE, "post-processing, free")]
    )
    return figure


def rooms() -> Figure:
    """The floors: a room imports only from floors below it."""
    height, gap = 0.62, 0.2
    total = len(FLOORS) * (height + gap) + 0.35
    figure, axes = canvas(total)
    for number, floor in enumerate(FLOORS):
        y = total - 0.15 - height - number * (height + gap)
        width = (WIDTH - 1.5 - (len(floor) - 1) * 0.2) / len(floor)
        for place, (name, text) in enumerate(floor):
            x = 0.3 + place * (width + 0.2)
            axes.add_patch(
                FancyBboxPatch(
                    (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.09", facecolor=PLAIN, edgecolor=INK
                )
            )
            axes.text(x + width / 2, y + 0.41, name, ha="center", va="center", size=12, weight="bold", color=INK)
            axes.text(x + width / 2, y + 0.17, text, ha="center", va="center", size=9.5, color=INK)
    draw_arrow(axes, (WIDTH - 0.75, total - 0.2), (WIDTH - 0.75, 0.45))
    axes.text(WIDTH - 0.45, total / 2, "imports", rotation=270, ha="center", va="center", size=10.5, color=INK)
    axes.text(
        0.3, 0.17, "equistrata.errors and equistrata.arrays are below all of them", size=9.5, color=SOFT, va="center"
    )
    return figure


def main() -> None:
    """Write the four pictures."""
    mpl.rcParams |= {"svg.hashsalt": "equistrata", "svg.fonttype": "none", "font.family": "DejaVu Sans"}
    pictures = {
        "rooms": rooms(),
        "rows-in": walk(ROWS_IN, 4),
        "number-out": walk(NUMBER_OUT, 3),
        "shared-selection": walk(SELECTION, 3),
    }
    for name, figure in pictures.items():
        figure.savefig(
            FIGURES / f"architecture-{name}.svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )


if __name__ == "__main__":
    main()
