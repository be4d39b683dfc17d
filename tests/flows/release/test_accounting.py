"""Tests that the true privacy cost of a release is not larger than the charge, and that the files depend on the rows
only through noise.

With `recorder`, a release is made from a table and from a neighbour, with the same answers of the noise source. The
public random numbers are also the same, for example for the held-out rows and the samples from the models. The files in
the manifest must then be the same. The steps are run on the same workers as in the flow, but without Prefect, which
does not process any rows.
"""

from pathlib import Path

import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA
from people_in_places import ANOTHER, PLACES_SCHEMA, people_in_places
from replay import released_twice, replayed

import equistrata.flows.release.card.document
import equistrata.flows.release.flow
import equistrata.inference.means.refinement
import equistrata.privacy.noise
import equistrata.synth.mechanisms.levels
import equistrata.synth.mechanisms.session
import equistrata.synth.registry
from equistrata.flows.release.runners import PACKAGES
from equistrata.flows.release.steps import describing
from equistrata.privacy.budget import Budget, Rho
from equistrata.synth.counting import measure_marginal

OPEN_JOBS = PEOPLE_SCHEMA.replace("JOB: {values: ['no', 'yes']}", "JOB: {values: open}").replace("[a, b, c]", "open")


def assert_kept(both, price, found):
    cost, claimed = found
    assert 0.3 * price < cost <= price * (1 + 1e-9)
    assert claimed <= price * (1 + 1e-9)
    one, two = both
    assert list(one) == list(two)
    assert [name for name in one if one[name] != two[name]] == []
    assert {"card.json", "card.md", "schema.json"} <= set(one)


RELEASES = {
    "mst, shared": {"synthesizer": "mst"},
    "aim, shared, held-out rows": {"synthesizer": "aim", "evaluate": "full"},
    "gem, means over all rows only": {"synthesizer": "gem", "means_estimator": "vanilla"},
    "mst, for each stratum": {"synthesizer": "mst", "selection": "per-stratum"},
    "no strata": {"synthesizer": "mst", "strata": ""},
    "open columns": {"declared": OPEN_JOBS, "strata": "SEX", "evaluate": "full"},
    "levels none, no shrinkage": {"synthesizer": "mst", "levels": "none", "shrinkage": False},
}


@pytest.fixture
def weights(tmp_path):
    """Return a file with public weights."""
    path = tmp_path / "weights.csv"
    pd.DataFrame([{"SEX": sex, "GROUP": group, "share": 1 / 6} for sex in (1, 2) for group in "abc"]).to_csv(
        path, index=False
    )
    return path


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_costs_its_price_and_tells_nothing_else(tmp_path, name):
    assert_kept(*released_twice(tmp_path, **RELEASES[name]))


@pytest.mark.parametrize("selection", ["shared", "per-stratum"])
@pytest.mark.parametrize("combined", [True, False])
def test_public_weights(tmp_path, weights, selection, combined):
    """These weights are used for the means."""
    settings = {"weights": str(weights), "combine_weights": combined, "selection": selection}
    assert_kept(*released_twice(tmp_path, shrinkage=selection == "shared", **settings))


@pytest.mark.parametrize("runner", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_workers_of_every_kind(tmp_path, runner):
    """The draws of the workers are recorded by separate processes."""
    pytest.importorskip(PACKAGES.get(runner, "loky"), reason=f"the extra {runner!r} is not installed")
    assert_kept(*released_twice(tmp_path, runner=runner, workers=2, selection="per-stratum", shrinkage=False))


# These settings have all types of columns, and the number of released rows is noisy.
PLACES = {
    "mst": {},
    "aim": {"synthesizer": "aim", "strata": "SEX"},
    "gem, by states and places": {"synthesizer": "gem", "strata": "ST/AREA"},
    "within strata only": {"levels": "strata"},
    "over all rows only": {"levels": "none"},
    "for each stratum": {"selection": "per-stratum"},
    "no strata, held-out rows": {"strata": "", "evaluate": "full"},
    "two means, both ways": {"strata": "SEX", "means": "PAY,AGE", "means_estimator": "both"},
    "a population's means": {"strata": "SEX", "means_target": "population"},
    "noise alone": {"epsilon": 0.05, "rows": 50},
    "hardly any noise": {"strata": "SEX", "epsilon": 100},
}


@pytest.mark.parametrize(
    "name", ["mst", *(pytest.param(name, marks=pytest.mark.slow) for name in PLACES if name != "mst")]
)
def test_places_codes_dates_and_absent_cells_are_paid_for(tmp_path, name):
    frame = people_in_places(300)
    more = pd.concat([frame, pd.DataFrame([ANOTHER])], ignore_index=True)
    settings = {"declared": PLACES_SCHEMA, "strata": "AREA,SEX", "rows": None} | PLACES[name]
    assert_kept(*replayed(tmp_path, frame, more, **settings))


def test_a_table_of_three_rows_costs_its_price(tmp_path):
    frame = people_in_places(3)
    more = pd.concat([frame, pd.DataFrame([ANOTHER])], ignore_index=True)
    assert_kept(*replayed(tmp_path, frame, more, declared=PLACES_SCHEMA, strata="SEX", rows=None))


# The following tests have a known fault.


def test_a_level_of_places_off_the_books_is_caught(monkeypatch, tmp_path):
    honest = equistrata.synth.mechanisms.levels.Levels.measure_within

    def measure(self, session, over_all):
        measure_marginal(session.table, ("AREA",), Rho(0.01), Budget(Rho(0.01)), session.noise)
        return honest(self, session, over_all)

    monkeypatch.setattr(equistrata.synth.mechanisms.levels.Levels, "measure_within", measure)
    frame = people_in_places(300)
    more = pd.concat([frame, pd.DataFrame([ANOTHER])], ignore_index=True)
    _, price, (_, claimed) = replayed(tmp_path, frame, more, declared=PLACES_SCHEMA, strata="AREA,SEX", rows=None)
    assert claimed > price * 1.05


def test_noise_too_small_by_a_tenth_is_caught(monkeypatch, tmp_path):
    honest = equistrata.privacy.noise.gaussian_sigma
    monkeypatch.setattr(equistrata.privacy.noise, "gaussian_sigma", lambda *price: 0.9 * honest(*price))
    with pytest.raises(AssertionError, match="costs"):
        released_twice(tmp_path)


def test_a_marginal_that_is_not_charged_is_caught(monkeypatch, tmp_path):
    honest = equistrata.synth.mechanisms.session.Session.measure

    def measure(self, columns, price, *rest, **more):
        if not self.log:
            measure_marginal(self.table, ("AGE",), price, Budget(price), self.noise)
        return honest(self, columns, price, *rest, **more)

    monkeypatch.setattr(equistrata.synth.mechanisms.session.Session, "measure", measure)
    both, price, (_, claimed) = released_twice(tmp_path)
    assert both[0] == both[1]
    assert claimed > price * 1.001


def test_a_score_of_sensitivity_two_is_caught(monkeypatch, tmp_path):
    honest = equistrata.synth.mechanisms.session.marginal_score
    monkeypatch.setattr(equistrata.synth.mechanisms.session, "marginal_score", lambda *given: 2 * honest(*given))
    with pytest.raises(AssertionError, match=r"\(select\) moves by 2\.0, not 1"):
        released_twice(tmp_path)


def test_a_mean_that_counts_for_free_is_caught(monkeypatch, tmp_path):
    honest = equistrata.inference.means.refinement.estimate_mean

    def estimate(values, budget, settings, noise, *paid):
        found = honest(values, budget, settings, noise, *paid)
        equistrata.inference.means.refinement.noisy_rows(len(values), budget.total, Budget(budget.total), noise)
        return found

    monkeypatch.setattr("equistrata.inference.means.coinpress.estimate_mean", estimate)
    _, price, (_, claimed) = released_twice(tmp_path, means_estimator="vanilla")
    assert claimed > price * 1.05


def test_a_file_that_shows_an_exact_count_is_caught(monkeypatch, tmp_path):
    honest = describing.release_card

    def card(plan, *given):
        where = Path(plan.config.input)
        return honest(plan, *given) | {"read": len(pd.read_csv(where))}

    monkeypatch.setattr(describing, "release_card", card)
    both, price, found = released_twice(tmp_path)
    with pytest.raises(AssertionError, match=r"card\.json"):
        assert_kept(both, price, found)
