"""Tables of the results for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from rich import box
from rich.table import Table

from benchmarks.field.measuring import Line
from benchmarks.field.standing import SCORES, Cell, best, cells, mean_of
from benchmarks.field.systems import System


def table_at(lines: Sequence[Line], systems: Sequence[System], epsilon: float) -> list[list[str]]:
    """Return a table with one row for each system that was measured at an ε.

    An asterisk marks the smallest error of each column.
    """
    least = {score: found[0] for score in SCORES if (found := best(lines, systems, epsilon, score))}
    found = []
    for system in systems:
        of = {score: mean_of(lines, system.name, epsilon, score) for score in (*SCORES, "seconds", "cpu_seconds")}
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
    """Return a table of texts that fits into 120 columns."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid


def standing(lines: Sequence[Line], systems: Sequence[System]) -> list[list[str]]:
    """Return a table with one row for each score. It contains the ratio of our best system to the best peer for each ε.

    Each entry also contains the name of the peer, and an arrow if the ratio is larger than 1.02.
    """
    found: dict[str, list[str]] = {}
    for cell in cells(lines, systems):
        found.setdefault(cell.score, [SCORES[cell.score]]).append(_said(cell))
    return list(found.values())


def _said(cell: Cell) -> str:
    spread = "" if isnan(cell.error) else f"±{cell.error:.2f}"
    return f"{cell.ratio:.2f}{spread} {cell.peer}" + ("" if cell.held else " ←")
