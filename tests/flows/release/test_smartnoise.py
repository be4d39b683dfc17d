"""Tests of a release with smartnoise-synth, which is replaced by a script.

The card states that its guarantee is weaker.
"""

import json
import sys

import pytest

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.prepared import prepare
from equistrata.privacy.ledger.ledger import Ledger

FAKE = f"""#!{sys.executable}
import json, sys
from pathlib import Path
import numpy as np
if "--describe" in sys.argv:
    print(json.dumps(dict(software="smartnoise-synth 1.0.8", delta=True, domain=True, zcdp=True)))
    sys.exit(0)
folder = Path(sys.argv[-1])
rows = np.load(folder / "rows.npy")
if len(rows) > 1000:
    print(rows[0], file=sys.stderr)
    raise ValueError(str(rows[0]))
draw = json.loads((folder / "settings.json").read_text())["draw"]
np.save(folder / "synthetic.npy", rows[np.random.default_rng(0).integers(0, len(rows), draw)].astype(np.uint32))
"""


def test_the_card_of_a_foreign_synthesizer_says_what_is_weaker(served, people, tmp_path):
    table, schema, _ = people
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o700)
    given = ["--source", "csv", "--input", table, "--schema", schema, "--workers", "2", "--evaluate", "none"]
    given += ["--synthesizer", "smartnoise-mst"]
    done = served(
        "release", *given, "--strata", "SEX", "--output", tmp_path / "out", EQUISTRATA_SMARTNOISE_PYTHON=str(python)
    )
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["name"] == "SmartNoiseMST_SEX"
    assert card["engine"] == "smartnoise-synth 1.0.8"
    assert abs(card["rows"] - 1357) < 400
    page = (tmp_path / "out" / "card.md").read_text()
    assert "**The guarantee is weaker than this privacy cost suggests:**" in page
    assert all(f"- {caveat}" in page for caveat in card["guarantee"]["caveats"])
    assert len(card["guarantee"]["caveats"]) > 4
    assert "anybody may refit" not in page
    assert "Neighbouring relation (replace-one within a stratum)" in page  # the exact sizes are one of its caveats
    assert "adding or removing" not in page

    vanilla = ["--output", tmp_path / "vanilla"]
    failed = served("release", *given, *vanilla, EQUISTRATA_SMARTNOISE_PYTHON=str(python))
    assert failed.returncode == 1
    assert "withheld" in failed.stderr
    assert "[" not in failed.stderr.replace("[bold", "")  # no array is printed
    assert not (tmp_path / "vanilla").exists()
    assert list(served.tmp.iterdir()) == []


def test_without_its_environment_nothing_runs(equistrata, tmp_path):
    done = equistrata("release", "--synthesizer", "smartnoise-aim", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "run equistrata setup smartnoise" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_budget_of_added_rows_does_not_pay_for_a_promise_of_replaced_ones(tmp_path, people, monkeypatch):
    """The MST of smartnoise uses the exact number of rows, so its price is not valid under add-remove."""
    table, schema, _ = people
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o700)
    monkeypatch.setenv("EQUISTRATA_SMARTNOISE_PYTHON", str(python))
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 1, 1e-9)
    given = {
        "source": "csv",
        "input": str(table),
        "schema": str(schema),
        "dataset": "people",
        "ledger": str(ledger.path),
    }
    given |= {"release_id": "r", "output": str(tmp_path / "out")}
    with pytest.raises(InputError, match="is for 'add-remove', but this release only guarantees 'replace-one"):
        prepare(ReleaseConfig.build(**given, synthesizer="smartnoise-mst"))
    prepare(ReleaseConfig.build(**given, synthesizer="smartnoise-aim"))
    assert ledger.charges("people") == []
