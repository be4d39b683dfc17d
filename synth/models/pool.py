"""Models that are pools of drawn rows.

They are used for synthesizers that return only rows.

>>> schema = Schema.load("acs_employment").select(["SEX", "ESR"])
>>> model = SampledModel(10.0, CodedTable(np.array([[0, 0], [0, 1], [1, 1], [1, 1]], dtype=np.uint8), schema))
>>> model.marginal(["SEX", "ESR"]).tolist()
[[2.5, 2.5], [0.0, 5.0]]
>>> given, mass = model.where({"ESR": [1]})
>>> mass, given.total, len(given.sample(7, np.random.default_rng(0)))
(0.75, 7.5, 7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.synth.models.archive import Archive, Head, write_archive
from equistrata.synth.models.base import check_distinct, check_possible

POOL_FORMAT = "equistrata sampled model 1"


@dataclass(frozen=True, eq=False)
class SampledModel:
    """The empirical distribution of a pool of synthetic rows.

    The model is post-processing of these rows, so its use has no privacy cost. Its marginals have the sampling error of
    the pool, which is about √(cells / rows in the pool) in L1 norm. A combination that is not in the pool has
    probability 0.

    Parameters
    ----------
    total : float
        The number of rows that the model represents, which is noisy or public and non-negative.
    pool : CodedTable
        The drawn rows. There must be at least one.

    Raises
    ------
    InputError
        If the pool is empty.
    """

    total: float
    pool: CodedTable

    def __post_init__(self) -> None:
        if not len(self.pool):
            raise InputError("a sampled model needs at least one row in its pool")

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.pool.schema

    def marginal(self, columns: Sequence[str]) -> Floats:
        """See `Model.marginal`."""
        check_distinct(columns)
        return np.asarray(self.pool.marginal(columns) * (self.total / len(self.pool)), dtype=np.float64)

    def where(self, allowed: Mapping[str, Sequence[int]]) -> tuple[SampledModel, float]:
        """See `Model.where`."""
        kept = np.ones(len(self.pool), dtype=bool)
        for name, codes in allowed.items():
            kept &= np.isin(self.pool.column(name), list(codes))
        mass = float(kept.mean())
        check_possible(mass, allowed)
        return SampledModel(self.total * mass, self.pool.take(kept)), mass

    def sample(self, rows: int, rng: np.random.Generator) -> CodedTable:
        """Draw synthetic rows from the pool without replacement.

        If more rows are requested than the pool has, all rows of the pool are repeated equally often, and only the
        remaining rows are drawn.

        Parameters
        ----------
        rows : int
            The number of rows.
        rng : numpy.random.Generator
            The random number generator.

        Returns
        -------
        CodedTable
            The synthetic rows in random order.
        """
        size = len(self.pool)
        copies = np.repeat(np.arange(size), rows // size)
        rest = rng.choice(size, rows % size, replace=False)
        chosen: npt.NDArray[np.intp] = np.concatenate([copies, rest]).astype(np.intp)
        return self.pool.take(rng.permutation(chosen))

    def save(self, path: Path | BinaryIO) -> None:
        """Write the pool to a file (see `archive`)."""
        write_archive(path, POOL_FORMAT, self.schema, self.total, {"pool": self.pool.codes})

    @classmethod
    def read(cls, head: Head, archive: Archive, schema: Schema) -> SampledModel:
        """Read the model that `save` wrote. If the file is not consistent, `read_archive` raises InputError."""
        return cls(float(head["total"]), CodedTable(archive["pool"], schema))
