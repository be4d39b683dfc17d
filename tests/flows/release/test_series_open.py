"""Tests of the total cost of a unit in a series, where the rows have an open column."""

import json
from fractions import Fraction

import pandas as pd
import pytest
from found_texts import FoundTexts
from made_up_people import PEOPLE_SCHEMA, made_up_people
from models_once import models_once
from monthly import places_of_its_own
from recorder import Recorder, true_cost
from replay import MORE, here, released

from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.series import SeriesMonth, series_named
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.privacy.ledger.series import Standing

OPEN = PEOPLE_SCHEMA.replace("[a, b, c]", "open")
UNIT = {"unit": "HOME", "at_most": 4, "strata": "SEX"}


@pytest.mark.parametrize("account", [(1.0, 1e-9), (9.0, 1e-9), (3.0, 1e-6)])
@pytest.mark.parametrize(
    ("horizon", "front", "share"), [(12, 1, 0.05), (120, 1, 0.5), (120, 4, 0.5), (3, 30, 0.5), (1, 1, 0.05)]
)
def test_delta_is_bought_at_the_rate_of_the_series(tmp_path, horizon, front, share, account):
    """If the rate of the month is used, the total δ is 12 times as large as the δ of the series."""
    (tmp_path / "people.csv").write_text("SEX,GROUP,AGE,JOB,PAY,HOME\n")
    (tmp_path / "people.yaml").write_text(OPEN)
    files = {"input": str(tmp_path / "people.csv"), "schema": str(tmp_path / "people.yaml")}
    settings = {
        "series": {"name": "year", "horizon": horizon, "front": front},
        "open_share": share,
        "dataset": "people",
    }
    config = ReleaseConfig.build(output=str(tmp_path / "out"), release_id="one", **UNIT, **files, **settings)
    series = series_named(config)
    spent, drawn, found = Rho(0), Rho(0), Fraction(0)
    for month in range(1, horizon + 1):
        if month < 3:  # later months have the price of the second month
            price = series.price_of(month)
            standing = Standing(series, month, price, spent, spent, Rho(0), ())
            plan = Plan.of(config, account=account, month=SeriesMonth(standing, None))
            (opening,) = plan.openings.values()
        spent, found = spent + price, found + Fraction(opening.delta)
        drawn += price - opening.paid
        # The card of this month states the sum over all months.
        assert drawn.epsilon(config.delta - float(found)) <= spent.epsilon(config.delta) * (1 + 1e-9)
    assert found <= Fraction(share) / 5 * Fraction(config.delta)
    assert drawn <= Rho.from_epsilon_delta(config.epsilon, config.delta - float(found))


def test_all_months_of_a_unit_cost_at_most_what_the_last_card_states(tmp_path, monkeypatch):
    """A household has 1,000 rows with different texts in each month, of which 4 are used.

    The household is only included in one of the tables.
    """
    places_of_its_own(monkeypatch, tmp_path)
    frame, cost, found = made_up_people(300).assign(HOME=lambda people: people.index // 2), 0.0, FoundTexts()
    for side in ("without", "with"):
        (tmp_path / side).mkdir()
        Ledger(tmp_path / side / "ledger.db").create(
            "people", 12, 1e-9, relation="add-remove of all rows with one HOME"
        )
    cards = []
    for month in (1, 2, 3):
        unit = pd.DataFrame([MORE] * 1000).assign(HOME=10**6, GROUP=[f"{month}, {i}" for i in range(1000)])
        folders = [tmp_path / side / f"noise{month}" for side in ("without", "with")]
        settings = {"series": {"name": "year", "horizon": 4}, "dataset": "people", "release_id": f"m{month}"}
        with models_once():
            for folder, table in zip(folders, (frame, pd.concat([unit, frame])), strict=True):
                noise = Recorder(folder, *folders[: folder is folders[1]])
                ledger = str(folder.parent / "ledger.db")
                with found.recorded(again=folder is folders[1]):
                    files, _ = released(
                        folder.parent, table, noise, here, declared=OPEN, ledger=ledger, epsilon=10, seed=None, **UNIT,
                        **settings,
                    )  # fmt: skip
        cost += true_cost(*folders, 4)[0]
        cards.append(json.loads(files["card.json"]))
        stated = cards[-1]["guarantee"]
        paid = sum(card["open"][0]["rho_of_delta"] for card in cards)
        assert 0.1 * stated["rho"] < cost + found.rho <= (stated["rho"] - paid) * (1 + 1e-9)
        assert 0 < found.delta <= sum(card["open"][0]["delta"] for card in cards)
        assert Rho(cost + found.rho).epsilon(stated["delta"] - found.delta) <= stated["epsilon"]
        one, two, *_ = cards[-1]["groups"]
        assert one["epsilon"] == stated["epsilon"]
        assert two["epsilon"] >= Rho(two["rho"]).epsilon(stated["delta"])
    assert [len(card["series"]["opened"]) for card in cards] == [0, 1, 2]
    own = cards[-1]["series"]["own"]  # the price that the card used to state in bold
    assert Rho(cost + found.rho).epsilon(stated["delta"]) > own["epsilon"]
