"""Noise sources without noise, for tests of the arithmetic and for tests in which no noise may be drawn."""

from __future__ import annotations

from equistrata.privacy.noise import SeededNoise


class NoNoise(SeededNoise):
    """A noise source that returns its input."""

    def __init__(self) -> None:
        super().__init__(0)

    def _gaussian(self, counts, *claim):
        return counts

    def _laplace(self, values, *claim):
        return values

    def spawn(self, stream):
        return self


class ForbiddenNoise:
    """A noise source that raises an error when noise is drawn."""

    private = True
    name = "none"

    def __getattr__(self, name):
        raise AssertionError("noise was drawn")
