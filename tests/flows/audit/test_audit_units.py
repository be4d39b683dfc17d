"""Tests of the privacy cost of a paid public audit if a unit has several rows, or if the relation is replace-one."""

import json
from unittest import mock

import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release
from recorder import Recorder, true_cost
from replay import MORE

from equistrata.data.units.unit import Unit
from equistrata.flows.audit import steps
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.run.workspace import Workspace

PEOPLE = made_up_people(400).assign(HOME=lambda people: people.index // 2)
FAR = MORE | {"SEX": 1, "GROUP": "a", "AGE": 20, "JOB": "no", "PAY": 0.0}


def with_home(person, rows):
    return pd.concat([PEOPLE, pd.DataFrame([person] * rows).assign(HOME=10**6)], ignore_index=True)


def audited_twice(folder, monkeypatch, one, two, **settings):
    """Return the report of the first table, its price, and the true privacy cost of both calls of the noise source."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(folder / "state"))
    (folder / "people.yaml").write_text(PEOPLE_SCHEMA)
    PEOPLE.to_csv(folder / "people.csv", index=False)
    rows = {"source": "csv", "input": str(folder / "people.csv"), "schema": str(folder / "people.yaml")}
    made = {"strata": "SEX,GROUP", "evaluate": "none", "rows": 300, "seed": 1, "output": str(folder / "made")}
    release(rows | made | settings)
    at_most = settings.get("at_most", 1)  # the number of rows of a unit that the intervals allow for
    recorded = []
    for name, table in (("first", one), ("second", two)):
        table.to_csv(folder / f"{name}.csv", index=False)
        settings = {"mode": "public", "epsilon": 8.0, "target": "JOB", "output": str(folder / f"audit of {name}")}
        plan = AuditPlan.of(
            AuditConfig.build(releases=[str(folder / "made")], input=str(folder / f"{name}.csv"), **settings)
        )
        recorder = Recorder(folder / name, *recorded[:1])
        recorded.append(folder / name)
        work = Workspace(folder / f"work of {name}")
        work.root.mkdir()
        steps.load_rows(plan, work)
        with (
            mock.patch.object(steps, "noise_source", return_value=recorder),
            mock.patch.object(steps, "public_audits", wraps=steps.public_audits) as audits,
            mock.patch("equistrata.eval.scores.classifiers.TREES", 20),
        ):
            steps.examine(plan, work)
        assert audits.call_args.kwargs["alike"] == at_most
    report = json.loads(next((folder / "work of first").rglob("audit.json")).read_text("utf-8"))
    return report, float(plan.price), recorded


KINDS = {
    "added": ("add-remove", 1, lambda rows: (PEOPLE, with_home(FAR, rows))),
    "replaced": ("replace-one", 2, lambda rows: (with_home(MORE, rows), with_home(FAR, rows))),
}


WORDS = {
    ("added", True): "adding or removing all rows with one HOME",
    ("replaced", True): "replacing all rows with one HOME",
    ("replaced", False): "replacing one row",
}


@pytest.mark.parametrize(
    ("kind", "at_most", "rows"), [("added", 3, 3), ("added", 3, 40), ("replaced", 1, 1), ("replaced", 3, 3)]
)
def test_a_unit_costs_at_most_what_the_audit_is_charged(tmp_path, monkeypatch, kind, at_most, rows):
    relation, times, tables = KINDS[kind]
    unit = {"unit": "HOME", "at_most": at_most} if at_most > 1 else {}
    report, price, recorded = audited_twice(tmp_path, monkeypatch, *tables(rows), relation=relation, **unit)
    cost, _ = true_cost(*recorded, times * at_most)
    assert 0.2 * price < cost <= price * (1 + 1e-9)
    audit = report["releases"][0]["audit"]
    assert audit["relation"] == f"{relation}{' of all rows with one HOME' if at_most > 1 else ''}"
    assert audit["rho"] == pytest.approx(price)
    page = next((tmp_path / "work of first").rglob("*.html")).read_text("utf-8")
    assert f"Neighbouring tables differ by {WORDS[kind, at_most > 1]}." in page
    assert ("Rows beyond the bound are not used. Counts, shares and means are of the rows" in page) == (at_most > 1)


def test_a_unit_that_is_paid_for_as_one_row_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(Unit, "sum_cost", 1)
    _, price, recorded = audited_twice(tmp_path, monkeypatch, PEOPLE, with_home(FAR, 3), unit="HOME", at_most=3)
    assert true_cost(*recorded, 3)[0] > 2 * price
