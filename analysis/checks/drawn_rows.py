"""Checks that the rows of a release follow from the measurements.

The rows are drawn from a model of the measurements. These checks fit the model again, and rake it to the private means
if the release was raked. The total number of rows must be equal to that of the model. If the weights of strata are
noisy counts, then the number of rows in each stratum must be equal as well. The distributions of columns, within strata
and for measured pairs, must be equal up to sampling.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from equistrata.analysis.checks.companions import has_earlier_group_errors
from equistrata.analysis.contents.known_means import known_means
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.groups import group_shares, measured_groups
from equistrata.arrays import Floats
from equistrata.data.table import CodedTable
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.synth.measurements import measured_pairs, sum_groups, total_estimate
from equistrata.synth.strata.model import StratifiedModel, noisy_weights, people_of_rows
from equistrata.synth.strata.raking import raked

# The limit for differences due to sampling: a multiple of the expected difference plus a share of the rows.
SAMPLED, APART = 4.0, 0.03
OF_PAIRS = 2.0, 0.02  # for pairs and strata; rows are drawn evenly, so differences are smaller
COUNTED = 1e-3  # the share of rows by which another machine's fit may differ, plus one row per stratum
MOST_TABLES = 4000  # the maximum number of tables of pairs, one per stratum, which takes about a minute


def rows_faults(release: Release, table: CodedTable) -> Iterator[str]:
    """Yield a sentence for each difference between the rows in `table` and the measurements.

    Models of earlier versions are not checked, and neither are the months of a series, which also depend on earlier
    months (see `rows_unchecked`). If the strata were measured separately, only their sizes are checked, because fitting
    all models would take too long.
    """
    evidence, rows = release.evidence, len(table)
    strata = evidence.strata
    place = strata.index(table.select(strata.columns)) if strata.columns else np.zeros(rows, dtype=np.intp)
    sizes = np.bincount(place, minlength=len(strata.keys)).astype(float)
    if rows_unchecked(release):
        if _measured_apart(release):
            total = sum(max(total_estimate(found)[0], 0.0) for found in evidence.measured.values())
            yield from _sizes(release, sizes, noisy_weights(strata, evidence.measured), total)
        return
    model = people_of_rows(evidence.model)
    yield from _sizes(release, sizes, model.weights, model.total)
    if not rows:
        return
    if strata.columns:
        # The exact shares of the rows are used, because public weights are not known otherwise.
        weights = PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, "rows")
        model = replace(model, weights=weights)
    if release.card.get("raked"):
        try:
            means = release.private_means or {}
            public = release.public_weights_source is not None and not release.card["config"].get("combine_weights")
            model, _ = raked(model, known_means(release.schema, strata, means, public))
        except (AttributeError, KeyError, TypeError, ValueError, InputError):  # another check reports this
            return
    far = _far_columns(release, model, table, place, sizes)
    yield from far.values()
    yield from _far_pairs(release, model, table, far)


def _measured_apart(release: Release) -> bool:
    """Return True if the strata were measured separately and their sizes can be computed again."""
    evidence = release.evidence
    usual = "format" in release.card and not release.card.get("series") and not evidence.strata.schema.weighed
    return usual and release.schema.expanded_by is None and set(evidence.measured) != {()}


def _sizes(release: Release, sizes: Floats, weights: PublicWeights, total: float) -> Iterator[str]:
    """Check the total number of rows and the number of rows in each stratum, unless its weights are public."""
    asked, rows = release.card["config"].get("rows"), round(float(sizes.sum()))
    expected = round(total / (1 - release.evidence.held_out)) if asked is None else asked
    if release.controls is not None:  # each cell with people has at least one row
        expected = max(expected, int((release.controls.totals > 0).sum()))
    if abs(rows - expected) > 1 + COUNTED * expected:
        yield f"there are {rows:,} rows, but the measurements lead to {expected:,}"
    if release.strata.columns and release.public_weights_source is None and rows:
        own = weights.allocate(rows)
        moved = 0.5 * np.abs(sizes - [own[key] for key in release.strata.keys]).sum()
        if moved > COUNTED * rows + len(own) + _replaced(release):
            yield "the shares of the strata in the rows do not follow from the measurements"


def _far_columns(
    release: Release, model: StratifiedModel, table: CodedTable, place: npt.NDArray[np.intp], sizes: Floats
) -> dict[str, str]:
    evidence, faults = release.evidence, {}
    for name in _compared(release):
        shares = group_shares(evidence, model, name, counted=False).shares
        groups = measured_groups(evidence, name)
        codes = table.column(name) if groups is None else np.asarray(groups)[table.column(name)]
        expected, found = sizes[:, None] * shares, np.zeros(shares.shape)
        np.add.at(found, (place, codes), 1.0)
        changed = _changed(release, [name], exchanged=False)
        if _far(found.sum(0), expected.sum(0), changed=changed):
            faults[name] = f"the shares of {name!r} in the rows do not follow from the measurements"
        elif _far(found, expected, *OF_PAIRS, changed=changed):
            faults[name] = f"the shares of {name!r} in the rows of strata do not follow from the measurements"
    return faults


def _compared(release: Release) -> list[str]:
    """Return the columns that are released as they were drawn, which excludes weights that meet control totals."""
    apart = {*release.strata.columns, *([] if release.controls is None else [release.schema.survey_weight])}
    return [name for name in release.evidence.names if name not in apart]


def _far_pairs(release: Release, model: StratifiedModel, table: CodedTable, far: Container[str]) -> Iterator[str]:
    """Check the measured pairs of columns that do not define strata and did not already fail a check."""
    evidence = release.evidence
    inner = [name for name in _compared(release) if name not in far]
    pairs = measured_pairs(inner, [each.columns for each in evidence.all])[0]
    for pair in pairs[: MOST_TABLES // len(evidence.strata.keys)]:
        found, expected = table.marginal(pair).astype(float), model.marginal(pair)
        for axis, name in enumerate(pair):
            groups = measured_groups(evidence, name)
            if groups is not None:
                found, expected = (sum_groups(each, axis, groups) for each in (found, expected))
        expected *= len(table) / max(expected.sum(), 1e-300)
        if _far(found, expected, *OF_PAIRS, changed=_changed(release, pair, exchanged=True)):
            yield f"the relation of {pair[0]!r} and {pair[1]!r} in the rows does not follow from the measurements"


def _changed(release: Release, names: Sequence[str], exchanged: bool) -> int:
    """Return the number of rows in which rules may have changed these columns, according to the card."""
    said = release.card.get("rules") or {}
    compared = {name for order in release.schema.ordered for name in (order.lower, order.upper)}
    kinds = ["replaced"]
    if not compared.isdisjoint(names):
        kinds += ["moved", *["exchanged"] * exchanged]
    return int(sum(said.get(kind, 0) for kind in kinds)) + _replaced(release)


def _replaced(release: Release) -> int:
    """Return the number of rows that were replaced, so that each cell of the control totals has a row."""
    return int((release.card.get("controls") or {}).get("replaced", 0))


def _far(found: Floats, expected: Floats, times: float = SAMPLED, apart: float = APART, changed: int = 0) -> bool:
    """Return True if counts differ by more than sampling can explain.

    The limit also includes one row per cell, a share of all rows, and the rows that were changed by rules.
    """
    rows = found.sum()
    sampled = 0.5 * np.sqrt(np.maximum(expected * (1 - expected / rows), 0.0)).sum() / rows
    return bool(0.5 * np.abs(found - expected).sum() / rows > times * sampled + apart + (found.size + changed) / rows)


def rows_unchecked(release: Release) -> bool:
    """Return True if the rows cannot be compared with a model that is fitted again."""
    if release.schema.expanded_by is None:
        seen = bool(release.card.get("served"))
    else:  # with control totals, rows are drawn by cell
        seen = release.controls is None and set(release.evidence.measured) == {()}
    return not seen or has_earlier_group_errors(release) or bool(release.card.get("series"))
