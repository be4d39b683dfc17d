"""The budget check, which verifies the ledger and checks that the budget is sufficient for the scheduled releases.

It reads the ledger and the schedule of the server, but no row. If the ledger was changed, or if one of the next
scheduled releases would be refused, the check fails with one sentence. This is usually weeks before the release runs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

from prefect import flow
from prefect.artifacts import Artifact, create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import filters
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Completed

from equistrata.errors import EquistrataError, InputError
from equistrata.eval.report.templating import template
from equistrata.flows.config.places import place_of
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.prepared import with_release_id
from equistrata.flows.release.price import priced, total_price
from equistrata.flows.release.series import series_named
from equistrata.flows.run.ledgers import open_ledger
from equistrata.privacy.budget import Rho
from equistrata.privacy.forecast import epsilon_within, releases_left, remaining_after
from equistrata.privacy.ledger.ledger import Head, Ledger, LedgerError
from equistrata.privacy.ledger.series import series_of
from equistrata.synth.names import is_foreign
from equistrata.synth.registry import mechanism

HORIZON = 12  # the number of releases of the forecast
SHOWN = 12  # the number of scheduled releases in the table
PAGE = 200  # the number of runs in a page, which is the default maximum of a server
ATTEMPTS = 10
RELEASE_FLOW = "release"
NOT_ENDED = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]


class InsufficientBudget(EquistrataError, RuntimeError):
    """Error that is raised if the budget is not sufficient for a scheduled release."""


@flow(name="budget-check", log_prints=False, persist_result=False, validate_parameters=True)
def budget_check(dataset: str, ledger: str | None = None, ahead: int = 3) -> State[Any]:
    """Verify the ledger, and check that the next scheduled releases fit into the remaining budget.

    The check creates a page (artifact budget-<data set>) and stores the head of the ledger (artifact ledger-head-<data
    set>). The next check uses this head to verify the chain, so that a ledger that was rewritten, truncated or replaced
    is detected.

    Parameters
    ----------
    dataset : str
        The name of the data set in the ledger.
    ledger : str or None, default=None
        A path, a URL without a password, or block:NAME. If None, EQUISTRATA_LEDGER_URL is used.
    ahead : int, default=3
        The number of scheduled releases that must fit, at least 1.

    Returns
    -------
    State
        The state Completed with a message of one sentence.

    Raises
    ------
    BudgetShort
        If one of the next releases would be refused.
    LedgerError
        If the ledger cannot be read, is not valid, or differs from the ledger of the last check.
    InputError
        If a setting of the check or of a scheduled release is invalid.
    """
    if ahead < 1:
        raise InputError(f"setting 'ahead' is {ahead}, but at least one scheduled release must be looked at")
    books = open_ledger(place_of(ledger))
    key = f"budget-{artifact_key(dataset)}"
    try:
        head = _verified(books, dataset)
        account = books.account(dataset)
        left = books.remaining(dataset)
        with get_client(sync_client=True) as client:
            releases = upcoming_releases(client, dataset, ledger)
    except (LedgerError, InputError) as error:
        create_markdown_artifact(_page(dataset, failed=str(error)), key=key)
        raise
    after = remaining_after(left, [release.price for release in releases])
    short = [release for release, rest in zip(releases[:ahead], after, strict=False) if rest is None]
    verdict = _verdict(dataset, left, releases[:ahead], short)
    assert account.delta is not None
    page = _page(
        dataset,
        verdict=verdict,
        account=account,
        left=left,
        schedule=list(zip(releases, after, strict=True)),
        paid_for=releases_left(left, releases[-1].price) if releases else 0,
        each=epsilon_within(left, HORIZON, account.delta),
        head=head,
    )
    create_markdown_artifact(page, key=key, description=verdict)
    if short:
        raise InsufficientBudget(verdict)
    return Completed(message=verdict)


def _page(dataset: str, failed: str = "", **found: Any) -> str:
    """Return the Markdown text of the artifact. The special characters of Markdown are escaped in texts."""
    page = template(Path(__file__).with_name("budget.md.j2"), plain=_escaped, rho=_rho)
    return page.render(dataset=dataset, failed=failed, shown=SHOWN, horizon=HORIZON, **found)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


def _rho(rho: Rho) -> str:
    return f"{float(rho):.6g}"


def _verified(books: Ledger, dataset: str) -> Head:
    """Verify that the ledger contains the head of the last check, and store the new head.

    If it does not, raise a LedgerError.
    """
    key, identity, anchors = f"ledger-head-{artifact_key(dataset)}", books.identity, []
    found = cast(Artifact | None, Artifact.get(key, _sync=True))  # type: ignore[call-arg]
    if found is not None:
        try:
            (row,) = json.loads(str(found.data))
            ledger, last = str(row["ledger"]), str(row["head"])
        except (ValueError, KeyError, TypeError):
            raise LedgerError(
                f"artifact {key!r} does not contain the last head of the ledger, although only this check writes it; "
                f"find out why, and then remove it: prefect artifact delete {key}"
            ) from None
        if ledger != identity:
            raise LedgerError(
                f"the ledger of data set {dataset!r} is not the one of the last check, so charges may be lost; "
                "restore the old ledger, or, if the change is intended, delete the head of the last check: "
                f"prefect artifact delete {key}"
            )
        anchors = [Head.parse(last)]
    head = books.verify(anchors)
    books.budget(dataset)  # raises an error if the data set does not exist
    checked = datetime.now(UTC).isoformat(timespec="seconds")
    left = {"ledger": identity, "head": str(head), "checked": checked}
    create_table_artifact([left], key=key, description="the ledger's head at the last check, an anchor for the next")
    return head


def artifact_key(name: str) -> str:
    """Convert a name to a valid key of an artifact in Prefect. Different names have different keys."""
    key = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    return key if key == name else f"{key}-{hashlib.sha256(name.encode()).hexdigest()[:6]}".lstrip("-")


class ScheduledRelease(NamedTuple):
    """A scheduled or running release that is not charged yet.

    Attributes
    ----------
    release_id : str
        The id of the release.
    when : datetime
        The scheduled time.
    epsilon : float
        The value of ε.
    price : Rho
        The amount that will be charged.
    """

    release_id: str
    when: datetime
    epsilon: float
    price: Rho


def upcoming_releases(client: SyncPrefectClient, dataset: str, named: str | None) -> list[ScheduledRelease]:
    """Return the scheduled or running releases of a data set that are not charged yet, in order.

    By default, a server schedules at least three runs of each deployment, and all runs of the next 100 days. Two runs
    with the same release id are charged once. A release that was already charged is resumed at no cost.

    Parameters
    ----------
    client : SyncPrefectClient
        The client of the server.
    dataset : str
        The name of the data set.
    named : str or None
        The name of the ledger.

    Returns
    -------
    list of Upcoming
        The releases.

    Raises
    ------
    InputError
        If a scheduled release of the data set has invalid settings.
    LedgerError
        If the ledger cannot be used.
    """
    place = place_of(named)
    opened = open_ledger(place)
    charged, account = [charge.entry for charge in opened.charges(dataset)], opened.account(dataset)
    seen, found = {entry.release_id for entry in charged}, list[ScheduledRelease]()
    begun = set(series_of(charged))
    for run in _runs(client):
        settings = (run.parameters or {}).get("config")
        if not isinstance(settings, dict) or settings.get("dataset") != dataset:
            continue
        when = run.expected_start_time
        assert when is not None
        try:
            config = with_release_id(ReleaseConfig.build(**settings).at(when), str(run.id))
            elsewhere = place_of(config.ledger) != place
            series = series_named(config)
            if series is None:
                epsilon, price = config.epsilon, _price_of(config, (account.epsilon or 0.0, account.delta or 0.0))
            else:
                price = series.price_of(2 if series.name in begun else 1)
                epsilon = price.epsilon(config.delta)
        except InputError as error:
            raise InputError(f"the release scheduled for {when:%Y-%m-%d %H:%M} UTC will fail: {error}") from None
        if elsewhere or config.release_id in seen:
            continue
        seen.add(config.release_id)
        begun |= {series.name} if series else set()
        found.append(ScheduledRelease(str(config.release_id), when, epsilon, price))
    return found


def _price_of(config: ReleaseConfig, account: tuple[float, float]) -> Rho:
    total = total_price(config.epsilon, config.delta)
    if not is_foreign(config.synthesizer):
        return total
    own = mechanism(config.synthesizer, python=config.synthesizer_python)
    return priced(config, own, total, counts=False, means=bool(config.means), account=account)[1].total


def _runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Return all runs of the release flow that have not ended, in order of their scheduled times.

    Runs may start and end while the pages are read, which shifts the next page. Therefore each page starts with the
    last run of the previous page. If it does not, all pages are read again, up to ATTEMPTS times. The pages are sorted
    by id, because times may be equal.
    """
    states = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=NOT_ENDED))
    found: dict[UUID, FlowRun] = {}
    for _ in range(ATTEMPTS):
        last, offset = None, 0
        while True:
            page = client.read_flow_runs(
                flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=[RELEASE_FLOW])),
                flow_run_filter=filters.FlowRunFilter(state=states),
                sort=FlowRunSort.ID_DESC,
                limit=PAGE,
                offset=offset,
            )
            found |= {run.id: run for run in page}
            shifted = last is not None and (not page or page[0].id != last)
            if shifted or len(page) < PAGE:
                break
            last, offset = page[-1].id, offset + PAGE - 1
        if not shifted:
            break
    return sorted(found.values(), key=lambda run: (run.expected_start_time, str(run.id)))


def _verdict(dataset: str, left: Rho, next_ones: Sequence[ScheduledRelease], short: Sequence[ScheduledRelease]) -> str:
    number = len(next_ones)
    if not number:
        return f"No release of data set {dataset!r} is scheduled on this server; ρ = {float(left):.6g} is left."
    if not short:
        fits = "The next scheduled release fits" if number == 1 else f"The next {number} scheduled releases fit"
        return f"{fits} into the budget of data set {dataset!r}, of which ρ = {float(left):.6g} is left."
    first = short[0]
    return (
        f"The budget of data set {dataset!r} does not pay for {len(short)} of its next {number} scheduled releases: "
        f"{first.release_id!r} on {first.when:%Y-%m-%d} needs ρ = {float(first.price):.6g}, but too little "
        f"will remain of the ρ = {float(left):.6g} that is left now; lower its ε, or end its schedule."
    )
