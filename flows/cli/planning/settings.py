"""The settings of a plan, which are the options of `equistrata plan` and the arguments of `equistrata.plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from equistrata.data.units.unit import MOST_ROWS, Neighbours, Weights
from equistrata.flows.config.settings import Flag, Names, Settings, Texts, setting
from equistrata.synth.names import Ours

if TYPE_CHECKING:
    from equistrata.data.schema import Schema

TAIL = 0.007  # the share of rows in each tail that the prior of clips expects at about 1,000 rows: half of .05/ln 50


class PlanSettings(Settings):
    schema_: str | None = setting(
        None,
        "Schema file, or name of a built-in schema. If not given, acs_means, or acs_employment for a synthesis.",
        alias="schema",
    )
    synthesizer: Ours | None = setting(None, "Plan a synthesis with this synthesizer, instead of an estimate.")
    columns: Names = setting((), "Columns of a synthesis. If not given, the default columns of the schema.")
    survey_weight: str | None = setting(
        None,
        "Column with survey weights of a synthesis, such as PWGTP. If not given, the column that the schema declares.",
    )
    strata: Names = setting(("SEX", "RAC1P"), "Columns that define strata.")
    weights: str | None = setting(
        None,
        "File with public group sizes. For built-in schemas, the sizes of New York in 2018 are used by default "
        "(for SEX, RAC1P or both).",
    )
    weight_column: str | None = setting(
        None,
        "Column of the weights file that contains sizes or survey weights, such as PWGTP. If not given, each row "
        "of that file counts as one person.",
    )
    sizes: Texts = setting((), "Public group sizes instead of a file, in the order of the groups, such as 9000,11000.")
    rows: float | None = setting(None, "Expected number of rows of the table. If not given, the sum of the sizes.")
    column: str | None = setting(None, "Plan the mean of this column if it is numeric, and a proportion otherwise.")
    reference: float | None = setting(None, "Public guess of the mean or proportion. For a proportion, 0.5 by default.")
    effect: float | None = setting(None, "Goal: detect this difference from the reference.")
    relative_error: float | None = setting(
        None, "Goal: half-width of the interval, divided by the reference. If no goal is given, 0.1."
    )
    about: Literal["population", "rows"] | None = setting(
        None,
        "Whether the error refers to the population or the rows. For an interval of a mean, rows by default, as "
        "in releases.",
    )
    alpha: float | None = setting(
        None,
        "Level of the test, or failure probability of the interval. If not given, 0.05.",
    )
    beta: float = setting(0.2, "Type II error of the test, which has the power 1 − beta.")
    epsilon: float = setting(1.0, "ε to plan with.")
    delta: float = setting(1e-9, "δ to plan with, for means.")
    at_most: int | None = setting(
        None,
        f"Largest number of rows that are used of each unit, 1 to {MOST_ROWS:,}. ε is for the unit. If not given, the "
        "number that the schema declares.",
        ge=1,
        le=MOST_ROWS,
    )
    relation: Neighbours = setting(
        "add-remove",
        "Neighbouring tables of a synthesis or a mean: one unit is added or removed, or replaced by another.",
    )
    unit_sizes: Texts = setting(
        (),
        "Public shares of units with 1, 2, 3, … rows, such as 0.3,0.4,0.2,0.1. Bounds of 1 to 8 rows are then "
        "planned as well.",
    )
    unit_weights: Weights | None = setting(
        None, "Whether a synthesis counts rows or units. If not given, the choice with less predicted noise."
    )
    part: float = setting(
        1.0, "Share of the budget for this quantity: share of ρ for a mean or a synthesis, share of ε for a proportion."
    )
    shrinkage: bool = setting(
        True, "Estimate means at two levels, as releases do by default, or for each stratum alone."
    )
    tail: float = setting(
        TAIL,
        "For a mean: expected share of rows in a long tail, on each side that the bounds leave open. With 0, the "
        "rows are bell-shaped.",
    )
    as_json: Flag = setting(False, "Print JSON.", alias="json")

    def rows_of_unit(self, schema: Schema) -> int:
        """Return the largest number of rows of a unit, which is given by the settings or declared by the schema."""
        return schema.unit.at_most if self.at_most is None else self.at_most
