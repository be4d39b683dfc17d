"""The plan that holders agree on before they add anything up: the question, the price and who may be missing. Public.

`equistrata.inference.federated.estimate` has an example.
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
SIZE_MODULUS = 2**40  # more rows than a cell has


@dataclass(frozen=True)
class Cell:
    """The people of one stratum and one arm ("all" where there are no arms)."""

    key: Key
    arm: Part


@dataclass(frozen=True)
class FederatedPlan:
    """A federated estimate of stratum means, and of the differences between two arms.

    Attributes:
        schema: declares the stratum columns' values and the outcome's bounds.
        outcome: the column that is averaged: numeric, or with values that are numbers.
        holders: how many take part, at least 2.
        strata: columns that define strata; none for one stratum.
        arm: the column with the arms; None for means only.
        treated, control: its values; rows with another value are left out.
        clip: the clip of the outcome (the mean is of clipped values); None for its declared bounds.
        epsilon, delta: the price, for every person.
        trials, mean_share: as `equistrata.inference.federated.ab_test.ArmDesign`.
        level, target: of the intervals, as `equistrata.inference.federated.arms.combine`.
        missing: how many holders may drop out or collude with the server.
        largest_share: the largest share of a cell's rows that one holder may have; declared if `missing` is not 0. Each
            holder checks it, and θ is set for the rows without `missing` such holders.
        unit: the column that names units, as people or households; None where each row is one. It is read by holders
            alone.
        at_most: rows of a unit that a holder uses at most; None where no two of its rows may share a unit.
        smallest: cells with fewer rows are left out, at least 2; None leaves out empty cells only, and refuses one row.

    Raises:
        InputError: settings that do not fit the schema or each other.

    Cost: (ε, δ)-DP for every unit of a holder's, if at most `missing` holders drop out or collude. Neighbouring tables:
    replace the outcomes of one unit's rows (of one row, where no unit is declared); their strata, their arms and the
    cells' sizes over all holders are public. Cells are disjoint. See docs/proofs/federated.md.
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
                f"joint means count each row once, and in schema {self.schema.name!r} rows stand for people by "
                f"{self.schema.survey_weight!r}; leave 'survey_weight' out of it to have means of rows"
            )
        if (self.arm is None) != (self.treated is None) or (self.arm is None) != (self.control is None):
            raise InputError("arms need a column and the values of its treated and its control arm, all three or none")
        if self.arm is not None:
            keys = self.schema[self.arm].keys
            for name, value in (("treated", self.treated), ("control", self.control)):
                if value not in keys:
                    raise InputError(f"the {name} arm is {value!r}, which is not a value of column {self.arm!r}")
            if self.treated == self.control:
                raise InputError("the treated and the control arm must have different values")
        if self.clip is not None and not (all(math.isfinite(end) for end in self.clip) and self.clip[0] < self.clip[1]):
            raise InputError("the clip range needs two ascending numbers")
        if self.holders < 2:
            raise InputError(f"a federated estimate needs at least two holders, not {self.holders}")
        if not 0 <= self.missing < self.holders - 1:
            raise InputError(f"of {self.holders} holders, 0 to {self.holders - 2} may be missing, not {self.missing}")
        if self.largest_share is not None and not 0 < self.largest_share <= 1:
            raise InputError(f"the largest share of a cell lies above 0 and is at most 1, not {self.largest_share}")
        if self.missing and (self.largest_share is None or not 0 < self.largest_share * self.missing < 1):
            raise InputError(
                "if holders may be missing, declare a largest share with which they have less than all rows"
            )
        if self.smallest is not None and self.smallest < 2:
            raise InputError(f"the smallest cell that is estimated has at least 2 rows, not {self.smallest}")
        if self.unit in self.columns:
            raise InputError(f"unit column {self.unit!r} names units, and is used as another column of the plan, too")
        if self.unit is None and self.at_most is not None:
            raise InputError("'at_most' bounds the rows of a unit, but no unit is declared; name its column")
        _ = self.bound
        check_interval(self.level, self.target)
        _ = self.design, self.partition  # they check their settings

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a holder's table must have."""
        return (*self.strata, *([] if self.arm is None else [self.arm]), self.outcome)

    @property
    def centre(self) -> float:
        """The middle of the outcome's range, which is subtracted before reporting."""
        return sum(self.range) / 2

    @property
    def radius(self) -> float:
        """R, half of the outcome's range."""
        return (self.range[1] - self.range[0]) / 2

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value that counts."""
        return self.clip or _bounds(self.schema[self.outcome])

    @cached_property
    def design(self) -> ArmDesign:
        """How people of each arm report."""
        target = ThetaTarget(self.epsilon, self.delta, unit_rows=self.bound.at_most)
        return ArmDesign(self.radius, target, self.trials, self.mean_share)

    @property
    def bound(self) -> Unit:
        """The unit of privacy."""
        return ROW if self.unit is None else Unit.of(self.unit, self.at_most)

    @cached_property
    def partition(self) -> Strata:
        """How rows are cut into strata."""
        return Strata.over(self.schema.select(self.columns), self.strata)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every stratum's arms, in the order of every vector that is added up."""
        parts: tuple[Part, ...] = ("all",) if self.arm is None else ("control", "treated")
        return tuple(Cell(key, part) for key in self.partition.keys for part in parts)

    def label(self, cell: Cell) -> str:
        """A cell's name in messages, as "SEX=1,RAC1P=2, treated"."""
        name = self.partition.label(cell.key)
        return name if cell.arm == "all" else f"{name}, {cell.arm}"

    def sizes(self) -> SumQuestion:
        """The first question: how many rows in each cell."""
        return SumQuestion(SIZES, (SIZE_MODULUS,) * len(self.cells), {"plan": self.digest})

    def sums(self, sizes: Sequence[int]) -> SumQuestion:
        """The second question: both sums and how many rows reported, by the sizes of `cells` over all holders."""
        arms = zip(self.arm_settings(sizes), sizes, strict=True)
        moduli = [(2, 2) if arm is None else replace(arm, rows=size).moduli for arm, size in arms]
        means, squares = zip(*moduli, strict=True)
        rows = (max(2, int(size) + 1) for size in sizes)
        return SumQuestion(SUMS, (*means, *squares, *rows), {"plan": self.digest, "sizes": list(map(int, sizes))})

    def arm_settings(self, sizes: Sequence[int]) -> list[ArmSettings | None]:
        """Each cell's settings, None where it is left out. Every holder computes them, so no server can choose θ.

        Raises:
            InputError: a cell of one row (unless `smallest` leaves it out), or too few rows once holders are missing.
        """
        if len(sizes) != len(self.cells):
            raise InputError(f"the plan has {len(self.cells)} cells, not {len(sizes)}")
        settings: list[ArmSettings | None] = []
        for cell, size in zip(self.cells, map(int, sizes), strict=True):
            left_out, left = size < (self.smallest or 1), self.rows_left(size)
            if left < 2 and not left_out:
                raise InputError(
                    f"cell {self.label(cell)} has fewer than two rows, or would have when holders are missing; "
                    "join strata or leave small cells out"
                )
            if left < 2 * self.bound.at_most and not left_out:
                raise InputError(
                    f"cell {self.label(cell)} has fewer rows than two units may have, or would have when holders are "
                    "missing; join strata, leave small cells out (smallest), or use fewer rows of a unit (at_most)"
                )
            settings.append(None if left_out else self.design.settings(left))
        return settings

    def rows_left(self, size: int) -> int:
        """The rows of a cell that surely remain: `size` less what `missing` holders may have."""
        return size - self.missing * self.most_rows(size)

    def most_rows(self, size: int) -> int:
        """The most rows of a cell of this size that one holder may have."""
        return size if self.largest_share is None else math.floor(size * self.largest_share)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan: holders compare it with their own before they answer."""
        text = json.dumps({**self._settings, "schema": self.schema.digest}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self, schema: str) -> dict[str, Any]:
        """The plan as JSON values; `schema` is the path of its schema."""
        return {"schema": schema, "schema_digest": self.schema.digest, **self._settings}

    @property
    def _settings(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "schema"}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FederatedPlan:
        """A plan from the output of `to_dict`. Raises InputError on anything else, or on another schema."""
        known = {field.name for field in fields(cls)} | {"schema_digest"}
        unknown = [str(key) for key in document if key not in known]
        if unknown or not {"schema", "outcome", "holders"} <= document.keys():
            raise InputError(f"the plan needs a schema, an outcome and holders, and knows no key {unknown[:1]}")
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
