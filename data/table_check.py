"""A whole table held against its schema: what of its cells, its columns and its file does not fit.

Exact, so as private as the rows.
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

_MOST_LINES = 8  # of a file that are listed one by one


@dataclass(frozen=True)
class TableCheck:
    """What a check of a table found.

    Attributes:
        rows: that were checked.
        found: misfits of cells, each with what to write against it.
        badly_declared, not_declared, not_there, twice: columns that were not checked.
        of_file: a sentence for each problem of the file itself.
        unit_rows: how many units have 1, 2, … rows; None without a unit.
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
        """Whether nothing but columns that were left out is wrong with the table."""
        return not self.found and not self.of_file


def check_table(path: Path, schema: Schema, declared: Sequence[str], shown: int = 0) -> TableCheck:
    """Check every row of a table, in batches that fit into memory.

    Args:
        schema: of what is declared well; of released codes, `Schema.coded`.
        declared: the columns that the schema file names, well declared or not.
        shown: values of a column that are kept, at most.

    Raises InputError if the table cannot be read, all of its columns are there twice, or that of the units is not.
    """
    encoding = _encoding_of(path, schema)
    if encoding is not None:
        schema = replace(schema, file=replace(schema.file, encoding=encoding))
    source = replace(FileSource.of(str(path), schema), lenient=True)
    there = source.header()
    of_file, twice = _of_file(source, schema.cells, there)
    if len(there) == 1 < len(schema.names) and format_of(path).name == "csv" and there[0] not in schema.cells:
        of_file.insert(0, 'the header line has one column; declare its delimiter, as file: {delimiter: ";"}')
    if encoding is not None:
        of_file.insert(0, f"rows are not UTF-8 text; declare file: {{encoding: {encoding}}}, or save it as UTF-8")
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
        # Without a column that is declared, the first line may be somebody's row.
        not_declared=tuple(name for name in there if name not in declared) if held else (),
        not_there=tuple(name for name in once if name not in checked.names),
        twice=tuple(name for name in schema.names if name not in once),
        of_file=tuple(of_file),
        unit_rows=_unit_rows(source, schema.unit.column),
    )


def rows_by_reading(path: Path, source: str, schema: Schema | None) -> list[tuple[str, str, int, int]]:
    """Of each open question of a draft, how many rows each of its readings fits: exact, private.

    Returns
    -------
    list of (column, what the reading means, rows that fit, rows)
        Of columns that the table has. Raises InputError if the table cannot be read.
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
    """The encoding that a CSV file of rows that are not in UTF-8 must declare; None where all is well."""
    form = format_of(path)
    if not path.is_file() or form.name != "csv" or schema.file.encoding:
        return None
    with readable(path, form):
        found = encoding_of(path)
    return None if found == UTF8 else found


def _of_file(source: FileSource, names: Sequence[str], there: Sequence[str]) -> tuple[list[str], set[str]]:
    """A sentence for each problem of a file that no column's cells have, and which of these columns are there twice."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(there, start=1):
        places.setdefault(name.strip(), []).append(place)
    twice = {name for name in names if len(places.get(name.strip(), [])) > 1}
    found = [
        f"columns {' and '.join(map(str, places[name.strip()]))} are both named {name!r} (blanks aside); rename one of "
        "them in the header line"
        for name in names
        if name in twice
    ]
    if ragged := source.ragged():
        rest = len(ragged) - _MOST_LINES
        more = f"; and {rest:,} rows more" if rest > 0 else ""
        found.append(
            f"each line needs as many cells as the header; {'; '.join(ragged[:_MOST_LINES])}{more}. These rows were "
            "not checked; mend them, or take them out"
        )
    return found, twice


def _unit_rows(source: FileSource, name: str | None) -> tuple[int, ...] | None:
    if name is None:
        return None
    return tuple(rows_of_units((frame[name] for frame in source.frames([name])), name).tolist())
