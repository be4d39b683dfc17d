"""Tests of the scores, the audits and the pages of a release with a survey weight."""

import json

import numpy as np
import pandas as pd
import pytest
from audits import audit
from jsonschema import Draft202012Validator
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.eval.report.page import SCHEMA
from equistrata.eval.scores.scores import score, weighted_scores
from equistrata.flows.audit.expected import expected_audit
from equistrata.flows.config.audit import AuditConfig

BOUND = 50


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder that contains releases of a weighted table. Some of the weights are larger than the bound."""
    folder = tmp_path_factory.mktemp("weights")
    frame = made_up_people(800)
    frame["W"] = np.where(frame.SEX == 2, 8.0, 2.0)
    frame.loc[::40, "W"] = 400.0
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "weighted.yaml").write_text(PEOPLE_SCHEMA + f"survey_weight: {{column: W, upper: {BOUND}}}\n")
    pd.DataFrame({"SEX": [1, 2], "population": [1e5, 3e5]}).to_csv(folder / "totals.csv", index=False)
    rows = {"source": "csv", "input": str(folder / "people.csv"), "schema": str(folder / "weighted.yaml")}
    given = rows | {"epsilon": 8.0, "strata": "SEX", "evaluate": "quick", "seed": 1, "workers": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUISTRATA_STATE", str(folder / "state"))
        release(given | {"output": str(folder / "met"), "controls": str(folder / "totals.csv")})
        release(given | {"output": str(folder / "expanded"), "expand": True})
    return folder


def coded(frame, home):
    whole = Schema.load(home / "weighted.yaml")
    schema = whole.select(whole.default)
    return schema, CodedTable.encode(frame, schema)


def released(home, name):
    frame = pd.read_csv(home / name / "synthetic.csv")
    schema, _ = coded(pd.read_csv(home / "people.csv"), home)
    return frame, CodedTable(CodedTable.encode(frame, schema.coded()).codes, schema)


def scores_in(home, name):
    return json.loads((home / f"{name}.internal" / "scores.json").read_text("utf-8"))


def test_scores_are_of_rows_and_beside_them_of_people(home):
    frame = pd.read_csv(home / "people.csv")
    _, real = coded(frame, home)
    weights, scores = np.minimum(frame.W, BOUND).to_numpy(), scores_in(home, "met")
    rows, made = released(home, "met")
    assert rows.W.max() > 2 * BOUND  # the weights as written, not as coded
    of_rows, of_people = score(real, made, ["SEX"]), weighted_scores(real, made, ["SEX"], (weights, rows.W.to_numpy()))
    assert "W" not in scores["parity_by_column"]
    assert (scores["parity_error"], scores["workload3"]) == (of_rows.parity_error, of_rows.workload3)
    assert {name: scores[name] for name in of_people} == pytest.approx(of_people, rel=1e-9)
    people, each = released(home, "expanded")[1], scores_in(home, "expanded")
    expected = weighted_scores(real, people, ["SEX"], (weights, np.ones(len(people))))
    assert {name: value for name, value in each.items() if name != "warning"} == pytest.approx(expected, rel=1e-9)


def test_an_internal_audit_leaves_the_weight_out_and_scores_people(home, monkeypatch):
    monkeypatch.chdir(home)
    folder, _ = audit("met", mode="internal", output=str(home / "exact"))
    document = json.loads((folder / "internal-audit.json").read_text("utf-8"))
    assert list(Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).iter_errors(document)) == []
    (entry,) = document["releases"]
    assert "W" not in [*document["columns"], *entry["errors"], *entry["marginals"]["columns"]]
    assert document["schema"] == json.loads((home / "met" / "card.json").read_text("utf-8"))["schema"]["sha256"]
    kept = scores_in(home, "met")
    names = ("parity_error", "workload3", "weighted_parity_error", "weighted_workload3")
    assert [entry["audit"]["scores"][name] for name in names] == pytest.approx([kept[name] for name in names])
    assert entry["people"] | {"met": ""} == {"column": "W", "upper": BOUND, "total": pytest.approx(4e5), "met": ""}
    page = (folder / "internal-audit.html").read_text("utf-8")
    assert "W is the survey weight" in page
    assert "workload error, weighted by people" in page
    assert "Except for the weighted scores, all numbers of this audit are about rows, not people." in page


def test_a_public_audit_buys_no_mean_of_the_weight(home, monkeypatch):
    monkeypatch.chdir(home)
    folder, _ = audit("met", mode="public", seed=1, output=str(home / "noisy"))
    document = json.loads((folder / "audit.json").read_text("utf-8"))
    assert list(Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).iter_errors(document)) == []
    (entry,) = document["releases"]
    assert "W" not in [*document["columns"], *entry["audit"]["means"], *entry["errors"]]
    assert "All numbers of this audit are about rows, not people." in (folder / "audit.html").read_text("utf-8")


def test_the_page_says_how_many_people_groups_are(home):
    config = AuditConfig.build(releases=[str(home / "met")], mode="public", output=str(home / "page"))
    ((page, report),) = expected_audit(config)
    assert sorted(report.people.values()) == pytest.approx([1e5, 3e5])
    assert "W" not in report.distances
    text = page.read_text("utf-8")
    assert "300,000 people" in text
    assert "400,000 people and agree with the public control totals of file &#39;totals.csv&#39; by SEX" in text
    lines = pd.read_csv(page.with_name("expected.csv"))
    assert sorted({*lines.people}) == [100_000, 300_000]
