"""`equistrata series panel`: the people of a series over its months, and how they change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("series panel", PanelOfSeriesSettings)
def panel_of_series(settings: PanelOfSeriesSettings) -> None:
    """The people of a series with a panel: how they change from month to month, and their rows over the months.

    It costs no privacy. [bold]Example[/bold]: equistrata series panel releases --output people-2026.parquet
    """
    from equistrata.analysis.series import SeriesOfReleases

    series = SeriesOfReleases.open(release_folders([settings.series], settings.folder))
    if settings.output is not None:
        _write_new(series.people(settings.labels), settings.output)
    found = series.transitions()
    lines = found.astype(object).where(found.notna(), None).to_dict("records")
    if settings.as_json:
        return print_json({"series": series.name, "transitions": lines})
    if found.empty:
        return print_lines("no month has a panel that follows another month")
    grid = table(
        Text(f"panel of series {series.name}"), ">month", ">stayed", ">left", ">came", "column", ">changed", ">of rows"
    )
    for line in lines:
        people = (f"{line[name]:,}" for name in ("stayed", "left", "came"))
        if line["column"] is None:
            grid.add_row(str(line["month"]), *people, "none is known", "", "")
            continue
        changed = f"{line['changed']:.2%} ± {1.96 * line['error']:.2%}" + " ·" * (not line["clear"])
        grid.add_row(str(line["month"]), *people, Text(line["column"]), changed, f"{line['realised']:.2%}")
    out.print(grid)
    print_lines("changed: share of people, as measured over the months (95 %); of rows: of the synthetic people")
    if not all(line["clear"] for line in lines):
        print_lines("·: below the noise floor, so drawn towards persistence")
    if settings.output is not None:
        print_lines(f"written: {settings.output}")
    return None


def _write_new(frame: pd.DataFrame, path: Path) -> None:
    """Write a table to a new file. Raises InputError if it exists, or has another ending, or cannot be written."""
    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"{str(path)!r} ends in neither .csv nor .parquet; name the file so")
    if path.exists():
        raise InputError(f"{str(path)!r} exists already; choose another --output, or remove it")
    try:
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False)
    except OSError:
        raise InputError(f"{str(path)!r} cannot be written; check its folder") from None
