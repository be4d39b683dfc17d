"""The output of `equistrata release --page`: three commands, and the path of a page about the release."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from equistrata.analysis.release import Release
from equistrata.errors import InputError
from equistrata.flows.cli.audit import expected_pages
from equistrata.flows.cli.console import note, print_lines
from equistrata.flows.config.audit import AuditConfig


def write_release_page(folder: Path, workers: int) -> None:
    """Create the page of the free public audit next to a release. Print the next commands and the path of the page.

    The release is already complete. If the page cannot be created, a note gives the reason.
    """
    try:
        ((page, report),) = expected_pages(AuditConfig.build(releases=[str(folder)], mode="public"), workers)
    except InputError as error:
        note("[bold yellow]no page:[/]", str(error))
        return
    print_lines("", *report.opening, "", "next:")
    print_lines(*(f"  {line}" for line in next_commands(folder)), "")
    print_lines(str(page))


def next_commands(folder: Path) -> list[str]:
    """Return three commands that check the release, estimate a number from it, and publish it."""
    name, where = _this_command(), shlex.quote(str(folder))
    return [
        f"{name} verify {where}",
        f"{name} estimate {where} {_question(Release.open(folder))}",
        f"{name} publish {where} {shlex.quote(f'{folder}.zip')}",
    ]


def _this_command() -> str:
    """Return the name or the path with which this program can be called."""
    called = sys.argv[0]
    there = shutil.which("equistrata")
    if there is not None or Path(called).name != "equistrata":
        return "equistrata"
    return shlex.quote(called)


def _question(release: Release) -> str:
    """Return a question that the release can answer.

    It is about the target or the first column with several values, by the first column of the strata. The values of a
    date column are days, and dates do not have a mean. If there are no other columns, the question is about a count.
    """
    by = release.strata.columns[:1]
    inner = [each for each in release.schema.columns if each.name not in release.strata.columns and each.size > 1]
    known = [each for each in inner if not each.layout]
    if not known:
        return " ".join(["count", *(["--by", shlex.quote(by[0])] if by else [])])
    column = next((each for each in known if each.name == release.schema.target), known[0])
    asked = f"mean {column.name}" if column.numeric else f"proportion {column.name}={column.keys[0]}"
    return " ".join([*map(shlex.quote, asked.split(" ", 1)), *(["--by", shlex.quote(by[0])] if by else [])])
