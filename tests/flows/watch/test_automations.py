"""Tests of the automations that notify the steward of runs which failed, crashed or are late.

Their execution is tested in test_worker.py.
"""

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from equistrata.errors import InputError
from equistrata.flows.audit.flow import audit
from equistrata.flows.release.flow import release
from equistrata.flows.watch.automations import BODIES, FLOWS, apply_automations, main
from equistrata.flows.watch.budget_check import budget_check


@pytest.fixture
def client(prefect_server):
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        yield client


def test_they_are_made_and_renewed_and_never_twice(client, capsys):
    for name in ("old", "steward"):
        CustomWebhookNotificationBlock(name=name, url="http://127.0.0.1:9/").save(name, overwrite=True)
        names = apply_automations(client, f"custom-webhook/{name}")
    assert main(["custom-webhook/steward"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == names
    block = client.read_block_document_by_name("steward", "custom-webhook")
    for name, state in zip(names, BODIES, strict=True):
        (found,) = client.read_automations_by_name(name)
        assert found.enabled
        assert found.trigger.expect == {f"prefect.flow-run.{state}"}
        (action,) = found.actions
        assert action.block_document_id == block.id
        assert "What to do: " in action.body


def test_they_are_of_the_flows_that_there_are():
    assert [flow.name for flow in (release, budget_check, audit)] == FLOWS


@pytest.mark.parametrize("block", ["custom-webhook/nobody", "steward", ""])
def test_a_block_that_is_not_there_is_named(client, capsys, block):
    with pytest.raises(InputError, match=f"no block {block!r}"):
        apply_automations(client, block)
    assert main([block]) == 2
    assert capsys.readouterr().err.startswith("error: the Prefect server has no block ")
    assert main([]) == 2
