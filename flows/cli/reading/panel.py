"""`equistrata series panel`: the people of a series over its months, and how they change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from equistrata.errors import InputError
from equistrata.flows.cli.console import out, print_json, print_lines, table
from equistrata.flows.cli.options import command
from equistrata.flows.cli.reading.series import release_folders
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting

if TYPE_CHECKING:
    import pandas as pd


class PanelOfSeriesSettings(Settings):
    series: ByPlace[str] = setting(..., "A folder that holds its releases, or its name below --folder.")
    folder: Path = setting(Path(), "Where the releases of a series that is named lie.")
    output: Path | None = setting(None, "Write a line for each person and month to this file (.csv or .parquet).")
    labels: Flag = setting(False, "Write words instead of codes.")
    cells: Flag = setting(False, "Print as well which value follows which, of columns that were measured.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("series panel", PanelOfSeriesSettings)
def panel_of_series(settings: PanelOfSeriesSettings) -> None:
    """The people of a series with a panel: how they change from month to month, and their rows over the months.

    It costs no privacy. [bold]Example[/bold]: equistrata series panel releases --output people-2026.parquet
    """
    from equistrata.analysis.series.releases import SeriesOfReleases

    series = SeriesOfReleases.open(release_folders([settings.series], settings.folder))
    if settings.output is not None:
        _write_new(series.people(settings.labels), settings.output)
    found, cells = series.transitions(), series.transition_cells()
    lines = _records(found)
    if settings.as_json:
        return print_json({"series": series.name, "transitions": lines, "cells": _records(cells)})
    if found.empty:
        return print_lines("no month has a panel that follows another month")
    grid = table(
        Text(f"panel of series {series.name}"), ">month", ">stayed", ">left", ">came", "column", ">changed", ">of rows"
    )
    for month, own in found.groupby("month"):
        people = [f"{own.iloc[0][name]:,}" for name in ("stayed", "left", "came")]
        known = _records(own[own["expected"].notna()])
        for line in known:
            grid.add_row(str(month), *people, Text(line["column"]), _share(line), f"{line['realised']:.2%}")
        if not known:
            grid.add_row(str(month), *people, "none is known", "", "")
    out.print(grid)
    print_lines("changed: share of people, as measured in the month (95 %); of rows: of the synthetic people")
    other = found[found["expected"].isna() & found["column"].notna()].groupby("column", sort=False)["realised"].mean()
    if len(other):
        shares = ", ".join(f"{name} {share:.2%}" for name, share in other.items())
        print_lines(
            "not measured, so uninformative; synthetic people change in them, though nobody may, a month on average: "
            + shares
        )
    if settings.cells and not cells.empty:
        grid = table(Text("of people by their value before"), ">month", "column", "before", "now", ">share")
        for cell in _records(cells.rename(columns={"share": "measured"})):
            words = (Text(str(cell[name])) for name in ("column", "before", "now"))
            grid.add_row(str(cell["month"]), *words, _share(cell))
        out.print(grid)
    if settings.output is not None:
        print_lines(f"written: {settings.output}")
    return None


def _share(line: Mapping[str, Any]) -> str:
    """A measured share with its interval."""
    if line["measured"] is None or (line["low"] <= 0 and line["high"] >= 1):
        return "uninformative"
    return f"{line['measured']:.2%} ({line['low']:.2%} to {line['high']:.2%})"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(key): value for key, value in line.items()}
        for line in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def _write_new(frame: pd.DataFrame, path: Path) -> None:
    """Write a table to a new file. Raises InputError if it exists, or has another ending, or cannot be written."""
    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"{str(path)!r} ends in neither .csv nor .parquet; name the file so")
    from equistrata.flows.run.new_files import new_file

    with new_file(path) as made:
        if path.suffix == ".csv":
            frame.to_csv(made, index=False)
        else:
            frame.to_parquet(made, index=False)
