"""The free public audit, which reports the expected error of a release as an HTML page, a JSON file and a CSV file.

All numbers are computed from numbers that were already published. Therefore the audit has no privacy cost, contains
nothing private, and may be published.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from statistics import mean

from equistrata.eval.report.bars import NOT_KNOWN, USE, Bar, Contents, bars
from equistrata.eval.report.charts import HEAT_WORDS, LETTERS, Chart, Panel, shade
from equistrata.eval.report.exhibits import LONGEST_WORDS, Exhibit
from equistrata.eval.report.findings import ReleaseFacts
from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.page import data_uri
from equistrata.eval.report.pictures import DARK, LIGHT, SERIES, shorten, variables
from equistrata.eval.report.relations import HOW_KEPT, relations_kept, relations_measured
from equistrata.eval.report.tables import Table
from equistrata.eval.report.templating import template
from equistrata.eval.report.words import (
    count,
    first_names,
    groups_counted,
    odds_change,
    percent,
    price,
    rows_in_words,
    two_digits,
)

FORMAT = "equistrata expected audit 1"
KIND = "expected"
CSV = "expected.csv"
HEADINGS = ("group", "rows", "rows_lower", "rows_upper", "known", "column", "distance")
SURE = (
    "In tests, the error of the median group was 0.8 to 1.2 times the expected error, or 1.5 times for groups of fewer "
    "than ten rows. A group that is different from all other groups may have a larger error."
)
PAID = "A public audit with --epsilon compares the release with the private rows, at a privacy cost."


@dataclass(frozen=True)
class ExpectedReport:
    """A release and its expected errors.

    Parameters
    ----------
    title, agency, contact : str
        The title, the agency and the contact on the page.
    release : ReleaseFacts
        The information on the card of the release.
    unit : str
        The unit of privacy in words, which is the difference between neighbouring tables.
    grouping : str
        The columns that define the groups, in words. Empty if there are no groups.
    sizes : mapping of str to float
        The estimated number of rows in each group.
    limits : mapping of str to tuple of two float
        The 95 % interval of the number of rows in each group. The upper end is infinite if nothing was measured.
    distances : mapping of str to mapping of str to float
        The expected distance of each column in each group, as defined by the scores, in [0, 1].
    parity_distance : float
        The expected parity distance.
    counted : float
        The expected number of groups that are counted in the parity distance.
    covered : frozenset of str
        The groups that certainly have rows. The errors of all other groups are not known.
    called : mapping of str to str
        The name of each column that is shown to readers.
    not_measured : tuple of str
        The pairs of columns that were not measured together, in words.
    replicates : int
        The number of models from which the expected errors were computed.
    made, software : str
        The time at which this report was made, and the software that made it.
    contents : Contents, optional
        The content of the release, if the page also describes it.
    people : mapping of str to float
        The sum of the released weights in each group. Empty if there is no survey weight.
    """

    title: str
    agency: str
    contact: str
    release: ReleaseFacts
    unit: str
    grouping: str
    sizes: Mapping[str, float]
    limits: Mapping[str, tuple[float, float]]
    distances: Mapping[str, Mapping[str, float]]
    parity_distance: float
    counted: float
    covered: frozenset[str]
    called: Mapping[str, str]
    not_measured: tuple[str, ...]
    replicates: int
    made: str
    software: str
    contents: Contents | None = None
    people: Mapping[str, float] = field(default_factory=dict)

    @property
    def relations(self) -> str:
        """Return a sentence about the pairs of columns that were measured together."""
        known = self.release.relations
        return "the card does not contain this information" if known is None else relations_measured(known, self.called)

    @property
    def kept(self) -> list[str]:
        """Return the relations that the rows preserve, and those for which this is not known."""
        return relations_kept(self.release.relations or {}, self.called)

    @property
    def unknown(self) -> list[str]:
        """Return the groups for which the error is not known, because they may have no rows or almost no rows."""
        return [group for group in self.sizes if group not in self.covered] if len(self.sizes) > 1 else []

    @property
    def known(self) -> list[str]:
        """Return the other groups in decreasing order of the expected error."""
        unknown = {*self.unknown}
        return sorted((group for group in self.sizes if group not in unknown), key=lambda group: -self.mean(group))

    @property
    def order(self) -> list[str]:
        """Return the groups in the order of figures and tables, in which groups with an unknown error are first."""
        return [*self.unknown, *self.known]

    @property
    def rows(self) -> dict[str, str]:
        """Return the interval of the number of rows of each group, in words."""
        return {group: rows_in_words(*ends) for group, ends in self.limits.items()}

    def off(self, group: str) -> str:
        """Return the expected error of a group, in words."""
        return NOT_KNOWN if group in self.unknown else percent(self.mean(group))

    def mean(self, group: str) -> float:
        """Return the expected distance of a group, averaged over the columns."""
        return mean(each[group] for each in self.distances.values())

    def worst_column(self, group: str) -> str:
        """Return the column with the largest expected distance in a group."""
        return max(self.distances, key=lambda name: self.distances[name][group])

    @property
    def opening(self) -> list[str]:
        """Return sentences about the groups with an unknown error and about the largest known error."""
        unknown, known, groups = self.unknown, self.known, len(self.sizes)
        if groups == 1:
            off = percent(self.mean(known[0]))
            return [f"The released distributions of the columns are expected to be off by {off} on average."]
        said = []
        if unknown:
            named = first_names([f"{group} ({self.rows[group]} rows)" for group in unknown])
            said.append(
                f"The error is not known for {len(unknown)} of {groups} groups, because their released rows may be "
                f"noise: {named}."
            )
        if known:
            first, column = known[0], self.worst_column(known[0])
            of = f"{first} ({self.rows[first]} rows)"
            which = f"Of the other {len(known)} groups, the largest" if unknown else "The largest"
            which = f"{which} expected error is that of {of}" if known[1:] else f"Only {of} can be judged"
            said.append(
                f"{which}: its released distributions are expected to be off by {percent(self.mean(first))}, averaged "
                f"over columns, and by {percent(self.distances[column][first])} in {self.called[column]}."
            )
        return said

    @property
    def promise(self) -> str:
        """Return the privacy cost in words, as a bound on the information that is released about one unit."""
        release = self.release
        return f"ε = {price(release.epsilon)}: {odds_change(release.epsilon, release.delta, release.odds_on)}."

    @property
    def details(self) -> list[str]:
        """Return a sentence about the expected parity distance. The list is empty if there is only one group."""
        if len(self.sizes) == 1:
            return []
        most = max(self.counted, 1.0)
        return [
            f"Expected parity distance: {two_digits(self.parity_distance)}. It is summed over "
            f"{groups_counted(most, len(self.order))}. 0 means no error; the maximum is {two_digits(most + 1 / most)}.",
        ]

    @property
    def sentences(self) -> list[str]:
        """Return the first sentences of the page, and a sentence about the accuracy of the expected errors."""
        return [*self.opening, *self.details, f"How sure this is: {SURE} {PAID}"]

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Return the groups as bars."""
        off, people = {group: self.mean(group) for group in self.known}, {g: count(n) for g, n in self.people.items()}
        return bars(self.unknown, self.known, off, self.rows, people)


def write_expected(report: ExpectedReport, folder: Path) -> Path:
    """Write the report to `expected.html`, `expected.json` and `expected.csv`.

    Parameters
    ----------
    report : ExpectedReport
        The report to write.
    folder : Path
        The folder for the files, which must exist.

    Returns
    -------
    Path
        The path of the HTML page.
    """
    ends = {
        group: [f"{end:.0f}" if isfinite(end) else "" for end in (report.sizes[group], *report.limits[group])]
        for group in report.order
    }
    people = {group: [f"{report.people[group]:.0f}"] if report.people else [] for group in report.order}
    rows = [
        (
            group,
            *ends[group],
            *people[group],
            "no" if group in report.unknown else "yes",
            name,
            f"{report.distances[name][group]:.6g}",
        )
        for group in report.order
        for name in report.distances
    ]
    headings = (*HEADINGS[:4], *(["people"] if report.people else []), *HEADINGS[4:])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headings, *rows])
    document = {"format": FORMAT, "sentences": report.sentences, **asdict(report)}
    del document["contents"]  # the release already has it
    if not report.people:
        del document["people"], document["release"]["people"]
    document |= {"covered": report.known, "unknown": report.unknown}
    document["limits"] = {
        group: [end if isfinite(end) else None for end in ends] for group, ends in report.limits.items()
    }
    (folder / CSV).write_text(text.getvalue(), "utf-8")
    plain = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "expected.json").write_text(plain + "\n", "utf-8")
    page = folder / "expected.html"
    page.write_text(_html(report, text.getvalue()), "utf-8")
    return page


def _html(report: ExpectedReport, table: str) -> str:
    filters = {"price": price, "data_uri": data_uri}
    page = template(Path(__file__).with_name("templates") / "expected.html.j2", **filters)
    return page.render(
        report=report,
        about=report,
        release=report.release,
        sure=SURE,
        paid=PAID,
        use=USE,
        how_kept=HOW_KEPT,
        exhibits=[_by_group(report), _by_column(report)],
        files={CSV: table},
        title=report.title,
        kind=KIND,
        series=SERIES,
        light=variables(LIGHT),
        dark=variables(DARK),
        heat=HEAT_WORDS,
    )


def _by_group(report: ExpectedReport) -> Exhibit:
    order = report.order
    sizes = {
        group: ReportedNumber(min(max(report.sizes[group], low, 1.0), max(high, 1.0)), low, high)
        for group, (low, high) in report.limits.items()
    }
    panels = (
        Panel({KIND: sizes}, "rows (log scale)", shown=count, letters=LETTERS // 2),
        Panel({KIND: _shown(report, report.mean)}, "expected distance (log scale)", letters=LETTERS // 2),
    )
    first = " Groups with an unknown error come first." if report.unknown else ""
    reading = (
        "Each line is a group. The number of its rows is on the left. Its expected error, averaged over columns, is "
    )
    reading += f"on the right.{first}"
    words = {group: shorten(group, LONGEST_WORDS) for group in order}
    described = f"A dot plot of {len(order)} groups. {' '.join(report.opening)}"
    title = "Expected error of each group"
    chart = Chart("groups", title, reading, described, {"": (words, panels)}, ["estimate"], interval="95 % interval")
    people = {group: (count(report.people[group]),) if report.people else () for group in order}
    rows = tuple((group, report.rows[group], *people[group], report.off(group)) for group in order)
    headings = ("group", "rows (95 % interval)", *(["people (sum of weights)"] if report.people else []), "distance")
    table = Table("Expected distance by group", headings, rows)
    return Exhibit(title, reading, chart, (table,), CSV)


def _by_column(report: ExpectedReport) -> Exhibit:
    title = "Expected distance by column and group"
    reading = (
        "Each cell is the expected distance between the released and the real distribution of a column in a group. "
    )
    reading += "It does not show the direction of the error. The cells are as uncertain as the errors in figure 1."
    errors = [_shown(report, of.__getitem__) for of in report.distances.values()]
    headings = ("group", *(report.called[name] for name in report.distances))
    rows = tuple(
        (group, *(of[group].note or percent(of[group].value or 0.0) for of in errors)) for group in report.order
    )
    shades = tuple(tuple(shade(of[group].value) for of in errors) for group in report.order)
    return Exhibit(title, reading, None, (Table(title, headings, rows, shades),), CSV)


def _shown(report: ExpectedReport, number: Callable[[str], float]) -> dict[str, ReportedNumber]:
    """Return a number for each group, without a value if the error of the group is not known."""
    unknown = {*report.unknown}
    return {
        group: ReportedNumber(None, note=NOT_KNOWN) if group in unknown else ReportedNumber(number(group))
        for group in report.order
    }
