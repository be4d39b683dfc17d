"""One model of all rows, cut into a model of each stratum. Post-processing, no cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.synth.measurements import LEAST_SIZE, Measurement, Prediction, total_estimate
from equistrata.synth.mechanisms.levels import Columns, at_level, ties
from equistrata.synth.models.estimation import Estimator
from equistrata.synth.models.graphical import GraphicalModel
from equistrata.synth.models.junction_tree import Clique, JunctionTree
from equistrata.synth.strata.borrowing import borrow

_FAIR_SHARE = (
    0.05  # of what each had if strata were alike: noise adds no more than that to one, so many small ones change little
)
_FEWEST = 1e-6  # rows that it has at least where nothing tells its size: public weights may put people there
_SHARPEST = 0.1  # of the smallest σ that was paid for: a sharper prediction would only slow the estimation down


@dataclass(frozen=True, eq=False)
class Cut:
    """What one model of all rows becomes: a model of each stratum, and the strata's sizes. Post-processing, no cost."""

    models: Mapping[Key, GraphicalModel]
    sizes: Mapping[Key, float]


def cut(strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool = True) -> Cut:
    """Model a table from its measurements, and cut the model into strata.

    Sizes are those of a first model, which joins everything that was measured of them at any level. They are put into
    the measurements, then small strata lean on the others (`equistrata.synth.strata.borrowing`), as predictions with a standard
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
