"""The settings of a plan, which are the options of `equistrata plan` and the arguments of `equistrata.plan`."""

from __future__ import annotations

from typing import Literal

from equistrata.data.units.unit import MOST_ROWS, Neighbours, Weights
from equistrata.flows.config.settings import Flag, Names, Settings, Texts, setting
from equistrata.synth.names import Ours

TAIL = 0.007  # the share of rows in each tail that the prior of clips expects at about 1,000 rows: half of .05/ln 50


class PlanSettings(Settings):
    schema_: str | None = setting(
        None, "Schema file or built-in name (acs_means, or acs_employment for a synthesis).", alias="schema"
    )
    synthesizer: Ours | None = setting(None, "Plan a synthesis by it, instead of an estimate.")
    columns: Names = setting((), "Columns of the synthesis (the schema's default if none are given).")
    survey_weight: str | None = setting(
        None, "Of a synthesis: column of survey weights, as PWGTP (the schema's, if it has one)."
    )
    strata: Names = setting(("SEX", "RAC1P"), "Columns that define strata.")
    weights: str | None = setting(
        None, "File of public group sizes (for built-in schemas: New York's of 2018, for SEX, RAC1P or both)."
    )
    weight_column: str | None = setting(
        None, "Column of sizes or survey weights in the weights file, as PWGTP; rows if each row is one person."
    )
    sizes: Texts = setting((), "Public group sizes instead of a file, in the order of the groups, as 9000,11000.")
    rows: float | None = setting(None, "Expected rows in all (the sum of the sizes if not given).")
    column: str | None = setting(None, "Plan its mean if it is numeric, else (or without) a proportion.")
    reference: float | None = setting(None, "The mean or proportion expected: a public guess (proportion: 0.5).")
    effect: float | None = setting(None, "Goal: detect this difference from the reference.")
    relative_error: float | None = setting(None, "Goal: half-width of the interval over the reference (0.1).")
    about: Literal["population", "rows"] | None = setting(
        None, "Error about the population or the rows (rows for an interval of a mean, as in releases)."
    )
    alpha: float | None = setting(
        None,
        "Level of the test, or failure probability of the interval (0.05).",
    )
    beta: float = setting(0.2, "Type II error of the test (its power is 1 − beta).")
    epsilon: float = setting(1.0, "The ε that is planned.")
    delta: float = setting(1e-9, "δ, for means.")
    at_most: int = setting(
        1, f"Rows of a unit that are used at most, 1 to {MOST_ROWS:,}; ε is for the unit.", ge=1, le=MOST_ROWS
    )
    relation: Neighbours = setting("add-remove", "Of a synthesis or a mean: one unit is added or removed, or replaced.")
    unit_sizes: Texts = setting(
        (), "Public shares of units with 1, 2, 3 … rows, as 0.3,0.4,0.2,0.1: plans bounds of 1 to 8 rows too."
    )
    unit_weights: Weights | None = setting(
        None, "Of a synthesis: what counts as one, rows or units (unset: what is predicted to have less noise)."
    )
    part: float = setting(1.0, "Part of the budget for this: of ρ for a mean or a synthesis, of ε for a proportion.")
    shrinkage: bool = setting(True, "Means at two levels, as releases by default; or strata alone.")
    tail: float = setting(TAIL, "For a mean: share of rows far out on a side with room (0: bell-shaped).")
    as_json: Flag = setting(False, "Print JSON.", alias="json")
