"""A holder of a table, which checks the two questions of a federated plan and answers them.

A holder computes θ from the plan, so a server cannot ask for less noise. It refuses to answer if its rows violate the
plan. If the holder has a state folder, it answers each question only once. A second sum with new random numbers would
have the same cost again. A second sum with the same random numbers but without one holder would reveal the answer of
that holder by subtraction.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Counts, Floats
from equistrata.data.columns.cells import bounded_numbers
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.data.units.bounding import chosen_rows, refuse_repeats
from equistrata.data.units.hashes import unit_ids
from equistrata.errors import InputError
from equistrata.inference.federated.aggregation import SumQuestion
from equistrata.inference.federated.protocol import SIZES, SUMS, FederatedPlan
from equistrata.privacy.noise import NoiseSource


@dataclass(frozen=True)
class TableHolder:
    """One holder of a plan, with a table of rows.

    Parameters
    ----------
    plan : FederatedPlan
        The plan to which this holder has agreed.
    rows : str, Path or DataFrame
        A CSV or Parquet file, or a data frame. The data frame is not changed.
    noise : NoiseSource
        The source of the random numbers of its people.
    state : Path, optional
        A folder of this holder that records which questions it has answered. The folder is created with mode 0700, and
        it contains no numbers from the rows. If None, nothing is recorded.
    """

    plan: FederatedPlan
    rows: str | Path | pd.DataFrame = field(repr=False)
    noise: NoiseSource
    state: Path | None = None

    def answer(self, question: SumQuestion) -> Counts:
        """Return one number for each modulus of a question.

        The answer to `sizes` is the exact number of rows in each cell. The answer to `sums` has three numbers for each
        cell: the sum of the reports of its people, the sum of their reports of squares, and the number of people.

        Parameters
        ----------
        question : SumQuestion
            The question.

        Returns
        -------
        ndarray
            The numbers.

        Raises
        ------
        InputError
            If the question is for another plan or does not follow from the plan, if the rows do not fit the schema or
            the plan, or if the question was answered before. No noise is drawn in these cases.
        """
        if question.settings.get("plan") != self.plan.digest:
            raise InputError("a holder was asked about a plan that it has not agreed to; give everybody the same plan")
        if question.kind not in (SIZES, SUMS):
            raise InputError(
                f"a holder was asked for {question.kind!r}, but a plan only asks for {SIZES!r} and {SUMS!r}"
            )
        sizes: Any = question.settings.get("sizes")
        if question.kind == SUMS:
            if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
                raise InputError("a holder was asked for sums without the sizes of the cells")
            if question.moduli != self.plan.sums(sizes).moduli:
                raise InputError("a holder was asked for sums with moduli that do not follow from the plan")
        self._check_once(question.kind)
        if question.kind == SUMS and self.state is not None and not self._note(SIZES).exists():
            raise InputError("this holder has not answered the question for sizes of this plan; start the plan again")
        cells = self._cells()
        answer = np.array([len(values) for values in cells]) if question.kind == SIZES else self._sums(sizes, cells)
        self._remember(question.kind)
        return answer

    def _note(self, kind: str) -> Path:
        assert self.state is not None
        return self.state / f"{self.plan.digest[:32]}-{kind}"

    def _check_once(self, kind: str) -> None:
        if self.state is not None and self._note(kind).exists():
            raise InputError(
                f"this holder has already answered the question for {kind} of this plan; to ask again, agree on a new "
                "plan, which has its own privacy cost, and give the holder a new state folder"
            )

    def _remember(self, kind: str) -> None:
        """Record a question before its answer is returned.

        If two processes answer it, one of them fails to create the file.
        """
        if self.state is None:
            return
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.close(os.open(self._note(kind), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            self._check_once(kind)

    def _sums(self, sizes: list[int], cells: list[Floats]) -> Counts:
        for cell, size, values in zip(self.plan.cells, sizes, cells, strict=True):
            if len(values) > size:
                raise InputError(
                    f"this holder has more rows of cell {self.plan.label(cell)} than the announced total; count the "
                    "rows again"
                )
            if len(values) > self.plan.most_rows(size):
                raise InputError(
                    f"this holder has more rows of cell {self.plan.label(cell)} than the plan's largest share allows"
                )
        answer = np.zeros((3, len(cells)), dtype=np.int64)
        for place, (chosen, values) in enumerate(zip(self.plan.arm_settings(sizes), cells, strict=True)):
            if chosen is not None:
                answer[:2, place] = chosen.reports(values, self.noise.spawn(place))
                answer[2, place] = len(values)
        return answer.ravel()

    def _cells(self) -> list[Floats]:
        """Return the outcomes of the rows in each cell, minus the centre of their range.

        Rows without an outcome are left out.
        """
        plan = self.plan
        frame, wanted = self.rows, [*plan.columns, *([] if plan.unit is None else [plan.unit])]
        if not isinstance(frame, pd.DataFrame):
            frame = FileSource.of(str(frame), plan.schema).read(wanted)
        missing = [name for name in wanted if name not in frame.columns]
        if missing:
            raise InputError(f"a holder's table has no column {missing[0]!r}; add it")
        with _of_file(self.rows):
            if plan.unit is not None:
                frame = frame[_used(frame[plan.unit], plan)]  # the rows are selected before any other step
            values, absent = _outcomes(frame, plan)
            table = CodedTable.encode(frame, plan.schema.select(plan.columns[:-1])) if plan.columns[:-1] else None
        kept, place = ~absent, np.zeros(len(frame), dtype=np.int64)
        if table is not None:
            place = plan.partition.index(table)
            if plan.arm is not None:
                codes, keys = table.column(plan.arm), list[object](plan.schema[plan.arm].keys)
                treated, control = codes == keys.index(plan.treated), codes == keys.index(plan.control)
                kept, place = kept & (treated | control), place * 2 + treated  # in the order of `plan.cells`
        centred = np.clip(np.clip(values, *plan.range) - plan.centre, -plan.radius, plan.radius)
        order = np.argsort(place[kept], kind="stable")
        ends = np.searchsorted(place[kept][order], np.arange(1, len(plan.cells)))
        return np.split(centred[kept][order], ends)


@contextmanager
def _of_file(rows: str | Path | pd.DataFrame) -> Iterator[None]:
    """Add the name of the file to an error, so that the error identifies the table that does not fit."""
    try:
        yield
    except InputError as error:
        if isinstance(rows, pd.DataFrame):
            raise
        raise InputError(f"file {Path(rows).name!r}: {error}") from None


def _used(homes: pd.Series, plan: FederatedPlan) -> npt.NDArray[np.bool_]:
    """Select at most a fixed number of rows for each unit. The selection is the same for both questions.

    The selection depends on a hash of the id of the unit and of the number of a row among the rows of the unit. It does
    not depend on the outcomes, which are the only difference between neighbouring tables. The key of the hash is
    public. This is sufficient because the selection for a unit does not depend on other units.
    """
    key = hashlib.sha256(plan.digest.encode()).digest()
    ids = unit_ids(homes, str(plan.unit), key)
    chosen, _ = chosen_rows(ids, np.zeros(len(ids), np.uint64), plan.bound.at_most, key)
    refuse_repeats(plan.bound, chosen)
    return chosen


def _outcomes(frame: pd.DataFrame, plan: FederatedPlan) -> tuple[Floats, npt.NDArray[np.bool_]]:
    column = plan.schema[plan.outcome]
    if column.values:
        present = frame[plan.outcome].notna().to_numpy()
        coded = CodedTable.encode(frame[[plan.outcome]][present], plan.schema.select([plan.outcome]))
        values = np.zeros(len(frame))
        values[present] = np.array([float(value) for value in column.values])[coded.column(plan.outcome)]
        return values, ~present
    values, absent = bounded_numbers(frame[plan.outcome], column)
    return np.where(absent, 0.0, values), absent
