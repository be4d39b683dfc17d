"""What a model is: a fitted distribution over rows. Using it costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, Self

import numpy as np

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

PUBLIC_SIGMA = 0.01  # the σ with which a public marginal (σ = 0) is fitted


class Model(Protocol):
    """A fitted distribution over rows. Using it is post-processing and costs nothing."""

    @property
    def schema(self) -> Schema: ...

    @property
    def total(self) -> float:
        """The number of rows it stands for (noisy or public)."""
        ...

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Expected counts over any columns, one axis each, summing to `total`. Raises InputError on a repeated one."""
        ...

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[Model, float]:
        """The model given that columns have one of these codes, and the probability of that.

        Raises InputError if it is zero.
        """
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw rows."""
        ...


class Tilting(Model, Protocol):
    """A model that can be conditioned, reweighted, and saved: a frozen dataclass with a field `total`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # so that `dataclasses.replace` takes it

    def given(self, codes: Mapping[str, int], rest: Schema) -> tuple[Self, float]:
        """The model of the other columns given the codes of some, and the probability of these.

        Args:
            codes: a code for each column that is known.
            rest: the schema of the other columns, in their order.

        Raises InputError if the probability is zero.
        """
        ...

    def tilted(self, weights: Mapping[str, Floats]) -> tuple[Self, float]:
        """The model with each column's codes multiplied by weights from 0 to 1, and the probability that leaves.

        Raises InputError if it is zero.
        """
        ...

    def save(self, path: Path | BinaryIO) -> None:
        """Write it (see `archive`)."""
        ...


def indicators(schema: Schema, allowed: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    """Weights for `Tilting.tilted` that leave only the allowed codes."""
    return {name: np.isin(np.arange(schema[name].size), list(codes)).astype(float) for name, codes in allowed.items()}


def check_distinct(columns: Sequence[str]) -> None:
    """Raise InputError if a column is named twice."""
    if len(set(columns)) < len(columns):
        raise InputError("a marginal names a column twice; name each once")


def check_possible(mass: float, columns: Iterable[str]) -> None:
    """Raise InputError if a condition on these columns has no probability."""
    if not mass > 0:
        raise InputError(f"no row can have that combination of {', '.join(columns)}; loosen the condition")
