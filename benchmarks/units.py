"""One row, or a whole household: what it costs, and in which form of the unit.

    python -m benchmarks.units --root-dir ACS --state VT --mechanisms mst,aim --seeds 5
    python -m benchmarks.units --root-dir ACS --state NY --areas 6 --mechanisms mst

At the same ε: every row a unit; at most so many rows of a household, each counted in full; the same households, each
counted as one. Scores are against all rows, also those that the bound leaves out. A state is cut into areas of
neighbouring PUMAs, which stand in for small states. Every fit is a line of a CSV file, written as soon as it is known;
lines that are there are not made again. Seeded noise (not private): for measuring only.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import COLUMNS, add_rows
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable, code_dtype
from equistrata.data.units.bounding import chosen_rows
from equistrata.data.units.hashes import contents, unit_ids
from equistrata.data.units.unit import ROW, Unit
from equistrata.eval.scores.scores import score
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import noise_source
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.fitting import Fitting
from equistrata.synth.strata.model import rows_of_units
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE
from paper.lines import LineFile

STRATA, DELTA, HOUSEHOLD = ("SEX", "RAC1P"), 1e-9, "SERIALNO"
FORMS = ("row", "rows", "units")


@dataclass(frozen=True)
class Place:
    """One fit; `form` is "row" where each row is a unit, else what counts as one."""

    area: str
    mechanism: str
    at_most: int
    epsilon: float
    form: str
    seed: int


@dataclass(frozen=True)
class Line(Place):
    """A fit's scores against all rows of the area, how many these are, and its processor seconds."""

    rows: int
    parity: float
    parity_distance: float
    workload3: float
    workload3_by_stratum: float
    seconds: float


def areas_of(frame: pd.DataFrame, state: str, areas: int) -> dict[str, pd.DataFrame]:
    """The whole state for one area; else neighbouring PUMAs, about as many rows in each area."""
    if areas == 1:
        return {state: frame}
    rows = frame["PUMA"].value_counts().sort_index().cumsum()
    part = np.ceil(rows / rows.iloc[-1] * areas).astype(int)
    place = frame["PUMA"].map(part)
    return {f"{state} {i} of {areas}": frame[place == i] for i in range(1, areas + 1)}


def bounded(table: CodedTable, homes: pd.Series, unit: Unit) -> CodedTable:
    """As a release takes rows in: at most so many of each household, and how many, if households count as one."""
    if unit == ROW:
        return table
    key = b"units".ljust(32)
    ids = unit_ids(homes, HOUSEHOLD, key)
    chosen, sizes = chosen_rows(ids, contents(pd.DataFrame(table.codes), key), unit.at_most, key)
    schema = replace(table.schema, unit=unit)
    codes = table.codes
    if schema.modelled is not schema:
        codes = np.column_stack([codes, np.minimum(sizes, unit.at_most) - 1]).astype(code_dtype(schema.modelled))
    return CodedTable(codes[chosen], schema.modelled)


def measure(place: Place, frame: pd.DataFrame) -> Line:
    """Fit, draw as many rows as the model stands for, and score."""
    whole = CodedTable.encode(frame, Schema.load("acs_employment").select(COLUMNS))
    unit = ROW if place.form == "row" else Unit(HOUSEHOLD, place.at_most)
    unit = replace(unit, weights="units") if place.form == "units" else unit
    table, own = bounded(whole, frame[HOUSEHOLD], unit), mechanism(place.mechanism)
    strata, start = Strata.over(table.schema, STRATA), process_time()
    fitting = Fitting(own, strata, shared_selection(own, strata))
    rho = Rho.from_epsilon_delta(place.epsilon, DELTA) * Fraction(1, unit.synthesis_cost)
    _, model = fitting.fit(table, Budget(rho), rho * DEFAULT_COUNT_SHARE, noise_source(place.seed))
    seconds = process_time() - start
    drawn = rows_of_units(model).sample(None, np.random.default_rng(place.seed)).select(COLUMNS)
    scores = score(drawn, whole, STRATA, classifiers=())
    return Line(
        **asdict(place),
        rows=len(whole),
        parity=scores.parity_error,
        parity_distance=scores.parity_distance,
        workload3=scores.workload3,
        workload3_by_stratum=scores.workload3_by_stratum,
        seconds=round(seconds, 2),
    )


def main() -> None:
    """Make what the file lacks, and print means and standard errors."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.units", description=(__doc__ or "").splitlines()[0])
    add_rows(parser)
    parser.add_argument("--areas", type=int, default=1, help="cut the state into so many")
    parser.add_argument("--mechanisms", default="mst,aim")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--at-most", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/units.csv"))
    arguments = parser.parse_args()
    if not arguments.root_dir:
        parser.error("the embedded sample has no households; give --root-dir")
    source = FolktablesSource((arguments.state,), arguments.year, root_dir=arguments.root_dir)
    areas = areas_of(source.read([*COLUMNS, HOUSEHOLD, "PUMA"]), arguments.state, arguments.areas)
    file, console = LineFile(arguments.output, Place, Line), Console(highlight=False)
    done = file.read()
    wanted = [
        Place(area, name, arguments.at_most, arguments.epsilon, form, seed)
        for seed in range(arguments.seeds)
        for area in areas
        for name in arguments.mechanisms.split(",")
        for form in arguments.forms.split(",")
    ]
    for place in wanted:
        if place not in done:
            done[place] = measure(place, areas[place.area])
            file.append([done[place]])
    lines = pd.DataFrame([asdict(done[place]) for place in wanted])
    shown = Table("area", "mechanism", "form", "parity", "distance", "workload3", "by stratum")
    scores = ["parity", "parity_distance", "workload3", "workload3_by_stratum"]
    for key, part in lines.groupby(["area", "mechanism", "form"], sort=False):
        shown.add_row(*map(str, key), *(f"{part[name].mean():.3f} ± {part[name].sem():.3f}" for name in scores))
    console.print(shown)


if __name__ == "__main__":
    main()
