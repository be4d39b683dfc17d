"""Rows of an SPSS file (.sav, .zsav), a batch at a time, by pyreadstat, which is an extra.

As of Stata's files, a cell is the file's code, or its value label where a column declares one of its labels. Values
that the file calls missing are absent, except for those that are declared, by code or by label. Dates are read by their
format. Labels, formats and missing values are the file's documentation; nothing of them is taken from rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.data.files.labelled import Described, declared_cells, is_labelled, texts_or_absent, with_labels
from equistrata.errors import InputError

_OF_DATES = re.compile(r"(?:DATE|ADATE|EDATE|JDATE|SDATE|QYR|MOYR|WKYR|DATETIME|YMDHMS)\d*(?:\.\d+)?")
_MOST_LISTED = 20  # missing codes of a range that are listed
_EPOCH = np.datetime64("1582-10-14")  # from which SPSS counts seconds
_FIRST, _LAST = -(2.0**62), 2.0**62  # seconds: beyond them are no dates, and no number of numpy's


def described(path: Path, where: str) -> dict[str, Described]:
    """What a file says of its columns, in order; no row is read. Raises InputError if it cannot be read.

    Args:
        where: begins the sentence, as "file 'people.sav'".
    """
    with _reading(where) as read:
        meta = read(path, metadataonly=True, user_missing=True)[1]
    found = {}
    for name in meta.column_names:
        labels = meta.variable_value_labels.get(name, {})
        spans = tuple((span["lo"], span["hi"]) for span in meta.missing_ranges.get(name, ()))
        form = meta.original_variable_types.get(name, "")
        missing = {plain_text(code): words for code, words in labels.items() if _within(code, spans)}
        alone = {plain_text(code): "" for span in spans for code in _listed(*span)}
        found[name] = Described(
            meta.column_names_to_labels.get(name) or "",
            labels,
            alone | missing,
            form,
            spans,
            meta.variable_measure.get(name) == "ordinal",
            bool(_OF_DATES.fullmatch(form)),
            meta.variable_measure.get(name) == "scale",
        )
    return found


def batches(
    path: Path, columns: Sequence[str], declared: Sequence[Column] = (), rows: int = 1 << 18
) -> Iterator[pd.DataFrame]:
    """Frames of so many rows of these columns. Raises InputError if the file cannot be read.

    Args:
        declared: how a schema declares them. Of a column that it does not, dates are ISO texts, and others codes, with
            those that the file calls missing.
        rows: at a time.
    """
    where, wanted = f"file {path.name!r}", declared_cells(declared)
    told, first = described(path, where), 0
    days = {name for column in declared if column.layout for name in column.cells}
    usual: dict[str, Any] = {"usecols": [*columns], "user_missing": True, "disable_datetime_conversion": True}
    while True:
        with _reading(where) as read:
            raw = read(path, row_offset=first, row_limit=rows, **usual)[0]
            made = {}
            for name in columns:
                cells = _there(raw[name], told[name], wanted[name]) if name in wanted else raw[name]
                if told[name].dated and (name in days or name not in wanted):
                    cells = _dates(cells)
                    cells = cells if name in wanted else cells.dt.strftime("%Y-%m-%d").astype(object)
                elif is_labelled(told[name], wanted.get(name, frozenset())):
                    cells = with_labels(cells, told[name])
                made[name] = texts_or_absent(cells)
        if not len(raw):
            return
        yield pd.DataFrame(made)
        first += len(raw)


def _there(series: pd.Series, told: Described, wanted: frozenset[Value]) -> pd.Series:
    """Cells without those that the file calls missing and the schema does not declare."""
    if not told.spans:
        return series
    codes, texts = pd.unique(series.dropna()), {plain_text(each) for each in wanted}
    absent = [
        code
        for code in codes
        if _within(code, told.spans) and plain_text(code) not in texts and told.labels.get(code) not in texts
    ]
    return series.mask(series.isin(absent), None) if absent else series


def _listed(low: float | str, high: float | str) -> list[float | str]:
    """The codes of a range: its only one, or whole numbers where these are few."""
    if low == high or isinstance(low, str) or isinstance(high, str):
        return [low]
    return [float(code) for code in range(ceil(low), floor(high) + 1)] if high - low <= _MOST_LISTED else []


def _within(code: float | str, spans: Sequence[tuple[float | str, float | str]]) -> bool:
    """Whether a code is in one of these ranges; text is never among numbers."""
    alike = [(low, high) for low, high in spans if isinstance(low, str) == isinstance(code, str)]
    return any(low <= code <= high for low, high in alike)  # type: ignore[operator]


def _dates(series: pd.Series) -> pd.Series:
    """Dates of SPSS's seconds."""
    seconds = series.where(series.between(_FIRST, _LAST))
    whole = seconds.fillna(0).to_numpy().astype("int64").astype("timedelta64[s]")
    return pd.Series(_EPOCH.astype("datetime64[s]") + whole, index=series.index).mask(series.isna())


@contextmanager
def _reading(where: str) -> Iterator[Any]:
    """pyreadstat's reader; what is raised inside becomes a sentence, since its own may quote a cell."""
    if find_spec("pyreadstat") is None:
        raise InputError(
            f'{where} is an SPSS file, which pyreadstat reads: pip install "equistrata[spss]"; or save it as Stata\'s '
            "(.dta), in SPSS by SAVE TRANSLATE /TYPE=STATA"
        )
    pyreadstat = import_module("pyreadstat")

    def read(path: Path, **how: Any) -> Any:
        return pyreadstat.read_sav(str(path), **how)

    try:
        yield read
    except InputError:
        raise
    except (OSError, ValueError, LookupError, ArithmeticError, MemoryError, pyreadstat.ReadstatError):
        raise InputError(f"{where} is not an SPSS file that can be read; save it again") from None
