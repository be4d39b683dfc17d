"""The commands `equistrata series show | course | verify | revise`.

The first command uses the ledger. The others only use the folders of the releases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from equistrata.errors import InputError
from equistrata.flows.cli.budget import LedgerSettings
from equistrata.flows.cli.console import err, out, print_json, print_lines, table, warnings_as_notes
from equistrata.flows.cli.options import command
from equistrata.flows.cli.reading.asking import (
    MOST_LINES,
    conditions,
    labels_of,
    noisy,
    parse_statistic,
    print_answers,
    shown_number,
    sparkline,
    words_of,
)
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, setting
from equistrata.flows.run.foreground import progress_bars

if TYPE_CHECKING:
    from equistrata.analysis.release import Release
    from equistrata.analysis.series.releases import SeriesOfReleases
    from equistrata.privacy.ledger.ledger import Charge, Ledger


class ShowSeriesSettings(LedgerSettings):
    series: ByPlace[str] = setting(..., "Name of the series.")
    dataset: str | None = setting(None, "Data set of the series, if several data sets have a series of this name.")
    folder: Path = setting(Path(), "Folder that contains the releases.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


class VerifySeriesSettings(Settings):
    releases: ByPlace[tuple[str, ...]] = setting(
        ..., "Folders of the releases, a folder that contains them, or the name of a series in --folder."
    )
    folder: Path = setting(Path(), "Folder that contains the releases, if a series is given by its name.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


class CourseSettings(Settings):
    series: ByPlace[str] = setting(..., "Folder that contains the releases, or the name of a series in --folder.")
    asked: ByPlace[tuple[str, ...]] = setting(
        ...,
        "Statistic of each month (count, proportion, mean, quantile, median) and its COLUMN or COLUMN=VALUE.",
    )
    folder: Path = setting(Path(), "Folder that contains the releases, if a series is given by its name.")
    by: Names = setting((), "Columns that define groups, such as SEX,RAC1P.")
    where: Names = setting((), "Use only rows with these values, such as SEX=Female,DIS=1.")
    level: float = setting(0.95, "Coverage of the intervals.", gt=0, lt=1)
    q: float = setting(0.5, "Quantile to estimate.", gt=0, lt=1)
    unweighted: Flag = setting(False, "Count rows instead of people if a month has a survey weight.")
    plot: Path | None = setting(None, "Draw a panel for each group to this file (.svg, .png or .pdf).")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


class ReviseSettings(Settings):
    series: ByPlace[str] = setting(..., "Folder that contains the releases, or the name of a series in --folder.")
    folder: Path = setting(Path(), "Folder that contains the releases, if a series is given by its name.")
    output: Path = setting(..., "Folder to create, with revised.csv and revised.json.")


@command("series show", ShowSeriesSettings)
def show_series(settings: ShowSeriesSettings) -> None:
    """Show the months of a series with their costs, the total cost and the remaining budget, using the ledger.

    [bold]Example[/bold]: equistrata series show people-2026 --ledger ledger.db --folder releases
    """
    from equistrata.flows.release.series import folders_of
    from equistrata.privacy.budget import Rho
    from equistrata.privacy.ledger.series import series_of

    books, name = settings.open(), settings.series
    dataset, charges = _charges(books, name, settings.dataset)
    series = series_of([charge.entry for charge in charges])[name]
    folders = folders_of(settings.folder, name, (books.identity, dataset))
    months: dict[str, list[Charge]] = {}
    for charge in charges:
        if series.mark in charge.entry.parts:
            months.setdefault(str(charge.entry.release_id), []).append(charge)
    so_far, lines = Rho(0), []
    for month, (release, own) in enumerate(months.items(), start=1):
        price = sum((charge.entry.rho for charge in own), start=Rho(0))
        so_far += price
        outcomes = {charge.outcome for charge in own}
        lines.append(
            {
                "month": month,
                "release": release,
                "folder": str(folders[release]) if release in folders else None,
                "outcome": outcomes.pop() if len(outcomes) == 1 else "reserved",
                "rho": float(price),
                "epsilon_so_far": so_far.epsilon(series.delta),
            }
        )
    left = series.total - so_far
    rest = {
        "rho": float(left),
        "months": max(series.horizon - len(months), 0),
        "epsilon_at_its_end": series.epsilon,
        "delta": series.delta,
    }
    if settings.as_json:
        return print_json({"series": name, "dataset": dataset, "months": lines, "left": rest, "head": str(books.head)})
    title = f"series {name} of {dataset}: {series.horizon} months at ε = {series.epsilon:g}, δ = {series.delta:g}"
    grid = table(Text(title), ">month", "release", "folder", "outcome", ">ρ", ">ε so far")
    for line in lines:
        numbers = f"{line['rho']:.4g}", f"{line['epsilon_so_far']:.4g}"
        shown = Path(str(line["folder"])).name if line["folder"] else ""  # --json prints the whole path
        grid.add_row(
            *map(Text, (str(line["month"]), str(line["release"]), shown, str(line["outcome"]))),
            *numbers,
        )
    out.print(grid)
    print_lines(f"left: ρ = {float(left):.6g} for {rest['months']} more months", f"head {books.head}")
    return None


@command("series course", CourseSettings)
def course_of_series(settings: CourseSettings) -> None:
    """Estimate a statistic for each month of a series and each group, with intervals. There is no privacy cost.

    [bold]Example[/bold]: equistrata series course releases proportion ESR=1 --by SEX,RAC1P --plot course.svg
    """
    from equistrata.analysis.series.releases import SeriesOfReleases
    from equistrata.flows.cli.reading.figure import check_plot

    if settings.plot is not None:
        check_plot(settings.plot)
    if not 1 <= len(settings.asked) <= 2:
        raise InputError("give equistrata series course SERIES STATISTIC [COLUMN]")
    statistic, of = settings.asked[0], settings.asked[1] if settings.asked[1:] else None
    series = SeriesOfReleases.open(release_folders([settings.series], settings.folder))
    latest = _latest_answering_release(series, of, settings.where)
    with warnings_as_notes(), progress_bars(err) as bar:
        found = series.course(
            statistic,
            parse_statistic(latest, of),
            settings.by,
            conditions(latest, settings.where),
            settings.level,
            settings.q,
            lambda done, months: bar("months", done, months),
            False if settings.unweighted else None,
        )
    labels = [name for name in labels_of(found) if name != "month"]
    courses = {
        ", ".join(words_of(latest, name, value) for name, value in zip(labels, group, strict=True)) or "all": lines
        for group, lines in (found.groupby(labels, sort=False, dropna=False) if labels else [((), found)])
    }
    if settings.plot is not None:
        from equistrata.flows.cli.reading.figure import draw_courses

        draw_courses(courses, " ".join([statistic, of or ""]).strip(), settings.level, settings.plot)
    if settings.as_json:
        return print_answers(found)
    months = [month for month in series.releases if found["month"].min() <= month <= found["month"].max()]
    readable = found["estimate"].mask(noisy(found))
    low, high = float(readable.min()), float(readable.max())
    spans = f">month {months[0]}", f"month {months[0]} to {months[-1]}", f">month {months[-1]}"
    title = Text(f"series {series.name}: {' '.join(settings.asked)}")
    whom = str(found["counted"].iloc[0]) if "counted" in found else "rows"
    grid = table(
        title, ", ".join(labels) or whom, *spans, *(f">{each}" for each in (f"{settings.level:.0%} from", "to"))
    )
    for name, lines in list(courses.items())[:MOST_LINES]:
        values = lines.set_index("month").reindex(months)
        course = sparkline(values["estimate"].mask(noisy(values)).tolist(), low, high)
        numbers = [
            shown_number(values["estimate"].iloc[0]),
            *map(shown_number, values.iloc[-1][["estimate", "lower", "upper"]]),
        ]
        grid.add_row(Text(name), numbers[0], course, *numbers[1:])
    out.print(grid)
    if "counted" in found:
        print_lines(f"of {whom}, by {latest.schema.survey_weight}")
    if noisy(found).any():
        print_lines("· marks noise: the interval is as wide as the value")
    if len(courses) > MOST_LINES:
        print_lines(f"{len(courses) - MOST_LINES:,} more groups; --json has them all")
    if series.missing:
        print_lines(f"missing: month {', '.join(map(str, series.missing))}")
    if unasked := [month for month in series.releases if month not in set(found["month"])]:
        print_lines(f"month {', '.join(map(str, unasked))}: the release lacks a column or a value of the question")
    return None


def _latest_answering_release(series: SeriesOfReleases, of: str | None, where: Sequence[str]) -> Release:
    """Return the latest release with all columns of the question. If there is none, return the latest release."""
    for release in reversed(list(series.releases.values())):
        try:
            parse_statistic(release, of), conditions(release, where)
        except InputError:
            continue
        return release
    return series.releases[max(series.releases)]


@command("series verify", VerifySeriesSettings)
def verify_series(settings: VerifySeriesSettings) -> None:
    """Check the files, prices and sums of a series, and that each month has learned from the previous one.

    The check only uses the folders and not the ledger. [bold]Example[/bold]: equistrata series verify releases
    """
    from equistrata.analysis.series.releases import SeriesOfReleases

    series = SeriesOfReleases.open(release_folders(settings.releases, settings.folder))
    found, lines, skipped = series.faults(), series.table(), series.not_followed
    if settings.as_json:
        months = lines.to_dict("records")
        print_json({"series": series.name, "months": months, "faults": found, "not_followed": skipped})
    else:
        grid = table(Text(f"series {series.name}"), ">month", "folder", ">ρ", ">ε so far")
        for line in lines.to_dict("records"):
            numbers = f"{line['rho']:.4g}", f"{line['epsilon_so_far']:.4g}"
            grid.add_row(str(line["month"]), Text(line["folder"]), *numbers)
        out.print(grid)
        if series.missing:
            print_lines(f"missing: month {', '.join(map(str, series.missing))}, which was not checked")
        if skipped:
            print_lines(
                f"month {', '.join(map(str, skipped))}: the state was made by an earlier version, so it was not "
                "checked against the measurements"
            )
        if not found:
            print_lines("the series is valid: files, prices, sums, and what each month learned from")
    if found:
        raise InputError(f"series {series.name!r} is not valid: " + "; ".join(found))


@command("series revise", ReviseSettings)
def revise_series(settings: ReviseSettings) -> None:
    """Write revised counts of each month to a new folder, using all months of a series. There is no privacy cost.

    The releases are not changed. A later month changes the estimates for former months, so the counts are marked as
    revised, together with the months that were used. [bold]Example[/bold]: equistrata series revise releases --output
    revised-to-june
    """
    from equistrata.analysis.series.releases import SeriesOfReleases
    from equistrata.flows.run.landing import check_output, claimed_output, rename_to_new

    series = SeriesOfReleases.open(release_folders([settings.series], settings.folder))
    check_output(settings.output)
    found = series.revised()
    about = {
        "what": "REVISED counts of a series: estimates for each month from all of these months, by the series' "
        "own model of drift. They are not a release and do not replace one, because each new month changes them.",
        "series": series.name,
        "months": {str(month): series.releases[month].card["ledger"]["release_id"] for month in series.chain},
        "columns": {
            "then": "the expected count, estimated in that month; then_error is its standard error",
            "revised": "the expected count, estimated from all of these months; revised_error is its standard error",
        },
        "privacy": "post-processing of published noisy numbers; no cost beyond the series'",
    }
    with claimed_output(settings.output) as hidden:
        made = hidden / "revised"
        made.mkdir()
        found.to_csv(made / "revised.csv", index=False)
        (made / "revised.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", "utf-8")
        rename_to_new(made, hidden.parent / settings.output.name)
    months = series.chain
    print_lines(f"{len(found):,} counts of months {months[0]} to {months[-1]}, revised, in {settings.output}")
    left_out = sorted({*series.releases} - {*months})
    if left_out:
        print_lines(f"not revised: month {', '.join(map(str, left_out))}, because no later month learned from it")


def release_folders(releases: Sequence[str], below: Path) -> list[Path]:
    """Return the folders of releases.

    An argument can be a release, a folder that contains releases, or the name of a series.
    """
    from equistrata.analysis.contents.card import read_card
    from equistrata.flows.release.series import folders_of

    found: list[Path] = []
    for named in releases:
        path = Path(named)
        if (path / "card.json").exists():
            found.append(path)
        elif path.is_dir():
            every = [each.parent for each in sorted(path.glob("*/card.json"))]
            found += [folder for folder in every if read_card(folder).get("series")]
        else:
            own = list(folders_of(below, named).values())
            if not own:
                raise InputError(
                    f"{named!r} is not a folder, and --folder contains no release of a series of that name"
                )
            found += own
    return found


def _charges(books: Ledger, name: str, dataset: str | None) -> tuple[str, Sequence[Charge]]:
    """Return the data set that has a series with this name, and its charges.

    If it is not unique, raise an InputError.
    """
    from equistrata.privacy.ledger.series import series_of

    names = [account.dataset for account in books.accounts()] if dataset is None else [dataset]
    found = {each: books.charges(each) for each in names}
    found = {each: own for each, own in found.items() if name in series_of([charge.entry for charge in own])}
    if len(found) != 1:
        where = (
            f"several data sets ({', '.join(found)}); choose one with --dataset"
            if found
            else "no data set of this ledger; correct its name"
        )
        raise InputError(f"series {name!r} is in {where}")
    return next(iter(found.items()))
