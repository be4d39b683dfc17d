"""Cutting of a model of all rows into models of the strata.

The cutting is post-processing and has no privacy cost.
"""

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
from equistrata.stats.distributions import NOISE_L1, at_least_zero
from equistrata.stats.proportional_fitting import fit_margins
from equistrata.stats.relative_sizes import LEAST_SIZE
from equistrata.synth.measurements import (
    Columns,
    FormerEstimate,
    Measurement,
    Merging,
    Prediction,
    cells_where,
    given,
    has_all_codes,
    join_level_columns,
    sum_groups,
    summed,
    total_estimate,
)
from equistrata.synth.models.base import Tilting
from equistrata.synth.models.estimation import Estimator, MirrorDescent
from equistrata.synth.noise_floors import sum_noise
from equistrata.synth.strata.hierarchy import nested_sizes
from equistrata.synth.strata.shrinkage import predict_from_others

_FAIR_SHARE = 0.05  # the maximum that LEAST_SIZE may add to a size, as a fraction of an equal share of the rows
_UNSEEN_SIZE = 1e-6  # the minimum size of a stratum without measurements, in rows, for use with public weights
_CLEAR_SUMS = 0.03  # the maximum noise floor of sums over strata that are used as measured, as a fraction of the rows
_RAKINGS = 10
# The minimum σ of a prediction, as a fraction of the smallest measured σ. A smaller σ would only slow down estimation.
_SHARPEST = 0.1


def cut(
    strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool = True
) -> tuple[dict[Key, Tilting], dict[Key, float]]:
    """Estimate a model of a table from its measurements, and cut it into models of the strata.

    A first model estimates the sizes of the strata (`_sizes`). The measurements are then reconciled with these sizes,
    and priors from the other strata are added (`predict_from_others`). The second model is estimated from the results.
    If the noise is larger than all rows, a stratum can have probability 0 in this model. In this case, a separate model
    is estimated from the measurements within the stratum or, if there are none, over all rows. All steps are
    post-processing.

    Parameters
    ----------
    strata : Strata
        The strata.
    measurements : sequence of Measurement
        The measurements of the whole table.
    engine : Estimator
        The engine that estimates the models. It must use `Measurement.cell_sigma`.
    shrinkage : bool, default=True
        If True, the estimates of small strata are shrunk toward the other strata.

    Returns
    -------
    models : dict of tuple to Tilting
        The model of each stratum.
    sizes : dict of tuple to float
        The estimated number of rows of each stratum.
    """
    # Estimates of relations from former releases are not used, because they do not improve the sizes and would need a
    # large model.
    sizes = _sizes(strata, [each for each in measurements if not isinstance(each, FormerEstimate)], engine, shrinkage)
    reconciled = fit_to_stratum_sizes(measurements, strata, sizes)
    own = slices(reconciled, strata)
    sharpest = _SHARPEST * min((m.sigma for m in measurements if m.sigma), default=0.0)
    plain = [m for m in reconciled if has_all_codes(m, set(strata.columns) & set(m.columns))]
    wider = [measurement for measurement in plain if not has_all_codes(measurement, strata.columns)]
    extras = predictions(predict_from_others(strata, own, wider), strata, sharpest) if shrinkage else []
    # The training of a mixture stops at the noise of the residuals, but reconciled sizes have no noise.
    if not engine.graphical:
        reconciled = [_settled(each) if set(each.columns) <= set(strata.columns) else each for each in reconciled]
    # The first model is not a warm start, because errors that the predictions correct would remain in relations without
    # measurements.
    models = split_by_strata(engine.estimate(strata.schema, [*reconciled, *extras]), strata, sizes)
    for key in strata.keys:
        if key not in models:
            found = [m for m in own[key] if m.columns]
            found = found or [m for m in reconciled if not set(m.columns) & set(strata.columns)]
            models[key] = replace(engine.estimate(strata.rest(key), found), total=sizes[key])
    return {key: models[key] for key in strata.keys}, sizes


def slices(measurements: Sequence[Measurement], strata: Strata) -> dict[Key, list[Measurement]]:
    """Convert measurements within strata into measurements of each stratum.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements of the whole table. Those that are not within strata are ignored.
    strata : Strata
        The strata.

    Returns
    -------
    dict of tuple to list of Measurement
        The measurements of each stratum.
    """
    within = [measurement for measurement in measurements if has_all_codes(measurement, strata.columns)]
    return {key: [given(measurement, strata.codes_of(key)) for measurement in within] for key in strata.keys}


def fit_to_stratum_sizes(
    measurements: Sequence[Measurement], strata: Strata, sizes: Mapping[Key, float]
) -> list[Measurement]:
    """Constrain measurements to the sizes of the strata.

    The sum of a measurement over each stratum is changed to the size of the stratum. The change is distributed evenly
    over the cells. This is the least-squares solution if the noise is independent and equal in all cells.

    Parameters
    ----------
    measurements : sequence of Measurement
        The measurements of the whole table.
    strata : Strata
        The strata.
    sizes : mapping of tuple to float
        The number of rows of each stratum.

    Returns
    -------
    list of Measurement
        The reconciled measurements.
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
    """Combine the priors of the strata into predictions over the whole table, one per set of columns.

    Parameters
    ----------
    extras : mapping of tuple to sequence of Measurement
        The priors of each stratum.
    strata : Strata
        The strata.
    sharpest : float, default=0.0
        The minimum standard deviation of a prediction.

    Returns
    -------
    list of Prediction
        The predictions.
    """
    found: dict[Columns, Prediction] = {}
    for key, borrowed in extras.items():
        for extra in borrowed:
            columns = join_level_columns(strata.schema, extra.columns, strata.columns)
            merged = dict(zip(extra.columns, extra.groups, strict=True))
            whole = found.setdefault(columns, _blank(strata.schema, columns, merged))
            place = cells_where(columns, strata.codes_of(key))
            whole.values[place], whole.sigmas[place] = extra.values, np.maximum(extra.cell_sigma, sharpest)
    return [replace(prediction, sigma=float(prediction.sigmas.min())) for prediction in found.values()]


def split_by_strata(model: Tilting, strata: Strata, sizes: Mapping[Key, float]) -> dict[Key, Tilting]:
    """Cut a model of all rows into models of the strata.

    Parameters
    ----------
    model : Tilting
        The model of all rows.
    strata : Strata
        The strata.
    sizes : mapping of tuple to float
        The number of rows of each stratum.

    Returns
    -------
    dict of tuple to Tilting
        The model of each stratum. Strata with probability 0 are omitted.
    """
    models: dict[Key, Tilting] = {}
    for key in strata.keys:
        try:
            found, _ = model.given(strata.codes_of(key), strata.rest(key))
        except InputError:  # if the stratum has probability 0
            continue
        models[key] = replace(found, total=sizes[key])
    return models


def _sizes(strata: Strata, measurements: Sequence[Measurement], engine: Estimator, shrinkage: bool) -> dict[Key, float]:
    """Estimate the number of rows of each stratum from a model of the stratum columns.

    The sums of the sizes agree with the measured sums. Each size has a minimum of `LEAST_SIZE` standard deviations,
    which is at most the fraction `_FAIR_SHARE` of an equal share. The total of these minima in a measured sum is at
    most the sum or, if this is larger, `LEAST_SIZE` of its standard deviations. The added rows are taken only from
    strata in the same sums if these were measured (`_sums`). The sizes of nested strata are shrunk level by level
    instead (`nested_sizes`).
    """
    if strata.nested:
        table = nested_sizes(strata, measurements, shrinkage)
        return {key: float(table[tuple(strata.codes_of(key).values())]) for key in strata.keys}
    if not engine.graphical:  # a graphical model of the stratum columns is always small
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
    """Adjust sizes to the measured sums over strata.

    A sum is used as measured if its noise floor is low. Otherwise, the sum of the sizes is only limited to the measured
    sum. Without this limit, the sum of many small sizes would be too large because estimated sizes are never negative.
    A rare value would then become frequent. See docs/experiments/shrinkage.md.
    """
    sums, most = [], []
    for columns in kept:
        known = [summed(each, columns) for each in measurements if has_all_codes(each, columns)]
        if not known or not all(each.sigma for each in known):  # public sums are already satisfied
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
    table = fit_margins(table, sums, _RAKINGS)
    modelled = [(table.sum(others, keepdims=True), positive) for positive, others in most]
    return fit_margins(
        table, [_at_most(each, positive) for each, positive in modelled if np.any(each > positive)], _RAKINGS
    )


def _at_most(sums: Floats, most: Floats) -> Floats:
    """Limit sums to their maxima, and distribute the excess proportionally over the sums below their maxima.

    >>> _at_most(np.array([60.0, 30.0, 10.0]), np.array([80.0, 40.0, 1.0])).tolist()
    [66.0, 33.0, 1.0]
    """
    cut = np.minimum(sums, most)
    below = sums < most
    room = float(cut[below].sum())
    return np.where(below, cut * (1 + float((sums - cut).sum()) / room), cut) if room > 0 else sums


def _narrow(measurement: Measurement, names: Columns) -> Measurement:
    """Sum a measurement to the stratum columns if it has more than one other column."""
    return measurement if len(set(measurement.columns) - set(names)) <= 1 else summed(measurement, names)


def _settled(measurement: Measurement) -> Prediction:
    """Convert a measurement to a prediction, because its values also depend on other measurements."""
    sigmas = measurement.cell_sigma
    return Prediction(measurement.columns, measurement.values, measurement.sigma, measurement.groups, sigmas=sigmas)


def _sums(strata: Strata, measurements: Iterable[Measurement]) -> list[Columns]:
    """Return the sets of stratum columns for which numbers of rows are known more precisely than for all of them.

    These are the single columns, and the sets of several columns that were measured.
    """
    sets = {tuple(name for name in strata.columns if name in measurement.columns) for measurement in measurements}
    some = sorted((s for s in sets if 1 < len(s) < len(strata.columns)), key=lambda s: (len(s), s))
    return [*((name,) for name in strata.columns), *some]


def _axes(strata: Strata, sums: Iterable[Columns]) -> list[list[int]]:
    return [[strata.columns.index(name) for name in columns] for columns in sums]


def _raked(table: Floats, like: Floats, kept: Iterable[Sequence[int]]) -> Floats:
    """Adjust a positive table to the sums of another table over some sets of axes."""
    summed_over = [tuple(axis for axis in range(table.ndim) if axis not in axes) for axes in kept]
    return fit_margins(table, [like.sum(others, keepdims=True) for others in summed_over], _RAKINGS)


def _table(strata: Strata, sizes: Mapping[Key, float], fixed: Columns | None = None) -> Floats:
    """Return the sizes of the strata as a table over the given stratum columns, which are all of them by default."""
    fixed = strata.columns if fixed is None else fixed
    table = np.zeros([strata.schema[name].size for name in fixed])
    for key, size in sizes.items():
        codes = strata.codes_of(key)
        table[tuple(codes[name] for name in fixed)] += size
    return table


def _blank(schema: Schema, columns: Columns, merged: Mapping[str, Merging] = MappingProxyType({})) -> Prediction:
    """Create a prediction without values, which only makes its columns a clique of the model."""
    groups = tuple(merged.get(name) for name in columns)
    shape = [max(own) + 1 if own else schema[name].size for name, own in zip(columns, groups, strict=True)]
    return Prediction(columns, np.zeros(shape), np.inf, groups, sigmas=np.full(shape, np.inf))
