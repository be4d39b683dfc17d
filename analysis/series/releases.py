"""A series of releases: its months and what they cost, the course of a statistic, revised months, and its people.

What does not hold is found in `equistrata.analysis.series.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.analysis.axes import has_asked
from equistrata.analysis.headings import IN_MONTHS, heading
from equistrata.analysis.questions import Of
from equistrata.analysis.release import Release
from equistrata.analysis.series.checks import own_rho, series_faults
from equistrata.analysis.series.revised import revised_months
from equistrata.analysis.verify import has_measurements
from equistrata.errors import InputError
from equistrata.synth.series.state import STATE, State

COURSES = ("count", "proportion", "mean", "quantile", "median")  # statistics of which each group has one number a month


@dataclass(frozen=True, eq=False)
class SeriesOfReleases:
    """The releases of one series, in order.

    Attributes:
        name, horizon: of the series.
        releases: by month, from 1; months may be missing.
    """

    name: str
    horizon: int
    releases: Mapping[int, Release]

    @classmethod
    def open(cls, folders: Sequence[str | Path]) -> SeriesOfReleases:
        """Check every folder's manifest and read its card.

        Raises InputError for no folder, one that is no release of a series, several series, or a month twice.
        """
        found: dict[int, Release] = {}
        names, horizons = set[str](), set[int]()
        for folder in folders:
            release = Release.open(folder)
            said = release.card.get("series")
            if said is None:
                raise InputError(f"release {str(folder)!r} is of no series; leave it out, or verify it by itself")
            month = said["month"]
            names.add(said["name"])
            horizons.add(said["horizon"])
            if month in found:
                raise InputError(
                    f"month {month} is there twice, in {str(found[month].folder)!r} and {str(folder)!r}; leave one out"
                )
            found[month] = release
        if len(names) != 1 or len(horizons) != 1:
            raise InputError("give the folders of one series: they are " + (", ".join(sorted(names)) or "none"))
        return cls(names.pop(), horizons.pop(), dict(sorted(found.items())))

    @property
    def missing(self) -> list[int]:
        """Months before the last one that are not there."""
        return [month for month in range(1, max(self.releases)) if month not in self.releases]

    def table(self) -> pd.DataFrame:
        """A line for each month: `month`, `folder`, `rho`, and of the series so far `rho_so_far`, `epsilon_so_far`."""
        lines = [
            (month, str(release.folder), own_rho(release), _said(release)["rho"], _said(release)["epsilon"])
            for month, release in self.releases.items()
        ]
        return pd.DataFrame(lines, columns=["month", "folder", "rho", "rho_so_far", "epsilon_so_far"])

    def course(
        self,
        statistic: str,
        of: Of = None,
        by: str | Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        level: float = 0.95,
        q: float = 0.5,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> pd.DataFrame:
        """A statistic month by month, as each month's own measurements tell it.

        Args:
            statistic: one of COURSES; it and the others as for `equistrata.analysis.release.Release.estimate`.
            progress: gets how many months of how many are done.

        Returns:
            A line for each month and group: `month`, then as `Release.estimate`. No line for a month that is missing,
            nor for one where the release lacks a column or a value of the question, if another month has them.

        Raises InputError as `Release.estimate`, with the month, and for a statistic that has no course.

        Cost: none.
        """
        if statistic not in COURSES:
            raise InputError(f"{statistic!r} has no course; choose among {', '.join(COURSES)}")
        values = {**(of if isinstance(of, Mapping) else {}), **(where or {})}
        names = [*([of] if isinstance(of, str) else []), *([by] if isinstance(by, str) else by)]
        asked = [month for month, release in self.releases.items() if has_asked(release.schema, names, values)]
        if len({self.releases[month].schema.survey_weight is None for month in asked}) == 2:
            raise InputError(
                "some months count people, and others, without a survey weight, rows; give the folders of one kind"
            )
        found = []
        for done, (month, release) in enumerate(self.releases.items()):
            progress(done, len(self.releases))
            if asked and month not in asked:
                continue
            try:
                lines = release.estimate(statistic, of, by, where, level, q=q)
            except InputError as error:
                raise InputError(f"month {month} ({str(release.folder)!r}): {error}") from None
            lines = lines.rename(columns=lambda name: heading(name, IN_MONTHS))
            lines.insert(0, "month", month)
            found.append(lines)
        progress(len(self.releases), len(self.releases))
        return pd.concat(found, ignore_index=True)

    @property
    def chain(self) -> list[int]:
        """The latest month and those that it learned from, one from the other, in order.

        Raises InputError if one of them is not here.
        """
        found = [max(self.releases)]
        while (former := self.releases[found[0]].card["series"]["former"]) is not None:
            if former["month"] not in self.releases:
                raise InputError(
                    f"month {found[0]} learned from month {former['month']}, which is not here; give its folder as well"
                )
            found.insert(0, former["month"])
        return found

    def revised(self) -> pd.DataFrame:
        """What the months of the `chain` together say of each of them: see `equistrata.synth.series.smoothing`.

        Returns:
            A line for each month and each cell of each marginal that it or a former month measured: `month`; `columns`,
            those of the marginal; each column of the schema, with the released value (a bin by its words; of merged
            codes all, joined by " or "), empty where the marginal lacks it; `then` and `then_error`, the count as that
            month's state has it, and its standard error; `revised` and `revised_error`. Where rows were held out,
            counts and errors are those of all rows, as answers' are.

        Raises InputError if the series does not hold (`faults`), or a month of the chain is not here.

        Cost: none.
        """
        chain = self.chain
        if found := self.faults():
            raise InputError(f"series {self.name!r} does not hold, so nothing is revised: " + "; ".join(found))
        return revised_months(self.releases, chain)

    @property
    def not_followed(self) -> list[int]:
        """Months with a state that an earlier version made: whether it follows from measurements is not checked."""
        kept = {month: release for month, release in self.releases.items() if has_measurements(release)}
        return [month for month, release in kept.items() if State.load(release.folder / STATE).earlier]

    def faults(self) -> list[str]:
        """A sentence for each thing that does not hold; none for an honest series."""
        return series_faults(self.releases, self.horizon)


def _said(release: Release) -> Mapping[str, Any]:
    said: Mapping[str, Any] = release.card["series"]["so_far"]
    return said
