"""Tests of a scheduled release, which depends on its scheduled time and not on the number of runs."""

import tempfile
from datetime import UTC, datetime
from uuid import UUID

import pytest
from plain_release import release
from prefect.client.schemas.objects import FlowRun
from prefect.states import Failed

import equistrata.flows.release.flow
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.flow import failure_sentence
from equistrata.flows.release.prepared import ReleaseExists, prepare
from equistrata.flows.run.guard import StepFailed
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import Ledger

NOVEMBER, DECEMBER = datetime(2026, 11, 1, 11, tzinfo=UTC), datetime(2026, 12, 1, 11, tzinfo=UTC)


@pytest.fixture
def monthly(people, tmp_path, monkeypatch):
    """Return the settings of a monthly release of the small table, its ledger and its folder of outputs."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 3, 1e-9)
    table, schema, _ = people
    config = ReleaseConfig.build(
        source="csv", input=str(table), schema=str(schema), strata="SEX", evaluate="none", workers=1, dataset="people",
        ledger=str(tmp_path / "ledger.db"), output=str(tmp_path / "out" / "{month}"), release_id="people-{month}",
    )  # fmt: skip
    return config, ledger, tmp_path / "out"


def make(config, scheduled):
    release(config.at(scheduled).public())


def test_each_month_is_one_release_however_often_it_is_run(monthly):
    config, ledger, out = monthly
    make(config, NOVEMBER)
    for _ in range(2):
        with pytest.raises(
            ReleaseExists, match="'people-2026-11' of data set 'people' was charged already and is complete"
        ):
            make(config, NOVEMBER)
    make(config, DECEMBER)
    assert [charge.entry.release_id for charge in ledger.charges("people")] == ["people-2026-11", "people-2026-12"]
    assert sorted(path.name for path in out.iterdir()) == ["2026-11", "2026-12"]


def test_a_month_that_was_made_with_other_settings_is_refused_not_taken_for_this_one(monthly):
    config, ledger, _ = monthly
    make(config, NOVEMBER)
    other = ReleaseConfig.build(**config.public() | {"epsilon": 0.5})
    with pytest.raises(InputError, match="charged already, with other settings") as refused:
        prepare(other.at(NOVEMBER))
    assert not isinstance(refused.value, ReleaseExists)
    assert len(ledger.charges("people")) == 1


def test_the_flow_fills_in_the_time_it_was_scheduled_for_and_a_whole_release_completes(monthly, monkeypatch):
    config, ledger, _ = monthly
    make(config, NOVEMBER)
    monkeypatch.setattr(
        equistrata.flows.release.flow, "flow_run", type("Run", (), {"id": "x", "scheduled_start_time": NOVEMBER})
    )
    state = equistrata.flows.release.flow.release.fn(config)
    assert state.is_completed()
    assert "there is nothing to do" in state.message
    assert len(ledger.charges("people")) == 1


def test_the_sentence_on_a_failure_names_the_release_of_that_month(monthly):
    config, _, out = monthly
    run = FlowRun(
        id=UUID(int=1),
        flow_id=UUID(int=2),
        name="any",
        parameters={"config": config.public()},
        expected_start_time=DECEMBER,
    )
    told = failure_sentence(run, Failed(data=InputError("no such file.")))
    assert str(out / "2026-12") in told
    assert "people-2026-12" in told
    assert "{month}" not in told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"data": InputError("no such file.")}, " (no such file)."),
        ({"data": BudgetExceeded(Rho(2), Rho(1), "it")}, " (it asks for ρ = 2, but only 1 is left of the budget)."),
        ({"data": StepFailed("load failed with KeyError")}, " (load failed with KeyError)."),
        ({"data": ValueError("canary-5512")}, "."),
        ({"data": ValueError("InputError: canary-5512")}, "."),
        ({"message": "Flow run encountered an exception: InputError: canary-5512"}, "."),
        ({"message": "Flow run process exited with status code: -9"}, "."),
        ({"message": None}, "."),
    ],
)
def test_only_our_own_words_on_the_cause_are_repeated(monthly, state, told):
    config, _, _ = monthly
    run = FlowRun(
        id=UUID(int=1), flow_id=UUID(int=2), name="any", parameters={"config": config.public()},
        expected_start_time=DECEMBER
    )  # fmt: skip
    assert f"ended as Failed{told} " in failure_sentence(run, Failed(**state))


def test_a_flow_run_with_foreign_parameters_is_told_without_them():
    run = FlowRun(id=UUID(int=1), flow_id=UUID(int=2), name="any", parameters={"config": {"canary-5512": 1}})
    assert failure_sentence(run, Failed()) == ("Flow run any ended as Failed: its settings are not those of a release.")
