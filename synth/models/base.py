"""What a model is: a fitted distribution over rows. Using it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable


class Model(Protocol):
    """A fitted distribution over rows. Using it is post-processing and costs nothing."""

    @property
    def schema(self) -> Schema: ...

    @property
    def total(self) -> float:
        """The number of rows it stands for (noisy or public)."""
        ...

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Expected counts over any columns, one axis each, summing to `total`."""
        ...

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[Model, float]:
        """The model given that columns have one of these codes, and the probability of that."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw rows."""
        ...
