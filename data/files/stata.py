"""Rows of a Stata file, a batch at a time: codes or their labels, missing values and dates as a schema declares them.

A cell is the file's code, or its value label where a column declares one of its labels. Missing values (., .a to .z)
are absent, except for those that are declared by name (".a"). Dates are read by their display format. Labels, names and
formats are the file's documentation; nothing of them is taken from rows.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "people.dta"
...     pd.DataFrame({"SEX": [1, 2]}).to_stata(path, write_index=False, value_labels={"SEX": {1: "m", 2: "f"}})
...     by_code = [*batches(path, ["SEX"], (Column("SEX", values=(1, 2)),))][0]
...     by_label = [*batches(path, ["SEX"], (Column("SEX", values=("f", "m")),))][0]
>>> by_code["SEX"].tolist(), by_label["SEX"].tolist()
([1, 2], ['m', 'f'])
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Column, Value
from equistrata.data.files.labelled import Described, declared_cells, is_labelled, texts_or_absent, with_labels
from equistrata.errors import InputError

MISSING = 2_147_483_620  # value labels of missing values are of numbers above it, which stand for . and .a to .z
_NAMED = frozenset(f".{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
_LISTS = ("_lbllist", "_fmtlist")  # of names of value labels, and of display formats, in pandas' reader
_LEAP_SECONDS = "%tC"
_OF_DATES = ("%td", "%d", "%tc", "%tw", "%tm", "%tq", "%th")  # years (%ty) are numbers
_BROKEN = (ValueError, OSError, LookupError, ArithmeticError, MemoryError, RuntimeWarning, struct.error)


def described(path: Path, where: str) -> dict[str, Described]:
    """What a file says of its columns, in order; no row is read. Raises InputError if it cannot be read.

    Args:
        where: begins the sentence, as "file 'people.dta'".
    """
    with _readable(where), pd.read_stata(path, iterator=True) as reader:
        labels, lists = reader.variable_labels(), reader.value_labels()
        named, forms = (dict(zip(labels, getattr(reader, each, []), strict=False)) for each in _LISTS)
        found = {}
        for name, label in labels.items():
            listed = lists.get(named.get(name) or name, {})
            codes = {raw: words for raw, words in listed.items() if raw <= MISSING}
            missing = {_name_of(raw): words for raw, words in listed.items() if raw > MISSING}
            form = forms.get(name, "")
            dated = form.replace("-", "").startswith(_OF_DATES)
            found[name] = Described(label, codes, missing, form, dated=dated)
    return found


def _name_of(raw: float) -> str:
    """The name of a missing value."""
    place = int(raw) - MISSING - 1
    return "." + (chr(ord("a") + place - 1) if place else "")


def batches(
    path: Path, columns: Sequence[str], declared: Sequence[Column] = (), rows: int = 1 << 18
) -> Iterator[pd.DataFrame]:
    """Frames of so many rows of these columns. Raises InputError if the file cannot be read.

    Args:
        declared: how a schema declares them. Of a column that it does not, dates are ISO texts, and others codes.
        rows: at a time.
    """
    where, wanted = f"file {path.name!r}", declared_cells(declared)
    told, dated = described(path, where), {name for column in declared if column.layout for name in column.cells}
    known = {name for column in declared for name in column.cells}
    of_dates = [name for name in columns if told[name].dated and (name in dated or name not in known)]
    for name in dated.intersection(columns):
        if told[name].form.replace("-", "").startswith(_LEAP_SECONDS):
            raise InputError(
                f"column {name!r} of {where} has the format {_LEAP_SECONDS}, which counts leap seconds; convert it to "
                "days in Stata (generate, dofC) and give it the format %td"
            )
    kept = {name: _kept(told[name], wanted.get(name, frozenset())) for name in columns}
    plain = [name for name in columns if name not in of_dates]
    named = [name for name in columns if kept[name]]
    ways: list[tuple[list[str], dict[str, bool]]] = [
        (plain, {}),
        (of_dates, {"convert_dates": True}),
        (named, {"convert_missing": True}),
    ]
    parts = [_frames(path, each, rows, **how) for each, how in ways if each]
    while True:
        with _readable(where):  # each step by itself: a consumer's errors are none of the file's
            there = [frame for frame in [next(part, None) for part in parts] if frame is not None]
            if not there:
                return
            missing = there.pop() if named else None
            cells, made = {name: frame[name] for frame in there for name in frame.columns}, {}
            for name in columns:
                made[name] = _cells(cells[name], told[name], wanted.get(name, frozenset()), name in known or not known)
                if name in of_dates and name not in known:
                    made[name] = _texts_of_days(made[name], told[name])
                if missing is not None and kept[name]:
                    made[name] = _with_names(made[name], missing[name], kept[name])
            found = pd.DataFrame(made)
        yield found


def _frames(path: Path, columns: Sequence[str], rows: int, **how: bool) -> Iterator[pd.DataFrame]:
    usual: Any = {"convert_categoricals": False, "convert_dates": False, "convert_missing": False} | how
    with pd.read_stata(path, columns=[*columns], chunksize=rows, **usual) as reader:
        yield from reader


def _kept(told: Described, wanted: frozenset[Value]) -> dict[str, str]:
    """The missing values that a schema declares, by name or, where it means labels, by label: name → cell."""
    by_name = {name: name for name in _NAMED if name in wanted}
    by_label = told.missing.items() if is_labelled(told, wanted) else ()
    return by_name | {name: words for name, words in by_label if words in wanted}


def _cells(series: pd.Series, told: Described, wanted: frozenset[Value], printed: bool) -> pd.Series:
    """Cells as they are declared: labels, or codes; empty texts are absent.

    Args:
        printed: a float is the number that is printed, 1.1 rather than 1.10000002384. Not so of a column beside those
            that a schema declares: it may name units, which a float tells apart by seven digits only.
    """
    if is_labelled(told, wanted):
        return with_labels(series, told)
    if series.dtype == np.float32 and printed:
        places, numbers = pd.factorize(series)
        return pd.Series(
            np.array([*(float(str(each)) for each in np.asarray(numbers)), np.nan])[places], index=series.index
        )
    return texts_or_absent(series)


def _with_names(series: pd.Series, missing: pd.Series, kept: Mapping[str, str]) -> pd.Series:
    """Cells with the names, or labels, of those missing values that are kept."""
    if pd.api.types.is_numeric_dtype(missing.dtype):  # none is missing
        return series
    names = [kept.get(getattr(cell, "string", "")) for cell in missing]  # of pandas' StataMissingValue
    there = np.array([name is not None for name in names])
    return series.astype(object).where(~there, np.array(names, dtype=object))


def _texts_of_days(series: pd.Series, told: Described) -> pd.Series:
    """Dates as ISO texts; those with a time of day as they are."""
    if not pd.api.types.is_datetime64_any_dtype(series.dtype) or "c" in told.form[:4]:
        return series
    return pd.Series(series.dt.strftime("%Y-%m-%d").astype(object))


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """What pandas raises inside becomes a sentence; its own may quote a cell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", UnicodeWarning)  # labels of old files are read as Latin-1
            warnings.simplefilter("error", RuntimeWarning)  # impossible sizes in a broken file
            yield
    except InputError:
        raise
    except _BROKEN:
        raise InputError(f"{where} is not a Stata file that can be read; save it again") from None
