"""The survey weight, which is the number of people in the population that a row represents.

The weight is a private cell of its row, so it has the same protection as the row. The upper bound of the weights is
public, and a larger weight is clipped to this bound. This limits the effect of a row on an estimate. In a survey, the
weight of a row also depends on other rows because the weights were calibrated together. No unit of privacy covers this
dependence (see docs/survey-weights.md).

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
    """Return the column that a schema file declares under `survey_weight`.

    Parameters
    ----------
    spec : object
        The value of the key `survey_weight` in the schema file.
    columns : sequence of Column
        The other columns of the schema.
    here : str
        The start of the error message.

    Returns
    -------
    Column
        The column of the survey weight.

    Raises
    ------
    InputError
        If the declaration is not valid.
    """
    mapping = isinstance(spec, dict) and {"column", "upper"} <= spec.keys()
    need(here, mapping, f"needs '{KEY}' as {{column: NAME, upper: NUMBER}}, where larger weights count as 'upper'")
    refuse_unknown(spec, _KEYS, f"'{KEY}' of {here}")
    name, upper = spec["column"], spec["upper"]
    need(here, isinstance(name, str) and name.strip(), f"needs 'column' of '{KEY}' to be the name of a column")
    need(here, is_number(upper) and upper > 0, f"needs 'upper' of '{KEY}' to be a number above 0")
    twice = any(name in column.cells for column in columns)
    need(here, not twice, f"declares {name!r} under 'columns' and as '{KEY}'; remove it from 'columns'")
    return weighing(Column(name, "Survey weight", lower=0.0, upper=float(upper), release="draw"))


def named_weight(document: Any) -> tuple[str, ...]:
    """Return the name of the survey weight in a schema file as a tuple, which is empty if there is no name.

    The declaration of the survey weight does not need to be valid.
    """
    spec = document.get(KEY) if isinstance(document, dict) else None
    name = spec.get("column") if isinstance(spec, dict) else None
    return (name,) if isinstance(name, str) else ()


def weighing(column: Column) -> Column:
    """Return a copy of a numeric column that is marked as the survey weight.

    Parameters
    ----------
    column : Column
        The numeric column.

    Returns
    -------
    Column
        The survey weight, with a lower bound of 0.

    Raises
    ------
    InputError
        If the column declares anything except for its bounds and decimals.
    """
    bare = column.numeric and not (column.edges or column.layout or column.codes or column.splits)
    if not bare or column.missing is not None or column.lower is None or column.lower < 0 or column.positive:
        raise InputError(
            f"column {column.name!r} cannot be the survey weight: it needs 'lower' (0 or more) and 'upper', and no "
            f"'edges', 'codes', 'missing', 'positive' or rules; or declare {KEY}: {{column: {column.name}, upper: …}}"
        )
    # The weights are raked after they are drawn, so they are not whole numbers.
    return Column(
        column.name, column.label, lower=0.0, upper=column.upper, decimals=column.decimals, release="draw", weight=True
    )
