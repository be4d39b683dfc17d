"""The paper's grid of synthesizers: mechanism × strata × form × ε × seed, each place fitted, drawn and scored.

Scores are exact and noise is seeded, so nothing of this is private. Each seed has its own 80 % of the rows, the same
for all mechanisms, strata, forms and ε; the other 20 % test the classifiers, and no synthesizer sees them.

>>> [cell.arm for cell in variants("aim", ["vanilla", "SEX_RAC1P"], ["SEX_RAC1P"])]
['vanilla', 'SEX_RAC1P', 'SEX_RAC1P (default)']
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from time import perf_counter
from typing import Any, cast

import numpy as np
import pandas as pd

from equistrata.arrays import Counts
from equistrata.data.schema import Schema
from equistrata.data.sources import Source
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.scores.parity import parity_error
from equistrata.eval.scores.scores import score
from equistrata.eval.scores.tables import Pair
from equistrata.synth.synthesizer import StratifiedSynthesizer
from paper import code_sums
from paper.mst import PaperMST

COMMON = ("AGEP", "SCHL", "MAR", "DIS", "MIL", "DREM", "ESR")  # the columns of every extract that define no strata
GROUPS = ("SEX", "RAC1P")
ESP, NATIVITY = "ESP", "NATIVITY"  # the paper's eighth column, and what stands in for it where an extract lacks it
VANILLA = "vanilla"
STRATA = (VANILLA, "SEX", "RAC1P", "SEX_RAC1P")
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
DELTA = 1e-9
TRAINING_SHARE = 0.8
REAL = "real"

# The settings of `StratifiedSynthesizer` for a form: the paper's fits share neither selection nor estimates.
FORMS: dict[str, dict[str, Any]] = {
    VANILLA: {},
    "per-stratum": {"selection": "per-stratum", "shrinkage": False},
    "default": {},
}


@dataclass(frozen=True)
class Cell:
    """One place in the grid.

    Attributes:
        mechanism: "mst", "aim" or "gem"; "real" stands for the training rows themselves.
        strata: "vanilla", or columns joined by "_".
        form: "vanilla"; "per-stratum": the paper's, each stratum by itself; "default": equistrata's own.
        epsilon: the price, at δ = 1e-9; infinite for "real".
        seed: decides the 80 % and all noise.
    """

    mechanism: str
    strata: str
    form: str
    epsilon: float
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that define its strata."""
        return () if self.strata == VANILLA else tuple(self.strata.split("_"))

    @property
    def arm(self) -> str:
        """The paper's name for the variant; the default form says that it is."""
        return self.strata + (" (default)" if self.form == "default" else "")


@dataclass(frozen=True)
class Line(Cell):
    """A place in the grid and its scores.

    `eighth` is the column beside `COMMON` and `GROUPS`. The two sums are those of `code_sums`, by SEX × RAC1P, as JSON:
    of the training rows, and of the synthetic ones; for "real" the latter are those of all rows.
    """

    seconds: float
    eighth: str
    real_sums: str
    synthetic_sums: str
    parity_workload3_rac1p: float
    parity_workload3_sex_rac1p: float
    accuracy: float | None
    demographic_parity_ratio: float | None
    fnr_difference: float | None

    @cached_property
    def parity(self) -> dict[str, float]:
        """Column → parity error of the means as the paper's code has it, in sums over SEX × RAC1P."""
        return dict(zip((*COMMON, self.eighth), code_sums.column_errors(*self._sums).tolist(), strict=True))

    @property
    def maximum_disparity(self) -> float:
        """Figure 7 (a), as the paper's code has it."""
        return code_sums.maximum_disparity(*self._sums)

    def score(self, name: str) -> float:
        """A score by its name; a column's name is that of its parity error, and columns joined by "+" are summed."""
        columns = name.split("+")
        return sum(self.parity[each] for each in columns) if columns[0] in self.parity else float(getattr(self, name))

    @property
    def _sums(self) -> tuple[Counts, Counts]:
        """Of the training rows and of the synthetic ones, of the columns of `parity`."""
        real, synthetic = (np.array(json.loads(text)) for text in (self.real_sums, self.synthetic_sums))
        return real, synthetic


def variants(mechanism: str, strata: Sequence[str], default: Sequence[str]) -> list[Cell]:
    """The variants of a mechanism, without ε and seed: the paper's for `strata`, equistrata's for `default`."""
    paper = [Cell(mechanism, by, VANILLA if by == VANILLA else "per-stratum", math.nan, 0) for by in strata]
    return paper + [Cell(mechanism, by, "default", math.nan, 0) for by in default]


def grid(of: Sequence[Cell], epsilons: Sequence[float], seeds: int) -> Iterator[Cell]:
    """These variants at every ε, seed by seed, so that a grid that is stopped early is whole for its first seeds."""
    for seed, variant, epsilon in product(range(seeds), of, epsilons):
        yield replace(variant, epsilon=epsilon, seed=seed)


def real_rows(seeds: int) -> list[Cell]:
    """The training rows themselves, in place of synthetic ones: what a classifier could reach."""
    return [Cell(REAL, VANILLA, VANILLA, math.inf, seed) for seed in range(seeds)]


def measure(cell: Cell, source: Source, eighth: str = NATIVITY) -> Line:
    """Fit, draw and score one place of the grid on the rows of a source."""
    return measure_on(cell, _read(cast(Any, source), eighth))


def measure_on(cell: Cell, table: CodedTable) -> Line:
    """Fit, draw and score one place of the grid. The table holds the real rows, whole."""
    rng = np.random.default_rng(cell.seed)
    training = rng.random(len(table)) < TRAINING_SHARE
    rows = table.take(training)
    start = perf_counter()
    synthetic = None if cell.mechanism == REAL else synthesize(cell, rows)
    seconds = perf_counter() - start
    real, test = rows.decode(rng), table.take(~training).decode(rng)
    coded = table if synthetic is None else Pair.of(rows, synthetic, GROUPS).synthetic
    synthetic = real if synthetic is None else synthetic
    scores = score(
        real, synthetic, GROUPS, held_out=test, target=table.schema.target, classifiers=("random_forest",),
        baseline=False,
    )  # fmt: skip
    strata = scores.workload3_strata.values()
    return Line(
        **asdict(cell),
        seconds=round(seconds, 3),
        eighth=next(name for name in (ESP, NATIVITY) if name in table.schema.names),
        real_sums=_sums_as_json(rows),
        synthetic_sums=_sums_as_json(coded),
        parity_workload3_rac1p=parity_error(Pair.of(real, synthetic, ["RAC1P"]), statistic="workload3").value,
        parity_workload3_sex_rac1p=scores.workload3 / len(strata) + sum(strata),  # Definition 11 with ω = 1/k
        accuracy=scores.accuracy,
        demographic_parity_ratio=scores.dpr,
        fnr_difference=scores.fnr_diff,
    )


def synthesize(cell: Cell, rows: CodedTable) -> pd.DataFrame:
    """Make synthetic rows in the form that the cell names. Another implementation of a mechanism is another form."""
    mechanism = PaperMST() if cell.mechanism == "mst" and cell.form != "default" else cell.mechanism
    settings = {"epsilon": cell.epsilon, "delta": DELTA, "seed": cell.seed} | FORMS[cell.form]
    return StratifiedSynthesizer(mechanism, cell.columns, **settings).fit(rows).sample()


def _sums_as_json(table: CodedTable) -> str:
    """The sums of the columns that define no strata, in the order of `Line.parity`."""
    names = [name for name in (*COMMON, ESP, NATIVITY) if name in table.schema.names]
    sums = code_sums.sums_of(table, Strata.over(table.schema, GROUPS), names)
    return json.dumps(sums.tolist(), separators=(",", ":"))


@lru_cache(maxsize=1)
def _read(source: Source, eighth: str) -> CodedTable:
    columns = ("AGEP", "SCHL", "MAR", "DIS", eighth, "MIL", "DREM", *GROUPS, "ESR")  # in the paper's order
    schema = Schema.load("acs_employment").select(columns)
    return CodedTable.encode(source.read(schema.names), schema)
