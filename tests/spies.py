"""Noise sources and budgets that record the calls of a mechanism, and a noise source with fixed answers."""

from __future__ import annotations

import numpy as np

from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import SeededNoise


class Spy(SeededNoise):
    """A noise source that records its calls. If `exact` is True, the Gaussian noise is zero."""

    def __init__(self, seed=0, exact=False):
        super().__init__(seed)
        self.exact, self.selections, self.sigmas = exact, [], []

    def _gaussian(self, counts, sigma, *claim):
        self.sigmas.append(sigma)
        return counts if self.exact else super()._gaussian(counts, sigma, *claim)

    def _select(self, scores, scale, sensitivity, rho):
        self.selections.append((np.array(scores), sensitivity, rho))
        return super()._select(scores, scale, sensitivity, rho)


class FakeNoise(SeededNoise):
    """A noise source that ignores its input, so that a result must not depend on the rows."""

    def __init__(self, level=50):
        super().__init__(0)
        self.rng, self.level = np.random.default_rng(7), level

    def _gaussian(self, counts, *claim):
        return self.level + self.rng.integers(-20, 20, np.shape(counts))

    def _select(self, scores, *claim):
        return int(self.rng.integers(len(scores)))

    def spawn(self, stream):
        return FakeNoise(self.level + stream)


def recorded_budgets(monkeypatch, module):
    """Return a list to which each new Budget of this module is added."""
    made = []

    class Recorded(Budget):
        def __init__(self, rho):
            super().__init__(rho)
            made.append(self)

    monkeypatch.setattr(module, "Budget", Recorded)
    return made
