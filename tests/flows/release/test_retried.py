"""Tests of a flow run that is started again in a container or pod.

If the noise of the first process is saved, it must not be drawn again. If the saved noise cannot be read, no noise is
drawn.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Scheduled

from equistrata.flows.release.flow import release
from equistrata.flows.run.journal import Journal
from equistrata.privacy.ledger.ledger import Ledger

TESTS = Path(__file__).parents[2]


@pytest.fixture
def died(tmp_path, people, prefect_server, monkeypatch):
    """Return a function that starts a flow run and returns the exit code and the final state.

    The first process of the run is killed after the noise is saved.
    """
    table, schema, _ = people
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    Ledger(tmp_path / "ledger.db").create("people", 50, 1e-9)
    config = {
        "source": "csv", "input": str(table), "schema": str(schema), "strata": ["SEX"], "workers": 1,
        "selection": "per-stratum", "ledger": str(tmp_path / "ledger.db"), "dataset": "people", "epsilon": 1.0,
        "delta": 1e-9, "output": str(tmp_path / "out-{month}"), "release_id": "people-{month}",
    }  # fmt: skip
    with temporary_settings({PREFECT_API_URL: prefect_server}), get_client(sync_client=True) as client:
        when = Scheduled(scheduled_time=datetime(2026, 11, 1, 6, tzinfo=UTC))
        run = client.create_flow_run(release, parameters={"config": config}, state=when)

        def start(*point):
            program = [sys.executable, str(TESTS / "retried_run.py"), str(run.id), *point]
            environment = os.environ | {"PREFECT_API_URL": prefect_server, "TMPDIR": str(tmp_path)}
            code = subprocess.run(program, cwd=TESTS.parent, env=environment, capture_output=True, check=False)
            return code.returncode, client.read_flow_run(run.id).state

        code, state = start("modelled")
        assert code == 9
        assert state.is_running(), "its server has not heard that it died"
        yield start


@pytest.fixture
def charges(tmp_path):
    return lambda: Ledger(tmp_path / "ledger.db").charges("people", "people-2026-11")


def test_it_goes_on_from_what_was_saved(died, charges, tmp_path):
    folder = Journal.find("people-2026-11").paid
    saved = {file.read_bytes() for file in folder.glob("fit_*/measurements.json")}
    assert len(saved) == 2
    code, state = died()
    assert (code, state.name) == (0, "Completed"), state.message
    assert {file.read_bytes() for file in (tmp_path / "out-2026-11" / "measurements").glob("SEX=*.json")} == saved
    assert [charge.outcome for charge in charges()] == ["committed"]


def test_it_draws_nothing_where_what_was_saved_is_out_of_reach(died, charges, tmp_path):
    rmtree(tmp_path / "state")
    code, state = died()
    assert (code, state.name) == (1, "Failed")
    assert "was charged already, but" in state.message
    assert not list(tmp_path.glob("out-*"))
    assert len(charges()) == 1
