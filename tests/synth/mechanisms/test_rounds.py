"""AIM's last rounds, from its measurements alone, are those of the run."""

from dataclasses import replace

import numpy as np
import pytest
from small_tables import schema_of

from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise, gaussian_sigma, selection_epsilon
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.candidates import CandidateSession
from equistrata.synth.mechanisms.rounds import last_rounds
from equistrata.synth.models.junction_tree import cells_in
from equistrata.synth.strata.selection import shared_selection

SIZES = (3, 4, 2, 5, 3)


def rows(count=6_000, seed=0):
    """Five columns, each much as the one before; the third defines strata."""
    rng, found = np.random.default_rng(seed), [np.zeros(count, dtype=np.intp)]
    for size in SIZES:
        found.append(np.where(rng.random(count) < 0.6, found[-1] % size, rng.integers(0, size, count)))
    return CodedTable(np.column_stack(found[1:]).astype(np.uint8), schema_of(*SIZES))


@pytest.fixture
def runs(monkeypatch):
    """What each round of a run was given, and what it chose."""
    seen, pick = [], CandidateSession.pick

    def recorded(run, model, measured, chosen):
        columns = pick(run, model, measured, chosen)
        used = run.budget.spent + measured - run.begun  # the choice is paid by now
        most = cells_in(run.size)
        found = run.candidates(most * float(used.exact / (run.budget.total - run.begun).exact))
        sigma = gaussian_sigma(measured)
        scores = dict(zip(found, run.scores(found, model, sigma), strict=True))
        seen.append((columns, sigma, 2 / selection_epsilon(chosen), scores))
        return columns

    monkeypatch.setattr(CandidateSession, "pick", recorded)
    return seen


@pytest.mark.parametrize("strata", [(), ("C",)], ids=["all rows", "by strata"])
def test_the_rounds_of_a_run_follow_from_what_it_measured(runs, strata):
    table = rows()
    aim = AIM(max_model_size=0.002)  # so small that not everything is offered
    if strata:
        aim = shared_selection(aim, Strata.over(table.schema, strata))
    measurements, _ = aim.measure_with_log(table, Rho(0.02), SeededNoise(3))
    found = list(last_rounds(aim, table.schema, measurements, 100))
    assert len(found) >= 3
    left_out = 0
    for (columns, sigma, scale, scores), each in zip(runs[-len(found) :], found, strict=True):
        assert each.chosen.columns == columns
        assert (each.sigma, each.scale) == pytest.approx((sigma, scale))
        offered = {c for c in each.weights if each.offered(c)}
        assert offered == set(scores) if not strata else offered <= set(scores)  # its first round chose one column
        left_out += len(each.weights) - len(scores)
        for candidate, score in scores.items():
            again = each.scores(candidate, table.marginal(candidate).astype(float)) * each.scale
            assert again == pytest.approx(score, rel=0.02, abs=0.1 * sigma)  # a descent that began elsewhere
    assert left_out > 0


def test_only_the_last_rounds_are_modelled_and_none_of_other_settings():
    table = rows()
    aim = AIM()
    measurements, _ = aim.measure_with_log(table, Rho(0.02), SeededNoise(3))
    last = list(last_rounds(aim, table.schema, measurements, 2))
    assert [each.chosen for each in last] == measurements[-2:]
    assert not list(last_rounds(replace(aim, degree=1), table.schema, measurements, 2))  # it offers no pairs
    where = [*measurements[:-1], replace(measurements[-1], where=(("A", 0),))]
    assert not list(last_rounds(aim, table.schema, where, 2))
