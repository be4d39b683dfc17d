"""Tests of a release with a synthesizer class of the user."""

import json
import re
import shutil

import pandas as pd
import pytest
from edited_release import edited_copy

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults
from equistrata.errors import InputError
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.prepared import prepare
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.synth.foreign.promise import Promise

ONCE_IN_VAIN = """
    def sample(self, rows):
        import pathlib
        flag = pathlib.Path({flag!r})
        if self.real and not flag.exists():
            flag.touch()
            raise ValueError("a secret row")
        return self.draw(rows)
"""


@pytest.fixture
def marginals(repo_root, tmp_path):
    """Return the path of a file with the class in docs/foreign.md."""
    (block,) = re.findall(r"```python\n(.*?)```", (repo_root / "docs" / "foreign.md").read_text("utf-8"), re.S)
    path = tmp_path / "marginals.py"
    path.write_text(block)
    assert len([line for line in block[block.index("class") :].splitlines() if line.strip()]) <= 20
    return path


def test_strata_weights_ledger_scores_and_card(served, people, marginals, tmp_path):
    table, schema, _ = people
    weights = tmp_path / "weights.csv"
    weights.write_text("SEX,n\n1,30\n2,70\n")
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 10, 1e-9)
    given = ["--input", table, "--schema", schema, "--strata", "SEX", "--weights", weights, "--weight-column", "n"]
    given += ["--dataset", "people", "--ledger", ledger.path, "--release-id", "r", "--workers", "2", "--rows", "1000"]
    failing = marginals.with_name("failing.py")
    text = marginals.read_text().replace("def sample", "def draw").replace(
        "        scale, ", "        self.real = len(frame) > 200\n        scale, "
    )  # fmt: skip
    failing.write_text(text + ONCE_IN_VAIN.format(flag=str(tmp_path / "flag")))
    out = tmp_path / "out"
    failed = served("release", *given, "--synthesizer", f"{failing}:Marginals", "--output", out)
    assert failed.returncode == 1
    assert "Marginals failed on a stratum (ValueError)" in failed.stderr
    assert "secret" not in failed.stderr + failed.stdout
    assert list(served.tmp.iterdir()) == []
    done = served("resume", "r", "--ledger", ledger.path)
    assert done.returncode == 0, done.stderr

    card = json.loads((out / "card.json").read_text())
    told, price = card["guarantee"]["promise"], Promise(0.98, 0.0, 0.02).rho
    assert {name: told[name] for name in ("epsilon", "delta", "count", "times")} == {
        "epsilon": 0.98, "delta": 0.0, "count": 0.02, "times": 2,
    }  # fmt: skip
    assert [float(charge.entry.rho) for charge in ledger.charges("people")] == [float(price)] * 2
    assert card["guarantee"]["epsilon"] == pytest.approx(2)  # the class was fitted twice, and both fits are charged
    assert card["name"] == "Marginals_SEX"
    assert card["config"]["synthesizer"] == "failing.py:Marginals"
    assert "synthesizer_python" not in card["config"]
    assert str(tmp_path) not in (out / "card.json").read_text()
    assert "The guarantee is the claim of Marginals (failing.py, SHA-256 " in (out / "card.md").read_text()
    assert [each["epsilon"] for each in card["groups"]] == pytest.approx([2, 4, 6, 10, 20])
    assert pd.read_parquet(out / "synthetic.parquet")["SEX"].value_counts().to_dict() == {2: 700, 1: 300}
    assert json.loads((tmp_path / "out.internal" / "scores.json").read_text())["parity_error"] is not None
    assert faults(Release.open(out)) == []

    with pytest.raises(InputError, match="publishes no measurements"):
        _ = Release.open(out).evidence
    for change in ({"epsilon": 1.0}, {"promise": told | {"epsilon": 0.4}}, {"promise": told | {"times": 1}}):
        forged = json.dumps(card | {"guarantee": card["guarantee"] | change})
        other = tmp_path / "edited"
        edited_copy(out, other, lambda folder, forged=forged: (folder / "card.json").write_text(forged))
        assert any("says ε" in fault for fault in faults(Release.open(other)))
        shutil.rmtree(other)
    with pytest.raises(InputError, match="'Marginals' only guarantees"):
        AuditPlan.of(AuditConfig.build(releases=[str(out)], mode="public", input=str(table), epsilon=0.1))


@pytest.fixture
def settings(people, marginals, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    table, schema, _ = people
    given = {"input": str(table), "schema": str(schema), "output": str(tmp_path / "out")}
    return given | {"synthesizer": f"{marginals}:Marginals"}


def test_means_and_the_class_share_epsilon(settings):
    plan = Plan.of(ReleaseConfig.build(**settings, strata=["SEX"], means=["PAY"], means_share=0.1, epsilon=2))
    assert plan.price.means == Rho.from_epsilon_delta(2, 1e-9) * 0.1
    assert plan.promise is not None
    assert plan.promise.together + plan.price.means.epsilon(1e-9) == pytest.approx(2, rel=1e-9)
    assert plan.price.total == plan.price.means + plan.promise.rho == sum(plan.parts.values(), start=Rho(0))
    assert plan.price.counts == Rho(0)  # the counts are measured by the mechanism


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"survey_weight": "PAY"}, "cannot measure the survey weight"),
        ({"unit": "JOB"}, "is for one row only|must not be released"),
        ({"relation": "replace-one"}, "is for one row only"),
        ({"degree": 2}, "setting 'degree'"),
        ({"strata": ["SEX"], "selection": "shared"}, "fits each stratum separately"),
        ({"synthesizer": "marginals.py"}, "setting 'synthesizer'"),
    ],
)
def test_what_does_not_go_with_a_class_is_refused(settings, given, sentence):
    with pytest.raises(InputError, match=sentence):
        Plan.of(ReleaseConfig.build(**settings | given))


def test_open_columns_and_series_are_refused(settings, people, tmp_path):
    schema = tmp_path / "open.yaml"
    schema.write_text("columns:\n  SEX: {values: [1, 2]}\n  JOB: {values: open}\n")
    with pytest.raises(InputError, match="open column 'JOB'"):
        Plan.of(ReleaseConfig.build(**settings | {"schema": str(schema)}))
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 5, 1e-9)
    given = {"dataset": "people", "ledger": str(ledger.path), "release_id": "r", "series": {"name": "s", "horizon": 3}}
    with pytest.raises(InputError, match="cannot be added to the costs of the other months of a series"):
        prepare(ReleaseConfig.build(**settings | given))


def test_a_budget_in_which_the_promise_does_not_fit_says_why_it_is_dear(settings, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 1, 1e-9)
    given = {"dataset": "people", "ledger": str(ledger.path), "release_id": "r"}
    with pytest.raises(BudgetExceeded, match=r"Marginals promises \(ε, δ\) only, which costs ρ = ε²/2"):
        prepare(ReleaseConfig.build(**settings | given))
    assert ledger.charges("people") == []


def test_nested_strata_are_fitted_one_by_one(served, marginals, tmp_path):
    table, schema = tmp_path / "places.csv", tmp_path / "places.yaml"
    frame = pd.DataFrame({"ST": [1, 1, 2, 2] * 100, "PUMA": [11, 12, 11, 21] * 100, "SEX": [1, 2] * 200})
    frame.to_csv(table, index=False)
    schema.write_text("columns:\n  PUMA: {within: ST, values: {1: [11, 12], 2: [11, 21]}}\n  SEX: {values: [1, 2]}\n")
    given = ["--input", table, "--schema", schema, "--strata", "ST/PUMA", "--workers", "2", "--evaluate", "none"]
    done = served("release", *given, "--synthesizer", f"{marginals}:Marginals", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows = pd.read_parquet(tmp_path / "out" / "synthetic.parquet")
    assert set(rows["PUMA"]) == {"1/11", "1/12", "2/11", "2/21"}
