"""Rows of a release for statistical packages: Stata (.dta) and SPSS (.sav), with the code book's words as labels.

Post-processing of published rows, no cost. Numbers stay numbers and dates dates. Values that are whole numbers keep
them, with their words as labels; others are numbered from 1. What a column of numbers says instead of a number gets a
labelled column of its own, NAME_code, which is 0 beside a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.analysis.release import Release
from equistrata.data.schema import Column
from equistrata.errors import InputError

FORMATS = {".dta": "Stata", ".sav": "SPSS"}
MOST_NAME, MOST_LABEL = 32, 80  # characters that Stata allows
# Words of Stata and SPSS that name no variable.
_RESERVED = frozenset(
    {
        "_all",
        "_b",
        "_coef",
        "_cons",
        "_n",
        "_pi",
        "_pred",
        "_rc",
        "_se",
        "_skip",
        "byte",
        "double",
        "float",
        "if",
        "in",
        "int",
        "long",
        "strl",
        "using",
        "with",
        "all",
        "and",
        "by",
        "eq",
        "ge",
        "gt",
        "le",
        "lt",
        "ne",
        "not",
        "or",
    }
)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows as numbers, with labels.

    Attributes:
        rows: integer, float or datetime columns, by names that a package takes.
        columns: the label of each column.
        values: of some columns, the words of each number.
    """

    rows: pd.DataFrame
    columns: Mapping[str, str]
    values: Mapping[str, Mapping[int, str]]


def export(release: Release, path: Path) -> None:
    """Write the rows to a file that does not exist yet. Raises InputError for another ending than FORMATS has, or if
    pyreadstat, which writes SPSS files, is not installed."""
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(f"{ending} ({name})" for ending, name in FORMATS.items())
        raise InputError(f"rows are exported to {known}, not to {path.name!r}; the folder has them as CSV or Parquet")
    if path.suffix.lower() == ".sav" and find_spec("pyreadstat") is None:
        raise InputError('SPSS files are written by pyreadstat; install it: pip install "equistrata[spss]"')
    found = labelled(release)
    dates = [str(name) for name in found.rows.select_dtypes("datetime")]
    part = path.with_name(f".{path.name}.part")
    try:
        if path.suffix.lower() == ".dta":
            labels: dict[Any, dict[float, str]] = {
                name: {float(number): word for number, word in words.items()} for name, words in found.values.items()
            }
            found.rows.to_stata(
                part,
                write_index=False,
                version=118,
                variable_labels={**found.columns},
                value_labels=labels,
                convert_dates=dict.fromkeys(dates, "td"),
            )
        else:
            days = {name: found.rows[name].dt.date for name in dates}
            import_module("pyreadstat").write_sav(
                found.rows.assign(**days),
                str(part),
                column_labels={**found.columns},
                variable_value_labels={**found.values},
            )
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def labelled(release: Release) -> Labelled:
    """The release's rows as numbers, with labels."""
    frame = release.rows(labels=False)
    rows, labels, values = dict[str, pd.Series](), dict[str, str](), dict[str, Mapping[int, str]]()

    def add(name: str, label: str, cells: pd.Series, words: Mapping[int, str] | None = None) -> None:
        known = _name(name, rows)
        rows[known] = cells
        labels[known] = label[:MOST_LABEL]
        if words is not None:
            values[known] = words

    for column in release.schema.columns:
        cells, label = frame[column.name], column.label or column.name
        if not column.numeric or column.release == "index":
            add(column.name, label, *_coded(cells, column))
        elif column.layout:
            add(column.name, label, pd.to_datetime(cells, format=column.layout, errors="coerce"))
        else:
            numbers = pd.to_numeric(cells, errors="coerce")
            add(column.name, label, numbers)
            said = cells[numbers.isna() & cells.notna()].astype(str)
            if len(said):
                words = dict(enumerate(sorted(said.unique()), 1))
                places = {word: place for place, word in words.items()}
                code = said.map(places).reindex(cells.index, fill_value=0).astype("int32")
                add(f"{column.name}_code", f"{label}: not a number", code, {0: "a number", **words})
    return Labelled(pd.DataFrame(rows), labels, values)


def _coded(cells: pd.Series, column: Column) -> tuple[pd.Series, dict[int, str]]:
    """A categorical column as numbers, and their words."""
    keys = list(column.keys)
    whole = all(isinstance(key, int) and abs(key) < 2**31 for key in keys)
    numbers = {key: int(key) if whole else place for place, key in enumerate(keys, 1)}
    found = cells.map(numbers)
    plain: pd.Series = found.astype("float64") if found.isna().any() else found.astype("int32")
    return plain, {numbers[key]: str(column.words(key)) for key in keys}


def _name(name: str, taken: Mapping[str, Any]) -> str:
    """A name that a package takes: letters, digits and underscores, up to 32, no two alike except for case."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", plain) or plain.lower() in _RESERVED or re.fullmatch(r"str\d+", plain.lower()):
        plain = f"v_{plain}"
    plain = plain[:MOST_NAME]
    used, place, found = {each.lower() for each in taken}, 1, plain
    while found.lower() in used:
        place += 1
        found = f"{plain[: MOST_NAME - len(str(place)) - 1]}_{place}"
    return found
