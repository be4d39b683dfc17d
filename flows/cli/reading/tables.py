"""`equistrata replicate` and `export`: tables that are made of a release, by who received its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from equistrata.errors import InputError
from equistrata.flows.cli.console import err, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Settings, setting
from equistrata.flows.run.foreground import progress_bars

if TYPE_CHECKING:
    from equistrata.analysis.release import Release


class ReplicateSettings(Settings):
    release: ByPlace[Path] = setting(..., "The release's folder.")
    replicates: int = setting(50, "How many tables.", ge=2, le=10_000)
    weights: int | None = setting(
        None, "Instead of tables, a file of the rows with so many replicate weights.", ge=2, le=1000
    )
    design_effect: float | None = setting(
        None, "Of the weights: sampling variance over that of rows drawn one by one (the most rows of a unit).", ge=1
    )
    output: Path = setting(
        ..., "Folder to make, with replicate-01.parquet and so on; of weights, a .parquet or .csv file."
    )
    seed: int = setting(0, "Makes them reproducible. Public: it protects nothing.", ge=0)
    workers: int = Field(
        default_factory=lambda: os.cpu_count() or 1, ge=1, description="Processes that make them side by side."
    )


@command("replicate", ReplicateSettings)
def replicate_command(settings: ReplicateSettings) -> None:
    """Write tables like the released one, each as another draw of the noise might have made it. It costs no privacy.

    Run a program on the released rows and on each of these; the results' distances from the released one say how far
    that is off (`equistrata.combine`).

    With --weights 80 each row gets replicate weights instead, by which survey packages find standard errors of what
    they estimate: privacy and sampling together (docs/survey-weights.md).

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
        raise InputError("--design-effect is of replicate weights, which --weights asks for; give both, or neither")
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


def _write_weights(release: Release, settings: ReplicateSettings, count: int) -> None:
    """The released rows with their replicate weights, in one file."""
    from equistrata.flows.run.new_files import new_file

    kind = settings.output.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise InputError(f"rows with weights are written to .parquet or .csv, not to {settings.output.name!r}")
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
