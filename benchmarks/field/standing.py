"""Means over repetitions, and the ratio of our best system to the best peer for each score and ε."""

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
WITHIN = 1.02  # the target for the ratio to the best peer


@dataclass(frozen=True)
class Mean:
    """The mean score of a system over its repetitions, for a given ε.

    The standard error is NaN if there is only one repetition.
    """

    value: float
    error: float
    runs: int


@dataclass(frozen=True)
class Cell:
    """A comparison of our best system with the best peer, for a single score and a single ε.

    Attributes
    ----------
    score : str
        The name of the score.
    epsilon : float
        The privacy parameter ε.
    ours, peer : str
        The names of the two systems.
    ratio, error : float
        The ratio of our score to the score of the peer, and its standard error.
    """

    score: str
    epsilon: float
    ours: str
    peer: str
    ratio: float
    error: float

    @property
    def held(self) -> bool:
        """True if the score of our best system is at most 2 % larger than the score of the best peer."""
        return self.ratio <= WITHIN


def mean_of(lines: Iterable[Line], system: str, epsilon: float, score: str) -> Mean | None:
    """Return the mean over repetitions, or None if there are no repetitions."""
    values = [float(getattr(line, score)) for line in lines if line.system == system and line.epsilon == epsilon]
    if not values:
        return None
    return Mean(mean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else nan, len(values))


def epsilons(lines: Iterable[Line]) -> list[float]:
    """Return the values of ε that were measured, in increasing order."""
    return sorted({line.epsilon for line in lines})


def best(lines: Sequence[Line], systems: Sequence[System], epsilon: float, score: str) -> tuple[str, Mean] | None:
    """Return the system with the smallest error and its mean, or None if no system was measured."""
    found = {s.name: m for s in systems if (m := mean_of(lines, s.name, epsilon, score)) is not None}
    return min(found.items(), key=lambda item: item[1].value) if found else None


def cells(lines: Sequence[Line], systems: Sequence[System]) -> list[Cell]:
    """Return the comparisons for each score and ε for which one of our systems and one peer were measured."""
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
