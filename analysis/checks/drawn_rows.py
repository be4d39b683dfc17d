"""Whether a release's rows follow from what was measured.

They are drawn from a model of the measurements, which is made again here, and raked again to private means. How many
there are, and how many each stratum has where weights are noisy counts, is the model's to the last row. How they are
spread over columns, within strata and over pairs that were measured, is the model's up to sampling.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from equistrata.analysis.checks.companions import served_earlier
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

# Times what sampling is expected to move, and a share of the rows besides: more is not chance.
SAMPLED, APART = 4.0, 0.03
OF_PAIRS = 2.0, 0.02  # the same of a pair, or a stratum's column: rows are drawn evenly, and chance moves them by less
COUNTED = 1e-3  # of the rows, that another machine's fit may make more of them, or elsewhere, and a row a stratum
MOST_TABLES = 4000  # of pairs, a stratum's each, that are made: a minute


def rows_faults(release: Release, table: CodedTable) -> Iterator[str]:
    """A sentence for each way in which the rows, `table`, are otherwise than the measurements lead to.

    Not of earlier versions' models, nor of a month of a series, which follows former months too (`rows_unseen`). Of
    strata that were measured one by one their sizes alone: models of all of them take too long.
    """
    evidence, rows = release.evidence, len(table)
    strata = evidence.strata
    place = strata.index(table.select(strata.columns)) if strata.columns else np.zeros(rows, dtype=np.intp)
    sizes = np.bincount(place, minlength=len(strata.keys)).astype(float)
    if rows_unseen(release):
        if _measured_apart(release):
            total = sum(max(total_estimate(found)[0], 0.0) for found in evidence.measured.values())
            yield from _sizes(release, sizes, noisy_weights(strata, evidence.measured), total)
        return
    model = people_of_rows(evidence.model)
    yield from _sizes(release, sizes, model.weights, model.total)
    if not rows:
        return
    if strata.columns:
        # As the rows have them, to the last one: those of public weights are known from nothing else.
        weights = PublicWeights.from_counts(dict(zip(strata.keys, sizes, strict=True)), strata, "rows")
        model = replace(model, weights=weights)
    if release.card.get("raked"):
        try:
            means = release.private_means or {}
            public = release.public_weights_source is not None and not release.card["config"].get("combine_weights")
            model, _ = raked(model, known_means(release.schema, strata, means, public))
        except (AttributeError, KeyError, TypeError, ValueError, InputError):  # which is said elsewhere
            return
    far = _far_columns(release, model, table, place, sizes)
    yield from far.values()
    yield from _far_pairs(release, model, table, far)


def _measured_apart(release: Release) -> bool:
    """Whether each stratum was measured by itself, where sizes are as they are made again here."""
    evidence = release.evidence
    usual = "format" in release.card and not release.card.get("series") and not evidence.strata.schema.weighed
    return usual and release.schema.expanded_by is None and set(evidence.measured) != {()}


def _sizes(release: Release, sizes: Floats, weights: PublicWeights, total: float) -> Iterator[str]:
    """How many rows there are, and of each stratum, unless its weight is public."""
    asked, rows = release.card["config"].get("rows"), round(float(sizes.sum()))
    expected = round(total / (1 - release.evidence.held_out)) if asked is None else asked
    if release.controls is not None:  # each cell with people has a row
        expected = max(expected, int((release.controls.totals > 0).sum()))
    if abs(rows - expected) > 1 + COUNTED * expected:
        yield f"there are {rows:,} rows, but the measurements lead to {expected:,}"
    if release.strata.columns and release.public_weights_source is None and rows:
        own = weights.allocate(rows)
        moved = 0.5 * np.abs(sizes - [own[key] for key in release.strata.keys]).sum()
        if moved > COUNTED * rows + len(own) + _replaced(release):
            yield "the strata have other shares of the rows than the measurements lead to"


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
            faults[name] = f"the rows have other shares of {name!r} than the measurements lead to"
        elif _far(found, expected, *OF_PAIRS, changed=changed):
            faults[name] = f"the rows of strata have other shares of {name!r} than the measurements lead to"
    return faults


def _compared(release: Release) -> list[str]:
    """The columns within strata whose released values are as they were drawn: weights that meet totals are not."""
    apart = {*release.strata.columns, *([] if release.controls is None else [release.schema.survey_weight])}
    return [name for name in release.evidence.names if name not in apart]


def _far_pairs(release: Release, model: StratifiedModel, table: CodedTable, far: Container[str]) -> Iterator[str]:
    """Of the pairs that were measured together, those that no stratum's column is in, nor one that is far itself."""
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
            yield f"the rows have another relation of {pair[0]!r} and {pair[1]!r} than the measurements lead to"


def _changed(release: Release, names: Sequence[str], exchanged: bool) -> int:
    """How many rows' values of these columns may differ from those drawn, since rules compare columns, by the card."""
    said = release.card.get("rules") or {}
    compared = {name for order in release.schema.ordered for name in (order.lower, order.upper)}
    kinds = ["replaced"]
    if not compared.isdisjoint(names):
        kinds += ["moved", *["exchanged"] * exchanged]
    return int(sum(said.get(kind, 0) for kind in kinds)) + _replaced(release)


def _replaced(release: Release) -> int:
    """How many rows were replaced so that each cell of control totals has one, by the card."""
    return int((release.card.get("controls") or {}).get("replaced", 0))


def _far(found: Floats, expected: Floats, times: float = SAMPLED, apart: float = APART, changed: int = 0) -> bool:
    """Whether counts differ by more than sampling makes likely, a row a cell, a share of all of them, and the rows that
    were changed."""
    rows = found.sum()
    sampled = 0.5 * np.sqrt(np.maximum(expected * (1 - expected / rows), 0.0)).sum() / rows
    return bool(0.5 * np.abs(found - expected).sum() / rows > times * sampled + apart + (found.size + changed) / rows)


def rows_unseen(release: Release) -> bool:
    """Whether the rows cannot be compared with a model of the measurements that is made again here."""
    if release.schema.expanded_by is None:
        seen = bool(release.card.get("served"))
    else:  # rows of control totals are drawn by cell
        seen = release.controls is None and set(release.evidence.measured) == {()}
    return not seen or served_earlier(release) or bool(release.card.get("series"))
