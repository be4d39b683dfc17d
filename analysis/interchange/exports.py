"""Export of a release to a file of another program, where the ending of the file selects the format.

A DDI code book (.xml) and an OpenLineage event (.json) describe the release. Stata (.dta) and SPSS (.sav) files contain
the rows, with the words of the code book as labels.

The export is post-processing of published rows, so it costs no privacy. Numbers remain numbers, and dates remain dates.
Categorical values that are whole numbers are kept, and their words become labels. Other values are numbered from 1.
Columns of numbers or dates may have codes, such as -9 for refused. These codes are written in the same way to a
labelled column NAME_code, which is 0 if the cell is a number or a date.
"""

from __future__ import annotations

import json
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

from equistrata.analysis.interchange.ddi import ddi_codebook
from equistrata.analysis.interchange.lineage import openlineage_event
from equistrata.analysis.release import Release
from equistrata.data.columns.column import Column, Value, plain_text
from equistrata.errors import InputError

Measure = Literal["nominal", "ordinal", "scale"]

FORMATS = {".dta": "Stata", ".sav": "SPSS", ".xml": "DDI-Codebook", ".json": "OpenLineage event"}
MOST_NAME, MOST_LABEL = 32, 80  # the maximum number of characters in Stata
LARGEST = 2_147_483_620  # the largest whole number in Stata, which uses larger numbers for missing values
# Reserved words of Stata and SPSS, and the names that pandas does not allow for the variables of a Stata file.
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
    """The rows of a release as numbers with labels.

    Attributes
    ----------
    rows : DataFrame
        Integer, float or datetime columns, with names that the statistical package accepts.
    columns : mapping of str to str
        The label of each column.
    values : mapping
        The words of each number, for the columns that have labelled values.
    measures : mapping
        The level of measurement of each column: "nominal", "ordinal" or "scale".
    """

    rows: pd.DataFrame
    columns: Mapping[str, str]
    values: Mapping[str, Mapping[int, str]]
    measures: Mapping[str, Measure]

    @property
    def dates(self) -> list[str]:
        """The names of the columns that contain dates."""
        return [str(name) for name in self.rows.select_dtypes("datetime")]


def export(release: Release, path: Path) -> None:
    """Write a release to a file in the format that the ending of the file names.

    Parameters
    ----------
    release : Release
        The release.
    path : Path
        The file, which must not exist yet. Its ending must be in `FORMATS`.

    Raises
    ------
    InputError
        If the ending is unknown, if an SPSS file is requested and pyreadstat is not installed, or if the file cannot be
        written. In this case, no partial file remains.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        known = ", ".join(f"{ending} ({name})" for ending, name in FORMATS.items())
        raise InputError(
            f"releases can be exported to {known}, but not to {path.name!r}; for CSV or Parquet, use the files in the "
            "folder"
        )
    if ending == ".sav" and find_spec("pyreadstat") is None:
        raise InputError('SPSS files need pyreadstat; run pip install "equistrata[labelled]"')
    part = path.with_name(f".{path.name}.part")
    try:
        if ending in (".dta", ".sav"):
            (_write_stata if ending == ".dta" else _write_spss)(labelled(release), part)
        else:
            part.write_text(_description(release, ending), "utf-8")
        part.rename(path)
    except (OSError, _ReadstatError) as error:
        reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "by its program"
        raise InputError(
            f"{str(path)!r} cannot be written ({reason}); check the folder and the free disk space"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _description(release: Release, ending: str) -> str:
    """Return the description of a release. Raises an InputError if its card is of an early version and lacks a part."""
    try:
        if ending == ".xml":
            return ddi_codebook(release)
        return json.dumps(openlineage_event(release), indent=2) + "\n"
    except KeyError as absent:
        raise InputError(f"card.json of {str(release.folder)!r} has no {absent}; export .dta or .sav instead") from None


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
    """An error of pyreadstat. Its own class cannot be named here because the package is optional."""


def labelled(release: Release) -> Labelled:
    """Convert the rows of a release to numbers with labels."""
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
    """Return the place of each cell's code, counted from 1, or 0 for numbers, dates and absent cells."""
    number = pd.to_numeric(cells, errors="coerce")
    found = pd.Series(0, index=cells.index)
    for place, (raw, _) in enumerate(column.codes, 1):
        found[((cells.astype("string") == plain_text(raw)) | (number == raw)).fillna(value=False)] = place
    return found


def _numbered(keys: Sequence[Value], zero: bool = True) -> list[int]:
    """Return the number of each value.

    The values are kept if all of them are whole numbers that the packages can store. Otherwise, they are numbered from
    1.
    """
    fit = [isinstance(key, int) and abs(key) <= LARGEST and (zero or key != 0) for key in keys]
    return [int(key) for key in keys] if all(fit) else list(range(1, len(keys) + 1))


def _whole(numbers: pd.Series) -> pd.Series:
    """Convert whole numbers to integers if no number is absent."""
    plain: pd.Series = numbers.astype("float64") if numbers.isna().any() else numbers.astype("int32")
    return plain


def _coded(cells: pd.Series, column: Column) -> tuple[pd.Series, dict[int, str]]:
    """Return a categorical column as numbers, and the words of these numbers."""
    numbers = dict(zip(column.keys, _numbered(column.keys), strict=True))
    return _whole(cells.map(numbers)), {numbers[key]: str(column.words(key)) for key in column.keys}


def _name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a valid variable name.

    The name has at most 32 letters, digits and underscores. It differs from all other names by more than the case.
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", plain) or plain.lower() in _RESERVED or re.fullmatch(r"str\d+", plain.lower()):
        plain = f"v_{plain}"
    plain = plain[:MOST_NAME]
    used, place, found = {each.lower() for each in taken}, 1, plain
    while found.lower() in used:
        place += 1
        found = f"{plain[: MOST_NAME - len(str(place)) - 1]}_{place}"
    return found
