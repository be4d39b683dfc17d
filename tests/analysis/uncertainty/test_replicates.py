"""Tests that a replicate is fitted in the same way as the model of the release."""

import numpy as np
import pytest
from known_relations import evidence_of, people

from equistrata.analysis.uncertainty.replicates import ReplicateGenerator
from equistrata.synth.models.estimation import MirrorDescent


@pytest.mark.parametrize("selection", ["shared", "per-stratum"])
def test_a_replicate_is_fitted_as_the_release_was_and_the_fitted_model_is_made_once(selection, monkeypatch):
    """A replicate must not start from the fitted model, because it would then be too similar to the model."""
    starts, descend = [], MirrorDescent.estimate

    def estimate(engine, schema, measurements, warm_start=None):
        starts.append((engine, warm_start))
        return descend(engine, schema, measurements, warm_start)

    evidence = evidence_of(people(2000), 1.0, ["G"], selection=selection)
    monkeypatch.setattr(MirrorDescent, "estimate", estimate)
    fitted, own = evidence.fitted, len(starts)
    assert own >= 2
    made, _ = next(ReplicateGenerator(evidence, seed=1).models([0]))
    assert starts[own:] == starts[:own]
    assert all(start is None for _, start in starts)
    assert evidence.fitted is fitted
    pair = ("X", "Y")
    np.testing.assert_allclose(made.marginal(pair), fitted.marginal(pair), atol=300)
