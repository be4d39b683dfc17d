"""How noisy a synthesis will be: what a mechanism measures, from the schema, public sizes and ρ alone.

The mechanism's own rules decide (`SharingMechanism.opening`), in a run with the expected number of rows and none of
their values. No row is read, so a plan costs no privacy. It is about the noise of measurements alone: which pairs are
chosen, what a model smooths or leaves out, and what small strata borrow depend on rows, and are not planned. See
docs/planning.md for plans beside releases.

>>> from equistrata.data.schema import Schema
>>> from equistrata.synth.mechanisms.mst import MST
>>> schema = Schema.load("acs_employment").select(["AGEP", "SEX", "MAR", "ESR"])
>>> plan = NoisePlan(MST(), Strata.over(schema, ()), {(): 10_000}, Rho(0.001))
>>> [round(plan.errors(noise(()), ())[()], 3) for noise in (plan.one_way, plan.two_way)]
[0.014, 0.028]
>>> plan.choices, len(plan.readable_pairs)
(6, 6)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations
from math import fsum, inf, prod, sqrt
from statistics import mean

import numpy as np

from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.unit import UNIT_ROWS
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, gaussian_sigma
from equistrata.stats.laws import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, Merging, tells_apart
from equistrata.synth.mechanisms.base import Mechanism, Opening, SharingMechanism
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.noise_floors import noise_floor
from equistrata.synth.strata.selection import shared_selection

# Of ρ, where the smallest is looked for (ε from 0.003 to 100 at δ = 1e-9), and steps for each factor of ten: an ε is
# found to within 2.4 %.
LEAST_RHO, MOST_RHO, STEPS = -7, 2, 50
STRIDE = 8  # of these steps are taken at once
MOST_NOISE = 0.5  # of the rows, as an L1 norm: the largest that is called readable


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """A synthesis of a table of expected sizes.

    Attributes:
        mechanism: with its levels, if there are strata (`planned_mechanism`).
        strata: and the schema. Codes declared impossible count as cells.
        sizes: the expected rows of each stratum, public, at least 0.
        rho: of the whole synthesis.
        count_share: the part of it that buys noisy sizes of the strata, where there are strata.
    """

    mechanism: SharingMechanism
    strata: Strata
    sizes: Mapping[Key, float]
    rho: Rho
    count_share: float = 0.0

    @cached_property
    def rows(self) -> float:
        """The expected rows in all."""
        return fsum(self.sizes.values())

    @cached_property
    def _opened(self) -> tuple[Session, Opening]:
        """The run up to its first choice, and to its end if there is nothing to choose."""
        counts = self.rho * self.count_share if self.mechanism.strata else Rho(0)
        known = [_expected(self.strata.schema, self.mechanism.strata, counts, self.rows)] if counts else []
        session = _RowlessSession(self.strata.schema, self.rho - counts, self.rows, known)
        opening = self.mechanism.opening(session)
        if not opening.choices and opening.each is None:
            session.measure_again(opening.first)
        return session, opening

    @cached_property
    def _each(self) -> dict[Key, NoisePlan]:
        """The plans of strata that are measured by themselves; empty where one choice serves all."""
        each, left = self._opened[1].each, self._opened[1].tree
        if each is None:
            return {}
        rest = {key: Strata.over(self.strata.rest(key), ()) for key in self.strata.keys}
        return {key: NoisePlan(each, rest[key], {(): self.sizes[key]}, left) for key in self.strata.keys}

    @property
    def choices(self) -> int:
        """How many marginals of several columns are chosen and bought at most; 0 where none can be read.

        Where each stratum is measured by itself, in the one that buys most.
        """
        return max((plan.choices for plan in self._each.values()), default=self._opened[1].choices)

    @property
    def selection(self) -> str | None:
        """Who chooses: "shared", one choice for all strata, or "per-stratum"; None without strata."""
        return ("per-stratum" if self._each else "shared") if self.mechanism.strata else None

    @property
    def limit(self) -> float:
        """The total variation up to which noise is called readable: half the fraction of the rows of `_gate`."""
        return self._gate / 2

    @property
    def _gate(self) -> float:
        """The mechanism's gate for pairs, as a fraction of the rows; GEM's, of a round with all of ρ, is cut to this.

        That round has less noise than each of several has.
        """
        return min(self.mechanism.readable, MOST_NOISE)

    def one_way(self, key: Key) -> dict[Columns, float]:
        """Level → expected L1 norm of the noise on a column in the stratum's group, in rows; mean over columns.

        Columns are those that define no strata. Levels at which they are not measured are left out.
        """
        alone = {self.strata.columns: self._each[key].one_way(())[()]} if self._each else {}
        return self._one_way | alone

    def two_way(self, key: Key) -> dict[Columns, float]:
        """The same on a pair of columns, with codes merged as they are for pairs; empty where no pair is bought."""
        found = self.pairs(key)
        levels = [self.strata.columns] if self._each else self._opened[1].levels.offered
        return dict.fromkeys(levels, mean(found.values())) if found else {}

    def pairs(self, key: Key) -> dict[Columns, float]:
        """Pair of columns that define no strata → the same at any level where it may be bought; empty where none is.

        As one of as many as are bought at most: MST's share ρ by their cells, AIM's and GEM's first one is meant.
        """
        return self._each[key].pairs(()) if self._each else self._pairs

    @cached_property
    def _one_way(self) -> dict[Columns, float]:
        found, names = self._opened[0].found, self._inner
        floors: dict[Columns, list[float]] = {}
        for level in self.mechanism.levels.offered:
            groups = prod(self.strata.schema[name].size for name in level)
            for name in names:
                same = [m for m in found if set(m.columns) == {name, *level} and tells_apart(m, level)]
                if same:
                    precision = fsum((NOISE_L1 * m.sigma * m.values.size / groups) ** -2 for m in same)
                    floors.setdefault(level, []).append(precision**-0.5)
        return {level: mean(each) for level, each in floors.items() if len(each) == len(names)}

    @cached_property
    def _pairs(self) -> dict[Columns, float]:
        session, opening = self._opened
        schema, price = session.table.schema, float(opening.price)
        parts = opening.parts(schema) if opening.choices else {}
        return {
            pair: noise_floor(price * part, prod(schema[name].size for name in pair))
            for pair, part in parts.items()
            if set(pair) <= set(self._inner)
        }

    def errors(self, floors: Mapping[Columns, float], key: Key) -> dict[Columns, float]:
        """Level → expected total variation distance by noise alone in a stratum, or in its group of that level.

        Args:
            floors: `one_way` or `two_way` of the stratum.
        """
        rows = {level: self._groups[level][self._group(level, key)] for level in floors}
        return {level: floor / 2 / rows[level] for level, floor in floors.items() if rows[level] > 0}

    def finest(self, errors: Mapping[Columns, float]) -> Columns | None:
        """Of these levels the finest that is readable (`limit`), with the least noise; None if none is."""
        readable = [(len(level), -error, level) for level, error in errors.items() if error <= self.limit]
        return max(readable)[-1] if readable else None

    @cached_property
    def readable_pairs(self) -> frozenset[Columns]:
        """The pairs of columns that can be read over all rows: bought as one of a tree, or measured before any choice.

        The rule is the mechanism's gate, on the pair by itself: its noise floor is within that fraction of the rows,
        as one of a tree of pairs with its part of the tree's ρ (GEM: as one of its rounds). A pair that could be bought
        is one only where the gate, which judges the mean over pairs at equal parts, is open. Where each stratum is
        measured by itself, a pair counts that strata with half of the rows can read; with a stratum column each does,
        since large strata are those that can read their columns.
        """
        if self._each:
            rows: dict[Columns, float] = dict.fromkeys(combinations(self.strata.schema.names, 2), 0.0)
            for plan in self._each.values():
                for pair in plan.readable_pairs:
                    rows[pair] += plan.rows
            by_strata = set(self.strata.columns)
            return frozenset(pair for pair, held in rows.items() if by_strata & set(pair) or held >= self.rows / 2)
        session, opening = self._opened
        schema, found = session.table.schema, set()
        joint = [(set(m.columns), m) for m in session.found if len(m.columns) > 1]
        tree = self.mechanism.engine.graphical
        each = float(opening.tree * Fraction(1, max(len(schema.names) - 1, 1)) if tree else opening.price)
        parts = opening.parts(schema) if opening.choices else {}
        for a, b in combinations(schema.names, 2):
            cells = schema[a].size * schema[b].size
            # Measured before any choice, as part of a set: the pair's cells are sums.
            floors = [NOISE_L1 * m.sigma * sqrt(m.values.size * cells) for names, m in joint if {a, b} <= names]
            if (a, b) in parts:
                floors.append(noise_floor(each * parts[a, b], cells))
            if min(floors, default=inf) <= self._gate * self.rows:
                found.add((a, b))
        return frozenset(found)

    def smallest_rho(self) -> dict[Columns, Rho | None]:
        """Pair of columns → the ρ of the whole synthesis from which on it is readable, of a fine grid; or None.

        Every `STRIDE`th ρ is looked at from the largest on, and between two of them where a pair is lost. So a pair may
        be lost once more in a narrow range, where codes are merged otherwise.
        """

        @cache
        def readable(step: int) -> frozenset[Columns]:
            return replace(self, rho=Rho(10 ** (step / STEPS))).readable_pairs

        found: dict[Columns, Rho | None] = dict.fromkeys(combinations(self.strata.schema.names, 2))
        high, last = MOST_RHO * STEPS, LEAST_RHO * STEPS
        left = readable(high)
        while left:
            low = max(high - STRIDE, last)
            kept = left & readable(low) if low < high else frozenset[Columns]()
            for pair in left - kept:
                lost, held = low, high
                while held - lost > 1:
                    middle = (lost + held) // 2
                    lost, held = (lost, middle) if pair in readable(middle) else (middle, held)
                found[pair] = Rho(10 ** (held / STEPS))
            left, high = kept, low
        return found

    @property
    def _inner(self) -> Columns:
        """The released columns that define no strata."""
        return tuple(name for name in self.mechanism.levels.inner(self.strata.schema) if name != UNIT_ROWS)

    @cached_property
    def _groups(self) -> dict[Columns, dict[Key, float]]:
        """Level → group → its rows."""
        found: dict[Columns, dict[Key, float]] = {level: {} for level in self.mechanism.levels.offered}
        for key, size in self.sizes.items():
            for level, rows in found.items():
                group = self._group(level, key)
                rows[group] = rows.get(group, 0.0) + size
        return found

    def _group(self, level: Columns, key: Key) -> Key:
        return tuple(key[self.strata.columns.index(name)] for name in level)


class _RowlessSession(Session):
    """A run in which measurements have the expected sum, spread evenly; their noise has a size only. It has no row."""

    def __init__(self, schema: Schema, rho: Rho, rows: float, known: Sequence[Measurement]) -> None:
        empty = CodedTable(np.zeros((0, len(schema.names)), dtype=code_dtype(schema)), schema)
        super().__init__(empty, rho, SecureNoise(), known)
        self.rows = rows

    def _noisy(self, names: Columns, price: Rho, groups: Sequence[Merging]) -> Measurement:
        self.budget.spend(price, f"marginal of {', '.join(names)}, planned")
        return _expected(self.table.schema, names, price, self.rows, groups)


def _expected(schema: Schema, names: Columns, price: Rho, rows: float, groups: Sequence[Merging] = ()) -> Measurement:
    shape = [schema[name].size for name in names]
    blank = Measurement(names, np.zeros([1] * len(names)), gaussian_sigma(price), tuple(groups))
    return replace(blank, values=blank.merged(np.full(shape, rows / prod(shape))))


def planned_mechanism(mechanism: Mechanism, strata: Strata) -> SharingMechanism:
    """A mechanism as a release would run it on these strata by default. Raises InputError for one without a plan."""
    if not isinstance(mechanism, SharingMechanism):
        raise InputError(f"the synthesis by {mechanism.name} has no plan; choose mst, aim or gem")
    shared = shared_selection(mechanism, strata)
    if shared is None and len(strata.keys) > 1:
        raise InputError(
            "these strata are too many or their columns too large for one choice that serves all, so each is fitted by "
            "itself, which has no plan; plan one stratum alone: leave the strata empty, and give its rows"
        )
    return shared or mechanism
