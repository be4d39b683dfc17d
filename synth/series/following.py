"""A month of a panel made from two months' rows, what was measured of how people change, and the panel so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equistrata.arrays import Floats
from equistrata.synth.measurements import Measurement
from equistrata.synth.series.identities import Codes, Places, costs_of, most_followed, partners, realised, with_changes
from equistrata.synth.series.keeping import Keeping
from equistrata.synth.series.panel import Panel
from equistrata.synth.series.transitions import CHANGED, People, Rows, joined, keeping

MOST_TOLD = 64  # codes of a column of which realised transitions are published, where it was not named


@dataclass(frozen=True, eq=False)
class TwoMonths:
    """The released rows of two months, in the columns that mean the same in both.

    Attributes:
        names, sizes: of the columns.
        before, now: codes, shapes (m, d) and (n, d).
        named: columns in which people are to change as was measured.
        fixed: columns that people seldom change: those of the strata.
        rest, rest_sizes: codes of the later month's other columns, shape (n, k), and their sizes.
        noise, together: as `Keeping` has them, the other columns after these.
    """

    names: Sequence[str]
    sizes: Sequence[int]
    before: Codes
    now: Codes
    named: Sequence[str]
    fixed: Sequence[str] = ()
    rest: Codes | None = None
    rest_sizes: Sequence[int] = ()
    noise: Mapping[tuple[int, int], float] = field(default_factory=dict)
    together: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def followed(
        self,
        month: int,
        former: Panel,
        said: Mapping[str, Any],
        measured: Sequence[Measurement],
        table: float,
        rng: np.random.Generator,
    ) -> tuple[Panel, Places, Codes]:
        """The panel of the later month, where the person of each of its rows was before, and its rows. No cost.

        Rows exchange values so that people change as seldom as can be (`equistrata.synth.series.keeping`).

        Args:
            month: its number.
            former: the panel of the month before, and what of it is named (`Panel.former`).
            measured: joint counts of the two months.
            table: how many rows the later month's table has, as its release estimates it.
        """
        known = None if former.state is None else keeping(former.state, self.names)
        state = joined(known, month, measured) if measured or known is not None else None
        own = [each for each in (state.known if state else ()) if each.columns[1] in self.named]
        shares = [self._shares(each.columns[1]) for each in own]
        people = People.of(own, Rows(len(self.before), len(self.now), former.table, table), shares)
        within = [at for at, name in enumerate(self.names) if name in self.fixed and name not in self.named]
        most = most_followed(self.before, self.now, within, self.sizes)
        lost, people = max(people.stayed - most, 0), people.of_whom(min(people.stayed, most))
        place = {name: at for at, name in enumerate(self.names)}
        changed = {place[name]: CHANGED for name in self.named if name in place}
        changed |= {place[each.column]: each.changed for each in people.transitions}
        fixed = [place[name] for name in self.fixed if name in place and place[name] not in changed]
        costs = costs_of(self.sizes, changed, fixed)
        found = partners(self.before, self.now, self.sizes, costs, people.stayed, rng, within)
        expected = {place[each.column]: each.counts for each in people.transitions}
        found = with_changes(found, self.before, self.now, self.sizes, costs, expected, rng)
        rows = self._kept(found, costs, changed, expected, table, rng)
        found = with_changes(found, self.before, rows[:, : len(self.names)], self.sizes, costs, expected, rng)
        panel = Panel(
            month,
            came=len(self.now) - people.stayed,
            table=table,
            stayed=people.stayed,
            left=len(self.before) - people.stayed,
            lost=lost,
            former=said,
            measured=tuple(measured),
            state=state,
            transitions=people.transitions,
            realised={
                name: realised(found, self.before, rows, at, self.sizes[at])
                for name, at in place.items()
                if self.sizes[at] <= MOST_TOLD or name in self.named
            },
        )
        return panel, found, rows

    def _kept(
        self,
        partner: Places,
        costs: Floats,
        named: Mapping[int, float],
        expected: Mapping[int, Floats],
        table: float,
        rng: np.random.Generator,
    ) -> Codes:
        """The later month's rows, all columns, after exchanges: what was not named first, of the dearest columns."""
        within = [at for at, name in enumerate(self.names) if name in self.fixed]
        free = [at for at in range(len(self.names)) if at not in within]
        order = sorted(free, key=lambda at: (at in named, -costs[at]))
        rest = np.zeros((len(self.now), 0), self.now.dtype) if self.rest is None else self.rest
        times = len(self.now) / max(table, 1.0)
        noise = {pair: sigma * times for pair, sigma in self.noise.items()}
        keeping = Keeping([*self.sizes, *self.rest_sizes], within, order, noise, self.together)
        return keeping.exchanged(partner, self.before, np.concatenate([self.now, rest], axis=1), expected, rng)

    def _shares(self, name: str) -> Floats:
        """Of each code of a column in the month before."""
        at = self.names.index(name)
        counts = np.bincount(self.before[:, at], minlength=self.sizes[at]).astype(np.float64)
        return np.asarray(counts / max(counts.sum(), 1.0))
