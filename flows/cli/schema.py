"""`equistrata schema check` and `equistrata sources`."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from equistrata.flows.cli.console import out, table
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting


class CheckSettings(Settings):
    schema_: ByPlace[str] = setting(..., "Schema file or built-in name.", alias="schema")
    input: Path | None = setting(None, "A CSV or Parquet table to check against it.")
    coded: Flag = setting(False, "The table holds released codes.")


@command("schema check", CheckSettings)
def schema_check(settings: CheckSettings) -> None:
    """Check a schema file, and that a table fits it.

    [bold]Example[/bold]: equistrata schema check people.yaml --input people.csv
    """
    from equistrata.data.schema import Schema
    from equistrata.data.sources import FileSource
    from equistrata.data.table import CodedTable

    loaded = Schema.load(settings.schema_)
    if settings.input is not None:
        used = loaded.coded() if settings.coded else loaded
        names = used.default or used.names
        for frame in FileSource(str(settings.input)).batches(names):
            CodedTable.encode(frame, used.select(names))
    title, digest = f"schema {escape(loaded.name)}", f"SHA-256 {loaded.digest[:16]}…"
    grid = table(title, "column", "kind", "codes", "missing", "label", caption=digest)
    for column in loaded.columns:
        kind = "values" if not column.numeric else f"{column.lower:g} to {column.upper:g}"
        codes = f"{column.size}" + " (fine bins)" * column.fine
        missing = "—" if column.missing is None else str(column.missing)
        grid.add_row(escape(column.name), kind, codes, escape(missing), escape(column.label))
    out.print(grid)
    out.print(f"{len(loaded.impossible)} impossible combinations declared; target: {escape(loaded.target or 'none')}.")
    if settings.input is not None:
        out.print(f"[green]{escape(settings.input.name)} fits the schema.[/]")


@command("sources", Settings)
def sources_command(_: Settings) -> None:
    """List where rows can come from, and the schemas that come along."""
    from equistrata.data.schema import Schema, built_in_schemas

    grid = table("sources", "--source", "what it is", "needs")
    grid.add_row("sample", "simulated people, built in, offline (the default)", "nothing")
    grid.add_row("folktables", "US census ACS person records", "--state, --year, --root-dir or --download")
    for kind in ("csv", "parquet"):
        grid.add_row(kind, "your table, one row per person", "--input, --schema")
    schemas = table("built-in schemas", "--schema", "columns")
    for name in built_in_schemas():
        schemas.add_row(name, ", ".join(Schema.load(name).names))
    out.print(grid, schemas, sep="")
