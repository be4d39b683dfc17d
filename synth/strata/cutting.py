"""One model of all rows, cut into a model of each stratum. Post-processing, no cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import mean
from types import MappingProxyType

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.errors import InputError
from equistrata.synth.measurements import (
    LEAST_SIZE,
    NOISE_L1,
    Columns,
    Measurement,
    Merging,
    Prediction,
    at_level,
    cells_where,
    given,
    total_estimate,
)
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent, ties
from equistrata.synth.models.graphical import GraphicalModel
from equistrata.synth.models.junction_tree import Clique, JunctionTree
from equistrata.synth.models.mixture import ProductMixture
from equistrata.synth.strata.borrowing import borrow

# docs/experiments/shrinkage.md
_FAIR_SHARE = 0.05  # of a stratum's rows if all were alike: the most that LEAST_SIZE may add to a size
_UNSEEN_SIZE = 1e-6  # least size, in rows, of a stratum that nothing was measured of: public weights may fill it
_NOISY_SIZES = 0.25  # times the rows: noise floor of all sizes above which they are shrunk towards sums over them
_CERTAIN = 2.0  # standard deviations by which sizes must differ from that for any of the difference to be kept
_RAKINGS = 10
_SHARPEST = 0.1  # of the smallest σ that was paid for: the least σ of a prediction; less only slows estimation down


def cut(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool = True
) -> tuple[dict[Key, Tilting], dict[Key, float]]:
    """Model a table from its measurements, and cut the model into strata. Post-processing.

    A first model estimates the strata's sizes (`_sizes`). Measurements are reconciled with them, predictions from other
    strata are added (`borrow`), and a second model is made. A stratum that it gives probability zero, as may be where
    noise is larger than all rows, is modelled by itself, from what was measured within it, or else over all rows.

    Args:
        strata: how to cut.
        measurements: of the whole table.
        engine: makes the models; it must heed `Measurement.cell_sigma`.
        shrinkage: whether small strata borrow from the others.

    Returns:
        A model of each stratum, and the strata's sizes.
    """
    schema = strata.schema
    sizes = _sizes(strata, measurements, engine, shrinkage)
    tied = ties(schema, strata.columns) if engine.graphical else []
    reconciled = reconcile(measurements, strata, sizes)
    own = slices(reconciled, strata)
    sharpest = _SHARPEST * min((m.sigma for m in measurements if m.sigma), default=0.0)
    wider = [measurement for measurement in reconciled if not set(strata.columns) <= set(measurement.columns)]
    extras = predictions(borrow(strata, own, wider), strata, sharpest) if shrinkage else []
    if not engine.graphical:  # its training ends at the residuals' noise, which reconciled sizes have none of
        reconciled = [_settled(each) if set(each.columns) <= set(strata.columns) else each for each in reconciled]
    held = [set(measurement.columns) for measurement in reconciled]
    bare = [columns for columns in tied if not any(set(columns) <= other for other in held)]
    # No warm start: what the predictions correct would stay in what nothing else was measured of.
    model = engine.estimate(schema, [*reconciled, *extras, *(_blank(schema, columns) for columns in bare)])
    models: dict[Key, Tilting] = dict(separate(model, strata, sizes))
    for key in strata.keys:
        if key not in models:
            found = [m for m in own[key] if m.columns]
            found = found or [m for m in reconciled if not set(m.columns) & set(strata.columns)]
            models[key] = replace(engine.estimate(strata.rest(key), found), total=sizes[key])  # type: ignore[type-var]
    return {key: models[key] for key in strata.keys}, sizes


def slices(measurements: Sequence[Measurement], strata: Strata) -> dict[Key, list[Measurement]]:
    """Measurements within strata, as measurements of each stratum."""
    within = [measurement for measurement in measurements if set(strata.columns) <= set(measurement.columns)]
    return {key: [given(measurement, strata.codes_of(key)) for measurement in within] for key in strata.keys}


def reconcile(measurements: Sequence[Measurement], strata: Strata, sizes: Mapping[Key, float]) -> list[Measurement]:
    """Measurements constrained to these sizes: the sums over each stratum that they hold are changed to agree.

    Least squares for noise that is equal and independent in all cells, so the change is spread evenly over cells.
    """
    reconciled = []
    for measurement in measurements:
        fixed = tuple(name for name in measurement.columns if name in strata.columns)
        rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in strata.columns)
        gap = _table(strata, sizes, fixed) - measurement.values.sum(axis=rest)
        share = gap / np.prod([measurement.values.shape[axis] for axis in rest], initial=1.0)
        reconciled.append(replace(measurement, values=measurement.values + np.expand_dims(share, rest)))
    return reconciled


def predictions(extras: Mapping[Key, Sequence[Measurement]], strata: Strata, sharpest: float = 0.0) -> list[Prediction]:
    """What strata borrow, as predictions over the whole table, one for each set of columns; σ is `sharpest` or more."""
    found: dict[Columns, Prediction] = {}
    for key, borrowed in extras.items():
        for extra in borrowed:
            columns = at_level(strata.schema, extra.columns, strata.columns)
            merged = dict(zip(extra.columns, extra.groups, strict=True))
            whole = found.setdefault(columns, _blank(strata.schema, columns, merged))
            place = cells_where(columns, strata.codes_of(key))
            whole.values[place], whole.sigmas[place] = extra.values, max(extra.sigma, sharpest)
    return [replace(prediction, sigma=float(prediction.sigmas.min())) for prediction in found.values()]


def separate(model: Tilting, strata: Strata, sizes: Mapping[Key, float]) -> Mapping[Key, Tilting]:
    """A model of all rows as one of each stratum, without strata of probability zero.

    A stratum's mixture is the whole's, its components weighted by their probability of the stratum.

    Raises:
        InputError: a clique lacks a stratum column.
    """
    if isinstance(model, ProductMixture):
        return _separate_mixture(model, strata, sizes)
    assert isinstance(model, GraphicalModel)
    schema = strata.schema
    fixed = [schema.index(name) for name in strata.columns]
    place = {v: n for n, v in enumerate(v for v in range(len(schema.names)) if v not in fixed)}
    cliques: list[Clique] = []
    for clique in model.tree.cliques:
        if not set(fixed) <= set(clique):
            raise InputError("the model does not separate into strata: a clique lacks a stratum column")
        cliques.append(tuple(place[v] for v in clique if v not in fixed))
    tree = JunctionTree(tuple(schema.sizes[v] for v in place), tuple(cliques), model.tree.parents)
    models = {}
    for key in strata.keys:
        tables = []
        for clique, table in zip(model.tree.cliques, model.conditional, strict=True):
            cells = cells_where([schema.names[v] for v in clique], strata.codes_of(key))
            tables.append(table.reshape([schema.sizes[v] for v in clique])[cells].ravel())
        mass = tables[0].sum()
        if mass > 0:
            tables[0] = tables[0] / mass
            models[key] = GraphicalModel(strata.rest(key), sizes[key], tree, tables)
    return models


def _separate_mixture(model: ProductMixture, strata: Strata, sizes: Mapping[Key, float]) -> dict[Key, ProductMixture]:
    names, models = strata.schema.names, {}
    for key in strata.keys:
        try:
            given_key, _ = model.where({name: [code] for name, code in strata.codes_of(key).items()})
        except InputError:  # of probability zero
            continue
        factors = [factor for name, factor in zip(names, given_key.factors, strict=True) if name not in strata.columns]
        models[key] = ProductMixture(strata.rest(key), sizes[key], given_key.weights, tuple(factors))
    return models


def _sizes(strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool) -> dict[Key, float]:
    """Each stratum's number of rows, shrunk towards what sums over strata imply. Noise drops no stratum.

    Each has LEAST_SIZE standard deviations at least, by that at most _FAIR_SHARE of an equal share, and all
    with one value of a stratum column together at most what their sum is or, if more, LEAST_SIZE standard deviations of
    it. What that adds comes from the other strata of each stratum column's value, not from all.
    """
    if not engine.graphical:  # a graphical model of the stratum columns alone is small, whatever else was measured
        engine = MirrorDescent()
        measurements = [
            measurement if set(measurement.columns) <= set(strata.columns) else _summed(measurement, strata.columns)
            for measurement in measurements
        ]
    wider = [m for m in measurements if not set(strata.columns) <= set(m.columns)] if shrinkage else []
    found = {key: total_estimate(own) for key, own in slices(measurements, strata).items()}
    noise = mean(spread for _, spread in found.values()) ** 2
    total = max(total_estimate(measurements)[0], 1.0)
    floor = NOISE_L1 * noise**0.5 * len(found)
    if wider and np.isfinite(floor) and floor > _NOISY_SIZES * total:
        table = _expected(strata, found, noise, total, wider, engine)
    else:
        whole = engine.estimate(strata.schema, measurements)
        table = whole.marginal(strata.columns) * (total / whole.total)
        if shrinkage and 0 < noise < np.inf:
            table = _towards_independence(table, noise)
    least = np.zeros(table.shape)
    most = _FAIR_SHARE * total / len(strata.keys)
    for key, (_, spread) in found.items():
        place = tuple(strata.codes_of(key).values())
        least[place] = min(LEAST_SIZE * spread, most) if np.isfinite(spread) else _UNSEEN_SIZE
    for axis, name in enumerate(strata.columns):
        others = tuple(other for other in range(table.ndim) if other != axis)
        enough = np.maximum(table.sum(others, keepdims=True), LEAST_SIZE * _sum_noise(measurements, name))
        least = np.minimum(least, enough / np.maximum((least > 0).sum(others, keepdims=True), 1))
    sizes = np.maximum(table, least) * (least > 0)
    sizes = np.maximum(_raked(sizes, np.maximum(table, 0.0), [[axis] for axis in range(table.ndim)]), least)
    sizes *= total / max(float(sizes.sum()), 1e-12)
    return {key: float(sizes[tuple(strata.codes_of(key).values())]) for key in found}


def _settled(measurement: Measurement) -> Prediction:
    """A measurement as what is known by more than it."""
    sigmas = measurement.cell_sigma
    return Prediction(measurement.columns, measurement.values, measurement.sigma, measurement.groups, sigmas=sigmas)


def _summed(measurement: Measurement, names: Columns) -> Measurement:
    """A measurement of some of its columns."""
    rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in names)
    cells = prod(measurement.values.shape[axis] for axis in rest)
    kept = tuple(name for name in measurement.columns if name in names)
    return Measurement(kept, measurement.values.sum(rest), measurement.sigma * cells**0.5)


def _sum_noise(measurements: Sequence[Measurement], name: str) -> float:
    """The standard deviation of the number of rows with a value of this column; infinite if it was not measured."""
    sums = [_summed(measurement, (name,)).sigma for measurement in measurements if name in measurement.columns]
    precision = sum(sigma**-2 for sigma in sums if sigma)
    return float(precision**-0.5) if precision else np.inf


def _expected(
    strata: Strata,
    found: Mapping[Key, tuple[float, float]],
    noise: float,
    total: float,
    wider: Sequence[Measurement],
    engine: Estimator,
) -> Floats:
    """Noisy sizes of strata shrunk towards a model of sums over them, by empirical Bayes; shape by stratum column.

    The model is of wider measurements, and of the sizes' own sums over the same columns. The prior's standard deviation
    is the same part of every size, found by the method of moments, and zero unless noise alone would rarely give so
    much. The model's sums are kept.

    Args:
        found: each stratum's noisy size and its standard deviation.
        noise: the variance of a size, mean over strata.
        total: the number of rows.
    """
    sizes = _table(strata, {key: rows for key, (rows, _) in found.items()}, strata.columns)
    own = Measurement(strata.columns, sizes, noise**0.5)
    sets = {tuple(name for name in m.columns if name in strata.columns) for m in wider}
    sets |= {(name,) for name in strata.columns}
    model = engine.estimate(strata.schema, [*wider, *(_summed(own, columns) for columns in sorted(sets - {()}))])
    table = model.marginal(strata.columns) * (total / model.total)
    apart, weights = sizes - table, table**2
    apart -= apart.mean()
    excess, certain = float((weights * (apart**2 - noise)).sum()), float((weights**2).sum())
    spread = excess / max(certain, 1e-12) if excess > _CERTAIN * noise * (2 * certain) ** 0.5 else 0.0
    shrunk = table + apart * spread * weights / (spread * weights + noise)
    kept = [[strata.columns.index(name) for name in columns] for columns in sets if columns]
    return _raked(np.maximum(shrunk, _UNSEEN_SIZE), table, kept)


def _raked(table: Floats, like: Floats, kept: Iterable[Sequence[int]]) -> Floats:
    """A positive table with another's sums over sets of axes, by iterative proportional fitting."""
    for axes in list(kept) * _RAKINGS:
        others = tuple(axis for axis in range(table.ndim) if axis not in axes)
        table = table * (like.sum(others, keepdims=True) / np.maximum(table.sum(others, keepdims=True), 1e-12))
    return table


def _towards_independence(table: Floats, noise: float) -> Floats:
    """Sizes shrunk towards independence of the stratum columns, by empirical Bayes. Column sums stay.

    The prior variance of the dependence is what the sizes' variance about independence exceeds `noise`, their noise
    variance, by.
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


def _blank(schema: Schema, columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})) -> Prediction:
    """A prediction without a value, which only puts columns into one clique."""
    groups = tuple(merged.get(name) for name in columns)
    shape = [max(own) + 1 if own else schema[name].size for name, own in zip(columns, groups, strict=True)]
    return Prediction(columns, np.zeros(shape), np.inf, groups, sigmas=np.full(shape, np.inf))
