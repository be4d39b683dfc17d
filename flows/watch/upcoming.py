"""The releases of a data set that a Prefect server has scheduled, and the cost of each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import NamedTuple

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort

from equistrata.errors import InputError
from equistrata.flows.config.places import place_of
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import total_price
from equistrata.flows.release.undertaking import with_release_id
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger

PAGE = 200  # runs, the most that a server gives at once by default
RELEASE_FLOW = "release"
NOT_ENDED = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]


class Upcoming(NamedTuple):
    """A release that is scheduled, or running and not charged yet: `when` on its schedule, and the ρ of its charge."""

    release_id: str
    when: datetime
    epsilon: float
    price: Rho


def upcoming_releases(client: SyncPrefectClient, dataset: str, named: str | None) -> list[Upcoming]:
    """Every release of that data set in that ledger which is to run and was not charged yet, in order.

    A server schedules at least three runs of each deployment, and all those of the next 100 days, by default. Two runs
    under one release id are charged once, and a release that was charged is resumed at no cost.

    Args:
        named: the name of the ledger, as in a configuration.

    Raises:
        InputError: a scheduled release of the data set has wrong settings, and will fail.
        LedgerError: the ledger cannot be read.
    """
    place = place_of(named)
    seen = {charge.entry.release_id for charge in Ledger(place.url).charges(dataset)}
    found = []
    for run in _runs(client):
        settings = (run.parameters or {}).get("config")
        if not isinstance(settings, dict) or settings.get("dataset") != dataset:
            continue
        when = run.expected_start_time
        assert when is not None
        try:
            config = with_release_id(ReleaseConfig.build(**settings).at(when), str(run.id))
            elsewhere = place_of(config.ledger) != place
            price = total_price(config.epsilon, config.delta)
        except InputError as error:
            raise InputError(f"the release scheduled for {when:%Y-%m-%d %H:%M} UTC will fail: {error}") from None
        if elsewhere or config.release_id in seen:
            continue
        seen.add(config.release_id)
        found.append(Upcoming(str(config.release_id), when, config.epsilon, price))
    return found


def _runs(client: SyncPrefectClient) -> Iterator[FlowRun]:
    """All runs of the release flow that have not ended, the earliest first."""
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=NOT_ENDED))
    for offset in count(0, PAGE):
        page = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[RELEASE_FLOW])),
            flow_run_filter=FlowRunFilter(state=states),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            limit=PAGE,
            offset=offset,
        )
        yield from page
        if len(page) < PAGE:
            return
