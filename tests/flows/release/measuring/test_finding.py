"""Tests of a release with open columns, in which the values are found once at a stated price and rare values are not
published.
"""

import json
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from no_noise import ForbiddenNoise, NoNoise
from plain_release import release

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.released import Released
from equistrata.flows.release import flow
from equistrata.flows.release.card.groups import group_table
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.release.measuring import finding
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps.reading import partition
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.privacy.thresholds import Threshold

OPEN = PEOPLE_SCHEMA.replace("JOB]", "JOB, TOWN]").replace("PAY:", "TOWN: {values: open, missing: nowhere}\n  PAY:")
RARE = ["=1+1", "a\nb", "NA", "Rareville", "x" * 500, "-cmd|' /C calc'!A0", "1e5", "\x1b[31mred"]
PART = "values of TOWN"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return the settings of a charged release with a column of towns, some of which are rare or cannot be written."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    frame = made_up_people(3000)
    rng = np.random.default_rng(1)
    frame["TOWN"] = rng.choice(["Ulm", "01", "1", "other"], 3000, p=[0.5, 0.2, 0.2, 0.1])
    frame.loc[:400, "TOWN"] = "=HYPERLINK(1)"  # this value is frequent but not allowed in a file
    frame.loc[401:420, "TOWN"] = "Rare village"
    frame.loc[421 : 420 + len(RARE), "TOWN"] = RARE
    frame.loc[430:460, "TOWN"] = None
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.yaml").write_text(OPEN)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.create("people", 20, 1e-8)
    settings = {
        "input": str(tmp_path / "people.csv"), "schema": str(tmp_path / "people.yaml"), "strata": "SEX", "epsilon": 3,
        "ledger": str(tmp_path / "ledger.db"), "dataset": "people", "output": str(tmp_path / "out"),
        "release_id": "one", "workers": 1, "selection": "shared", "evaluate": "none",
    }  # fmt: skip
    return tmp_path, settings, ledger


def test_what_many_rows_hold_is_released_and_nothing_else(place):
    folder, settings, ledger = place
    release(settings)
    released = Released.open(folder / "out")
    assert released.schema["TOWN"].values == ("01", "1", "Ulm", "nowhere", "other")
    rows = pd.read_parquet(folder / "out" / "synthetic.parquet")["TOWN"].value_counts()
    assert set(rows.index) <= {"01", "1", "Ulm", "nowhere", "other"}
    assert 400 < rows["other"] < 1100
    assert rows["Ulm"] > 1000
    files = [path for path in (folder / "out").rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    assert not any(text.encode() in written for text in ("HYPERLINK", "Rare village", "Rareville", "calc", "1e5,"))
    (card,) = released.card["open"]
    guarantee, total = released.card["guarantee"], Rho.from_epsilon_delta(3, 1e-9)
    assert card["values"] == ["01", "1", "Ulm"]
    assert card["rho"] == pytest.approx(float(total) * 0.04)
    assert card["rho_of_delta"] == pytest.approx(float(total) * 0.01)
    # The rate of the account is used. An ε of 20 costs more ρ for the same δ, although its δ is larger.
    rate = min(1e-9 / float(total), 1e-8 / float(Rho.from_epsilon_delta(20, 1e-8)))
    assert card["delta"] == pytest.approx(card["rho_of_delta"] * rate)
    found = Threshold.of(total * 0.05 * 0.8, card["delta"])
    assert (card["sigma"], card["least"]) == (pytest.approx(found.sigma), found.least)
    assert sum(guarantee["split_of_rho"].values()) == pytest.approx(float(total))
    assert "The values of `TOWN` were not declared but found" in card_markdown(released.card, None)
    (charge,) = ledger.charges("people", "one")
    assert (charge.entry.rho, charge.entry.parts) == (total, ("synthesis", PART))


def test_of_equal_noisy_counts_no_row_s_place_decides_which_value_is_kept(tmp_path):
    """If the first row of the file is also the first in a tie, the cost of this row is twice as large."""
    (tmp_path / "towns.yaml").write_text("columns: {SEX: {values: [1]}, TOWN: {values: open}}")
    towns = pd.DataFrame({"SEX": 1, "TOWN": ["Bonn", "Ulm"] * 500})
    kept = []
    for name, frame in (("forth", towns), ("back", towns[::-1])):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        files = {"input": str(tmp_path / f"{name}.csv"), "schema": str(tmp_path / "towns.yaml")}
        plan = Plan.of(ReleaseConfig.build(source="csv", epsilon=6, output=str(tmp_path / "out"), **files))
        (tmp_path / name).mkdir()
        work = Workspace(tmp_path / name)
        partition(plan, work)
        with mock.patch.object(finding, "MOST_FOUND", 1):
            finding.find_values(plan, work, Budget(plan.price.finding), NoNoise())
        kept.append(finding.found_values(plan, work)[0]["values"])
    assert kept == [["Bonn"], ["Bonn"]]


def test_a_group_s_price_has_the_chance_that_its_own_value_is_found(place):
    folder, settings, _ = place
    release(settings)
    card = Released.open(folder / "out").card
    one, two, *_, ten = card["groups"]
    plain = group_table(card["guarantee"]["rho"], 1e-9)
    (column,) = card["open"]
    threshold = Threshold(column["sigma"], column["least"], column["delta"])
    assert one == plain[0]
    assert two["epsilon"] == Rho(two["rho"]).epsilon(1e-9 - threshold.chance(2)) > plain[1]["epsilon"]
    assert (threshold.chance(10) > 1e-9) == (ten["epsilon"] is None)


@pytest.mark.parametrize("saved", [True, False])
def test_what_was_found_is_bought_once(place, saved):
    """If the values are not saved, the noise is drawn again and there is a second charge."""
    folder, settings, ledger = place
    step = (flow, "recode") if saved else (finding.Workspace, "keep_found")
    with mock.patch.object(*step, side_effect=InputError("the end")), pytest.raises(InputError, match="the end"):
        release(settings)
    assert not (folder / "out").exists()
    kept = list((folder / "state").rglob("found_*.json"))
    before = [path.read_bytes() for path in kept]
    assert len(kept) == saved
    assert not any("Rare" in path.read_text("utf-8", "replace") for path in folder.joinpath("state").rglob("*.json"))
    again = mock.patch.object(finding, "often", side_effect=AssertionError) if saved else mock.MagicMock()
    with again:
        release(settings)
    charges = [charge.entry for charge in ledger.charges("people", "one")]
    assert [charge.parts for charge in charges[1:]] == [] if saved else [(PART,)]
    released = Released.open(folder / "out")
    (card,) = released.card["open"]
    assert card["drawn"] == 2 - saved
    if saved:
        assert [json.loads(text)["values"] for text in before] == [card["values"]]
    else:
        assert float(charges[1].rho) == pytest.approx(0.05 * float(charges[0].rho))
    assert sum(released.card["guarantee"]["split_of_rho"].values()) == pytest.approx(released.card["guarantee"]["rho"])


def test_what_is_refused_is_refused_before_it_is_charged(place):
    folder, settings, ledger = place
    for wrong, said in (
        ({"strata": "TOWN"}, "stratum column 'TOWN' is declared as 'values: open'"),
        ({"delta": 0.3}, "delta = 0.3 is too large"),
        ({"open_share": 0.5, "count_share": 0.6}, "leave nothing for the synthesizer"),
        ({"means": "TOWN"}, "the mean of 'TOWN' needs a numeric column"),
    ):
        with (
            mock.patch.object(flow, "noise_source", return_value=ForbiddenNoise()),
            pytest.raises(InputError, match=said),
        ):
            release(settings | wrong)
    assert ledger.charges("people", "one") == []
    assert not (folder / "out").exists()


def test_rows_are_not_read_before_the_charge_by_what_finds_values(place):
    _, settings, ledger = place
    honest = finding.often

    def often(*given):
        assert [charge.outcome for charge in ledger.charges("people", "one")] == ["reserved"]
        return honest(*given)

    with mock.patch.object(finding, "often", often):
        release(settings)


def test_no_open_column_costs_nothing(place):
    folder, settings, _ = place
    (folder / "people.yaml").write_text(PEOPLE_SCHEMA)
    plan = Plan.of(ReleaseConfig.build(**settings))
    assert (plan.openings, plan.price.finding, [*plan.parts]) == ({}, Rho(0), ["synthesis"])
