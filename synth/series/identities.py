"""Who of this month's rows was who last month: ids of the rows before, given to the rows of now. Post-processing.

Both months' rows are drawn from models of their own and stay as they are. Survivors of the month before are matched to
rows of this month so that each changes as little as can be, rare changes last; rows of now that are left over are new
people. A match that is as good as can be has too few changes, or too many where the months' rows differ by noise.
Where too few, two people who differ in one column alone change places in it: that adds a change each way, and moves
nothing else. So do new people where more go one way. So the transitions are those that were estimated, as far as the
two months' rows have room for them.

>>> before, now = np.array([[0, 0], [1, 1]]), np.array([[1, 1], [0, 1], [0, 0]])
>>> partners(before, now, [2, 2], np.ones(2), 2, np.random.default_rng(1)).tolist()
[1, -1, 0]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats

Codes = npt.NDArray[np.integer]
Places = npt.NDArray[np.intp]

NOBODY = -1
MOST_PASSES = 300  # sets of columns that are left out of the comparison before all are, the cheapest first
_ALL_SETS = 12  # columns of which all sets are looked at; of more, those of up to two
_SWAP_PASSES = 40
LEAST_SHARE = 1e-4  # of changed people, in costs


def costs_of(sizes: Sequence[int], changed: Mapping[int, float], fixed: Sequence[int]) -> Floats:
    """What a change in each column costs: most in fixed ones, then in those with known changes, rare ones more.

    No number of changes in the others is as much as one in these, and few codes cost more than many, in which rows are
    seldom equal.

    Args:
        sizes: of the columns.
        changed: of some columns the expected share of people who change their code.
        fixed: columns, none of these, that people seldom change.
    """
    costs = 1 / np.sqrt(np.maximum(np.array(sizes, dtype=np.float64), 1.0))
    others = [column for column in range(len(sizes)) if column not in changed and column not in fixed]
    base = 1 + float(costs[others].sum())
    for column, share in changed.items():
        costs[column] = base * (1 - np.log(np.clip(share, LEAST_SHARE, 1.0)))
    costs[list(fixed)] = 1 + float(costs[[*others, *changed]].sum())
    return costs


def most_followed(before: Codes, now: Codes, within: Sequence[int], sizes: Sequence[int]) -> int:
    """How many people there can be in both months who do not change in some columns."""
    _, _, fewest = _both(before, now, within, sizes)
    return int(fewest.sum())


def partners(
    before: Codes,
    now: Codes,
    sizes: Sequence[int],
    costs: Floats,
    stayed: int,
    rng: np.random.Generator,
    within: Sequence[int] = (),
) -> Places:
    """For each row of now the row before that is the same person, -1 for new people, shape (n,).

    Which rows of the month before stay is random, except for `within`. They are matched with rows that are equal in all
    columns, then in all but those that are cheapest to change, and so on until each has one.

    Args:
        before, now: codes of the same columns, shapes (m, d) and (n, d).
        sizes: of the columns, each at least 1.
        costs: above 0, of a change in each column.
        stayed: how many stay; at most m and n, and `most_followed`.
        within: columns that no one changes, which cost most: where there are fewer rows now, the others leave.
    """
    found = np.full(len(now), NOBODY, dtype=np.intp)
    old = rng.permutation(len(before)).astype(np.intp)
    key, _, fewest = _both(before[old], now, within, sizes)
    old = old[_ranks(key) < fewest[key]][:stayed]
    new = rng.permutation(len(now)).astype(np.intp)
    for compared in _compared(costs, MOST_PASSES):
        if not len(old):
            break
        rest = [column for column in np.argsort(-costs) if column not in compared]
        one, two = _matched(before[old], now[new], compared, rest, sizes)
        found[new[two]] = old[one]
        old, new = np.delete(old, one), np.delete(new, two)
    return found


def with_changes(
    partner: Places,
    before: Codes,
    now: Codes,
    sizes: Sequence[int],
    costs: Floats,
    expected: Mapping[int, Floats],
    rng: np.random.Generator,
) -> Places:
    """The same matches, with people who change places until as many have changed as expected.

    Where too many go one way, or more than back, they exchange places with new people. Then two people exchange theirs,
    and go opposite ways. Pairs are equal in all other columns, as long as there are some, and then in those in which a
    change costs more. Columns come in the order of their costs, the largest first.

    Args:
        expected: of some columns, numbers of people by code before and now.
    """
    partner = partner.copy()
    for column, counts in sorted(expected.items(), key=lambda each: -costs[each[0]]):
        places = _Places(partner, before, now, sizes, costs, column, rng)
        pairs = list(permutations(range(sizes[column]), 2))
        for a, b in pairs:  # who went from a to b, to new people's a
            _, excess = places.missing(counts)
            here, there = places.pairs(places.of(a, b), places.new(a), places.rounded(excess[a, b]))
            partner[there], partner[here] = partner[here], NOBODY
        for a, b in pairs:  # who stayed with a, to new people's b
            short, _ = places.missing(counts)
            net = places.rounded(max(short[a, b] - short[b, a], 0.0))
            here, there = places.pairs(places.of(a, a), places.new(b), net)
            partner[there], partner[here] = partner[here], NOBODY
        short, _ = places.missing(counts)
        for a, b in combinations(range(sizes[column]), 2):
            both = places.rounded((short[a, b] + short[b, a]) / 2)
            here, there = places.pairs(places.of(a, a), places.of(b, b), both)
            partner[here], partner[there] = partner[there], partner[here]
    return partner


@dataclass(frozen=True, eq=False)
class _Places:
    """Rows of now that may exchange their people, as far as one column goes. `partner` changes under it."""

    partner: Places
    before: Codes
    now: Codes
    sizes: Sequence[int]
    costs: Floats
    column: int
    rng: np.random.Generator

    def missing(self, expected: Floats) -> tuple[Floats, Floats]:
        """How many more people should change, and how many fewer, by code before and now.

        Together the former are not more than all changes are too few by.
        """
        seen = realised(self.partner, self.before, self.now, self.column, self.sizes[self.column])
        apart = (expected - seen) * ~np.eye(len(seen), dtype=bool)
        short, excess = np.maximum(apart, 0.0), np.maximum(-apart, 0.0)
        return short * min(1.0, max(float(apart.sum()), 0.0) / max(float(short.sum()), 1e-12)), excess

    def of(self, then: int, code: int) -> Places:
        """Those of people who had one code, and have this one."""
        own = np.flatnonzero((self.partner != NOBODY) & (self.now[:, self.column] == code))
        return np.asarray(own[self.before[self.partner[own], self.column] == then])

    def new(self, code: int) -> Places:
        """Those of new people with this code."""
        return np.flatnonzero((self.partner == NOBODY) & (self.now[:, self.column] == code))

    def rounded(self, number: float) -> int:
        """A whole number at random, as large on average."""
        return int(np.floor(number + self.rng.random()))

    def pairs(self, one: Places, two: Places, count: int) -> tuple[Places, Places]:
        """So many rows of both, or as many as there are: alike in all other columns, or in those that cost more."""
        others = [c for c in range(len(self.sizes)) if c != self.column]
        found = list[tuple[Places, Places]]()
        one, two = self.rng.permutation(one), self.rng.permutation(two)
        for compared in _compared(self.costs[others], _SWAP_PASSES, float(self.costs[self.column])):
            if count <= 0 or not len(one) or not len(two):
                break
            columns = [others[c] for c in compared]
            rest = [c for c in others if c not in columns]
            here, there = _matched(self.now[one], self.now[two], columns, rest, self.sizes)
            chosen = self.rng.permutation(len(here))[:count]
            here, there = here[chosen], there[chosen]
            found.append((one[here], two[there]))
            one, two, count = np.delete(one, here), np.delete(two, there), count - len(here)
        none = np.zeros(0, dtype=np.intp)
        both = zip(*found, strict=True) if found else ((none,), (none,))
        here, there = (np.concatenate(each) for each in both)
        return here, there


def realised(partner: Places, before: Codes, now: Codes, column: int, size: int) -> npt.NDArray[np.int64]:
    """Numbers of people in both months by their code before (axis 0) and now (axis 1), shape (size, size)."""
    there = np.flatnonzero(partner != NOBODY)
    cells = before[partner[there], column].astype(np.int64) * size + now[there, column]
    return np.bincount(cells, minlength=size * size).reshape(size, size)


def _compared(costs: Floats, most: int, dearest: float = np.inf) -> Iterator[list[int]]:
    """Sets of columns that are compared: all, then without those that together are cheapest to change, at last none.

    None of those without columns that together cost `dearest` or more.
    """
    columns, order = range(len(costs)), np.argsort(costs, kind="stable").tolist()
    largest = len(costs) if len(costs) <= _ALL_SETS else 2
    count = sum(comb(len(costs), size) for size in range(largest + 1))
    sets = [(float(costs[list(out)].sum()), out) for size in range(largest + 1) for out in combinations(columns, size)]
    for cost, out in sorted(sets)[: min(count, most)]:
        if cost < dearest:
            yield [column for column in columns if column not in out]
    for size in range(1, len(costs) + 1):
        if float(costs[order[:size]].sum()) < dearest:
            yield sorted(order[size:])


def _matched(
    one: Codes, two: Codes, compared: Sequence[int], rest: Sequence[int], sizes: Sequence[int]
) -> tuple[Places, Places]:
    """As many pairs of rows as can be that are equal in the compared columns; places in both, in the same order.

    Of rows that are, the first ones are taken, and paired in the order of the other columns.
    """
    *keys, fewest = _both(one, two, compared, sizes)
    kept = []
    for key, codes in zip(keys, (one, two), strict=True):
        taken = np.flatnonzero(_ranks(key) < fewest[key])
        kept.append(taken[np.lexsort([*(codes[taken, column] for column in reversed(rest)), key[taken]])])
    return kept[0], kept[1]


def _both(one: Codes, two: Codes, columns: Sequence[int], sizes: Sequence[int]) -> tuple[Places, Places, Places]:
    """A number for each row of both tables, the same for rows that are equal in these columns; and of how many rows
    each table has at least."""
    whole = _numbered(np.concatenate([one, two]), columns, sizes)
    keys = whole[: len(one)], whole[len(one) :]
    most = int(whole.max(initial=0)) + 1
    fewest = np.minimum(*(np.bincount(key, minlength=most) for key in keys))
    return keys[0], keys[1], fewest.astype(np.intp)


def _ranks(key: Places) -> Places:
    """Of each row, how many before it have its number."""
    order = np.argsort(key, kind="stable")
    counts = np.bincount(key)
    found = np.empty(len(key), dtype=np.intp)
    found[order] = np.arange(len(key)) - (np.cumsum(counts) - counts)[key[order]]
    return found


def _numbered(codes: Codes, columns: Sequence[int], sizes: Sequence[int]) -> Places:
    """A number below the number of rows for each row: the same for rows that are equal in these columns."""
    numbers = np.zeros(len(codes), dtype=np.int64)
    most = 1
    for column in columns:
        if most > 2**62 // sizes[column]:
            numbers = np.unique(numbers, return_inverse=True)[1]
            most = len(codes)
        numbers = numbers * sizes[column] + codes[:, column]
        most *= sizes[column]
    return np.unique(numbers, return_inverse=True)[1].astype(np.intp)
