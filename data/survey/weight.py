"""The survey weight: the column that says how many people of the population each row stands for.

It is private and part of its row, so that whatever protects the row protects it too. Its upper bound is public, and a
larger weight counts as the bound: one row then moves no estimate by more. That a weight also depends on other rows of
the survey, since it was calibrated together with theirs, no unit of privacy covers (docs/survey-weights.md).

>>> declared = {"columns": {"SEX": {"values": [1, 2]}}, "survey_weight": {"column": "PWGTP", "upper": 2000}}
>>> survey_weight(declared["survey_weight"], (), "schema").bounds
(0.0, 2000.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equistrata.data.columns.column import Column
from equistrata.data.columns.declared import is_number, need, refuse_unknown
from equistrata.errors import InputError

KEY = "survey_weight"
_KEYS = {"column", "upper"}


def survey_weight(spec: Any, columns: Sequence[Column], here: str) -> Column:
    """The column that a schema file declares under `survey_weight`. Raises InputError; `here` begins its sentence.

    Parameters
    ----------
    columns
        Those that the file declares besides.
    """
    mapping = isinstance(spec, dict) and {"column", "upper"} <= spec.keys()
    need(here, mapping, f"needs '{KEY}' as {{column: NAME, upper: NUMBER}}: a weight above 'upper' counts as that")
    refuse_unknown(spec, _KEYS, f"'{KEY}' of {here}")
    name, upper = spec["column"], spec["upper"]
    need(here, isinstance(name, str) and name.strip(), f"needs 'column' of '{KEY}' to be a column's name")
    need(here, is_number(upper) and upper > 0, f"needs 'upper' of '{KEY}' to be a number above 0")
    twice = any(name in column.cells for column in columns)
    need(here, not twice, f"declares {name!r} under 'columns' and as '{KEY}'; take it out of 'columns'")
    return weighing(Column(name, "Survey weight", lower=0.0, upper=float(upper), release="draw"))


def named_weight(document: Any) -> tuple[str, ...]:
    """The column that a schema file names as the survey weight, well declared or not; none if it names none."""
    spec = document.get(KEY) if isinstance(document, dict) else None
    name = spec.get("column") if isinstance(spec, dict) else None
    return (name,) if isinstance(name, str) else ()


def weighing(column: Column) -> Column:
    """A column of numbers as the survey weight. Raises InputError unless bounds alone are declared of it."""
    bare = column.numeric and not (column.edges or column.layout or column.codes or column.splits)
    if not bare or column.missing is not None or column.lower is None or column.lower < 0 or column.positive:
        raise InputError(
            f"column {column.name!r} cannot be the survey weight: it needs 'lower' (0 or more) and 'upper', and no "
            f"'edges', 'codes', 'missing', 'positive' or rules; or declare {KEY}: {{column: {column.name}, upper: …}}"
        )
    # Weights are raked after drawing, so they are not whole numbers.
    return Column(
        column.name, column.label, lower=0.0, upper=column.upper, decimals=column.decimals, release="draw", weight=True
    )
