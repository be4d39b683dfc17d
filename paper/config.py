"""The configuration of an experiment: Prefect parameters and command-line options.

>>> ExperimentConfig.build(figure=5, quick=True).runs
2
>>> ExperimentConfig.build(figure=10)
Traceback (most recent call last):
equistrata.errors.InputError: setting 'figure' is 10, but it should be less than or equal to 9
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from equistrata.errors import InputError
from equistrata.flows.config.settings import Settings

if TYPE_CHECKING:
    from equistrata.data.sources import Source

SEEDS, QUICK_SEEDS = 5, 2


class ExperimentConfig(Settings):
    """Everything that decides a figure. Public settings only."""

    figure: int = Field(ge=1, le=9, description="The figure of the paper.")
    quick: bool = Field(False, description="Fewer seeds, places and strata: minutes instead of hours.")
    source: Literal["folktables", "sample"] = Field("folktables", description="Where the rows are from.")
    state: str = Field("NY", description="State, for source folktables.")
    year: int = Field(2024, ge=2014, description="Survey year, for source folktables.")
    root_dir: str = Field("acs", description="Folder with <year>/1-Year/psam_p….csv, for source folktables.")
    download: bool = Field(False, description="Let folktables download what is not there.")
    output: str = Field("experiments", description="Folder for figures, their data, and the runs behind them.")
    seeds: int | None = Field(None, ge=1, description="How many seeds (5; 2 with --quick).")
    workers: int | None = Field(None, ge=1, description="Processes (one for each core).")

    @property
    def runs(self) -> int:
        """The number of seeds."""
        return self.seeds or (QUICK_SEEDS if self.quick else SEEDS)

    @property
    def processes(self) -> int:
        """The number of worker processes."""
        return self.workers or os.cpu_count() or 1

    def rows(self) -> Source:
        """Where the rows are from. Raises InputError, with the way out, if they are not there."""
        from equistrata.data.sources import (  # pandas, which `equistrata --help` does without
            FolktablesSource,
            SampleSource,
        )

        if self.source == "sample":
            return SampleSource()
        source = FolktablesSource((self.state,), self.year, root_dir=self.root_dir, download=self.download)
        try:
            source.check(())
        except InputError as error:
            raise InputError(f"{error}; or try --source sample, the simulated rows that come along") from None
        return source
