"""The interface of models.

A model is a fitted distribution over rows. The use of a model has no privacy cost.
"""

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

PUBLIC_SIGMA = 0.01  # the σ that is used to fit a public marginal, which has σ = 0


class Model(Protocol):
    """A fitted distribution over rows.

    The use of a model is post-processing and has no privacy cost.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def total(self) -> float:
        """The number of rows that the model represents, which is noisy or public."""
        ...

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Compute the expected counts over some columns.

        Parameters
        ----------
        columns : sequence of str
            The columns of the marginal.

        Returns
        -------
        ndarray
            The expected counts, with one axis per column. Their sum is `total`.

        Raises
        ------
        InputError
            If a column is repeated.
        """
        ...

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[Model, float]:
        """Condition the model on the allowed codes of some columns.

        Parameters
        ----------
        allowed : mapping of str to sequence of int
            The allowed codes of each of these columns.

        Returns
        -------
        model : Model
            The conditional model.
        probability : float
            The probability of the condition.

        Raises
        ------
        InputError
            If the probability is 0.
        """
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw synthetic rows.

        Parameters
        ----------
        rows : int
            The number of rows.
        rng : numpy.random.Generator
            The random number generator.

        Returns
        -------
        CodedTable
            The synthetic rows.
        """
        ...


class Tilting(Model, Protocol):
    """A model that can be conditioned, reweighted and saved.

    It is a frozen dataclass with a field `total`.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # so that `dataclasses.replace` accepts the model

    def given(self, codes: Mapping[str, int], rest: Schema) -> tuple[Self, float]:
        """Condition the model on the codes of some columns and remove these columns.

        Parameters
        ----------
        codes : mapping of str to int
            The code of each known column.
        rest : Schema
            The schema of the other columns, in their order.

        Returns
        -------
        model : Tilting
            The conditional model of the other columns.
        probability : float
            The probability of the codes.

        Raises
        ------
        InputError
            If the probability is 0.
        """
        ...

    def tilted(self, weights: Mapping[str, Floats]) -> tuple[Self, float]:
        """Multiply the probabilities of codes by weights.

        Parameters
        ----------
        weights : mapping of str to ndarray
            For each of these columns, the weight of each code. Weights are between 0 and 1.

        Returns
        -------
        model : Tilting
            The reweighted model.
        probability : float
            The probability that remains.

        Raises
        ------
        InputError
            If the remaining probability is 0.
        """
        ...

    def save(self, path: Path | BinaryIO) -> None:
        """Write the model to a file (see `archive`).

        Parameters
        ----------
        path : Path or file object
            The file to write.
        """
        ...


def indicators(schema: Schema, allowed: Mapping[str, Sequence[int]]) -> dict[str, Floats]:
    """Return weights for `Tilting.tilted` that keep only the allowed codes.

    Parameters
    ----------
    schema : Schema
        The schema of the model.
    allowed : mapping of str to sequence of int
        The allowed codes of each of these columns.

    Returns
    -------
    dict of str to ndarray
        For each of these columns, 1 for an allowed code and 0 for any other code.
    """
    return {name: np.isin(np.arange(schema[name].size), list(codes)).astype(float) for name, codes in allowed.items()}


def check_distinct(columns: Sequence[str]) -> None:
    """Raise InputError if a column is named twice."""
    if len(set(columns)) < len(columns):
        raise InputError("a marginal names a column twice; name each once")


def check_possible(mass: float, columns: Iterable[str]) -> None:
    """Raise InputError if the condition on some columns has probability 0."""
    if not mass > 0:
        raise InputError(f"no row can have this combination of {', '.join(columns)}; use a weaker condition")
