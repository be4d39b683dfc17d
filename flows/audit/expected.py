"""The free public audit, which estimates the errors of releases from their published folders.

It does not use private rows or a ledger and is not charged, because it is post-processing of published results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from equistrata.analysis.expected import Expected
from equistrata.analysis.release import Release
from equistrata.data.repeats import require_unique
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.eval.report.expected import ExpectedReport, write_expected
from equistrata.eval.report.report import EVERYBODY, told_apart
from equistrata.flows.audit.contents import contents_of
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.publication.addition import free_name
from equistrata.flows.publication.released import Released, facts
from equistrata.flows.release.inside import enclosing_release
from equistrata.flows.run.landing import check_output, claimed_output, rename_to_new

PAGE = "expected.html"


def expected_report(
    folder: Path, config: AuditConfig, progress: Callable[[int, int], None] | None, workers: int = 1
) -> ExpectedReport:
    """Return a report of the expected errors of a release.

    Parameters
    ----------
    folder : Path
        The folder of the release.
    config : AuditConfig
        The settings.
    progress : callable or None
        Function that is called with the number of completed replicates and their total number.
    workers : int, default=1
        The number of processes.

    Returns
    -------
    ExpectedReport
        The report.

    Raises
    ------
    InputError
        If the errors cannot be estimated from the folder.
    """
    release, whole = Release.open(folder), Released.open(folder)
    (fact,) = facts([whole])
    release.answers.progress = progress
    if workers > 1:
        release.answers.replicated(workers)  # kept, so made once
    expected = Expected.of(release.answers.evidence, release.answers)
    found = expected.frame
    by, known = list(release.strata.columns), release.card.get("report") or {}
    called = told_apart({column.name: column.label or column.name for column in release.schema.columns})
    words = told_apart({release.strata.label(key): release.strata.words(key) for key in release.strata.keys})
    groups = list(words.values()) if by else [EVERYBODY]
    distances = {
        str(name): dict(zip(groups, map(float, part["distance"]), strict=True))
        for name, part in found.groupby("column", sort=False)
    }
    first = found[found["column"] == found["column"].iloc[0]]
    sizes, lower, upper = (map(float, first[name]) for name in ("rows", "rows_lower", "rows_upper"))
    return ExpectedReport(
        title=config.report.title or fact.title,
        agency=config.report.agency or known.get("agency") or "",
        contact=config.report.contact or known.get("contact") or "",
        release=fact,
        unit=str(release.card["guarantee"].get("unit", "one row")),
        grouping=" × ".join(called[name] for name in by),
        sizes=dict(zip(groups, sizes, strict=True)),
        limits=dict(zip(groups, zip(lower, upper, strict=True), strict=True)),
        distances=distances,
        parity_distance=expected.parity_distance,
        counted=expected.groups,
        covered=frozenset(group for group, counts in zip(groups, expected.covered, strict=True) if counts),
        called=called,
        not_measured=tuple(f"{called[one]} and {called[other]}" for one, other in release.not_measured()),
        replicates=release.answers.count,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        software=f"equistrata {version('equistrata')}",
        contents=contents_of(release),
        people=_people(whole, groups),
    )


def _people(release: Released, groups: Sequence[str]) -> dict[str, float]:
    """Return the sum of the released weights in each group. If there are no weights, the result is empty."""
    if release.weights is None:
        return {}
    table = release.table()
    place = Strata.over(table.schema, release.strata).index(table)
    return dict(zip(groups, np.bincount(place, release.weights, len(groups)).tolist(), strict=True))


def expected_audit(
    config: AuditConfig, progress: Callable[[int, int], None] | None = None, workers: int = 1
) -> list[tuple[Path, ExpectedReport]]:
    """Create a folder with a page for each release.

    The folder is `output`, or `NAME-expected` next to the release.

    Parameters
    ----------
    config : AuditConfig
        The settings.
    progress : callable or None, default=None
        Function that is called with the number of completed replicates and their total number.
    workers : int, default=1
        The number of processes that compute replicates. It does not change any result.

    Returns
    -------
    list of (Path, ExpectedReport)
        The path of each page and its report.

    Raises
    ------
    InputError
        If the settings are not valid, or if the errors of a release cannot be estimated.
    """
    if not config.releases:
        raise InputError("no release is named; give at least one release folder")
    if config.pdf or config.strata or config.target:
        given = "--pdf" if config.pdf else "--strata" if config.strata else "--target"
        raise InputError(
            f"{given} only applies to audits that read private rows; leave it out, or give a price with --epsilon"
        )
    if config.output is not None and len(config.releases) > 1:
        raise InputError("--output names one folder, but each release gets its own page; leave --output out")
    require_unique(map(os.path.realpath, config.releases), "release")
    found = []
    for name in config.releases:
        folder = Path(name).absolute()
        home = folder.parent
        output = home / free_name(home, f"{folder.name}-expected") if config.output is None else Path(config.output)
        if (around := enclosing_release(output)) is not None:
            raise InputError(f"{str(output)!r} is in release {str(around)!r}; name a folder outside it")
        check_output(output)
        report = expected_report(Path(name), config, progress, workers)
        with claimed_output(output) as hidden:
            made = hidden / "report"
            made.mkdir()
            write_expected(report, made)
            check_output(output)
            rename_to_new(made, hidden.parent / output.name)
        found.append((output / PAGE, report))
    return found
