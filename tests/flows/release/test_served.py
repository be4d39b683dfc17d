"""Tests that the expected errors of groups on a card are the same as the errors that a reader computes."""

import numpy as np
import pandas as pd
import pytest
from plain_release import release

from equistrata.analysis.checks.companions import companion_faults
from equistrata.analysis.expected import served
from equistrata.analysis.release import Release

SCHEMA = """name: t
columns: {G: {values: [a, b, c]}, X: {values: [0, 1, 2]}, K: {values: [k, l]}}
"""


@pytest.mark.parametrize("shrinkage", [True, False])
def test_a_card_expects_of_groups_what_its_readers_do(shrinkage, tmp_path):
    """The card was computed from a model with shrinkage, even if shrinkage was not used.

    As a result, the expected errors of small groups were too small.
    """
    rng, groups = np.random.default_rng(0), np.repeat(["a", "b", "c"], [2000, 30, 30])
    rows = {"G": groups, "X": rng.integers(0, 3, 2060), "K": np.where(groups == "b", "l", rng.choice(["k", "l"], 2060))}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.yaml").write_text(SCHEMA, "utf-8")
    places = {"input": str(tmp_path / "t.csv"), "schema": str(tmp_path / "t.yaml"), "output": str(tmp_path / "out")}
    release(places | {"strata": ["G"], "epsilon": 1.0, "delta": 1e-9, "shrinkage": shrinkage, "selection": "shared"})
    found = Release.open(tmp_path / "out")
    said, own = found.card["served"], served(found.evidence)
    assert [each["distance"] for each in said["groups"]] == pytest.approx(
        [each["distance"] for each in own["groups"]], rel=1e-9
    )
    assert list(companion_faults(found)) == []
    page = (tmp_path / "out" / "card.md").read_text("utf-8")
    assert "\n\n## How it was made\n" in page  # a heading after a blank line
