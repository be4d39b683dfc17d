"""The grid of synthesizers in the paper: mechanism × strata × form × ε × seed.

Each cell is fitted, sampled and scored. The scores are exact and the noise is seeded, so the results are not private.
For each seed, 80 % of the rows are used for training, and they are the same for all mechanisms, strata, forms and ε.
The other 20 % are the test rows of the classifiers, which are not used by any synthesizer.

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

COMMON = ("AGEP", "SCHL", "MAR", "DIS", "MIL", "DREM", "ESR")  # the columns of every extract that do not define strata
GROUPS = ("SEX", "RAC1P")
ESP, NATIVITY = "ESP", "NATIVITY"  # the eighth column of the paper, and its replacement if an extract does not have it
VANILLA = "vanilla"
STRATA = (VANILLA, "SEX", "RAC1P", "SEX_RAC1P")
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
DELTA = 1e-9
TRAINING_SHARE = 0.8
REAL = "real"

# The settings of `StratifiedSynthesizer` for each form. In the paper, strata share neither selection nor estimates.
FORMS: dict[str, dict[str, Any]] = {
    VANILLA: {},
    "per-stratum": {"selection": "per-stratum", "shrinkage": False},
    "default": {},
}


@dataclass(frozen=True)
class Cell:
    """One cell of the grid.

    Attributes
    ----------
    mechanism : str
        "mst", "aim" or "gem". "real" is used for the training rows themselves.
    strata : str
        "vanilla", or the columns that define the strata, joined by "_".
    form : str
        "vanilla", "per-stratum" for the form of the paper, in which each stratum is fitted separately, or "default" for
        the form of equistrata.
    epsilon : float
        The privacy parameter ε at δ = 1e-9. It is infinite for "real".
    seed : int
        The seed of the training split and of all noise.
    """

    mechanism: str
    strata: str
    form: str
    epsilon: float
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that define the strata."""
        return () if self.strata == VANILLA else tuple(self.strata.split("_"))

    @property
    def arm(self) -> str:
        """The name of the variant in the paper, followed by "(default)" for the default form."""
        return self.strata + (" (default)" if self.form == "default" else "")


@dataclass(frozen=True)
class Line(Cell):
    """The result for one cell of the grid.

    Attributes
    ----------
    seconds : float
        The time for fitting and sampling.
    eighth : str
        The column in addition to `COMMON` and `GROUPS`.
    real_sums, synthetic_sums : str
        The sums of `code_sums` by SEX × RAC1P as JSON, for the training rows and for the synthetic rows. For "real",
        the second one is for all rows.
    parity_workload3_rac1p, parity_workload3_sex_rac1p : float
        The parity error of 3-way marginals by RAC1P, and by SEX × RAC1P.
    accuracy, demographic_parity_ratio, fnr_difference : float or None
        The scores of a classifier.
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
        """The parity error of the means for each column, as in the code of the paper, with sums over SEX × RAC1P."""
        return dict(zip((*COMMON, self.eighth), code_sums.column_errors(*self._sums).tolist(), strict=True))

    @property
    def maximum_disparity(self) -> float:
        """The score of Figure 7 (a), as in the code of the paper."""
        return code_sums.maximum_disparity(*self._sums)

    def score(self, name: str) -> float:
        """Return a score by its name.

        The name of a column refers to its parity error. For columns joined by "+", the parity errors are added.
        """
        columns = name.split("+")
        return sum(self.parity[each] for each in columns) if columns[0] in self.parity else float(getattr(self, name))

    @property
    def _sums(self) -> tuple[Counts, Counts]:
        """The sums of the columns in `parity` for the training rows and for the synthetic rows."""
        real, synthetic = (np.array(json.loads(text)) for text in (self.real_sums, self.synthetic_sums))
        return real, synthetic


def variants(mechanism: str, strata: Sequence[str], default: Sequence[str]) -> list[Cell]:
    """Return the variants of a mechanism, without ε and seed.

    There is one variant in the form of the paper for each element of `strata`, and one in the default form for each
    element of `default`.
    """
    paper = [Cell(mechanism, by, VANILLA if by == VANILLA else "per-stratum", math.nan, 0) for by in strata]
    return paper + [Cell(mechanism, by, "default", math.nan, 0) for by in default]


def grid(of: Sequence[Cell], epsilons: Sequence[float], seeds: int) -> Iterator[Cell]:
    """Yield the variants at every ε, ordered by seed, so that an interrupted grid is complete for its first seeds."""
    for seed, variant, epsilon in product(range(seeds), of, epsilons):
        yield replace(variant, epsilon=epsilon, seed=seed)


def real_rows(seeds: int) -> list[Cell]:
    """Return the cells for the training rows themselves, which show the best result that a classifier can reach."""
    return [Cell(REAL, VANILLA, VANILLA, math.inf, seed) for seed in range(seeds)]


def measure(cell: Cell, source: Source, eighth: str = NATIVITY) -> Line:
    """Fit, sample and score one cell of the grid on the rows of a source."""
    return measure_on(cell, _read(cast(Any, source), eighth))


def measure_on(cell: Cell, table: CodedTable) -> Line:
    """Fit, sample and score one cell of the grid. The table contains all real rows."""
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
        parity_workload3_sex_rac1p=scores.workload3 / len(strata) + sum(strata),  # as in Definition 11 with ω = 1/k
        accuracy=scores.accuracy,
        demographic_parity_ratio=scores.dpr,
        fnr_difference=scores.fnr_diff,
    )


def synthesize(cell: Cell, rows: CodedTable) -> pd.DataFrame:
    """Generate synthetic rows in the form of a cell.

    Another implementation of a mechanism is a separate form.
    """
    mechanism = PaperMST() if cell.mechanism == "mst" and cell.form != "default" else cell.mechanism
    settings = {"epsilon": cell.epsilon, "delta": DELTA, "seed": cell.seed} | FORMS[cell.form]
    return StratifiedSynthesizer(mechanism, cell.columns, **settings).fit(rows).sample()


def _sums_as_json(table: CodedTable) -> str:
    """Return the sums of the columns that do not define strata, in the order of `Line.parity`."""
    names = [name for name in (*COMMON, ESP, NATIVITY) if name in table.schema.names]
    sums = code_sums.sums_of(table, Strata.over(table.schema, GROUPS), names)
    return json.dumps(sums.tolist(), separators=(",", ":"))


@lru_cache(maxsize=1)
def _read(source: Source, eighth: str) -> CodedTable:
    columns = ("AGEP", "SCHL", "MAR", "DIS", eighth, "MIL", "DREM", *GROUPS, "ESR")  # in the order of the paper
    schema = Schema.load("acs_employment").select(columns)
    return CodedTable.encode(source.read(schema.names), schema)
