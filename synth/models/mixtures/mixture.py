"""Mixtures of product distributions over coded rows, with marginals, conditioning and sampling.

Each component draws its columns independently, conditioned on possible combinations. Therefore, structural zeros hold
exactly. Marginals are matrix products over the components, without padding to a common width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.errors import InputError
from equistrata.synth.models.archive import Archive, Head, write_archive
from equistrata.synth.models.base import check_distinct, check_possible, indicators
from equistrata.synth.models.possible import FeasibleCodes, Group
from equistrata.synth.models.rounding import assign

MIXTURE_FORMAT = "equistrata mixture 1"
MOST_PRODUCTS = 20_000_000  # the maximum number of cells of a marginal, and of its products over all components


@dataclass(frozen=True, eq=False)
class ProductMixture:
    """A fitted mixture of product distributions.

    The model is post-processing of measurements, so its use has no privacy cost. Component k has P_k(row) ∝ Π_j
    factors[j][k, row_j] over the possible rows. The model is Σ_k weights[k]·P_k.

    Parameters
    ----------
    schema : Schema
        The schema of the columns, which includes the impossible combinations.
    total : float
        The number of rows that the model represents, which is noisy or public.
    weights : ndarray of shape (K,)
        The weights of the components, which sum to 1.
    factors : tuple of ndarray
        For each column, an array of non-negative numbers with shape (K, number of codes). No row is all zero.

    Examples
    --------
    >>> schema = Schema.load("acs_employment").select(["SEX", "MIL", "ESR"])
    >>> even = tuple(np.full((2, size), 1 / size) for size in schema.sizes)
    >>> model = ProductMixture(schema, 90.0, np.array([0.5, 0.5]), even)
    >>> model.marginal(["MIL", "ESR"]).round(1).tolist()  # active duty (1) is not civilian employment
    [[10.0, 10.0], [10.0, 0.0], [10.0, 10.0], [10.0, 10.0], [10.0, 10.0]]
    """

    schema: Schema
    total: float
    weights: Floats
    factors: tuple[Floats, ...]

    @cached_property
    def possible(self) -> FeasibleCodes:
        """The possible combinations of codes."""
        return FeasibleCodes.of(self.schema)

    @cached_property
    def _class_sums(self) -> tuple[Floats, ...]:
        members = (np.eye(self.possible.class_count(j))[classes] for j, classes in enumerate(self.possible.classes))
        return tuple(factor @ member for factor, member in zip(self.factors, members, strict=True))

    @cached_property
    def _within(self) -> tuple[Floats, ...]:
        """For each column, P_k(code | class of the code), with shape (K, codes)."""
        result = []
        for factor, classes, sums in zip(self.factors, self.possible.classes, self._class_sums, strict=True):
            below = sums[:, classes]
            result.append(np.divide(factor, below, out=np.zeros_like(factor), where=below > 0))
        return tuple(result)

    @cached_property
    def _tables(self) -> tuple[tuple[Floats, Floats], ...]:
        """For each group, P_k(class combination) with shape (K, combinations), and the possible mass with shape (K)."""
        result = []
        for group in self.possible.groups:
            table = np.ones((len(self.weights), len(group.cells)))
            for spot, column in enumerate(group.columns):
                table *= self._class_sums[column][:, group.cells[:, spot]]
            mass = table.sum(axis=1)
            result.append((table / np.where(mass > 0, mass, 1.0)[:, None], mass))
        return tuple(result)

    def marginal(self, columns: Sequence[str]) -> Floats:
        """See `Model.marginal`.

        The result is exact. It is Σ_k w_k ⊗ P_k, where the product is over the tables of the groups.
        """
        check_distinct(columns)
        wanted = [self.schema.index(name) for name in columns]
        shape = [self.schema.sizes[j] for j in wanted]
        parts = []  # for each group with wanted columns, these columns and their probabilities of shape (K, cells)
        for group, (table, _) in zip(self.possible.groups, self._tables, strict=True):
            inside = [j for j in wanted if j in group.columns]
            if inside:
                parts.append((inside, self._group_marginal(group, table, inside)))
        if not parts:
            return np.array(self.total)
        parts.sort(key=lambda part: part[1].shape[1])
        last, right = parts.pop()
        left = self.weights[:, None]
        if len(self.weights) * prod(part.shape[1] for _, part in parts) > MOST_PRODUCTS or prod(shape) > MOST_PRODUCTS:
            raise InputError(f"a marginal over {', '.join(columns)} has too many cells; ask for fewer columns")
        for _, part in parts:
            left = (left[:, :, None] * part[:, None, :]).reshape(len(left), -1)
        order = [j for inside, _ in parts for j in inside] + last
        flat = (left.T @ right).reshape([self.schema.sizes[j] for j in order])
        return np.asarray(np.transpose(flat, [order.index(j) for j in wanted]) * self.total)

    def _group_marginal(self, group: Group, table: Floats, inside: Sequence[int]) -> Floats:
        """Compute P_k over the codes of some columns of a group, with shape (K, cells), in row-major order of these
        columns.
        """
        shape, widths = [self.schema.sizes[j] for j in inside], [self.possible.class_count(j) for j in inside]
        codes = dict(zip(inside, np.indices(shape).reshape(len(shape), prod(shape)), strict=True))
        key = np.ravel_multi_index([group.cells[:, group.columns.index(j)] for j in inside], widths)
        place = np.ravel_multi_index([self.possible.classes[j][code] for j, code in codes.items()], widths)
        result = np.ones((len(table), prod(shape)))
        for j, code in codes.items():
            result *= self._within[j][:, code]
        gather = np.zeros((len(group.cells), prod(widths)))
        gather[np.arange(len(key)), key] = 1.0
        return np.asarray(result * (table @ gather)[:, place])

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[ProductMixture, float]:
        """See `Model.where`."""
        return self.tilted(indicators(self.schema, allowed))

    def tilted(self, weights: Mapping[str, Floats]) -> tuple[ProductMixture, float]:
        """See `Tilting.tilted`.

        A reweighted product is again a product. The weight of a component is multiplied by the fraction of its
        probability that remains.
        """
        factors = list(self.factors)
        for name, of_codes in weights.items():
            j = self.schema.index(name)
            factors[j] = factors[j] * of_codes
        cut = ProductMixture(self.schema, self.total, self.weights, tuple(factors))
        shares = self.weights.copy()
        for (_, before), (_, after) in zip(self._tables, cut._tables, strict=True):
            shares *= np.divide(after, before, out=np.zeros_like(after), where=before > 0)
        mass = float(shares.sum())
        check_possible(mass, weights)
        return ProductMixture(self.schema, self.total * mass, shares / mass, tuple(factors)), mass

    def given(self, codes: Mapping[str, int], rest: Schema) -> tuple[ProductMixture, float]:
        """See `Tilting.given`.

        The components are weighted by their probabilities of the codes.
        """
        known, mass = self.where({name: [code] for name, code in codes.items()})
        factors = [factor for name, factor in zip(self.schema.names, known.factors, strict=True) if name not in codes]
        return ProductMixture(rest, known.total, known.weights, tuple(factors)), mass

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw synthetic rows.

        The component of each row is drawn first, then a combination of classes for each group, and then a code for each
        column. The counts in each step are rounded systematically (`rounding`), so that the errors of the components
        cancel. The rows of a component that get a value are random. Therefore, columns remain independent given the
        component.

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
        codes = np.zeros((rows, len(self.factors)), dtype=code_dtype(self.schema), order="F")
        everyone = np.zeros(rows, dtype=np.intp)
        component = assign(everyone, self.weights[None], rng)
        for group, (table, _) in zip(self.possible.groups, self._tables, strict=True):
            cell = assign(component, table, rng) if len(group.cells) > 1 else everyone
            for spot, j in enumerate(group.columns):
                classes, count = self.possible.classes[j], self.possible.class_count(j)
                inside = self._within[j][:, None, :] * (classes == np.arange(count)[:, None])
                codes[:, j] = assign(component * count + group.cells[cell, spot], inside.reshape(-1, len(classes)), rng)
        return CodedTable(codes, self.schema)

    def save(self, path: Path | BinaryIO) -> None:
        """Write the weights and the factors to a file (see `archive`)."""
        factors = {f"factor{j}": factor for j, factor in enumerate(self.factors)}
        write_archive(path, MIXTURE_FORMAT, self.schema, self.total, {"weights": self.weights, **factors})

    @classmethod
    def read(cls, head: Head, archive: Archive, schema: Schema) -> ProductMixture:
        """Read the model that `save` wrote. If the file is not consistent, `read_archive` raises InputError."""
        total, weights = float(head["total"]), archive["weights"]
        factors = tuple(archive[f"factor{j}"] for j in range(len(schema.columns)))
        shapes = [(len(weights),), *((len(weights), size) for size in schema.sizes)]
        shaped = [part.shape for part in (weights, *factors)] == shapes
        sound = all(np.isfinite(part).all() and (part >= 0).all() for part in (weights, *factors))
        if not (shaped and sound and np.isfinite(total) and abs(weights.sum() - 1) < 1e-6):
            raise ValueError
        return cls(schema, total, weights, factors)


def mixture(schema: Schema, total: float, logits: npt.NDArray[np.float32]) -> ProductMixture:
    """Create a mixture of components with equal weights from logits.

    The factors of a component are the softmax of its logits over the codes of each column.

    Parameters
    ----------
    schema : Schema
        The schema of the columns.
    total : float
        The number of rows that the model represents.
    logits : ndarray of shape (codes of all columns, components)
        The logits.

    Returns
    -------
    ProductMixture
        The mixture.
    """
    bounds = np.cumsum([0, *schema.sizes]).tolist()
    factors = []
    for a, b in pairwise(bounds):
        raised = logits[a:b].T.astype(float)
        raised = np.exp(raised - raised.max(axis=1, keepdims=True))
        factors.append(raised / raised.sum(axis=1, keepdims=True))
    count = logits.shape[1]
    return ProductMixture(schema, total, np.full(count, 1 / count), tuple(factors))
