"""Automations of Prefect that notify the steward if a run has failed, has crashed or is late.

The command `python -m equistrata.flows.watch.automations slack-webhook/steward` creates the automations on the server
at PREFECT_API_URL. If they exist, it updates them. They send the state message of Prefect with instructions. The errors
of equistrata are sentences that do not contain any value of a row.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from uuid import UUID

from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from equistrata.errors import InputError
from equistrata.printable import printable

FLOWS = ["release", "budget-check", "audit"]
PREFIX = "equistrata: "
_ENDED = """\
Flow run {{ flow_run.name }} of deployment {{ deployment.name }} ended as {{ flow_run.state.name }}.
{{ flow_run.state.message }}
What to do: its artifact release-failure or its budget page shows what was charged. On the worker's machine,
`equistrata resume` lists the releases that can be continued at no further cost.
{{ flow_run|ui_url }}
"""
_LATE = """\
Flow run {{ flow_run.name }} of deployment {{ deployment.name }} was due at {{ flow_run.expected_start_time }}.
What to do: start the worker, `prefect worker start --pool {{ work_pool.name }}`. The release is then made with
the name and date for which it was due. If it waits for another release of the data set, you do not need to do anything.
{{ flow_run|ui_url }}
"""
BODIES = {"Failed": _ENDED, "Crashed": _ENDED, "Late": _LATE}


def automations(block: UUID, flows: Sequence[str] = FLOWS) -> list[AutomationCore]:
    """Return an automation for each state about which the steward should be notified.

    All of them use the same block.
    """
    return [
        AutomationCore(
            name=f"{PREFIX}{state.lower()}",
            description=f"Reports flow runs of {', '.join(flows)} in state {state}.",
            trigger=EventTrigger(
                posture=Posture.Reactive,  # must be set, because an update only sends the values that were set
                expect={f"prefect.flow-run.{state}"},
                match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
                match_related=ResourceSpecification(
                    {"prefect.resource.role": "flow", "prefect.resource.name": list(flows)}
                ),
                for_each={"prefect.resource.id"},
            ),
            actions=[
                SendNotification(
                    block_document_id=block,
                    subject=f"equistrata: {{{{ deployment.name }}}} {'is late' if state == 'Late' else state.lower()}",
                    body=body,
                )
            ],
        )
        for state, body in BODIES.items()
    ]


def apply_automations(client: SyncPrefectClient, block: str) -> list[str]:
    """Create or update the automations on a server.

    Parameters
    ----------
    client : SyncPrefectClient
        The client of the server.
    block : str
        The notification block, in the form TYPE/NAME.

    Returns
    -------
    list of str
        The names of the automations.

    Raises
    ------
    InputError
        If the server does not have this block.
    """
    kind, _, name = block.partition("/")
    try:
        found = client.read_block_document_by_name(name, kind, include_secrets=False)
    except ObjectNotFound:
        raise InputError(
            f"the Prefect server has no block {block!r}; name one as TYPE/NAME, as in slack-webhook/steward "
            "(prefect block ls)"
        ) from None
    made = automations(found.id)
    for automation in made:
        old = client.read_automations_by_name(automation.name)
        if old:
            client.update_automation(old[0].id, automation)
        else:
            client.create_automation(automation)
    return [automation.name for automation in made]


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    if len(arguments) != 1:
        print("usage: python -m equistrata.flows.watch.automations TYPE/NAME of a notification block", file=sys.stderr)
        return 2
    try:
        with get_client(sync_client=True) as client:
            print(*apply_automations(client, arguments[0]), sep="\n")
    except InputError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
