"""Tests of the audit as a Prefect flow, which is run from the command line."""

import json
import stat

import pytest
from plain_release import release
from traces import traces

from equistrata.eval.report.page import SCHEMA
from equistrata.privacy.ledger.ledger import Ledger

CANARY_AGE, CANARY_PAY = 118.4625173, 731924.6481


@pytest.fixture
def released(people, equistrata, monkeypatch):
    """Return the table of a charged release, with canaries in a binned column and in a column that is not released."""
    table, schema, frame = people
    frame["AGE"] = frame["AGE"].astype(float)
    frame.loc[[5, 700], "AGE"] = CANARY_AGE
    frame.loc[[5, 700], "PAY"] = CANARY_PAY
    frame.to_csv(table, index=False)
    schema.write_text(schema.read_text().replace(", integer: true", ""))  # an integer column refuses decimals
    monkeypatch.setenv("EQUISTRATA_STATE", str(equistrata.home / "state"))
    ledger = equistrata.home / "ledger.db"
    Ledger(ledger).create("people", 10, 1e-9)
    release(
        {
            "source": "csv", "input": str(table), "schema": str(schema), "strata": "SEX,GROUP", "means": "PAY",
            "workers": 1,
            "evaluate": "none", "ledger": str(ledger), "dataset": "people", "release_id": "one",
            "output": str(equistrata.home / "one"),
        }
    )  # fmt: skip
    return table


def leaves(tree):
    if isinstance(tree, dict | list):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(branch)
    else:
        yield tree


@pytest.mark.slow
def test_audits_leave_no_row_and_no_exact_number_with_prefect(equistrata, released):
    """The exact numbers of the internal audit stay in its folder. The text of the public audit is an artifact."""
    inside = equistrata("audit", "one", "--input", released, "--verbose")
    assert inside.returncode == 0, inside.stderr
    assert "internal: computed from private rows, not to be published" in inside.stdout
    assert "worst" not in inside.stdout, "exact numbers are for a terminal"
    folder = equistrata.home / "one.internal" / "audit"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    outside = equistrata("audit", "one", "--public", "--epsilon", "2", "--input", released, "--ledger", "ledger.db")
    assert outside.returncode == 0, outside.stderr
    assert "this audit cost ε = 2 at δ = 1e-9" in " ".join(outside.stdout.split())
    public = equistrata.home / "one" / "audit"
    assert {path.name for path in public.iterdir()} == {"audit.html", "audit.json", "audit.md", SCHEMA.name, "tables"}

    exact = [
        repr(x)
        for x in leaves(json.loads((folder / "internal-audit.json").read_text())["releases"][0]["audit"])
        if isinstance(x, float)
    ]
    exact = [text for text in exact if len(text) > 12]
    assert len(exact) > 50
    title = "# Fairness audit of "
    assert (public / "audit.md").read_text("utf-8").startswith(title)
    seen = dict(traces(equistrata.prefect))
    assert any(path.suffix == ".db" for path in seen), "the search must have seen Prefect's database"
    assert any(title.encode() in content for content in seen.values()), "the public report is an artifact"
    for path, content in seen.items():
        for canary in (*exact, str(CANARY_AGE), str(CANARY_PAY), "118.46", "731924"):
            assert canary.encode() not in content, f"{canary} in {path.relative_to(equistrata.home)}"
    for result in (inside, outside):
        assert not any(
            text in result.stdout + result.stderr for text in (str(CANARY_AGE), str(CANARY_PAY), "Traceback")
        )
    assert not list(equistrata.tmp.glob("equistrata-*")), "the working folder is removed"


def test_an_announcement_follows_a_release(monkeypatch):
    """The deployment of the audit waits for this event, and its payload contains only settings."""
    import equistrata.flows.release.flow
    from equistrata.flows.config.release import ReleaseConfig

    told = []
    monkeypatch.setattr(equistrata.flows.release.flow, "emit_event", lambda event, **about: told.append((event, about)))
    equistrata.flows.release.flow._announce(
        ReleaseConfig.build(dataset="people", ledger="ledger.db"), equistrata.flows.release.flow.Path("releases/one")
    )
    ((event, about),) = told
    assert event == "equistrata.release.published"
    assert about["resource"]["prefect.resource.id"] == "equistrata.dataset.people"
    assert list(about["payload"]) == ["folder"]
    assert about["payload"]["folder"].endswith("/releases/one")
