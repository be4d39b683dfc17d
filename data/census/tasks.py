"""The American Community Survey with schemas by year and state, and the tasks of folktables.

>>> schema = census_schema(2018, "1-Year", ["VT"], "ACSIncome")
>>> schema["AGEP"].bounds, schema["WKHP"].missing, schema.default[-1]
((17.0, 99.0), None, 'PINCP')
>>> census_schema(2019, "1-Year", ["VT"], columns=["PUMA"])["PUMA"].values
('00100', '00200', '00300', '00400')
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import pandas as pd

from equistrata.data.census import files as acs
from equistrata.data.declaration import schema_text
from equistrata.data.schema import Schema
from equistrata.data.texts import documents
from equistrata.errors import InputError

_COMPARED = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq}
_SINCE_2019 = {"RELP": "RELSHIPP", "JWTR": "JWTRNS", "WKW": "WKWN"}
_SUPPRESSED = {888: "Suppressed for data year 2023 for select PUMAs"}  # a code of JWMNP in the dictionary of 2023


@dataclass(frozen=True)
class Condition:
    """A condition on the whole numbers of a raw column, such as AGEP > 16.

    An absent cell does not satisfy the condition.
    """

    column: str
    sign: str
    number: int

    @classmethod
    def of(cls, text: str) -> Condition:
        """Return the condition of a text such as `AGEP > 16`."""
        column, sign, number = text.split()
        return cls(column, sign, int(number))

    def __str__(self) -> str:
        return f"{self.column} {self.sign} {self.number}"

    def holds(self, cells: pd.Series) -> pd.Series:
        """Return a mask of the raw cells that satisfy the condition."""
        found: pd.Series = _COMPARED[self.sign](pd.to_numeric(cells.astype(object), errors="coerce"), self.number)
        return found

    def narrowed(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the declaration of the column if all rows satisfy the condition."""
        kept = {key: value for key, value in spec.items() if key != "missing"}
        if "values" in spec:
            absent = spec.get("missing")
            return kept | _only(spec, [v for v in spec["values"] if v != absent and self._meets(int(v))])
        end = self.number + {">": 1, "<": -1}.get(self.sign, 0)
        narrower = {"lower": max(end, spec["lower"])} if ">" in self.sign else {"upper": min(end, spec["upper"])}
        return kept | narrower

    def _meets(self, number: int) -> bool:
        return bool(_COMPARED[self.sign](number, self.number))


@dataclass(frozen=True)
class Task:
    """A prediction task of folktables.

    Parameters
    ----------
    features : tuple of str
        The columns that are used for the prediction.
    target : str
        The column that is predicted.
    positive : int or str
        The positive class of the target, either a value or the numbers above a threshold such as ">50000".
    rows : tuple of Condition
        The conditions that all rows of the task satisfy.
    """

    features: tuple[str, ...]
    target: str
    positive: int | str
    rows: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, features: str, target: str, positive: int | str, *rows: str) -> Task:
        return cls(tuple(features.split()), target, positive, tuple(map(Condition.of, rows)))


TASKS = {
    "ACSIncome": Task.of(
        "AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P",
        "PINCP", ">50000", "AGEP > 16", "PINCP > 100", "WKHP > 0", "PWGTP >= 1",
    ),
    "ACSEmployment": Task.of("AGEP SCHL MAR RELP DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM SEX RAC1P", "ESR", 1),
    "ACSPublicCoverage": Task.of(
        "AGEP SCHL MAR SEX DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM PINCP ESR ST FER RAC1P",
        "PUBCOV", 1, "AGEP < 65", "PINCP <= 30000",
    ),
    "ACSMobility": Task.of(
        "AGEP SCHL MAR SEX DIS ESP CIT MIL ANC NATIVITY RELP DEAR DEYE DREM RAC1P GCL COW ESR WKHP JWMNP PINCP",
        "MIG", 1, "AGEP > 18", "AGEP < 35",
    ),
    "ACSTravelTime": Task.of(
        "AGEP SCHL MAR SEX DIS ESP MIG RELP RAC1P PUMA ST CIT OCCP JWTR POWPUMA POVPIP",
        "JWMNP", ">20", "AGEP > 16", "PWGTP >= 1", "ESR == 1",
    ),
}  # fmt: skip


def census_schema(
    year: int, survey: str, states: Sequence[str], task: str | None = None, columns: Sequence[str] = ()
) -> Schema:
    """Return the schema of the person records of a year and of some states.

    If a task is given, the schema is restricted to the rows of this task, and the target of the task is the target of
    the schema. The column PUMA is only declared if it is one of the columns. Its values are the public codes of the
    state. If there are several states, PUMA is nested within ST.

    Parameters
    ----------
    year : int
        The year of the survey.
    survey : {"1-Year", "5-Year"}
        The survey.
    states : sequence of str
        The postal codes of the states.
    task : str, optional
        The name of a task in `TASKS`.
    columns : sequence of str
        The columns that are used. The default is the columns of the task.

    Returns
    -------
    Schema
        The schema.

    Raises
    ------
    InputError
        If a state is unknown, or if there is no public list of the codes of PUMA.
    """
    document = documents.parse(schema_text(f"acs_{min(max(year, 2017), 2019)}")[0], "the census schema")
    declared, rules = document["columns"], document["impossible"]
    codes = {acs.code_of(state): state for state in states}
    declared["ST"] |= _only(declared["ST"], sorted(codes))
    if 2023 <= year <= (2027 if survey == "5-Year" else 2023):
        declared["JWMNP"]["codes"] = _SUPPRESSED
    default = columns_of(task, year) if task else document["default"]
    if "PUMA" in (columns or default):
        declared["PUMA"] = _pumas(year, survey, codes)
        if len(codes) > 1:  # PUMA contains the state
            del declared["ST"]
    if task is not None:
        rules = _of_rows(TASKS[task].rows, rules, declared)
        document["target"] = TASKS[task].target
        declared[TASKS[task].target]["positive"] = TASKS[task].positive
    default = [name for name in default if name in declared]  # PUMA is missing if --columns does not contain it
    return Schema.from_dict(document | {"default": default, "impossible": rules}, document["name"])


def columns_of(task: str, year: int) -> tuple[str, ...]:
    """Return the columns of a task in the files of a year, where the target is the last column."""
    known = _SINCE_2019 if year >= 2019 else {}
    return tuple(known.get(name, name) for name in (*TASKS[task].features, TASKS[task].target))


def _pumas(year: int, survey: str, states: Mapping[str, str]) -> dict[str, Any]:
    """Return the declaration of PUMA for some states, which are given by their two digits.

    The five-year files of some years contain the areas of two censuses, so there is no declaration for these years.
    """
    text = resources.files("equistrata.data.census").joinpath("pumas.yaml").read_text("utf-8")
    known = documents.parse(text, "pumas.yaml")[_vintage(year)]
    mixed = survey == "5-Year" and not 2016 <= year <= 2021
    without = [state for code, state in states.items() if mixed or code not in known]
    if without:
        raise InputError(
            f"equistrata has no public list of the PUMAs of {', '.join(without)} in the {survey} files of {year}; list "
            "the columns without PUMA in --columns, or declare the codes of PUMA in your own schema"
        )
    listed = {code: known[code].split() for code in states}
    label = f"Public use microdata area of the {_vintage(year)} census"
    return {"label": label} | (
        {"values": next(iter(listed.values()))} if len(listed) == 1 else {"within": "ST", "values": listed}
    )


def _vintage(year: int) -> int:
    return 2010 if year < 2022 else 2020


def _only(spec: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Return the keys of a declaration that list values, restricted to the given values."""
    labels = {value: words for value, words in spec["labels"].items() if value in values}
    recode = {raw: value for raw, value in spec.get("recode", {}).items() if value in values}
    return {"values": [*values], "labels": labels} | ({"recode": recode} if "recode" in spec else {})


def _of_rows(
    conditions: Sequence[Condition], rules: Sequence[dict[str, Any]], columns: dict[str, Any]
) -> list[dict[str, Any]]:
    """Restrict the columns to rows that satisfy the conditions, and return the rules about ages that are still needed.

    If a condition is on a column that only older people have, the lower bound of AGEP is raised to their age. If all
    remaining people are old enough for a column, its empty cell is removed.
    """
    for condition in conditions:
        columns[condition.column] = condition.narrowed(columns[condition.column])
    needed = {condition.column for condition in conditions}
    ages = [_age(rule["AGEP"]) for rule in rules if needed & {*rule} - {"AGEP"}]
    age = columns["AGEP"]
    age["lower"] = youngest = max([age["lower"], *ages])
    kept = []
    for rule in (rule for rule in rules if youngest < _age(rule["AGEP"])):
        name = next(name for name in rule if name != "AGEP")
        if rule["AGEP"].startswith("<") or "missing" in columns[name]:
            kept.append(rule)
    for rule in (rule for rule in rules if youngest >= _age(rule["AGEP"]) and rule["AGEP"].startswith(">=")):
        spec = columns[next(name for name in rule if name != "AGEP")]
        blank = spec.pop("missing", None)
        if "values" in spec:
            spec |= _only(spec, [value for value in spec["values"] if value != blank])
    return kept


def _age(rule: str) -> int:
    return int(rule.lstrip("<>="))
