"""Check of a whole table against its schema, including its cells, its columns and its file.

The results are exact, so they are as private as the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from equistrata.data.columns.declared import TAKEN
from equistrata.data.declaration import schema_text
from equistrata.data.files.csv_files import encoding_of
from equistrata.data.files.dialect import PLAIN, UTF8
from equistrata.data.files.formats import format_of
from equistrata.data.files.opening import readable
from equistrata.data.misfits import Misfit, misfits, remedy
from equistrata.data.questions import asked, readings
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.units.bounding import rows_of_units
from equistrata.errors import InputError

_MOST_LINES = 8  # the maximum number of lines of a file that are listed


@dataclass(frozen=True)
class TableCheck:
    """The results of a check of a table.

    Attributes
    ----------
    rows : int
        The number of rows that were checked.
    found : tuple of pairs
        The misfits of cells, and how to correct each of them.
    badly_declared, not_declared, not_there, twice : tuple of str
        The columns that were not checked. Their declaration is not valid, they are not declared, they are not in the
        table, or they are in the table twice.
    of_file : tuple of str
        A sentence for each problem of the file.
    unit_rows : tuple of int or None
        The number of units that have 1, 2, … rows, or None if there is no unit.
    """

    rows: int = 0
    found: tuple[tuple[Misfit, str], ...] = ()
    badly_declared: tuple[str, ...] = ()
    not_declared: tuple[str, ...] = ()
    not_there: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    of_file: tuple[str, ...] = ()
    unit_rows: tuple[int, ...] | None = None

    @property
    def fits(self) -> bool:
        """True if the table has no problem except for columns that are left out."""
        return not self.found and not self.of_file


def check_table(path: Path, schema: Schema, declared: Sequence[str], shown: int = 0) -> TableCheck:
    """Check every row of a table in batches that fit into memory.

    Parameters
    ----------
    path : Path
        The path of the table.
    schema : Schema
        The schema of the columns with a valid declaration. For released codes, this is `Schema.coded`.
    declared : sequence of str
        The columns in the schema file, including those with an invalid declaration.
    shown : int
        The maximum number of values that are kept for each column.

    Returns
    -------
    TableCheck
        The results of the check.

    Raises
    ------
    InputError
        If the table cannot be read, if all of its columns are in the table twice, or if the column of the unit is
        missing.

    Privacy
    -------
    The results are exact, so they are as private as the rows.
    """
    encoding = _encoding_of(path, schema)
    if encoding is not None:
        schema = replace(schema, file=replace(schema.file, encoding=encoding))
    source = replace(FileSource.of(str(path), schema), lenient=True)
    there = source.header()
    of_file, twice = _of_file(source, schema.cells, there)
    if len(there) == 1 < len(schema.names) and format_of(path).name == "csv" and there[0] not in schema.cells:
        of_file.insert(0, 'the header line has only one column; declare the delimiter, such as file: {delimiter: ";"}')
    if encoding is not None:
        of_file.insert(0, f"the file is not UTF-8 text; declare file: {{encoding: {encoding}}}, or save it as UTF-8")
    needed = schema.selected().names
    once = [name for name in schema.names if not {*schema[name].cells} & twice]
    if not once:
        raise InputError(of_file[0])
    checked = schema.select([name for name in once if name in needed or name in there])
    held = [name for name in checked.cells if name in there]
    frames = source.frames(held) if held else iter([pd.DataFrame()])
    rows, found = misfits(frames, checked, shown, set(held).difference(needed))
    if held and not rows and not of_file:
        raise InputError(f"{source.describe()} holds no rows; give a table with at least one row")
    return TableCheck(
        rows,
        tuple((each, remedy(each, checked, there)) for each in found),
        badly_declared=tuple(name for name in declared if name not in {column.name for column in schema.published}),
        # If no declared column is in the header, the first line can be a row, so it is not shown.
        not_declared=tuple(name for name in there if name not in declared) if held else (),
        not_there=tuple(name for name in once if name not in checked.names),
        twice=tuple(name for name in schema.names if name not in once),
        of_file=tuple(of_file),
        unit_rows=_unit_rows(source, schema.unit.column),
    )


def count_rows_by_declaration(path: Path, source: str, schema: Schema | None) -> list[tuple[str, str, int, int]]:
    """Count the rows that fit each possible declaration in the open questions of a draft.

    Parameters
    ----------
    path : Path
        The path of the table.
    source : str
        The path of the draft.
    schema : Schema or None
        The schema of the columns that are already declared.

    Returns
    -------
    list of tuples
        The column, the meaning of the declaration, the number of rows that fit, and the number of rows. Columns that
        are not in the table are left out.

    Raises
    ------
    InputError
        If the table cannot be read.

    Privacy
    -------
    The counts are exact, so they are as private as the rows.
    """
    text = schema_text(source)[0]
    file = schema.file if schema is not None else PLAIN
    known = schema.names if schema is not None else ()
    found: dict[tuple[str, int], tuple[str, str, int, int]] = {}
    questions = {name: readings(text, name) for name in asked(text, known)}
    there = set(FileSource(str(path), dialect=file, lenient=True).header())
    for place in range(max(map(len, questions.values()), default=0)):
        specs = {name: lines[place] for name, lines in questions.items() if name in there and len(lines) > place}
        plain = {name: {key: item for key, item in spec.items() if key != TAKEN} for name, (_, spec) in specs.items()}
        if plain:
            meant = replace(Schema.from_dict({"columns": plain}, source), file=file)
            rows, wrong = misfits(replace(FileSource.of(str(path), meant), lenient=True).frames([*plain]), meant)
            for name, (said, _) in specs.items():
                fit = rows - sum(each.cells for each in wrong if each.columns == (name,))
                found[name, place] = (name, said, fit, rows)
    return [found[key] for key in sorted(found, key=lambda key: ([*questions].index(key[0]), key[1]))]


def _encoding_of(path: Path, schema: Schema) -> str | None:
    """Return the encoding that a CSV file must declare if it is not UTF-8, or None if no declaration is missing."""
    form = format_of(path)
    if not path.is_file() or form.name != "csv" or schema.file.encoding:
        return None
    with readable(path, form):
        found = encoding_of(path)
    return None if found == UTF8 else found


def _of_file(source: FileSource, names: Sequence[str], there: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return a sentence for each problem of the file, and the columns that are in the file twice."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(there, start=1):
        places.setdefault(name.strip(), []).append(place)
    twice = {name for name in names if len(places.get(name.strip(), [])) > 1}
    found = [
        f"columns {' and '.join(map(str, places[name.strip()]))} are both named {name!r} (ignoring blanks); rename one "
        "of them in the header line"
        for name in names
        if name in twice
    ]
    if ragged := source.ragged():
        rest = len(ragged) - _MOST_LINES
        more = f"; and {rest:,} more rows" if rest > 0 else ""
        found.append(
            f"each line needs as many cells as the header; {'; '.join(ragged[:_MOST_LINES])}{more}. These rows were "
            "not checked; correct or remove them"
        )
    return found, twice


def _unit_rows(source: FileSource, name: str | None) -> tuple[int, ...] | None:
    if name is None:
        return None
    return tuple(rows_of_units((frame[name] for frame in source.frames([name])), name).tolist())
