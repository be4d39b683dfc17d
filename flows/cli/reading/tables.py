"""`equistrata replicate` and `export`: tables that are made of a release, by who received its folder."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from equistrata.flows.cli.console import err, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Settings, setting
from equistrata.flows.run.foreground import progress_bars


class ReplicateSettings(Settings):
    release: ByPlace[Path] = setting(..., "The release's folder.")
    replicates: int = setting(50, "How many tables.", ge=2, le=10_000)
    output: Path = setting(..., "Folder to make, with replicate-01.parquet and so on.")
    seed: int = setting(0, "Makes them reproducible. Public: it protects nothing.", ge=0)
    workers: int = Field(
        default_factory=lambda: os.cpu_count() or 1, ge=1, description="Processes that make them side by side."
    )


@command("replicate", ReplicateSettings)
def replicate_command(settings: ReplicateSettings) -> None:
    """Write tables like the released one, each as another draw of the noise might have made it. It costs no privacy.

    Run a program on the released rows and on each of these; the results' distances from the released one say how far
    that is off (`equistrata.combine`).

    [bold]Example[/bold]: equistrata replicate my-release --replicates 50 --output my-replicates
    """
    from equistrata.analysis.release import Release
    from equistrata.flows.run.landing import check_output, claimed_output, rename_to_new

    release, count = Release.open(settings.release), settings.replicates
    _ = release.evidence  # what cannot be replicated is said before anything is written
    check_output(settings.output)
    with claimed_output(settings.output) as hidden, progress_bars(err) as bar:
        made = hidden / "tables"
        made.mkdir()
        bar("replicate", 0, count)
        tables = release.replicates(count, settings.seed, labels=False, workers=settings.workers)
        for number, rows in enumerate(tables, start=1):
            rows.to_parquet(made / f"replicate-{number:0{len(str(count))}d}.parquet", index=False)
            bar("replicate", number, count)
        rename_to_new(made, hidden.parent / settings.output.name)
    print_lines(f"{count} tables in {settings.output}")


class ExportSettings(Settings):
    release: ByPlace[Path] = setting(..., "The release's folder.")
    output: ByPlace[Path] = setting(..., "File to make: .dta for Stata, .sav for SPSS (with pyreadstat).")


@command("export", ExportSettings)
def export_command(settings: ExportSettings) -> None:
    """The rows for Stata or SPSS, with the code book's words as labels. Costs no privacy.

    Intervals of those packages know nothing of the noise: use equistrata estimate, or replicates.

    [bold]Example[/bold]: equistrata export my-release my-release.dta
    """
    from equistrata.analysis.exports import export
    from equistrata.analysis.release import Release
    from equistrata.flows.run.new_files import check_new_file

    check_new_file(settings.output)
    export(Release.open(settings.release), settings.output)
    print_lines(f"exported {settings.output}")
