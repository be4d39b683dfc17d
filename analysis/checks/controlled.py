"""Checks that weights are within their bound, or meet the public control totals of a release."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from equistrata.analysis.release import Release
from equistrata.data.survey.controls import CONTROLS
from equistrata.data.table import CodedTable
from equistrata.data.weights import whole_parts

MET = 1e-6  # relative tolerance


def controls_faults(release: Release, table: CodedTable) -> Iterator[str]:
    """Yield a sentence for each problem of the rows in `table`. An honest release has none."""
    said, asked = release.card.get("controls"), release.card["config"].get("controls")
    if len({said is None, asked is None, not (release.folder / CONTROLS).exists()}) > 1:
        yield f"the card, its settings and the folder do not agree on whether there is a {CONTROLS}"
        return
    weight, controls = release.schema.survey_weight, None if said is None else release.controls
    weights = np.zeros(0) if weight is None else release.rows(labels=False)[weight].to_numpy(dtype=np.float64)
    if said is None or controls is None:
        if weight is not None and (weights > release.schema[weight].bounds[1]).any():
            yield f"a weight {weight!r} of the rows is above its bound in schema.json"
        return
    frame, totals = controls.frame(release.schema), controls.totals.ravel()
    told = said["columns"] == [*frame.columns[:-1]] and said["cells"] == totals.size
    if not told or not math.isclose(said["people"], controls.people, rel_tol=MET):
        yield f"the card states other totals than {CONTROLS}"
    cells = controls.cells_of(table)
    if weight is not None:
        sums = np.bincount(cells, weights, totals.size)
        if not (np.abs(sums - totals) <= MET * totals).all():  # this is also False for NaN
            yield f"the weights {weight!r} of the rows do not meet the totals of {CONTROLS}"
        return
    rows = release.card["config"].get("rows") or round(controls.people)
    if not np.array_equal(np.bincount(cells, minlength=totals.size), whole_parts(totals.tolist(), rows)):
        yield f"the numbers of rows in the cells of {CONTROLS} do not match the numbers of people"
