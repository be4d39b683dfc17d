"""The private means to which the rows of a release are raked. See `equistrata.synth.strata.raking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from equistrata.data.columns.column import OWN_CATEGORY
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.strata.raking import KnownMean


def known_means(schema: Schema, strata: Strata, means: Mapping[str, Any], public: bool = False) -> list[KnownMean]:
    """Return the means to which the rows are raked.

    A mean is used if the column releases numbers. If it was estimated by strata, then the means of the strata are used
    as well. The following means are left out:

    - Columns with declared bins. The position of numbers within these bins is not measured, so the mean can be wrong
      even if all bins have the correct number of rows.
    - Columns in which an absent cell counts as a number, because the private mean excludes absent cells.
    - Means that were not estimated by strata if the weights are public. The shares of the strata in such a mean differ
      from their shares in the released rows.
    - Means with a sigma that is known to be too small, because their errors are larger than their intervals suggest.

    Parameters
    ----------
    schema : Schema
        The schema of the release.
    strata : Strata
        The strata of the release.
    means : mapping
        The content of `means.json`.
    public : bool
        True if the strata of the rows have public weights.

    Returns
    -------
    list of KnownMean
        The means.
    """
    found: list[KnownMean] = []
    for name, estimates in means["outcomes"].items():
        if name in schema.names and name not in strata.columns and has_own_numbers(schema[name]) and schema[name].fine:
            chosen = next((each for each in estimates.values() if "strata" in each), next(iter(estimates.values())))
            if chosen.get("sigma", {}).get("too_small"):
                continue
            found += known_means_of_column(name, strata, chosen, public)
    return [each for each in found if _is_informative(each, schema[each.column])]


def has_own_numbers(column: Column) -> bool:
    """Check whether the rows have numbers in the unit of the column.

    Parameters
    ----------
    column : Column
        The column.

    Returns
    -------
    bool
        True if released cells are numbers in the unit of the column, and absent cells are not numbers, as in a private
        mean.
    """
    beside = (None, OWN_CATEGORY, *(raw for raw, _ in column.codes))
    return _draws(column) and column.missing in beside


def known_means_of_column(name: str, strata: Strata, estimate: Mapping[str, Any], public: bool) -> Iterator[KnownMean]:
    """Yield the mean over all rows and the means of the existing strata.

    Parameters
    ----------
    name : str
        The column.
    strata : Strata
        The strata of the release.
    estimate : mapping
        The estimate of the mean in `means.json`.
    public : bool
        True if the weights of the strata are public. If there are strata, the mean over all rows is then only used if
        it was estimated by strata.

    Yields
    ------
    KnownMean
        A mean with the ends of its interval.
    """
    labels, own = {strata.label(key): key for key in strata.keys}, estimate.get("strata", {})
    if not public or not strata.columns or own:
        yield KnownMean(name, None, *(estimate[end] for end in ("value", "lower", "upper")))
    for label, each in own.items():
        if label in labels:
            yield KnownMean(name, labels[label], *(each[end] for end in ("value", "lower", "upper")))


def _is_informative(mean: KnownMean, column: Column) -> bool:
    """Return True if the interval of a mean is narrower than the declared bounds.

    Otherwise, the mean consists only of noise, so rows should not be adjusted to it.
    """
    lower, upper = column.mean_bounds
    return mean.lower > lower or mean.upper < upper


def _draws(column: Column) -> bool:
    """Return True if released cells are numbers in the unit of the column."""
    return column.numeric and column.release != "index" and not column.layout
