"""Fits that are made once, and where others of the same measurements begin."""

import numpy as np
import pytest
from known_relations import evidence_of, people

from equistrata.analysis.uncertainty.replicates import Replicating
from equistrata.synth.models.estimation import MirrorDescent


@pytest.mark.parametrize("selection", ["shared", "per-stratum"])
def test_replicates_begin_where_the_released_model_ended_and_do_not_make_it_again(selection, monkeypatch):
    """They had made its fits a second time: a card took five models where four will do."""
    starts, descend = [], MirrorDescent.estimate

    def estimate(engine, schema, measurements, warm_start=None, strata=()):
        starts.append(warm_start)
        return descend(engine, schema, measurements, warm_start, strata)

    monkeypatch.setattr(MirrorDescent, "estimate", estimate)
    evidence = evidence_of(people(2000), 1.0, ["G"], selection=selection)
    starts.clear()
    fitted, own = evidence.fitted, len(starts)
    assert own >= 2
    assert starts == [None] * own
    made, _ = next(Replicating(evidence, seed=1).models([0]))
    assert len(starts) == 2 * own
    assert all(start is not None for start in starts[own:])
    assert evidence.fitted is fitted
    pair = ("X", "Y")
    np.testing.assert_allclose(made.marginal(pair), fitted.marginal(pair), atol=300)


def test_models_of_fewer_measurements_begin_from_nothing(monkeypatch):
    """Else a model without some of them would know what they say, and so predict them too well."""
    starts, descend = [], MirrorDescent.estimate
    evidence = evidence_of(people(2000), 1.0, ["G"])
    assert evidence.fitted.total > 0

    def estimate(engine, schema, measurements, warm_start=None, strata=()):
        starts.append(warm_start)
        return descend(engine, schema, measurements, warm_start, strata)

    monkeypatch.setattr(MirrorDescent, "estimate", estimate)
    evidence.without([False] * len(evidence.published))
    assert starts
    assert all(start is None for start in starts)
