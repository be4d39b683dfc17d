"""The private means that a release's rows are raked to, by `means.json`; see `equistrata.synth.strata.raking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from equistrata.data.columns.column import OWN_CATEGORY
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.strata.raking import KnownMean


def known_means(schema: Schema, strata: Strata, means: Mapping[str, Any], public: bool = False) -> list[KnownMean]:
    """What rows are raked to: the means of columns that release numbers, by strata where they were estimated by them.

    Not of columns with declared bins: where numbers are within these is not measured, so a mean may be off though all
    bins have the rows that they should have. Nor where an absent cell counts as a number, which a private mean leaves
    out.

    With public weights a mean that was not estimated by strata is of other shares of them than the rows have, and left
    out. So are means by a sigma that was seen to be too small, since they are off by more than their intervals say.

    Args:
        means: `means.json`.
        public: whether the rows have strata by public weights.
    """
    found: list[KnownMean] = []
    for name, estimates in means["outcomes"].items():
        if name in schema.names and name not in strata.columns and has_own_numbers(schema[name]) and schema[name].fine:
            chosen = next((each for each in estimates.values() if "strata" in each), next(iter(estimates.values())))
            if chosen.get("sigma", {}).get("too_small"):
                continue
            found += known_of(name, strata, chosen, public)
    return [each for each in found if _told(each, schema[each.column])]


def has_own_numbers(column: Column) -> bool:
    """Whether rows have numbers of the column's own unit, and absent cells are none of them, as in a private mean."""
    beside = (None, OWN_CATEGORY, *(raw for raw, _ in column.codes))
    return _draws(column) and column.missing in beside


def known_of(name: str, strata: Strata, estimate: Mapping[str, Any], public: bool) -> Iterator[KnownMean]:
    """A mean over all rows, and those of the strata that there are. With public weights, of means by strata alone."""
    labels, own = {strata.label(key): key for key in strata.keys}, estimate.get("strata", {})
    if not public or not strata.columns or own:
        yield KnownMean(name, None, *(estimate[end] for end in ("value", "lower", "upper")))
    for label, each in own.items():
        if label in labels:
            yield KnownMean(name, labels[label], *(each[end] for end in ("value", "lower", "upper")))


def _told(mean: KnownMean, column: Column) -> bool:
    """Whether it says more than was declared: a value in the middle of nothing but noise is no reason to move rows."""
    lower, upper = column.mean_bounds
    return mean.lower > lower or mean.upper < upper


def _draws(column: Column) -> bool:
    """Whether released cells are numbers of the column's own unit."""
    return column.numeric and column.release != "index" and not column.layout
