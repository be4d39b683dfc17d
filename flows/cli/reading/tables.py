"""The commands `equistrata replicate` and `equistrata export`, which create tables from a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from equistrata.errors import InputError
from equistrata.flows.cli.console import err, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Settings, setting, worker_setting
from equistrata.flows.run.foreground import progress_bars

if TYPE_CHECKING:
    from equistrata.analysis.release import Release


class ReplicateSettings(Settings):
    release: ByPlace[Path] = setting(..., "Folder of the release.")
    replicates: int = setting(50, "Number of tables.", ge=2, le=10_000)
    weights: int | None = setting(
        None, "Write one file of the rows with this number of replicate weights, instead of tables.", ge=2, le=1000
    )
    design_effect: float | None = setting(
        None,
        "Sampling variance for --weights, divided by that of a simple random sample. If not given, the largest "
        "number of rows of a unit.",
        ge=1,
    )
    output: Path = setting(
        ..., "Folder to create, with replicate-01.parquet and so on. With --weights, a .parquet or .csv file to create."
    )
    seed: int = setting(
        0,
        "Seed of the tables, so that they are reproducible. It can be public, because it does not protect anything.",
        ge=0,
    )
    workers: int = worker_setting("Number of tables that are made in parallel.")


@command("replicate", ReplicateSettings)
def replicate_command(settings: ReplicateSettings) -> None:
    """Write tables that are similar to the released table. Each of them corresponds to a different draw of the noise.

    There is no privacy cost. Run your program on the released rows and on each of these tables. The differences between
    the results can be used to estimate the error of the result for the released rows (see `equistrata.combine`).

    If --weights 80 is given, the rows are written with replicate weights instead. Survey packages use these weights to
    compute standard errors, which include both the privacy error and the sampling error (see docs/survey-weights.md).

    [bold]Examples[/bold]
      equistrata replicate my-release --replicates 50 --output my-replicates
      equistrata replicate my-release --weights 80 --output my-rows.parquet
    """
    from equistrata.analysis.release import Release
    from equistrata.flows.run.landing import check_output, claimed_output, rename_to_new

    release, count = Release.open(settings.release), settings.replicates
    if settings.weights is not None:
        if "replicates" in settings.model_fields_set:
            raise InputError("--replicates asks for tables, and --weights for a file of weights; give one of them")
        _write_weights(release, settings, settings.weights)
        return
    if settings.design_effect is not None:
        raise InputError("--design-effect only applies to replicate weights; give --weights as well, or leave it out")
    _ = release.evidence  # raises an error before anything is written if the release cannot be replicated
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


def _write_weights(release: Release, settings: ReplicateSettings, count: int) -> None:
    """Write the released rows with their replicate weights to one file."""
    from equistrata.flows.run.new_files import new_file

    kind = settings.output.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise InputError(
            f"rows with weights cannot be written to {settings.output.name!r}; name a .parquet or .csv file"
        )
    with new_file(settings.output) as hidden, progress_bars(err) as bar:
        bar("read", 0, 0)
        release.answers.progress = lambda done, of: bar("replicate", done, of)
        found = release.replicate_weights(count, settings.seed, settings.design_effect, settings.workers)
        rows = release.rows(labels=False).join(found)
        if kind == ".csv":
            rows.to_csv(hidden, index=False)
        else:
            rows.to_parquet(hidden, index=False)
    print_lines(f"{count} replicate weights in {settings.output}")


class ExportSettings(Settings):
    release: ByPlace[Path] = setting(..., "Folder of the release.")
    output: ByPlace[Path] = setting(
        ...,
        "File to create: .dta for Stata, .sav for SPSS (needs pyreadstat), .xml for DDI-Codebook or .json for "
        "OpenLineage.",
    )


@command("export", ExportSettings)
def export_command(settings: ExportSettings) -> None:
    """Export the rows to a file for Stata or SPSS, with the labels of the code book, or describe them without rows.

    A .xml file is a code book in DDI-Codebook 2.5, which archives and equistrata schema draft read. A .json file is an
    OpenLineage event, which contains the names of the job, of the data set on the card and of the columns.

    There is no privacy cost. The intervals that Stata and SPSS compute do not account for the noise. Use equistrata
    estimate or the replicates to compute intervals.

    [bold]Examples[/bold]
      equistrata export my-release my-release.dta
      equistrata export my-release my-release.xml
    """
    from equistrata.analysis.interchange.exports import export
    from equistrata.analysis.release import Release
    from equistrata.flows.run.new_files import check_new_file

    check_new_file(settings.output)
    export(Release.open(settings.release), settings.output)
    print_lines(f"exported {settings.output}")
