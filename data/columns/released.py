"""Conversion of codes to released cells, which are declared values, or numbers and dates that are drawn from bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns import dates
from equistrata.data.columns.column import OWN_CATEGORY, Column, plain_text
from equistrata.data.columns.drawn import decimals_between, digits_of_draws, most_digits

Codes = npt.NDArray[np.unsignedinteger]


def released_column(column: Column) -> Column:
    """Return the column that describes the released cells of a column.

    For example, if the column releases the indices of its bins, the values of the new column are the indices.
    """
    if column.values:
        return replace(column, recode=(), others=None, missing=None, joined=bool(column.within))
    if column.layout:
        return replace(column, layout=dates.released_layout(column.layout), also=())
    if column.release != "index":
        return column
    own = OWN_CATEGORY if column.missing == OWN_CATEGORY else None
    if own or column.codes:  # these categories are released empty or unchanged, so the indices must remain numeric
        edges = tuple(index - 0.5 for index in range(column.bins + 1))
        return replace(column, lower=0.0, upper=float(column.bins - 1), edges=edges, missing=own)
    return replace(
        column, values=tuple(range(column.bins)), edges=(), missing=None, lower=None, upper=None, release="value",
        integer=False,
    )  # fmt: skip


def decoded(
    codes: Codes, column: Column, rng: np.random.Generator, numbers: Floats | None = None
) -> npt.NDArray[np.generic] | pd.Series:
    """Return the released cells of a column of codes.

    Parameters
    ----------
    codes : ndarray of int
        The codes, shape (n,).
    column : Column
        The declared column.
    rng : Generator
        The generator for the values that are drawn from the bins.
    numbers : ndarray of float, optional
        The numbers of the rows, shape (n,), if they were already drawn.

    Returns
    -------
    ndarray or Series
        The released cells, shape (n,).
    """
    if not column.numeric:
        values = np.array(column.values, dtype=object if isinstance(column.values[0], str) else None)
        held: npt.NDArray[np.generic] = values[codes]
        return held
    own = codes == column.bins + len(column.codes)
    if column.codes:
        return _decode_beside(codes, column, rng, numbers)
    if column.release == "index":
        return codes.astype(np.int64) if not own.any() else pd.Series(codes.astype("int64")).mask(own).astype("Int64")
    if numbers is None:
        numbers = _drawn(codes, column, rng)
    if column.layout:
        texts = dates.written(numbers.astype(np.int64), dates.released_layout(column.layout))
        return pd.Series(texts, dtype="string").mask(own)
    if not own.any():
        return np.asarray(numbers)
    series = pd.Series(numbers).mask(own)
    return series.astype("Int64") if column.integer and column.release == "draw" else series


def _drawn(codes: Codes, column: Column, rng: np.random.Generator) -> Floats:
    """Return a number from the bin of each code, or the middle of the bin if the column releases midpoints.

    A code that is not a bin gets a number from the last bin.
    """
    edges = np.array(column.cuts)
    bins = np.minimum(codes, column.bins - 1)
    low, high = edges[bins], edges[bins + 1]
    if column.lower is not None and column.upper is not None:
        low, high = np.maximum(low, column.lower), np.minimum(high, column.upper)
    least, most = np.where(bins == 0, low, np.nextafter(low, np.inf)), high  # the bin is open on the left
    if column.integer:
        whole = np.ceil(least) <= np.floor(high)
        least, most = np.where(whole, np.ceil(least), least), np.where(whole, np.floor(high), high)
    if column.release == "midpoint":
        return np.asarray(np.clip((low + high) / 2, least, most))
    return drawn_between(column, least, most, rng)


def drawn_between(column: Column, least: Floats, most: Floats, rng: np.random.Generator) -> Floats:
    """Draw a number between `least` and `most` for each row, with equal probability and including both ends."""
    if column.integer:  # whole numbers have an integer type
        return np.asarray(rng.integers(least.astype(np.int64), most.astype(np.int64), endpoint=True))
    return _real_draws(least, most, digits_of_draws(column), rng)


def _real_draws(least: Floats, most: Floats, digits: int, rng: np.random.Generator) -> Floats:
    """Draw numbers with `digits` decimals between `least` and `most` with equal probability.

    If a bin near zero is too narrow for these numbers, the draws have two more decimals. If the bin is still too
    narrow, the draws are not rounded.
    """
    share = rng.random(len(least))
    drawn = least + (most - least) * share
    for places in (most_digits(digits), digits):
        step, (first, last) = 10.0**-places, decimals_between(least, most, places)
        steps = np.floor(share * np.round((last - first) / step + 1))
        drawn = np.where(first <= last, np.round(first + step * steps, places), drawn)
    return np.clip(drawn, least, most) + 0.0  # no negative zero


def _decode_beside(codes: Codes, column: Column, rng: np.random.Generator, numbers: Floats | None) -> pd.Series:
    """Return the released cells of a column that has codes in addition to its bins.

    The type of the cells only depends on the declaration. The cells are text if one of the codes is a text. They are
    whole numbers if all codes and all released numbers are whole. Otherwise they are real numbers.
    """
    plain = replace(column, codes=(), missing=None)
    released = np.asarray(decoded(np.minimum(codes, column.bins - 1), plain, rng, numbers))
    beside = np.maximum(codes.astype(np.int64) - column.bins, -1)  # -1 for a bin
    raw = [raw for raw, _ in column.codes]
    absent = beside == len(raw)
    if column.layout or any(isinstance(each, str) for each in raw):
        texts = np.array([*map(plain_text, raw), "", ""], dtype=object)
        return pd.Series(np.where(beside < 0, released.astype(str), texts[beside]), dtype="string").mask(absent)
    whole = released.dtype.kind == "i" and all(float(each).is_integer() for each in raw)
    held = np.array([*raw, 0, 0], dtype=np.int64 if whole else np.float64)
    series = pd.Series(np.where(beside < 0, released, held[beside])).mask(absent)
    return series.astype("Int64") if whole else series


def in_words(cells: pd.Series, column: Column) -> pd.Series:
    """Return released values as pandas categories of their labels, in the declared order."""
    words = [column.words(value) for value in column.values]
    if len(set(words)) < len(words):  # two values have the same label
        words = [f"{value}: {each}" for value, each in zip(column.values, words, strict=True)]
    coded = pd.Categorical(cells, categories=list(column.values), ordered=column.ordered)
    return pd.Series(coded.rename_categories(dict(zip(column.values, words, strict=True))), index=cells.index)
