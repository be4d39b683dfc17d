"""The free public audit: how far a release is expected to be off, as a page, JSON and CSV. Nothing private is in it.

Everything is made of numbers that were published already, so it costs no privacy and may be published.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from equistrata.eval.report.exhibits import LONGEST_COLUMN, LONGEST_WORDS, Exhibit
from equistrata.eval.report.findings import ReleaseFacts
from equistrata.eval.report.glance import USE, Bar, Contents, bars
from equistrata.eval.report.group_errors import Shown
from equistrata.eval.report.heat_maps import HeatMap
from equistrata.eval.report.page import data_uri
from equistrata.eval.report.pictures import DARK, LIGHT, SERIES, shorten, variables
from equistrata.eval.report.plots import DotPlot, Dots
from equistrata.eval.report.relations import relations_measured
from equistrata.eval.report.tables import Table
from equistrata.eval.report.templating import template
from equistrata.eval.report.words import count, groups_counted, percent, price, two_digits

FORMAT = "equistrata expected audit 1"
KIND = "expected"
CSV = "expected.csv"
SURE = (
    "On census tables the median group was off by 0.8 to 1.2 times what was expected, groups of fewer than ten people "
    "by one and a half times as much."
)
PAID = "A paid audit (--epsilon) compares with the private rows."


@dataclass(frozen=True)
class ExpectedReport:
    """A release and how far it is expected to be off.

    Attributes:
        title, agency, contact: of the page.
        release: what its card says.
        unit: what a neighbouring table differs by.
        grouping: the columns that define groups, in words; empty without any.
        sizes: group → its number of rows, about.
        distances: column → group → expected distance, as the scores have it, in [0, 1].
        parity_distance: as expected.
        counted: how many groups are expected to count in it.
        covered: the groups that are surely there, so that they may be called the worst served.
        called: column → what it is called.
        not_measured: pairs of columns that were not measured together, in words.
        replicates: how many models the numbers rest on.
        contents: what is in the release, if the page says that, too.
        sizes_apart: a sentence where released rows do not have the groups' measured sizes; empty else.
        noisy_rows: a sentence where the number of rows is noise; empty else.
        made, software: of this report.
    """

    title: str
    agency: str
    contact: str
    release: ReleaseFacts
    unit: str
    grouping: str
    sizes: Mapping[str, float]
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
    sizes_apart: str = ""
    noisy_rows: str = ""

    @property
    def relations(self) -> str:
        """What was measured together, in a sentence."""
        known = self.release.relations
        return "the card does not say it" if known is None else relations_measured(known, self.called)

    @property
    def order(self) -> list[str]:
        """The groups, worst served first, those that do not count last."""
        return sorted(self.sizes, key=lambda group: (group not in self.covered, -self.mean(group)))

    def mean(self, group: str) -> float:
        """A group's distance, averaged over columns."""
        return mean(each[group] for each in self.distances.values())

    def worst_column(self, group: str) -> str:
        """The column that is expected to be off most in a group."""
        return max(self.distances, key=lambda name: self.distances[name][group])

    @property
    def sentences(self) -> list[str]:
        """Who is served worst, whether groups' sizes are those of the table, and how sure that is."""
        worst, *others = self.order[: len(self.covered)] or self.order
        if len(self.order) == 1:
            said = f"A column's released distribution is expected to be off by {percent(self.mean(worst))} on average."
            return [said, *filter(None, [self.noisy_rows]), f"How sure this is: {SURE} {PAID}"]
        best, column, most = [worst, *others][-1], self.worst_column(worst), max(self.counted, 1.0)
        rest = len(self.order) - len(self.covered)
        small = f" Those that may be empty ({rest}) are not called best or worst." if rest else ""
        off = f"A column's released distribution there is off by {percent(self.mean(worst))} on average."
        if self.covered:
            first = f"Expected to be served worst: {worst} (about {count(self.sizes[worst])} rows). {off}"
            ends = f" Served best: {best}, {percent(self.mean(best))}."
        else:
            first = (
                f"Who is served worst is not known: each group has so few rows that it may be empty. Of {worst}: {off}"
            )
            ends = small = ""
        return [
            first,
            f"What is off most there: {self.called[column]}, {percent(self.distances[column][worst])}.{ends}",
            f"Expected parity distance: {two_digits(self.parity_distance)}, added up over "
            f"{groups_counted(most, len(self.order))}; 0 is best, {two_digits(most + 1 / most)} the most.{small}",
            *filter(None, [self.noisy_rows, self.sizes_apart]),
            f"How sure this is: {SURE} {PAID}",
        ]

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The groups that count, as bars."""
        order = self.order[: len(self.covered)] or self.order
        return bars(order, {group: self.mean(group) for group in order}, self.sizes)


def write_expected(report: ExpectedReport, folder: Path) -> Path:
    """Write `expected.html`, `expected.json` and `expected.csv` into an existing folder; return the page."""
    rows = [
        (group, f"{report.sizes[group]:.0f}", name, f"{report.distances[name][group]:.6g}")
        for group in report.order
        for name in report.distances
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("group", "rows", "column", "distance"), *rows])
    document = {"format": FORMAT, "sentences": report.sentences, "worst": report.order[0], **asdict(report)}
    del document["contents"]  # it is in the release
    document["covered"] = report.order[: len(report.covered)]
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
        sentences=report.sentences[:-1],
        sure=SURE,
        paid=PAID,
        use=USE,
        exhibits=[_by_group(report), _by_column(report)],
        files={CSV: table},
        title=report.title,
        kind=KIND,
        series=SERIES,
        light=variables(LIGHT),
        dark=variables(DARK),
    )


def _by_group(report: ExpectedReport) -> Exhibit:
    order = report.order
    best = order[max(len(report.covered), 1) - 1]
    panels = (
        Dots({KIND: {group: Shown(report.mean(group)) for group in order}}, "expected distance (log scale)"),
        Dots({KIND: {group: Shown(max(report.sizes[group], 1.0)) for group in order}}, "rows, about", shown=count),
    )
    small = ", those that may be empty last" if len(report.covered) < len(order) else ""
    reading = f"Each mark is a group, worst served first{small}. First how far its released distributions are "
    reading += "expected to be off, averaged over columns; then how many rows it has, about."
    words = {group: shorten(group, LONGEST_WORDS) for group in order}
    described = f"Worst: {order[0]}, {percent(report.mean(order[0]))}; best: {best}, {percent(report.mean(best))}."
    picture = DotPlot("groups", "How far each group is expected to be off", reading, described, panels, words)
    rows = tuple((group, count(report.sizes[group]), percent(report.mean(group))) for group in order)
    return Exhibit(picture, (Table("Expected distance by group", ("group", "rows, about", "distance"), rows),), CSV)


def _by_column(report: ExpectedReport) -> Exhibit:
    order = report.order
    reading = "Each cell is the expected distance of a column's released distribution in a group from the real one. "
    reading += "Cells are expectations, as sure as those of groups above, and do not say in which direction it is off."
    errors = {name: {group: Shown(of[group]) for group in order} for name, of in report.distances.items()}
    cells = [(of[group], name, group) for name, of in report.distances.items() for group in order]
    most, name, group = max(cells)
    described = f"The largest: {report.called[name]} of {group}, {percent(most)}."
    words = {group: shorten(group, LONGEST_WORDS) for group in order}
    called = [shorten(report.called[name], LONGEST_COLUMN) for name in report.distances]
    picture = HeatMap("cells", "Expected distance by column and group", reading, described, errors, words, called)
    headings = ("group", *(report.called[name] for name in report.distances))
    rows = tuple((group, *(percent(of[group]) for of in report.distances.values())) for group in order)
    return Exhibit(picture, (Table("Expected distance by column and group", headings, rows),), CSV)
