"""What a mechanism asks of its noise and its budget, written down; and noise that answers with its own numbers."""

from __future__ import annotations

import numpy as np

from equistrata.privacy.budget import Budget
from equistrata.privacy.noise import SeededNoise


class Spy(SeededNoise):
    """Records what is asked of it; its Gaussian can be made exact."""

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
    """Ignores what it is given: whatever still depends on the rows did not come through the noise source."""

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
    """A list that every Budget joins which this module makes from now on."""
    made = []

    class Recorded(Budget):
        def __init__(self, rho):
            super().__init__(rho)
            made.append(self)

    monkeypatch.setattr(module, "Budget", Recorded)
    return made
