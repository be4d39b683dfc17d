"""Plans that predict the noise of a synthesis.

A plan shows what a mechanism measures. It uses only the schema, public sizes and ρ. The mechanism itself decides
(`SharingMechanism.opening`), in a run that has the expected number of rows but no values. No row is read, so a plan has
no privacy cost.

A plan covers only the noise of the measurements. Some properties depend on the rows and are not planned: the pairs that
are selected, the error of the model, and the effect of shrinkage on small strata. See docs/planning.md for a comparison
of plans with releases.

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
from equistrata.stats.distributions import NOISE_L1
from equistrata.synth.measurements import Columns, Measurement, Merging, has_all_codes
from equistrata.synth.mechanisms.base import Mechanism, Opening, SharingMechanism
from equistrata.synth.mechanisms.session import Session
from equistrata.synth.noise_floors import noise_floor
from equistrata.synth.strata.selection import shared_selection

# The base-10 logarithms of the smallest and the largest ρ of the search (ε from 0.003 to 100 at δ = 1e-9), and the
# number of steps per factor of ten. An ε is found to within 2.4 %.
LEAST_RHO, MOST_RHO, STEPS = -7, 2, 50
STRIDE = 8  # the number of steps that the search takes at once
MOST_NOISE = 0.5  # the largest L1 norm of the noise that is called readable, as a fraction of the rows


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """A plan for the synthesis of a table with expected sizes.

    Parameters
    ----------
    mechanism : SharingMechanism
        The mechanism. If there are strata, it includes their levels (see `planned_mechanism`).
    strata : Strata
        The strata and the schema. Codes that are declared impossible are counted as cells.
    sizes : mapping of tuple to float
        The expected number of rows in each stratum. The numbers are public and non-negative.
    rho : Rho
        The privacy cost of the whole synthesis in zCDP.
    count_share : float, default=0.0
        The fraction of `rho` that is spent on noisy sizes of the strata. It is ignored if there are no strata.
    """

    mechanism: SharingMechanism
    strata: Strata
    sizes: Mapping[Key, float]
    rho: Rho
    count_share: float = 0.0

    @cached_property
    def rows(self) -> float:
        """The expected total number of rows."""
        return fsum(self.sizes.values())

    @cached_property
    def _opened(self) -> tuple[Session, Opening]:
        """Run the mechanism up to its first selection, or to its end if there is nothing to select."""
        counts = self.rho * self.count_share if self.mechanism.strata else Rho(0)
        known = [_expected(self.strata.schema, self.mechanism.strata, counts, self.rows)] if counts else []
        session = _RowlessSession(self.strata.schema, self.rho - counts, self.rows, known)
        opening = self.mechanism.opening(session)
        if not opening.choices and opening.each is None:
            session.measure_again(opening.first)
        return session, opening

    @cached_property
    def _each(self) -> dict[Key, NoisePlan]:
        """The plans of the strata that are measured separately. It is empty if all strata share one selection."""
        each, left = self._opened[1].each, self._opened[1].tree
        if each is None:
            return {}
        rest = {key: Strata.over(self.strata.rest(key), ()) for key in self.strata.keys}
        return {key: NoisePlan(each, rest[key], {(): self.sizes[key]}, left) for key in self.strata.keys}

    @property
    def choices(self) -> int:
        """The maximum number of marginals of several columns that are selected and measured.

        The number is 0 if no pair can be measured with little noise. If the strata are measured separately, this is the
        number for the stratum with the most marginals.
        """
        return max((plan.choices for plan in self._each.values()), default=self._opened[1].choices)

    @property
    def selection(self) -> str | None:
        """The kind of selection, or None if there are no strata.

        The value "shared" means that all strata share one selection. The value "per-stratum" means that each stratum
        has its own selection.
        """
        return ("per-stratum" if self._each else "shared") if self.mechanism.strata else None

    @property
    def limit(self) -> float:
        """The maximum total variation distance at which noise is called readable.

        It is half of the maximum L1 norm of the noise as a fraction of the number of rows.
        """
        return self._gate / 2

    @property
    def _gate(self) -> float:
        """The maximum noise floor of a pair of columns, as a fraction of the number of rows.

        This is the fraction that the mechanism uses, but at most `MOST_NOISE`. GEM uses a larger fraction because it
        applies to a round that spends all of ρ. The noise of this round is smaller than the noise of each of several
        rounds.
        """
        return min(self.mechanism.readable, MOST_NOISE)

    def one_way(self, key: Key) -> dict[Columns, float]:
        """Compute the noise on a single column in the group of a stratum.

        Parameters
        ----------
        key : tuple
            The stratum.

        Returns
        -------
        dict of tuple of str to float
            For each level, the expected L1 norm of the noise in rows. It is the mean over the columns that do not
            define the strata. Levels at which these columns are not measured are omitted.
        """
        alone = {self.strata.columns: self._each[key].one_way(())[()]} if self._each else {}
        return self._one_way | alone

    def two_way(self, key: Key) -> dict[Columns, float]:
        """Compute the noise on a pair of columns in the group of a stratum.

        Parameters
        ----------
        key : tuple
            The stratum.

        Returns
        -------
        dict of tuple of str to float
            For each level, the expected L1 norm of the noise in rows. It is the mean over the pairs, with codes merged
            as they are for pairs. The dictionary is empty if no pair is measured.
        """
        found = self.pairs(key)
        levels = [self.strata.columns] if self._each else self._opened[1].levels.offered
        return dict.fromkeys(levels, mean(found.values())) if found else {}

    def pairs(self, key: Key) -> dict[Columns, float]:
        """Compute the noise on each pair of columns.

        The noise assumes that the maximum number of pairs is measured. MST divides ρ among its pairs by their numbers
        of cells. For AIM and GEM, the noise is that of the first pair.

        Parameters
        ----------
        key : tuple
            The stratum.

        Returns
        -------
        dict of tuple of str to float
            For each pair of columns that do not define the strata, the expected L1 norm of the noise in rows. It is the
            same at every level at which the pair can be measured. The dictionary is empty if no pair is measured.
        """
        return self._each[key].pairs(()) if self._each else self._pairs

    @cached_property
    def _one_way(self) -> dict[Columns, float]:
        found, names = self._opened[0].found, self._inner
        floors: dict[Columns, list[float]] = {}
        for level in self.mechanism.levels.offered:
            groups = prod(self.strata.schema[name].size for name in level)
            for name in names:
                same = [m for m in found if set(m.columns) == {name, *level} and has_all_codes(m, level)]
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
        """Convert noise to the expected total variation distance that is caused by noise alone.

        Parameters
        ----------
        floors : mapping of tuple of str to float
            The result of `one_way` or `two_way` for the stratum.
        key : tuple
            The stratum.

        Returns
        -------
        dict of tuple of str to float
            For each level, the expected distance in the group of the stratum. Levels without expected rows are omitted.
        """
        rows = {level: self._groups[level][self._group(level, key)] for level in floors}
        return {level: floor / 2 / rows[level] for level, floor in floors.items() if rows[level] > 0}

    def finest(self, errors: Mapping[Columns, float]) -> Columns | None:
        """Return the finest level at which the noise is at most `limit`.

        Parameters
        ----------
        errors : mapping of tuple of str to float
            The expected total variation distance at each level.

        Returns
        -------
        tuple of str or None
            The readable level with the most columns. If there are several, the level with the least noise is returned.
            It is None if no level is readable.
        """
        readable = [(len(level), -error, level) for level, error in errors.items() if error <= self.limit]
        return max(readable)[-1] if readable else None

    @cached_property
    def readable_pairs(self) -> frozenset[Columns]:
        """The pairs of columns that can be read over all rows.

        A pair is readable if its noise floor is at most the fraction of the rows that the mechanism uses as its limit.
        The noise floor is that of one edge of a tree with its part of the ρ of the tree, or that of a measurement
        before any selection. For GEM, it is that of one round. A pair that could be selected is readable only if the
        mechanism selects pairs at all. The mechanism decides this from the mean over all pairs with equal parts.

        If the strata are measured separately, a pair is readable if it is readable in strata that contain half of the
        rows. A pair with a stratum column is readable if any stratum can read it, because large strata are the strata
        that can read their columns.
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
            # A set of columns that was measured before any selection includes the pair, so its cells are sums.
            floors = [NOISE_L1 * m.sigma * sqrt(m.values.size * cells) for names, m in joint if {a, b} <= names]
            if (a, b) in parts:
                floors.append(noise_floor(each * parts[a, b], cells))
            if min(floors, default=inf) <= self._gate * self.rows:
                found.add((a, b))
        return frozenset(found)

    def smallest_rho(self) -> dict[Columns, Rho | None]:
        """Find the smallest ρ at which each pair of columns is readable.

        The search uses a fine grid. It starts at the largest ρ and examines only every `STRIDE`-th value. If a pair is
        lost between two of these values, the values between them are searched. A pair can therefore be unreadable again
        in a narrow range of larger ρ where codes are merged differently.

        Returns
        -------
        dict of tuple of str to Rho or None
            For each pair of columns, the ρ of the whole synthesis from which the pair is readable. It is None if the
            pair is not readable at any ρ on the grid.
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
        """The released columns that do not define the strata."""
        return tuple(name for name in self.mechanism.levels.inner(self.strata.schema) if name != UNIT_ROWS)

    @cached_property
    def _groups(self) -> dict[Columns, dict[Key, float]]:
        """For each level, the expected number of rows in each group."""
        found: dict[Columns, dict[Key, float]] = {level: {} for level in self.mechanism.levels.offered}
        for key, size in self.sizes.items():
            for level, rows in found.items():
                group = self._group(level, key)
                rows[group] = rows.get(group, 0.0) + size
        return found

    def _group(self, level: Columns, key: Key) -> Key:
        return tuple(key[self.strata.columns.index(name)] for name in level)


class _RowlessSession(Session):
    """A session without rows, which does not add noise.

    Every measurement has the expected sum, which is distributed evenly over its cells, and the standard deviation of
    the noise.
    """

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
    """Return the mechanism as a release would run it on these strata by default.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    strata : Strata
        The strata and the schema.

    Returns
    -------
    SharingMechanism
        The mechanism with its levels.

    Raises
    ------
    InputError
        If the synthesis by this mechanism has no plan.
    """
    if not isinstance(mechanism, SharingMechanism):
        raise InputError(f"a synthesis by {mechanism.name} cannot be planned; choose mst, aim or gem")
    shared = shared_selection(mechanism, strata)
    if shared is None and len(strata.keys) > 1:
        raise InputError(
            "these strata are too many or too large for a shared selection, and strata that are fitted separately "
            "cannot be planned; plan one stratum at a time instead: leave the strata empty, and give its number of "
            "rows"
        )
    return shared or mechanism
