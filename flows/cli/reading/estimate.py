"""The command `equistrata estimate`, which computes estimates with intervals from a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from equistrata.analysis.statistics.names import STATISTICS
from equistrata.errors import InputError
from equistrata.flows.cli.console import err, out, print_lines, table, warnings_as_notes
from equistrata.flows.cli.options import command
from equistrata.flows.cli.reading.asking import (
    BOTH,
    MOST_LINES,
    PARTS,
    conditions,
    labels_of,
    parse_statistic,
    print_answers,
    shown_number,
    words_of,
    words_of_term,
)
from equistrata.flows.config.settings import ByPlace, Flag, Names, Settings, setting, worker_setting
from equistrata.flows.run.foreground import progress_bars

if TYPE_CHECKING:
    import pandas as pd

    from equistrata.analysis.release import Release

WIDTH, LEAST_WIDTH = 30, 12  # width of a drawn interval, which is left out if there is not enough space
LABEL = 14  # the number of characters of a label before it is wrapped


class EstimateSettings(Settings):
    release: ByPlace[Path] = setting(..., "Folder of the release.")
    asked: ByPlace[tuple[str, ...]] = setting(
        ...,
        f"Statistic ({', '.join(STATISTICS)}) and its column. COLUMN=VALUE means the rows with this value, which "
        "can be a code, its label, or a range such as 15-24. With --difference, the folder of a later release "
        "comes first.",
    )
    by: Names = setting(
        (),
        "Columns that define groups, such as SEX,RAC1P. For a regression, the explanatory variables (SEX*DIS for "
        "an interaction).",
    )
    where: Names = setting((), "Use only rows with these values, such as SEX=Female,DIS=1.")
    level: float = setting(0.95, "Coverage of the intervals.", gt=0, lt=1)
    difference: Flag = setting(False, "Estimate the change from the first of two releases to the second.")
    population: Flag = setting(False, "Estimate the population from which the table was sampled.")
    design_effect: float | None = setting(
        None,
        "Sampling variance, divided by that of a simple random sample. If not given, the largest number of rows "
        "of a unit, because they may be similar.",
        ge=1,
    )
    q: float = setting(0.5, "Quantile to estimate.", gt=0, lt=1)
    unweighted: Flag = setting(False, "Count rows instead of people if the release has a survey weight.")
    workers: int = worker_setting("Processes that fit replicates in parallel.")
    plot: Path | None = setting(None, "Draw the intervals to this file (.svg, .png or .pdf).")
    as_json: Flag = setting(False, "Print JSON.", alias="json")

    @property
    def question(self) -> tuple[Path | None, str, str | None]:
        """The folder of a later release, the statistic and its column.

        Raises
        ------
        InputError
            If the arguments are not valid.
        """
        later, rest = (Path(self.asked[0]), self.asked[1:]) if self.difference and self.asked else (None, self.asked)
        if not 1 <= len(rest) <= 2:
            form = "FORMER LATER --difference STATISTIC [COLUMN]" if self.difference else "RELEASE STATISTIC [COLUMN]"
            raise InputError(
                f"the arguments do not fit; write equistrata estimate {form}, or compare two releases with --difference"
            )
        if rest[0] not in STATISTICS:
            raise InputError(f"{rest[0]!r} is not a statistic; choose among {', '.join(STATISTICS)}")
        return later, rest[0], rest[1] if rest[1:] else None


@command("estimate", EstimateSettings)
def estimate_command(settings: EstimateSettings) -> None:
    """Estimate a statistic from a release, with an interval that accounts for the noise and the model.

    There is no privacy cost.

    [bold]Examples[/bold]
      equistrata estimate my-release proportion ESR=1 --by SEX
      equistrata estimate my-release difference ESR=1 --by RAC1P --population
      equistrata estimate my-release independence DIS --by RAC1P
      equistrata estimate my-release correlation AGEP --by SCHL
      equistrata estimate my-release mean WKHP --by SEX --where DIS=1
      equistrata estimate my-release logit ESR=1 --by SEX*DIS,AGEP --json
      equistrata estimate november december --difference proportion ESR=1 --by SEX

    A "measured" interval is valid for any model. An "implied" interval depends on the model, and on the errors of the
    model for other numbers.
    """
    from equistrata.analysis.release import Release

    if settings.plot is not None:
        from equistrata.flows.cli.reading.figure import check_plot

        check_plot(settings.plot)
    later, statistic, of = settings.question
    release = Release.open(settings.release if later is None else later)
    with warnings_as_notes(), progress_bars(err) as bar:
        bar("read", 0, 0)
        release.answers.progress = lambda done, of: bar("replicates", done, of)
        release.answers.workers = settings.workers
        asked = {
            "of": parse_statistic(release, of),
            "by": settings.by,
            "where": conditions(release, settings.where),
            "level": settings.level,
            "population": settings.population,
            "design_effect": settings.design_effect,
            "q": settings.q,
            "weighted": False if settings.unweighted else None,
        }
        if later is None:
            found = release.estimate(statistic, **asked)
        else:
            found = release.compare(Release.open(settings.release), statistic, **asked)
    people = "counted" in found.columns and bool(found["counted"].eq("people").all())
    if settings.plot is not None:
        from equistrata.flows.cli.reading.figure import draw_estimates

        labels = labels_of(found)
        lines = [
            ", ".join(_called(release, labels[0], name, line[name]) for name in labels)
            for line in found.to_dict("records")
        ]
        title = " ".join([*(["change of"] if later else []), statistic, of or ""]).strip()
        draw_estimates(found, lines or ["all"], title, settings.level, settings.plot)
    if settings.as_json:
        print_answers(found)
    else:
        _show(release, found, settings.level)
        if "counted" in found.columns:
            print_lines(_of_whom(release.schema.survey_weight, people, settings.population))
        if (
            statistic == "mean"
            and later is None
            and not (people or settings.by or settings.where or settings.population)
        ):
            _show_joined(release, of, settings.level)


def _of_whom(weight: str | None, people: bool, population: bool) -> str:
    """Describe the people or rows to which an answer refers."""
    if people:
        return f"of people, by {weight}"
    rows = "of rows of the file" + (f", without {weight}" if weight else "")
    return rows + ("; every member of the population is equally likely to be in it" if population else "")


def _called(release: Release, first: str, name: str, value: Any) -> str:
    """Return a label for a line. The value of `against` belongs to the `first` label."""
    return (
        words_of_term(release, value)
        if name == "term"
        else words_of(release, first if name == "against" else name, value)
    )


def _show_joined(release: Release, of: str | None, level: float) -> None:
    """Print the private mean of the release, which of the two means is better, and their combination."""
    if not (release.folder / "means.json").exists():
        return
    from equistrata.analysis.means import NEITHER

    for line in release.means(level).to_dict("records"):
        if line["column"] == of:
            value, lower, upper, private = (shown_number(line[n]) for n in ("estimate", "lower", "upper", "private"))
            if line["better"] == NEITHER:
                print_lines(
                    f"means.json has {private}, which was measured separately; the value may be anywhere from {lower} "
                    f"to {upper}"
                )
                return
            print_lines(
                f"means.json has {private}, which was measured separately; the better of the two is that of "
                f"{line['better']}; combined by inverse variance: {value} ({level:.0%} from {lower} to {upper})"
            )


def _show(release: Release, found: pd.DataFrame, level: float) -> None:
    numbers, labels = ["estimate", "lower", "upper"], labels_of(found)
    both = [name for name in BOTH if name in found.columns]
    with_p = ["p_value"] if "p_value" in found.columns else []
    lines = found.head(MOST_LINES).to_dict("records")
    called = [[_called(release, labels[0], name, line[name]) for name in labels] for line in lines]
    parts = [*PARTS] if (found[PARTS[1]] > 0).any() else []
    shown = [name.removesuffix("_error") for name in parts]
    counted = [*both, "change" if both else "estimate", f"{level:.0%} from", "to", *shown, *["p"] * len(with_p)]
    cells = []
    for line, words in zip(lines, called, strict=True):
        ends = [shown_number(line[name]) for name in (*both, *numbers, *parts)]
        p = ["< 0.0001" if line[name] < 1e-4 else f"{line[name]:.3g}".replace("nan", "") for name in with_p]
        cells.append([*words, *ends, *p, str(line["basis"])])
    headings = [*labels, *counted, "basis"]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    widths[: len(labels)] = [min(each, LABEL) for each in widths[: len(labels)]]
    room = out.width - sum(widths) - 3 * len(widths) - 4
    width = min(room, WIDTH) if room >= LEAST_WIDTH else 0
    right = [f">{each}" for each in counted]
    style: dict[str, Any] = {} if room >= -3 else {"box": None, "pad_edge": False}  # there is no space for lines
    grid = table(None, *map(escape, labels), *right, *[""] * (width > 0), "basis", **style)
    for column, least in zip(grid.columns, widths[:-1], strict=False):  # numbers and labels must not be truncated
        column.min_width = least
    for column in grid.columns[len(labels) :]:
        column.no_wrap = True
    if style and (least := sum(widths) + len(widths) - 1) > out.width:
        grid.width = least
    drawn = found[numbers].replace([float("inf"), float("-inf")], float("nan"))
    low, high = float(drawn.min().min()), float(drawn.max().max())
    for line, row in zip(lines, cells, strict=True):
        picture = [_drawn(line, low, high, width)] * (width > 0)
        grid.add_row(*map(Text, row[: len(labels)]), *row[len(labels) : -1], *picture, row[-1])
    out.print(grid, crop=False)
    if parts:
        print_lines("privacy and sampling are standard errors; the interval uses the root of their summed squares")
    if "term" in found.columns and (found["basis"] == "refused").any():
        print_lines(
            "refused: the column was never measured together with the outcome, or the group may be noise "
            "only; ask for proportions or means by that column"
        )
    if with_p and (found["p_value"].isna() & (found["basis"] == "implied")).any():
        print_lines(
            "no p: these columns were never measured together, so a test would only be about the model and "
            "its usual error"
        )
    if (found["estimate"] < 0).any() and (found["lower"] >= 0).all():
        print_lines(
            "below 0: the noise is larger than the number of rows. The interval shows how many rows there "
            "may be, and the estimate is not changed, so that sums are correct on average"
        )
    if len(found) > MOST_LINES:
        print_lines(f"{len(found) - MOST_LINES:,} more lines; --json has them all")


def _drawn(line: Mapping[Any, Any], low: float, high: float, width: int) -> Text:
    """Return an interval as a line of characters."""
    if not high > low or line["estimate"] != line["estimate"]:
        return Text("")
    least, middle, most = (
        round((min(max(line[name], low), high) - low) / (high - low) * (width - 1))
        for name in ("lower", "estimate", "upper")
    )
    return Text("".join("●" if i == middle else "─" if least <= i <= most else " " for i in range(width)))
