"""Models of merged codes that are expanded to all codes.

The shares of the codes within a group are known. Given its group, a code is independent of all other columns.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.table import CodedTable, code_dtype
from equistrata.synth.models.archive import Archive, Head, write_archive
from equistrata.synth.models.base import Tilting, check_possible, indicators
from equistrata.synth.models.columns.coupled import Placed, coupled, ordered_codes
from equistrata.synth.models.rounding import assign

EXPANDED_FORMAT = "equistrata expanded model 1"


@dataclass(frozen=True, eq=False)
class ExpandedModel:
    """A model of merged codes with the shares of the codes within their groups.

    The model is post-processing of measurements, so its use has no privacy cost.

    Parameters
    ----------
    schema : Schema
        The schema with all codes.
    model : Tilting
        The model of the merged codes.
    groups : mapping of str to tuple of int
        For each column with merged codes, the group of each code.
    shares : mapping of str to ndarray
        For each of these columns, the probability of each code given its group, as an array of shape (codes,).
    """

    schema: Schema
    model: Tilting
    groups: Mapping[str, tuple[int, ...]]
    shares: Mapping[str, Floats]

    @property
    def total(self) -> float:
        """The number of rows that the model represents, which is noisy or public."""
        return self.model.total

    def marginal(self, columns: Sequence[str]) -> Floats:
        """See `Model.marginal`."""
        counts = self.model.marginal(columns)
        for axis, name in enumerate(columns):
            if name in self.groups:
                shape = [-1 if other == axis else 1 for other in range(len(columns))]
                counts = np.take(counts, self.groups[name], axis) * self.shares[name].reshape(shape)
        return counts

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[ExpandedModel, float]:
        """See `Model.where`."""
        model, mass = self.tilted(indicators(self.schema, allowed))
        check_possible(mass, allowed)
        return model, mass

    def tilted(self, weights: Mapping[str, Floats]) -> tuple[ExpandedModel, float]:
        """See `Tilting.tilted`.

        The weight of a group is the mean of the weights of its codes, weighted by their shares.
        """
        weights, shares = dict(weights), dict(self.shares)
        for name in set(weights).intersection(self.groups):
            groups, kept = np.asarray(self.groups[name]), self.shares[name] * weights[name]
            weights[name] = np.minimum(np.bincount(groups, kept), 1.0)
            shares[name] = kept / np.where(weights[name] > 0, weights[name], 1.0)[groups]
        model, mass = self.model.tilted(weights)
        return ExpandedModel(self.schema, model, self.groups, shares), mass

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw synthetic rows.

        Rows are drawn from the model of merged codes, and then a code is drawn from each group. The counts are rounded
        systematically (`rounding`). Within a group, the order of the codes follows the other columns of the rows
        (`coupled`).

        Parameters
        ----------
        rows : int
            The number of rows.
        rng : numpy.random.Generator
            The random number generator.

        Returns
        -------
        CodedTable
            The synthetic rows with all codes.
        """
        drawn = self.model.sample(rows, rng)
        codes = np.empty(drawn.codes.shape, dtype=code_dtype(self.schema), order="F")
        for place, name in enumerate(self.schema.names):
            codes[:, place] = drawn.column(name)
            if name in self.groups:
                groups = np.asarray(self.groups[name])
                table = self.shares[name] * (groups == np.arange(groups.max() + 1)[:, None])
                codes[:, place] = assign(drawn.column(name).astype(np.intp), table, rng)
        self._couple(codes, drawn, rng)
        return CodedTable(codes, self.schema)

    def _couple(self, codes: npt.NDArray[np.unsignedinteger], drawn: CodedTable, rng: np.random.Generator) -> None:
        """Exchange codes between rows of the same group, in place."""
        placed, names = [], []
        for place, name in enumerate(self.schema.names):
            order = ordered_codes(self.schema[name], self.groups.get(name))
            if len(order) > 1:
                positions = np.full(self.model.schema[name].size, -1)
                positions[order] = np.arange(len(order))
                merged = codes[:, place].astype(np.intp) if name in self.groups else None
                placed.append(Placed(positions[drawn.column(name)], len(order), merged))
                names.append(place)
        for place, found in zip(names, coupled(placed, rng), strict=True):
            if found is not None:
                codes[:, place] = found

    def save(self, path: Path | BinaryIO) -> None:
        """Write the model to a file.

        The model of merged codes is stored inside an archive of the groups and the shares (see `archive`).
        """
        inner = io.BytesIO()
        self.model.save(inner)
        arrays = {f"shares{place}": self.shares[name] for place, name in enumerate(self.groups)}
        arrays["model"] = np.frombuffer(inner.getvalue(), dtype=np.uint8)
        more = {"groups": {name: list(groups) for name, groups in self.groups.items()}}
        write_archive(path, EXPANDED_FORMAT, self.schema, self.total, arrays, more)

    @classmethod
    def read(
        cls, head: Head, archive: Archive, schema: Schema, inside: Callable[[BinaryIO, Schema], Any]
    ) -> ExpandedModel:
        """Read the model that `save` wrote.

        The model of merged codes is read by the function `inside`. If the file is not consistent, `read_archive` raises
        InputError.
        """
        groups = {str(name): tuple(int(group) for group in codes) for name, codes in head["groups"].items()}
        shares = {name: archive[f"shares{place}"] for place, name in enumerate(groups)}
        for name, codes in groups.items():
            whole = set(codes) == set(range(max(codes) + 1)) and len(codes) == schema[name].size
            if not whole or shares[name].shape != (len(codes),) or not (shares[name] >= 0).all():
                raise ValueError
        model = inside(io.BytesIO(archive["model"].tobytes()), merged_schema(schema, groups))
        return cls(schema, model, groups, shares)


def merged_schema(schema: Schema, groups: Mapping[str, Sequence[int]]) -> Schema:
    """Return a schema with merged codes, in which the values are groups.

    Structural zeros exclude the same combinations, which are now expressed in groups. Rules on the order of columns are
    removed because they are applied at the full codes.

    Parameters
    ----------
    schema : Schema
        The schema with all codes.
    groups : mapping of str to sequence of int
        For each column with merged codes, the group of each code.

    Returns
    -------
    Schema
        The schema with merged codes.
    """
    if not groups:
        return schema
    columns = tuple(
        Column(column.name, column.label, tuple(range(max(groups[column.name]) + 1)), weight=column.weight)
        if column.name in groups
        else column
        for column in schema.columns
    )
    zeros = []
    for zero in schema.impossible:
        parts = zip(zero.columns, zero.codes, strict=True)
        codes = [{groups[name][code] for code in codes} if name in groups else codes for name, codes in parts]
        zeros.append(Impossible(zero.columns, tuple(tuple(sorted(part)) for part in codes)))
    return replace(schema, columns=columns, impossible=tuple(zeros), ordered=(), derived=())
