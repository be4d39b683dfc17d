"""Coded tables: the only form in which private rows are worked on.

>>> import pandas as pd
>>> schema = Schema.load("acs_employment").select(["AGEP", "MIL", "ESR"])
>>> table = CodedTable.encode(pd.DataFrame({"AGEP": [19, 20, 95], "MIL": [None, 4, 2], "ESR": [None, 1, 6]}), schema)
>>> table.codes.tolist()
[[0, 0, 0], [1, 4, 1], [4, 2, 0]]
>>> table.marginal(["ESR"]).tolist()
[2, 1]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns import dates
from equistrata.data.columns.column import OWN_CATEGORY, number_in, plain_text
from equistrata.data.columns.drawn import decimals_between, round_numbers
from equistrata.data.columns.grid import digits_of
from equistrata.data.columns.nesting import joined
from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError

Codes = npt.NDArray[np.unsignedinteger]
Encoded = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int | None]  # codes, which are absent, and their code

# Rows that are counted at a time: a few columns of them stay in a processor's cache, and a table that lies in a mapped
# file is never in memory as a whole.
CHUNK_ROWS = 1 << 16
NONE_ROUNDED: Mapping[str, Floats] = MappingProxyType({})
_MOST_NUMBERED = 2**62  # combinations of codes
_TRUTH = {text: truth for truth in (True, False) for text in (str(truth), str(truth).lower(), str(truth).upper())}


@dataclass(frozen=True, eq=False)
class CodedTable:
    """n rows by d columns of codes: `codes[i, j]` in [0, schema.row_sizes[j]).

    The constructor makes no copy and marks the array read-only only through this view, so the caller's array stays
    as it was. The array may be a mapped file, larger than memory: checks and counts go through it in chunks.
    """

    codes: Codes
    schema: Schema

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.schema.columns):
            raise InputError(f"codes need shape (n, {len(self.schema.columns)}), not {self.codes.shape}")
        for name, size, codes in zip(self.schema.names, self.schema.row_sizes, self.codes.T, strict=True):
            if codes.size and (codes.max() >= size or (codes.dtype.kind != "u" and codes.min() < 0)):
                raise InputError(f"column {name!r} holds a code outside its declared size")
        view = self.codes.view()
        view.flags.writeable = False
        object.__setattr__(self, "codes", view)

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def column(self, name: str) -> Codes:
        """The codes of one column, shape (n,)."""
        return self.codes[:, self.schema.index(name)]

    def select(self, names: Sequence[str]) -> CodedTable:
        """These columns only, in this order."""
        return CodedTable(self.codes[:, [self.schema.index(name) for name in names]], self.schema.select(names))

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> CodedTable:
        """These rows only."""
        return CodedTable(self.codes[rows], self.schema)

    def index_of(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """For each row, the flat (row-major) index of its cell in the marginal over `names`, shape (n,)."""
        return _cells(self.codes, *self._places(names), np.int64).astype(np.int64, copy=False)

    def marginal(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Exact counts over `names`, one axis each. Private: only a noise source may see them.

        Sensitivity: adding or removing a row changes one cell by one, so 1 in every Lp norm.
        """
        places, sizes = self._places(names)
        cells = int(np.prod(sizes, dtype=np.int64))
        counts = np.zeros(cells, dtype=np.int64)
        small = np.min_scalar_type(cells).type  # narrow numbers are added many at a time
        rows = max(CHUNK_ROWS, cells)
        for start in range(0, len(self), rows):
            counts += np.bincount(_cells(self.codes[start : start + rows], places, sizes, small), minlength=cells)
        return counts.reshape(sizes)

    def distinct(self) -> tuple[CodedTable, npt.NDArray[np.int64]]:
        """The distinct rows, in lexicographic order, and how often each occurs: all that any marginal depends on.

        Private. Where the combinations of codes are too many to be numbered: all rows, once each.
        """
        places, sizes = self._places(self.schema.names)
        combinations = math.prod(sizes)
        if combinations > _MOST_NUMBERED:
            return self, np.ones(len(self), dtype=np.int64)
        cells = counts = np.zeros(0, dtype=np.int64)
        if combinations <= max(CHUNK_ROWS, len(self)):
            dense = self.marginal(self.schema.names).ravel()
            cells = np.flatnonzero(dense)
            counts = dense[cells]
        else:
            done = 0
            while done < len(self):
                chunk = self.codes[done : done + max(CHUNK_ROWS, len(cells))]  # as many as are sorted again with them
                done += len(chunk)
                found, often = np.unique(_cells(chunk, places, sizes, np.int64), return_counts=True)
                cells, back = np.unique(np.concatenate([cells, found]), return_inverse=True)
                counts = np.bincount(back, np.concatenate([counts, often])).astype(np.int64)  # exact below 2^53
        rows = np.empty((len(cells), len(sizes)), dtype=code_dtype(self.schema), order="F")
        for place, codes in enumerate(np.unravel_index(cells, sizes)):
            rows[:, place] = codes
        return CodedTable(rows, self.schema), counts

    def _places(self, names: Sequence[str]) -> tuple[list[int], list[int]]:
        places = [self.schema.index(name) for name in names]
        return places, [self.schema.row_sizes[place] for place in places]

    @classmethod
    def encode(cls, frame: pd.DataFrame, schema: Schema) -> CodedTable:
        """Code the rows of a data frame by the schema's declaration alone.

        Raises InputError if a column is absent, holds something undeclared, out of bounds or with decimals where draws
        are whole numbers, lacks a value where none may be missing, or holds a combination that the schema declares
        impossible. No row's value is quoted.
        """
        codes = np.empty((len(frame), len(schema.columns)), dtype=code_dtype(schema), order="F")
        for j, column in enumerate(schema.columns):
            for name in column.cells:
                if name not in frame.columns:
                    raise InputError(f"column {name!r} of schema {schema.name!r} is not in the table; add it")
            encode = _encode_numeric if column.numeric else _encode_values
            found, absent, missing = encode(cells_of(frame, column), column)
            if missing is not None:
                found[absent] = missing
            elif absent.any():
                raise InputError(
                    f"column {column.name!r} has missing cells, but the schema does not say what missing means; "
                    "declare it"
                )
            codes[:, j] = found
        table = cls(codes, schema)
        for zero in schema.impossible:
            if schema.zero_mask(zero).ravel()[table.index_of(zero.columns)].any():
                raise InputError(
                    f"the table holds a combination of {', '.join(zero.columns)} that schema {schema.name!r} declares "
                    "impossible; clean those rows or correct the schema"
                )
        return table

    def decode(self, rng: np.random.Generator, rounded: Mapping[str, Floats] = NONE_ROUNDED) -> pd.DataFrame:
        """The rows as released values. `rng` draws values from bins that are released as draws.

        Args:
            rounded: columns → for each bin, the part of its rows that has the bin's number of two digits
                (`equistrata.data.columns.drawn.round_numbers`), shape (bins,).
        """
        columns = zip(self.schema.columns, self.codes.T, strict=True)
        return pd.DataFrame(
            {column.name: _decode(codes, column, rng, rounded.get(column.name)) for column, codes in columns},
            copy=False,
        )

    @classmethod
    def concatenate(cls, tables: Sequence[CodedTable]) -> CodedTable:
        """The rows of several tables of one schema, one after the other."""
        return cls(np.concatenate([table.codes for table in tables]), tables[0].schema)


def _cells(
    codes: Codes, places: Sequence[int], sizes: Sequence[int], dtype: type[np.integer[Any]]
) -> npt.NDArray[np.integer[Any]]:
    """For each row, the flat (row-major) index of its cell over some columns, in a type that holds every index."""
    flat = codes[:, places[0]].astype(dtype) if places else np.zeros(len(codes), dtype=dtype)
    for place, size in zip(places[1:], sizes[1:], strict=True):
        flat *= dtype(size)
        flat += codes[:, place].astype(dtype, copy=False)
    return flat


def code_dtype(schema: Schema) -> type[np.unsignedinteger]:
    """The smallest unsigned type that holds every code of a schema."""
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16 if max(schema.sizes) <= 65536 else np.uint32


def cells_of(frame: pd.DataFrame, column: Column) -> pd.Series:
    """A column's raw cells; of one within others, what names the pairs (`equistrata.data.columns.nesting`)."""
    return (
        frame[column.name] if len(column.cells) == 1 else joined([frame[name] for name in column.cells], column.parts)
    )


def _encode_values(series: pd.Series, column: Column) -> Encoded:
    codes, absent = value_codes(series, column)
    if (codes < 0).any():
        texts = [text if (text := str(value)).isprintable() else repr(text) for value in column.values[:12]]
        shown = [*texts, *["…"] * (len(column.values) > 12)]
        raise InputError(
            f"column {column.name!r} holds a value that the schema does not declare (declared: "
            f"{', '.join(shown)}); declare it or recode it"
        )
    return codes, absent, None if column.missing is None else column.values.index(column.missing)


def value_codes(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The code of each raw cell of a categorical column, -1 where its value is not declared; and where it is absent."""
    declared = {_key(value, column): code for code, value in enumerate(column.values)}
    recoded = {_key(raw, column): column.values.index(to) for raw, to in column.recode}
    # With "recode" and "others", only what "recode" lists keeps its meaning.
    declared = recoded if column.others is not None and recoded else declared | recoded
    other = -1 if column.others is None else column.values.index(column.others)
    try:
        places, distinct = pd.factorize(series)
        lookup = np.array([*(_code(value, declared, other, column) for value in distinct), 0], dtype=np.int64)
    except TypeError:  # a list or a mapping in a cell
        places, lookup = np.zeros(len(series), dtype=np.intp), np.array([-1])
    return lookup[places], places < 0


def _code(value: object, declared: Mapping[float | str, int], other: int, column: Column) -> int:
    """The code of one raw value. A text that is not declared counts as what it reads as, so that a cell of a text file
    means the same whatever stands in the other cells of its column, as it must where one row may be added."""
    code = declared.get(_key(value, column))
    if code is None and isinstance(value, str):
        code = declared.get(_key(_read(value), column))
    return other if code is None else code


def _read(text: str) -> float | bool | str:
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def _key(value: object, column: Column) -> float | str:
    """What raw and declared values are compared by: as numbers where the declared ones are, else as text."""
    if isinstance(column.values[0], str):
        return plain_text(value)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


def _encode_numeric(series: pd.Series, column: Column) -> Encoded:
    values, absent, own = _bounded(series, column)
    codes = np.searchsorted(column.cuts[1:-1], values, side="left").astype(np.int64)
    codes[own >= 0] = column.bins + own[own >= 0]
    return codes, absent & (own < 0), _missing_code(column)


def _missing_code(column: Column) -> int | None:
    """The code of an absent cell of a numeric column."""
    raw = [raw for raw, _ in column.codes]
    if column.missing is None:
        return None
    if column.missing == OWN_CATEGORY or column.missing in raw:
        return column.bins + [*raw, OWN_CATEGORY].index(column.missing)
    return int(np.searchsorted(column.cuts[1:-1], float(column.missing), side="left"))


def bounded_numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """As `numbers`. Raises InputError on one outside the declared bounds, or with decimals if draws are whole, too."""
    return _bounded(series, column)[:2]


def _bounded(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    values, absent, own = _numbers(series, column)
    inside, (lower, upper) = values[~absent], column.bounds
    if inside.size and (inside.min() < lower or inside.max() > upper):
        raise InputError(
            f"column {column.name!r} holds a {'date' if column.layout else 'number'} outside its declared bounds "
            f"[{column.shown(lower)}, {column.shown(upper)}]; "
            "widen the bounds in the schema or clean the rows"
        )
    if column.whole and (inside % 1 != 0).any():
        raise InputError(
            f"column {column.name!r} holds a number with decimals, but the schema says 'integer: true'; leave that "
            "out, or clean the rows"
        )
    return values, absent, own


def numbers(series: pd.Series, column: Column) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """A column's raw numbers, and where they are absent: no cell, or one of the column's codes, which are no numbers.

    Raises InputError on anything that is not a number.
    """
    return _numbers(series, column)[:2]


def _numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    values, absent, own = read_numbers(series, column)
    if not np.isfinite(values[~absent]).all():
        declared = f"as dates in the format {column.layout!r}" if column.layout else "numeric"
        kind = "not one" if column.layout else "not a number"
        raise InputError(f"column {column.name!r} is declared {declared} but holds something that is {kind}")
    return values, absent, own


def read_numbers(
    series: pd.Series, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """What each raw cell of a numeric column holds, whether it fits or not.

    Returns its number, NaN or infinite where it holds something else, shape (n,); where there is no number because the
    cell is absent or one of the column's codes; and the place of that code, -1 for none.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):  # as text files are read: every distinct text is converted once
        places, distinct = pd.factorize(series)
        values, absent, own = read_numbers(pd.Series(np.asarray(distinct)), column)
        return np.append(values, np.nan)[places], np.append(absent, True)[places], np.append(own, -1)[places]
    if column.layout:
        beside = {plain_text(raw): place for place, (raw, _) in enumerate(column.codes)}
        own = np.array([beside.get(plain_text(cell), -1) for cell in series], dtype=np.int64)
        values = dates.days_in(series, column.layout, *column.also)
        return np.where(own < 0, values, np.nan), series.isna().to_numpy() | (own >= 0), own
    values = pd.to_numeric(series, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    own = np.full(len(series), -1, dtype=np.int64)
    for place, (raw, _) in enumerate(column.codes):
        number = number_in(raw)
        if number is not None:
            own[values == number] = place
        elif not pd.api.types.is_numeric_dtype(series.dtype):
            own[[isinstance(cell, str) and cell == raw for cell in series]] = place
    return np.where(own < 0, values, np.nan), series.isna().to_numpy() | (own >= 0), own


def _decode(
    codes: Codes, column: Column, rng: np.random.Generator, rounded: Floats | None = None
) -> npt.NDArray[np.generic] | pd.Series:
    if not column.numeric:
        values = np.array(column.values, dtype=object if isinstance(column.values[0], str) else None)
        decoded: npt.NDArray[np.generic] = values[codes]
        return decoded
    own = codes == column.bins + len(column.codes)
    if column.codes:
        return _decode_beside(codes, column, rng, rounded)
    if column.release == "index":
        return codes.astype(np.int64) if not own.any() else pd.Series(codes.astype("int64")).mask(own).astype("Int64")
    edges = np.array(column.cuts)
    bins = np.minimum(codes, column.bins - 1)
    low, high = edges[bins], edges[bins + 1]
    if column.lower is not None and column.upper is not None:
        low, high = np.maximum(low, column.lower), np.minimum(high, column.upper)
    least, most = np.where(bins == 0, low, np.nextafter(low, np.inf)), high  # open on the left, as the bin is
    if column.integer:
        whole = np.ceil(least) <= np.floor(high)
        least, most = np.where(whole, np.ceil(least), least), np.where(whole, np.floor(high), high)
    if column.release == "midpoint":
        drawn = np.clip((low + high) / 2, least, most)
    elif column.integer:
        drawn = rng.integers(least.astype(np.int64), most.astype(np.int64), endpoint=True)
    else:
        drawn = _real_draws(least, most, _digits(column), rng)
    if rounded is not None:
        numbers = round_numbers(column)[0].astype(drawn.dtype)
        drawn = np.where(rng.random(len(codes)) < rounded[bins], numbers[bins], drawn)
    if column.layout:
        texts = dates.written(drawn.astype(np.int64), dates.released_layout(column.layout))
        return pd.Series(texts, dtype="string").mask(own)
    if not own.any():
        return np.asarray(drawn)
    series = pd.Series(drawn).mask(own)
    return series.astype("Int64") if column.integer and column.release == "draw" else series


def _real_draws(least: Floats, most: Floats, digits: int, rng: np.random.Generator) -> Floats:
    """Numbers of so many decimals between `least` and `most`, all alike in probability.

    Bins near zero may be too narrow for one of them; then numbers of two more decimals, or as many as fit.
    """
    share = rng.random(len(least))
    drawn = least + (most - least) * share
    for places in (min(digits + 2, 15), digits):
        step, (first, last) = 10.0**-places, decimals_between(least, most, places)
        steps = np.floor(share * np.round((last - first) / step + 1))
        drawn = np.where(first <= last, np.round(first + step * steps, places), drawn)
    return np.clip(drawn, least, most) + 0.0  # no negative zero


def _digits(column: Column) -> int:
    """How many decimals drawn numbers have: as declared, or so many that the narrowest of declared bins has a hundred
    numbers, or of fine ones a thousandth of the range."""
    if column.decimals is not None:
        return column.decimals
    if column.fine:
        return min(digits_of(*column.bounds), 15)
    widths = np.diff(column.edges)
    narrowest = float(widths[widths > 1e-12 * widths.sum()].min())  # a rule may have cut a single number off
    return min(max(2 - math.floor(math.log10(narrowest)), 0), 15)


def _decode_beside(codes: Codes, column: Column, rng: np.random.Generator, rounded: Floats | None = None) -> pd.Series:
    """The released cells of a column with codes beside its bins; their type follows from the declaration alone.

    Text if one of the codes is, else whole numbers if all are and bins release whole ones, else real numbers.
    """
    plain = replace(column, codes=(), missing=None)
    drawn = np.asarray(_decode(np.minimum(codes, column.bins - 1), plain, rng, rounded))
    beside = np.maximum(codes.astype(np.int64) - column.bins, -1)  # -1: a bin
    raw = [raw for raw, _ in column.codes]
    absent = beside == len(raw)
    if column.layout or any(isinstance(each, str) for each in raw):
        texts = np.array([*map(plain_text, raw), "", ""], dtype=object)
        return pd.Series(np.where(beside < 0, drawn.astype(str), texts[beside]), dtype="string").mask(absent)
    whole = drawn.dtype.kind == "i" and all(float(each).is_integer() for each in raw)
    held = np.array([*raw, 0, 0], dtype=np.int64 if whole else np.float64)
    series = pd.Series(np.where(beside < 0, drawn, held[beside])).mask(absent)
    return series.astype("Int64") if whole else series
