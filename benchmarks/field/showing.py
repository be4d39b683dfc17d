"""The field's tables, as a terminal and a page show them, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from benchmarks.contest import save_figure
from benchmarks.field.measuring import NO_PRIVACY, Line
from benchmarks.field.standing import SCORES, Cell, best, cells, epsilons, mean_of
from benchmarks.field.systems import Ours, System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = ("#1f6f8b", "#2f9e6e", "#7a4f9e", "#14405c", "#7fb6c6", "#8f9fb0")
OTHERS = ("#b5541c", "#d08a1d", "#a83244", "#8c6d46", "#c46a9a", "#6b7280", "#d4a373", "#9b2226", "#bc6c25", "#7f5539")
MARKERS = "osD^vP*X<>"
_RING: dict[str, Any] = {"markersize": 13, "fillstyle": "none", "color": "black", "zorder": 5}


def table_at(lines: Sequence[Line], systems: Sequence[System], epsilon: float) -> list[list[str]]:
    """A row for each system that was measured at an ε, ceilings last; an asterisk is at the least error of a column."""
    private = [system for system in systems if system.private]
    least = {score: found[0] for score in SCORES if (found := best(lines, private, epsilon, score))}
    found = []
    for system in sorted(systems, key=lambda system: not system.private):
        at = epsilon if system.private else NO_PRIVACY
        of = {score: mean_of(lines, system.name, at, score) for score in (*SCORES, "seconds", "cpu_seconds")}
        if any(mean is None for mean in of.values()):
            continue
        row = [system.shown, str(next(mean.runs for mean in of.values() if mean))]
        for score, mean in of.items():
            assert mean is not None
            if score in SCORES:
                row.append(f"{mean.value:.4f}" + ("*" if least.get(score) == system.name else " "))
            else:
                row.append(f"{mean.value:.0f}")
        found.append(row)
    return found


HEADS = ("", "runs", *SCORES.values(), "s", "CPU s")


def terminal(rows: Sequence[Sequence[str]], heads: Sequence[str], title: str) -> Table:
    """A table of texts that fits 120 columns."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid


def standing(lines: Sequence[Line], systems: Sequence[System]) -> list[list[str]]:
    """A row for each score: at every ε the best of ours over the best peer, that peer, and an arrow above 1.02."""
    found: dict[str, list[str]] = {}
    for cell in cells(lines, systems):
        found.setdefault(cell.score, [SCORES[cell.score]]).append(_said(cell))
    return list(found.values())


def _said(cell: Cell) -> str:
    spread = "" if isnan(cell.error) else f"±{cell.error:.2f}"
    return f"{cell.ratio:.2f}{spread} {cell.peer}" + ("" if cell.held else " ←")


def page(lines: Sequence[Line], systems: Sequence[System], title: str) -> str:
    """All tables in Markdown, without seconds of clock."""
    parts = [f"# {title}\n"]
    for epsilon in epsilons(lines):
        rows = [[*row[:-2], row[-1]] for row in table_at(lines, systems, epsilon)]  # a page's lines are 120 columns
        parts += [f"\n## ε = {epsilon:g}\n\n", _markdown(rows, (*HEADS[:-2], HEADS[-1]))]
    parts += ["\n## The best of ours over the best peer\n\n"]
    parts += [_markdown(standing(lines, systems), ("", *(f"ε = {epsilon:g}" for epsilon in epsilons(lines))))]
    return "".join(parts)


def _markdown(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    every = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(text.strip() for text in row)} |\n" for row in every)


def draw(lines: Sequence[Line], systems: Sequence[System], title: str, path: Path) -> None:
    """Error by ε, a panel for each score: ours thick, peers thin, ceilings dotted, a ring around the least error.

    At a single ε a panel has a row for each system instead: points above one another could not be told apart.
    """
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    there = {line.system for line in lines}
    shown = [system for system in systems if system.name in there]
    figure, panels = pyplot.subplots(2, 4, figsize=(13, 6.4), layout="constrained")
    at = epsilons(lines)
    figure.suptitle(f"{title}, ε = {at[0]:g}" if len(at) == 1 else title, fontsize=11)
    for place, (axes, (score, label)) in enumerate(zip(panels.flat, SCORES.items(), strict=False)):
        (_rows if len(at) == 1 else _panel)(axes, lines, shown, score)
        axes.set_title(label, fontsize=10)
        if len(at) == 1 and place % 4:
            axes.set_yticklabels([])
    handles, labels = panels.flat[0].get_legend_handles_labels()
    handles.append(Line2D([], [], marker="o", linestyle="none", **_RING))
    panels.flat[-1].axis("off")
    panels.flat[-1].legend(
        handles, [*labels, "the least error with privacy"], frameon=False, fontsize=8, loc="center left"
    )
    save_figure(figure, path)


def _panel(axes: Axes, lines: Sequence[Line], systems: Sequence[System], score: str) -> None:
    ours = [system for system in systems if isinstance(system, Ours)]
    peers = [system for system in systems if not isinstance(system, Ours) and system.private]
    for system in [*peers, *ours]:
        means = [(e, m.value) for e in epsilons(lines) if (m := mean_of(lines, system.name, e, score))]
        own = isinstance(system, Ours)
        place = (ours if own else peers).index(system)
        axes.plot(
            [e for e, _ in means], [value for _, value in means], label=system.shown, zorder=4 if own else 3,
            color=(COLOURS if own else OTHERS)[place % len(COLOURS if own else OTHERS)], linewidth=2.6 if own else 1.2,
            linestyle="-" if own else "--", marker=MARKERS[place % len(MARKERS)], markersize=5,
        )  # fmt: skip
    _ceilings(axes.axhline, lines, systems, score)
    for epsilon in epsilons(lines):
        if least := best(lines, [*ours, *peers], epsilon, score):
            axes.plot(epsilon, least[1].value, "o", **_RING)
    axes.set(xscale="log", yscale="log", xlabel="ε")
    axes.set_xticks(epsilons(lines), [f"{epsilon:g}" for epsilon in epsilons(lines)])
    _numbers(axes, axes.yaxis, (1, 2, 3, 5))


def _rows(axes: Axes, lines: Sequence[Line], systems: Sequence[System], score: str) -> None:
    """The errors at the one ε, a row for each private system, ours first."""
    (epsilon,) = epsilons(lines)
    private = sorted((system for system in systems if system.private), key=lambda system: not isinstance(system, Ours))
    for row, system in enumerate(private):
        own = isinstance(system, Ours)
        if mean := mean_of(lines, system.name, epsilon, score):
            axes.plot(mean.value, row, "o" if own else "s", color=(COLOURS if own else OTHERS)[0], markersize=6)
    _ceilings(axes.axvline, lines, systems, score)
    if least := best(lines, private, epsilon, score):
        axes.plot(least[1].value, [system.name for system in private].index(least[0]), "o", **_RING)
    axes.set(xscale="log", ylim=(len(private) - 0.4, -0.6))
    axes.set_yticks(range(len(private)), [system.shown for system in private], fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    _numbers(axes, axes.xaxis, (1, 2, 3, 5, 7))


def _ceilings(line: Callable[..., Any], lines: Sequence[Line], systems: Sequence[System], score: str) -> None:
    """A line across for each system without privacy."""
    for place, system in enumerate(system for system in systems if not system.private):
        if mean := mean_of(lines, system.name, NO_PRIVACY, score):
            line(mean.value, color="#444444", linestyle=(":", "-.")[place % 2], linewidth=1, label=system.shown)


def _numbers(axes: Axes, of_errors: Axis, digits: Sequence[int]) -> None:
    """Plain numbers with these first digits on the logarithmic axis of errors, and a light grid."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    of_errors.set_major_locator(LogLocator(subs=digits))
    of_errors.set_major_formatter(FormatStrFormatter("%g"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.grid(which="both", alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
