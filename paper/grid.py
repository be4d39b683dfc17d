"""What a figure of the stratification paper needs: its settings, and the runs behind it.

Figures share runs, so what one has made is there for the next.

>>> FigureSettings(5, quick=True).runs
2
>>> FigureSettings(10)
Traceback (most recent call last):
equistrata.errors.InputError: setting 'figure' is 10, but the paper has figures 1 to 9
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from equistrata.errors import InputError
from paper import means, mixture, synthesizers
from paper.lines import LineFile
from paper.means import MeanCell, MeanLine
from paper.mixture import MixtureCell, MixtureLine
from paper.synthesizers import VANILLA, Cell, Line, real_rows, variants

SYNTHESIZERS, MEANS, MIXTURE = "synthesizers", "means", "mixture"
KINDS: Mapping[str, tuple[type, type]] = {
    SYNTHESIZERS: (Cell, Line),
    MEANS: (MeanCell, MeanLine),
    MIXTURE: (MixtureCell, MixtureLine),
}
SOURCES = ("folktables", "sample")
SEEDS, QUICK_SEEDS = 5, 2
MECHANISMS = ("mst", "aim", "gem")
FINEST = "SEX_RAC1P"
QUICK_EPSILONS = (0.01, 0.1, 1.0)
QUICK_SIZES = (2_000, 10_000, 20_000)
QUICK_STRATA = ("SEX", "RAC1P", "SEX_RAC1P", "SEX_RAC1P_AGEP", "SEX_RAC1P_AGEP_DIS")
MANY_SIZES = (10_000,)  # n of the picture whose axis is k


def _setting(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class FigureSettings:
    """Everything that decides a figure. Raises InputError on a setting out of its range."""

    figure: int = field(metadata={"help": "the figure of the paper, 1 to 9"})
    quick: bool = _setting(False, "fewer seeds, places and strata: minutes, not hours")
    source: str = _setting("folktables", "where the rows are from: folktables or sample")
    state: str = _setting("NY", "state, for source folktables")
    year: int = _setting(2024, "survey year, for source folktables")
    root_dir: str = _setting("acs", "folder with <year>/1-Year/psam_p….csv, for source folktables")
    download: bool = _setting(False, "let folktables download what is not there")
    output: str = _setting("experiments", "folder for figures, their data, and the runs behind them")
    seeds: int | None = _setting(None, "how many seeds (5; 2 with --quick)")
    workers: int | None = _setting(None, "processes (one for each core)")

    def __post_init__(self) -> None:
        wrong = {
            "figure": (not 1 <= self.figure <= 9, "the paper has figures 1 to 9"),
            "source": (self.source not in SOURCES, f"the sources are {' and '.join(SOURCES)}"),
            "year": (self.year < 2014, "the surveys of 2014 and later can be read"),
            "seeds": (self.seeds is not None and self.seeds < 1, "at least one is needed"),
            "workers": (self.workers is not None and self.workers < 1, "at least one is needed"),
        }
        for name, (is_wrong, reason) in wrong.items():
            if is_wrong:
                raise InputError(f"setting {name!r} is {getattr(self, name)!r}, but {reason}")

    @property
    def runs(self) -> int:
        """The number of seeds."""
        return self.seeds or (QUICK_SEEDS if self.quick else SEEDS)

    @property
    def processes(self) -> int:
        """The number of worker processes."""
        return self.workers or os.cpu_count() or 1


@dataclass(frozen=True)
class Runs:
    """The places of each kind of run that a figure needs, in the order in which they are made.

    Attributes:
        classifiers: whether the synthesizers' runs need classifiers.
    """

    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    classifiers: bool = False

    @property
    def reads_rows(self) -> bool:
        """Whether any of them needs rows of people (the mixture is simulated)."""
        return any(self.cells.get(kind) for kind in (SYNTHESIZERS, MEANS))

    def missing(self, found: Mapping[str, Mapping[Any, Any]]) -> list[Unit]:
        """What is still to be made, in parts that are worth a worker's while."""
        units = []
        for kind, cells in self.cells.items():
            left = [cell for cell in cells if not self._made(found[kind].get(cell))]
            units += [Unit(kind, tuple(part), self.classifiers) for _, part in groupby(left, key=_part)]
        return units

    def _made(self, line: Any) -> bool:
        return line is not None and not (self.classifiers and isinstance(line, Line) and line.accuracy is None)


@dataclass(frozen=True)
class Unit:
    """Places of one kind that one worker makes at a time, and that are written down together."""

    kind: str
    cells: tuple[Any, ...]
    classifiers: bool = False


def runs_of(settings: FigureSettings) -> Runs:
    """The runs behind a figure."""
    figure, quick, seeds = settings.figure, settings.quick, settings.runs
    sizes = QUICK_SIZES if quick else mixture.SIZES
    if figure in (2, 8):
        strata = QUICK_STRATA if quick else means.STRATA
        return Runs({MEANS: [*means.grid(means.OUTCOMES[: 2 if figure == 2 else None], strata, seeds)]})
    cells: dict[str, Sequence[Any]] = {}
    simulated = {
        3: (mixture.GROUPS, (1.0,), sizes),
        6: (mixture.GROUPS, mixture.ALPHAS, sizes),
        7: (mixture.MANY_GROUPS, mixture.ALPHAS, MANY_SIZES),
    }
    if figure in simulated:
        cells[MIXTURE] = [*mixture.grid(*simulated[figure], seeds * mixture.RUNS_PER_SEED)]
    classified = figure in (4, 7)
    if figure in (4, 5, 7, 9):  # with classifiers: also what one reaches that is trained on the real rows
        cells[SYNTHESIZERS] = [*(real_rows(seeds) if classified else ()), *_grid(settings)]
    return Runs(cells, classified)


def files(output: str) -> dict[str, LineFile[Any, Any]]:
    """Kind → the file of its lines."""
    return {kind: LineFile(Path(output) / "runs" / f"{kind}.csv", *types) for kind, types in KINDS.items()}


def _grid(settings: FigureSettings) -> Iterator[Cell]:
    """Every mechanism, unstratified, in the paper's form by strata, and in equistrata's by the finest."""
    strata: tuple[str, ...] = (VANILLA, FINEST) if settings.quick else synthesizers.STRATA
    default: tuple[str, ...] = (FINEST,)
    if settings.figure == 9:  # its two halves: error by race, and by sex and race
        strata, default = (VANILLA, "RAC1P", FINEST), ("RAC1P", FINEST)
    every = [cell for name in MECHANISMS for cell in variants(name, strata, default)]
    epsilons = QUICK_EPSILONS if settings.quick else synthesizers.EPSILONS
    return synthesizers.grid(every, epsilons, settings.runs)


def _part(cell: Any) -> Any:
    """Places with the same part go together: a fit alone, the quick ones by the dozen."""
    if isinstance(cell, MeanCell):
        return cell.seed, cell.outcome
    if isinstance(cell, MixtureCell):
        return cell.k, cell.alpha, cell.n, cell.run // 50
    return cell
