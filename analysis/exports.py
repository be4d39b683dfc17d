"""Rows of a release for statistical packages: Stata (.dta) and SPSS (.sav), with the code book's words as labels.

Post-processing of published rows, no cost. Numbers stay numbers and dates dates. Values that are whole numbers keep
them, with their words as labels; others are numbered from 1. The codes of a column of numbers or dates, as -9 for
refused, get a labelled column of its own, NAME_code, in the same way; it is 0 beside a number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from equistrata.analysis.release import Release
from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.errors import InputError

Measure = Literal["nominal", "ordinal", "scale"]

FORMATS = {".dta": "Stata", ".sav": "SPSS"}
MOST_NAME, MOST_LABEL = 32, 80  # characters that Stata allows
LARGEST = 2_147_483_620  # whole number that Stata has; larger ones are its missing values
# Words of Stata and SPSS that name no variable, and those that pandas keeps from naming one in a file of Stata's.
_RESERVED = {
    "_all", "_b", "_coef", "_cons", "_n", "_pi", "_pred", "_rc", "_se", "_skip", "aggregate", "all", "and",
    "array", "boolean", "break", "by", "byte", "case", "catch", "class", "colvector", "complex", "const",
    "continue", "default", "delegate", "delete", "do", "double", "else", "eltypedef", "end", "enum", "eq",
    "explicit", "export", "external", "float", "for", "friend", "function", "ge", "global", "goto", "gt", "if",
    "in", "inline", "int", "le", "local", "long", "lt", "ne", "not", "null", "or", "pragma", "protected", "quad",
    "rowvector", "short", "strl", "to", "typedef", "typename", "using", "virtual", "with",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows as numbers, with labels.

    Attributes:
        rows: integer, float or datetime columns, by names that a package takes.
        columns: the label of each column.
        values: of some columns, the words of each number.
        measures: what the numbers of each column are.
    """

    rows: pd.DataFrame
    columns: Mapping[str, str]
    values: Mapping[str, Mapping[int, str]]
    measures: Mapping[str, Measure]

    @property
    def dates(self) -> list[str]:
        """The columns of dates."""
        return [str(name) for name in self.rows.select_dtypes("datetime")]


def export(release: Release, path: Path) -> None:
    """Write the rows to a file that does not exist yet. Raises InputError for another ending than FORMATS has, if
    pyreadstat, which writes SPSS files, is not installed, or if the file cannot be written; then nothing is left."""
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(f"{ending} ({name})" for ending, name in FORMATS.items())
        raise InputError(f"rows are exported to {known}, not to {path.name!r}; the folder has them as CSV or Parquet")
    if path.suffix.lower() == ".sav" and find_spec("pyreadstat") is None:
        raise InputError('SPSS files are written by pyreadstat; install it: pip install "equistrata[labelled]"')
    found = labelled(release)
    part = path.with_name(f".{path.name}.part")
    try:
        (_write_stata if path.suffix.lower() == ".dta" else _write_spss)(found, part)
        part.rename(path)
    except (OSError, _ReadstatError) as error:
        reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "by its program"
        raise InputError(
            f"{str(path)!r} cannot be written ({reason}); check its folder, and that its disk has room"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _write_stata(found: Labelled, path: Path) -> None:
    labels: dict[Any, dict[float, str]] = {
        name: {float(number): word for number, word in words.items()} for name, words in found.values.items()
    }
    found.rows.to_stata(
        path,
        write_index=False,
        version=118,
        variable_labels={**found.columns},
        value_labels=labels,
        convert_dates=dict.fromkeys(found.dates, "td"),
    )


def _write_spss(found: Labelled, path: Path) -> None:
    pyreadstat: Any = import_module("pyreadstat")
    days = {name: found.rows[name].dt.date for name in found.dates}
    try:
        pyreadstat.write_sav(
            found.rows.assign(**days),
            str(path),
            column_labels={**found.columns},
            variable_value_labels={**found.values},
            variable_measure={**found.measures},
        )
    except pyreadstat.PyreadstatError:
        raise _ReadstatError from None


class _ReadstatError(Exception):
    """pyreadstat could not write a file; its own error is of a package that may not be there."""


def labelled(release: Release) -> Labelled:
    """The release's rows as numbers, with labels."""
    frame = release.rows(labels=False)
    rows, labels = dict[str, pd.Series](), dict[str, str]()
    values, measures = dict[str, Mapping[int, str]](), dict[str, Measure]()

    def add(name: str, label: str, cells: pd.Series, words: Mapping[int, str] | None, measure: Measure) -> None:
        known = _name(name, rows)
        rows[known], labels[known], measures[known] = cells, label[:MOST_LABEL], measure
        if words is not None:
            values[known] = words

    for column in release.schema.published:
        cells, label = frame[column.name], column.label or column.name
        if not column.numeric:
            add(column.name, label, *_coded(cells, column), "ordinal" if column.ordered else "nominal")
            continue
        code = _codes(cells, column)
        numbers = cells.mask(code > 0)
        if column.layout:
            add(column.name, label, pd.to_datetime(numbers, format=column.layout, errors="coerce"), None, "scale")
        elif column.release == "index":
            bins = {place: column.words(place) for place in range(column.bins)}
            add(column.name, label, _whole(pd.to_numeric(numbers, errors="coerce")), bins, "ordinal")
        else:
            add(column.name, label, pd.to_numeric(numbers, errors="coerce"), None, "scale")
        if column.codes:
            raw = [raw for raw, _ in column.codes]
            own = _numbered(raw, zero=False)
            known = {0: "a date" if column.layout else "a number"} | dict(
                zip(own, dict(column.codes).values(), strict=True)
            )
            said = code.map(dict(enumerate([0, *own]))).mask(cells.isna())
            add(f"{column.name}_code", f"{label}: code", _whole(said), known, "nominal")
    return Labelled(pd.DataFrame(rows), labels, values, measures)


def _codes(cells: pd.Series, column: Column) -> pd.Series:
    """Which of a column's codes each cell is, from 1; 0 for a number, a date or an absent cell."""
    number = pd.to_numeric(cells, errors="coerce")
    found = pd.Series(0, index=cells.index)
    for place, (raw, _) in enumerate(column.codes, 1):
        found[((cells.astype("string") == plain_text(raw)) | (number == raw)).fillna(value=False)] = place
    return found


def _numbered(keys: Sequence[Value], zero: bool = True) -> list[int]:
    """The number of each value: itself if all are whole numbers that a package has, else its place from 1."""
    fit = [isinstance(key, int) and abs(key) <= LARGEST and (zero or key != 0) for key in keys]
    return [int(key) for key in keys] if all(fit) else list(range(1, len(keys) + 1))


def _whole(numbers: pd.Series) -> pd.Series:
    """Whole numbers, as integers where none is absent."""
    plain: pd.Series = numbers.astype("float64") if numbers.isna().any() else numbers.astype("int32")
    return plain


def _coded(cells: pd.Series, column: Column) -> tuple[pd.Series, dict[int, str]]:
    """A categorical column as numbers, and their words."""
    numbers = dict(zip(column.keys, _numbered(column.keys), strict=True))
    return _whole(cells.map(numbers)), {numbers[key]: str(column.words(key)) for key in column.keys}


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
