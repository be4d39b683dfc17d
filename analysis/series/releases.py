"""A series of releases: its months and their prices, a statistic over time, and revised months.

The checks of a series are in `equistrata.analysis.series.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equistrata.analysis.axes import has_names_and_values
from equistrata.analysis.headings import IN_MONTHS, heading
from equistrata.analysis.questions import Of
from equistrata.analysis.release import Release
from equistrata.analysis.series.checks import month_rho, series_faults
from equistrata.analysis.series.revised import revised_months
from equistrata.analysis.verify import has_measurements
from equistrata.errors import InputError
from equistrata.synth.series.state import STATE, State

COURSES = ("count", "proportion", "mean", "quantile", "median")  # statistics with one number per group and month


@dataclass(frozen=True, eq=False)
class SeriesOfReleases:
    """The releases of one series in order.

    Attributes
    ----------
    name : str
        The name of the series.
    horizon : int
        The planned number of months.
    releases : mapping of int to Release
        The releases by month, starting with 1. Months may be missing.
    """

    name: str
    horizon: int
    releases: Mapping[int, Release]

    @classmethod
    def open(cls, folders: Sequence[str | Path]) -> SeriesOfReleases:
        """Open the folders of a series.

        Parameters
        ----------
        folders : sequence of str or Path
            The release folders, one per month.

        Returns
        -------
        SeriesOfReleases
            The series.

        Raises
        ------
        InputError
            If there are no folders, if a folder is not a release of a series, if the folders belong to several series,
            or if a month occurs twice.
        """
        found: dict[int, Release] = {}
        names, horizons = set[str](), set[int]()
        for folder in folders:
            release = Release.open(folder)
            said = release.card.get("series")
            if said is None:
                raise InputError(
                    f"release {str(folder)!r} does not belong to a series; leave it out, or check it with equistrata "
                    "verify"
                )
            month = said["month"]
            names.add(said["name"])
            horizons.add(said["horizon"])
            if month in found:
                raise InputError(
                    f"month {month} is given twice, in {str(found[month].folder)!r} and {str(folder)!r}; leave one out"
                )
            found[month] = release
        if len(names) != 1 or len(horizons) != 1:
            raise InputError(
                "the folders must belong to one series, but belong to: " + (", ".join(sorted(names)) or "none")
            )
        return cls(names.pop(), horizons.pop(), dict(sorted(found.items())))

    @property
    def missing(self) -> list[int]:
        """The missing months, not including months after the last release."""
        return [month for month in range(1, max(self.releases)) if month not in self.releases]

    def table(self) -> pd.DataFrame:
        """Return a data frame with one row per month.

        The columns are `month`, `folder`, `rho`, and the total price so far, `rho_so_far` and `epsilon_so_far`.
        """
        lines = [
            (month, str(release.folder), month_rho(release), _said(release)["rho"], _said(release)["epsilon"])
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
        weighted: bool | None = None,
    ) -> pd.DataFrame:
        """Estimate a statistic for each month from the measurements of this month.

        Parameters
        ----------
        statistic : str
            One of `COURSES`.
        of, by, where, level, q
            See `equistrata.analysis.release.Release.estimate`.
        progress : callable
            A function that is called with the number of completed months and the number of all months.
        weighted : bool, optional
            If False, rows of the files are counted in each month, not people.

        Returns
        -------
        DataFrame
            One row for each month and group, with `month` and the columns of `Release.estimate`. Missing months are
            left out. If a release does not have a column or a value of the question, its month is left out as well,
            unless all of the months lack it.

        Raises
        ------
        InputError
            If `Release.estimate` raises it, if the statistic is not in `COURSES`, or if some months count people and
            others count rows.

        Notes
        -----
        This is post-processing, so it costs no privacy.
        """
        if statistic not in COURSES:
            raise InputError(f"{statistic!r} cannot be estimated by month; choose among {', '.join(COURSES)}")
        values = {**(of if isinstance(of, Mapping) else {}), **(where or {})}
        names = [*([of] if isinstance(of, str) else []), *([by] if isinstance(by, str) else by)]
        asked = [
            month for month, release in self.releases.items() if has_names_and_values(release.schema, names, values)
        ]
        people = {self.releases[month].schema.survey_weight is not None for month in asked or self.releases}
        if len(people) == 2 and weighted is None:
            raise InputError(
                "some months count people, but others have no survey weight and count rows of the file; ask about rows "
                "in each month (weighted=False, or --unweighted)"
            )
        found = []
        for done, (month, release) in enumerate(self.releases.items()):
            progress(done, len(self.releases))
            if asked and month not in asked:
                continue
            try:
                lines = release.estimate(statistic, of, by, where, level, q=q, weighted=weighted)
            except InputError as error:
                raise InputError(f"month {month} ({str(release.folder)!r}): {error}") from None
            lines = lines.rename(columns=lambda name: heading(name, IN_MONTHS))
            lines.insert(0, "month", month)
            found.append(lines)
        progress(len(self.releases), len(self.releases))
        return pd.concat(found, ignore_index=True)

    @property
    def chain(self) -> list[int]:
        """The latest month and all months that it depends on, in order.

        Raises InputError if one of these months is missing.
        """
        found = [max(self.releases)]
        while (former := self.releases[found[0]].card["series"]["former"]) is not None:
            if former["month"] not in self.releases:
                raise InputError(
                    f"month {found[0]} learned from month {former['month']}, which is missing; give its folder as well"
                )
            found.insert(0, former["month"])
        return found

    def revised(self) -> pd.DataFrame:
        """Estimate each month from all months of the `chain`. See `equistrata.synth.series.smoothing`.

        Returns
        -------
        DataFrame
            One row for each month and for each cell of the marginals. A marginal is included if it was measured in this
            month or in an earlier month. `columns` contains the columns of the marginal. There is one column for each
            column of the schema with the released value. It contains the words of a bin, or all merged codes joined by
            " or ", and it is empty if the marginal does not include the column. `then` and `then_error` are the count
            in the state of this month and its standard error. `revised` and `revised_error` are the revised count and
            its standard error. As in estimates, counts and errors include the rows that were held out.

        Raises
        ------
        InputError
            If the series fails a check (see `faults`), or if a month of the chain is missing.

        Notes
        -----
        This is post-processing, so it costs no privacy.
        """
        chain = self.chain
        if found := self.faults():
            raise InputError(f"series {self.name!r} is not valid, so no estimate was revised: " + "; ".join(found))
        return revised_months(self.releases, chain)

    @property
    def not_followed(self) -> list[int]:
        """The months with a state from an earlier version, which cannot be checked against the measurements."""
        kept = {month: release for month, release in self.releases.items() if has_measurements(release)}
        return [month for month, release in kept.items() if State.load(release.folder / STATE).earlier]

    def faults(self) -> list[str]:
        """Return one sentence per problem of the series. An honest series has none."""
        return series_faults(self.releases, self.horizon)


def _said(release: Release) -> Mapping[str, Any]:
    said: Mapping[str, Any] = release.card["series"]["so_far"]
    return said
