"""The public plan on which the holders of a federated estimate agree.

It contains the question, the privacy cost and the number of holders that may drop out. There is an example in
`equistrata.inference.federated.estimate`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

from equistrata.data.columns.column import Value
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Key, Strata
from equistrata.data.units.unit import ROW, Unit
from equistrata.errors import InputError
from equistrata.inference.federated.ab_test import TRIALS, ArmDesign, ArmSettings
from equistrata.inference.federated.aggregation import SumQuestion
from equistrata.inference.federated.arms import Target, check_interval
from equistrata.inference.federated.renyi import ThetaTarget

Part = Literal["all", "control", "treated"]

SIZES, SUMS = "sizes", "sums"
SIZE_MODULUS = 2**40  # larger than the number of rows in a cell


@dataclass(frozen=True)
class Cell:
    """The people in one stratum and one arm. The arm is "all" if there are no arms."""

    key: Key
    arm: Part


@dataclass(frozen=True)
class FederatedPlan:
    """A plan for a federated estimate of the means of strata, and of the differences between two arms.

    Parameters
    ----------
    schema : Schema
        The schema, which declares the values of the stratum columns and the bounds of the outcome.
    outcome : str
        The column that is averaged. It is numeric, or its values are numbers.
    holders : int
        The number of holders, at least 2.
    strata : tuple of str
        The columns that define the strata. If it is empty, there is only one stratum.
    arm : str, optional
        The column that contains the arms. If None, only means are estimated.
    treated, control : int, float or str, optional
        The values of the two arms. Rows with another value are left out.
    clip : tuple of two float, optional
        The range to which the outcome is clipped before it is averaged. By default, these are the declared bounds.
    epsilon, delta : float
        The privacy cost.
    trials : int, default=1024
        The number of trials, as in `equistrata.inference.federated.ab_test.ArmDesign`.
    mean_share : float, optional
        The share of the divergence for the mean, as in `equistrata.inference.federated.ab_test.ArmDesign`.
    level : float, default=0.95
        The coverage of the intervals, as in `equistrata.inference.federated.arms.combine`.
    target : {"pate", "sate"}, default="pate"
        The target of the intervals, as in `equistrata.inference.federated.arms.combine`.
    missing : int, default=0
        The number of holders that may drop out or collude with the server.
    largest_share : float, optional
        The largest share of the rows of a cell that one holder may have. It is required if `missing` is not 0. Each
        holder checks it, and θ is computed for the rows without `missing` holders of this size.
    smallest : int, optional
        Cells with fewer rows than this number are left out. It is at least 2. If None, only empty cells are left out,
        and a cell with one row is an error.
    unit : str, optional
        The column that contains the unit, such as a person or a household. Only the holders read it. If None, each row
        is a unit.
    at_most : int, optional
        The largest number of rows of a unit that a holder uses. If None, two rows of a holder must not have the same
        unit.

    Raises
    ------
    InputError
        If the settings do not fit the schema or do not fit each other.

    Privacy
    -------
    (ε, δ)-DP for every unit of a holder, if at most `missing` holders drop out or collude. In neighbouring tables, the
    outcomes of the rows of one unit are replaced (or of one row, if no unit is declared). The strata and the arms of
    the rows, and the sizes of the cells over all holders, are public. The cells are disjoint. See
    docs/proofs/federated.md.
    """

    schema: Schema
    outcome: str
    holders: int
    strata: tuple[str, ...] = ()
    arm: str | None = None
    treated: Value | None = None
    control: Value | None = None
    clip: tuple[float, float] | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    trials: int = TRIALS
    mean_share: float | None = None
    level: float = 0.95
    target: Target = "pate"
    missing: int = 0
    largest_share: float | None = None
    smallest: int | None = None
    unit: str | None = None
    at_most: int | None = None

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise InputError("a column is used twice among strata, arm and outcome; use each once")
        _bounds(self.schema[self.outcome])
        if self.schema.survey_weight is not None:
            raise InputError(
                f"federated means count each row once, but in schema {self.schema.name!r} rows represent people by "
                f"survey weight {self.schema.survey_weight!r}; remove 'survey_weight' to estimate means of rows"
            )
        if (self.arm is None) != (self.treated is None) or (self.arm is None) != (self.control is None):
            raise InputError("'arm', 'treated' and 'control' belong together; give all three of them, or none")
        if self.arm is not None:
            keys = self.schema[self.arm].keys
            for name, value in (("treated", self.treated), ("control", self.control)):
                if value not in keys:
                    raise InputError(f"the {name} arm is {value!r}, which is not a value of column {self.arm!r}")
            if self.treated == self.control:
                raise InputError("the treated and the control arm must have different values")
        if self.clip is not None and not (all(math.isfinite(end) for end in self.clip) and self.clip[0] < self.clip[1]):
            raise InputError("the clip range must consist of two ascending numbers")
        if self.holders < 2:
            raise InputError(f"a federated estimate needs at least two holders, not {self.holders}")
        if not 0 <= self.missing < self.holders - 1:
            raise InputError(f"of {self.holders} holders, 0 to {self.holders - 2} may be missing, not {self.missing}")
        if self.largest_share is not None and not 0 < self.largest_share <= 1:
            raise InputError(f"the largest share of a cell must be above 0 and at most 1, not {self.largest_share}")
        if self.missing and (self.largest_share is None or not 0 < self.largest_share * self.missing < 1):
            raise InputError(
                "holders may be missing, so 'largest_share' is needed; its product with 'missing' must be below 1"
            )
        if self.smallest is not None and self.smallest < 2:
            raise InputError(f"'smallest' must be at least 2 rows, not {self.smallest}")
        if self.unit in self.columns:
            raise InputError(
                f"column {self.unit!r} identifies units, so it cannot be an outcome, arm or stratum as well"
            )
        if self.unit is None and self.at_most is not None:
            raise InputError("'at_most' bounds the rows of a unit, but no unit is declared; name its column")
        _ = self.bound
        check_interval(self.level, self.target)
        _ = self.design, self.partition  # these check their settings

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the table of a holder must have."""
        return (*self.strata, *([] if self.arm is None else [self.arm]), self.outcome)

    @property
    def centre(self) -> float:
        """Return the midpoint of the range of the outcome, which is subtracted before the reports."""
        return sum(self.range) / 2

    @property
    def radius(self) -> float:
        """Return the radius R, which is half of the length of the range of the outcome."""
        return (self.range[1] - self.range[0]) / 2

    @property
    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest value that is used."""
        return self.clip or _bounds(self.schema[self.outcome])

    @cached_property
    def design(self) -> ArmDesign:
        """Return the design of the reports in each arm."""
        target = ThetaTarget(self.epsilon, self.delta, unit_rows=self.bound.at_most)
        return ArmDesign(self.radius, target, self.trials, self.mean_share)

    @property
    def bound(self) -> Unit:
        """Return the unit of privacy."""
        return ROW if self.unit is None else Unit.of(self.unit, self.at_most)

    @cached_property
    def partition(self) -> Strata:
        """Return the strata."""
        return Strata.over(self.schema.select(self.columns), self.strata)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Return the arms of every stratum, in the order of every vector that is added."""
        parts: tuple[Part, ...] = ("all",) if self.arm is None else ("control", "treated")
        return tuple(Cell(key, part) for key in self.partition.keys for part in parts)

    def label(self, cell: Cell) -> str:
        """Return the name of a cell for messages, such as "SEX=1,RAC1P=2, treated"."""
        name = self.partition.label(cell.key)
        return name if cell.arm == "all" else f"{name}, {cell.arm}"

    def sizes(self) -> SumQuestion:
        """Return the first question, which asks for the number of rows in each cell."""
        return SumQuestion(SIZES, (SIZE_MODULUS,) * len(self.cells), {"plan": self.digest})

    def sums(self, sizes: Sequence[int]) -> SumQuestion:
        """Return the second question, which asks for both sums and for the number of rows that were reported.

        Parameters
        ----------
        sizes : sequence of int
            The size of each cell over all holders, in the order of `cells`.

        Returns
        -------
        SumQuestion
            The question, with moduli that depend on the sizes.
        """
        arms = zip(self.arm_settings(sizes), sizes, strict=True)
        moduli = [(2, 2) if arm is None else replace(arm, rows=size).moduli for arm, size in arms]
        means, squares = zip(*moduli, strict=True)
        rows = (max(2, int(size) + 1) for size in sizes)
        return SumQuestion(SUMS, (*means, *squares, *rows), {"plan": self.digest, "sizes": list(map(int, sizes))})

    def arm_settings(self, sizes: Sequence[int]) -> list[ArmSettings | None]:
        """Return the settings of each cell, or None for a cell that is left out.

        Every holder computes the settings itself, so that no server can choose θ.

        Parameters
        ----------
        sizes : sequence of int
            The size of each cell over all holders, in the order of `cells`.

        Returns
        -------
        list of ArmSettings or None
            The settings, in the order of `cells`.

        Raises
        ------
        InputError
            If a cell has only one row and is not left out by `smallest`, or if too few rows remain without the missing
            holders.
        """
        if len(sizes) != len(self.cells):
            raise InputError(f"the plan has {len(self.cells)} cells, not {len(sizes)}")
        settings: list[ArmSettings | None] = []
        for cell, size in zip(self.cells, map(int, sizes), strict=True):
            left_out, left = size < (self.smallest or 1), self.rows_left(size)
            if left < 2 and not left_out:
                raise InputError(
                    f"cell {self.label(cell)} has fewer than two rows, or would have if holders are missing; "
                    "join strata, or leave small cells out (smallest)"
                )
            if left < 2 * self.bound.at_most and not left_out:
                raise InputError(
                    f"cell {self.label(cell)} has fewer rows than two units can have, or would have if holders are "
                    "missing; join strata, leave small cells out (smallest), or use fewer rows of a unit (at_most)"
                )
            settings.append(None if left_out else self.design.settings(left))
        return settings

    def rows_left(self, size: int) -> int:
        """Return the number of rows of a cell that remain in any case, which excludes the rows of `missing` holders."""
        return size - self.missing * self.most_rows(size)

    def most_rows(self, size: int) -> int:
        """Return the largest number of rows that one holder may have in a cell of this size."""
        return size if self.largest_share is None else math.floor(size * self.largest_share)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 hash of the plan, which holders compare with their own before they answer."""
        text = json.dumps({**self._settings, "schema": self.schema.digest}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self, schema: str) -> dict[str, Any]:
        """Return the plan as JSON values. The parameter `schema` is the path of the schema."""
        return {"schema": schema, "schema_digest": self.schema.digest, **self._settings}

    @property
    def _settings(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "schema"}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FederatedPlan:
        """Return a plan from the output of `to_dict`.

        Raise InputError if the document is not a plan, or if the schema has changed.
        """
        known = {field.name for field in fields(cls)} | {"schema_digest"}
        unknown = [str(key) for key in document if key not in known]
        if unknown or not {"schema", "outcome", "holders"} <= document.keys():
            also = f"; it has an unknown key {unknown[0]!r}" if unknown else ""
            raise InputError(f"the plan needs the keys 'schema', 'outcome' and 'holders'{also}")
        schema = Schema.load(str(document["schema"]))
        if document.get("schema_digest", schema.digest) != schema.digest:
            raise InputError(f"schema {schema.name!r} is not the one that the plan was made with; use the same file")
        settings = {k: v for k, v in document.items() if k not in ("schema", "schema_digest")}
        for name in ("strata", "clip"):
            if settings.get(name) is not None:
                settings[name] = tuple(settings[name])
        return cls(schema, **settings)


def _bounds(column: Column) -> tuple[float, float]:
    if column.values:
        numbers = [value for value in column.values if isinstance(value, int | float)]
        if len(numbers) < len(column.values) or len(numbers) < 2:
            raise InputError(f"outcome {column.name!r} has values that are not numbers; choose a numeric column")
        return float(min(numbers)), float(max(numbers))
    return column.bounds
