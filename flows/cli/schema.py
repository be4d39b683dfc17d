"""`equistrata schema check` and `equistrata sources`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from equistrata.errors import InputError
from equistrata.flows.cli.console import note, out, print_json, print_lines, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting

if TYPE_CHECKING:
    from equistrata.data.misfits import Misfit
    from equistrata.data.schema import Schema
    from equistrata.data.sources import FileSource
    from equistrata.data.units.unit import Unit


MOST_SHOWN = 20  # values of a column
_MOST_LINES = 8  # of a file that are listed one by one


class CheckSettings(Settings):
    schema_: ByPlace[str] = setting(..., "Schema file or built-in name.", alias="schema")
    input: Path | None = setting(None, "A CSV, Parquet, Stata or SPSS table to check against it.")
    coded: Flag = setting(False, "The table holds released codes.")
    show: Flag = setting(False, f"Print values that do not fit, up to {MOST_SHOWN} a column, to a terminal: private.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("schema check", CheckSettings)
def schema_check(settings: CheckSettings) -> None:
    """Check a schema file, and that a table fits it: all problems at once; exit code 2 if there are any.

    The schema's default columns must be there, and whatever declared column is there must fit. How many cells do not
    is exact, so it is private, and with --show so are the values. Neither is for anyone who may not see the rows.

    [bold]Example[/bold]: equistrata schema check people.yaml --input people.csv
    """
    from equistrata.data.problems import load_with_problems

    if settings.show and not out.is_terminal:
        raise InputError("--show prints values of private rows, so it works in a terminal alone; leave it out")
    schema, problems = load_with_problems(settings.schema_)
    looked = units = None
    if schema is not None and settings.input is not None:
        try:
            looked, units = _looked_at(settings, schema), _unit_rows(settings.input, schema)
        except InputError as error:
            if not problems:
                raise
            looked = looked or _LookedAt(
                0, [], [], [], [], [], [str(error)]
            )  # those of the schema are listed beside it
    if settings.as_json:
        print_json(_document(settings, schema, problems, looked, units))
    else:
        _print(settings, schema, problems, looked)
        if schema is not None and not problems:
            for line in [*_about_formulas(schema), *_about_units(schema.unit, units)]:
                out.print(line, highlight=False, soft_wrap=True)
    if schema is not None and schema.unit.unique and units is not None and len(units) > 1:
        problems = [*problems, "an id repeats"]
    if problems:
        raise InputError(f"schema {settings.schema_} has problems; mend what is listed")
    if looked and (looked.found or looked.of_file):
        assert settings.input is not None
        raise InputError(f"file {settings.input.name!r} does not fit the schema; mend what is listed")


@dataclass(frozen=True)
class _LookedAt:
    """What a look at a table found: rows, misfits with what to write against each, columns that it left out, and a
    sentence for each problem of the file itself."""

    rows: int
    found: list[tuple[Misfit, str]]
    badly_declared: list[str]
    not_declared: list[str]
    not_there: list[str]
    twice: list[str]
    of_file: list[str]


def _looked_at(settings: CheckSettings, schema: Schema) -> _LookedAt:
    import pandas as pd

    from equistrata.data.misfits import misfits, remedy
    from equistrata.data.problems import declared_names
    from equistrata.data.sources import FileSource

    used = schema.coded() if settings.coded else schema
    encoding = _encoding_of(settings.input, used)
    used = used if encoding is None else replace(used, file=replace(used.file, encoding=encoding))
    source = replace(FileSource.of(str(settings.input), used), lenient=True)
    there = source.header(used.cells)
    of_file, twice = _of_file(source, used.cells, there)
    if encoding is not None:
        of_file.insert(0, f"rows are not UTF-8 text; declare file: {{encoding: {encoding}}}, or save it as UTF-8")
    needed = used.default or used.names
    once = [name for name in used.names if not {*used[name].cells} & twice]
    if not once:
        raise InputError(of_file[0])
    looked_at = used.select([name for name in once if name in needed or name in there])
    held = [name for name in looked_at.cells if name in there]
    frames = source.batches(held) if held else iter([pd.DataFrame()])
    averaged = set(held).difference(needed)
    rows, found = misfits(frames, looked_at, MOST_SHOWN if settings.show else 0, averaged)
    declared = declared_names(settings.schema_)
    return _LookedAt(
        rows,
        [(each, remedy(each, looked_at, there)) for each in found],
        [name for name in declared if name not in schema.names],
        # Without a column that is declared, the first line may be somebody's row.
        [name for name in there if name not in declared] if held else [],
        [name for name in once if name not in looked_at.names],
        [name for name in used.names if name not in once],
        of_file,
    )


def _encoding_of(path: Path | None, schema: Schema) -> str | None:
    """The encoding of a CSV file's rows that its header line does not show; None where all is well."""
    from equistrata.data.files.dialect import UTF8, WINDOWS, encoding_of
    from equistrata.data.files.kinds import UNREADABLE, kind_of
    from equistrata.data.files.opening import first_line

    if path is None or not path.is_file() or kind_of(path) != "csv" or schema.file.encoding:
        return None
    try:
        found, header = encoding_of(path), first_line(path)
    except UNREADABLE:  # which reading it says
        return None
    try:
        shown = schema.file.detected(header, schema.cells).encoding if not header.isascii() else UTF8
    except UnicodeDecodeError:  # in another encoding, and a column that is declared is not there
        shown = UTF8
    return found if found == WINDOWS or found != shown else None


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
    if ragged := source.ragged(names):
        rest = len(ragged) - _MOST_LINES
        more = f"; and {rest:,} rows more" if rest > 0 else ""
        found.append(
            f"each line needs as many cells as the header; {'; '.join(ragged[:_MOST_LINES])}{more}. These rows were "
            "not checked; mend them, or take them out"
        )
    return found, twice


def _unit_rows(path: Path, schema: Schema) -> list[int] | None:
    """How many units have 1, 2, … rows; None without a unit. Raises InputError where its column is not there."""
    from equistrata.data.sources import FileSource
    from equistrata.data.units.bounding import rows_of_units

    name = schema.unit.column
    if name is None:
        return None
    encoding = _encoding_of(path, schema)
    schema = schema if encoding is None else replace(schema, file=replace(schema.file, encoding=encoding))
    batches = replace(FileSource.of(str(path), schema), lenient=True).batches([name])
    return [int(count) for count in rows_of_units((frame[name] for frame in batches), name)]


def _about_formulas(schema: Schema) -> list[str]:
    """A note on values that are released as they are declared, and that a spreadsheet would run."""
    from equistrata.data.columns.column import like_a_formula

    listed = [column for column in schema.columns if not column.open]
    columns = [column.name for column in listed if any(like_a_formula(str(key)) for key in column.keys)]
    if not columns:
        return []
    return [
        f"Note: values of {_some(columns)} begin with =, +, - or @, which a spreadsheet that opens a CSV file takes "
        "for formulas. They are released as they are declared; 'recode' gives them other words if readers may do so."
    ]


def _about_units(unit: Unit, sizes: list[int] | None) -> list[str]:
    """The unit in words, and a question where none is declared."""
    if unit.column is None:
        return [
            "Unit of privacy: one row. Can a person have more than one (visits, claims, months), or a household? Then "
            "say which column names them, and how many rows of each are used at most, so that all of them are "
            "protected together: unit: {column: NAME, at_most: ROWS}."
        ]
    said = [f"Unit of privacy: {escape(unit.words)}."]
    if sizes is not None:
        units, rows = sum(sizes), sum(count * size for size, count in enumerate(sizes, start=1))
        cut = sum(count * max(size - unit.at_most, 0) for size, count in enumerate(sizes, start=1))
        said.append(
            f"{units:,} units, of up to {len(sizes)} rows; at most {unit.at_most} of each leaves out {cut:,} rows "
            f"({cut / max(rows, 1):.2%}; exact: private)."
        )
    return said


def _document(
    settings: CheckSettings,
    schema: Schema | None,
    problems: list[str],
    looked: _LookedAt | None,
    units: list[int] | None,
) -> dict[str, Any]:
    fits = not problems and not (looked and (looked.found or looked.of_file))
    document: dict[str, Any] = {"schema": settings.schema_, "fits": fits, "problems": problems}
    if schema is not None and not problems:
        document |= {"name": schema.name, "digest": schema.digest}
        document["unit"] = {"column": schema.unit.column, "at_most": schema.unit.at_most, "unique": schema.unit.unique}
        document |= {} if units is None else {"units_by_rows": units}
    if looked is not None:
        document |= {"input": str(settings.input), "rows": looked.rows}
        document["misfits"] = [_plain(*each) for each in looked.found]
        document["unchecked"] = [*looked.badly_declared, *looked.not_there, *looked.twice, *looked.not_declared]
        document |= {"file": looked.of_file} if looked.of_file else {}
    return document


def _plain(misfit: Misfit, remedy: str) -> dict[str, Any]:
    plain = {"columns": list(misfit.columns), "fault": misfit.fault, "cells": misfit.cells, "distinct": misfit.distinct}
    return plain | ({"values": list(misfit.values)} if misfit.values else {}) | {"remedy": remedy}


def _print(settings: CheckSettings, schema: Schema | None, problems: list[str], looked: _LookedAt | None) -> None:
    for problem in problems:
        note("[bold red]schema:[/]", problem)
    if schema is not None and not problems:
        out.print(_declared(schema))
        count, target = len(schema.impossible), escape(schema.target or "none")
        out.print(f"{count} impossible combinations declared; target: {target}.")
    if settings.input is None:
        return
    name = escape(settings.input.name)
    if looked is None:
        out.print(f"{name} was not checked: no column is declared well.", soft_wrap=True)
        return
    for fault in looked.of_file:
        note("[bold red]file:[/]", fault)
    if looked.found:
        title = f"{name}, {looked.rows:,} rows: what does not fit (exact: private)"
        grid = table(title, "column", "what", ">cells", ">distinct", *(["values"] if settings.show else []))
        for each, _ in looked.found:
            distinct = "—" if each.distinct is None else f"{each.distinct:,}"
            cells = f"{each.cells:,}" if each.cells else "—"
            values = [escape("; ".join(each.values))] if settings.show else []
            grid.add_row(escape(" × ".join(each.columns)), each.fault, cells, distinct, *values)
        out.print(grid)
        print_lines(*_remedies(looked, settings))
    elif problems or looked.of_file:
        more = ", as far as it was checked" * bool(looked.of_file)
        out.print(f"{name} fits what is declared well{more}.", soft_wrap=True)
    else:
        out.print(f"[green]{name} fits the schema.[/]")
    kinds = {
        "declared, but not well": looked.badly_declared,
        "neither there nor released by default": looked.not_there,
        "there twice": looked.twice,
        "not declared": looked.not_declared,
    }
    unchecked = "; ".join(f"{_some(names)} ({why})" for why, names in kinds.items() if names)
    if unchecked:
        print_lines(f"Not checked: {unchecked}.")


def _remedies(looked: _LookedAt, settings: CheckSettings) -> list[str]:
    """One line for all columns with one fault and one remedy."""
    named: dict[tuple[str, str], list[str]] = {}
    for each, remedy in looked.found:
        see = bool(each.distinct) and not settings.show
        more = "; --show prints them" if see else ""
        named.setdefault((each.fault, remedy + more), []).append(" × ".join(each.columns))
    return [f"{_some(names)}: {fault}; {remedy}." for (fault, remedy), names in named.items()]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _declared(schema: Schema) -> Table:
    # A card names the schema of the released columns, which has another digest than all that the file declares.
    digest = f"SHA-256 {schema.selected().digest[:16]}…, as on the card of a release of its default columns"
    grid = table(f"schema {escape(schema.name)}", "column", "kind", "codes", "missing", "label", caption=digest)
    for column in schema.columns:
        kind = (
            "open" if column.open else "values" if not column.numeric else " to ".join(map(column.shown, column.bounds))
        )
        codes = "found by a release" if column.open else f"{column.size}" + " (fine bins)" * column.fine
        missing = "—" if column.missing is None else str(column.missing)
        grid.add_row(escape(column.name), kind, codes, escape(missing), escape(column.label))
    return grid


@command("sources", Settings)
def sources_command(_: Settings) -> None:
    """List where rows can come from, and the schemas that come along."""
    from equistrata.data.declaration import built_in_schemas
    from equistrata.data.files.kinds import KINDS
    from equistrata.data.schema import Schema

    grid = table("sources", "--source", "what it is", "needs")
    grid.add_row("sample", "simulated people, built in, offline (the default)", "nothing")
    grid.add_row("folktables", "US census ACS person records", "--state, --year, --root-dir or --download")
    for kind in KINDS:
        grid.add_row(kind, "your table, one row per person", "--input, --schema")
    schemas = table("built-in schemas", "--schema", "columns")
    for name in built_in_schemas():
        schemas.add_row(name, ", ".join(Schema.load(name).names))
    out.print(grid, schemas, sep="")
