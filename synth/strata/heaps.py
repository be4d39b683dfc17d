"""Which part of a bin's rows has its round number: as often as the column's noisy counts say that people round.

A column with bounds alone was counted over all rows in bins around numbers of two digits (33,500 to 34,499), and rows
were drawn anywhere in them, so that hardly one had 34,000, or 35,000. How often rows round is found from the bins' own
noisy counts (`equistrata.stats.heaps`). Post-processing, no cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.columns.column import Column
from equistrata.data.columns.drawn import drawn_ends, round_numbers
from equistrata.data.schema import Schema
from equistrata.stats.heaps import Rounding, rounding
from equistrata.synth.measurements import Measurement
from equistrata.synth.strata.fitting import StrataMeasurements


def heaps_of(schema: Schema, measured: StrataMeasurements) -> dict[str, Rounding]:
    """Columns of bins around numbers of two digits → how often their rows round, where they are seen to.

    Args:
        measured: of all rows (`()`), or of every stratum; columns that were not measured bin by bin are left out.
    """
    found = {}
    for column in schema.columns:
        if column.fine and column.scale == "rounded":
            numbers, digits = round_numbers(column)
            parts = [_counts(column, own) for own in measured.values()]
            known = [part for part in parts if part is not None]
            if digits.any() and known and len(known) == len(parts):
                low, high = drawn_ends(column)
                counts, variance = sum(each for each, _ in known), sum(each for _, each in known)
                made = rounding(np.asarray(counts), variance**0.5, digits, numbers, high - low + column.integer)
                if made != Rounding():
                    found[column.name] = made
    return found


def rounded_shares(schema: Schema, heaps: dict[str, Rounding]) -> dict[str, Floats]:
    """Of each bin of these columns, the part of its rows with its round number, as `CodedTable.decode` takes it."""
    return {name: made.shares(round_numbers(schema[name])[1]) for name, made in heaps.items() if name in schema.names}


def _counts(column: Column, measurements: Sequence[Measurement]) -> tuple[Floats, float] | None:
    """A column's own counts, bin by bin, and their variance; None if they were not measured."""
    own = [each for each in measurements if type(each) is Measurement and each.columns == (column.name,)]
    own = [each for each in own if each.groups == (None,) and not each.where and 0 < each.sigma < np.inf]
    precision = sum(each.sigma**-2 for each in own)
    if not precision:
        return None
    return np.asarray(sum(each.values[: column.bins] / each.sigma**2 for each in own)) / precision, 1 / precision
