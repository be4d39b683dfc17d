"""The steps of an experiment, free of any orchestrator: rows rest in a private working folder; scores leave as lines and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.flows.run.guard import scrubbed
from equistrata.flows.run.workspace import Workspace
from paper import means as experiment_means
from paper import mixture as experiment_mixture
from paper import synthesizers as experiment_synthesizers
from paper.config import ExperimentConfig
from paper.curves import save
from paper.figures import pictures
from paper.grid import MEANS, MIXTURE, SYNTHESIZERS, Runs, Unit, files, runs_of

GRID, STRATA, OUTCOMES = "grid.npy", "strata.npy", "outcomes.npy"
SIMULATED = "simulated rows"


def check(config: ExperimentConfig) -> None:
    """Raise InputError unless the rows are there, if they are needed, and the output folder's runs are of the same rows."""
    runs = runs_of(config)
    if runs.reads_rows:
        rows = config.rows().describe()
        known = _rows_of(config.output)
        if known not in (None, rows):
            raise InputError(f"output {config.output!r} holds runs on {known}, not on {rows}; name another --output")
    for file in files(config.output).values():
        file.read()
    try:
        _runs_folder(config.output).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"output {config.output!r} cannot be written; name a folder that can, as --output") from None


@scrubbed
def load(config: ExperimentConfig, work: Workspace) -> None:
    """Read the rows that the figure's runs need, code them, and keep them in the working folder."""
    runs, source = runs_of(config), config.rows()
    if runs.cells.get(SYNTHESIZERS):
        schema = _grid_schema()
        work.append_table(work.root / GRID, CodedTable.encode(source.read(schema.names), schema))
    if runs.cells.get(MEANS):
        schema = Schema.load(experiment_means.SCHEMA)
        strata = schema.select(experiment_means.CODED)
        frame = source.read([*strata.names, *experiment_means.OUTCOMES])
        work.append_table(work.root / STRATA, CodedTable.encode(frame, strata))
        outcomes = experiment_means.read_outcomes(frame, schema)
        work.append(work.root / OUTCOMES, np.stack(list(outcomes.values()), axis=1))
    (_runs_folder(config.output) / "rows.json").write_text(json.dumps({"rows": source.describe()}) + "\n", "utf-8")


@scrubbed
def measure(unit: Unit, work: Workspace) -> list[Any]:
    """Make the runs of a unit: lines of exact scores. For a worker; the rows are read from the working folder."""
    if unit.kind == MIXTURE:
        return list(experiment_mixture.measure(unit.cells))
    if unit.kind == MEANS:
        schema = Schema.load(experiment_means.SCHEMA)
        table = work.load_table(work.root / STRATA, schema.select(experiment_means.CODED))
        found = work.load(work.root / OUTCOMES)
        outcomes = {name: np.asarray(found[:, i]) for i, name in enumerate(experiment_means.OUTCOMES)}
        return list(experiment_means.measure(unit.cells, table, outcomes, schema))
    table = work.load_table(work.root / GRID, _grid_schema())
    return [experiment_synthesizers.measure(cell, table, unit.classifiers) for cell in unit.cells]


def missing(config: ExperimentConfig, runs: Runs) -> list[Unit]:
    """What the output folder does not hold yet."""
    return runs.missing({kind: file.read() for kind, file in files(config.output).items()})


def keep(config: ExperimentConfig, unit: Unit, lines: Sequence[Any]) -> None:
    """Write lines down."""
    files(config.output)[unit.kind].append(lines)


@scrubbed
def draw(config: ExperimentConfig) -> list[Path]:
    """Draw the figure from the lines in the output folder; returns its files."""
    found = {kind: file.read() for kind, file in files(config.output).items()}
    rows = _rows_of(config.output) or SIMULATED
    return [path for picture in pictures(config, found, rows) for path in save(picture, Path(config.output))]


def _grid_schema() -> Schema:
    return Schema.load("acs_employment").select(experiment_synthesizers.COLUMNS)


def _runs_folder(output: str) -> Path:
    return Path(output) / "runs"


def _rows_of(output: str) -> str | None:
    """Of which rows the runs in an output folder are, if there are any."""
    try:
        told = json.loads((_runs_folder(output) / "rows.json").read_text("utf-8"))["rows"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"output {output!r} does not say of which rows its runs are; name another --output") from None
    return str(told)
