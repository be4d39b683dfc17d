"""From settings to the files of a figure: read the rows, make the runs that the output folder lacks, draw.

Nothing here is private: rows are public use or simulated, scores are exact, and noise comes from seeds. Every run is
written down as soon as it is known, so a figure that was stopped goes on where it was.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource, SampleSource, Source
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from paper import means, mixture, synthesizers
from paper.curves import save
from paper.figures import pictures
from paper.grid import MEANS, MIXTURE, SYNTHESIZERS, FigureSettings, Unit, files, runs_of

SIMULATED = "simulated rows"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rows:
    """The rows that runs need, read and coded once; the mixture needs none."""

    source: Source

    @cached_property
    def grid(self) -> CodedTable:
        """The columns that are synthesized."""
        schema = Schema.load("acs_employment").select(synthesizers.COLUMNS)
        return CodedTable.encode(self.source.read(schema.names), schema)

    @cached_property
    def outcomes(self) -> tuple[CodedTable, dict[str, Floats], Schema]:
        """The columns of the strata; the columns whose means are estimated, by name; and the schema of both."""
        schema = Schema.load(means.SCHEMA)
        frame = self.source.read([*means.CODED, *means.OUTCOMES])
        return CodedTable.encode(frame, schema.select(means.CODED)), means.read_outcomes(frame, schema), schema

    def read(self, kinds: Collection[str]) -> Rows:
        """Itself, with what these kinds of runs need in memory, so that a copy in another process has it too."""
        for kind, part in ((SYNTHESIZERS, "grid"), (MEANS, "outcomes")):
            if kind in kinds:
                getattr(self, part)
        return self


def rows_of(settings: FigureSettings) -> Rows:
    """Where the rows are from. Raises InputError, with the way out, if they are not there."""
    if settings.source == "sample":
        return Rows(SampleSource())
    source = FolktablesSource((settings.state,), settings.year, root_dir=settings.root_dir, download=settings.download)
    try:
        source.check(())
    except InputError as error:
        raise InputError(f"{error}; or try --source sample, the simulated rows that come along") from None
    return Rows(source)


def measure(unit: Unit, rows: Rows) -> list[Any]:
    """Make the runs of a unit: lines of exact scores."""
    if unit.kind == MIXTURE:
        return list(mixture.measure(unit.cells))
    if unit.kind == MEANS:
        return list(means.measure(unit.cells, *rows.outcomes))
    return [synthesizers.measure(cell, rows.grid, unit.classifiers) for cell in unit.cells]


def make_figure(settings: FigureSettings, progress: Progress = lambda done, of: None) -> list[Path]:
    """Make the runs that a figure needs and its output folder lacks, and draw it.

    Args:
        progress: is called with the number of parts that are done and that are needed.

    Returns:
        The files of the figure.

    Raises:
        InputError: the rows are not there, or the folder is in use, cannot be written or holds runs on other rows.
    """
    needed = runs_of(settings)
    rows = check(settings)
    with _alone(settings):
        kept = files(settings.output)
        units = needed.missing({kind: file.read() for kind, file in kept.items()})
        if units and rows is not None:
            rows.read({unit.kind for unit in units})
            _note_of(settings).write_text(json.dumps({"rows": rows.source.describe()}) + "\n", "utf-8")
        progress(0, len(units))
        for done, (unit, lines) in enumerate(_measured(units, rows, settings.processes), start=1):
            kept[unit.kind].append(lines)
            progress(done, len(units))
        found = {kind: file.read() for kind, file in kept.items()}
        drawn = pictures(settings, found, _rows_noted(settings) or SIMULATED)
        return [path for picture in drawn for path in save(picture, Path(settings.output))]


def check(settings: FigureSettings) -> Rows | None:
    """The rows, if the figure needs any. Raises InputError as `make_figure` does, and makes the output folder."""
    rows = rows_of(settings) if runs_of(settings).reads_rows else None
    if rows is not None:
        noted, named = _rows_noted(settings), rows.source.describe()
        if noted not in (None, named):
            raise InputError(f"output {settings.output!r} holds runs on {noted}, not on {named}; name another --output")
    for file in files(settings.output).values():
        file.read()
    try:
        _note_of(settings).parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"output {settings.output!r} cannot be written; name a folder that can, as --output") from None
    return rows


def _measured(units: Sequence[Unit], rows: Rows | None, workers: int) -> Iterator[tuple[Unit, list[Any]]]:
    """Each unit and its lines, as soon as they are known. Workers start clean and get the rows once."""
    given = rows or Rows(SampleSource())
    if min(workers, len(units)) <= 1:
        yield from ((unit, measure(unit, given)) for unit in units)
        return
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(min(workers, len(units)), initializer=_give, initargs=(given,))
    try:
        futures = {pool.submit(_measure_given, unit): unit for unit in units}
        yield from ((futures[future], future.result()) for future in as_completed(futures))
    finally:
        pool.shutdown(wait=True, kill_workers=True)


_given: list[Rows] = []  # of a worker process


def _give(rows: Rows) -> None:
    _given[:] = [rows]


def _measure_given(unit: Unit) -> list[Any]:
    return measure(unit, *_given)


@contextmanager
def _alone(settings: FigureSettings) -> Iterator[None]:
    """Keep other processes from writing to the same folder. The lock ends with this process, however that ends."""
    with (_note_of(settings).parent / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another run is writing to {settings.output!r}; wait for it, or name another --output"
            ) from None
        yield


def _note_of(settings: FigureSettings) -> Path:
    return Path(settings.output) / "runs" / "rows.json"


def _rows_noted(settings: FigureSettings) -> str | None:
    """Which rows the runs in the output folder are of, if there are any."""
    try:
        return str(json.loads(_note_of(settings).read_text("utf-8"))["rows"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"output {settings.output!r} does not say of which rows its runs are; name another --output"
        ) from None
