"""Hooks that Prefect runs when a release fails or crashes: what happened, what was charged, and what to do.

Only settings and our own sentences are repeated.
"""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.logging.loggers import flow_run_logger

from equistrata.errors import EquistrataError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.undertaking import with_release_id
from equistrata.flows.run.journal import Journal


def tell_failure(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Log one sentence and leave an artifact. For `on_failure` and `on_crashed`, also in a worker's process."""
    sentence = failure_sentence(flow_run, state)
    flow_run_logger(flow_run, flow).error("%s", sentence)
    page = ArtifactCreate(
        key="release-failure",
        type="markdown",
        description="what happened, and what to do",
        data=f"# A release did not end well\n\n{sentence}\n",
        flow_run_id=flow_run.id,  # a worker that runs this is in no flow run's context
    )
    with get_client(sync_client=True) as client:
        client.create_artifact(page)


def failure_sentence(flow_run: FlowRun, state: State[Any]) -> str:
    """What happened to which release, and what can be done about it."""
    try:
        named = ReleaseConfig.model_validate(flow_run.parameters["config"])
        assert flow_run.expected_start_time is not None
        config = with_release_id(named.at(flow_run.expected_start_time), str(flow_run.id))
    except (ValueError, KeyError, TypeError):
        return f"Flow run {flow_run.name} ended as {state.name}: its settings are not those of a release."
    what = f"The release into {config.output!r} ended as {state.name}{_cause(state)}."
    if config.dataset is None:
        return f"{what} No ledger was charged, and nothing of it was kept; run it again."
    if Journal.of(str(config.release_id)) is None:
        return (
            f"{what} Nothing is kept of release {config.release_id!r} on this machine; see equistrata budget history."
        )
    return (
        f"{what} What it paid for from the budget of {config.dataset!r} is kept: run equistrata resume "
        f"{config.release_id}, or equistrata resume --discard {config.release_id} to give it up."
    )


def _cause(state: State[Any]) -> str:
    """Our own sentence, if the flow raised one of our own errors; a foreign message might quote a row."""
    error = getattr(state.data, "result", state.data)  # Prefect keeps what a flow raised in a record in memory
    return f" ({str(error).strip().rstrip('.')})" if isinstance(error, EquistrataError) else ""
