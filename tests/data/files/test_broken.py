"""Tests that a damaged or very large file raises an error quickly, and that the error contains no cell."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.files import csv_files
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource, read_frame
from equistrata.data.table_check import check_table
from equistrata.errors import InputError

SECRET = "canary8675309"
SCHEMA = Schema.from_dict({"columns": {"SEX": {"values": [1, 2]}, "AGE": {"lower": 0, "upper": 99}}})


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_parquet_file_is_called_one(tmp_path: Path, seed: int) -> None:
    """Regression test: the error advised to check the permissions of the file."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"SEX": rng.integers(1, 3, 4000), "JOB": [SECRET] * 4000, "AGE": rng.random(4000)})
    path = tmp_path / "people.parquet"
    frame.to_parquet(path, compression=["snappy", "zstd", None][seed % 3])
    content = bytearray(path.read_bytes())
    for place in rng.integers(4, len(content) - 8, 12):
        content[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(content[: len(content) - int(rng.integers(0, 2) * rng.integers(1, 3000))]))
    said = ""
    try:
        read_frame(path)
    except InputError as error:
        said = str(error)
    assert SECRET not in said
    assert "permissions" not in said
    assert "\n" not in said


@pytest.mark.parametrize("line", [1, 2, 3, 9])
def test_a_line_that_would_fill_the_memory_is_refused(
    tmp_path: Path, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    with path.open("wb") as file:
        for number in range(1, 12):
            file.write(b"SEX,AGE\n" if number == 1 and line != 1 else b"1,2\n" if number != line else b"1,2 ")
            if number == line:
                for _ in range(64):
                    file.write(b"8675309 " * (1 << 17))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = (
        "first line of file 'people.csv' is too long for a header"
        if line == 1
        else f"line {line} is longer than 16 MiB"
    )
    with pytest.raises(InputError, match=told) as caught:
        FileSource(str(path)).read(["SEX", "AGE"])
    assert "8675309" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # in KiB. The line has 64 MiB


def test_rows_that_are_all_too_wide_are_told_by_their_lines(tmp_path: Path) -> None:
    """Regression test: the error said that the file has no rows."""
    (tmp_path / "people.csv").write_text("SEX,AGE\n1,5,\n2,6,\n")
    found = check_table(tmp_path / "people.csv", SCHEMA, SCHEMA.names)
    assert (found.rows, found.fits) == (0, False)
    assert "line 2 has 3 cells, but the header has 2; line 3 has 3 cells, but the header has 2" in found.of_file[0]
    (tmp_path / "people.csv").write_text("SEX,AGE\n")
    with pytest.raises(InputError, match="holds no rows"):
        check_table(tmp_path / "people.csv", SCHEMA, SCHEMA.names)
    assert csv_files.LONGEST_LINE == 1 << 24
