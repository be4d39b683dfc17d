"""The commands `equistrata release` and `equistrata resume`.

Each field of `ReleaseConfig` is an option of the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from equistrata.errors import EquistrataError, InputError
from equistrata.flows.cli.console import err, flow_here, note, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.cli.released import print_release
from equistrata.flows.config.places import LedgerPlace
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting
from equistrata.flows.run.foreground import WHOLE, listen_to_progress
from equistrata.flows.run.server import TemporaryServer, server_ahead

if TYPE_CHECKING:
    from equistrata.flows.release.plan import Plan


class ReleaseOptions(Settings):
    """Options of the command that are not settings of the release."""

    config: Path | None = setting(None, "YAML file with any of these settings.")
    page: Flag = setting(False, "Also write a page about the release, as one HTML file.")
    verbose: Flag = setting(False, "Show the log of Prefect.")


OF_PANELS = {
    "Data": "source state year survey root_dir download task coded columns survey_weight controls expand",
    "Privacy": "delta unit at_most unit_weights unit_sizes relation units ledger release_id seed",
    "Strata": "weights weight_column combine_weights shrinkage selection levels",
    "Series and schedule": "series_name series_horizon series_front former time_zone",
    "Output": "rows replicates means_share means_schema means_estimator means_target evaluate holdout "
    "report_title report_agency report_contact",
    "Advanced": "synthesizer_python degree workload target engine count_share open_share bound_share runner workers "
    "cluster scratch verbose",
}
PANELS = {option: panel for panel, options in OF_PANELS.items() for option in options.split()}


@command("release", ReleaseOptions, ReleaseConfig, panels=PANELS)
def release_command(options: ReleaseOptions, given: dict[str, Any]) -> None:
    """Make a release with synthetic rows, measurements, means, a card, and separate internal scores.

    [bold]Examples[/bold]
      equistrata release --output my-release --page
      equistrata release --input people.csv --schema people.yaml --strata SEX --output out
      equistrata release --config monthly.yaml --output releases/2026-11

    The options take precedence over the settings in the file.
    """
    config = configured(options.config, given)
    folder = _made(config, options.verbose)
    if options.page and folder is not None:
        from equistrata.flows.cli.release_page import write_release_page

        with _note_complete_release(folder):
            write_release_page(folder, config.workers)


def configured(path: str | Path | None, given: dict[str, Any]) -> ReleaseConfig:
    """Return the settings of a file and the given settings, which take precedence.

    Placeholders are replaced by the current time. If the release is charged and has no id, an id is added.

    Parameters
    ----------
    path : str, Path or None
        The configuration file.
    given : dict
        The given settings.

    Returns
    -------
    ReleaseConfig
        The settings.
    """
    config = ReleaseConfig.load(path, **given) if path else ReleaseConfig.build(**given)
    from equistrata.flows.release.prepared import with_release_id

    return with_release_id(config.at(datetime.now(UTC)))


class ResumeSettings(Settings):
    release: ByPlace[str | None] = setting(
        None, "Id or output folder of the release. If not given, all of them are listed."
    )
    discard: Flag = setting(False, "Give the release up instead. Its charge stays, and the ledger marks it as failed.")
    output: Path | None = setting(None, "Another output folder, if the former one is taken or lost.")
    workers: int | None = setting(None, "Number of processes that fit strata from now on.", ge=1)
    ledger: LedgerPlace | None = setting(None, "Ledger of a release that was not kept on this machine, for --discard.")
    verbose: Flag = setting(False, "Show the log of Prefect.")


@command("resume", ResumeSettings)
def resume_command(settings: ResumeSettings) -> None:
    """Continue a charged release that was killed or has failed, using the measurements that were saved.

    Saved measurements are used again at no cost. If noise may have been drawn but was not saved, it is charged again
    before it is drawn again. The ledger and the card record this.

    [bold]Example[/bold]: equistrata resume monthly-3f08d60b7c11
    """
    from equistrata.flows.run.journal import STATE_VARIABLE, Journal, state_folder
    from equistrata.flows.run.workspace import remove_dead_workspaces

    # This is always done, because a run may have died after its release was complete but before its rows were removed.
    remove_dead_workspaces()
    if settings.release is None:
        journals = Journal.all()
        print_lines(*(f"{journal.root.name}  →  {journal.output}" for journal in journals))
        return None if journals else print_lines(f"nothing to resume in {state_folder()}")
    journal = Journal.find(settings.release)
    if journal is None:
        return _without_journal(settings.release, settings)
    changes = {"workers": settings.workers, "output": settings.output and os.path.abspath(settings.output)}
    os.environ[STATE_VARIABLE] = str(state_folder())  # an absolute path, because the working folder changes below
    try:
        os.chdir(journal.folder)
    except OSError:
        raise InputError(
            f"release {settings.release!r} was started in folder {str(journal.folder)!r}, which no longer "
            "exists; restore it"
        ) from None
    if settings.discard:
        from equistrata.flows.release.undertaking import discard

        discard(journal)
        return print_lines(f"given up: {journal.root.name}; its charge stays")
    config = journal.config.changed(**{name: value for name, value in changes.items() if value is not None})
    _made(config, settings.verbose, resumed=True)
    return None


def _without_journal(release: str, settings: ResumeSettings) -> None:
    """Handle a release without a journal on this machine, which is either complete or can only be given up."""
    from equistrata.analysis.contents.card import ledger_of, read_card
    from equistrata.flows.run.journal import Journal, state_folder, unreadable_sentence

    unreadable = Journal.unreadable(release)
    if settings.discard:
        from equistrata.flows.config.places import place_of
        from equistrata.flows.release.undertaking import fail_open_charges
        from equistrata.flows.run.ledgers import open_ledger

        count = fail_open_charges(open_ledger(place_of(settings.ledger)), release)
        if unreadable is not None:
            rmtree(unreadable)
        return print_lines(f"given up: {release}; {count} of its charges marked failed")
    if unreadable is not None:
        raise InputError(unreadable_sentence(release))
    with suppress(InputError):
        if (ledger := ledger_of(read_card(Path(release)))) is not None:
            return print_lines(f"complete already: {ledger['release_id']} in {release}")
    raise InputError(
        f"nothing of release {release!r} is saved in {str(state_folder())!r}, so it cannot be resumed; if "
        f"its charge is still reserved in the ledger, equistrata resume --discard {release} marks it as "
        "failed"
    )


def _made(config: ReleaseConfig, verbose: bool, resumed: bool = False) -> Path | None:
    """Make a release, print its summary and return its folder. If the folder was moved away, return None.

    When the release is complete, later errors do not make the command fail.
    """
    landed: list[Path] = []

    def listener(stage: str, done: int, of: int) -> None:
        if stage == WHOLE:
            landed.append(Path(config.output))

    try:
        with listen_to_progress(listener), server_ahead(verbose) as server:
            folder = _release(config, verbose, server, resumed)
            landed.append(folder)
    except BaseException:
        if not landed:
            raise
        with _note_complete_release(landed[-1]):
            raise
    if not (landed[-1] / "card.json").exists():
        print_lines(f"{config.release_id} was complete and charged already, and has been moved from {landed[-1]}")
        return None
    with _note_complete_release(landed[-1]):
        print_release(landed[-1])
    return landed[-1]


@contextmanager
def _note_complete_release(folder: Path) -> Iterator[None]:
    """Print a note instead of an error if the block fails, because the release is already complete and paid for."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, BrokenPipeError):  # prevents Python from writing to the closed pipe when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        stopped = isinstance(error, KeyboardInterrupt | SystemExit)
        why = "stopped" if stopped else str(error) if isinstance(error, EquistrataError) else type(error).__name__
        with suppress(OSError):
            left = f"the release in {str(folder)!r} is complete, but the next step was not done"
            note("[bold yellow]note:[/]", f"{left}: {why}")


def _release(config: ReleaseConfig, verbose: bool, server: TemporaryServer | None, resumed: bool) -> Path:
    """Make a release and return its folder."""
    plan = prepared(config)
    if config.dataset is not None and not resumed:
        print_lines(f"release {config.release_id} of data set {config.dataset}", console=err)
    for warning in plan.warnings:
        note("[bold yellow]note:[/]", warning)
    try:
        return run_release(config, verbose, server)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            print_lines("stopped", console=err)
        _print_what_is_kept(config)
        raise


def prepared(config: ReleaseConfig) -> Plan:
    """Return the plan of a release after all checks that do not need the rows.

    Call this function before Prefect starts.
    """
    from equistrata.flows.release.prepared import is_published, prepare
    from equistrata.flows.run.landing import claimed_output

    plan, _ = prepare(config)
    if not is_published(config):
        with claimed_output(Path(config.output)):
            pass
    return plan


def run_release(config: ReleaseConfig, verbose: bool = False, server: TemporaryServer | None = None) -> Path:
    """Run the release flow in this process.

    Parameters
    ----------
    config : ReleaseConfig
        The settings.
    verbose : bool, default=False
        If True, show the log of Prefect.
    server : TemporaryServer or None, default=None
        A server that was already started.

    Returns
    -------
    Path
        The folder of the release.

    Raises
    ------
    AlreadyMade
        If another run has made the release in the meantime.
    """
    with flow_here(verbose, server):
        from equistrata.flows.release.flow import release

        folder = release(config)
    if isinstance(folder, str):
        return Path(folder)
    from equistrata.flows.release.prepared import ReleaseExists

    raise ReleaseExists(f"release {config.release_id!r} was made by another run in the meantime and is complete")


def _print_what_is_kept(config: ReleaseConfig) -> None:
    """Print how to continue after a failure, if anything was charged and no other run holds the release."""
    if config.release_id is None or config.dataset is None:
        return
    from equistrata.flows.run.journal import Journal

    journal = Journal.of(config.release_id)
    if journal is not None and not journal.untouched:
        with suppress(InputError), journal.held():
            print_lines(f"to continue: equistrata resume {config.release_id}", console=err)
