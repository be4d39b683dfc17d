"""Which runs each figure of the stratification paper needs. Figures share runs, so what one has made is there for the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from paper import means as experiment_means
from paper import mixture as experiment_mixture
from paper import synthesizers as experiment_synthesizers
from paper.config import ExperimentConfig
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
MECHANISMS = ("mst", "aim", "gem")
FINEST = "SEX_RAC1P"
QUICK_EPSILONS = (0.01, 0.1, 1.0)
QUICK_SIZES = (2_000, 10_000, 20_000)
QUICK_STRATA = ("SEX", "RAC1P", "SEX_RAC1P", "SEX_RAC1P_AGEP", "SEX_RAC1P_AGEP_DIS")
MANY_SIZES = (10_000,)  # n of the picture whose axis is k


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


def runs_of(config: ExperimentConfig) -> Runs:
    """The runs behind a figure."""
    seeds, quick = config.runs, config.quick
    sizes = QUICK_SIZES if quick else experiment_mixture.SIZES
    simulated = seeds * experiment_mixture.RUNS_PER_SEED
    match config.figure:
        case 1:
            return Runs()
        case 2 | 8:
            outcomes = experiment_means.OUTCOMES[: 2 if config.figure == 2 else None]
            strata = QUICK_STRATA if quick else experiment_means.STRATA
            return Runs({MEANS: list(experiment_means.grid(outcomes, strata, seeds))})
        case 3:
            return Runs({MIXTURE: list(experiment_mixture.grid(experiment_mixture.GROUPS, (1.0,), sizes, simulated))})
        case 6:
            return Runs({
                MIXTURE: list(
                    experiment_mixture.grid(experiment_mixture.GROUPS, experiment_mixture.ALPHAS, sizes, simulated)
                )
            })  # fmt: skip
        case 7:
            many = experiment_mixture.grid(
                experiment_mixture.MANY_GROUPS, experiment_mixture.ALPHAS, MANY_SIZES, simulated
            )
            return Runs({MIXTURE: list(many), SYNTHESIZERS: _classified(config)}, classifiers=True)
        case 4:
            return Runs({SYNTHESIZERS: _classified(config)}, classifiers=True)
        case _:
            return Runs({SYNTHESIZERS: list(_grid(config))})


def files(output: str) -> dict[str, LineFile[Any, Any]]:
    """Kind → the file of its lines."""
    return {kind: LineFile(Path(output) / "runs" / f"{kind}.csv", *types) for kind, types in KINDS.items()}


def _grid(config: ExperimentConfig) -> Iterator[Cell]:
    """Every mechanism, unstratified, in the paper's form by strata, and in equistrata's by the finest."""
    strata = (VANILLA, FINEST) if config.quick else experiment_synthesizers.STRATA
    default: tuple[str, ...] = (FINEST,)
    if config.figure == 9:  # its two halves: error by race, and by sex and race
        strata, default = (VANILLA, "RAC1P", FINEST), ("RAC1P", FINEST)
    every = [cell for name in MECHANISMS for cell in variants(name, strata, default)]
    if config.quick and config.figure == 5:
        # GEM chooses nothing for all strata at once, and its default form is a quarter of the time.
        every = [cell for cell in every if (cell.mechanism, cell.form) != ("gem", "default")]
    epsilons = QUICK_EPSILONS if config.quick else experiment_synthesizers.EPSILONS
    return experiment_synthesizers.grid(every, epsilons, config.runs)


def _classified(config: ExperimentConfig) -> list[Cell]:
    """The grid, and what a classifier makes of the real rows."""
    return [*real_rows(config.runs), *_grid(config)]


def _part(cell: Any) -> Any:
    """Places with the same part go together: a fit alone, the quick ones by the dozen."""
    if isinstance(cell, MeanCell):
        return cell.seed, cell.outcome
    if isinstance(cell, MixtureCell):
        return cell.k, cell.alpha, cell.n, cell.run // 50
    return cell
