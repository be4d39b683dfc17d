"""Two months of a panel through the flow, with one person in both: they cost the series' price, and the rest is pure.

By `recorder`, as `test_accounting.py`: both months are made of tables, and played back on the neighbours with the same
answers and the same public randomness. The ledger's heads and times differ between the two, so card and manifest do.
"""

import numpy as np
import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from recorder import Recorder, true_cost
from replay import here, without_prefect

import equistrata.flows.release.flow
import equistrata.flows.release.measuring.links
import equistrata.privacy.noise
from equistrata.data.units.linking import Linking
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.steps import describing, streams
from equistrata.flows.release.undertaking import under_way
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger

PRICE = Rho.from_epsilon_delta(8, 1e-9)
MORE = {"SEX": 2, "GROUP": "c", "AGE": 90, "JOB": "yes", "PAY": 100.0, "PID": "somebody"}
FILES = ("panel.json", "panel.csv", "synthetic.csv", "series.json", "cells.csv")


def tables(where=()):
    """Two months; in those of `where` one person more, who changes work in the second."""
    frame = made_up_people(400).assign(PID=[f"p{n}" for n in range(400)])
    later = frame.iloc[15:].copy()
    later.loc[20:40, "JOB"] = "no"
    both = []
    for month, table in enumerate((frame, later), start=1):
        person = pd.DataFrame([MORE | {"JOB": "no" if month == 2 else "yes"}])
        both.append(pd.concat([table, person], ignore_index=True) if month in where else table)
    return both


def made(home, frames, calls, answers=None, **changes):
    """Both months: what they publish, but for card and manifest."""
    home.mkdir()
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    Ledger(home / "ledger.db").create("people", 30, 1e-9)
    found = []
    for month, frame in enumerate(frames, start=1):
        frame.to_csv(home / f"people{month}.csv", index=False)
        before = {"input": str(home / "people1.csv")} if month > 1 else {}
        config = ReleaseConfig.build(
            **{
                "source": "csv", "input": str(home / f"people{month}.csv"), "schema": str(home / "people.yaml"),
                "strata": "SEX", "rows": 300, "evaluate": "none", "runner": "threads", "epsilon": 8,
                "dataset": "people", "ledger": str(home / "ledger.db"), "release_id": f"people-{month}",
                "output": str(home / f"m{month}"), "series": {"name": "year", "horizon": 2},
                "panel": {"id": "PID", "columns": "JOB,GROUP", "share": 0.3, **before},
            } | changes
        )  # fmt: skip
        noise = Recorder(calls / f"m{month}", None if answers is None else answers / f"m{month}", month)
        with without_prefect(noise, here), under_way(config) as run:
            equistrata.flows.release.flow._make(run)
        output = home / f"m{month}"
        found.append({name: (output / name).read_bytes() for name in FILES})
        found[-1] |= {path.name: path.read_bytes() for path in sorted((output / "measurements").iterdir())}
    return found


@pytest.fixture
def twice(tmp_path, monkeypatch):
    """Makes both months of the tables and of their neighbours; their files, and the true cost and what was claimed."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(describing, "served", lambda evidence: None)  # of the cards, which are not compared
    monkeypatch.setattr(streams, "generator", lambda plan, stream: np.random.default_rng([4, stream]))
    monkeypatch.setattr(equistrata.flows.release.measuring.links, "public_rng", lambda seed: np.random.default_rng(6))

    def make(where, **changes):
        first, second = tmp_path / "first", tmp_path / "second"
        one = made(tmp_path / "one", tables(), first, **changes)
        two = made(tmp_path / "two", tables(where), second, first, **changes)
        costs = [true_cost(first / f"m{month}", second / f"m{month}") for month in (1, 2)]
        return one, two, [sum(each) for each in zip(*costs, strict=True)]

    return make


@pytest.mark.parametrize("where", [(1, 2), (1,), (2,)], ids=str)
def test_a_person_pays_the_series_price_at_most_and_nothing_else_is_seen(twice, where):
    one, two, (cost, claimed) = twice(where)
    assert [name for a, b in zip(one, two, strict=True) for name in a if a[name] != b[name]] == []
    assert cost <= float(PRICE) * (1 + 1e-9)
    assert claimed <= float(PRICE) * (1 + 1e-9)
    assert cost > 0.3 * float(PRICE) * (len(where) / 2)


def test_transitions_with_noise_too_small_by_a_tenth_are_caught(twice, monkeypatch):
    honest = equistrata.privacy.noise.gaussian_sigma
    monkeypatch.setattr(equistrata.privacy.noise, "gaussian_sigma", lambda *price: 0.9 * honest(*price))
    with pytest.raises(AssertionError, match="costs"):
        twice((1, 2))


def test_joint_counts_in_which_a_person_is_twice_are_caught(twice, monkeypatch):
    """A planted fault: every person counts as two."""
    honest = Linking.joint

    def joint(self, sizes):
        counts = honest(self, sizes)
        return [2 * each for each in counts]

    monkeypatch.setattr(Linking, "joint", joint)
    with pytest.raises(AssertionError, match=r"moves by 2\.0, not 1"):
        twice((1, 2))


def test_exact_turnover_among_what_is_published_is_caught(twice, monkeypatch):
    """A planted fault: who stays is counted, not estimated."""
    honest = equistrata.flows.release.measuring.links._measured

    def measured(plan, work):
        found = honest(plan, work)
        exact = sum(map(sum, equistrata.flows.release.measuring.links._linked(work, 0).tolist()))
        return [type(each)(each.columns, each.values + exact, each.sigma) for each in found]

    monkeypatch.setattr(equistrata.flows.release.measuring.links, "_measured", measured)
    one, two, _ = twice((1, 2))
    assert one[1]["panel.json"] != two[1]["panel.json"]
