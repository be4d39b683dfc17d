"""Who is best where: means over repetitions, and ours over the best peer in every cell (a score at an ε)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot, nan, sqrt
from statistics import mean, stdev

from benchmarks.field.measuring import Line
from benchmarks.field.systems import Ours, System

SCORES = {
    "singles": "1-way",
    "pairs": "2-way",
    "triples": "3-way",
    "by_stratum": "by stratum",
    "parity": "parity",
    "distance": "distance",
    "forest": "forest",
}
WITHIN = 1.02  # of the best: the aim that this table is held against


@dataclass(frozen=True)
class Mean:
    """A score of a system at an ε over its repetitions; the standard error is NaN for one."""

    value: float
    error: float
    runs: int


@dataclass(frozen=True)
class Cell:
    """Ours beside the best peer, of a score at an ε: the best of ours, and `ratio` over that peer with its error."""

    score: str
    epsilon: float
    ours: str
    peer: str
    ratio: float
    error: float

    @property
    def held(self) -> bool:
        """Whether ours is best or within 2 % of it."""
        return self.ratio <= WITHIN


def mean_of(lines: Iterable[Line], system: str, epsilon: float, score: str) -> Mean | None:
    """The mean over repetitions, None if there is none."""
    values = [float(getattr(line, score)) for line in lines if line.system == system and line.epsilon == epsilon]
    if not values:
        return None
    return Mean(mean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else nan, len(values))


def epsilons(lines: Iterable[Line]) -> list[float]:
    """The ε that were measured, in order."""
    return sorted({line.epsilon for line in lines})


def best(lines: Sequence[Line], systems: Sequence[System], epsilon: float, score: str) -> tuple[str, Mean] | None:
    """The system with the least error there, and its mean; None if none was measured."""
    found = {s.name: m for s in systems if (m := mean_of(lines, s.name, epsilon, score)) is not None}
    return min(found.items(), key=lambda item: item[1].value) if found else None


def cells(lines: Sequence[Line], systems: Sequence[System]) -> list[Cell]:
    """Every cell in which both one of ours and a peer were measured."""
    ours = [system for system in systems if isinstance(system, Ours)]
    peers = [system for system in systems if not isinstance(system, Ours)]
    found = []
    for score in SCORES:
        for epsilon in epsilons(lines):
            own, other = best(lines, ours, epsilon, score), best(lines, peers, epsilon, score)
            if own and other:
                ratio = own[1].value / other[1].value
                error = ratio * hypot(own[1].error / own[1].value, other[1].error / other[1].value)
                found.append(Cell(score, epsilon, own[0], other[0], ratio, error))
    return found
