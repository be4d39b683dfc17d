"""Checks that the published summaries of a release follow from its measurements.

The summaries are `cells.csv` and the expected errors of relations and groups on the card. They are computed again and
compared up to rounding errors, which can differ between machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd

from equistrata.analysis.cells import CELLS, CellEstimates, kept_relations, noisy_cells, relation_errors
from equistrata.analysis.expected import served
from equistrata.analysis.release import Release
from equistrata.data.table import CodedTable
from equistrata.data.texts.manifest import CARD_FORMAT

# The required parts of a card with measurements in the current format. Missing parts would not be checked otherwise.
_PARTS = (
    "unit", "groups", "columns", "called", "relations", "open", "report", "series", "raked", "wide_bins",
)  # fmt: skip


def companion_faults(release: Release) -> Iterator[str]:
    """Check `cells.csv`, the expected errors of relations, and the expected errors of groups.

    Cards in an earlier format are not checked, because they used other formulas. In this case, `unchecked_properties`
    reports it.
    """
    if earlier_format(release.card.get("format")):
        return
    solved, path = CellEstimates.of(release.evidence), release.folder / CELLS
    said = (release.card.get("relations") or {}).get("expected")
    if path.exists() and not _same_cells(pd.read_csv(path, dtype=str), noisy_cells(release.evidence, solved=solved)):
        yield f"{CELLS} does not follow from the measurements"
    if said is not None and not _same_errors(said, relation_errors(release.evidence, solved)):
        yield "the expected errors of relations on the card do not follow from the measurements"
    said = release.card.get("served")
    if said is not None and not _same_group_errors(said, served(release.evidence)):
        yield "the expected errors of groups on the card do not follow from the measurements"


def kept_relation_faults(release: Release, table: CodedTable) -> Iterator[str]:
    """Check that the relations which the card calls kept follow from the measurements and the rows in `table`.

    Cards that were made before 2026-11-27 list all measured relations instead.
    """
    said = release.card.get("relations") or {}
    if "kept" in said and said["kept"] != [list(pair) for pair in kept_relations(release.evidence, table)]:
        yield "the relations that the card lists as kept do not follow from the measurements and the rows"


def missing_part_faults(release: Release) -> Iterator[str]:
    """Check that no required part of the card is missing.

    Cards in an earlier format are not checked, and `unchecked_properties` reports that parts may be missing. If the
    format of a card was changed to an earlier one, the card cannot be distinguished from a card of an earlier version.
    """
    said = release.card.get("format")
    if earlier_format(said) or (isinstance(said, int) and said > CARD_FORMAT):
        return
    if said != CARD_FORMAT or isinstance(said, bool):
        yield "the card has a format that no release writes"
        return
    card, lacking = release.card, [name for name in _PARTS if name not in release.card]
    if not isinstance((card.get("relations") or {}).get("expected"), list):
        lacking.append("errors of relations")
    shared = set(release.evidence.measured) == {()}
    shared = shared and release.schema.expanded_by is None
    if not isinstance(card.get("served"), dict) and (shared or card.get("served") is not None):
        lacking.append("expected errors of groups")
    if (release.folder / "means.json").exists() and "means_apart" not in card:
        lacking.append("means next to the means of the rows")
    if release.schema.ordered and not card.get("rules"):
        lacking.append("the effect of its rules")
    if lacking:
        yield f"the card lacks parts that each card of its format has: {', '.join(lacking)}"
    if not (release.folder / CELLS).exists():
        yield f"{CELLS} is missing, although each release with this card format has it"


def earlier_format(said: Any) -> bool:
    """Return True if the format of a card is that of an earlier version. The first versions did not write a format."""
    return said is None or (isinstance(said, int) and not isinstance(said, bool) and 1 <= said < CARD_FORMAT)


def has_earlier_group_errors(release: Release) -> bool:
    """Return True if the card was made by a version with another model of groups."""
    return release.card.get("served") is not None and earlier_format(release.card.get("format"))


def _same_group_errors(said: Any, own: dict[str, Any]) -> bool:
    """Return True if the expected errors of groups on a card equal the computed ones.

    A tolerance allows for differences between machines.
    """
    try:
        pairs = list(zip(said["groups"], own["groups"], strict=True))
        numbers = [(said[name], own[name]) for name in ("parity_distance", "distance", "counted", "covered")]
        numbers += [(one[name], other[name]) for one, other in pairs for name in ("distance", "covered")]
        numbers += [(one["rows"] + 10.0, other["rows"] + 10.0) for one, other in pairs]
        ends = [(one[name], other[name]) for one, other in pairs for name in ("lower", "upper") if name in one]
        numbers += [(one + 10.0, other + 10.0) for one, other in ends if one is not None and other is not None]
        alike = all((one is None) == (other is None) for one, other in ends)
        alike = alike and all(one[name] == other[name] for one, other in pairs for name in ("label", "words"))
        return alike and all(math.isclose(one, other, rel_tol=0.05, abs_tol=1e-6) for one, other in numbers)
    except (KeyError, TypeError, ValueError):
        return False


def _same_cells(found: pd.DataFrame, made: pd.DataFrame) -> bool:
    own = pd.read_csv(StringIO(made.to_csv(index=False)), dtype=str)
    numbers = ["estimate", "lower", "upper"]
    same = list(found.columns) == list(own.columns) and len(found) == len(own)
    for name in own.columns if same else ():
        if name in numbers:  # the last digit may be rounded differently on another machine
            same = same and np.allclose(found[name].astype(float), own[name].astype(float), rtol=1e-6, atol=0.11)
        elif name != "noise":
            same = same and found[name].equals(own[name])
    return bool(same and _same_flags(found, own))


def _same_flags(found: pd.DataFrame, own: pd.DataFrame) -> bool:
    """Return True if the same cells are marked as noise, except for cells that are close to the limit."""
    estimate, lower, upper = (own[name].astype(float) for name in ("estimate", "lower", "upper"))
    far = (upper - estimate).where(lower <= 0, estimate - lower)
    edge = ((estimate - far).abs() <= 0.2 + 0.01 * far) | ((2 * far - estimate).abs() <= 0.5)
    flags = [each["noise"].map({"True": True, "False": False}) for each in (found, own)]
    return bool(((flags[0] == flags[1]) | (edge & flags[0].notna())).all())


def _same_errors(said: Any, own: list[dict[str, Any]]) -> bool:
    """Return True if the errors of relations on a card equal the computed ones up to rounding errors.

    Missing errors on the card are ignored, because earlier versions left out the errors of numeric columns with bounds.
    """
    try:
        pairs = list(zip(said, own, strict=True))
        errors = [(one["error"], two["error"]) for one, two in pairs if one["error"] is not None]
        return all(list(one["columns"]) == two["columns"] for one, two in pairs) and all(
            other is not None and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) for one, other in errors
        )
    except (KeyError, TypeError, ValueError):
        return False
