"""How people change from one month of a series to the next: joint counts of two months, joined over all months.

Of each column the numbers of people in both months by their code before and now are measured, with noise. They are kept
in a state of their own and joined over months by the series' filter (`equistrata.synth.series.drift`): the counts
drift, and what jumps is believed. What is below the noise floor is drawn towards persistence. See docs/proofs/panel.md.

>>> from equistrata.synth.series.state import known
>>> counts = np.array([[900.0, 40.0], [35.0, 700.0]])
>>> few = Measurement(("JOB before", "JOB"), counts, 10.0)
>>> few = known(few, counts, np.full(counts.shape, 100.0))
>>> found = People.of([few], Rows(1700, 1750, 1700, 1750), [np.array([0.56, 0.44])])
>>> found.stayed, found.transitions[0].counts.round().tolist()
(1672, [[901.0, 35.0], [35.0, 701.0]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt

import numpy as np

from equistrata.arrays import Counts, Floats
from equistrata.data.schema import Column, Schema
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import NoiseSource, gaussian_sigma
from equistrata.synth.measurements import Former, Measurement
from equistrata.synth.series.drift import filtered, predicted
from equistrata.synth.series.state import State

THEN = "{} before"  # what a column of the month before is called
MOST_ERROR = 0.02  # of the share of people who change, once all months left were joined: else not measured
# docs/experiments/series.md
TURNOVER = 0.03  # share of people who leave, where nothing is seen of it; counts as seen with an error as large
CHANGED = 0.02  # how large shares of changed people are, where nothing is seen of it; counts as one column that is


def worth_measuring(sizes: Mapping[str, int], rho: float, rows: int, months: int) -> tuple[str, ...]:
    """Of columns with so many codes, those of which the share of changes can be seen at all; they share ρ equally.

    Args:
        rows: of the release before, which is published.
        months: how many are left, this one too, in which noise averages out.
    """
    order = sorted(sizes, key=lambda name: sizes[name])
    for count in range(len(order), 0, -1):
        sigma, size = gaussian_sigma(rho / count), sizes[order[count - 1]]
        if sigma * sqrt(size * (size - 1) / months) <= MOST_ERROR * rows:
            chosen = set(order[:count])
            return tuple(name for name in sizes if name in chosen)
    return ()


def measure_transitions(
    names: Sequence[str],
    counts: Callable[[int], Counts],
    rho: Rho,
    budget: Budget,
    noise: NoiseSource,
) -> list[Measurement]:
    """Joint counts of two months, of each column, with Gaussian noise; columns share ρ equally.

    Args:
        names: of the columns.
        counts: the `Linking.joint` counts of one of them, by its place; called once its charge stands.

    Cost: ρ-zCDP, where a person who is added to either month's table or both, or removed, changes each column's counts
    by one at most. See docs/proofs/panel.md.
    """
    found: list[Measurement] = []
    for place, (name, share) in enumerate(zip(names, rho.split([1] * len(names)), strict=True)):
        values, sigma = noise.gaussian(partial(counts, place), 1.0, share, budget, f"transitions of {name}")
        found.append(Measurement((THEN.format(name), name), values.astype(np.float64), sigma))
    return found


def joined(state: State | None, month: int, measured: Sequence[Measurement]) -> State:
    """What the months together know of transitions after this one. Post-processing, no cost.

    Args:
        state: after a former month, of columns that mean the same now (`keeping`); None for the first measured one.
    """
    if state is None or not state.known:
        return State.of(month, measured)
    if not measured:
        return State(month, tuple(predicted(state, month, ())), state.moments)
    every = [*state.known, *measured]
    sizes = {name: size for each in every for name, size in zip(each.columns, each.values.shape, strict=True)}
    schema = Schema("transitions", tuple(Column(name, values=tuple(range(size))) for name, size in sizes.items()))
    return filtered(schema, (), state, month, measured).state


def keeping(state: State, names: Sequence[str]) -> State:
    """The state without columns that are not among these."""
    kept = tuple(each for each in state.known if each.columns[1] in names)
    return State(state.month, kept, state.moments, state.earlier)


@dataclass(frozen=True, eq=False)
class Transition:
    """The expected transitions of one column.

    Attributes:
        column: its name.
        counts: expected numbers of people in both months by their code before (axis 0) and now (axis 1).
        changed, error: the share of people who change their code, and the standard error of what was measured of it.
    """

    column: str
    counts: Floats
    changed: float
    error: float


@dataclass(frozen=True)
class Rows:
    """How many rows two months have: released ones, and those of their tables, as the releases estimate them."""

    before: int
    now: int
    table_before: float
    table_now: float


@dataclass(frozen=True, eq=False)
class People:
    """Who is in both months.

    Attributes:
        stayed: expected number of people of the month before who are in this month, of released rows.
        transitions: of the columns that something is known of.
    """

    stayed: int
    transitions: tuple[Transition, ...]

    @classmethod
    def of(cls, state: Sequence[Former], rows: Rows, shares: Sequence[Floats]) -> People:
        """From what is known of joint counts, for releases of so many rows. Post-processing, no cost.

        Args:
            shares: of each column's codes in the month before, as published.
        """
        most = min(rows.before, rows.now)
        if not state:
            return cls(most, ())
        then, now = max(rows.table_before, 1.0), max(rows.table_now, 1.0)
        totals = np.array([each.values.sum() for each in state])
        precision = 1 / np.array([(each.cell_sigma**2).sum() for each in state])
        error, usual = 1 / float(precision.sum()) / then**2, TURNOVER**2
        seen = 1 - float(precision @ totals / precision.sum()) / then
        staying = float(np.clip(1 - (TURNOVER * error + seen * usual) / (error + usual), 0.0, 1.0))
        stayed = min(round(min(staying * rows.before, staying * then / now * rows.now)), most)
        people = max(staying * then, 1.0)
        moves = np.array([each.values.sum() - np.trace(each.values) for each in state]) / people
        errors = np.array([sqrt(float((each.sigmas**2).sum() - np.trace(each.sigmas**2))) for each in state]) / people
        drawn = towards_persistence(moves, errors)
        return cls(
            stayed,
            tuple(
                Transition(
                    each.columns[1], _counts(each, own, people, share) * (stayed / people), float(share), float(spread)
                )
                for each, own, share, spread in zip(state, shares, drawn, errors, strict=True)
            ),
        )

    def of_whom(self, stayed: int) -> People:
        """So many of them, who change as often."""
        part = stayed / max(self.stayed, 1)
        return People(stayed, tuple(replace(each, counts=each.counts * part) for each in self.transitions))


def towards_persistence(moves: Floats, errors: Floats) -> Floats:
    """Shares of changed people, drawn towards 0 by how large they are beside their noise, in all columns together.

    The variance of shares around 0 is found by moments; CHANGED counts as one column that was seen exactly.
    """
    weights = (CHANGED**2 / (CHANGED**2 + errors**2)) ** 2
    spread = (CHANGED**2 + float(weights @ (moves**2 - errors**2))) / (1 + weights.sum())
    spread = max(spread, (CHANGED / 10) ** 2)
    return np.asarray(np.clip(moves * spread / (spread + errors**2), 0.0, 1.0))


def _counts(each: Former, shares: Floats, people: float, changed: float) -> Floats:
    """Joint counts with so many changes. Which ones: as measured, drawn towards chance by their noise (James-Stein)."""
    size = len(shares)
    apart = ~np.eye(size, dtype=bool)
    expected = np.outer(shares, shares) * apart
    expected *= changed * people / max(expected.sum(), 1e-12)
    gaps, noise = (each.values - expected)[apart], float((each.sigmas[apart] ** 2).sum())
    kept = max(0.0, 1 - noise / max(float((gaps**2).sum()), 1e-12))
    moves = np.maximum(expected + kept * (each.values - expected), 0.0) * apart
    moves *= changed * people / max(moves.sum(), 1e-12)
    stay = np.maximum(people * shares - moves.sum(1), 0.0)
    stay *= (1 - changed) * people / max(stay.sum(), 1e-12)
    return np.asarray(moves + np.diag(stay))
