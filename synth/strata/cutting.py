"""One model of all rows, cut into a model of each stratum. Post-processing, no cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.strata import Key, Strata
from equistrata.errors import InputError
from equistrata.stats.laws import NOISE_L1, at_least_zero
from equistrata.stats.proportional_fitting import with_sums
from equistrata.stats.relative_sizes import LEAST_SIZE
from equistrata.synth.measurements import (
    Columns,
    Former,
    Measurement,
    Merging,
    Prediction,
    at_level,
    cells_where,
    given,
    sum_groups,
    summed,
    tells_apart,
    total_estimate,
)
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.noise_floors import sum_noise
from equistrata.synth.strata.hierarchy import nested_sizes
from equistrata.synth.strata.shrinkage import predict_from_others

# docs/experiments/shrinkage.md
_FAIR_SHARE = 0.05  # of a stratum's rows if all were alike: the most that LEAST_SIZE may add to a size
_UNSEEN_SIZE = 1e-6  # least size, in rows, of a stratum that nothing was measured of: public weights may fill it
_CLEAR_SUMS = 0.03  # times the rows: the noise floor of sums over strata up to which they are kept as measured
_RAKINGS = 10
_SHARPEST = 0.1  # of the smallest σ that was paid for: the least σ of a prediction; less only slows estimation down


def cut(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool = True
) -> tuple[dict[Key, Tilting], dict[Key, float]]:
    """Model a table from its measurements, and cut the model into strata. Post-processing.

    A first model estimates the strata's sizes (`_sizes`). Measurements are reconciled with them, priors from other
    strata are added (`predict_from_others`), and a second model is made. A stratum that it gives probability zero, as
    may be where noise is larger than all rows, is modelled by itself, from what was measured within it, or else over
    all rows.

    Args:
        strata: how to cut.
        measurements: of the whole table.
        engine: makes the models; it must heed `Measurement.cell_sigma`.
        shrinkage: whether small strata borrow from the others.

    Returns:
        A model of each stratum, and the strata's sizes.
    """
    # What former releases of a series say of relations says nothing of sizes, and would take a large model.
    sizes = _sizes(strata, [each for each in measurements if not isinstance(each, Former)], engine, shrinkage)
    reconciled = reconcile(measurements, strata, sizes)
    own = slices(reconciled, strata)
    sharpest = _SHARPEST * min((m.sigma for m in measurements if m.sigma), default=0.0)
    plain = [m for m in reconciled if tells_apart(m, set(strata.columns) & set(m.columns))]
    wider = [measurement for measurement in plain if not tells_apart(measurement, strata.columns)]
    extras = predictions(predict_from_others(strata, own, wider), strata, sharpest) if shrinkage else []
    if not engine.graphical:  # its training ends at the residuals' noise, which reconciled sizes have none of
        reconciled = [_settled(each) if set(each.columns) <= set(strata.columns) else each for each in reconciled]
    # No warm start: what the predictions correct would stay in what nothing else was measured of.
    models = separate(engine.estimate(strata.schema, [*reconciled, *extras]), strata, sizes)
    for key in strata.keys:
        if key not in models:
            found = [m for m in own[key] if m.columns]
            found = found or [m for m in reconciled if not set(m.columns) & set(strata.columns)]
            models[key] = replace(engine.estimate(strata.rest(key), found), total=sizes[key])
    return {key: models[key] for key in strata.keys}, sizes


def slices(measurements: Sequence[Measurement], strata: Strata) -> dict[Key, list[Measurement]]:
    """Measurements within strata, as measurements of each stratum."""
    within = [measurement for measurement in measurements if tells_apart(measurement, strata.columns)]
    return {key: [given(measurement, strata.codes_of(key)) for measurement in within] for key in strata.keys}


def reconcile(measurements: Sequence[Measurement], strata: Strata, sizes: Mapping[Key, float]) -> list[Measurement]:
    """Measurements constrained to these sizes: the sums over each stratum that they hold are changed to agree.

    Least squares for noise that is equal and independent in all cells, so the change is spread evenly over cells.
    """
    reconciled = []
    for measurement in measurements:
        fixed = tuple(name for name in measurement.columns if name in strata.columns)
        rest = tuple(axis for axis, name in enumerate(measurement.columns) if name not in strata.columns)
        wanted = _table(strata, sizes, fixed)
        for axis, name in enumerate(fixed):
            groups = measurement.groups[measurement.columns.index(name)]
            wanted = wanted if groups is None else sum_groups(wanted, axis, groups)
        gap = wanted - measurement.values.sum(axis=rest)
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
            whole.values[place], whole.sigmas[place] = extra.values, np.maximum(extra.cell_sigma, sharpest)
    return [replace(prediction, sigma=float(prediction.sigmas.min())) for prediction in found.values()]


def separate(model: Tilting, strata: Strata, sizes: Mapping[Key, float]) -> dict[Key, Tilting]:
    """A model of all rows as one of each stratum, without strata of probability zero."""
    models: dict[Key, Tilting] = {}
    for key in strata.keys:
        try:
            found, _ = model.given(strata.codes_of(key), strata.rest(key))
        except InputError:  # of probability zero
            continue
        models[key] = replace(found, total=sizes[key])
    return models


def _sizes(strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool) -> dict[Key, float]:
    """Each stratum's number of rows, by a model of the stratum columns with their sums as measured.

    Each has LEAST_SIZE standard deviations at least, by that at most _FAIR_SHARE of an equal share, and all of a
    measured sum together at most what that is or, if more, LEAST_SIZE standard deviations of it. What that adds comes
    from strata of the same sums where these were measured (`_sums`), not from all. Sizes of strata that nest are shrunk
    level by level (`nested_sizes`).
    """
    if strata.nested:
        table = nested_sizes(strata, measurements, shrinkage)
        return {key: float(table[tuple(strata.codes_of(key).values())]) for key in strata.keys}
    if not engine.graphical:  # a graphical model of the stratum columns is small, whatever else was measured
        engine = MirrorDescent()
    measurements = [_narrow(measurement, strata.columns) for measurement in measurements]
    found = {key: total_estimate(own) for key, own in slices(measurements, strata).items()}
    total = max(total_estimate(measurements)[0], 1.0)
    kept = _sums(strata, measurements)
    whole = engine.estimate(strata.schema, measurements)
    table = _summing_to(whole.marginal(strata.columns) * (total / whole.total), total, measurements, strata, kept)
    least = np.zeros(table.shape)
    most = _FAIR_SHARE * total / len(strata.keys)
    for key, (_, spread) in found.items():
        place = tuple(strata.codes_of(key).values())
        least[place] = min(LEAST_SIZE * spread, most) if np.isfinite(spread) else _UNSEEN_SIZE
    for columns in kept:
        others = tuple(axis for axis, name in enumerate(strata.columns) if name not in columns)
        enough = np.maximum(table.sum(others, keepdims=True), LEAST_SIZE * sum_noise(measurements, columns))
        least = np.minimum(least, enough / np.maximum((least > 0).sum(others, keepdims=True), 1))
    sizes = np.maximum(table, least) * (least > 0)
    sizes = np.maximum(_raked(sizes, np.maximum(table, 0.0), _axes(strata, kept)), least)
    sizes *= total / max(float(sizes.sum()), 1e-12)
    return {key: float(sizes[tuple(strata.codes_of(key).values())]) for key in found}


def _summing_to(
    table: Floats, total: float, measurements: Sequence[Measurement], strata: Strata, kept: Sequence[Columns]
) -> Floats:
    """Sizes with the sums over strata as measured, if their noise floor is low; else none is more than as measured
    (docs/experiments/shrinkage.md).

    Sizes of which none may be below zero add up to too much where many are near it: a rare value would be frequent.
    """
    sums, most = [], []
    for columns in kept:
        known = [summed(each, columns) for each in measurements if tells_apart(each, columns)]
        if not known or not all(each.sigma for each in known):  # public sums are kept already
            continue
        sigma = sum_noise(measurements, columns)
        found = [each.values.transpose([each.columns.index(name) for name in columns]) for each in known]
        weights = np.array([(sigma / each.sigma) ** 2 for each in known])
        positive = at_least_zero(np.tensordot(weights, np.array(found), 1), sigma)
        others = tuple(axis for axis, name in enumerate(strata.columns) if name not in columns)
        if NOISE_L1 * sigma * prod(strata.schema[name].size for name in columns) <= _CLEAR_SUMS * total:
            sums.append(np.expand_dims(positive * (total / positive.sum()), others))
        else:
            most.append((np.expand_dims(positive, others), others))
    table = with_sums(table, sums, _RAKINGS)
    modelled = [(table.sum(others, keepdims=True), positive) for positive, others in most]
    return with_sums(
        table, [_at_most(each, positive) for each, positive in modelled if np.any(each > positive)], _RAKINGS
    )


def _at_most(sums: Floats, most: Floats) -> Floats:
    """Sums cut to the most that each may be; what is cut off goes to those below it, in proportion.

    >>> _at_most(np.array([60.0, 30.0, 10.0]), np.array([80.0, 40.0, 1.0])).tolist()
    [66.0, 33.0, 1.0]
    """
    cut = np.minimum(sums, most)
    below = sums < most
    room = float(cut[below].sum())
    return np.where(below, cut * (1 + float((sums - cut).sum()) / room), cut) if room > 0 else sums


def _narrow(measurement: Measurement, names: Columns) -> Measurement:
    """A measurement of sizes: of stratum columns and at most one other, or else summed over all others."""
    return measurement if len(set(measurement.columns) - set(names)) <= 1 else summed(measurement, names)


def _settled(measurement: Measurement) -> Prediction:
    """A measurement as what is known by more than it."""
    sigmas = measurement.cell_sigma
    return Prediction(measurement.columns, measurement.values, measurement.sigma, measurement.groups, sigmas=sigmas)


def _sums(strata: Strata, measurements: Iterable[Measurement]) -> list[Columns]:
    """The stratum columns by which numbers of rows are known better than by all: each, and some where measured."""
    sets = {tuple(name for name in strata.columns if name in measurement.columns) for measurement in measurements}
    some = sorted((s for s in sets if 1 < len(s) < len(strata.columns)), key=lambda s: (len(s), s))
    return [*((name,) for name in strata.columns), *some]


def _axes(strata: Strata, sums: Iterable[Columns]) -> list[list[int]]:
    return [[strata.columns.index(name) for name in columns] for columns in sums]


def _raked(table: Floats, like: Floats, kept: Iterable[Sequence[int]]) -> Floats:
    """A positive table with another's sums over sets of axes."""
    summed_over = [tuple(axis for axis in range(table.ndim) if axis not in axes) for axes in kept]
    return with_sums(table, [like.sum(others, keepdims=True) for others in summed_over], _RAKINGS)


def _table(strata: Strata, sizes: Mapping[Key, float], fixed: Columns | None = None) -> Floats:
    """The strata's sizes, shape by stratum column; added up over all but some of these columns."""
    fixed = strata.columns if fixed is None else fixed
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
