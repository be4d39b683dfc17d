"""Values that drawn rows exchange, so that synthetic people change no more often than what is known asks for.

Two months' rows are drawn apart. So matched people differ in columns that were not asked about, by the chance of the
draw, and by noise in how columns go together. Where somebody's value changed, a row of the same stratum that has the
former value takes the new one for it. So each column keeps its counts in each stratum, as drawn. Only how it goes
together with other columns moves, and no count of two columns moves by more than ALLOWED of its own error, that of
noise and of a sample together. No row gets two values that no drawn row has. Post-processing, no cost. See
docs/proofs/panel.md.

>>> before, now = np.array([[0, 0], [1, 0]] * 50), np.array([[1, 0], [0, 0]] * 50)
>>> kept = Keeping((2, 1), (), (0,)).exchanged(np.arange(100), before, now, {}, np.random.default_rng(1))
>>> bool((kept == before).all())
True
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Columns, Former
from equistrata.synth.series.identities import NOBODY, Codes, Places, realised

# docs/experiments/series.md
ALLOWED = 0.25  # of the error of a count of two columns: how far exchanges may move it
TRIES, SWEEPS = 12, 2
_MOST_CELLS = 1 << 18  # of two columns; rows that exchange are alike in the other one where there are more

# Of another column its place and size, and by code of a column and of it: how far counts have moved, and may.
_Beside = tuple[int, int, list[int], list[float]]
_TwoCells = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Keeping:
    """How values are exchanged.

    Attributes:
        sizes: of the columns of this month's rows.
        within: columns that rows have to be alike in: those of the strata.
        order: columns in which values are exchanged, one after the other: those that people had in the month before.
        noise: the standard deviation of counts of two columns; none counts as the largest that is known.
        together: columns in which rows that exchange a column have to be alike as well, by column.
    """

    sizes: Sequence[int]
    within: Sequence[int]
    order: Sequence[int]
    noise: Mapping[tuple[int, int], float] = field(default_factory=dict)
    together: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def exchanged(
        self,
        partner: Places,
        before: Codes,
        now: Codes,
        least: Mapping[int, Floats],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.uint32]:
        """This month's rows after exchanges, shape (n, d).

        Args:
            partner: of each row, the row of the same person before, or -1.
            before, now: codes, shapes (m, e) with e ≤ d and (n, d); the first e columns are the same.
            least: of some columns, numbers of people by code before and now, below which no change is undone.
        """
        rows = np.array(now, dtype=np.uint32)
        pairs = _Pairs.of(rows, self.sizes, self.noise)
        for column in list(self.order) * SWEEPS:
            self._column(column, partner, before, rows, least.get(column), pairs, rng)
        return rows

    def _column(
        self,
        column: int,
        partner: Places,
        before: Codes,
        now: npt.NDArray[np.uint32],
        least: Floats | None,
        pairs: _Pairs,
        rng: np.random.Generator,
    ) -> None:
        """Exchange values of one column; `now` and `pairs` change."""
        stays = partner != NOBODY
        then = np.where(stays, before[partner, column].astype(np.int64), -1)
        changed = rng.permutation(np.flatnonzero(stays & (then != now[:, column])))
        if not len(changed):
            return
        rows = np.concatenate([changed, rng.permutation(np.flatnonzero(~stays))])
        seen = None if least is None else realised(partner, before, now, column, self.sizes[column]).astype(np.float64)
        others = [other for other in range(len(self.sizes)) if other != column]
        strict = {*self.within, *self.together.get(column, ()), *pairs.wide(column)}
        _, alike = np.unique(now[rows][:, sorted(strict - {column})], axis=0, return_inverse=True)
        search = _Search(
            then[rows].tolist(),
            now[rows, column].tolist(),
            now[rows][:, others].tolist(),
            alike.reshape(-1).tolist(),
            pairs.beside(column, others),
            len(changed),
        )
        search.run(least, seen, rng)
        pairs.keep(column, others, search.beside)
        now[rows, column] = search.has


@dataclass(frozen=True, eq=False)
class _Pairs:
    """How far counts of two columns have moved, and how far they may, as flat lists; a < b in each pair."""

    sizes: Sequence[int]
    moved: dict[tuple[int, int], list[int]]
    room: Mapping[tuple[int, int], Floats]

    @classmethod
    def of(cls, now: Codes, sizes: Sequence[int], noise: Mapping[tuple[int, int], float]) -> _Pairs:
        room, unknown = {}, max(noise.values(), default=0.0)
        for a, b in combinations(range(len(sizes)), 2):
            cells = sizes[a] * sizes[b]
            if cells <= _MOST_CELLS:
                counts = np.bincount(now[:, a].astype(np.int64) * sizes[b] + now[:, b], minlength=cells)
                error = np.sqrt(counts + noise.get((a, b), unknown) ** 2)
                room[a, b] = np.where(counts > 0, ALLOWED * error, 0.0)
        return cls(sizes, {pair: [0] * len(each) for pair, each in room.items()}, room)

    def wide(self, column: int) -> Iterator[int]:
        """Columns that are not followed beside this one."""
        for other in range(len(self.sizes)):
            if other != column and (min(column, other), max(column, other)) not in self.room:
                yield other

    def beside(self, column: int, others: Sequence[int]) -> list[_Beside]:
        """Of the other columns that are followed."""
        found = []
        for place, other in enumerate(others):
            pair = min(column, other), max(column, other)
            if pair in self.room:
                shape = self.sizes[pair[0]], self.sizes[pair[1]]
                moved, room = (np.reshape(each, shape) for each in (self.moved[pair], self.room[pair]))
                turned = (moved, room) if column < other else (moved.T, room.T)
                found.append((place, self.sizes[other], turned[0].ravel().tolist(), turned[1].ravel().tolist()))
        return found

    def keep(self, column: int, others: Sequence[int], beside: Sequence[_Beside]) -> None:
        """Take back what `beside` gave, as it is now."""
        for place, size, moved, _ in beside:
            other = others[place]
            table = np.reshape(moved, (self.sizes[column], size))
            self.moved[min(column, other), max(column, other)] = (table if column < other else table.T).ravel().tolist()


@dataclass(frozen=True, eq=False)
class _Search:
    """The rows that may exchange values of one column: people who changed, then new people. Plain lists, for speed.

    Attributes:
        then: the value in the month before, -1 of new people.
        has: the value now; changes.
        rest: the other columns.
        alike: a number, the same for rows that may exchange.
        beside: see `_Pairs.beside`; changes.
        changed: how many of the rows are of people who changed.
    """

    then: list[int]
    has: list[int]
    rest: list[list[int]]
    alike: list[int]
    beside: list[_Beside]
    changed: int

    def run(self, least: Floats | None, seen: Floats | None, rng: np.random.Generator) -> None:
        """Undo changes: at best two at once, else with a new person, at last with somebody who stays changed."""
        both, new, other = (defaultdict[tuple[int, ...], list[int]](list) for _ in range(3))
        for row, (then, has, alike) in enumerate(zip(self.then, self.has, self.alike, strict=True)):
            if row >= self.changed:
                new[alike, has].append(row)
            else:
                both[alike, has, then].append(row)
                other[alike, has].append(row)
        starts = rng.random(self.changed).tolist()
        for row in range(self.changed):
            then, has, alike = self.then[row], self.has[row], self.alike[row]
            if then == has or not _spare(least, seen, then, has):
                continue
            pools = [both.get((alike, then, has), ()), new.get((alike, then), ())]
            if least is None:
                pools.append(other.get((alike, then), ()))
            elif not _spare(least, seen, has, then):
                pools[0] = ()
            partner = self._found(row, pools, starts[row])
            if partner is None:
                continue
            self._exchange(row, partner)
            if seen is not None:
                for one, to in ((then, has), *([(has, then)] if partner < self.changed else [])):
                    seen[one, to] -= 1

    def _found(self, row: int, pools: Sequence[Sequence[int]], start: float) -> int | None:
        """A row that has this one's former value and may exchange it: it changed too, or is new."""
        wanted = self.then[row]
        for pool in pools:
            first = int(start * len(pool))
            for step in range(min(TRIES, len(pool))):
                other = pool[(first + step) % len(pool)]
                if self.has[other] == wanted != self.then[other] and self._may(row, other):
                    return other
        return None

    def _may(self, row: int, other: int) -> bool:
        """Whether no count moves too far, or further where it has already."""
        for moved, room, more, less in self._cells(row, other):
            if any(moved[cell] >= 0 and moved[cell] + 1 > room[cell] for cell in more):
                return False
            if any(moved[cell] <= 0 and 1 - moved[cell] > room[cell] for cell in less):
                return False
        return True

    def _exchange(self, row: int, other: int) -> None:
        for moved, _, more, less in self._cells(row, other):
            for gains, loses in zip(more, less, strict=True):
                moved[gains] += 1
                moved[loses] -= 1
        self.has[row], self.has[other] = self.has[other], self.has[row]

    def _cells(self, row: int, other: int) -> Iterator[tuple[list[int], list[float], _TwoCells, _TwoCells]]:
        """The counts that an exchange moves, with another column each: what moved, how far it may, and the cells of one
        row more, and of one fewer."""
        has, wanted, mine, its = self.has[row], self.has[other], self.rest[row], self.rest[other]
        for place, size, moved, room in self.beside:
            x, y = mine[place], its[place]
            if x != y:
                yield moved, room, (wanted * size + x, has * size + y), (has * size + x, wanted * size + y)


def _spare(least: Floats | None, seen: Floats | None, then: int, has: int) -> bool:
    """Whether one change fewer is still as many as there are to be."""
    return least is None or seen is None or bool(seen[then, has] - 1 >= least[then, has])


def pair_noise(known: Sequence[Former], names: Columns, sizes: Sequence[int]) -> dict[tuple[int, int], float]:
    """The standard deviation of counts of two columns, by places in `names`, as the marginals that hold both know them.

    Of merged codes it is that of a part of the cell, so that the cell as a whole moves no further than it may.
    """
    found: dict[tuple[int, int], dict[object, float]] = defaultdict(dict)
    for each in known:
        held = [name for name in each.columns if name in names]
        for one, two in combinations(held, 2):
            a, b = sorted((names.index(one), names.index(two)))
            kept = [each.values.shape[each.columns.index(name)] for name in (one, two)]
            variance = each.sigma**2 * each.values.size / (kept[0] * kept[1])
            parts = sizes[a] * sizes[b] / (kept[0] * kept[1])
            own = found[a, b]
            own[each.where] = min(own.get(each.where, np.inf), variance / parts**2)
    return {
        pair: float(np.sqrt(min(own.get((), np.inf), sum(v for where, v in own.items() if where) or np.inf)))
        for pair, own in found.items()
    }


def tied(schema: Schema, names: Columns) -> dict[int, frozenset[int]]:
    """Of columns of which structural zeros rule out three values together, the others. Two that no row has stay so."""
    found: dict[int, set[int]] = defaultdict(set)
    for zero in schema.impossible:
        places = {names.index(name) for name in zero.columns if name in names}
        if len(zero.columns) > 2:
            for place in places:
                found[place] |= places - {place}
    return {place: frozenset(others) for place, others in found.items()}
