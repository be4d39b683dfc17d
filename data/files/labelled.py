"""Files of Stata, SPSS and SAS, which are read with pyreadstat.

These files contain codes with labels, missing values and formats of dates. A cell is read as its code, or as its label
if the schema declares one of the labels of the column. A value that the file declares as missing is absent, unless the
schema declares it by its code or by its label. The missing values of Stata can also be declared by their names, such as
".a". The labels, the formats and the missing values are part of the documentation of the file. They do not depend on
the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.data.files.dialect import Dialect
from equistrata.data.files.formats import Reading
from equistrata.errors import InputError

_READERS = {"dta": "read_dta", "sav": "read_sav", "zsav": "read_sav", "sas7bdat": "read_sas7bdat", "xpt": "read_xport"}
# The display formats of dates without their width, by the unit of the numbers: for Stata and SAS, and for SPSS.
_DATES = {
    "D": re.compile(r"%-?(?:td|d).*|DATE|WEEKDAT[EX]|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|(?:B|E|IS)8601DA"),
    "ms": re.compile(r"%-?tc(?:.*[CY].*)?"),  # formats that only contain hours are excluded
    "s": re.compile(r"DATETIME|DATEAMPM|MDYAMPM|DTDATE|B8601DN|(?:B|E|IS)8601DT"),
}
_SPSS_DATES = {"s": re.compile(r"[AEJS]?DATE|DATETIME|YMDHMS")}
_EPOCH, _SPSS_EPOCH = "1960-01-01", "1582-10-14"
_MOST_LISTED = 20  # the maximum number of codes for which a range of missing codes is listed


@dataclass(frozen=True)
class ColumnDescription:
    """The description of a column in a file.

    Attributes
    ----------
    label : str
        The label of the column.
    labels : mapping
        The label of each code. For the missing values of Stata, the code is the letter of the value.
    missing : mapping of str to str
        The codes that the file declares as missing, and their labels.
    tagged : bool
        If True, the missing values of Stata have labels.
    form : str
        The display format.
    unit : str
        The unit of the numbers if the column has dates, and an empty text otherwise.
    epoch : str
        The date that has the number 0.
    text : bool
        If True, the cells are texts.
    single : bool
        If True, the cells are floats of 32 bits.
    ordered : bool
        If True, the column is ordinal according to its measure in SPSS.
    scale : bool
        If True, the column has numbers according to its measure in SPSS.
    """

    label: str = ""
    labels: Mapping[Any, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    tagged: bool = False
    form: str = ""
    unit: str = ""
    epoch: str = _EPOCH
    text: bool = False
    single: bool = False
    ordered: bool = False
    scale: bool = False


def described(path: Path) -> dict[str, ColumnDescription]:
    """Return the description of each column of a file, in order. No rows are read."""
    meta, spss = _read(path, metadataonly=True, user_missing=True)[1], "sav" in path.suffix.lower()
    found = {}
    for name in meta.column_names:
        kind, form = meta.readstat_variable_types[name], meta.original_variable_types.get(name) or ""
        labels, spans = meta.variable_value_labels.get(name, {}), meta.missing_ranges.get(name, ())
        tags = [code for code in labels if isinstance(code, str) and kind != "string"]
        codes = [code for code in labels if code not in tags and any(_within(code, **span) for span in spans)]
        missing = {plain_text(code): labels.get(code, "") for code in [*_listed(spans), *codes]}
        kinds = (_SPSS_DATES if spss else _DATES).items()
        unit = next((unit for unit, dates in kinds if dates.fullmatch(form.rstrip("0123456789."))), "")
        measure = meta.variable_measure.get(name)
        found[name] = ColumnDescription(
            meta.column_names_to_labels.get(name) or "", labels, missing, bool(tags), form, unit,
            _SPSS_EPOCH if spss else _EPOCH, kind == "string", kind == "float", measure == "ordinal",
            measure == "scale",
        )  # fmt: skip
    return found


def header(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns in order."""
    return [*described(path)]


def batches(path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """Iterate over the rows as data frames.

    The cells are read as the schema declares them. In columns that are not declared, dates are ISO texts and all other
    cells are codes.

    Raises
    ------
    InputError
        If a column is declared as dates and its format in the file is not a format of dates.
    """
    told, wanted = described(path), declared_cells(how.declared)
    days = {name for column in how.declared if column.layout for name in column.cells}
    for name in columns:
        if name in days and not (told[name].unit or told[name].text):
            raise InputError(
                f"column {name!r} of file {path.name!r} has the format {told[name].form or 'of numbers'}, which is "
                "not for days; convert the column to days in the program that made it, with a date format"
            )
    missing = [name for name in columns if told[name].missing or (name in wanted and _tags(told[name], wanted[name]))]
    first = 0
    while len(raw := _read(path, usecols=[*columns], row_offset=first, row_limit=how.rows)[0]):
        every = (
            _read(path, usecols=missing, row_offset=first, row_limit=how.rows, user_missing=True)[0] if missing else {}
        )
        made = {}
        for name in columns:
            dated = bool(told[name].unit) and (name in days or name not in wanted)
            cells = raw[name] if not told[name].single else raw[name].astype(np.float32)
            # An undeclared column can contain unit ids, for which float32 is too coarse.
            known = name in wanted or not how.declared
            full = every[name] if name in missing else None
            made[name] = _cells(cells, full, told[name], wanted.get(name), dated) if known else cells
        yield pd.DataFrame(made)
        first += len(raw)


def declared_cells(declared: Sequence[Column]) -> dict[str, frozenset[Value]]:
    """Return the values and codes that a schema declares for each raw column."""
    found: dict[str, frozenset[Value]] = {}
    for column in declared:
        for level, name in enumerate(column.cells):
            values = [part[level] for part in column.parts] if len(column.cells) > 1 else [*column.values]
            raw = [*values, *(each for each, _ in (*column.recode, *column.codes))]
            found[name] = found.get(name, frozenset()) | frozenset(raw)
    return found


def _tags(told: ColumnDescription, wanted: frozenset[Value]) -> bool:
    """Return True if a schema can refer to the missing values of Stata in a column, by name or by label."""
    return (not told.text and any(f".{letter}" in wanted for letter in "abcdefghijklmnopqrstuvwxyz")) or told.tagged


def _cells(
    raw: pd.Series, every: pd.Series | None, told: ColumnDescription, wanted: frozenset[Value] | None, dated: bool
) -> pd.Series:
    """Return the labels, the codes or the days of a column.

    The column `every` also contains the missing values. If `wanted` is None, the column is not declared.
    """
    if every is not None:
        texts = {*map(plain_text, wanted or ())}
        codes = [code for code in pd.unique(every) if _kept(code, told, wanted, texts)]
        raw = raw.astype(object).mask(raw.isna() & every.isin(codes), every)
    if dated:
        counted = pd.to_numeric(raw).where(lambda cells: cells.abs() < 2**62)
        whole = counted.fillna(0).to_numpy().astype("int64").astype(f"timedelta64[{told.unit}]")
        days = pd.Series(np.datetime64(told.epoch, "s") + whole, raw.index).mask(counted.isna())
        return days if wanted is not None else days.dt.strftime("%Y-%m-%d").astype(object)
    labelled = wanted is not None and not wanted.isdisjoint(told.labels.values())
    if not (labelled or told.text or told.single or every is not None):
        return raw
    places, distinct = pd.factorize(raw)
    found = np.empty(len(distinct) + 1, dtype=object)
    found[:-1] = [None if code == "" else _cell(code, told, labelled) for code in distinct]
    return pd.Series(found[places], raw.index)


def _cell(code: Any, told: ColumnDescription, labelled: bool) -> Any:
    """Return the label of a code, the name of a missing value of Stata, or a number.

    A float of 32 bits is converted to the decimal number with the same representation, such as 1.1.
    """
    if labelled:
        return told.labels.get(code, plain_text(code))
    if isinstance(code, str):
        return code if told.text else f".{code}"
    return float(str(np.float32(code))) if told.single else code


def _kept(code: Any, told: ColumnDescription, wanted: frozenset[Value] | None, texts: set[str]) -> bool:
    """Return True if a code that the file declares as missing is read as a cell.

    This is the case if the schema declares the code. If no schema is given, it is the case for all codes except for the
    named missing values of Stata. If a column has named missing values, pyreadstat 1.3.7 returns an arbitrary number
    for the Stata value ".", so a number is never a missing value of Stata.
    """
    tag = isinstance(code, str) and not told.text
    if not (tag or told.missing):
        return False
    if wanted is None:
        return not tag
    return (f".{code}" if tag else plain_text(code)) in texts or told.labels.get(code) in wanted


def _listed(spans: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the codes in ranges of missing codes, where a range is only listed if it contains few whole numbers."""
    found: list[Any] = []
    for low, high in ((span["lo"], span["hi"]) for span in spans):
        if low == high:
            found.append(low)
        elif high - low <= _MOST_LISTED:
            found += [float(code) for code in range(int(np.ceil(low)), int(np.floor(high)) + 1)]
    return found


def _within(code: Any, lo: Any, hi: Any) -> bool:
    return isinstance(code, str) == isinstance(lo, str) and bool(lo <= code <= hi)


def _read(path: Path, **how: Any) -> Any:
    suffix = path.suffix.lower().lstrip(".")
    if suffix == "xpt":
        how.pop("user_missing", None)
    return getattr(import_module("pyreadstat"), _READERS[suffix])(str(path), disable_datetime_conversion=True, **how)
