"""The grid can be stopped and started again."""

import subprocess
import sys
from dataclasses import replace

from benchmarks.grid import EPSILONS, STRATA, Cell, append, cells, finished, measure
from data.schema import Schema
from data.sources import SampleSource
from data.table import CodedTable


def test_the_default_grid_is_the_papers():
    grid = list(cells(["mst"], list(STRATA), list(EPSILONS), 5))
    assert len(grid) == len(set(grid)) == 5 * 4 * 6
    assert Cell("mst", "SEX_RAC1P", 0.01, 4) in grid


def test_a_line_that_was_written_is_not_made_again(tmp_path):
    schema = Schema.load("acs_employment").select(["AGEP", "MAR", "SEX", "RAC1P", "ESR"])
    table = CodedTable.encode(SampleSource().read(schema.names), schema)
    path, cell = tmp_path / "results" / "grid.csv", Cell("mst", "SEX", 1.0, 0)
    assert finished(path) == set()
    line = measure(cell, table, workers=1)
    append(path, line)
    assert finished(path) == {cell}
    with path.open("a") as file:
        file.write("mst,SEX,0.5,0,1.2")  # stopped in the middle of a line
    assert finished(path) == {cell}
    append(path, replace(line, epsilon=5.0))
    assert finished(path) == {cell, Cell("mst", "SEX", 5.0, 0)}


def test_help_says_what_it_is():
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.grid", "--help"], capture_output=True, text=True, check=True
    )
    assert "grid" in result.stdout
