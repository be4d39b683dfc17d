"""Levels of detail, and one choice for all strata: marginals of the whole table that are cut by stratum columns where it pays.

A marginal that is measured within every stratum is one marginal over its columns and the stratum columns. Strata hold
different rows, so one row changes one cell of it, and it costs what a marginal of one stratum costs (parallel
composition). Whatever may be measured over all rows, or by one stratum column, is a coarser level of the same thing;
levels compose in sequence. So shared selection and levels need no accounting of their own: they are a choice of
which marginals of one table are measured.

**Shared selection.** A mechanism that chooses among such marginals makes one choice for all strata. Its score for a
marginal within strata, ‖true − model‖₁ over all cells, is the sum over strata of each stratum's score; one row changes
one stratum's term, by at most one, so the sensitivity is that of one stratum, and the choice is paid for once.

>>> Levels(("SEX", "RAC1P")).offered
((), ('SEX',), ('RAC1P',), ('SEX', 'RAC1P'))
>>> Levels(("SEX",), coarse=False).offered, Levels(("SEX",), fine=False).offered
((('SEX',),), ((),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from statistics import mean

import numpy as np

from data.schema import Schema
from data.strata import Key, Strata
from privacy.budget import Rho
from privacy.noise import Floats, gaussian_sigma
from synth.estimation import Estimator
from synth.graphical_model import GraphicalModel
from synth.junction_tree import Clique, JunctionTree
from synth.measurements import LEAST_SIZE, NOISE_L1, Measurement, Prediction, total_estimate
from synth.shrinkage import borrow

Columns = tuple[str, ...]

COARSE_SHARE, SIZES_SHARE = 0.03, 0.02  # of ρ: every column over all rows, and the strata's sizes
CLEAR = 10.0  # rows: with less noise on a cell within strata, strata of a hundred people gain from still less
DROWNED = 1.0  # times the rows: more expected noise on a column within strata, and it is not measured
_FAIR_SHARE = (
    0.05  # of what each had if strata were alike: noise adds no more than that to one, so many small ones change little
)
_FEWEST = 1e-6  # rows that it has at least where nothing tells its size: public weights may put people there
_SHARPEST = 0.1  # of the smallest σ that was paid for: a sharper prediction would only slow the estimation down


@dataclass(frozen=True)
class Levels:
    """At which levels marginals may be measured.

    Attributes:
        strata: the columns that define strata.
        coarse: over all rows, and by each stratum column alone.
        fine: within strata.
        columns: the part of ρ that columns within strata get, where noise does not drown them.
        clear: the same where noise on a cell is small: less than CLEAR rows, if they had `columns`.
    """

    strata: Columns
    coarse: bool = True
    fine: bool = True
    columns: float = 0.2
    clear: float = 0.4

    def __post_init__(self) -> None:
        parts = self.columns > 0 and self.clear > 0 and self.first_share < 1
        if not (self.coarse or self.fine) or not self.strata or not parts:
            raise ValueError(
                "levels need stratum columns, must be coarse or fine or both, and parts for columns above 0 that leave a rest"
            )

    @property
    def offered(self) -> tuple[Columns, ...]:
        """The stratum columns that a marginal may be cut by, from coarse to fine."""
        single = [(name,) for name in self.strata] if len(self.strata) > 1 else []
        coarse = [(), *single] if self.coarse and self.fine else [()] * self.coarse
        return (*coarse, *([self.strata] * self.fine))

    @property
    def first_share(self) -> float:
        """The largest part of ρ that `measure_first` may spend."""
        return COARSE_SHARE + SIZES_SHARE + max(self.columns, self.clear)

    def inner(self, schema: Schema) -> Columns:
        """The columns that do not define strata."""
        return tuple(name for name in schema.names if name not in self.strata)

    def over_all(self, schema: Schema) -> list[tuple[Columns, float]]:
        """What is measured over all rows before anything else, and its part of ρ: every column."""
        return [((name,), COARSE_SHARE / len(schema.names)) for name in schema.names] if self.coarse else []

    def within_strata(self, schema: Schema, rho: Rho, rows: float) -> list[tuple[Columns, float]]:
        """What is measured next, and its part of ρ: strata's sizes and every column within strata, if noise does not drown them.

        It drowns columns if the noise expected on one, added up over all strata (L1 norm), is more than DROWNED times the
        number of rows: then no difference between strata can be seen. What a stratum's own share cannot tell, it borrows
        (`synth.shrinkage`). The parts of ρ were measured on New York and Vermont from ε = 0.01 to 5 (docs/decisions.md).

        Args:
            rho: what the whole mechanism may spend.
            rows: their number, as noisy numbers tell it.
        """
        sizes = [(at_level(schema, (), self.strata), SIZES_SHARE)] if self.coarse and len(self.strata) > 1 else []
        if not self.fine:
            return sizes
        sets = [at_level(schema, (name,), self.strata) for name in self.inner(schema)]
        cells = mean(prod(schema[name].size for name in columns) for columns in sets)
        sigma = gaussian_sigma(float(rho) * self.columns / len(sets))
        if self.coarse and NOISE_L1 * sigma * cells > DROWNED * rows:
            return sizes
        share = self.clear if sigma < CLEAR else self.columns
        return [*sizes, *((columns, share / len(sets)) for columns in sets)]

    def measure_first(
        self, schema: Schema, rho: Rho, measurements: Sequence[Measurement], measure: Callable[[Columns, Rho], object]
    ) -> list[tuple[Columns, Rho]]:
        """Measure what nothing has to be chosen for: `over_all`, then `within_strata`.

        Args:
            rho: what the whole mechanism may spend.
            measurements: what is known; `measure` adds to it.
            measure: measures columns at a price, and charges it.

        Returns:
            What is worth measuring again, each at what it cost, where nothing can be chosen: over all rows, if it may be.
        """
        over_all = [(columns, rho * share) for columns, share in self.over_all(schema)]
        for columns, price in over_all:
            measure(columns, price)
        rows = total_estimate(measurements)[0]
        within = [(columns, rho * share) for columns, share in self.within_strata(schema, rho, rows)]
        for columns, price in within:
            measure(columns, price)
        return over_all or within


def ties(schema: Schema, strata: Columns) -> list[Columns]:
    """Each other column with the stratum columns: what every model of all rows must hold in one clique, so that it falls apart
    into a model of each stratum.
    """
    return [at_level(schema, (name,), strata) for name in schema.names if name not in strata]


def at_level(schema: Schema, columns: Iterable[str], level: Columns) -> Columns:
    """Columns and a level's, in the schema's order."""
    wanted = {*columns, *level}
    return tuple(name for name in schema.names if name in wanted)


@dataclass(frozen=True, eq=False)
class Cut:
    """What one model of all rows becomes: a model of each stratum, and the strata's sizes. Post-processing, no cost."""

    models: Mapping[Key, GraphicalModel]
    sizes: Mapping[Key, float]


def cut(strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool = True) -> Cut:
    """Model a table from its measurements, and cut the model into strata.

    Sizes are those of a first model, which joins everything that was measured of them at any level. They are put into
    the measurements, then small strata lean on the others (`synth.shrinkage`), as predictions with a standard
    deviation for each cell, and a second model is made. Where noise drowns all rows, that model may leave a stratum out; such
    a stratum is modelled by itself, from what was measured within it, or else over all rows.

    Args:
        strata: how to cut.
        measurements: of the whole table.
        engine: makes the models; it must heed `Measurement.cell_sigma`.
        shrinkage: whether strata lean on each other.

    Cost: none, post-processing.
    """
    schema = strata.schema
    whole = engine.estimate(schema, measurements)
    sizes = _sizes(whole, strata, measurements, shrinkage)
    settled = settle(measurements, strata, sizes)
    told = slices(settled, strata)
    sharpest = _SHARPEST * min((m.sigma for m in measurements if m.sigma), default=0.0)
    wider = [measurement for measurement in settled if not set(strata.columns) <= set(measurement.columns)]
    extras = predictions(borrow(strata, told, wider), strata, sharpest) if shrinkage else []
    held = [set(measurement.columns) for measurement in settled]
    bare = [columns for columns in ties(schema, strata.columns) if not any(set(columns) <= other for other in held)]
    # Not from where the first model ended: what the predictions correct would stay in what nothing else was measured of.
    model = engine.estimate(schema, [*settled, *extras, *(_nothing(schema, columns) for columns in bare)])
    models = within(model, strata, sizes)
    for key, own in told.items():
        if key not in models:
            said = [m for m in own if m.columns] or [m for m in settled if not set(m.columns) & set(strata.columns)]
            models[key] = replace(engine.estimate(strata.rest(key), said), total=sizes[key])
    return Cut({key: models[key] for key in strata.keys}, sizes)


def slices(measurements: Sequence[Measurement], strata: Strata) -> dict[Key, list[Measurement]]:
    """What measurements within strata say of each stratum, as measurements of it."""
    found: dict[Key, list[Measurement]] = {key: [] for key in strata.keys}
    for measurement in measurements:
        if set(strata.columns) <= set(measurement.columns):
            rest = tuple(name for name in measurement.columns if name not in strata.columns)
            for key in strata.keys:
                values = measurement.values[_cells(measurement.columns, strata, key)]
                found[key].append(Measurement(rest, values, measurement.sigma))
    return found


def settle(measurements: Sequence[Measurement], strata: Strata, sizes: Mapping[Key, float]) -> list[Measurement]:
    """Measurements whose sums over each stratum, where they tell it, are these sizes; the change is spread over its cells.

    Least squares under that constraint, for noise that is equal and independent in all cells.
    """
    settled = []
    for measurement in measurements:
        fixed = tuple(name for name in measurement.columns if name in strata.columns)
        rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in strata.columns)
        gap = _table(strata, sizes, fixed) - measurement.values.sum(axis=rest)
        share = gap / np.prod([measurement.values.shape[axis] for axis in rest], initial=1.0)
        settled.append(replace(measurement, values=measurement.values + np.expand_dims(share, rest)))
    return settled


def predictions(extras: Mapping[Key, Sequence[Measurement]], strata: Strata, sharpest: float = 0.0) -> list[Prediction]:
    """What strata borrow, as predictions over the whole table: one for each set of columns, with no σ under `sharpest`."""
    tables: dict[Columns, tuple[Floats, Floats]] = {}
    for key, borrowed in extras.items():
        for extra in borrowed:
            columns = at_level(strata.schema, extra.columns, strata.columns)
            shape = [strata.schema[name].size for name in columns]
            values, sigmas = tables.setdefault(columns, (np.zeros(shape), np.full(shape, np.inf)))
            place = _cells(columns, strata, key)
            values[place], sigmas[place] = extra.values, max(extra.sigma, sharpest)
    return [
        Prediction(columns, values, float(sigmas.min()), sigmas=sigmas) for columns, (values, sigmas) in tables.items()
    ]


def within(model: GraphicalModel, strata: Strata, sizes: Mapping[Key, float]) -> dict[Key, GraphicalModel]:
    """A model of all rows as one of each stratum, but for strata that it gives no probability.

    Raises ValueError unless every clique holds all stratum columns.
    """
    schema = strata.schema
    fixed = [schema.index(name) for name in strata.columns]
    place = {v: n for n, v in enumerate(v for v in range(len(schema.names)) if v not in fixed)}
    cliques: list[Clique] = []
    for clique in model.tree.cliques:
        if not set(fixed) <= set(clique):
            raise ValueError("a clique lacks a stratum column")
        cliques.append(tuple(place[v] for v in clique if v not in fixed))
    tree = JunctionTree(tuple(schema.sizes[v] for v in place), tuple(cliques), model.tree.parents)
    models = {}
    for key in strata.keys:
        tables = []
        for clique, table in zip(model.tree.cliques, model.conditional, strict=True):
            names = [schema.names[v] for v in clique]
            tables.append(table.reshape([schema.sizes[v] for v in clique])[_cells(names, strata, key)].ravel())
        mass = tables[0].sum()
        if mass > 0:
            tables[0] = tables[0] / mass
            models[key] = GraphicalModel(strata.rest(key), sizes[key], tree, tables)
    return models


def _sizes(
    model: GraphicalModel, strata: Strata, measurements: Sequence[Measurement], shrinkage: bool
) -> dict[Key, float]:
    """Each stratum's number of rows in a model; no stratum is dropped by noise (see `noisy_weights`)."""
    table = model.marginal(strata.columns)
    own = slices(measurements, strata)
    spreads = {key: total_estimate(own[key])[1] for key in strata.keys}
    noise = mean(spreads.values()) ** 2
    if shrinkage and 0 < noise < np.inf:
        table = _towards_independence(table, noise)
    sizes = {}
    most = _FAIR_SHARE * model.total / len(strata.keys)
    for key, spread in spreads.items():
        least = min(LEAST_SIZE * spread, most) if np.isfinite(spread) else _FEWEST
        sizes[key] = max(float(table[_cells(strata.columns, strata, key)]), least)
    scale = model.total / max(sum(sizes.values()), 1e-12)
    return {key: size * scale for key, size in sizes.items()}


def _towards_independence(table: Floats, noise: float) -> Floats:
    """Sizes drawn towards what they are if the stratum columns are independent, by empirical Bayes.

    What noise of this variance alone does to sizes is no sign of dependence; what is beyond it is. Column sums stay.
    """
    total = float(table.sum())
    product = np.full(table.shape, total)
    for axis in range(table.ndim):
        others = tuple(other for other in range(table.ndim) if other != axis)
        product = product * table.sum(axis=others, keepdims=True) / max(total, 1e-12)
    apart = table - product
    spread = max(float((apart**2).mean()) - noise, 0.0)
    return np.asarray(product + apart * spread / (spread + noise))


def _table(strata: Strata, sizes: Mapping[Key, float], fixed: Columns) -> Floats:
    """The strata's sizes added up over some of their columns."""
    table = np.zeros([strata.schema[name].size for name in fixed])
    for key, size in sizes.items():
        codes = strata.codes_of(key)
        table[tuple(codes[name] for name in fixed)] += size
    return table


def _nothing(schema: Schema, columns: Columns) -> Prediction:
    """A prediction that says nothing of some columns, but puts them into one clique."""
    shape = [schema[name].size for name in columns]
    return Prediction(columns, np.zeros(shape), np.inf, sigmas=np.full(shape, np.inf))


def _cells(columns: Iterable[str], strata: Strata, key: Key) -> tuple[int | slice, ...]:
    """The cells of one stratum in a table over columns."""
    codes = strata.codes_of(key)
    return tuple(codes.get(name, slice(None)) for name in columns)
