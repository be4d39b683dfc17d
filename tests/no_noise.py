"""Noise sources without noise: for tests of the arithmetic around it, and for tests of what must not draw any."""

from __future__ import annotations

from equistrata.privacy.noise import SeededNoise


class NoNoise(SeededNoise):
    """What comes in goes out."""

    def __init__(self) -> None:
        super().__init__(0)

    def _gaussian(self, counts, *claim):
        return counts

    def _laplace(self, values, *claim):
        return values

    def spawn(self, stream):
        return self


class ForbiddenNoise:
    """Fails a test as soon as anything is drawn."""

    private = True
    name = "none"

    def __getattr__(self, name):
        raise AssertionError("noise was drawn")
