"""The commands `equistrata schema check` and `equistrata sources`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from equistrata.data.files.formats import KINDS, NAMES
from equistrata.errors import InputError
from equistrata.flows.cli.console import note, out, print_json, print_lines, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting

if TYPE_CHECKING:
    from equistrata.data.misfits import Misfit
    from equistrata.data.schema import Schema
    from equistrata.data.table_check import TableCheck
    from equistrata.data.units.unit import Unit


MOST_SHOWN = 20  # the largest number of values that are shown for a column


class CheckSettings(Settings):
    schema_: ByPlace[str] = setting(..., "Schema file, or name of a built-in schema.", alias="schema")
    input: Path | None = setting(None, f"Table ({NAMES}) to check against the schema.")
    coded: Flag = setting(False, "The table contains released codes.")
    show: Flag = setting(
        False,
        f"Print the values that do not fit, up to {MOST_SHOWN} per column. They are private, so this works in a "
        "terminal only.",
    )
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("schema check", CheckSettings)
def schema_check(settings: CheckSettings) -> None:
    """Check a schema file, and check whether a table fits it. All problems are listed.

    The exit code is 2 if there are any problems. All default columns of the schema must exist, and all declared columns
    in the table must fit. The number of cells that do not fit is exact, so it is private. The values that are printed
    with --show are private as well. They must not be shown to other people who are not allowed to see the rows.

    [bold]Example[/bold]: equistrata schema check people.yaml --input people.csv
    """
    from equistrata.data.problems import declared_names, load_with_problems
    from equistrata.data.table_check import TableCheck, check_table

    if settings.show and not out.is_terminal:
        raise InputError("--show prints values of private rows, so it only works in a terminal; leave it out")
    schema, problems = load_with_problems(settings.schema_)
    check = None
    if schema is not None and settings.input is not None:
        used, declared = schema.coded() if settings.coded else schema, declared_names(settings.schema_)
        try:
            check = check_table(settings.input, used, declared, MOST_SHOWN if settings.show else 0)
        except InputError as error:
            if not problems:
                raise
            check = TableCheck(of_file=(str(error),))  # reported together with the problems of the schema
    if settings.input is not None and out.is_terminal and not settings.as_json:
        _print_readings(settings.input, settings.schema_, schema)
    units = None if check is None else check.unit_rows
    if settings.as_json:
        print_json(_document(settings, schema, problems, check))
    else:
        _print(settings, schema, problems, check)
        if schema is not None and not problems:
            for line in [*_about_formulas(schema), *_about_units(schema.unit, units)]:
                out.print(line, highlight=False, soft_wrap=True)
    if problems:
        raise InputError(f"schema {settings.schema_} has problems; correct what is listed")
    if schema is not None and schema.unit.unique and len(units or ()) > 1:
        raise InputError(
            f"several rows have the same {schema.unit.column!r}, which schema {settings.schema_} declares as unique; "
            "add 'at_most' to its unit, or correct the file"
        )
    if check and not check.fits:
        assert settings.input is not None
        raise InputError(f"file {settings.input.name!r} does not fit the schema; correct what is listed")


def _print_readings(path: Path, source: str, schema: Schema | None) -> None:
    """Print the number of rows that fit each answer to an open question."""
    from equistrata.data.table_check import count_rows_by_declaration

    if found := count_rows_by_declaration(path, source, schema):
        grid = table(
            f"{escape(path.name)}: rows that each reading fits (exact: private)", "question", "reading", ">rows"
        )
        for name, said, fit, rows in found:
            grid.add_row(escape(name), escape(said), f"{fit:,} of {rows:,}")
        out.print(grid)


def _about_formulas(schema: Schema) -> list[str]:
    """Return a note about declared values that a spreadsheet would interpret as formulas."""
    from equistrata.data.columns.column import like_a_formula

    listed = [column for column in schema.columns if not column.open]
    columns = [column.name for column in listed if any(like_a_formula(str(key)) for key in column.keys)]
    if not columns:
        return []
    return [
        f"Note: values of {_some(columns)} begin with =, +, - or @, and a spreadsheet reads them as formulas if it "
        "opens the CSV file. They are released as they are declared; if readers may open it so, use 'recode'."
    ]


def _about_units(unit: Unit, sizes: Sequence[int] | None) -> list[str]:
    """Describe the unit of privacy, or ask for it if none is declared."""
    if unit.column is None:
        return [
            "Unit of privacy: one row. If a person or household can have several rows (visits, claims, months), "
            "declare the column that identifies them, and the largest number of rows that are used of each, so that "
            "these rows are protected together: unit: {column: NAME, at_most: ROWS}."
        ]
    said = [f"Unit of privacy: {escape(unit.words)}."]
    if sizes is not None:
        units, rows = sum(sizes), sum(count * size for size, count in enumerate(sizes, start=1))
        cut = sum(count * max(size - unit.at_most, 0) for size, count in enumerate(sizes, start=1))
        said.append(
            f"{units:,} units of up to {len(sizes)} rows; using at most {unit.at_most} of each leaves out {cut:,} rows "
            f"({cut / max(rows, 1):.2%}; exact: private)."
        )
    return said


def _document(
    settings: CheckSettings, schema: Schema | None, problems: list[str], check: TableCheck | None
) -> dict[str, Any]:
    fits = not problems and (check is None or check.fits)
    document: dict[str, Any] = {"schema": settings.schema_, "fits": fits, "problems": problems}
    if schema is not None and not problems:
        document |= {"name": schema.name, "digest": schema.digest}
        document["unit"] = {"column": schema.unit.column, "at_most": schema.unit.at_most, "unique": schema.unit.unique}
        document |= {} if check is None or check.unit_rows is None else {"units_by_rows": check.unit_rows}
    if check is not None:
        document |= {"input": str(settings.input), "rows": check.rows}
        document["misfits"] = [_plain(*each) for each in check.found]
        document["unchecked"] = [*check.badly_declared, *check.not_there, *check.twice, *check.not_declared]
        document |= {"file": check.of_file} if check.of_file else {}
    return document


def _plain(misfit: Misfit, remedy: str) -> dict[str, Any]:
    plain = {"columns": list(misfit.columns), "fault": misfit.fault, "cells": misfit.cells, "distinct": misfit.distinct}
    return plain | ({"values": list(misfit.values)} if misfit.values else {}) | {"remedy": remedy}


def _print(settings: CheckSettings, schema: Schema | None, problems: list[str], check: TableCheck | None) -> None:
    for problem in problems:
        note("[bold red]schema:[/]", problem)
    if schema is not None and not problems:
        out.print(_declared(schema))
        for rule in schema.compared:
            out.print(f"Rule: {escape(rule)}.", highlight=False, soft_wrap=True)
        count, target = len(schema.impossible), escape(schema.target or "none")
        out.print(f"{count} impossible combinations by what is declared; target: {target}.")
    if settings.input is None:
        return
    name = escape(settings.input.name)
    if check is None:
        out.print(f"{name} was not checked, because no column is declared correctly.", soft_wrap=True)
        return
    for fault in check.of_file:
        note("[bold red]file:[/]", fault)
    if check.found:
        title = f"{name}, {check.rows:,} rows: what does not fit (exact: private)"
        grid = table(title, "column", "what", ">cells", ">distinct", *(["values"] if settings.show else []))
        for each, _ in check.found:
            distinct = "—" if each.distinct is None else f"{each.distinct:,}"
            cells = f"{each.cells:,}" if each.cells else "—"
            values = [escape("; ".join(each.values))] if settings.show else []
            grid.add_row(escape(" × ".join(each.columns)), each.fault, cells, distinct, *values)
        out.print(grid)
        print_lines(*_remedies(check, settings))
    elif check.rows and (problems or check.of_file):
        more = ", as far as it was checked" * bool(check.of_file)
        out.print(f"{name} fits the columns that are declared correctly{more}.", soft_wrap=True)
    elif check.fits:
        out.print(f"[green]{name} fits the schema.[/]")
    kinds = {
        "declared incorrectly": check.badly_declared,
        "not in the file and not released by default": check.not_there,
        "twice in the file": check.twice,
        "not declared": check.not_declared,
    }
    unchecked = "; ".join(f"{_some(names)} ({why})" for why, names in kinds.items() if names)
    if unchecked:
        print_lines(f"Not checked: {unchecked}.")


def _remedies(check: TableCheck, settings: CheckSettings) -> list[str]:
    """Return one line for all columns with the same fault and the same remedy."""
    named: dict[tuple[str, str], list[str]] = {}
    for each, remedy in check.found:
        see = bool(each.distinct) and not settings.show
        more = "; --show prints them" if see else ""
        named.setdefault((each.fault, remedy + more), []).append(" × ".join(each.columns))
    return [f"{_some(names)}: {fault}; {remedy}." for (fault, remedy), names in named.items()]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _declared(schema: Schema) -> Table:
    # The card contains the digest of the schema of the released columns, which differs from the digest of the file.
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
    """List the sources of rows and the built-in schemas."""
    from equistrata.data.declaration import built_in_schemas
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
