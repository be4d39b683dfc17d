"""A series from the folders of its releases alone: the course of a statistic, and checks of what months cost, together
too, and of their chain.

Each month names the state of the series that it learned from by its digest, so the chain ends in the first month's own
measurements. A state follows from the one before it and a month's measurements, and is computed again here. No model is
made, so ten years of months take seconds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equistrata.analysis.axes import has_asked, named
from equistrata.analysis.headings import IN_MONTHS, IN_REVISED, heading
from equistrata.analysis.panel import (
    chain_faults,
    panel_of,
    people_faults,
    rows_of_people,
    same_state,
    shown_cells,
    shown_transitions,
)
from equistrata.analysis.questions import Of
from equistrata.analysis.release import Release
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.verify import has_measurements, price_faults
from equistrata.arrays import Floats
from equistrata.data.files.manifest import MEND
from equistrata.errors import InputError
from equistrata.synth.measurements import Former
from equistrata.synth.series.drift import Month, filtered
from equistrata.synth.series.fitting import after
from equistrata.synth.series.smoothing import smoothed
from equistrata.synth.series.state import State, alike, of_strata

STATE = "series.json"
COURSES = ("count", "proportion", "mean", "quantile", "median")  # statistics of which each group has one number a month
SAME = 1e-9  # relative


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
            if not isinstance(said, Mapping):
                raise InputError(f"release {str(folder)!r} is of no series; leave it out, or verify it by itself")
            try:
                month = int(said["month"])
                names.add(str(said["name"]))
                horizons.add(int(said["horizon"]))
                _ = said["so_far"]["rho"], said["at_its_end"]["rho"], said["at_its_end"]["epsilon"], said["former"]
            except (KeyError, TypeError, ValueError):
                raise InputError(f"card.json of release {str(folder)!r} does not say its series; {MEND}") from None
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
            (month, str(release.folder), _own(release), _said(release)["rho"], _said(release)["epsilon"])
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
        first: State | None = None
        months, before = list[Month](), self.releases[chain[0]]
        for number in chain:
            release = self.releases[number]
            strata, own = release.strata, of_strata(release.strata, release.evidence.measured)
            if first is None:
                first = State.of(number, own)
            else:
                state = months[-1].state if months else first
                known = state.fitting(strata, before.strata.schema)
                months.append(filtered(strata.schema, strata.columns, known, number, own))
            before = release
        assert first is not None
        states = [first, *(month.state for month in months)]
        lines = [
            _cells(self.releases[number].evidence, number, then, now)
            for number, state, revised in zip(chain, states, smoothed(first, months), strict=True)
            for then, now in zip(state.known, revised, strict=True)
        ]
        names = dict.fromkeys(name for number in chain for name in self.releases[number].strata.schema.names)
        numbers = ["then", "then_error", "revised", "revised_error"]
        headings = [heading(name, IN_REVISED) for name in names]
        return pd.concat(lines, ignore_index=True).reindex(columns=["month", "columns", *headings, *numbers])

    @property
    def not_followed(self) -> list[int]:
        """Months with a state that an earlier version made: whether it follows from measurements is not checked."""
        kept = {month: release for month, release in self.releases.items() if has_measurements(release)}
        return [month for month, release in kept.items() if State.load(release.folder / STATE).earlier]

    def faults(self) -> list[str]:
        """A sentence for each thing that does not hold; none for an honest series."""
        found: list[str] = []
        states: dict[int, State | None] = {}
        for month, release in self.releases.items():
            what = f"month {month} ({str(release.folder)!r})"
            found += [f"{what}: {fault}" for fault in price_faults(release)]
            found += [
                f"{what} {fault}"
                for fault in (
                    *self._sums(month, release),
                    *self._chain(month, release, states),
                    *self._people(release),
                )
            ]
        return found

    def _sums(self, month: int, release: Release) -> Iterator[str]:
        """What is wrong with the sums on a card."""
        series, first = release.card["series"], next(iter(self.releases.values())).card["series"]
        if series["at_its_end"] != first["at_its_end"]:
            yield "states another budget of the series than the first one"
        month_one, books = next(iter(self.releases.items()))
        if _books(release) != _books(books):
            yield f"was charged to another ledger or data set than month {month_one}, so sums of the two say nothing"
        if not series["so_far"]["rho"] <= series["at_its_end"]["rho"] * (1 + SAME):
            yield "says that the series has cost more than its budget"
        if month > self.horizon:
            yield f"is beyond the horizon of {self.horizon} months"
        before = 0.0 if month == 1 else None
        if month - 1 in self.releases:
            before = float(self.releases[month - 1].card["series"]["so_far"]["rho"])
        own = series["so_far"]["rho"] - (before or 0.0)
        if before is not None and not math.isclose(own, _own(release), rel_tol=1e-6):
            yield f"costs ρ = {_own(release):.6g}, but the series grew by {own:.6g}: a release between was not counted"

    def _chain(self, month: int, release: Release, states: dict[int, State | None]) -> Iterator[str]:
        """What is wrong with what a month learned from; its state is added to `states`."""
        states[month] = None
        if not has_measurements(release):
            return
        state = State.load(release.folder / STATE)
        states[month] = state
        former, known = release.card["series"]["former"], None
        if former is None and month > min(self.releases):
            yield "has learned from no month before it"
            return
        if former is not None:
            before = self.releases.get(former["month"])
            if before is None:
                return
            if _digest(before) != former["state"]:
                yield f"has learned from another month {former['month']} than is there"
                return
            same = alike(release.strata.schema, before.strata.schema)
            anew = [name for name in release.strata.schema.names if name not in same]
            if former.get("anew", anew) != anew:  # earlier cards do not say it
                yield f"does not say which columns month {former['month']} says nothing about"
            known = states.get(former["month"])
            known = known and known.fitting(release.strata, before.strata.schema)
        if state.earlier:
            return
        again = after(release.strata, known, month, release.evidence.measured)[1]
        if not same_state(state, again):
            yield "has a state that does not follow from the month before and its own measurements"

    def _people(self, release: Release) -> Iterator[str]:
        """What is wrong with the people of a month and with those that it follows."""
        try:
            yield from people_faults(release)
            panel = panel_of(release)
            former = None if panel is None or panel.former is None else panel.former["month"]
            yield from chain_faults(release, None if former is None else self.releases.get(former))
        except InputError as error:
            yield f"has no panel that can be followed: {error}"

    def people(self, labels: bool = False) -> pd.DataFrame:
        """The synthetic people of the panel over the months: a line for each of them and month.

        Args:
            labels: categorical columns with their words instead of released values.

        Returns:
            `synthetic_id`, `month`, and the released columns (empty in months that lack one), people after each other
            and their months in order. Months without a panel are left out. Where the panel began anew, so do the ids.

        Raises InputError if no month has a panel.

        Cost: none.
        """
        found = rows_of_people(self.releases, labels)
        if found is None:
            raise InputError(f"no month of series {self.name!r} has a panel; make its releases with --panel")
        return found

    def transitions(self) -> pd.DataFrame:
        """How people of the panel change: a line for each month after its first, and column.

        Returns:
            `month`, `since` (the month that it follows), `stayed`, `left`, `came`; `column`; `measured`, the share of
            people in both months who change their value, with `low` and `high` (95 %), as the month's own joint counts
            tell it; `expected`, what the synthetic people were to do (all months together, drawn towards persistence);
            `realised`, what they do. Of a column that was not measured in the month nothing is known: `measured` is
            empty, from 0 to 1, and `realised` is no evidence. Without any column, one line without a column.

        Cost: none.
        """
        return shown_transitions(self.releases)

    def transition_cells(self) -> pd.DataFrame:
        """Of the people with one value in the month before, the share with each value now, of measured columns.

        Returns:
            `month`, `since`, `column`, `before`, `now`, `people` (the measured number of them), `share`, `low`, `high`
            (95 %), as the month's own joint counts tell it. From 0 to 1 where they tell nothing.

        Cost: none.
        """
        return shown_cells(self.releases)


def _cells(evidence: Evidence, month: int, then: Former, now: Former) -> pd.DataFrame:
    """The lines of one marginal: see `SeriesOfReleases.revised`. Counts are of all rows, those held out among them."""
    schema, held_out = evidence.strata.schema, evidence.held_out
    places = np.indices(then.values.shape).reshape(then.values.ndim, then.values.size)
    values: dict[str, Any] = {name: named(schema[name])[code] for name, code in then.where}
    for name, groups, place in zip(then.columns, then.groups, places, strict=True):
        called = list(named(schema[name]))
        if groups is not None:
            parts = [
                [str(word) for word, own in zip(called, groups, strict=True) if own == g]
                for g in range(max(groups) + 1)
            ]
            called = [" or ".join(part) for part in parts]
        values[name] = [called[code] for code in place]
    columns = ", ".join(name for name in schema.names if name in values)
    found = dict[str, Floats]()
    alike = 1 if schema.weighed else schema.unit.at_most  # rows of a unit are held out together
    for name, each in (("then", then), ("revised", now)):
        counts = each.values.ravel()
        variance = each.sigmas.ravel() ** 2 + held_out * alike * np.maximum(counts, 0.0)
        found |= {name: counts / (1 - held_out), f"{name}_error": np.sqrt(variance) / (1 - held_out)}
    called_by = {heading(name, IN_REVISED): words for name, words in values.items()}
    return pd.DataFrame({"month": month, "columns": columns, **called_by, **found})


def _own(release: Release) -> float:
    guarantee = release.card["guarantee"]
    return float(guarantee.get("release", guarantee)["rho"])


def _books(release: Release) -> tuple[Any, Any]:
    """The ledger, and its data set, that a release was charged to, by its card."""
    ledger = release.card.get("ledger")
    return (ledger.get("ledger"), ledger.get("dataset")) if isinstance(ledger, Mapping) else (None, None)


def _said(release: Release) -> Mapping[str, Any]:
    said: Mapping[str, Any] = release.card["series"]["so_far"]
    return said


def _digest(release: Release) -> str:
    try:
        with (release.folder / STATE).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
