"""A noise source without noise, for tests of the arithmetic around it."""

from __future__ import annotations

import numpy as np

from privacy.noise import SeededNoise


class NoNoise(SeededNoise):
    """What comes in goes out."""

    def __init__(self) -> None:
        super().__init__(0)

    def gaussian(self, counts, sigma):
        return np.asarray(counts, dtype=np.int64)

    def gaussian_real(self, value, sigma):
        return value

    def laplace_real(self, value, scale):
        return value

    def spawn(self, stream):
        return self
